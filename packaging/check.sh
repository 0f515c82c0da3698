#!/bin/bash
# Runs inside a fresh Debian of `cargo xtask dist --check`, as a unit of its systemd. The kernel's command line says
# `check=first`, and at the next boot `check=second`.
#
# The network is loopback only, and the client is this machine's kernel. Lines that begin with `check:` are shown to the person.
set -eu

PACKAGES=/root/packages
WRITER=1000
export DEBIAN_FRONTEND=noninteractive HOME=/root

say() { echo "check: $*"; }

fail() {
    say "FAILED: $*"
    systemctl --no-pager status ropewalk-mds ropewalk-ds || true
    journalctl --no-pager -n 40 -u ropewalk-mds -u ropewalk-ds || true
    exit 1
}

as_writer() { setpriv --reuid $WRITER --regid $WRITER --clear-groups -- "$@"; }

# Waits until a command succeeds: 60 s at most.
until_true() {
    for _ in $(seq 300); do
        if "$@" >/dev/null 2>&1; then return; fi
        sleep 0.2
    done
    fail "never came true: $*"
}

# The process that systemd knows of a unit.
main_pid() { systemctl show --property MainPID --value "$1"; }

new_pid() { [ "$(main_pid "$1")" != "$2" ] && [ "$(main_pid "$1")" != 0 ]; }

serves() { systemctl --quiet is-active "$1"; }

installed() { # yes|no
    for file in /usr/bin/ropewalk /usr/bin/ropewalk-bench \
        /usr/lib/systemd/system/ropewalk-mds.service /usr/lib/systemd/system/ropewalk-ds.service \
        /usr/share/man/man1/ropewalk-mds.1.gz /usr/share/bash-completion/completions/ropewalk \
        /usr/share/zsh/vendor-completions/_ropewalk /usr/share/fish/vendor_completions.d/ropewalk.fish \
        /usr/share/bash-completion/completions/ropewalk-bench /usr/share/man/man1/ropewalk-bench-goals.1.gz \
        /usr/share/ropewalk/monitoring/rules.yml /usr/share/ropewalk/monitoring/dashboard.json \
        /usr/share/doc/ropewalk/examples/rdma.conf; do
        if [ -e "$file" ]; then found=yes; else found=no; fi
        [ $found = "$1" ] || fail "is $file installed? $found"
    done
}

# What no removal and no purge takes away.
kept() {
    for path in /var/lib/ropewalk/mds/meta /var/lib/ropewalk/ds/data /etc/ropewalk/mds.toml /etc/ropewalk/ds.toml; do
        [ -e "$path" ] || fail "$path is gone"
    done
}

# Connects to both servers all the time, and notes what is refused.
knock() {
    while [ -e /run/knock ]; do
        for port in 2049 2050; do
            if (exec 3<>/dev/tcp/127.0.0.1/$port) 2>/dev/null; then
                echo $port >>/run/knock.served
            else
                echo $port >>/run/knock.refused
            fi
        done
        sleep 0.05
    done
}

# Writes and reads all the time at the mount, and ends at the first error.
work() {
    n=0
    while [ -e /run/work ]; do
        n=$((n + 1))
        as_writer cp /srv/before "/mnt/work-$((n % 4))"
        sync -f /mnt
        cmp /srv/before "/mnt/work-$((n % 4))"
        echo $n >/run/work.rounds
    done
}

# Lets a command happen while files are written and ports are tried.
under_load() {
    what=$1
    shift
    rm -f /run/knock.* /run/work.rounds
    touch /run/knock /run/work
    knock & knocker=$!
    work & worker=$!
    until_true test -e /run/work.rounds
    "$@"
    rm /run/work /run/knock
    wait $worker || fail "$what: a client saw an error"
    wait $knocker
    [ ! -e /run/knock.refused ] || fail "$what: $(wc -l </run/knock.refused) connections were refused"
    say "$what: $(cat /run/work.rounds) files written and compared, $(wc -l </run/knock.served) connections, none refused"
}

restart_both() {
    for unit in ropewalk-mds ropewalk-ds; do
        systemctl restart $unit
        serves $unit || fail "$unit does not serve after a restart"
    done
}

reload_both() { systemctl reload ropewalk-mds ropewalk-ds; }

# Kills the process that systemd knows of each unit.
crash_both() {
    for unit in ropewalk-mds ropewalk-ds; do
        before=$(main_pid $unit)
        kill -KILL "$before"
        until_true new_pid $unit "$before"
        until_true serves $unit
    done
}

# Stops a metadata server that then gives no sign. Its watchdog is shortened for this.
hang() {
    before=$(main_pid ropewalk-mds)
    kill -STOP "$before"
    until_true new_pid ropewalk-mds "$before"
    until_true serves ropewalk-mds
}

