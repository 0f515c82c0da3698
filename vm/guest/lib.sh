# What every scenario script sources. Gives: scenario, second_client, two_mounts, two_caches, mount_at, unmount, check, pass, fail,
# signal, await, operations. A scenario prints exactly one line "ok NAME" or "FAIL NAME: why".
#
# Environment: SERVER, PORT, VERS (3, 4.0, 4.1 or 4.2), PROTO (tcp or rdma), EXPORT (path on the server), MNT (where to mount).

: "${SERVER:?}" "${PORT:=2049}" "${VERS:=4.2}" "${EXPORT:=/}" "${MNT:=/mnt/a}"
LIB=/run/job/guest
export PYTHONPATH=$LIB PYTHONDONTWRITEBYTECODE=1
NAME=unnamed
VERDICT=

# mount_at DIR [OPTIONS]: mounts the export; extra options come last and so win. NFSv3 has its locks by NLM, whose port the server's
# rpcbind tells.
mount_at() {
    mkdir -p "$1" || return 1
    helper=/run/tools/sbin/mount.nfs4
    beside=
    if [ "$VERS" = 3 ]; then
        load_nfs3
        rpc_daemons || return 1
        helper=/run/tools/sbin/mount.nfs
        beside=,lock,mountproto=tcp,mountport=$PORT
    fi
    LD_LIBRARY_PATH=$(echo /run/tools/lib/*-linux-gnu):$(echo /run/tools/usr/lib/*-linux-gnu) \
        timeout 240 "$helper" "$SERVER:$EXPORT" "$1" \
        -o "vers=$VERS,port=$PORT,sec=sys,proto=${PROTO:-tcp},hard,timeo=100$beside${2:+,$2}"
}

# load_nfs3: loads the modules of NFSv3.
load_nfs3() {
    /run/tools/harness/bin/modprobe -n --show-depends -d /run/tools/harness nfsv3 2>/dev/null |
        while read -r verb file _; do
            [ "$verb" = insmod ] && /run/tools/harness/bin/insmod "$file" 2>/dev/null
        done
}

# daemon NAME [OPTIONS]: starts a program of the unpacked packages.
daemon() {
    for dir in sbin usr/sbin; do
        [ -x "/run/tools/$dir/$1" ] || continue
        program=/run/tools/$dir/$1
        shift
        LD_LIBRARY_PATH=$(echo /run/tools/lib/*-linux-gnu):$(echo /run/tools/usr/lib/*-linux-gnu) "$program" "$@"
        return
    done
    return 1
}

# rpc_daemons: starts rpcbind and rpc.statd, which locks by NFSv3 need, unless an earlier scenario has.
rpc_daemons() {
    [ ! -e /run/rpc_daemons ] || return 0
    mkdir -p /run/rpcbind /run/statd/sm /run/statd/sm.bak
    cp -a /etc /run/etc
    cp /run/tools/etc/netconfig /run/etc/netconfig 2>/dev/null
    grep -q ^_rpc: /run/etc/passwd ||
        echo '_rpc:x:65533:65534::/run/rpcbind:/usr/sbin/nologin' >>/run/etc/passwd
    mount --bind /run/etc /etc || return 1
    daemon rpcbind && daemon rpc.statd --no-notify -P /run/statd && touch /run/rpc_daemons
}

# mount_v3 DIR: mounts the export by NFSv3, without rpcbind, and without locks unless LOCKS=lock. Names and attributes are not
# cached. PROTO3=rdma for RDMA, then with MOUNT_PORT.
mount_v3() {
    LD_LIBRARY_PATH=$(echo /run/tools/lib/*-linux-gnu):$(echo /run/tools/usr/lib/*-linux-gnu) \
        timeout 240 /run/tools/sbin/mount.nfs "$SERVER:$EXPORT" "$1" \
        -o "vers=3,${LOCKS:-nolock},proto=${PROTO3:-tcp},port=$PORT,mountproto=tcp,mountport=${MOUNT_PORT:-$PORT},sec=sys,hard,timeo=100,noac,lookupcache=none"
}

# unmount DIR: a plain umount; the helper of the NFS tools would only look for NFSv3 state.
unmount() {
    umount -i "$1"
}

# scenario NAME [OPTIONS]: mounts the export at MNT and makes WORK, an empty directory on it.
scenario() {
    NAME=$1
    trap 'finish $?' EXIT
    mount_at "$MNT" "${2:-}" || fail "cannot mount $SERVER:$EXPORT with vers=$VERS"
    WORK=$MNT/ropewalk-$NAME-$VERS
    rm -rf "$WORK" || fail "cannot remove what an earlier run left"
    mkdir "$WORK" || fail "cannot make a directory"
    export WORK
}

# data_server_patience TIMEO RETRANS: how long a request waits for a data server: TIMEO tenths of a second, RETRANS + 1 times. It holds
# for connections that are made later.
data_server_patience() {
    modprobe nfs_layout_nfsv41_files 2>/dev/null
    parameters=/sys/module/nfs_layout_nfsv41_files/parameters
    echo "$1" >$parameters/dataserver_timeo || fail "no such parameter"
    echo "$2" >$parameters/dataserver_retrans || fail "no such parameter"
}

# mount_other DIR [OPTIONS]: mounts the export with the other minor version: to the server that is another client.
mount_other() {
    case $VERS in
        4.1) other=4.2 ;;
        *) other=4.1 ;;
    esac
    (VERS=$other && mount_at "$@") || fail "cannot mount with vers=$other"
}

# second_client [OPTIONS]: mounts the export again at MNT2 as another client. Two mounts of one client would share its
# delegations, but not their caches. WORK2 is the second name of WORK.
second_client() {
    MNT2=$MNT.second
    mount_other "$MNT2" "${1:-}"
    WORK2=$MNT2/${WORK##*/}
    export WORK2
}

