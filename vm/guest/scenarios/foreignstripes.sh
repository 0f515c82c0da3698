# Files cut into stripes over two NFSv3 servers of others, by flexible file layouts: Linux from 6.18 on writes and reads each
# stripe at its server by itself.
. /run/job/guest/lib.sh
: "${FOREIGN_MIB:=16}"
scenario foreignstripes
TOP=$MNT
await added || fail "the host added no server of others"
DIR=$WORK/far
layout() {
    python3 -c '
import os, sys
os.setxattr(sys.argv[1], "user.ropewalk.layout", sys.argv[2].encode())' "$1" "$2"
}
mkdir "$DIR" || fail "cannot make a directory"
check layout "$DIR" "servers=nfs3 stripe_count=2 stripe_unit=64KiB mirrors=1"
# The client has seen the directory before it was the top of a tree. It looks anew.
echo 3 >/proc/sys/vm/drop_caches
touch "$DIR/first" || fail "cannot make a file"

head -c $((FOREIGN_MIB * 1048576 + 4321)) /dev/urandom >/dev/shm/data
cp /dev/shm/data "$DIR/data" && sync -f "$DIR/data" || fail "cannot write"
echo 3 >/proc/sys/vm/drop_caches
exec 9<"$DIR/data"
cmp /dev/shm/data "$DIR/data" || fail "read back other bytes than were written"
MNT=$DIR
check python3 "$LIB/mountstats.py" "$MNT" layouts
[ "$(operations by-layout)" -gt 0 ] || fail "no layout was used"
[ "$(operations by-mds)" -eq 0 ] || fail "$(operations by-mds) READs and WRITEs went to the MDS"
check python3 "$LIB/dstraffic.py" "$SERVER:$PORT" 2 "$FOREIGN_MIB"
exec 9<&-
MNT=$TOP

check cp -a "$LIB" "$DIR/copy"
check diff -r "$LIB" "$DIR/copy"
check python3 "$LIB/fsx.py" "$DIR/fsx" --ops 300 --seed "${FSX_SEED:-1}" --size 1048576
truncate -s 100000 "$DIR/data" && truncate -s 300000 "$DIR/data" || fail "cannot truncate"
truncate -s 100000 /dev/shm/data && truncate -s 300000 /dev/shm/data
echo 3 >/proc/sys/vm/drop_caches
cmp /dev/shm/data "$DIR/data" || fail "other bytes after truncations"
rm -f /dev/shm/data
rm -rf "${DIR:?}"/* || fail "cannot empty the tree"
unmount "$DIR" || fail "cannot unmount the tree"
rmdir "$DIR" || fail "cannot remove the top of the tree"
pass
