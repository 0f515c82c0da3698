//! The service: RPC headers, credentials, connections and the clock (RFC 5531 §9). COMPOUNDs are executed in `execute`.
//!
//! # Ownership
//! The client table lies behind one mutex that is held for table work only, never across an `await`. Order of locks: the client
//! table, then whatever [`Role::has_state`] takes, or the table of connections. A role must not ask for the client table while
//! it holds a lock that `has_state` takes.
//!
//! # Ordering
//! A connection is known before its first call and forgotten after its last one was read; requests of it may outlive it.
//!
//! # Failure
//! A record that is no RPC call closes its connection: there is no transaction id to answer.

use crate::probe::PROBES_MAX;
use crate::{Counters, Role};
use bytes::Bytes;
use parking_lot::{Mutex, MutexGuard};
use rpc::{AcceptError, AuthStat, CallHeader, Credential, OpaqueAuth, Rejection};
use state::{Clients, NameClash, NameClashes};
use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;
use tokio::sync::Semaphore;
use tokio::time::Instant;
use transport::{CloseReason, ConnHandle, Endpoint, Message, Service};
use xdr::{Decoder, Encoder};

const PROC_NULL: u32 = 0;
const PROC_COMPOUND: u32 = 1;

/// What an engine is made with.
pub struct NfsdConfig {
    /// The client table, with its limits and its grace period.
    pub clients: Clients,
    /// Random 64-bit values, for session ids.
    pub random: Box<dyn Fn() -> u64 + Send + Sync>,
}

/// The NFSv4.1 and 4.2 service of one server. All its listeners must share one [`transport::Context`] or siblings of
/// it, because connections are told apart by their ids.
pub struct Nfsd<R: Role> {
    role: R,
    clients: Mutex<Clients>,
    /// Live connections, for callbacks. As many as the transport admits.
    pub(crate) connections: Mutex<HashMap<u64, ConnHandle>>,
    /// Of those, connections that hold credits which others lack. Their clients are to be asked for slots.
    pub(crate) credits_short: Mutex<BTreeSet<u64>>,
    /// Places for those that wait.
    pub(crate) probes: Arc<Semaphore>,
    pub(crate) name_clashes: Mutex<NameClashes>,
    random: Box<dyn Fn() -> u64 + Send + Sync>,
    started: Instant,
    counters: Counters,
}

impl<R: Role> Nfsd<R> {
    /// A service that executes the operations of `role`.
    pub fn new(role: R, config: NfsdConfig) -> Arc<Self> {
        Arc::new(Self {
            role,
            clients: Mutex::new(config.clients),
            connections: Mutex::default(),
            credits_short: Mutex::default(),
            probes: Arc::new(Semaphore::new(PROBES_MAX)),
            name_clashes: Mutex::default(),
            random: config.random,
            started: Instant::now(),
            counters: Counters::default(),
        })
    }

    /// The role.
    pub fn role(&self) -> &R {
        &self.role
    }

    /// The client table. Never hold the guard across an `await`.
    pub fn clients(&self) -> MutexGuard<'_, Clients> {
        self.clients.lock()
    }

    /// Milliseconds since this service was made: the clock of leases.
    pub fn now_ms(&self) -> u64 {
        u64::try_from(self.started.elapsed().as_millis()).unwrap_or(u64::MAX)
    }

    /// What it counts.
    pub fn counters(&self) -> &Counters {
        &self.counters
    }

    /// Machines of one client owner that ended each other's sessions within the last ten minutes.
    pub fn name_clashes(&self) -> Vec<NameClash> {
        self.name_clashes.lock().recent(self.now_ms())
    }

    /// Whether several machines have shown this client owner within the last ten minutes.
    pub fn is_name_shared(&self, owner: &[u8]) -> bool {
        self.name_clashes.lock().is_shared(owner, self.now_ms())
    }

    pub(crate) fn random(&self) -> u64 {
        (self.random)()
    }

    /// Ends clients whose time is over. To be called about once a second.
    pub async fn expire(&self) {
        let now_ms = self.now_ms();
        let gone = self.clients().expire(now_ms, |c| self.role.has_state(c));
        for removed in gone {
            R::client_removed(self, removed).await;
        }
    }

    async fn serve(
        &self,
        conn: &ConnHandle,
        record: &Bytes,
        header: &CallHeader<'_>,
        args: Decoder<'_>,
    ) -> Option<Message> {
        let xid = header.xid;
        let refuse = |stat: AuthStat| {
            Counters::add(&self.counters.refused);
            Some(rpc_error(xid, Rejection::Auth(stat).into()))
        };
        if header.program != nfs4::PROGRAM {
            return Some(rpc_error(xid, AcceptError::ProgUnavail.into()));
        }
        if header.version != nfs4::VERSION {
            let (low, high) = (nfs4::VERSION, nfs4::VERSION);
            let mismatch = AcceptError::ProgMismatch { low, high };
            return Some(rpc_error(xid, mismatch.into()));
        }
        let credential = match Credential::parse(&header.credential) {
            Ok(Credential::Gss(_) | Credential::TlsProbe) => return refuse(AuthStat::RejectedCred),
            Ok(credential) => credential,
            Err(stat) => return refuse(stat),
        };
        match header.procedure {
            PROC_NULL => {
                let mut e = Encoder::new();
                rpc::begin_success(&mut e, xid, OpaqueAuth::NONE);
                Some(e.into())
            }
            PROC_COMPOUND => {
                self.role.prepare(&credential).await;
                match self.role.admit(conn, &credential) {
                    Err(stat) => refuse(stat),
                    Ok(caller) => {
                        let who = (caller, credential);
                        self.compound(conn, xid, who, record, args).await
                    }
                }
            }
            _ => Some(rpc_error(xid, AcceptError::ProcUnavail.into())),
        }
    }
}

pub(crate) fn rpc_error(xid: u32, verdict: rpc::Verdict) -> Message {
    let mut e = Encoder::new();
    rpc::encode_error(&mut e, xid, verdict);
    e.into()
}

impl<R: Role> Service for Nfsd<R> {
    async fn call(&self, conn: &ConnHandle, record: Bytes) -> Option<Message> {
        let mut d = Decoder::new(&record);
        match CallHeader::decode(&mut d) {
            Ok(header) => self.serve(conn, &record, &header, d).await,
            Err(rpc::CallError::Refused { xid, verdict }) => {
                Counters::add(&self.counters.refused);
                Some(rpc_error(xid, verdict))
            }
            Err(rpc::CallError::Malformed(error)) => {
                Counters::add(&self.counters.malformed);
                conn.close_with(CloseReason::MalformedMessage, error);
                None
            }
        }
    }

    /// An end within the process (tests, the simulator) may always connect.
    fn admits(&self, peer: &Endpoint) -> bool {
        peer.socket().is_none_or(|peer| self.role.admits(peer.ip()))
    }

    fn connected(&self, conn: &ConnHandle) {
        self.connections.lock().insert(conn.id(), conn.clone());
    }

    fn disconnected(&self, conn: &ConnHandle, _reason: CloseReason) {
        self.connections.lock().remove(&conn.id());
        self.credits_short.lock().remove(&conn.id());
        // Callbacks under way on it notice by themselves: their calls fail.
        let _sessions = self.clients().connection_closed(conn.id());
    }

    fn credits_short(&self, conn: &ConnHandle) {
        self.credits_short.lock().insert(conn.id());
    }
}
