# Pings our iWARP with that of the kernel, both ways: as client with the data compared (-V), then as server, one
# connection after the other. CLIENT and SERVE are lists of BYTES:COUNT.
. /run/job/guest/lib.sh
NAME=rping
trap 'finish $?' EXIT
rdma link show siw0/1 | grep -q 'state ACTIVE' || fail "siw does not come up"
for ping in $CLIENT; do
    timeout 120 rping -c -a "$SERVER" -p "$PORT" -V -S "${ping%:*}" -C "${ping#*:}" >/tmp/pinged 2>&1 || {
        sed 's/^/# /' /tmp/pinged
        fail "rping -c -S ${ping%:*} -C ${ping#*:} ended with a failure"
    }
    echo "# the kernel's client: ${ping#*:} pings of ${ping%:*} bytes"
done
for ping in $SERVE; do
    timeout 120 rping -s -a "$GUEST_IP" -p "$PORT" -S "${ping%:*}" -C "${ping#*:}" >/tmp/served 2>&1 &
    until rdma resource show cm_id | grep -q LISTEN; do sleep 0.1; done
    signal "serving-$ping"
    wait $! || {
        sed 's/^/# /' /tmp/served
        fail "rping -s -S ${ping%:*} -C ${ping#*:} ended with a failure"
    }
    echo "# the kernel's server: ${ping#*:} pings of ${ping%:*} bytes"
done
dmesg | grep -E 'siw|iw_cm|BUG|WARNING' | grep -v 'taints kernel\|verification failed' | sed 's/^/# /'
VERDICT=passed
echo "ok $NAME"
