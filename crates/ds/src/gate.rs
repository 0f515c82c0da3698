//! Who may touch what: lease, keys, floors, and the I/O that was let in.
//!
//! [`Gate::admit`] judges a handle (rules R5, R6, R10) and counts the operation as in flight on its file. A fence
//! raises floors here and then waits with [`Gate::drain`].
//!
//! ```text
//!   Away ── HELLO answered ─► CatchingUp ── floors durable ─► Serving
//!    ▲                            ▲  └────── HELLO again ───────┤      any ── EXPEL ─► Expelled
//!    └─ lease ended ──────────────┴─────────────────────────────┘
//! ```
//! # Ownership
//! One mutex, never held across an `await`. A [`Flight`] counts in its file's batch until it is dropped. An idle batch stays for the next
//! operation on its file, until there are many.
//!
//! # Ordering
//! Floors are checked and the operation is counted under the lock under which floors rise. An operation is either
//! refused by a floor or seen by the drain that follows it. A drain seals the batches that exist, so later admissions
//! never delay it. What the keys of a generation have verified is looked up without the lock; under it the generation
//! is compared once more.
//!
//! The lease ends by a clock that counts suspension ([`LeaseClock`], rule P3). Waits and timeouts are tokio's.
//!
//! # Failure
//! Everything here but the floors ends with the process; floors come back from the index.

mod waits;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering::SeqCst};
use std::time::Duration;

use control::{PlaceReign, PlaceRow, Status};
use layout::{
    ClientTag, DsHandle, Floors, HandleError, HandlePlace, KeyRing, MemberState, SignedHandle,
};
use nfs4::NfsStatus;
use objects::ObjectId;
use tokio::sync::Notify;
use tracing_mutex::parkinglot::Mutex;
use transport::ConnHandle;

use crate::copies::removed::RecentlyRemoved;
use crate::handles::{Handles, Verified};
use crate::part::Part;
use crate::rows::{HandleStripes, OwnRow, Rows};
use crate::{LeaseClock, LeaseState, Membership};

/// Times that a handle is verified anew because keys changed meanwhile.
const VERIFY_TRIES_MAX: u32 = 4;
/// Files whose batches are kept, at least, before idle ones are thrown away.
const KEPT_FILES_MIN: usize = 1024;

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
    /// This server is not primary of the handle's place, or was not in that reign; or bytes of another place (rule P4).
    OtherPlace,
    /// A change or a promise, while fewer members of the place are in sync than `copies_min` (rule P20).
    FewCopies {
        /// Whether the MDS itself asks, which waits by itself.
        proxy: bool,
    },
}

impl Refused {
    /// What the client is told. `PNFS_NO_LAYOUT` makes it return to the MDS for a new layout.
    #[must_use]
    pub(crate) const fn status(self) -> NfsStatus {
        match self {
            Self::NotServing { proxy: true } | Self::FewCopies { .. } => NfsStatus::Delay,
            Self::NotServing { proxy: false } | Self::OfOther | Self::Fenced | Self::OtherPlace => {
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
    /// Answers to HELLO so far.
    tenure: u64,
    lease_clock: LeaseClock,
    /// By that clock.
    lease_until: Option<Duration>,
    ring: Arc<Ring>,
    membership: Option<Membership>,
    proxy: Option<ClientTag>,
    conn: Option<ConnHandle>,
    floors: Floors,
    rows: Rows,
    removed: RecentlyRemoved,
    flights: Flights,
}

/// The batches of each file: the newest, and older ones that are sealed.
struct Flights {
    by_file: BTreeMap<u64, Vec<Arc<Batch>>>,
    /// Files at which idle batches are thrown away.
    files_max: usize,
}

/// Operations on one file that were admitted between two drains.
#[derive(Default)]
struct Batch {
    count: AtomicUsize,
    sealed: AtomicBool,
    done: Notify,
}

impl Batch {
    fn is_idle(&self) -> bool {
        self.count.load(SeqCst) == 0
    }

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
            if self.is_idle() {
                return;
            }
            done.await;
        }
    }
}

impl Flights {
    fn new() -> Self {
        Self {
            by_file: BTreeMap::new(),
            files_max: KEPT_FILES_MIN,
        }
    }

