# Work during which the host kills the server (kill -9) and starts it again. What was fsynced is
# there, opens and locks live on, and what was being written when it happened arrives.
. /run/job/guest/lib.sh
scenario crash
check python3 "$LIB/crashwork.py" "$WORK"
pass
