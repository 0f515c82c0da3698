//! Who may touch what: lease, keys, floors, and the I/O that was let in.
//!
//! [`Gate::admit`] judges a handle (rules R5, R6, R10) and counts the operation as in flight on its file; a fence raises
//! floors here and then waits with [`Gate::drain`].
//!
//! ```text
//!   Away ── HELLO answered ─► CatchingUp ── floors durable ─► Serving
//!    ▲                            ▲  └────── HELLO again ───────┤      any ── EXPEL ─► Expelled
//!    └─ lease ended ──────────────┴─────────────────────────────┘
//! ```
//! # Ownership
//! One mutex, never held across an `await`. A [`Flight`] holds its file's batch until it is dropped.
//!
//! # Ordering
//! Floors are checked and the operation counted under the same lock under which floors rise: an operation is either refused by
//! a floor or seen by the drain that follows it. A drain seals the batches that exist, so later admissions never delay it.
//!
//! # Failure
//! Everything here but the floors ends with the process; floors come back from the index.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::SeqCst};

use control::Status;
use layout::{ClientTag, DsHandle, Floors, HandleError, KeyRing};
use nfs4::NfsStatus;
use parking_lot::Mutex;
use tokio::sync::Notify;
use tokio::time::Instant;
use transport::ConnHandle;

use crate::handles::{Handles, Verified};
use crate::{LeaseState, Membership};

/// Times that a handle is verified anew because keys changed meanwhile.
const VERIFY_TRIES_MAX: u32 = 4;

/// What an operation wants to do with the file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Want {
    /// Read data or attributes.
    Read,
    /// Write, or make writes durable.
    Write,
}

/// Why an operation is not let in.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Refused {
    /// No lease, or floors are still to come.
    NotServing {
        /// Whether the MDS itself asks, which waits instead of dropping a layout.
        proxy: bool,
    },
    /// No live key signed the handle for this cluster, or it was altered.
    Forged,
    /// The handle belongs to another client owner.
    OfOther,
    /// Below a floor, or signed under a retired key.
    Fenced,
    /// The file is removed.
    Removed,
    /// A write with a handle for reading.
    Rights,
}

impl Refused {
    /// What the client is told. `PNFS_NO_LAYOUT` makes it return to the MDS for a new layout.
    #[must_use]
    pub(crate) const fn status(self) -> NfsStatus {
        match self {
            Self::NotServing { proxy: true } => NfsStatus::Delay,
            Self::NotServing { proxy: false } | Self::OfOther | Self::Fenced => {
                NfsStatus::PnfsNoLayout
            }
            Self::Forged => NfsStatus::BadHandle,
            Self::Removed => NfsStatus::Stale,
            Self::Rights => NfsStatus::Access,
        }
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Phase {
    Away,
    CatchingUp { next_page: u32 },
    Serving,
    Expelled,
}

struct Ring {
    generation: u64,
    keys: KeyRing,
}

struct Inner {
    phase: Phase,
    lease_until: Option<Instant>,
    ring: Arc<Ring>,
    membership: Option<Membership>,
    proxy: Option<ClientTag>,
    conn: Option<ConnHandle>,
    floors: Floors,
    /// By file. A batch lives while one of its operations does.
    flights: HashMap<u64, Vec<Arc<Batch>>>,
}

/// Operations on one file that were admitted between two drains.
#[derive(Default)]
struct Batch {
    count: AtomicUsize,
    sealed: AtomicBool,
    done: Notify,
}

impl Batch {
    /// Lets nothing more join; called under the lock of the gate.
    fn seal(batch: &Arc<Self>) -> Arc<Self> {
        batch.sealed.store(true, SeqCst);
        Arc::clone(batch)
    }

    async fn idle(&self) {
        loop {
            let done = self.done.notified();
            tokio::pin!(done);
            done.as_mut().enable();
            if self.count.load(SeqCst) == 0 {
                return;
            }
            done.await;
        }
    }
}

/// See the module.
pub(crate) struct Gate {
    inner: Mutex<Inner>,
    handles: Handles,
}

/// Work on a file that is going on. The file's fences wait until it is dropped.
pub(crate) struct Flight<'a> {
    gate: &'a Gate,
    batch: Arc<Batch>,
    file_id: u64,
}

impl Drop for Flight<'_> {
    fn drop(&mut self) {
        if self.batch.count.fetch_sub(1, SeqCst) > 1 {
            return;
        }
        let mut inner = self.gate.inner.lock();
        if let Some(batches) = inner.flights.get_mut(&self.file_id) {
            batches.retain(|b| b.count.load(SeqCst) > 0);
            if batches.is_empty() {
                inner.flights.remove(&self.file_id);
            }
        }
        drop(inner);
        self.batch.done.notify_waiters();
    }
}

