#!/bin/sh
# The guest's first process: writable places, network, NFS modules, then the script of the job.
# The kernel's console is the way out for text; files of the job directory carry everything else.
job=$(dirname "$(dirname "$0")")
. "$job/env"
export PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin HOME=/run/home
exec </dev/null >/dev/console 2>&1

mount -t proc proc /proc
mount -t sysfs sys /sys
mount -t tmpfs run /run
# From here on the host's directories are reached by these two names only.
mkdir -p /run/job /run/tools /run/home
mount -t hostfs -o "$job" none /run/job
mount -t hostfs -o "$TOOLS" none /run/tools
mount -t tmpfs mnt /mnt
mount -t tmpfs -o mode=1777 tmp /tmp
mkdir -p /dev/shm && mount -t tmpfs shm /dev/shm
stty -onlcr 2>/dev/null

# Loading by hand keeps the host's modprobe configuration and module directory out of it.
for module in nfsv4 nfs_layout_nfsv41_files nfs_layout_flexfiles; do
    /run/tools/harness/bin/modprobe -n --show-depends -d /run/tools/harness "$module" 2>/dev/null |
        while read -r verb file _; do
            [ "$verb" = insmod ] && /run/tools/harness/bin/insmod "$file" 2>/dev/null
        done
done

hostname "${HOST_NAME:-guest-${GUEST_IP##*.}}"
ip link set lo up
ip addr add "$GUEST_IP/24" dev vec0
ip link set vec0 up
number=0
for ip in $RAIL_IPS; do
    number=$((number + 1))
    ip addr add "$ip/24" dev vec$number
    ip link set vec$number up
done

touch /run/job/booted
cd /
/bin/sh "/run/job/guest/$SCRIPT"
rc=$?
# Renamed when complete: the host may look at any moment.
echo "$rc" >/run/job/rc.new
sync -f /run/job/rc.new
mv /run/job/rc.new /run/job/rc
echo o >/proc/sysrq-trigger
sleep 10