# Installs other versions of all packages beside servers that run on, and restarts these.
change_version() { # VERSION FOLDER [OPTION]
    mds=$(main_pid ropewalk-mds)
    # shellcheck disable=SC2086
    apt-get -q -y install --no-install-recommends ${3:-} "$2"/*.deb >/dev/null
    for package in ropewalk ropewalk-bench ropewalk-doc; do
        is=$(dpkg-query --show --showformat='${Version}' $package)
        [ "$is" = "$1" ] || fail "$package is of version $is and not $1"
    done
    [ "$(main_pid ropewalk-mds)" = "$mds" ] || fail "another version replaced the server without being asked"
    restart_both
}

upgrade() {
    change_version "$VERSION+next" $PACKAGES/next
    grep -q 'Of the next version' /etc/ropewalk/mds.toml.example || fail "an upgrade left the earlier examples"
    kept
}

# The way back, with the state as it is.
downgrade() {
    change_version "$VERSION" $PACKAGES --allow-downgrades
    if grep -q 'Of the next version' /etc/ropewalk/mds.toml.example; then fail "the way back left the later examples"; fi
    kept
}

# A configuration of a newer release is refused with the reason, and whoever serves goes on with the earlier one.
newer_configuration() {
    mds=$(main_pid ropewalk-mds)
    cp -p /etc/ropewalk/mds.toml /root/mds.toml
    sed -i '1i zigzag_of_a_newer_release = 1' /etc/ropewalk/mds.toml
    if ropewalk config check /etc/ropewalk/mds.toml 2>/tmp/said; then fail "a key of a newer release is not refused"; fi
    grep -q 'a newer release may know more' /tmp/said || fail "$(cat /tmp/said)"
    systemctl reload ropewalk-mds
    until_true said_by ropewalk-mds 'a newer release may know more'
    cp -p /root/mds.toml /etc/ropewalk/mds.toml
    serves ropewalk-mds || fail "a wrong configuration ended the server"
    [ "$(main_pid ropewalk-mds)" = "$mds" ] || fail "a wrong configuration replaced the server"
}

# Whether a unit has logged this.
said_by() { journalctl --no-pager -q -u "$1" | grep -q "$2"; }

units_are_safe() {
    for unit in ropewalk-mds ropewalk-ds; do
        systemd-analyze verify --man=no $unit.service || fail "systemd warns of $unit"
        # From 0 (safe) to 100.
        systemd-analyze security --no-pager --threshold=25 $unit.service >/tmp/security || fail "$(tail -n 1 /tmp/security)"
        say "$(tail -n 1 /tmp/security | sed 's/[^ -~]//g')"
    done
}

first() {
    head -c 3000000 /dev/urandom >/srv/before
    chmod 644 /srv/before
    start=$(date +%s%N)
    apt-get -q -y install --no-install-recommends $PACKAGES/*.deb >/dev/null
    ropewalk setup mds --yes --owner $WRITER:$WRITER --start >/dev/null
    ropewalk setup ds --yes --start >/dev/null
    mount -t nfs4 127.0.0.1:/ /mnt
    as_writer cp /srv/before /mnt/kept
    took=$((($(date +%s%N) - start) / 1000000))
    say "five commands and $took ms from the packages to a file at a mount"
    [ $took -lt 120000 ] || fail "two minutes are the most"
    cmp /srv/before /mnt/kept
    installed yes
    ropewalk --version | grep -q "^ropewalk $VERSION " || fail "$(ropewalk --version)"
    ropewalk-bench --version | grep -q "$VERSION" || fail "$(ropewalk-bench --version)"
    ropewalk config check /etc/ropewalk/mds.toml >/dev/null
    ropewalk config check /etc/ropewalk/ds.toml >/dev/null
    ropewalk doctor || fail "doctor finds something"
    units_are_safe
    under_load reload reload_both
    under_load restart restart_both
    mkdir -p /run/systemd/system/ropewalk-mds.service.d
    printf '[Service]\nWatchdogSec=5\n' >/run/systemd/system/ropewalk-mds.service.d/watchdog.conf
    systemctl daemon-reload
    systemctl restart ropewalk-mds
    under_load crash crash_both
    under_load hang hang
    under_load upgrade upgrade
    under_load downgrade downgrade
    under_load "configuration of a newer release" newer_configuration
    # The mount stays: a shutdown must end it while the servers still serve.
}

second() {
    until_true serves ropewalk-mds
    until_true serves ropewalk-ds
    mount -t nfs4 127.0.0.1:/ /mnt
    cmp /srv/before /mnt/kept
    cmp /srv/before /mnt/work-1
    say "servers came with the system, and files are what they were"
    umount /mnt
    apt-get -q -y remove ropewalk ropewalk-bench ropewalk-doc >/dev/null
    installed no
    kept
    [ -e /etc/ropewalk/mds.toml.example ] || fail "a removal took the examples, which are configuration"
    if (exec 3<>/dev/tcp/127.0.0.1/2049) 2>/dev/null; then fail "a server without its program still serves"; fi
    apt-get -q -y purge ropewalk ropewalk-bench ropewalk-doc >/dev/null
    [ ! -e /etc/ropewalk/mds.toml.example ] || fail "a purge left the examples"
    kept
    say "removed and purged; state and configuration are kept"
}

part=$(sed 's/.*check=\([a-z]*\).*/\1/' /proc/cmdline)
"$part"
say "passed: $part"
