# Work on a cluster with two copies while data servers are drained, filled again, replaced and removed: no error reaches a
# program, and each byte is there.
. /run/job/guest/lib.sh
: "${DS_TIMEO:=10}" "${DS_RETRANS:=1}"
NAME=drain
trap 'finish $?' EXIT
# Unmount asks the removed data server to end its session. It gives up after DS_TIMEO tenths of a second, DS_RETRANS + 1
# times. By default that is minutes.
modprobe nfs_layout_nfsv41_files 2>/dev/null
parameters=/sys/module/nfs_layout_nfsv41_files/parameters
echo "$DS_TIMEO" >$parameters/dataserver_timeo || fail "no such parameter"
echo "$DS_RETRANS" >$parameters/dataserver_retrans || fail "no such parameter"
scenario drain
check python3 "$LIB/drain.py" "$WORK"
rm -f /dev/shm/source?
began=$(date +%s)
pass
echo "# cleaned up and unmounted in $(($(date +%s) - began)) s"
