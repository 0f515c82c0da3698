//! What memory knows of sums: changes under way, damaged blocks, parts that wait for their sums.
//!
//! It knows no disk and no index but at its opening; whoever changes an object, scrub and mending ask it.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::Duration;

use control::ScrubState;
use meta::MetaError;
use objects::ObjectId;
use parts::BLOCK_BYTES;
use tokio::sync::Notify;
use tokio::time::Instant;
use tracing_mutex::parkinglot::Mutex;

use crate::index::Index;

/// Blocks of a chunk.
pub(crate) const CHUNK_BLOCKS_U32: u32 = 256;
/// The same.
pub(crate) const CHUNK_BLOCKS: u64 = CHUNK_BLOCKS_U32 as u64;
/// Bytes of a chunk.
pub(crate) const CHUNK_BYTES: u64 = CHUNK_BLOCKS * BLOCK_BYTES as u64;
/// Counters of changes, by file.
const STRIPES: usize = 4096;
/// Damaged blocks that are known; of more, scrub finds the rest when these are mended.
pub(crate) const DAMAGED_MAX: usize = 1 << 16;
/// Parts that wait for their sums; of more, scrub finds the rest.
const RECENT_MAX: usize = 1 << 16;

/// How sums are kept.
#[derive(Debug, Clone, Copy)]
pub struct SumsConfig {
    /// Whether reads that come from the disk are compared.
    pub verify_reads: bool,
    /// A pass over everything begins this long after the last one has ended.
    pub scrub_interval: Duration,
    /// A part has its sums made when it was not made durable again for so long.
    pub quiet: Duration,
}

impl Default for SumsConfig {
    fn default() -> Self {
        Self {
            verify_reads: false,
            scrub_interval: Duration::from_secs(7 * 24 * 3600),
            quiet: Duration::from_secs(30),
        }
    }
}

/// Changes of the files of a stripe.
#[derive(Default, Clone, Copy, PartialEq, Eq)]
struct Changes {
    begun: u64,
    under_way: u32,
}

/// See the module.
pub(crate) struct Sums {
    pub(crate) config: SumsConfig,
    stripes: Box<[Mutex<Changes>]>,
    damaged: Mutex<BTreeMap<ObjectId, BTreeSet<u64>>>,
    damaged_blocks: AtomicU64,
    recent: Mutex<BTreeMap<ObjectId, Instant>>,
    pub(super) state: Mutex<ScrubState>,
    /// The newest order to begin a pass at once.
    pub(super) ordered: AtomicU64,
    pub(super) wake: Notify,
}

/// A change goes on: nothing that was read since is stored as a sum.
pub(crate) struct Changing<'s>(&'s Mutex<Changes>);

impl Drop for Changing<'_> {
    fn drop(&mut self) {
        self.0.lock().under_way -= 1;
    }
}

/// That no change of a file was under way, at a time.
#[derive(Clone, Copy)]
pub(crate) struct Quiet(Changes);

impl Sums {
    /// With what the index knows.
    pub(crate) fn open(config: SumsConfig, index: &Index) -> Result<Self, MetaError> {
        let damaged = index.load_damaged()?;
        let blocks = damaged.values().map(BTreeSet::len).sum::<usize>() as u64;
        let state = ScrubState {
            scrubbed_at: index.scrubbed_at()?,
            ..ScrubState::default()
        };
        Ok(Self {
            config,
            stripes: (0..STRIPES).map(|_| Mutex::default()).collect(),
            damaged: Mutex::new(damaged),
            damaged_blocks: AtomicU64::new(blocks),
            recent: Mutex::default(),
            state: Mutex::new(state),
            ordered: AtomicU64::new(0),
            wake: Notify::new(),
        })
    }

    fn stripe(&self, file_id: u64) -> &Mutex<Changes> {
        let at = file_id % STRIPES as u64;
        &self.stripes[usize::try_from(at).expect("below STRIPES")]
    }

