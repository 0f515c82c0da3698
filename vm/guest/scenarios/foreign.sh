# A directory on two NFSv3 servers of others, two mirrors of each file: writes and reads go to them by flexible file layouts. The
# host kills one in the middle of a write and starts it again: no error reaches a program, and each byte is there in the end.
. /run/job/guest/lib.sh
: "${FOREIGN_MIB:=48}"
scenario foreign
TOP=$MNT
load_nfs3
await added || fail "the host added no server of others"
DIR=$WORK/far
# layout DIR VALUE: sets the layout of a directory, and shows it.
layout() {
    python3 -c '
import os, sys
name = "user.ropewalk.layout"
os.setxattr(sys.argv[1], name, sys.argv[2].encode())
print(os.getxattr(sys.argv[1], name).decode())' "$1" "$2"
}
mkdir "$DIR" || fail "cannot make a directory"
check layout "$DIR" "servers=nfs3 mirrors=2"
mkdir "$WORK/near" && touch "$WORK/near/file" || fail "cannot make a file beside it"
layout "$WORK/near" servers=nfs3 2>/dev/null && fail "a directory with entries changed its servers"
# The client has seen the directory before it was the top of a tree. It looks anew, and mounts the tree by itself.
echo 3 >/proc/sys/vm/drop_caches
mv -n "$WORK/near/file" "$DIR/file" && [ -e "$DIR/file" ] || fail "mv does not copy into the directory"

# All by layouts.
head -c $((FOREIGN_MIB * 1048576 + 4321)) /dev/urandom >/dev/shm/data
cp /dev/shm/data "$DIR/data" && sync -f "$DIR/data" || fail "cannot write"
echo 3 >/proc/sys/vm/drop_caches
exec 9<"$DIR/data"
cmp /dev/shm/data "$DIR/data" || fail "read back other bytes than were written"
grep -q " $DIR nfs4 " /proc/mounts || fail "the tree is no file system of its own"
MNT=$DIR
check python3 "$LIB/mountstats.py" "$MNT" layouts
layout_type=$(python3 "$LIB/mountstats.py" "$MNT" | python3 -c 'import json, sys; print(json.load(sys.stdin)["layout_type"])')
[ "$layout_type" = LAYOUT_FLEX_FILES ] || fail "the layout type is $layout_type"
[ "$(operations by-layout)" -gt 0 ] || fail "no layout was used"
[ "$(operations GETDEVICEINFO)" -gt 1 ] || fail "fewer than two devices were asked for"
[ "$(operations by-mds)" -eq 0 ] || fail "$(operations by-mds) READs and WRITEs went to the MDS"
exec 9<&-
MNT=$TOP

# Programs.
check cp -a "$LIB" "$DIR/copy"
check diff -r "$LIB" "$DIR/copy"
check python3 "$LIB/fsx.py" "$DIR/fsx" --ops 500 --seed "${FSX_SEED:-1}" --size 1048576

# A server dies in the middle of a write.
(
    for part in 1 2 3 4 5 6 7 8; do
        dd if=/dev/shm/data of="$DIR/slow" bs=1M count=4 skip=$((part * 4)) seek=$((part * 4)) conv=notrunc,fsync 2>/dev/null ||
            exit 1
        [ "$part" = 2 ] && signal writing
        [ "$part" = 3 ] && { await killed || exit 1; }
        sleep 0.2
    done
) || fail "a write ended with an error while a server was gone"
echo 3 >/proc/sys/vm/drop_caches
compare() {
    python3 - "$DIR/slow" /dev/shm/data <<'EOF' || fail "$1"
import sys
part = slice(4 << 20, 36 << 20)
far, near = (open(name, "rb").read()[part] for name in sys.argv[1:])
sys.exit(far != near)
EOF
}
compare "read back other bytes than were written while a server was gone"
check cp /dev/shm/data "$DIR/new"
cmp /dev/shm/data "$DIR/data" || fail "an older file has other bytes while a server is gone"
signal written
await level || fail "the servers of others did not become level"
echo 3 >/proc/sys/vm/drop_caches
compare "other bytes after the server came back"
cmp /dev/shm/data "$DIR/new" || fail "a new file has other bytes after the server came back"
cmp /dev/shm/data "$DIR/data" || fail "an older file has other bytes after the server came back"
check diff -r "$LIB" "$DIR/copy"
rm -f /dev/shm/data
# A look at the directory would mount it again.
rm -rf "${DIR:?}"/* || fail "cannot empty the tree"
unmount "$DIR" || fail "cannot unmount the tree"
rmdir "$DIR" || fail "cannot remove the top of the tree"
pass