# two_mounts NAME: as scenario, with the export mounted again at MNT2 by another client; attributes and names are not
# cached: what one mount did, the other sees at once.
two_mounts() {
    apart=nosharecache,actimeo=0,lookupcache=none
    scenario "$1" "$apart"
    second_client "$apart"
}

# two_caches NAME: two mounts of one client that share no cache, with WORK2, and a third one by another client, with WORK3: what is
# open there for writing is delegated to nobody. For heavy I/O by both mounts: Linux sends the I/O of two clients in one
# guest over one connection to a data server, where the second client's handles are refused, and a close that meets the
# refusal ends before all is written.
two_caches() {
    apart=nosharecache,actimeo=0,lookupcache=none
    scenario "$1" "$apart"
    MNT2=$MNT.second MNT3=$MNT.third
    mount_at "$MNT2" "$apart" || fail "cannot mount a second time"
    mount_other "$MNT3"
    WORK2=$MNT2/${WORK##*/} WORK3=$MNT3/${WORK##*/}
    export WORK2 WORK3
}

# check COMMAND...: runs it with its output shown; a failure is the scenario's, with its last line.
check() {
    if ! "$@" >/tmp/check.out 2>&1; then
        sed 's/^/# /' /tmp/check.out
        fail "$(grep -v '^ *$' /tmp/check.out | tail -n 1 | cut -c 1-300)"
    fi
    sed 's/^/# /' /tmp/check.out
}

# operations OPERATION [DIR]: how often the mount has sent this operation.
operations() {
    python3 "$LIB/mountstats.py" "${2:-$MNT}" "$1"
}

fail() {
    [ -n "$VERDICT" ] || echo "FAIL $NAME: ${*:-no reason given}"
    VERDICT=failed
    exit 1
}

# pass: the last command of a scenario. Cleaning up belongs to the check: it must work too.
pass() {
    cd / || fail "cannot leave the mount"
    rm -rf "$WORK" || fail "cannot clean up"
    [ -z "${MNT3:-}" ] || unmount "$MNT3" || fail "cannot unmount the third mount"
    [ -z "${MNT2:-}" ] || unmount "$MNT2" || fail "cannot unmount the second mount"
    unmount "$MNT" || fail "cannot unmount"
    VERDICT=passed
    echo "ok $NAME"
}

# tell: what else a scenario has to say at its end, whichever it is.
tell() { :; }

finish() {
    tell
    [ -n "$VERDICT" ] || echo "FAIL $NAME: the script ended early with status $1"
    [ "$VERDICT" = passed ]
    exit $?
}

# signal NAME: tells the host that the guest has come this far.
signal() {
    sync -f /run/job 2>/dev/null
    touch "/run/job/$1"
}

# await NAME [SECONDS]: waits until the host says so.
await() {
    tries=$((${2:-500} * 10))
    while [ ! -e "/run/job/$1" ]; do
        tries=$((tries - 1))
        [ $tries -gt 0 ] || return 1
        sleep 0.1
    done
}
