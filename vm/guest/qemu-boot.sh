#!/bin/busybox sh
# /init of the QEMU guest's first file system: makes the host's root, with the unpacked packages over it and a tmpfs
# on top, the root of the guest. Both come read-only from the host over 9p. busybox does all of it: nothing else is here.
b=/bin/busybox
fail() {
    echo "boot: $1"
    $b poweroff -f
}
$b mount -t proc proc /proc
$b mount -t devtmpfs dev /dev
for module in $($b cat /modules/order); do
    $b insmod "/modules/$module" || fail "no $module"
done
share=trans=virtio,version=9p2000.L,msize=512000
$b mkdir -p /host /tools /upper /root
$b mount -t 9p -o "ro,cache=loose,$share" host /host || fail "no root"
$b mount -t 9p -o "ro,cache=loose,$share" tools /tools || fail "no tools"
$b mount -t tmpfs upper /upper || fail "no tmpfs"
$b mkdir /upper/files /upper/work
$b mount -t overlay -o lowerdir=/tools:/host,upperdir=/upper/files,workdir=/upper/work root /root ||
    fail "no overlay"
for place in proc sys dev run mnt tmp; do
    $b mkdir -p "/root/$place"
done
$b mount --move /dev /root/dev
$b umount /proc
$b mount -t tmpfs run /root/run
$b mkdir /root/run/job
$b mount -t 9p -o "cache=none,$share" job /root/run/job || fail "no job"
exec $b switch_root /root /bin/sh /run/job/guest/qemu-init.sh
