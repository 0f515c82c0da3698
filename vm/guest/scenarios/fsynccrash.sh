# The host kills the MDS (kill -9) when the data servers have an fsync's data and the MDS has not heard of it: size and
# content are there after its restart.
. /run/job/guest/lib.sh
: "${FSYNC_MIB:=12}"
two_mounts fsynccrash
check python3 "$LIB/fsynccrash.py" "$WORK" "$WORK2" "$FSYNC_MIB"
pass