    /// Counts an operation in the newest batch of its file.
    fn begin(&mut self, file_id: u64) -> Flight {
        if self.by_file.len() >= self.files_max && !self.by_file.contains_key(&file_id) {
            self.sweep();
        }
        let batches = self.by_file.entry(file_id).or_default();
        let open = batches.last().filter(|b| !b.sealed.load(SeqCst)).cloned();
        let batch = open.unwrap_or_else(|| {
            batches.retain(|b| !b.is_idle());
            batches.push(Arc::default());
            Arc::clone(batches.last().expect("just pushed"))
        });
        batch.count.fetch_add(1, SeqCst);
        Flight(batch)
    }

    /// Forgets files on which nothing goes on. The next time comes when there are twice as many as are left, so that it costs little
    /// for each operation.
    fn sweep(&mut self) {
        self.by_file.retain(|_, batches| {
            batches.retain(|b| !b.is_idle());
            !batches.is_empty()
        });
        self.files_max = KEPT_FILES_MIN.max(2 * self.by_file.len());
    }

    /// Seals what goes on on a file.
    fn seal(&self, file_id: u64) -> impl Iterator<Item = Arc<Batch>> {
        sealed(self.by_file.get(&file_id).into_iter().flatten())
    }

    fn seal_all(&self) -> impl Iterator<Item = Arc<Batch>> {
        sealed(self.by_file.values().flatten())
    }
}

/// Those batches that are not idle, sealed.
fn sealed<'a>(batches: impl Iterator<Item = &'a Arc<Batch>>) -> impl Iterator<Item = Arc<Batch>> {
    batches.filter(|b| !b.is_idle()).map(Batch::seal)
}

/// See the module.
pub(crate) struct Gate {
    inner: Mutex<Inner>,
    /// That of the keys; changed under the lock.
    generation: AtomicU64,
    /// Changes of rows; changed under the lock.
    rows_changes: AtomicU64,
    handles: Handles,
    /// Told when this server serves.
    served: Notify,
    /// Told when rows were taken.
    rows_taken: Notify,
}

/// Work on a file that is going on. The file's fences wait until it is dropped.
pub(crate) struct Flight(Arc<Batch>);

impl Drop for Flight {
    fn drop(&mut self) {
        // Who seals it later looks at the count after that.
        if self.0.count.fetch_sub(1, SeqCst) == 1 && self.0.sealed.load(SeqCst) {
            self.0.done.notify_waiters();
        }
    }
}

/// An operation that was let in. Its file's fences wait until it is dropped.
pub(crate) struct Admitted {
    _flight: Flight,
    /// What the handle says.
    pub(crate) handle: DsHandle,
    /// Whether the MDS itself asks, for a client without a layout.
    pub(crate) is_proxy: bool,
    /// When the place has no member but this server: the changes of rows up to then.
    pub(crate) alone: Option<u64>,
    /// The stripes of the handle's place, if it is for one.
    stripes: Option<HandleStripes>,
}

impl Admitted {
    /// Refuses bytes that lie at another place.
    ///
    /// # Errors
    /// [`Refused::OtherPlace`].
    pub(crate) fn check_range(&self, offset: u64, len: u64) -> Result<(), Refused> {
        match self.stripes {
            Some(stripes) if !stripes.have_all(offset, len) => Err(Refused::OtherPlace),
            _ => Ok(()),
        }
    }
}

