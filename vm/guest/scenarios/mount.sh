# Mounts, writes, reads back past the cache, and shows what the mount did.
. /run/job/guest/lib.sh
scenario mount
grep -q " $MNT nfs4\\? .*vers=$VERS" /proc/mounts || fail "not mounted with vers=$VERS"
dd if=/dev/urandom of=/tmp/data bs=1M count=8 2>/dev/null
cp /tmp/data "$WORK/data" || fail "cannot write 8 MiB"
sync
echo 3 >/proc/sys/vm/drop_caches
cmp /tmp/data "$WORK/data" || fail "read back other bytes than were written"
made=$(($(operations OPEN) + $(operations OPEN_NOATTR) + $(operations CREATE)))
[ "$made" -gt 0 ] || fail "neither OPEN nor CREATE was sent"
check python3 "$LIB/mountstats.py" "$MNT"
check python3 "$LIB/mountstats.py" "$MNT" layouts
pass
