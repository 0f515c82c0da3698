# Mounts over RDMA, asserts that RDMA it is, writes files of many sizes, and reads them back past the cache.
# DATA is the transport that data servers are reached by, none when LAYOUTS=no.
. /run/job/guest/lib.sh
: "${DATA:=rdma}" "${LAYOUTS:=yes}"
scenario nfs
grep -q " $MNT nfs4 .*vers=$VERS,.*proto=rdma,port=$PORT," /proc/mounts || fail "not mounted with vers=$VERS over RDMA"
check python3 "$LIB/siw/files.py" "$WORK" write
sync -f "$WORK"
echo 3 >/proc/sys/vm/drop_caches
# Descriptors held open keep layouts, and so the connections, while they are looked at.
exec 9<"$WORK/large"
check python3 "$LIB/siw/files.py" "$WORK" read
check python3 "$LIB/mountstats.py" "$MNT" layouts
if [ "$LAYOUTS" = no ]; then
    [ "$(operations by-layout)" -eq 0 ] || fail "a layout was used"
else
    [ "$(operations by-layout)" -gt 0 ] || fail "no layout was used"
fi
check python3 "$LIB/siw/transports.py" "$MNT" "$SERVER" "$PORT" "$DATA"
exec 9<&-
dmesg | grep -E 'siw|rpcrdma|BUG|WARNING' | grep -v 'taints kernel\|verification failed' | sed 's/^/# /'
pass
