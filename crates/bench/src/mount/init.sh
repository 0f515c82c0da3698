#!/bin/sh
# The first process of the kernel that mounts: writable places, the network, the modules of NFS, then the work of its job.
# The console is the way out for text. What lies in the job's folder carries everything else.
exec </dev/null >/dev/console 2>&1
job=$(dirname "$0")
. "$job/job"
export PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin HOME=/run/home

mount -t proc proc /proc
mount -t sysfs sys /sys
mount -t tmpfs run /run
# From here on the host's folders have these names: those of the host may lie below a folder that is covered next.
mkdir -p /run/job /run/program /run/home /run/modules/lib /run/none
mount -t hostfs -o "$job" none /run/job
mount -t hostfs -o "$PROGRAM_DIR" none /run/program
mount -t tmpfs mnt /mnt
mount -t tmpfs -o mode=1777 tmp /tmp
stty -onlcr 2>/dev/null

# Without the host's own configuration of modules.
ln -s /usr/lib/uml/modules /run/modules/lib/modules
for module in nfsv4 nfs_layout_nfsv41_files nfs_layout_flexfiles; do
    modprobe -C /run/none -d /run/modules "$module" || echo "there is no module $module"
done
ip link set lo up
ip addr add "$ADDRESS" dev vec0
ip link set vec0 up

cd /
echo "## work"
# Through a pipe, so that nobody takes the console for a terminal. Renamed when complete: the host may look at any moment.
{
    work
    echo $? >/run/job/status.new
} 2>&1 | cat
sync -f /run/job/status.new
mv /run/job/status.new /run/job/status
echo "## end"
echo o >/proc/sysrq-trigger
sleep 10