impl Gate {
    /// A gate that lets nothing in, with the floors of the index.
    pub(crate) fn new(floors: Floors, membership: Option<Membership>, clock: LeaseClock) -> Self {
        Self {
            inner: Mutex::new(Inner {
                phase: Phase::Away,
                tenure: 0,
                lease_clock: clock,
                lease_until: None,
                ring: Arc::new(Ring {
                    generation: 0,
                    keys: KeyRing::new(),
                }),
                membership,
                proxy: None,
                conn: None,
                floors,
                rows: Rows::default(),
                removed: RecentlyRemoved::default(),
                flights: Flights::new(),
            }),
            generation: AtomicU64::new(0),
            rows_changes: AtomicU64::new(0),
            handles: Handles::new(),
            served: Notify::new(),
            rows_taken: Notify::new(),
        }
    }

    /// Judges a handle of PUTFH: whether a live key signed it. Retired keys and a missing lease are left to the
    /// operation, which has a better answer.
    pub(crate) fn recognise(&self, fh: &[u8]) -> Result<(), Refused> {
        if fh.len() != layout::DS_HANDLE_BYTES {
            return Err(Refused::Forged);
        }
        if self.generation.load(SeqCst) == 0 {
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
    ) -> Result<Admitted, Refused> {
        for _ in 0..VERIFY_TRIES_MAX {
            let verified = match self.verified(fh) {
                Ok(verified) => verified,
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
                let membership = self.membership().ok_or(Refused::Forged)?;
                if ClientTag::of(membership.cluster_id, owner) != verified.handle.client {
                    return Err(Refused::OfOther);
                }
                if let Some(bytes) = SignedHandle::from_bytes(fh) {
                    let owner = Some(Arc::clone(owner));
                    self.handles.keep(&bytes, Verified { owner, ..verified });
                }
            }
            let mut inner = self.inner.lock();
            if inner.ring.generation == verified.generation {
                return inner.enter(verified.handle, want);
            }
        }
        Err(Refused::NotServing { proxy: false })
    }

    fn verified(&self, fh: &[u8]) -> Result<Verified, Refused> {
        let bytes = SignedHandle::from_bytes(fh).ok_or(Refused::Forged)?;
        let generation = self.generation.load(SeqCst);
        if let Some(verified) = self.handles.find(&bytes, generation) {
            return Ok(verified);
        }
        let (ring, cluster_id) = {
            let inner = self.inner.lock();
            let membership = inner.membership.ok_or(Refused::Forged)?;
            (Arc::clone(&inner.ring), membership.cluster_id)
        };
        let handle = DsHandle::verify(fh, cluster_id, &ring.keys).map_err(|e| match e {
            HandleError::UnknownKey { retired: true, .. } => Refused::Fenced,
            _ => Refused::Forged,
        })?;
        let verified = Verified {
            handle,
            generation: ring.generation,
            owner: None,
        };
        self.handles.keep(&bytes, verified.clone());
        Ok(verified)
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
    ) -> Result<Flight, Status> {
        let mut inner = self.inner.lock();
        if inner.conn.as_ref() != Some(conn) || inner.phase != Phase::Serving {
            return Err(Status::NotReady);
        }
        if inner.floors.is_removed(file_id, generation) {
            return Err(Status::Removed);
        }
        Ok(inner.flights.begin(file_id))
    }

    /// Seals what is in flight on `files` and waits until it has ended.
    pub(crate) async fn drain(&self, files: impl IntoIterator<Item = u64>) {
        let batches: Vec<_> = {
            let inner = self.inner.lock();
            let seal = |file: u64| inner.flights.seal(file);
            files.into_iter().flat_map(seal).collect()
        };
        for batch in batches {
            batch.idle().await;
        }
    }

    /// As [`Gate::drain`], for all files.
    pub(crate) async fn drain_all(&self) {
        let batches: Vec<_> = {
            let inner = self.inner.lock();
            inner.flights.seal_all().collect()
        };
        for batch in batches {
            batch.idle().await;
        }
    }

    /// The floors, to be raised by [`crate::floors`] only.
    pub(crate) fn with_floors<T>(&self, change: impl FnOnce(&mut Floors) -> T) -> T {
        change(&mut self.inner.lock().floors)
    }

    /// What this server knows of the rows, if it serves.
    pub(crate) fn with_rows<T>(&self, look: impl FnOnce(&Rows, u32) -> T) -> Option<T> {
        let inner = self.inner.lock();
        let ds_id = inner.membership?.ds_id;
        inner.is_serving().then(|| look(&inner.rows, ds_id))
    }

    /// The state of this server at a place of a group, if it serves and is a member.
    pub(crate) fn state_at(&self, group: u32, place: u8) -> Option<MemberState> {
        let state = |rows: &Rows, ds_id| rows.of(group, u32::from(place))?.row.state_of(ds_id);
        self.with_rows(state)?
    }

    /// Changes of rows so far.
    pub(crate) fn rows_changes(&self) -> u64 {
        self.rows_changes.load(SeqCst)
    }

    /// The row of a part's place, if this server serves and is its primary (rule P3). It is so of a place that it lets
    /// go, while changes that were let in before go on.
    pub(crate) fn primary_row(&self, part: Part) -> Option<Arc<OwnRow>> {
        self.with_rows(|rows, ds_id| {
            let row = rows.of(part.group, u32::from(part.id.place))?;
            (row.row.primary == ds_id).then(|| Arc::clone(row))
        })?
    }

    /// As [`Gate::primary_row`], for a change that is about to begin, which counts as in flight. `None` when this server
    /// has let go of the place.
    pub(crate) fn begin_change(&self, part: Part) -> Option<(Arc<OwnRow>, Flight)> {
        let mut inner = self.inner.lock();
        let ds_id = inner.membership?.ds_id;
        let place = u32::from(part.id.place);
        let row = inner
            .is_serving()
            .then(|| inner.rows.governed(part.group, place, ds_id))?;
        let row = Arc::clone(row?);
        Some((row, inner.flights.begin(part.id.file_id)))
    }

    /// Takes no more changes of these places, of which this server must be primary in these reigns (rule P14). What was
    /// let in before goes on: [`Gate::drain_all`] waits for it. Returns whether it was so.
    pub(crate) fn let_go(&self, conn: &ConnHandle, places: &[PlaceReign]) -> bool {
        let mut inner = self.inner.lock();
        let Some(membership) = inner.membership else {
            return false;
        };
        let is_asked = inner.conn.as_ref() == Some(conn) && inner.is_serving();
        let is_done = is_asked && inner.rows.let_go(places, membership.ds_id);
        self.rows_changes.store(inner.rows.changes(), SeqCst);
        is_done
    }

    /// Takes changes of places again that were let go, if the MDS was not told of that.
    pub(crate) fn take_back(&self, conn: &ConnHandle, places: &[PlaceReign]) {
        let mut inner = self.inner.lock();
        if inner.conn.as_ref() == Some(conn) {
            inner.rows.take_back(places);
            self.rows_changes.store(inner.rows.changes(), SeqCst);
        }
    }

    /// Whether this server serves and is primary of a part's place in this very reign: to be asked before a promise
    /// leaves (rule P3).
    pub(crate) fn reigns(&self, part: Part, reign: u32) -> bool {
        let row = self.primary_row(part);
        row.is_some_and(|row| row.row.reign == reign)
    }

    /// The keys and the cluster, for what servers prove to each other.
    pub(crate) fn keys(&self) -> Option<(KeyRing, Membership)> {
        let inner = self.inner.lock();
        Some((inner.ring.keys.clone(), inner.membership?))
    }

    /// Generations of a file below this one are about to be removed.
    pub(crate) fn note_removed(&self, file_id: u64, generation: u32) {
        self.inner.lock().removed.note(file_id, generation);
    }

    /// Counts an item that the primary of a place has passed on as in flight. `None` when the file is removed.
    pub(crate) fn enter_item(&self, id: ObjectId) -> Option<Flight> {
        let mut inner = self.inner.lock();
        let is_removed = inner.floors.is_removed(id.file_id, id.generation)
            || inner.removed.has(id.file_id, id.generation);
        (!is_removed).then(|| inner.flights.begin(id.file_id))
    }

    /// Takes rows of places that were told in this tenure. Returns false when there are too many.
    pub(crate) fn take_rows(&self, tenure: u64, rows: impl Iterator<Item = PlaceRow>) -> bool {
        let mut inner = self.inner.lock();
        let mut is_room = true;
        if inner.tenure != tenure {
            return true;
        }
        for row in rows {
            is_room &= inner.rows.take(row);
        }
        self.rows_changes.store(inner.rows.changes(), SeqCst);
        drop(inner);
        self.rows_taken.notify_waiters();
        is_room
    }

    /// Forgets the row of a place that this server has left.
    pub(crate) fn forget_left(&self, group: u32, place: u32) {
        let mut inner = self.inner.lock();
        if let Some(membership) = inner.membership {
            inner.rows.forget_left(group, place, membership.ds_id);
            self.rows_changes.store(inner.rows.changes(), SeqCst);
        }
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
            self.generation.store(inner.ring.generation, SeqCst);
        }
        more.then_some(retired)
    }

