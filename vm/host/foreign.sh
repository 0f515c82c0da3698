# NFSv3 servers of others: two nfs-ganesha 4.3, whose files are in memory. To be read by a shell in network, mount and process
# namespaces of its own, before the server starts. GANESHA has the unpacked packages (empty: those of this machine),
# FOREIGN_DIR is for logs and configurations, ROPEWALK is the program, CLUSTER_DIR the directory of its `up`.
#
# foreign_start N starts server N (1 or 2) and waits until it listens, foreign_kill N kills it, foreign_add adds both once the
# metadata server answers. Two that start at once would take each other's names from rpcbind, and one would give up.
# ganesha registers with rpcbind, which must run. It listens on all addresses, so each server has ports of its own.
FOREIGN_NET=192.0.2

foreign_address() { echo "$FOREIGN_NET.$((10 + $1))"; }
foreign_port() { echo "$((2049 + $1 * 1000))"; }
foreign_mount_port() { echo "$((2048 + $1 * 1000))"; }

# Addresses on loopback are answered for on every interface.
foreign_prepare() {
    mkdir -p "$FOREIGN_DIR" || return
    for foreign_n in 1 2; do
        mkdir -p "$FOREIGN_DIR/data$foreign_n" "$FOREIGN_DIR/run$foreign_n" || return
        mount -t tmpfs -o size=512m none "$FOREIGN_DIR/data$foreign_n" || return
        # Nobody but root may look around; clients have handles.
        chmod 711 "$FOREIGN_DIR/data$foreign_n" || return
        ip address add "$(foreign_address $foreign_n)/32" dev lo || return
        foreign_config $foreign_n >"$FOREIGN_DIR/$foreign_n.conf" || return
    done
    mkdir -p /run/ganesha
}

foreign_config() {
    foreign_modules=
    if [ -n "$GANESHA" ]; then
        foreign_modules=$(echo "$GANESHA"/usr/lib/*-linux-gnu/ganesha "$GANESHA"/usr/lib/ganesha | tr ' ' '\n' | grep -v '\*' | head -1)
    fi
    cat <<EOF
NFS_CORE_PARAM {
    Bind_addr = $(foreign_address "$1");
    NFS_Port = $(foreign_port "$1");
    MNT_Port = $(foreign_mount_port "$1");
    Protocols = 3;
    Enable_UDP = false;
    Enable_NLM = false;
    Enable_RQUOTA = false;
    ${foreign_modules:+Plugins_Dir = $foreign_modules;}
}
NFSV4 { RecoveryBackend = fs; RecoveryRoot = "$FOREIGN_DIR/run$1"; }
EXPORT {
    Export_Id = $1;
    Path = "$FOREIGN_DIR/data$1";
    Pseudo = "/data$1";
    Access_Type = RW;
    Squash = No_Root_Squash;
    SecType = sys;
    Protocols = 3;
    Transports = TCP;
    FSAL { Name = VFS; }
}
EOF
}

foreign_start() {
    foreign_program=ganesha.nfsd
    foreign_libraries=
    if [ -n "$GANESHA" ]; then
        foreign_program=$GANESHA/usr/bin/ganesha.nfsd
        foreign_libraries=$(echo "$GANESHA"/usr/lib/*-linux-gnu):$(echo "$GANESHA"/lib/*-linux-gnu):$GANESHA/usr/lib/ganesha
    fi
    LD_LIBRARY_PATH=$foreign_libraries "$foreign_program" -F -L "$FOREIGN_DIR/$1.log" -f "$FOREIGN_DIR/$1.conf" \
        -p "$FOREIGN_DIR/$1.lock" >"$FOREIGN_DIR/$1.out" 2>&1 &
    echo $! >"$FOREIGN_DIR/$1.pid"
    foreign_await "$1"
}

foreign_kill() { kill -9 "$(cat "$FOREIGN_DIR/$1.pid")"; }

# Waits until a server listens.
foreign_await() {
    for foreign_try in $(seq 100); do
        ss -Hltn "sport = :$(foreign_port "$1")" | grep -q . && return
        sleep 0.2
    done
    tail -n 3 "$FOREIGN_DIR/$1.log" >&2
    return 1
}

foreign_add_one() {
    "$ROPEWALK" ds add-nfs3 "$(foreign_address "$1"):$FOREIGN_DIR/data$1" --port "$(foreign_port "$1")" \
        --mount-port "$(foreign_mount_port "$1")" --dir "$CLUSTER_DIR"
}

foreign_add() {
    for foreign_try in $(seq 100); do
        "$ROPEWALK" status --dir "$CLUSTER_DIR" >/dev/null 2>&1 && break
        sleep 0.2
    done
    foreign_add_one 1 && foreign_add_one 2
}

# Adds both servers, then does what the harness asks for by files in FOREIGN_DIR: kill-N, start-N. Ends both with the process $1.
foreign_serve() {
    foreign_add >"$FOREIGN_DIR/add.log" 2>&1
    while kill -0 "$1" 2>/dev/null; do
        for foreign_n in 1 2; do
            if [ -e "$FOREIGN_DIR/kill-$foreign_n" ]; then
                foreign_kill $foreign_n
                rm "$FOREIGN_DIR/kill-$foreign_n"
            fi
            if [ -e "$FOREIGN_DIR/start-$foreign_n" ]; then
                foreign_start $foreign_n
                rm "$FOREIGN_DIR/start-$foreign_n"
            fi
        done
        sleep 0.2
    done
    foreign_kill 1
    foreign_kill 2
}

# What a server command does before `exec ropewalk up`: its process id stays.
foreign_beside() {
    foreign_prepare && foreign_start 1 && foreign_start 2 || return
    foreign_serve $$ &
}
