# Two guests, two clients: ROLE 0 makes a file and locks it; ROLE 1 is refused while it is locked,
# gets the lock when it is free, and reads what the other wrote last.
. /run/job/guest/lib.sh
NAME=pair
trap 'finish $?' EXIT
mount_at "$MNT" || fail "cannot mount"
check python3 "$LIB/pair.py" "$ROLE" "$MNT/ropewalk-pair"
umount -i "$MNT" || fail "cannot unmount"
VERDICT=passed
echo "ok $NAME"