    pub(crate) fn set_membership(&self, membership: Membership) {
        self.inner.lock().membership = Some(membership);
    }

    pub(crate) fn membership(&self) -> Option<Membership> {
        self.inner.lock().membership
    }

    /// The time by which leases are counted.
    pub(crate) fn lease_now(&self) -> Duration {
        self.inner.lock().lease_now()
    }

    /// HELLO was answered: nothing is served until [`Gate::serve`]. Returns false for an expelled server.
    pub(crate) fn hello(&self, conn: &ConnHandle, proxy: ClientTag, lease_until: Duration) -> bool {
        let mut inner = self.inner.lock();
        if inner.phase == Phase::Expelled {
            return false;
        }
        inner.phase = Phase::CatchingUp { next_page: 0 };
        inner.tenure += 1;
        inner.proxy = Some(proxy);
        inner.lease_until = Some(lease_until);
        inner.conn = Some(conn.clone());
        inner.rows.clear();
        self.rows_changes.store(inner.rows.changes(), SeqCst);
        true
    }

    /// Which HELLO counts. What waited for the disk since an earlier one must change nothing: floors and rows are told anew.
    pub(crate) fn tenure(&self) -> u64 {
        self.inner.lock().tenure
    }

    /// Everything that was missed is durable, as told since the HELLO of this tenure.
    pub(crate) fn serve(&self, tenure: u64) {
        let mut inner = self.inner.lock();
        if matches!(inner.phase, Phase::CatchingUp { .. }) && inner.tenure == tenure {
            inner.phase = Phase::Serving;
        }
        drop(inner);
        self.served.notify_waiters();
    }

