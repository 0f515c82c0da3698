# Fills a small store to the brim, and its disk beyond that: programs see ENOSPC and nothing else, what was there is
# there, removal gives room back. The host has the disk that the store is on.
. /run/job/guest/lib.sh
scenario full
: "${DISK_MIB:=512}"
check python3 "$LIB/full.py" "$WORK" "$DISK_MIB"
pass
