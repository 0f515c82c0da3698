# What `capture` records of NLM and NSM: locks by NFSv3 beside those of NFSv4, with waits that end well and one that is given up.
. /run/job/guest/lib.sh
scenario nlm noac,lookupcache=none
MNT2=$MNT.v3
mkdir -p "$MNT2"
load_nfs3
rpc_daemons || fail "rpcbind or rpc.statd does not start"
LOCKS=lock mount_v3 "$MNT2" || fail "cannot mount with vers=3"
check python3 "$LIB/locks.py" "$WORK" "$MNT2/${WORK##*/}"
pass