    /// Whether `page` is the next page of floors.
    pub(crate) fn expects_page(&self, page: u32) -> bool {
        matches!(self.inner.lock().phase, Phase::CatchingUp { next_page } if next_page == page)
    }

    /// `page`, told in this tenure, is durable.
    pub(crate) fn took_page(&self, tenure: u64, page: u32) {
        let mut inner = self.inner.lock();
        if inner.tenure == tenure
            && let Phase::CatchingUp { next_page } = &mut inner.phase
            && *next_page == page
        {
            *next_page += 1;
        }
    }

    /// The MDS answered a HEARTBEAT on `conn`. Returns false when that came too late: a lease that has ended comes back
    /// only with HELLO, since floors may have been missed (R6).
    pub(crate) fn renew(&self, conn: &ConnHandle, lease_until: Duration) -> bool {
        let mut inner = self.inner.lock();
        if !inner.has_lease() || inner.conn.as_ref() != Some(conn) {
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
        let now = inner.lease_now();
        let left = inner.lease_until.and_then(|until| until.checked_sub(now));
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
        self.phase == Phase::Serving && self.has_lease()
    }

    fn has_lease(&self) -> bool {
        self.lease_until > Some(self.lease_now())
    }

    fn lease_now(&self) -> Duration {
        (self.lease_clock)()
    }

    /// Whether the handle holds; returns whether it is the MDS's own, and the stripes of its place.
    fn judge(
        &self,
        handle: &DsHandle,
        want: Want,
    ) -> Result<(bool, Option<HandleStripes>), Refused> {
        let proxy = self.proxy == Some(handle.client);
        if !self.is_serving() {
            return Err(Refused::NotServing { proxy });
        }
        self.floors.check(handle).map_err(|refusal| match refusal {
            layout::HandleRefusal::Fenced => Refused::Fenced,
            layout::HandleRefusal::Removed => Refused::Removed,
        })?;
        if want == Want::Write && !handle.rights.may_write() {
            return Err(Refused::Rights);
        }
        let stripes = match &handle.place {
            Some(place) => Some(self.stripes_of(place).ok_or(Refused::OtherPlace)?),
            None => None,
        };
        if want == Want::Write && stripes.is_some_and(|s| !s.has_copies()) {
            return Err(Refused::FewCopies { proxy });
        }
        Ok((proxy, stripes))
    }

    fn stripes_of(&self, place: &HandlePlace) -> Option<HandleStripes> {
        self.rows.stripes_of(place, self.membership?.ds_id)
    }

    fn enter(&mut self, handle: DsHandle, want: Want) -> Result<Admitted, Refused> {
        let (is_proxy, stripes) = self.judge(&handle, want)?;
        Ok(Admitted {
            _flight: self.flights.begin(handle.file_id),
            handle,
            is_proxy,
            alone: stripes
                .is_some_and(HandleStripes::is_alone)
                .then(|| self.rows.changes()),
            stripes,
        })
    }
}

#[cfg(test)]
mod tests {
    //! Goal: batches that stay for the next operation neither grow without a bound nor make a drain wait for what began after it.