/// An operation that was let in. Its file's fences wait until it is dropped.
pub(crate) struct Admitted<'a> {
    _flight: Flight<'a>,
    /// What the handle says.
    pub(crate) handle: DsHandle,
    /// Whether the MDS itself asks, for a client without a layout.
    pub(crate) is_proxy: bool,
}

impl Gate {
    /// A gate that lets nothing in, with the floors of the index.
    pub(crate) fn new(floors: Floors, membership: Option<Membership>) -> Self {
        Self {
            inner: Mutex::new(Inner {
                phase: Phase::Away,
                lease_until: None,
                ring: Arc::new(Ring {
                    generation: 0,
                    keys: KeyRing::new(),
                }),
                membership,
                proxy: None,
                conn: None,
                floors,
                flights: HashMap::new(),
            }),
            handles: Handles::new(),
        }
    }

    /// Judges a handle of PUTFH: whether a live key signed it. Retired keys and a missing lease are left to the
    /// operation, which has a better answer.
    pub(crate) fn recognise(&self, fh: &[u8]) -> Result<(), Refused> {
        if fh.len() != layout::DS_HANDLE_BYTES {
            return Err(Refused::Forged);
        }
        if self.inner.lock().ring.generation == 0 {
            return Ok(());
        }
        match self.verified(fh) {
            Err(Refused::Forged) => Err(Refused::Forged),
            _ => Ok(()),
        }
    }

