# Work on a cluster with two copies while the machine of a data server goes away without a word: no connection to it ends, and
# no request gets an answer. No error reaches a program, and each byte is there. Files opened afterwards are at data servers.
# Linux waits for minutes for what it has sent; docs/linux-client.md has the times.
. /run/job/guest/lib.sh
: "${DS_TIMEO:=50}" "${DS_RETRANS:=1}"
export LIMIT_S=450
NAME=hostgone
trap 'finish $?' EXIT
data_server_patience "$DS_TIMEO" "$DS_RETRANS"
signal booted
await ready || fail "the host is not ready"
scenario hostgone
check python3 "$LIB/failover.py" "$WORK" 1 silent
rm -f /dev/shm/source?
pass
