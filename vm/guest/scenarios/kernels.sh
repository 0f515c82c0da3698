# Two kernels, each a client of its own, change files around the limit of inline files in turn. The host starts the second
# one (ROLE=1); the first cleans up when both are done.
. /run/job/guest/lib.sh
NAME=kernels
trap 'finish $?' EXIT
mount_at "$MNT" || fail "cannot mount"
WORK=$MNT/ropewalk-kernels-$VERS
check python3 "$LIB/kernels.py" "${ROLE:=0}" "$WORK"
if [ "$ROLE" = 1 ]; then
    unmount "$MNT" || fail "cannot unmount"
    VERDICT=passed
    echo "ok kernels"
    exit 0
fi
await second || fail "the second kernel did not end"
pass
