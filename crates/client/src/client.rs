//! The client: its session with the MDS, the requests over it, and the table of files in use.

use crate::backoff::Backoff;
use crate::callbacks::Recaller;
use crate::config::io_bytes;
use crate::device::Devices;
use crate::offloads::Offloads;
use crate::state::Inner;
use crate::stats::Stats;
use crate::waits::{WaitReason, Waits};
use crate::{ClientConfig, Error, StatsSnapshot};
use nfs4::ops::{EXCHGID_USE_NON_PNFS, EXCHGID_USE_PNFS_MDS};
use nfs4::{CompoundReply, NfsStatus};
use parking_lot::Mutex;
use session_client::{
    Build, CallbackHandler, Caller, Established, Outcome, Session, SessionConfig, SessionError,
};
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Weak};
use std::time::Duration;
use tokio::sync::Notify;
use transport::{Address, Connector};

/// Lease until the server has told its own.
const LEASE_S_DEFAULT: u32 = 30;
/// Longest time between renewals, whatever the lease.
const RENEWAL_S_MAX: u32 = 300;

/// Results of a request that makes something up to the one that says whether it is made: PUTFH and the operation.
const MAKING_RESULTS: u32 = 2;

/// When a request may be sent anew.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    /// Whenever there was no answer, or it was DELAY.
    Repeatable,
    /// When the answer was DELAY.
    Once,
    /// When the answer was DELAY and nothing is made yet.
    Making,
}

/// A file system mounted by NFSv4. Cheap to clone; all clones are one client.
#[derive(Debug, Clone)]
pub(crate) struct Client4(pub(crate) Arc<Inner>);

impl Client4 {
    /// Makes a client of the server at `addresses` (of one server, preferred first). This makes a session, ends
    /// reclaim, and starts a task that renews the lease until the last clone is dropped.
    ///
    /// # Errors
    /// When the server cannot be reached within [`ClientConfig::give_up`] or refuses.
    pub(crate) async fn connect(
        addresses: Vec<Address>,
        connector: Arc<dyn Connector>,
        config: ClientConfig,
    ) -> Result<Self, Error> {
        let caller = Caller::auth_sys(&config.identity.auth_sys());
        let stop = Arc::new(Notify::new());
        let inner = Arc::new_cyclic(|weak: &Weak<Inner>| {
            let callbacks: Arc<dyn CallbackHandler> = Arc::new(Recaller::new(weak.clone()));
            let session = Session::new(
                Arc::clone(&connector),
                SessionConfig {
                    owner: config.owner.clone(),
                    verifier: config.verifier,
                    addresses,
                    role_flag: if config.pnfs {
                        EXCHGID_USE_PNFS_MDS
                    } else {
                        EXCHGID_USE_NON_PNFS
                    },
                    minor_version: config.minor_version,
                    caller: caller.clone(),
                    slots: config.slots,
                    connections: config.connections,
                    callbacks: Some(callbacks),
                    try_timeout: config.try_timeout,
                    give_up: config.give_up,
                },
            );
            Inner {
                connector,
                caller,
                session,
                recovery: tokio::sync::Mutex::default(),
                ready: Mutex::default(),
                nodes: Mutex::default(),
                devices: Devices::default(),
                offloads: Offloads::default(),
                stats: Stats::default(),
                waits: Waits::default(),
                closing: Mutex::default(),
                next_owner: AtomicU64::new(1),
                lease_s: AtomicU32::new(LEASE_S_DEFAULT),
                closed: AtomicBool::new(false),
                stop: Arc::clone(&stop),
                config,
            }
        });
        inner.recover().await?;
        inner.learn_lease().await?;
        tokio::spawn(renew(Arc::downgrade(&inner), stop));
        Ok(Self(inner))
    }

    /// What was counted so far.
    #[must_use]
    pub(crate) fn stats(&self) -> StatsSnapshot {
        self.0.stats.snapshot()
    }

    /// What the MDS said when the session was made, while it lives.
    #[must_use]
    pub(crate) fn established(&self) -> Option<Arc<Established>> {
        self.0.session.established()
    }

    /// The lease that the MDS grants.
    #[must_use]
    pub(crate) fn lease(&self) -> Duration {
        Duration::from_secs(self.0.lease_s.load(Relaxed).into())
    }

    /// How long the oldest request in progress has waited, and for what.
    #[must_use]
    pub(crate) fn longest_wait(&self) -> Option<(Duration, WaitReason)> {
        self.0.waits.longest()
    }

