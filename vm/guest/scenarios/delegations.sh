# Two clients, for the two minor versions are two to the server: what one is delegated, the other's work calls back.
. /run/job/guest/lib.sh
scenario delegations actimeo=0
second_client actimeo=0
check python3 "$LIB/delegations.py" "$WORK" "$WORK2" "$MNT" "$MNT2"
check python3 "$LIB/mountstats.py" "$MNT"
pass
