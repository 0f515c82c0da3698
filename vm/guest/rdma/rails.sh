# A cluster that is reached over two devices serves the guest's kernel and our own client over rdma-core, both at work all
# the time: both devices are used; the work goes on when one goes away; another one with its address is listened on and
# used; and the work goes on when that one's port goes down.
. /run/job/guest/rdma/cluster.sh
NAME=rails OTHER=192.0.3.1
modprobe veth
ip link add rail1 type veth peer name rail2
ip link set rail1 up
ip link set rail2 up

# second NUMBER: the second device, with its address.
second() {
    SECOND=$RDMA$1
    ip addr add "$OTHER/24" dev "rail$1"
    rdma link add "$SECOND" type "$RDMA" netdev "rail$1"
    rdma link show "$SECOND/1" | grep -q 'state ACTIVE' || fail "$SECOND does not come up"
}
second 1
start "$GUEST_IP,$OTHER"
scenario rails

# done_by LOAD: how many files it has written and read back.
done_by() {
    grep -c '^file' "/tmp/$1.out"
}

# has_done LOAD COUNT: whether it has come so far, or to a wrong file.
has_done() {
    [ "$(done_by "$1")" -ge "$2" ] || grep -q WRONG "/tmp/$1.out"
}

# goes_on WHEN: both write more files and read them back right.
goes_on() {
    mount=$(done_by mount) own=$(done_by own)
    patiently "the mount at work $1" has_done mount $((mount + 3))
    patiently "our client at work $1" has_done own $((own + 2))
    if grep WRONG /tmp/mount.out /tmp/own.out; then fail "wrong data $1"; fi
}

# counts: what the second device has sent, bytes (1000 a packet). siw does not count, but its connections are TCP connections of
# the kernel: a line each.
counts() {
    counter=/sys/class/infiniband/$SECOND/ports/1/hw_counters/sent_pkts
    if [ -e "$counter" ]; then
        echo "packets $(cat "$counter")000"
    else
        ss -HtinO src "$OTHER" | sed -n 's/^[^ ]* *[0-9]* *[0-9]* *\([^ ]*\) *\([^ ]*\) .*bytes_acked:\([0-9]*\).*/\1-\2 \3/p'
    fi
}

# sent SINCE: how much more that is than in this file; some connections are new and others have ended.
sent() {
    counts | awk -v since="$1" 'BEGIN { while ((getline <since) > 0) old[$1] = $2 } { sum += $2 - old[$1] } END { print sum + 0 }'
}

is_used() {
    [ "$(sent /tmp/counts)" -gt 100000 ]
}

# both_carry WHEN: the mount is connected over both devices, and the second is used. After an error the kernel sends data
# through the metadata server for 120 s.
both_carry() {
    patiently "connections over both $1" python3 "$LIB/rdma/rails.py" "$PORT" "$GUEST_IP" "$OTHER"
    counts >/tmp/counts
    patiently "data over the second device $1" is_used
    goes_on "over both $1"
}

# all_say WORDS: whether every server has in its log.
all_say() {
    for server in mds ds-1 ds-2; do
        grep -q "$1" $STATE/$server/log || return 1
    done
}

python3 "$LIB/rdma/load.py" "$WORK" /tmp/load.stop >/tmp/mount.out 2>&1 &
MOUNT=$!
mkdir "$WORK/own"
python3 "$LIB/rdma/load.py" "nfs://$SERVER/${WORK##*/}/own/?transport=rdma" /tmp/load.stop >/tmp/own.out 2>&1 &
OWN=$!
goes_on "at first"
both_carry "at first"

rdma link delete "$SECOND" &
patiently "the servers have lost the device" all_say 'device of this address is gone'
goes_on "without the device"

# These software devices hold their interface as long as a process has them open, so the next one is on another.
ip addr del "$OTHER/24" dev rail1
second 2
patiently "the servers listen on the new device" all_say 'device of this address is back'
both_carry "again"

# The last step, since a soft-RoCE device whose port was down never connects again. siw's kernel panics at it (siw_netdev_down).
if [ "$RDMA" != siw ]; then
    ip link set rail2 down
    goes_on "with a port down"
fi

touch /tmp/load.stop
wait $MOUNT || fail "the work of the mount has failed: $(tail -n 1 /tmp/mount.out)"
wait $OWN || fail "the work of our client has failed: $(tail -n 1 /tmp/own.out)"
tail -n 1 /tmp/mount.out /tmp/own.out | sed 's/^/# /'
pass
stop