    use super::*;
    use std::pin::pin;

    #[test]
    fn files_on_which_nothing_goes_on_are_forgotten_when_there_are_many() {
        let mut flights = Flights::new();
        let held = flights.begin(u64::MAX);
        for file in 0..10 * KEPT_FILES_MIN as u64 {
            drop(flights.begin(file));
            assert!(flights.by_file.len() <= KEPT_FILES_MIN);
        }
        assert_eq!(flights.seal(u64::MAX).count(), 1);
        drop(held);
        // More at once than are kept: each is known, and the bound follows.
        let many: Vec<_> = (0..3 * KEPT_FILES_MIN as u64)
            .map(|f| flights.begin(f))
            .collect();
        assert_eq!(flights.seal_all().count(), many.len());
        drop(many);
        for file in 0..10 * KEPT_FILES_MIN as u64 {
            drop(flights.begin(file));
        }
        assert!(flights.by_file.len() <= 6 * KEPT_FILES_MIN);
    }

    #[tokio::test]
    async fn a_drain_waits_for_what_began_before_it_and_for_nothing_else() {
        let mut flights = Flights::new();
        drop(flights.begin(1));
        assert_eq!(flights.seal(1).count(), 0);
        let first = flights.begin(1);
        let sealed: Vec<_> = flights.seal(1).collect();
        let later = flights.begin(1);
        let mut drained = pin!(sealed[0].idle());
        assert!(at_once(drained.as_mut()).await.is_none());
        drop(first);
        drained.await;
        drop(later);
        let again = flights.begin(1);
        assert_eq!(flights.seal(1).count(), 1);
        drop(flights.begin(1));
        assert_eq!(flights.by_file[&1].len(), 2, "the first has gone");
        drop(again);
    }

    /// What a future says when it is polled once.
    async fn at_once<T>(future: std::pin::Pin<&mut impl Future<Output = T>>) -> Option<T> {
        tokio::select! {
            biased;
            done = future => Some(done),
            () = std::future::ready(()) => None,
        }
    }
}
