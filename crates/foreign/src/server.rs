//! One server of others in this process: how it is called, whether it is up, and what it was seen to say.
//!
//! # Ownership
//! Two RPC peers: one for files, and one for the pulse alone, which no slow WRITE holds up. Handles of the directories are kept.
//!
//! # Failure
//! A server that is known to be down is not called. One that is not known yet is.

use crate::fail::Fail;
use crate::ids::caller;
use crate::records::{ServerRecord, ServerState};
use nfs3::Nfs3Status;
use nfs3::procs::FsStatOk;
use nfs3_client::{CallerAuth, Fh, Nfs3Client, Nfs3Error, RpcError, RpcPeer, RpcPeerConfig};
use nfs4::Verifier;
use std::collections::HashMap;
use std::future::Future;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Duration;
use tokio::time::Instant;
use tracing_mutex::parkinglot::Mutex;
use transport::{Address, Connector};

/// When a call is given up.
pub const CALL_GIVE_UP: Duration = Duration::from_secs(10);
/// Until when a call is tried again, `NFS3ERR_JUKEBOX` included.
const CALL_TRIES: Duration = Duration::from_secs(8);
/// How long one try of it waits.
pub const CALL_TRY: Duration = Duration::from_secs(4);
/// A server that does not answer the pulse for this long is down.
pub const PULSE_GIVE_UP: Duration = Duration::from_secs(4);
/// When fences are not waited for any more at a server that is down, where another mirror is good.
const LOST_AFTER: Duration = Duration::from_secs(5);
/// For how long a server counts as failing after a call for a file has failed.
const FAILING_FOR: Duration = Duration::from_secs(60);
/// Most calls in flight at one server; more wait.
pub const CALLS_MAX: u32 = 64;
/// Connections to one server.
const CONNECTIONS: u32 = 2;
/// Locks of objects of one server: two objects may share one.
const LOCKS: usize = 64;
/// A server with less room than this gets no new files.
const FREE_BYTES_MIN: u64 = 64 << 20;
/// Nor does one with less than this part of its room.
const FREE_SHARE_MIN: u64 = 100;

/// Whether a server answers, as last seen.
#[derive(Debug, Clone, Default)]
pub(crate) struct Health {
    /// `None` before anything was seen.
    pub(crate) is_up: Option<bool>,
    pub(crate) since: Option<Instant>,
    pub(crate) pulse_at: Option<Instant>,
    pub(crate) total_bytes: u64,
    pub(crate) free_bytes: u64,
    /// What it failed with last, and when.
    pub(crate) last_error: Option<(String, Instant)>,
    /// When a call for a file has failed that the server answered.
    pub(crate) failed_at: Option<Instant>,
}

pub(crate) struct Server {
    pub(crate) id: u32,
    /// Names its directory there.
    pub(crate) cluster_id: u64,
    record: Mutex<Arc<ServerRecord>>,
    pub(crate) nfs: Nfs3Client,
    pub(crate) pulse: Nfs3Client,
    pub(crate) root_caller: CallerAuth,
    pub(crate) health: Mutex<Health>,
    /// The newest write verifier that was seen.
    pub(crate) verifier: Mutex<Option<Verifier>>,
    /// Handles of directories; `None` is that of the cluster.
    pub(crate) dirs: Mutex<HashMap<Option<u8>, Fh>>,
    /// Held while the ids of an object change, so that an older epoch never comes after a newer one.
    locks: Vec<tokio::sync::Mutex<()>>,
    /// Since when it gets no new files, as far as this process knows.
    pub(crate) draining_since: Mutex<Option<Instant>>,
    /// Whether its pulse is being taken.
    pub(crate) is_pulsing: AtomicBool,
    /// Whether it was asked for the code of its export, which the record has not.
    pub(crate) is_code_asked: AtomicBool,
    /// Whether fences are being delivered to it.
    pub(crate) is_fencing: AtomicBool,
}

impl Server {
    pub(crate) fn new(
        record: ServerRecord,
        cluster_id: u64,
        connector: &Arc<dyn Connector>,
        random: &dyn Fn() -> u64,
    ) -> Self {
        let client = |calls_max, connections, give_up| {
            #[allow(clippy::cast_possible_truncation, reason = "any bits will do")]
            let first_xid = random() as u32;
            let peer = RpcPeerConfig {
                addresses: addresses(&record),
                connections,
                calls_max,
                try_timeout: CALL_TRY,
                give_up,
                first_xid,
            };
            Nfs3Client::new(RpcPeer::new(Arc::clone(connector), peer))
        };
        let is_draining = record.state == ServerState::Draining;
        Self {
            draining_since: Mutex::new(is_draining.then(Instant::now)),
            id: record.id,
            cluster_id,
            nfs: client(CALLS_MAX, CONNECTIONS, CALL_TRIES),
            pulse: client(1, 1, PULSE_GIVE_UP),
            record: Mutex::new(Arc::new(record)),
            root_caller: caller(0, 0),
            health: Mutex::default(),
            verifier: Mutex::default(),
            dirs: Mutex::default(),
            locks: (0..LOCKS).map(|_| tokio::sync::Mutex::default()).collect(),
            is_pulsing: AtomicBool::new(false),
            is_code_asked: AtomicBool::new(false),
            is_fencing: AtomicBool::new(false),
        }
    }

