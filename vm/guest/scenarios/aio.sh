# Asynchronous direct writes that lengthen a file: its size counts in what has completed.
. /run/job/guest/lib.sh
scenario aio
check python3 "$LIB/aio.py" "$WORK"
pass