    /// A change of a file begins. To be held until it is done.
    pub(crate) fn begin(&self, file_id: u64) -> Changing<'_> {
        let stripe = self.stripe(file_id);
        let mut changes = stripe.lock();
        changes.begun += 1;
        changes.under_way += 1;
        drop(changes);
        Changing(stripe)
    }

    /// `None` while a change is under way.
    pub(crate) fn quiet(&self, file_id: u64) -> Option<Quiet> {
        let changes = *self.stripe(file_id).lock();
        (changes.under_way == 0).then_some(Quiet(changes))
    }

    /// Runs `work` if no change was begun since, and lets none begin meanwhile.
    pub(crate) fn if_still<T>(
        &self,
        file_id: u64,
        since: Quiet,
        work: impl FnOnce() -> T,
    ) -> Option<T> {
        let changes = self.stripe(file_id).lock();
        (*changes == since.0).then(work)
    }

    /// A part is durable: its sums are made when it is quiet.
    pub(crate) fn note_durable(&self, id: ObjectId) {
        let mut recent = self.recent.lock();
        if recent.len() < RECENT_MAX || recent.contains_key(&id) {
            recent.insert(id, Instant::now());
        }
    }

    /// Parts that have been quiet long enough.
    pub(super) fn take_quiet(&self, max: usize) -> Vec<ObjectId> {
        let mut recent = self.recent.lock();
        let is_quiet = |at: &Instant| at.elapsed() >= self.config.quiet;
        let quiet = recent.iter().filter(|(_, at)| is_quiet(at));
        let quiet: Vec<ObjectId> = quiet.map(|(id, _)| *id).take(max).collect();
        for id in &quiet {
            recent.remove(id);
        }
        quiet
    }

    /// Whether reads that come from the disk are compared.
    pub(crate) fn verifies_reads(&self) -> bool {
        self.config.verify_reads
    }

    /// Whether any block is damaged: most of the time none is.
    pub(crate) fn has_damage(&self) -> bool {
        self.damaged_blocks.load(Relaxed) > 0
    }

    /// Damaged blocks of an object among those from `first` to `last`.
    pub(super) fn damaged_of(&self, id: ObjectId, first: u64, last: u64) -> Vec<u64> {
        let damaged = self.damaged.lock();
        let blocks = damaged.get(&id).into_iter();
        blocks
            .flat_map(|b| b.range(first..=last))
            .copied()
            .collect()
    }

    pub(super) fn all_damaged(&self, max: usize) -> Vec<(ObjectId, u64)> {
        let damaged = self.damaged.lock();
        let pairs = damaged
            .iter()
            .flat_map(|(id, b)| b.iter().map(|b| (*id, *b)));
        pairs.take(max).collect()
    }

    /// Returns whether there was room to remember it.
    pub(super) fn remember_damage(&self, id: ObjectId, block: u64) -> bool {
        let mut damaged = self.damaged.lock();
        let is_full = self.damaged_blocks.load(Relaxed) >= DAMAGED_MAX as u64;
        if !is_full && damaged.entry(id).or_default().insert(block) {
            self.damaged_blocks.fetch_add(1, Relaxed);
        }
        !is_full
    }

    pub(super) fn forget_damage(&self, id: ObjectId, blocks: &[u64]) {
        let mut damaged = self.damaged.lock();
        let Some(known) = damaged.get_mut(&id) else {
            return;
        };
        for block in blocks {
            if known.remove(block) {
                self.damaged_blocks.fetch_sub(1, Relaxed);
            }
        }
        if known.is_empty() {
            damaged.remove(&id);
        }
    }

    /// The MDS orders a pass: numbers rise. Of the first one that this process hears it is not known whether it was
    /// followed before; a pass more does no harm.
    pub(crate) fn order(&self, number: u64) {
        if self.ordered.fetch_max(number, Relaxed) < number {
            self.wake.notify_one();
        }
    }

    /// How far it is, for HEARTBEAT.
    pub(crate) fn state(&self) -> ScrubState {
        let mut state = self.state.lock().clone();
        state.damaged_blocks = self.damaged_blocks.load(Relaxed);
        let damaged = self.damaged.lock();
        let mut files: Vec<u64> = damaged.keys().map(|id| id.file_id).collect();
        files.dedup();
        files.truncate(control::DAMAGED_FILES_MAX as usize);
        state.damaged_files = files.into();
        state
    }
}
