# One directory by NFSv3, NFSv4.0, NFSv4.1 and NFSv4.2, four clients in one guest: what each one writes, locks and is delegated, each
# other one finds.
. /run/job/guest/lib.sh
apart=nosharecache,actimeo=0,lookupcache=none
scenario versions "$apart"
load_nfs3
rpc_daemons || fail "rpcbind or rpc.statd does not start"
mkdir -p "$MNT.3"
LOCKS=lock mount_v3 "$MNT.3" || fail "cannot mount with vers=3"
for other in 4.0 4.1 4.2; do
    [ "$other" != "$VERS" ] || continue
    (VERS=$other && mount_at "$MNT.$other" "$apart") || fail "cannot mount with vers=$other"
done
work=${WORK##*/}
set -- "3=$MNT.3/$work" "$VERS=$WORK"
for other in 4.0 4.1 4.2; do
    [ "$other" = "$VERS" ] || set -- "$@" "$other=$MNT.$other/$work"
done
check python3 "$LIB/versions.py" "$@"
pass
