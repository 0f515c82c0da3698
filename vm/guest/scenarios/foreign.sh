# A directory on two NFSv3 servers of others, two mirrors of each file: writes and reads go to them by flexible file layouts, and those
# of NFSv3 and 4.0 through the metadata server. The host kills one in the middle of writes by all three and starts it again: no error
# reaches a program, and each byte is there in the end.
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

# Clients without layouts.
for older in 3 4.0; do
    mkdir -p "$TOP.$older"
done
mount_v3 "$TOP.3" || fail "cannot mount with vers=3"
(VERS=4.0 && mount_at "$TOP.4.0" noac,lookupcache=none) || fail "cannot mount with vers=4.0"
for older in 3 4.0; do
    FAR=$TOP.$older/${WORK##*/}/far
    cmp /dev/shm/data "$FAR/data" || fail "other bytes by NFSv$older than were written by layouts"
    check diff -r "$LIB" "$FAR/copy"
    check python3 "$LIB/fsx.py" "$FAR/fsx-$older" --ops 300 --seed "${FSX_SEED:-1}" --size 1048576
    check cp /dev/shm/data "$FAR/by-$older"
    cmp /dev/shm/data "$DIR/by-$older" || fail "other bytes by layouts than were written by NFSv$older"
    printf changed | dd of="$DIR/by-$older" bs=1 seek=2000000 conv=notrunc,fsync 2>/dev/null || fail "cannot change a file"
    cmp "$DIR/by-$older" "$FAR/by-$older" || fail "what was written by a layout is not what NFSv$older reads"
    truncate -s 1234567 "$FAR/by-$older" || fail "cannot cut a file by NFSv$older"
    head -c 1234567 /dev/shm/data | cmp - "$DIR/by-$older" || fail "other bytes after a cut by NFSv$older"
done

# A server dies in the middle of writes by each version.
# slow FILE: writes 32 MiB to it, slowly.
slow() {
    for part in 1 2 3 4 5 6 7 8; do
        dd if=/dev/shm/data of="$1" bs=1M count=4 skip=$((part * 4)) seek=$((part * 4)) conv=notrunc,fsync 2>/dev/null ||
            return 1
        [ "$part" != 2 ] || touch "/tmp/begun-${1##*/}"
        [ "$part" != 3 ] || await killed || return 1
        sleep 0.2
    done
}
slow "$TOP.3/${WORK##*/}/far/slow-3" &
of_3=$!
slow "$TOP.4.0/${WORK##*/}/far/slow-4.0" &
of_4_0=$!
slow "$DIR/slow" &
of_new=$!
for try in $(seq 600); do
    [ ! -e /tmp/begun-slow ] || [ ! -e /tmp/begun-slow-3 ] || [ ! -e /tmp/begun-slow-4.0 ] || break
    sleep 0.1
done
signal writing
wait $of_new || fail "a write ended with an error while a server was gone"
wait $of_3 || fail "a write by NFSv3 ended with an error while a server was gone"
wait $of_4_0 || fail "a write by NFSv4.0 ended with an error while a server was gone"
echo 3 >/proc/sys/vm/drop_caches
compare() {
    for slow in slow slow-3 slow-4.0; do
        python3 - "$DIR/$slow" /dev/shm/data <<'EOF' || fail "$1: $slow"
import sys
part = slice(4 << 20, 36 << 20)
far, near = (open(name, "rb").read()[part] for name in sys.argv[1:])
sys.exit(far != near)
EOF
    done
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
for older in 3 4.0; do
    FAR=$TOP.$older/${WORK##*/}/far
    cmp /dev/shm/data "$FAR/new" || fail "other bytes by NFSv$older after the server came back"
    ! grep -q " $FAR " /proc/mounts || unmount "$FAR" || fail "cannot unmount the tree of NFSv$older"
    unmount "$TOP.$older" || fail "cannot unmount NFSv$older"
done
rm -f /dev/shm/data
# A look at the directory would mount it again.
rm -rf "${DIR:?}"/* || fail "cannot empty the tree"
unmount "$DIR" || fail "cannot unmount the tree"
rmdir "$DIR" || fail "cannot remove the top of the tree"
pass
