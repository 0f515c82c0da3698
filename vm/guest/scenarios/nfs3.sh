# One directory by two clients, of NFSv3 and of NFSv4: what one of them did, the other sees.
. /run/job/guest/lib.sh
scenario nfs3 noac,lookupcache=none
MNT2=$MNT.v3
mkdir -p "$MNT2"
load_nfs3
mount_v3 "$MNT2" || fail "cannot mount with vers=3"
WORK2=$MNT2/${WORK##*/}
check python3 "$LIB/nfs3.py" "$WORK2" "$WORK"
pass
