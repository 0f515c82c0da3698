# Files around the size up to which their bytes lie in the metadata store, by two mounts: writes, mappings, cuts, appends.
. /run/job/guest/lib.sh
two_caches inline
check python3 "$LIB/inline.py" "$WORK" "$WORK2" "$WORK3"
pass
