# Shared and private mappings, between descriptors, processes and two mounts.
. /run/job/guest/lib.sh
two_mounts mmap
check python3 "$LIB/mmapping.py" "$WORK" "$WORK2"
pass
