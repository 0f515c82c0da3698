//! TCP sockets and their options.

use std::io;
use std::net::SocketAddr;
use std::time::Duration;

use socket2::{Domain, Protocol, SockRef, Socket, TcpKeepalive, Type};
use tokio::net::TcpStream;

use crate::handle::ConnInfo;
use crate::{Endpoint, TransportKind};

/// Silence after which the kernel asks a peer whether it is still there.
const KEEPALIVE_TIME: Duration = Duration::from_secs(60);
/// Time between such questions.
const KEEPALIVE_INTERVAL: Duration = Duration::from_secs(10);
/// Questions without an answer after which the connection fails.
const KEEPALIVE_RETRIES: u32 = 6;

/// A socket for a listener: its address may be used again, and an IPv6 address takes IPv6 only.
pub(super) fn socket(address: SocketAddr) -> io::Result<Socket> {
    let socket = Socket::new(
        Domain::for_address(address),
        Type::STREAM,
        Some(Protocol::TCP),
    )?;
    socket.set_reuse_address(true)?;
    socket.set_nonblocking(true)?;
    if address.is_ipv6() {
        socket.set_only_v6(true)?;
    }
    Ok(socket)
}

/// Sets the options of a connected socket and says whom it joins.
pub(crate) fn prepare(stream: &TcpStream, kind: TransportKind) -> io::Result<ConnInfo> {
    stream.set_nodelay(true)?;
    let keepalive = TcpKeepalive::new()
        .with_time(KEEPALIVE_TIME)
        .with_interval(KEEPALIVE_INTERVAL)
        .with_retries(KEEPALIVE_RETRIES);
    SockRef::from(stream).set_tcp_keepalive(&keepalive)?;
    let peer = Endpoint::Socket(stream.peer_addr()?);
    let local = Endpoint::Socket(stream.local_addr()?);
    Ok(ConnInfo {
        kind,
        peer,
        local,
        tls: None,
    })
}
