//! The data server itself: what it is made of.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::Duration;

use bytes::Bytes;
use client_table::ClientTable;
use nfs4::{NfsStatus, NfsTime};
use objects::ObjectStore;
use server::{Compound, Nfsd, ServerIdentity};
use state::{Clients, Grace};
use tokio::sync::Semaphore;

use crate::announced::Announced;
use crate::config::{DsConfig, PeerFilter};
use crate::copies::table::Copies;
use crate::counts::{Counts, DsStatus};
use crate::error::OpenError;
use crate::failing::Failing;
use crate::gate::{Admitted, Gate, Refused, Want};
use crate::index::{Index, Membership};
use crate::redo_table::RedoTable;
use crate::repeats::Repeats;
use crate::reports::Reports;
use crate::resolving::Resolving;
use crate::size_answers::SizeAnswers;
use crate::space_told::SpaceTold;
use crate::sums::table::Sums;
use crate::sync_time::SyncTime;

/// Blocking calls under way at once; more wait for a place.
const BLOCKING_MAX: usize = 64;
/// Locks that order syncs, cuts and removals, by file.
const STRIPES: usize = 256;
/// How long an operation waits until this server serves, and how many may.
const HOLD: Duration = Duration::from_secs(1);
const HELD_MAX: usize = 256;
/// Zeros at hand for READs of holes, in bytes: the largest READ of usual clients.
const ZEROS_BYTES: usize = 1 << 20;

/// Why an operation was not let in at once.
pub(crate) enum NotAdmitted {
    /// The compound is no good for it.
    Status(NfsStatus),
    /// The gate refuses it.
    Refused(Refused),
}

/// A data server. It lives in the [`Nfsd`] that [`Ds::open`] returns.
pub struct Ds {
    pub(crate) identity: ServerIdentity,
    pub(crate) objects: Arc<dyn ObjectStore>,
    pub(crate) index: Arc<Index>,
    pub(crate) redo: Arc<RedoTable>,
    pub(crate) resolving: Resolving,
    pub(crate) announced: Announced,
    pub(crate) gate: Gate,
    pub(crate) copies: Copies,
    pub(crate) failing: Failing,
    pub(crate) sizes: SizeAnswers,
    pub(crate) repeats: Repeats,
    pub(crate) reports: Reports,
    pub(crate) space_told: SpaceTold,
    pub(crate) sums: Sums,
    /// Of its own disk.
    pub(crate) sync_time: SyncTime,
    pub(crate) counts: Counts,
    pub(crate) verifier: AtomicU64,
    pub(crate) random: Arc<dyn Fn() -> u64 + Send + Sync>,
    pub(crate) clock: Arc<dyn Fn() -> NfsTime + Send + Sync>,
    pub(crate) offload: bool,
    pub(crate) peers: Option<PeerFilter>,
    pub(crate) blocking: Semaphore,
    /// Places for operations that wait until this server serves.
    pub(crate) held: Semaphore,
    pub(crate) zeros: Bytes,
    pub(crate) client_lease_s: u32,
    stripes: Box<[tokio::sync::Mutex<()>]>,
}

impl Ds {
    /// Opens the stores, formatting a new index, and counts the start durably. Nothing is served until
    /// [`crate::link::run`] has a lease.
    ///
    /// # Errors
    /// [`OpenError`].
    pub async fn open(config: DsConfig) -> Result<Arc<Nfsd<Self>>, OpenError> {
        let random = Arc::clone(&config.random);
        let opened = Index::open(config.index, &*random).await?;
        if opened.is_new {
            let mut found = false;
            let mut visit = |_, _| {
                found = true;
                false
            };
            config
                .objects
                .list(&mut visit)
                .map_err(OpenError::Objects)?;
            if found {
                return Err(OpenError::ObjectsWithoutIndex);
            }
        }
        let index = opened.index;
        config
            .objects
            .tie(index.store_id(), index.objects_count() > 0)
            .map_err(OpenError::Objects)?;
        if let Some(log) = &config.redo {
            index.tie_redo(&**log).await?;
        }
        let redo = Arc::new(RedoTable::new(config.redo));
        let sums = Sums::open(config.sums, &index)?;
        // Client and session ids carry it, so that none of an earlier start is taken for one of this.
        let boot = u32::try_from(index.counter()).map_err(|_| OpenError::CounterExhausted)?;
        let mut limits = config.clients;
        limits.callbacks = false;
        let ds = Self {
            identity: ServerIdentity {
                major_id: format!("ropewalk-ds-{:016x}", index.store_id()),
                role_flag: nfs4::ops::EXCHGID_USE_PNFS_DS,
            },
            objects: config.objects,
            announced: Announced::new(index.durable_changes() + redo.durable_through()),
            gate: Gate::new(opened.floors, opened.membership, config.lease_clock),
            copies: Copies::new(random()),
            failing: Failing::default(),
            index: Arc::new(index),
            redo,
            resolving: Resolving::default(),
            sizes: SizeAnswers::default(),
            repeats: Repeats::default(),
            reports: Reports::default(),
            space_told: SpaceTold::default(),
            sums,
            sync_time: SyncTime::default(),
            counts: Counts::default(),
            verifier: AtomicU64::new(random()),
            random: Arc::clone(&random),
            clock: config.clock,
            offload: config.offload,
            peers: config.peers,
            blocking: Semaphore::new(BLOCKING_MAX),
            held: Semaphore::new(HELD_MAX),
            zeros: Bytes::from(vec![0; ZEROS_BYTES]),
            client_lease_s: u32::try_from(limits.lease_ms / 1000).unwrap_or(u32::MAX),
            stripes: (0..STRIPES).map(|_| tokio::sync::Mutex::new(())).collect(),
        };
        ds.replay()?;
        let clients = Clients::new(limits, boot, Grace::none());
        let random = Box::new(move || random());
        Ok(Nfsd::new(ds, ClientTable::new(clients, random)))
    }

