# Truncate and extend under an open of another mount; nothing old comes back.
. /run/job/guest/lib.sh
two_caches truncate
check python3 "$LIB/truncate.py" "$WORK" "$WORK2" "$WORK3"
pass
