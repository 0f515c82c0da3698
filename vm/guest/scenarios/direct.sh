# O_DIRECT over holes, at the end of the file and beyond it, aligned and not.
. /run/job/guest/lib.sh
scenario direct
check python3 "$LIB/direct.py" "$WORK"
pass
