# A cluster of ours serves in this guest over rdma-core, and the guest's kernel mounts it over RDMA: asserts that RDMA it is
# on every connection, writes files, reads them back past the cache, and goes on after every server was killed.
. /run/job/guest/lib.sh
SERVER=$GUEST_IP PORT=20049 PROTO=rdma NAME=nfs
export SERVER PORT
trap 'finish $?' EXIT
# siw holds root to the limit of locked memory too.
ulimit -l unlimited
STATE=/run/cluster
"$ROPEWALK" up --ds 2 --dir $STATE --transport rdma --rdma-provider verbs --listen "$GUEST_IP" \
    --export "$GUEST_IP/32:rw:none" >/run/up.log 2>&1 &
UP=$!
tries=600
until grep -q 'ropewalk is ready' /run/up.log; do
    tries=$((tries - 1))
    kill -0 $UP 2>/dev/null && [ $tries -gt 0 ] || {
        sed 's/^/# /' /run/up.log $STATE/*/log
        fail "the cluster does not start"
    }
    sleep 0.2
done
"$ROPEWALK" rdma | sed 's/^/# /'
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
grep -h -E 'WARN|ERROR' $STATE/*/log | tail -n 20 | sed 's/^/# /'
dmesg | grep -E 'siw|rxe|rpcrdma|BUG|WARNING' | grep -v 'taints kernel\|verification failed' | sed 's/^/# /'
pass
kill $UP
wait $UP
