# Byte-range locks by NFSv3 (NLM) and by NFSv4 on one directory: each sees those of the other, a wait ends when the other unlocks,
# and locks of NFSv3 live on when the server is killed.
. /run/job/guest/lib.sh
scenario nfs3locks noac,lookupcache=none
MNT2=$MNT.v3
mkdir -p "$MNT2"
load_nfs3
rpc_daemons || fail "rpcbind or rpc.statd does not start"
LOCKS=lock mount_v3 "$MNT2" || fail "cannot mount with vers=3"
WORK2=$MNT2/${WORK##*/}
check python3 "$LIB/locks.py" "$WORK2" "$WORK"
check python3 "$LIB/locks.py" "$WORK" "$WORK2"
check python3 "$LIB/nfs3locks.py" "$WORK2" "$WORK"
pass
