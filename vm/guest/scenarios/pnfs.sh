# Writes and reads by layouts: the layout driver is on, a layout was got, no data went through the MDS, and at least
# DS_COUNT data servers carried bytes. The data's last byte is not on a stripe boundary. Linux sends LAYOUTGET in the COMPOUND
# of OPEN where it can and then counts it as OPEN, and it counts I/O on data servers as READ and WRITE of the
# mount: I/O by layout is the proof of a layout, and what it does not explain went to the MDS.
. /run/job/guest/lib.sh
: "${DS_COUNT:=2}" "${PNFS_MIB:=64}"
scenario pnfs
[ "$VERS" != 4.0 ] || fail "layouts need NFSv4.1"
head -c $((PNFS_MIB * 1048576 + 4321)) /dev/urandom >/dev/shm/data
cp /dev/shm/data "$WORK/data" && sync -f "$WORK/data" || fail "cannot write"
echo 3 >/proc/sys/vm/drop_caches
# A descriptor held open keeps the layout, and so the connections, while they are looked at.
exec 9<"$WORK/data"
cmp /dev/shm/data "$WORK/data" || fail "read back other bytes than were written"
# A host that knows the servers' own counters compares them now.
signal compared
check python3 "$LIB/mountstats.py" "$MNT" layouts
[ "$(operations by-layout)" -gt 0 ] || fail "no layout was used"
[ "$(operations GETDEVICEINFO)" -gt 0 ] || fail "no device was asked for"
[ "$(operations by-mds)" -eq 0 ] || fail "$(operations by-mds) READs and WRITEs went to the MDS"
check python3 "$LIB/dstraffic.py" "$SERVER:$PORT" "$DS_COUNT" "$PNFS_MIB"
exec 9<&-
rm -f /dev/shm/data
pass