    pub(crate) fn record(&self) -> Arc<ServerRecord> {
        Arc::clone(&self.record.lock())
    }

    pub(crate) fn set_record(&self, record: ServerRecord) {
        *self.record.lock() = Arc::new(record);
    }

    pub(crate) fn state(&self) -> ServerState {
        self.record.lock().state
    }

    /// The lock of an object's ids.
    pub(crate) fn lock_of(&self, number: u64) -> &tokio::sync::Mutex<()> {
        let index = usize::try_from(number % LOCKS as u64).unwrap_or(0);
        &self.locks[index]
    }

    /// Whether it was seen to answer, and nothing else since.
    pub(crate) fn is_up(&self) -> bool {
        self.state() != ServerState::Removed && self.health.lock().is_up == Some(true)
    }

    /// Whether it is not to be called.
    pub(crate) fn is_down(&self) -> bool {
        self.state() == ServerState::Removed || self.health.lock().is_up == Some(false)
    }

    /// Whether it has been down for longer than a hiccup takes.
    pub(crate) fn is_lost(&self) -> bool {
        let health = self.health.lock();
        let since = health.since.map(|since| since.elapsed());
        health.is_up == Some(false) && since.is_some_and(|since| since >= LOST_AFTER)
    }

    /// Whether new files may go there, apart from its room.
    pub(crate) fn is_usable(&self) -> bool {
        self.state() == ServerState::Active && self.is_up()
    }

    pub(crate) fn is_full(&self) -> bool {
        let health = self.health.lock();
        health.free_bytes < FREE_BYTES_MIN
            || health.free_bytes < health.total_bytes / FREE_SHARE_MIN
    }

    pub(crate) fn went_up(&self, room: &FsStatOk) {
        let mut health = self.health.lock();
        if health.is_up != Some(true) {
            tracing::info!(server = self.id, "a foreign server is up");
            health.is_up = Some(true);
            health.since = Some(Instant::now());
        }
        health.total_bytes = room.tbytes;
        health.free_bytes = room.abytes.min(room.tbytes);
    }

    pub(crate) fn went_down(&self, why: &str) {
        let mut health = self.health.lock();
        if health.is_up != Some(false) {
            tracing::warn!(server = self.id, why, "a foreign server is down");
            health.is_up = Some(false);
            health.since = Some(Instant::now());
        }
        health.last_error = Some((why.to_owned(), Instant::now()));
    }

    /// Notes a call for a file that has failed for good. What its caller did not call for, or what comes of load, is no failure.
    pub(crate) fn note_failure(&self, fail: &Fail) {
        let is_failure = match fail {
            Fail::Down | Fail::Removed | Fail::Newer => false,
            // The server is down, which says more.
            Fail::Call(Nfs3Error::Rpc(RpcError::Unreachable(_) | RpcError::TimedOut)) => false,
            Fail::Call(Nfs3Error::Status(Nfs3Status::Jukebox | Nfs3Status::FBig)) => false,
            Fail::Call(_) | Fail::Lost | Fail::Wrong(_) => true,
        };
        if is_failure {
            let now = Instant::now();
            let mut health = self.health.lock();
            health.last_error = Some((fail.to_string(), now));
            health.failed_at = Some(now);
        }
    }

    /// Whether it answers, and calls for files have failed there of late.
    pub(crate) fn is_failing(&self) -> bool {
        let failed = self.health.lock().failed_at;
        self.is_up() && failed.is_some_and(|at| at.elapsed() < FAILING_FOR)
    }

    /// Makes one call, unless the server is known to be down. One that gets no answer marks it down.
    pub(crate) async fn call<T>(
        &self,
        call: impl Future<Output = Result<T, Nfs3Error>>,
    ) -> Result<T, Fail> {
        if self.is_down() {
            return Err(Fail::Down);
        }
        let result = match tokio::time::timeout(CALL_GIVE_UP, call).await {
            Ok(result) => result,
            Err(_) => Err(RpcError::TimedOut.into()),
        };
        let error = match result {
            Ok(ok) => return Ok(ok),
            Err(error) => error,
        };
        if let Nfs3Error::Rpc(RpcError::Unreachable(_) | RpcError::TimedOut) = &error {
            self.went_down(&error.to_string());
        }
        Err(Fail::Call(error))
    }

    /// Notes a write verifier.
    pub(crate) fn saw(&self, verifier: [u8; 8]) -> Verifier {
        let verifier = Verifier { bytes: verifier };
        *self.verifier.lock() = Some(verifier);
        verifier
    }
}

/// The addresses that we can connect to.
pub(crate) fn addresses(record: &ServerRecord) -> Vec<Address> {
    let told = record.addresses.0.iter();
    told.filter_map(|a| Address::of_told(a.netid.as_str(), a.uaddr.as_str()))
        .collect()
}
