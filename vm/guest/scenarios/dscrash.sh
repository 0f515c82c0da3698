# Work during which the host kills data servers (kill -9), which are started again: no error reaches a program, nothing
# that was synced is lost, and everything written is there in the end.
. /run/job/guest/lib.sh
scenario dscrash
check python3 "$LIB/dscrash.py" "$WORK"
rm -f /dev/shm/source?
pass
