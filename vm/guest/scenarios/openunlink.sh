# Unlink and rename of open files, by the same mount and by another; rename rules.
. /run/job/guest/lib.sh
two_mounts openunlink
check python3 "$LIB/openunlink.py" "$WORK" "$WORK2"
pass
