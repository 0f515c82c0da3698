//! The table itself: clients behind one mutex, connections, and the clock.
//!
//! # Ownership
//! The mutex of [`ClientTable::lock`] is held for table work only, never across an `await`. Order of locks: the client
//! table, then whatever answers "has this client state", or the table of connections. Code that holds a lock which that
//! answer takes must not lock the client table.
//!
//! # Ordering
//! A connection is known before its first call and forgotten after its last one was read. Requests may outlive it.

use crate::dials::Dialed;
use crate::implementations::Implementations;
use nfs4::{ClientId, Verifier};
use state::{ClashSeen, Clients, NameClash, NameClashes};
use std::collections::{BTreeSet, HashMap};
use std::net::IpAddr;
use std::sync::{Arc, OnceLock, Weak};
use tokio::sync::Semaphore;
use tokio::time::Instant;
use tracing_mutex::parkinglot::{Mutex, MutexGuard};
use transport::{ConnHandle, Connector};

/// CB_NULLs under way at one time; sessions made meanwhile are not probed.
const PROBES_MAX: usize = 256;

/// A source of random 64-bit values.
pub type RandomU64 = Box<dyn Fn() -> u64 + Send + Sync>;

/// The clients of one server, shared by everything that serves them.
///
/// All listeners of the server must share one [`transport::Context`] or siblings of it, because connections are told
/// apart by their ids.
pub struct ClientTable {
    clients: Mutex<Clients>,
    /// Live connections, for callbacks. As many as the transport admits.
    pub(crate) connections: Mutex<HashMap<u64, ConnHandle>>,
    /// Connections that hold credits which others lack. Their clients are asked for slots.
    pub(crate) credits_short: Mutex<BTreeSet<u64>>,
    /// One permit for each CB_NULL under way.
    pub(crate) probes: Arc<Semaphore>,
    /// Connections to clients of NFSv4.0; at most one for each.
    pub(crate) dialed: Mutex<HashMap<ClientId, Dialed>>,
    /// What makes them.
    pub(crate) connector: OnceLock<Arc<dyn Connector>>,
    name_clashes: Mutex<NameClashes>,
    implementations: Implementations,
    random: RandomU64,
    started: Instant,
    /// For tasks that work on it.
    pub(crate) me: Weak<Self>,
}

impl ClientTable {
    /// A table with the limits and the grace period of `clients`. `random` makes session ids.
    #[must_use]
    pub fn new(clients: Clients, random: RandomU64) -> Arc<Self> {
        Arc::new_cyclic(|me| Self {
            clients: Mutex::new(clients),
            connections: Mutex::default(),
            credits_short: Mutex::default(),
            probes: Arc::new(Semaphore::new(PROBES_MAX)),
            dialed: Mutex::default(),
            connector: OnceLock::new(),
            name_clashes: Mutex::default(),
            implementations: Implementations::default(),
            random,
            started: Instant::now(),
            me: Weak::clone(me),
        })
    }

    /// Locks the table. Never hold the guard across an `await`.
    pub fn lock(&self) -> MutexGuard<'_, Clients> {
        self.clients.lock()
    }

    /// Milliseconds since the table was made: the clock of leases.
    pub fn now_ms(&self) -> u64 {
        u64::try_from(self.started.elapsed().as_millis()).unwrap_or(u64::MAX)
    }

    /// A random number for a session id.
    pub fn random(&self) -> u64 {
        (self.random)()
    }

    /// A connection was accepted.
    pub fn connected(&self, conn: &ConnHandle) {
        self.connections.lock().insert(conn.id(), conn.clone());
    }

    /// A connection is gone. Callbacks under way on it notice by themselves: their calls fail.
    pub fn disconnected(&self, conn: &ConnHandle) {
        self.connections.lock().remove(&conn.id());
        self.credits_short.lock().remove(&conn.id());
        let _sessions = self.lock().connection_closed(conn.id());
    }

    /// A connection holds credits that others lack. The next [`ClientTable::recall_slots`] asks its client for slots.
    pub fn credits_short(&self, conn: &ConnHandle) {
        self.credits_short.lock().insert(conn.id());
    }

    /// Notes that a machine has shown a client owner. Returns the clash if another machine has shown it, too.
    pub fn note_name(
        &self,
        owner: &[u8],
        verifier: Verifier,
        address: Option<IpAddr>,
    ) -> Option<ClashSeen> {
        let now_ms = self.now_ms();
        let mut clashes = self.name_clashes.lock();
        clashes.note(owner, verifier.bytes, address, now_ms)
    }

    /// A client has told the name of its implementation (EXCHANGE_ID, `eia_client_impl_id`).
    pub fn note_implementation(&self, client: ClientId, name: &[u8]) {
        self.implementations.note(client, name);
    }

    /// The name of a client's implementation, as far as it is kept.
    #[must_use]
    pub fn implementation(&self, client: ClientId) -> Option<Vec<u8>> {
        self.implementations.name(client)
    }

    /// Whether a client reads flexible files layouts (RFC 8435) with more than one stripe.
    pub fn has_striped_flex_files(&self, client: ClientId) -> bool {
        self.implementations.has_striped_flex_files(client)
    }

    /// Machines of one client owner that ended each other's sessions within the last ten minutes.
    pub fn name_clashes(&self) -> Vec<NameClash> {
        self.name_clashes.lock().recent(self.now_ms())
    }

    /// Whether several machines have shown this client owner within the last ten minutes.
    pub fn is_name_shared(&self, owner: &[u8]) -> bool {
        self.name_clashes.lock().is_shared(owner, self.now_ms())
    }
}