    /// Random, made when the store was formatted: who this server is (R9, R17).
    #[must_use]
    pub fn store_id(&self) -> u64 {
        self.index.store_id()
    }

    /// Which cluster this store belongs to, if it has joined one.
    #[must_use]
    pub fn membership(&self) -> Option<Membership> {
        self.gate.membership()
    }

    /// What heartbeats and `ropewalk status` show. Asks the file system for its space.
    #[must_use]
    pub fn status(&self) -> DsStatus {
        let c = &self.counts;
        let capacity = self.capacity();
        DsStatus {
            store_id: self.index.store_id(),
            counter: self.index.counter(),
            changes: self.durable_changes(),
            ds_id: self.membership().map(|m| m.ds_id),
            lease: self.gate.lease_state(),
            total_bytes: capacity.total_bytes,
            free_bytes: capacity.free_bytes,
            index_bytes: self.index.disk_bytes(),
            redo_used_bytes: self.redo.fill().used_bytes,
            redo_capacity_bytes: self.redo.fill().capacity_bytes,
            objects_count: capacity.objects_count,
            floors_count: self.gate.with_floors(|f| f.len() as u64),
            client_read_bytes: c.client_read_bytes.load(Relaxed),
            client_written_bytes: c.client_written_bytes.load(Relaxed),
            proxy_read_bytes: c.proxy_read_bytes.load(Relaxed),
            proxy_written_bytes: c.proxy_written_bytes.load(Relaxed),
            reads: c.reads.load(Relaxed),
            writes: c.writes.load(Relaxed),
            commits: c.commits.load(Relaxed),
            cold_reads: c.cold_reads.load(Relaxed),
            parts_compared: c.parts_compared.load(Relaxed),
            sizes_asked: c.sizes_asked.load(Relaxed),
            wrote_reports: c.wrote_reports.load(Relaxed),
            refusals: c.refusals(),
            objects_lost: c.objects_lost.load(Relaxed),
            io_errors: c.io_errors.load(Relaxed),
            no_space: c.no_space.load(Relaxed),
            store_copied_bytes: self.objects.copied_bytes() + c.read_copied_bytes.load(Relaxed),
        }
    }

    pub(crate) fn capacity(&self) -> control::Capacity {
        let space = self.objects.capacity().unwrap_or_else(|e| {
            tracing::error!("capacity of the object store: {e}");
            objects::Capacity::default()
        });
        control::Capacity {
            total_bytes: space.total_bytes,
            free_bytes: space.free_bytes,
            unused_bytes: space.unused_bytes,
            object_bytes_max: space.object_bytes_max,
            disk: space.disk,
            objects_count: self.index.objects_count(),
        }
    }

    pub(crate) fn stripe(&self, file_id: u64) -> &tokio::sync::Mutex<()> {
        let at = file_id % STRIPES as u64;
        &self.stripes[usize::try_from(at).expect("below STRIPES")]
    }

    /// Lets the operation on the current handle in.
    ///
    /// # Errors
    /// What [`Ds::admit_later`] takes.
    pub(crate) fn admit(&self, cx: &Compound<'_, ()>, want: Want) -> Result<Admitted, NotAdmitted> {
        let fh = cx.fh().map_err(NotAdmitted::Status)?;
        let session = cx.session.as_ref();
        let session = session.ok_or(NotAdmitted::Status(NfsStatus::OpNotInSession))?;
        let admitted = self.gate.admit(fh, &session.owner, want);
        admitted.map_err(NotAdmitted::Refused)
    }

    /// Lets an operation in that was not admitted because this server does not serve yet: it holds some of them for a
    /// moment (rule P22). Counts the refusal of any other.
    ///
    /// # Errors
    /// What the client is told.
    #[cold]
    pub(crate) async fn admit_later(
        &self,
        cx: &Compound<'_, ()>,
        want: Want,
        why: NotAdmitted,
    ) -> Result<Admitted, NfsStatus> {
        let mut why = why;
        if let NotAdmitted::Refused(Refused::NotServing { .. }) = why
            && let Ok(_held) = self.held.try_acquire()
        {
            self.gate.until_served(HOLD).await;
            match self.admit(cx, want) {
                Ok(admitted) => return Ok(admitted),
                Err(again) => why = again,
            }
        }
        if let NotAdmitted::Refused(Refused::FewCopies { proxy: false }) = why
            && let Ok(_held) = self.held.try_acquire()
            && let Some(done) = self.until_copies(|| self.admit(cx, want)).await
        {
            match done {
                Ok(admitted) => return Ok(admitted),
                Err(again) => why = again,
            }
        }
        Err(match why {
            NotAdmitted::Refused(refused) => self.refused(refused),
            NotAdmitted::Status(status) => status,
        })
    }

    /// Counts a refusal.
    pub(crate) fn refused(&self, refused: Refused) -> NfsStatus {
        let c = &self.counts;
        crate::counts::count(match refused {
            Refused::NotServing { .. } => &c.not_serving,
            Refused::Forged => &c.forged,
            Refused::OfOther => &c.of_others,
            Refused::Fenced => &c.fenced,
            Refused::Removed => &c.removed,
            Refused::Rights => &c.rights,
            Refused::OtherPlace => &c.other_place,
            Refused::FewCopies { .. } => &c.few_copies,
        });
        refused.status()
    }
}
