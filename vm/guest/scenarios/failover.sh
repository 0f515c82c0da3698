# Work on a cluster with two copies during which data servers fail in four ways, the last one for good: no error reaches a
# program, each byte is there, and files opened afterwards are at data servers. The host starts a second kernel (ROLE=1),
# which works beside the first; the first compares what it wrote, and cleans up.
. /run/job/guest/lib.sh
: "${FAILOVER_ROUNDS:=1}" "${ROLE:=0}"
if [ "$ROLE" = 1 ]; then
    NAME=failover
    trap 'finish $?' EXIT
    mount_at "$MNT" || fail "cannot mount"
    WORK=$MNT/ropewalk-failover-$VERS
else
    scenario failover
fi
check python3 "$LIB/failover.py" "$WORK" "$FAILOVER_ROUNDS" "$ROLE"
rm -f /dev/shm/source?
if [ "$ROLE" = 1 ]; then
    unmount "$MNT" || fail "cannot unmount"
    VERDICT=passed
    echo "ok failover"
    exit 0
fi
pass
