# What df asks for: sizes that make sense, and room that a file takes.
. /run/job/guest/lib.sh
scenario df
check python3 "$LIB/df.py" "$WORK"
pass
