#!/bin/sh
# The first process of the QEMU guest once its root is there: what init.sh is under User Mode Linux, with the modules and
# a software device of RDMA: RDMA=siw is iWARP, rxe is RoCE v2, none is none.
. /run/job/env
export PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin HOME=/run/home
exec </dev/null >/dev/ttyS0 2>&1

mount -t proc proc /proc
mount -t sysfs sys /sys
# Programs of the host may lie where the guest has folders of its own: all of the host's are below this one.
mkdir -p /run/host && mount --bind / /run/host
mount -t tmpfs mnt /mnt
mount -t tmpfs -o mode=1777 tmp /tmp
mkdir -p /run/home /run/netns /dev/shm && mount -t tmpfs shm /dev/shm
# The tools are in the root itself; scripts look for them here.
ln -s / /run/tools
stty -onlcr 2>/dev/null

hostname "guest-${GUEST_IP##*.}"
ip link set lo up
ip addr add "$GUEST_IP/24" dev eth0
ip link set eth0 up
number=0
for ip in $RAIL_IPS; do
    number=$((number + 1))
    ip addr add "$ip/24" dev eth$number
    ip link set eth$number up
done
# Without its driver the kernel asks for no layouts, and all data go by the MDS.
[ "${LAYOUTS:-yes}" = yes ] || echo 'install nfs_layout_nfsv41_files /bin/false' >/etc/modprobe.d/no-layouts.conf
modprobe nfsv4
case ${RDMA:=siw} in
    siw) modprobe -a iw_cm siw ;;
    rxe) modprobe rdma_rxe ;;
esac
if [ "$RDMA" != none ]; then
    modprobe -a ib_uverbs rdma_ucm rpcrdma
    rdma link add "${RDMA}0" type "$RDMA" netdev eth0
fi

touch /run/job/booted
cd /
/bin/sh "/run/job/guest/$SCRIPT"
rc=$?
# Renamed when complete: the host may look at any moment.
echo "$rc" >/run/job/rc.new
mv /run/job/rc.new /run/job/rc
echo o >/proc/sysrq-trigger
# Without a program of the host's root, which is on its way out.
while :; do :; done
