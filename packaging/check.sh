#!/bin/sh
# Runs inside a fresh Debian root of `cargo xtask dist --check`: serves with the package's user and its program.
#
# The network is one of its own and has loopback only. /proc is one of its own too, so all ends with this script.
set -eu

# Becomes a program of that user: its process gets the signals.
as_user() {
    exec setpriv --reuid ropewalk --regid ropewalk --clear-groups --no-new-privs \
        --bounding-set=-all --inh-caps=-all -- "$@"
}

# Waits for what a server prints or makes: 30 s at most.
until_there() {
    tries=0
    until "$@" >/dev/null 2>&1; do
        tries=$((tries + 1))
        [ "$tries" -lt 300 ] || { echo "never came true: $*" >&2; cat /tmp/*.log >&2; exit 1; }
        sleep 0.1
    done
}

one_is_there() {
    ropewalk ds list --json | tr -d ' \n' | grep -q '"id":1'
}

ip link set lo up 2>/dev/null || ifconfig lo up
# Without a network but loopback it lets in this machine.
[ -f /etc/ropewalk/mds.toml ] || ropewalk setup mds --yes --owner ropewalk
ropewalk config check /etc/ropewalk/mds.toml
as_user ropewalk mds --config /etc/ropewalk/mds.toml >/tmp/mds.log 2>&1 &
mds=$!
until_there ropewalk status
# The metadata server makes the token, and has port 2049.
[ -f /etc/ropewalk/ds.toml ] || ropewalk setup ds --yes
ropewalk config check /etc/ropewalk/ds.toml
as_user ropewalk ds --config /etc/ropewalk/ds.toml >/tmp/ds.log 2>&1 &
ds=$!
until_there one_is_there
until_there ropewalk doctor

if [ "$1" = first ]; then
    head -c 3000000 /dev/urandom >/srv/before
    # Root may not write there: the owner that setup was told may.
    (as_user ropewalk cp /srv/before nfs://127.0.0.1/kept)
fi
(as_user ropewalk cp nfs://127.0.0.1/kept /tmp/after)
cmp /srv/before /tmp/after
echo "check: the file came back unchanged ($1)"
kill -TERM "$ds" "$mds"
for server in "$ds" "$mds"; do
    wait "$server" || { echo "a server stopped with $?" >&2; cat /tmp/*.log >&2; exit 1; }
done
