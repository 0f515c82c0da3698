# The server of this kernel (knfsd) holds data beside two nfs-ganesha: by stripes over all three, and as one of three mirrors. It
# stops in the middle of a write and starts again. Its client is this kernel too, and it talks to it over the network.
. /run/job/guest/lib.sh
: "${FOREIGN_MIB:=16}"
NAME=foreignknfsd
trap 'finish $?' EXIT
EXPORTED=/srv/far
# A client in the same kernel would pass the server by.
echo N >/sys/module/nfs/parameters/localio_enabled 2>/dev/null
rpc_daemons || fail "cannot start rpcbind"
mkdir -p "$EXPORTED" /var/lib/nfs/v4recovery && mount -t tmpfs -o size=192m far "$EXPORTED" || fail "no place to export"
chmod 711 "$EXPORTED"
touch /var/lib/nfs/etab /var/lib/nfs/rmtab
modprobe nfsd && mount -t nfsd nfsd /proc/fs/nfsd || fail "no knfsd in this kernel"
check exportfs -i -o rw,no_root_squash,insecure,no_subtree_check,fsid=7 "192.0.2.0/24:$EXPORTED"
check rpc.nfsd -V 3 -N 4 8
check rpc.mountd -N 4 -p 20048
signal exported
scenario foreignknfsd
TOP=$MNT
await added || fail "the host did not add this server"
layout() {
    python3 -c '
import os, sys
os.setxattr(sys.argv[1], "user.ropewalk.layout", sys.argv[2].encode())' "$1" "$2"
}
head -c $((FOREIGN_MIB * 1048576 + 4321)) /dev/urandom >/dev/shm/data

# makes a tree, has the kernel look at it anew, and writes and reads a file by layouts.
tree() {
    DIR=$WORK/$1
    mkdir "$DIR" || fail "cannot make a directory"
    check layout "$DIR" "$2"
    echo 3 >/proc/sys/vm/drop_caches
    touch "$DIR/first" || fail "cannot make a file"
    cp /dev/shm/data "$DIR/data" && sync -f "$DIR/data" || fail "cannot write"
    echo 3 >/proc/sys/vm/drop_caches
    cmp /dev/shm/data "$DIR/data" || fail "read back other bytes than were written"
    MNT=$DIR
    check python3 "$LIB/mountstats.py" "$MNT" layouts
    [ "$(operations by-layout)" -gt 0 ] || fail "no layout was used"
    [ "$(operations by-mds)" -eq 0 ] || fail "$(operations by-mds) READs and WRITEs went to the MDS"
    MNT=$TOP
    check python3 "$LIB/fsx.py" "$DIR/fsx" --ops 200 --seed "${FSX_SEED:-1}" --size 1048576
}

# clear_tree: removes the tree. A look at its top would mount it again.
clear_tree() {
    rm -rf "${DIR:?}"/* || fail "cannot empty the tree"
    unmount "$DIR" || fail "cannot unmount the tree"
    rmdir "$DIR" || fail "cannot remove the top of the tree"
}

# here KIB: whether this server has so much.
here() {
    has=$(du -sk "$EXPORTED" | cut -f 1)
    echo "# this server has $has KiB"
    [ "$has" -ge "$1" ] || fail "this server has only $has KiB"
}

tree stripes "servers=nfs3 stripe_count=3 stripe_unit=64KiB mirrors=1"
here $((FOREIGN_MIB * 1024 / 4))
clear_tree
tree mirrors "servers=nfs3 mirrors=3"
here $((FOREIGN_MIB * 1024))

# It stops in the middle of a write.
for part in 1 2 3 4; do
    [ "$part" = 2 ] && check rpc.nfsd 0
    dd if=/dev/shm/data of="$DIR/slow" bs=1M count=4 skip=$((part * 2)) seek=$((part * 2)) conv=notrunc,fsync 2>/dev/null ||
        fail "a write ended with an error while this server was stopped"
done
check rpc.nfsd -V 3 -N 4 8
signal written
await level || fail "the servers of others did not become level"
echo 3 >/proc/sys/vm/drop_caches
python3 - "$DIR/slow" /dev/shm/data <<'EOF' || fail "other bytes after the server came back"
import sys
part = slice(2 << 20, 12 << 20)
far, near = (open(name, "rb").read()[part] for name in sys.argv[1:])
sys.exit(far != near)
EOF
cmp /dev/shm/data "$DIR/data" || fail "an older file has other bytes"
rm -f /dev/shm/data
clear_tree
pass
