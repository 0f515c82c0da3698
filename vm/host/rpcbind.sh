# For a server that registers with rpcbind: gives it one of its own. To be read by the server's shell, in network and mount
# namespaces of its own. TOOLS has the unpacked packages; RPC_DIR is for what rpcbind keeps.
# A server that is started again finds the rpcbind of before.
mkdir -p "$RPC_DIR/run/rpcbind" && mount --bind "$RPC_DIR/run" /run || exit
if [ ! -S /run/rpcbind.sock ]; then
    cp -a /etc "$RPC_DIR/etc"
    # libtirpc looks there for the names of transports.
    cp "$TOOLS/etc/netconfig" "$RPC_DIR/etc/netconfig" 2>/dev/null
    grep -q ^_rpc: "$RPC_DIR/etc/passwd" ||
        echo '_rpc:x:65533:65534::/run/rpcbind:/usr/sbin/nologin' >>"$RPC_DIR/etc/passwd"
    mount --bind "$RPC_DIR/etc" /etc || exit
    for rpcbind in "$TOOLS/sbin/rpcbind" "$TOOLS/usr/sbin/rpcbind"; do
        [ -x "$rpcbind" ] || continue
        LD_LIBRARY_PATH=$(echo "$TOOLS"/lib/*-linux-gnu):$(echo "$TOOLS"/usr/lib/*-linux-gnu) "$rpcbind" || exit
        break
    done
fi
