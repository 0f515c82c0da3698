# Runs the contract of RDMA providers over rdma-core on the guest's software device, then takes its port and the device
# away. CONTRACT and TROUBLE are the test programs; each promise is a test of them.
. /run/job/guest/lib.sh
NAME=contract
trap 'finish $?' EXIT
# siw holds root to the limit of locked memory too.
ulimit -l unlimited
rdma link show "${RDMA}0/1" | grep -q 'state ACTIVE' || fail "$RDMA does not come up"
export ROPEWALK_RDMA_ADDRESS=$GUEST_IP ROPEWALK_RDMA_INTERFACE=eth0 ROPEWALK_RDMA_DEVICE=${RDMA}0
export ROPEWALK_RDMA_KIND=$RDMA ROPEWALK_RDMA_SPARE=spare
modprobe veth
ip link add spare type veth peer name spare-far
ip link set spare-far up
ip link set spare up

# tests COUNT PROGRAM ARGUMENT...: all pass, and at least so many.
tests() {
    count=$1
    shift
    "$@" 2>&1 | tee /tmp/tests.out | sed 's/^/# /'
    passed=$(sed -n 's/^test result: ok\. \([0-9]*\) passed.*/\1/p' /tmp/tests.out)
    [ "${passed:-0}" -ge "$count" ] || fail "$(grep -m 3 -E 'FAILED|panicked' /tmp/tests.out | tr '\n' ' ')"
}

if [ -n "${ONLY:-}" ]; then
    tests 1 "$CONTRACT" --test-threads=1 $ONLY
else
    # siw does not look at the rights of memory that a peer reads (seen in 6.1), so this promise cannot be kept on it.
    case $RDMA in
        siw) tests 32 "$CONTRACT" --test-threads=1 --skip forbidden_access ;;
        *) tests 33 "$CONTRACT" --test-threads=1 ;;
    esac
    tests 1 "$TROUBLE" a_device
    # siw ends connections before it tells of its port.
    ROPEWALK_RDMA_INTERFACE=$ROPEWALK_RDMA_SPARE
    [ "$RDMA" = siw ] || tests 1 "$TROUBLE" a_port
fi
dmesg | grep -E 'siw|rxe|iw_cm|BUG|WARNING' | grep -v 'taints kernel\|verification failed' | sed 's/^/# /'
VERDICT=passed
echo "ok $NAME"
