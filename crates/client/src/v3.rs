//! The client of NFSv3 (RFC 1813): any server, without sessions, opens, layouts and locks.
//!
//! `exports` finds the handle that a path begins at, `names` follows it, `open`, `file` and `dir` do the rest. Calls go through
//! [`nfs3_client`], which sends them again and waits for busy servers. This module may not know of NFSv4 more than the types
//! of the interface, which are its own.

mod attrs;
mod dir;
mod exports;
mod file;
mod names;
mod node;
mod open;

pub(crate) use dir::ReadDir3;
pub(crate) use file::File3;

use crate::config::ClientConfig;
use crate::stats::Stats;
use crate::waits::{WaitReason, Waits};
use crate::{Error, StatsSnapshot, V3Ports};
use exports::Exports;
use nfs3_client::{CallerAuth, Fh, Nfs3Client, Nfs3Error, PORTMAP_PORT, RpcPeer, RpcPeerConfig};
use node::Node3;
use parking_lot::Mutex;
use std::collections::HashMap;
use std::future::Future;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Weak};
use std::time::Duration;
use tokio::task::JoinSet;
use transport::{Address, Connector};

/// How long a port mapper may take to answer.
const PORTMAP_TIME: Duration = Duration::from_secs(2);
/// How long the server may take to hear that the mounts have ended.
const UMNT_TIME: Duration = Duration::from_secs(2);

/// A server of NFSv3. Cheap to clone; all clones are one client.
#[derive(Debug, Clone)]
pub(crate) struct Client3(Arc<Inner3>);

pub(crate) struct Inner3 {
    config: ClientConfig,
    caller: CallerAuth,
    connector: Arc<dyn Connector>,
    addresses: Vec<Address>,
    ports: V3Ports,
    nfs: Nfs3Client,
    exports: tokio::sync::Mutex<Exports>,
    /// The least of all exports in use.
    read_bytes_max: AtomicU32,
    write_bytes_max: AtomicU32,
    /// Files in use.
    nodes: Mutex<HashMap<Fh, Weak<Node3>>>,
    stats: Stats,
    waits: Waits,
    /// Dropped files that are being flushed.
    closing: Mutex<JoinSet<()>>,
    next_verifier: AtomicU64,
}

impl std::fmt::Debug for Inner3 {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Client")
            .field("addresses", &self.addresses)
            .finish_non_exhaustive()
    }
}

/// The same host at another TCP port; `None` within a process.
fn at_port(address: &Address, port: u16) -> Option<Address> {
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
        Address::Memory(_) => None,
    }
}

impl Client3 {
    pub(crate) async fn connect(
        addresses: Vec<Address>,
        connector: Arc<dyn Connector>,
        config: ClientConfig,
        ports: V3Ports,
    ) -> Result<Self, Error> {
        let mut addresses = addresses;
        if ports.asks_for_nfs
            && let Some(port) = ask_port(
                &connector,
                &config,
                &addresses,
                nfs3::PROGRAM,
                nfs3::VERSION,
            )
            .await
        {
            let of_tcp = |a: &mut Address| matches!(a, Address::Tcp(_)).then(|| a.clone());
            for address in &mut addresses {
                if let Some(told) = of_tcp(address).and_then(|a| at_port(&a, port)) {
                    *address = told;
                }
            }
        }
        let peer = peer(&connector, &config, addresses.clone());
        let client = Self(Arc::new(Inner3 {
            caller: CallerAuth::auth_sys(&config.identity.auth_sys()),
            nfs: Nfs3Client::new(peer),
            connector,
            addresses,
            ports,
            exports: tokio::sync::Mutex::default(),
            read_bytes_max: AtomicU32::new(config.io_bytes_max.max(1)),
            write_bytes_max: AtomicU32::new(config.io_bytes_max.max(1)),
            nodes: Mutex::default(),
            stats: Stats::default(),
            waits: Waits::default(),
            closing: Mutex::default(),
            next_verifier: AtomicU64::new(u64::from_be_bytes(config.verifier.bytes)),
            config,
        }));
        client.0.wait(client.0.nfs.null()).await?;
        Ok(client)
    }

    pub(crate) fn stats(&self) -> StatsSnapshot {
        self.0.stats.snapshot()
    }

    pub(crate) fn longest_wait(&self) -> Option<(Duration, WaitReason)> {
        self.0.waits.longest()
    }

    /// Waits for dropped files, and tells the server that the mounts have ended.
    pub(crate) async fn close(self) -> Result<(), Error> {
        let mut closing = std::mem::take(&mut *self.0.closing.lock());
        while closing.join_next().await.is_some() {}
        // Its list of mounts is for people only.
        let _ = tokio::time::timeout(UMNT_TIME, self.0.unmount()).await;
        self.0.nfs.peer().close();
        Ok(())
    }
}

impl Inner3 {
    /// Waits for a call, visibly.
    async fn wait<T>(&self, call: impl Future<Output = Result<T, Nfs3Error>>) -> Result<T, Error> {
        let _waiting = self.waits.enter(WaitReason::Server);
        call.await.map_err(Error::from)
    }

    /// Largest READ.
    fn read_bytes_max(&self) -> u32 {
        self.read_bytes_max.load(Relaxed)
    }

    /// Largest WRITE.
    fn write_bytes_max(&self) -> u32 {
        self.write_bytes_max.load(Relaxed)
    }
}

/// A peer at these addresses.
fn peer(
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
async fn ask_port(
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
