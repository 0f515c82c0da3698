# NFSv4 access control lists: enforced, inherited, in step with the mode.
. /run/job/guest/lib.sh
two_mounts acl
check python3 "$LIB/acl.py" "$WORK" "$WORK2"
pass
