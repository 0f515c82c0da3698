# Small files are written to the MDS and read from it, because it says so (mdsthreshold); large ones that begin with
# nothing are not, whether buffered, synchronous or with O_DIRECT. The host looks at the servers' counters.
. /run/job/guest/lib.sh
: "${SMALL_FILES:=500}" "${SMALL_BYTES:=4096}" "${LARGE_MIB:=8}"
scenario small
check python3 "$LIB/small.py" "$WORK" "$SMALL_FILES" "$SMALL_BYTES" "$LARGE_MIB"
pass
