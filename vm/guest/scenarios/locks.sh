# Byte-range locks between two mounts and between processes: conflicts, ranges, waiting, death.
. /run/job/guest/lib.sh
two_mounts locks
check python3 "$LIB/locks.py" "$WORK" "$WORK2"
pass
