//! Where the programs of a server listen, and peers there.

use crate::config::ClientConfig;
use nfs3_client::{PORTMAP_PORT, RpcPeer, RpcPeerConfig};
use std::sync::Arc;
use std::time::Duration;
use transport::{Address, Connector};

/// How long a port mapper may take to answer.
const PORTMAP_TIME: Duration = Duration::from_secs(2);
/// The same host at another TCP port; `None` within a process.
pub(super) fn at_port(address: &Address, port: u16) -> Option<Address> {
    let moved = |mut at: std::net::SocketAddr| {
        at.set_port(port);
        at
    };
    match address {
        Address::Tcp(at) | Address::Rdma(at) => Some(Address::Tcp(moved(*at))),
        Address::Tls {
            address,
            server_name,
        } => Some(Address::Tls {
            address: moved(*address),
            server_name: server_name.clone(),
        }),
        Address::Tunnel(_) | Address::Memory(_) => None,
    }
}

/// A peer at these addresses.
pub(super) fn peer(
    connector: &Arc<dyn Connector>,
    config: &ClientConfig,
    addresses: Vec<Address>,
) -> Arc<RpcPeer> {
    let [a, b, c, d, ..] = config.verifier.bytes;
    let config = RpcPeerConfig {
        addresses,
        connections: config.connections,
        calls_max: config.slots,
        try_timeout: config.try_timeout,
        give_up: config.give_up,
        first_xid: u32::from_be_bytes([a, b, c, d]),
    };
    RpcPeer::new(Arc::clone(connector), config)
}

/// The port of a program as the port mapper of the host tells; `None` where nobody does in time.
pub(super) async fn ask_port(
    connector: &Arc<dyn Connector>,
    config: &ClientConfig,
    addresses: &[Address],
    program: u32,
    version: u32,
) -> Option<u16> {
    let mut mappers: Vec<_> = addresses
        .iter()
        .filter_map(|a| at_port(a, PORTMAP_PORT))
        .collect();
    mappers.dedup();
    if mappers.is_empty() {
        return None;
    }
    let config = ClientConfig {
        // A port mapper that is not there refuses at once.
        give_up: Duration::ZERO,
        ..config.clone()
    };
    let mapper = peer(connector, &config, mappers);
    let asked = nfs3_client::get_port(&mapper, program, version);
    let asked = tokio::time::timeout(PORTMAP_TIME, asked).await;
    asked.ok()?.ok()?
}
