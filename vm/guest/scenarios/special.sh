# Special files, modes, owners, groups, hard links, symbolic links, times, names.
. /run/job/guest/lib.sh
scenario special
check python3 "$LIB/special.py" "$WORK"
pass
