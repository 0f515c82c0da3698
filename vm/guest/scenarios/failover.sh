# Work on a cluster with two copies during which data servers fail in four ways, the last one for good: no error reaches a
# program, each byte is there, and files opened afterwards are at data servers.
. /run/job/guest/lib.sh
: "${FAILOVER_ROUNDS:=1}"
scenario failover
check python3 "$LIB/failover.py" "$WORK" "$FAILOVER_ROUNDS"
rm -f /dev/shm/source?
pass
