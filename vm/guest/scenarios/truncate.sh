# Truncate and extend under an open of another mount; nothing old comes back.
. /run/job/guest/lib.sh
two_mounts truncate
check python3 "$LIB/truncate.py" "$WORK" "$WORK2"
pass
