# Two machines of one host name, which the server takes for one client that starts again and again: each ends the other's
# sessions. Both make files for a while, and every file that was closed is whole.
. /run/job/guest/lib.sh
NAME=clones
trap 'finish $?' EXIT
mount_at "$MNT" || fail "cannot mount"
check python3 "$LIB/clones.py" "$MNT/ropewalk-clones-$VERS" "${ROLE:-0}" "$CLONES_S"
unmount "$MNT" || fail "cannot unmount"
VERDICT=passed
echo "ok $NAME"
