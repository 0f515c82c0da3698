# Files get other stripes and copies while programs write and read them. Orders are extended attributes, so they go by a mount of
# 4.2. It is another than that of the programs: Linux believes what it remembers of attributes of a file that it has open for
# writing.
. /run/job/guest/lib.sh
apart=nosharecache,actimeo=0
scenario restripe "$apart"
if [ "$VERS" = 4.1 ]; then
    second_client "$apart"
else
    MNT2=$MNT.second
    mount_at "$MNT2" "$apart" || fail "cannot mount again"
    WORK2=$MNT2/${WORK##*/}
fi
check python3 "$LIB/restripe.py" "$WORK" "$WORK2"
pass
