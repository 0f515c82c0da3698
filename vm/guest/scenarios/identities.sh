# A user in 40 groups of the server's name service, with and without manage_gids; then owners by name (domain), which the guest
# maps with nfsidmap to users of its own. The host changes what the MDS is told between the phases.
. /run/job/guest/lib.sh
NAME=identities
trap 'finish $?' EXIT

# phase NAME: as root of a new mount, so that nothing of the phase before is cached.
phase() {
    mount_at "$MNT" || fail "cannot mount for $1"
    check python3 "$LIB/identities.py" "$1" "$WORK"
    umount -i "$MNT" || fail "cannot unmount after $1"
}

scenario identities
unmount "$MNT" || fail "cannot unmount"
phase make
signal made
await managed || fail "the host does not manage groups"
phase managed
signal seen
await named || fail "the host gives no domain"

# This machine's own users, for whom ann is 15000, and the kernel's way to them (request-key, nfsidmap).
for tool in /sbin/request-key /usr/sbin/nfsidmap; do
    [ -x $tool ] || fail "$tool is missing: install keyutils and nfs-common"
done
cp -a /etc /tmp/etc && mount --bind /tmp/etc /etc || fail "cannot change /etc"
echo 'ann:x:15000:15000::/:/bin/sh' >>/etc/passwd
printf 'ann:x:15000:\ng5040:x:15040:\n' >>/etc/group
printf '[General]\nDomain = example.org\n[Mapping]\nNobody-User = nobody\nNobody-Group = nogroup\n[Translation]\nMethod = nsswitch\n' \
    >/etc/idmapd.conf
mkdir -p /etc/request-key.d
echo 'create id_resolver * * /usr/sbin/nfsidmap -t 600 %k %d' >/etc/request-key.d/id_resolver.conf
[ -e /etc/request-key.conf ] || echo 'negate * * * /bin/keyctl negate %k 30 %S' >/etc/request-key.conf
echo N >/sys/module/nfs/parameters/nfs4_disable_idmapping
phase named
echo Y >/sys/module/nfs/parameters/nfs4_disable_idmapping
phase ids
mount_at "$MNT" || fail "cannot mount at the end"
pass
signal over
