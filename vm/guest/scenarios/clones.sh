# Two machines of one host name, which the server takes for one client that starts again and again: each ends the other's
# sessions. Both make files for a while, and every file that was closed is whole.
#
# Linux puts an identifier before its host name. Clients that share a name get no layouts for ten minutes: scenarios that come
# later are another client.
. /run/job/guest/lib.sh
NAME=clones
IDENTIFIER=/sys/fs/nfs/net/nfs_client/identifier
trap 'finish $?' EXIT
echo "clones-$VERS" >$IDENTIFIER || fail "cannot set $IDENTIFIER"
mount_at "$MNT" || fail "cannot mount"
check python3 "$LIB/clones.py" "$MNT/ropewalk-clones-$VERS" "${ROLE:-0}" "$CLONES_S"
unmount "$MNT" || fail "cannot unmount"
echo "later-$VERS" >$IDENTIFIER
VERDICT=passed
echo "ok $NAME"
