# Several connections of one client: nconnect, and a second address of the MDS. The host records which connection carries
# which session, and kills the MDS (kill -9) in the middle of work.
. /run/job/guest/lib.sh
: "${NCONNECT:=4}" "${SECOND:=192.0.2.2}"
NAME=trunks
trap 'finish $?' EXIT
signal booted
await ready || fail "the host is not ready"
several=nconnect=$NCONNECT,max_connect=$NCONNECT,rsize=65536,wsize=65536
scenario trunks "$several"
check python3 "$LIB/trunks.py" "$WORK" 0
check python3 "$LIB/trunks.py" "$WORK" 1 kill
# The client finds that this is the server that it has, and adds the address to the connections of that.
MNT2=$MNT.second
(SERVER=$SECOND && mount_at "$MNT2" "$several") || fail "cannot mount by the second address"
check python3 "$LIB/trunks.py" "$MNT2/${WORK##*/}" 2
pass
signal over