    /// Ends the client at the servers, after the files that were dropped have been closed. Files that are still open
    /// lose their locks and shares.
    ///
    /// # Errors
    /// None that matter: the servers forget the client after its lease in any case.
    pub(crate) async fn close(self) -> Result<(), Error> {
        let mut closing = std::mem::take(&mut *self.0.closing.lock());
        while closing.join_next().await.is_some() {}
        self.0.closed.store(true, Relaxed);
        self.0.stop.notify_one();
        self.0.devices.close().await;
        Ok(self.0.session.destroy().await?)
    }
}

/// Renews the lease, also when nothing else is done; learns of a restart of the server while idle.
async fn renew(inner: Weak<Inner>, stop: Arc<Notify>) {
    loop {
        let Some(lease_s) = inner.upgrade().map(|i| i.lease_s.load(Relaxed)) else {
            return;
        };
        let pause = Duration::from_secs(u64::from((lease_s / 3).clamp(1, RENEWAL_S_MAX)));
        tokio::select! {
            biased;
            () = tokio::time::sleep(pause) => {}
            () = stop.notified() => return,
        }
        let Some(inner) = inner.upgrade() else { return };
        if inner.closed.load(Relaxed) {
            return;
        }
        match inner.call(&|_| Vec::new()).await {
            Ok(outcome) => inner.heed(outcome.status_flags).await,
            Err(e) => tracing::warn!("the lease could not be renewed: {e}"),
        }
    }
}

impl Inner {
    /// Sends operations that may be repeated, and returns the reply, whose operations may have failed. A lost session is
    /// recovered first; DELAY and GRACE are asked again until [`ClientConfig::give_up`].
    pub(crate) async fn call(self: &Arc<Self>, build: &Build<'_>) -> Result<Outcome, Error> {
        self.request(Kind::Repeatable, build).await
    }

    /// As [`Inner::call`], for operations that must be executed once.
    pub(crate) async fn call_once(self: &Arc<Self>, build: &Build<'_>) -> Result<Outcome, Error> {
        self.request(Kind::Once, build).await
    }

    /// As [`Inner::call_once`], for PUTFH, an operation that makes or opens something, GETFH, GETATTR. Once the operation has
    /// succeeded the request is not sent again, whatever the others say: the name may be another file's by then.
    pub(crate) async fn call_making(self: &Arc<Self>, build: &Build<'_>) -> Result<Outcome, Error> {
        self.request(Kind::Making, build).await
    }

    async fn request(self: &Arc<Self>, kind: Kind, build: &Build<'_>) -> Result<Outcome, Error> {
        let mut backoff = Backoff::new(self.config.give_up);
        let waiting = self.waits.enter(WaitReason::Mds);
        loop {
            if self.closed.load(Relaxed) {
                return Err(Error::Closed);
            }
            let session = self.session.established().map(|e| e.session);
            if session.is_none() || session != *self.ready.lock() {
                waiting.on(WaitReason::Session);
                match self.recover().await {
                    Ok(()) => {}
                    // The server ended again and again while it was recovered: there is time for more tries.
                    Err(Error::Session(SessionError::Lost)) if backoff.wait().await => continue,
                    Err(e) => return Err(e),
                }
                waiting.on(WaitReason::Mds);
            }
            let sent = if kind == Kind::Repeatable {
                self.session.compound(&self.caller, build).await
            } else {
                self.session.compound_once(&self.caller, build).await
            };
            match sent {
                Ok(outcome) => {
                    let reply = results(&outcome)?;
                    let is_made = kind == Kind::Making && reply.left() > MAKING_RESULTS;
                    match reply.status {
                        NfsStatus::Grace if !is_made => waiting.on(WaitReason::Grace),
                        NfsStatus::Delay if !is_made => waiting.on(WaitReason::Delay),
                        _ => return Ok(outcome),
                    }
                    if !backoff.wait().await {
                        return Ok(outcome);
                    }
                }
                Err(SessionError::Lost) => {
                    waiting.on(WaitReason::Session);
                    if !backoff.wait().await {
                        return Err(SessionError::Lost.into());
                    }
                }
                Err(e) => return Err(e.into()),
            }
        }
    }

    /// Largest READ through the MDS.
    pub(crate) fn read_bytes_max(&self) -> u32 {
        let granted = self.session.established();
        io_bytes(
            self.config.io_bytes_max,
            granted.map(|e| e.response_bytes_max),
        )
    }

    /// Largest WRITE through the MDS.
    pub(crate) fn write_bytes_max(&self) -> u32 {
        let granted = self.session.established();
        io_bytes(
            self.config.io_bytes_max,
            granted.map(|e| e.request_bytes_max),
        )
    }
}

/// A reader of the results after SEQUENCE.
pub(crate) fn results(outcome: &Outcome) -> Result<CompoundReply<'_>, Error> {
    Ok(outcome.results()?)
}
