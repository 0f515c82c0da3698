# A cluster of ours serves in this guest over rdma-core, and the guest's kernel mounts it over RDMA: asserts that RDMA it is
# on every connection, writes files, reads them back past the cache, gives back what is called back for another client, and
# goes on after every server was killed.
. /run/job/guest/rdma/cluster.sh
NAME=nfs
start "$GUEST_IP"
check "$ROPEWALK" status --dir $STATE
grep -q "^NFS over RDMA: software RDMA devices of the kernel" /tmp/check.out || fail "the status does not say so"

scenario nfs
grep -q " $MNT nfs4 .*vers=$VERS,.*proto=rdma,port=$PORT," /proc/mounts || fail "not mounted with vers=$VERS over RDMA"
check python3 "$LIB/siw/files.py" "$WORK" write
sync -f "$WORK"
echo 3 >/proc/sys/vm/drop_caches
# Descriptors held open keep layouts, and so the connections, while they are looked at.
exec 9<"$WORK/large"
check python3 "$LIB/siw/files.py" "$WORK" read
[ "$(operations by-layout)" -gt 0 ] || fail "no layout was used"
check python3 "$LIB/siw/transports.py" "$MNT" "$SERVER" "$PORT" rdma

# The same tree by NFSv3 over RDMA (RFC 8166, 8267). MOUNT goes over TCP, as mount.nfs does it.
modprobe nfsv3
mkdir -p "$MNT.v3" "$WORK/by-v3"
MOUNT_PORT=2049 PROTO3=rdma mount_v3 "$MNT.v3" || fail "cannot mount with vers=3 over RDMA"
grep -q " $MNT.v3 nfs .*vers=3,.*proto=rdma,port=$PORT," /proc/mounts || fail "not mounted with vers=3 over RDMA"
check python3 "$LIB/siw/files.py" "$MNT.v3/${WORK##*/}" read
check python3 "$LIB/siw/files.py" "$MNT.v3/${WORK##*/}/by-v3" write
sync -f "$MNT.v3"
echo 3 >/proc/sys/vm/drop_caches
check python3 "$LIB/siw/files.py" "$MNT.v3/${WORK##*/}/by-v3" read
check python3 "$LIB/siw/files.py" "$WORK/by-v3" read
unmount "$MNT.v3" || fail "cannot unmount what was mounted with vers=3"

mkdir "$WORK/recalls" || fail "cannot make a directory"
since=$(date +%s)
check env "STATE=$STATE" python3 "$LIB/rdma/recalls.py" "$WORK/recalls" "$MNT" \
    "nfs://$SERVER/${WORK##*/}/recalls/?transport=rdma"
echo "# called back and gone on after $(($(date +%s) - since)) s"

# Every server dies; `up` starts them again, and the kernel connects anew.
for server in mds ds-1 ds-2; do
    pid=$("$ROPEWALK" status --dir $STATE/$server --json | python3 -c '
import json, sys
print(next(iter(json.load(sys.stdin).values()))["pid"])')
    kill -9 "$pid" || fail "$server cannot be killed"
done
echo "after the kill" >"$WORK/after" || fail "cannot write after every server was killed"
sync -f "$WORK"
echo 3 >/proc/sys/vm/drop_caches
check python3 "$LIB/siw/files.py" "$WORK" read
[ "$(cat "$WORK/after")" = "after the kill" ] || fail "what was written after the kill is wrong"
check python3 "$LIB/siw/transports.py" "$MNT" "$SERVER" "$PORT" rdma
exec 9<&-
pass
stop