    /// Lets an operation in, or says why not. `owner` is that of the session.
    ///
    /// # Errors
    /// [`Refused`].
    pub(crate) fn admit(
        &self,
        fh: &[u8],
        owner: &Arc<[u8]>,
        want: Want,
    ) -> Result<Admitted<'_>, Refused> {
        for _ in 0..VERIFY_TRIES_MAX {
            let (verified, cluster_id) = match self.verified(fh) {
                Ok(found) => found,
                // Without a lease there may be no keys either: then nothing is known of the handle.
                Err(refused) => {
                    let inner = self.inner.lock();
                    return Err(if inner.is_serving() {
                        refused
                    } else {
                        Refused::NotServing { proxy: false }
                    });
                }
            };
            let matched = verified.owner.as_ref().is_some_and(|known| known == owner);
            if !matched {
                if ClientTag::of(cluster_id, owner) != verified.handle.client {
                    return Err(Refused::OfOther);
                }
                if let Ok(bytes) = fh.try_into() {
                    let owner = Some(Arc::clone(owner));
                    self.handles.keep(bytes, Verified { owner, ..verified });
                }
            }
            let mut inner = self.inner.lock();
            if inner.ring.generation == verified.generation {
                return inner.enter(self, verified.handle, want);
            }
        }
        Err(Refused::NotServing { proxy: false })
    }

    fn verified(&self, fh: &[u8]) -> Result<(Verified, u64), Refused> {
        let bytes = fh.try_into().map_err(|_| Refused::Forged)?;
        let (ring, cluster_id) = {
            let inner = self.inner.lock();
            let membership = inner.membership.ok_or(Refused::Forged)?;
            (Arc::clone(&inner.ring), membership.cluster_id)
        };
        if let Some(verified) = self.handles.find(bytes, ring.generation) {
            return Ok((verified, cluster_id));
        }
        let handle = DsHandle::verify(bytes, cluster_id, &ring.keys).map_err(|e| match e {
            HandleError::UnknownKey { retired: true, .. } => Refused::Fenced,
            _ => Refused::Forged,
        })?;
        let verified = Verified {
            handle,
            generation: ring.generation,
            owner: None,
        };
        self.handles.keep(bytes, verified.clone());
        Ok((verified, cluster_id))
    }

    /// Lets work in that the MDS asked for on `conn`: not when it has another connection by now, or the file is removed. What
    /// the MDS has given up on is thus over before this server serves again, since that follows a drain.
    ///
    /// # Errors
    /// `NotReady` or `Removed`.
    pub(crate) fn enter_for(
        &self,
        conn: &ConnHandle,
        file_id: u64,
        generation: u32,
    ) -> Result<Flight<'_>, Status> {
        let mut inner = self.inner.lock();
        if inner.conn.as_ref() != Some(conn) || inner.phase != Phase::Serving {
            return Err(Status::NotReady);
        }
        if inner.floors.is_removed(file_id, generation) {
            return Err(Status::Removed);
        }
        Ok(inner.fly(self, file_id))
    }

    /// Seals what is in flight on `files` and waits until it has ended.
    pub(crate) async fn drain(&self, files: impl IntoIterator<Item = u64>) {
        let batches: Vec<_> = {
            let inner = self.inner.lock();
            let of = |file: u64| inner.flights.get(&file).into_iter().flatten();
            files.into_iter().flat_map(of).map(Batch::seal).collect()
        };
        for batch in batches {
            batch.idle().await;
        }
    }

    /// As [`Gate::drain`], for all files.
    pub(crate) async fn drain_all(&self) {
        let batches: Vec<_> = {
            let inner = self.inner.lock();
            inner.flights.values().flatten().map(Batch::seal).collect()
        };
        for batch in batches {
            batch.idle().await;
        }
    }

    /// The floors, to be raised by [`crate::raise`] only.
    pub(crate) fn with_floors<T>(&self, change: impl FnOnce(&mut Floors) -> T) -> T {
        change(&mut self.inner.lock().floors)
    }

    /// Replaces the keys. Returns whether more are retired than before, and through which.
    pub(crate) fn replace_keys(&self, keys: KeyRing) -> Option<u32> {
        let mut inner = self.inner.lock();
        let retired = keys.retired_through();
        let more = retired > inner.ring.keys.retired_through();
        if keys != inner.ring.keys || inner.ring.generation == 0 {
            inner.ring = Arc::new(Ring {
                generation: inner.ring.generation + 1,
                keys,
            });
        }
        more.then_some(retired)
    }

    pub(crate) fn set_membership(&self, membership: Membership) {
        self.inner.lock().membership = Some(membership);
    }

    pub(crate) fn membership(&self) -> Option<Membership> {
        self.inner.lock().membership
    }

    /// HELLO was answered: nothing is served until [`Gate::serve`]. Returns false for an expelled server.
    pub(crate) fn hello(&self, conn: &ConnHandle, proxy: ClientTag, lease_until: Instant) -> bool {
        let mut inner = self.inner.lock();
        if inner.phase == Phase::Expelled {
            return false;
        }
        inner.phase = Phase::CatchingUp { next_page: 0 };
        inner.proxy = Some(proxy);
        inner.lease_until = Some(lease_until);
        inner.conn = Some(conn.clone());
        true
    }

    /// Everything that was missed is durable.
    pub(crate) fn serve(&self) {
        let mut inner = self.inner.lock();
        if matches!(inner.phase, Phase::CatchingUp { .. }) {
            inner.phase = Phase::Serving;
        }
    }

    /// Whether `page` is the next page of floors.
    pub(crate) fn expects_page(&self, page: u32) -> bool {
        matches!(self.inner.lock().phase, Phase::CatchingUp { next_page } if next_page == page)
    }

    /// `page` is durable.
    pub(crate) fn took_page(&self, page: u32) {
        let mut inner = self.inner.lock();
        if let Phase::CatchingUp { next_page } = &mut inner.phase
            && *next_page == page
        {
            *next_page += 1;
        }
    }

    /// The MDS answered a HEARTBEAT on `conn`. Returns false when that came too late: a lease that has ended comes back
    /// only with HELLO, since floors may have been missed (R6).
    pub(crate) fn renew(&self, conn: &ConnHandle, lease_until: Instant) -> bool {
        let mut inner = self.inner.lock();
        let valid = inner
            .lease_until
            .is_some_and(|until| Instant::now() < until);
        if !valid || inner.conn.as_ref() != Some(conn) {
            return false;
        }
        inner.lease_until = inner.lease_until.max(Some(lease_until));
        true
    }

    /// Out of the cluster, for good.
    pub(crate) fn expel(&self) {
        self.inner.lock().phase = Phase::Expelled;
    }

    /// The control connection, while it lives.
    pub(crate) fn conn(&self) -> Option<ConnHandle> {
        let inner = self.inner.lock();
        inner.conn.clone().filter(|c| !c.is_closed())
    }

    /// Whether `conn` is the connection of the newest HELLO.
    pub(crate) fn is_current(&self, conn: &ConnHandle) -> bool {
        self.inner.lock().conn.as_ref() == Some(conn)
    }

    /// Whether it serves, for status.
    pub(crate) fn lease_state(&self) -> LeaseState {
        let inner = self.inner.lock();
        let now = Instant::now();
        let left = inner
            .lease_until
            .and_then(|until| until.checked_duration_since(now));
        match (inner.phase, left) {
            (Phase::Expelled, _) => LeaseState::Expelled,
            (Phase::Away, _) | (_, None) => LeaseState::Away,
            (Phase::CatchingUp { .. }, _) => LeaseState::CatchingUp,
            (Phase::Serving, Some(left)) => LeaseState::Serving {
                left_ms: u64::try_from(left.as_millis()).unwrap_or(u64::MAX),
            },
        }
    }
}

