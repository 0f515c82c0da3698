# One directory by a client with layouts, and by NFSv3 and NFSv4.0 without them: what is written by a layout and what is written
# through the metadata server is one file.
. /run/job/guest/lib.sh
apart=nosharecache,actimeo=0,lookupcache=none
scenario layoutpairs "$apart"
load_nfs3
mkdir -p "$MNT.3"
mount_v3 "$MNT.3" || fail "cannot mount with vers=3"
(VERS=4.0 && mount_at "$MNT.4.0" "$apart") || fail "cannot mount with vers=4.0"
work=${WORK##*/}
check python3 "$LIB/versions.py" layouts "$WORK" "$MNT.3/$work" "$MNT.4.0/$work"
pass
