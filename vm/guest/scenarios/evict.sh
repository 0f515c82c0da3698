# An administrator evicts this client while it writes with a lock and without one. What had no lock goes on; what had one does not
# go on without it; and the mount is usable after it.
. /run/job/guest/lib.sh
scenario evict
second_client
check python3 "$LIB/evict.py" "$WORK" "$WORK2"
pass