impl Inner {
    fn is_serving(&self) -> bool {
        self.phase == Phase::Serving && self.lease_until.is_some_and(|until| Instant::now() < until)
    }

    /// Whether the handle holds; returns whether it is the MDS's own.
    fn judge(&self, handle: &DsHandle, want: Want) -> Result<bool, Refused> {
        let proxy = self.proxy == Some(handle.client);
        if !self.is_serving() {
            return Err(Refused::NotServing { proxy });
        }
        self.floors.check(handle).map_err(|refusal| match refusal {
            layout::Refusal::Fenced => Refused::Fenced,
            layout::Refusal::Removed => Refused::Removed,
        })?;
        if want == Want::Write && !handle.rights.may_write() {
            return Err(Refused::Rights);
        }
        Ok(proxy)
    }

    fn enter<'a>(
        &mut self,
        gate: &'a Gate,
        handle: DsHandle,
        want: Want,
    ) -> Result<Admitted<'a>, Refused> {
        let is_proxy = self.judge(&handle, want)?;
        Ok(Admitted {
            _flight: self.fly(gate, handle.file_id),
            handle,
            is_proxy,
        })
    }

    fn fly<'a>(&mut self, gate: &'a Gate, file_id: u64) -> Flight<'a> {
        let batches = self.flights.entry(file_id).or_default();
        let open = batches.last().filter(|b| !b.sealed.load(SeqCst)).cloned();
        let batch = open.unwrap_or_else(|| {
            batches.push(Arc::default());
            Arc::clone(batches.last().expect("just pushed"))
        });
        batch.count.fetch_add(1, SeqCst);
        Flight {
            gate,
            batch,
            file_id,
        }
    }
}
