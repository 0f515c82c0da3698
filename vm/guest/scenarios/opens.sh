# Files that are made, written, given a time of long ago and closed: which requests that takes, by a mount with each minor
# version. RFC 9754 extends 4.2 alone, and Linux asks for it since 6.12.
. /run/job/guest/lib.sh
scenario opens
second_client
check python3 "$LIB/opens.py" "$WORK" "$WORK2" "$MNT" "$MNT2" "$VERS"
pass
