# What scenarios with a cluster of ours in this guest share: the cluster, over rdma-core, and the guest's kernel as client.
. /run/job/guest/lib.sh
SERVER=$GUEST_IP PORT=20049 PROTO=rdma STATE=/run/cluster
export SERVER PORT
trap 'finish $?' EXIT
# siw holds root to the limit of locked memory too.
ulimit -l unlimited

# What servers and kernel have to say at the end.
tell() {
    grep -h -E 'WARN|ERROR' $STATE/*/log | tail -n 20 | sed 's/^/# /'
    dmesg | grep -E 'siw|rxe|rpcrdma|BUG|WARNING' | grep -v 'taints kernel\|verification failed' | tail -n 40 | sed 's/^/# /'
}

# patiently WHAT COMMAND...: waits until the command succeeds.
patiently() {
    what=$1 since=$(date +%s)
    shift
    until "$@" >/tmp/patiently.out 2>&1; do
        [ $(($(date +%s) - since)) -lt 300 ] || {
            tail -n 5 /tmp/patiently.out /run/up.log | sed 's/^/# /'
            fail "not seen: $what"
        }
        sleep 0.5
    done
    echo "# $what after $(($(date +%s) - since)) s"
}

# start ADDRESSES: a metadata server and two data servers listen there.
start() {
    "$ROPEWALK" up --nfs3 --ds 2 --dir $STATE --transport rdma --rdma-provider verbs --listen "$1" \
        --export 192.0.0.0/16:rw:none >/run/up.log 2>&1 &
    UP=$!
    patiently "the cluster is ready" grep -q 'ropewalk is ready' /run/up.log
    "$ROPEWALK" rdma | sed 's/^/# /'
}

stop() {
    kill $UP
    wait $UP
}
