# Times, modes and set-id bits that tools set after the data stay, as another client sees them; another user's write takes
# set-id bits off.
. /run/job/guest/lib.sh
scenario preserve
second_client
check python3 "$LIB/preserve.py" "$WORK" "$WORK2"
pass
