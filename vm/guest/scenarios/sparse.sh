# A sparse file of 2 GiB: data at both ends and in the middle, holes read as zeros.
. /run/job/guest/lib.sh
scenario sparse
check python3 "$LIB/sparse.py" "$WORK"
pass
