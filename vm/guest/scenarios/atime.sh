# Reads move access times sparingly, and both clients see the same ones.
. /run/job/guest/lib.sh
scenario atime
second_client
check python3 "$LIB/atime.py" "$WORK" "$WORK2"
pass
