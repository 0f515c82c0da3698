# Data servers at addresses of two networks. The host cuts one of them: before the first connection to it, and with SILENT=yes
# under work too, which takes Linux minutes.
. /run/job/guest/lib.sh
: "${DS_TIMEO:=10}" "${DS_RETRANS:=1}" "${SILENT:=no}"
NAME=multipath
trap 'finish $?' EXIT
data_server_patience "$DS_TIMEO" "$DS_RETRANS"

# connected: whether any connection to a data server is left.
connected() {
    for ip in $RAIL_IPS; do
        [ -z "$(ss -Htn state all exclude time-wait src "$ip")" ] || return 0
    done
    return 1
}

# alone: a mount of its own for each case, so that connections are made anew.
alone() {
    scenario multipath
    check python3 "$LIB/multipath.py" "$WORK" $case "$1"
    rm -rf "$WORK" || fail "cannot clean up"
    unmount "$MNT" || fail "cannot unmount"
    tries=1200
    while connected; do
        tries=$((tries - 1))
        [ $tries -gt 0 ] || fail "connections to data servers outlive the mount"
        sleep 0.1
    done
}

[ "$SILENT" = yes ] && signal silent
signal booted
case=0
while await "next$case" && [ ! -e /run/job/over ]; do
    for when in never before under; do
        [ ! -e "/run/job/$when$case" ] || alone $when
    done
    signal "done$case"
    case=$((case + 1))
done
[ -e /run/job/over ] || fail "the host is not ready"
scenario multipath
pass
