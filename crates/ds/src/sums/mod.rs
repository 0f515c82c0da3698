//! Sums of what lies on the disk (rule P26): made when a part is quiet, compared by scrub and by reads, used to mend.
//!
//! A *chunk* is 16 MiB of a part. The index has the sums of its 64 KiB blocks, or has none for it. A chunk without sums is
//! one that was changed lately, or was never looked at.
//!
//! # Ownership
//! [`Sums`] has what memory knows: changes under way, damaged blocks, parts that wait for their sums. The index has the rest
//! (`store`). `scrub` makes and compares sums, `mend` replaces damaged blocks.
//!
//! # Ordering
//! The sums of a chunk are gone from the index, durably, before the first byte of it changes. So a crash leaves no sum of
//! bytes that were written later, and a torn write is no damage. Sums are stored when no change of the file was begun since
//! its bytes were synced and read.
//!
//! # Failure
//! A block that does not fit its sum is damaged, and stays so durably until it is mended, wholly overwritten or removed.
//! Reads of it are I/O errors, and so are changes of a part of it.

mod mend;
mod scrub;
mod store;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::Duration;

use control::ScrubState;
use meta::MetaError;
use objects::ObjectId;
use parking_lot::Mutex;
use parts::BLOCK_BYTES;
use tokio::sync::Notify;
use tokio::time::Instant;

use crate::apply::Change;
use crate::ds::Ds;
use crate::fault::Fault;
use crate::index::Index;

pub use scrub::run;

/// Blocks of a chunk.
pub(crate) const CHUNK_BLOCKS: u64 = 256;
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
    config: SumsConfig,
    stripes: Box<[Mutex<Changes>]>,
    damaged: Mutex<BTreeMap<ObjectId, BTreeSet<u64>>>,
    damaged_blocks: AtomicU64,
    recent: Mutex<BTreeMap<ObjectId, Instant>>,
    state: Mutex<ScrubState>,
    /// The newest order to begin a pass at once, and the order that the last pass followed.
    ordered: AtomicU64,
    wake: Notify,
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
struct Quiet(Changes);

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
    fn quiet(&self, file_id: u64) -> Option<Quiet> {
        let changes = *self.stripe(file_id).lock();
        (changes.under_way == 0).then_some(Quiet(changes))
    }

    /// Runs `work` if no change was begun since, and lets none begin meanwhile.
    fn if_still<T>(&self, file_id: u64, since: Quiet, work: impl FnOnce() -> T) -> Option<T> {
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
    fn take_quiet(&self, max: usize) -> Vec<ObjectId> {
        let mut recent = self.recent.lock();
        let is_quiet = |at: &Instant| at.elapsed() >= self.config.quiet;
        let quiet = recent.iter().filter(|(_, at)| is_quiet(at));
        let quiet: Vec<ObjectId> = quiet.map(|(id, _)| *id).take(max).collect();
        for id in &quiet {
            recent.remove(id);
        }
        quiet
    }

    /// Whether any block is damaged: most of the time none is.
    pub(crate) fn has_damage(&self) -> bool {
        self.damaged_blocks.load(Relaxed) > 0
    }

    /// Damaged blocks of an object among those from `first` to `last`.
    fn damaged_of(&self, id: ObjectId, first: u64, last: u64) -> Vec<u64> {
        let damaged = self.damaged.lock();
        let blocks = damaged.get(&id).into_iter();
        blocks
            .flat_map(|b| b.range(first..=last))
            .copied()
            .collect()
    }

    fn all_damaged(&self, max: usize) -> Vec<(ObjectId, u64)> {
        let damaged = self.damaged.lock();
        let pairs = damaged
            .iter()
            .flat_map(|(id, b)| b.iter().map(|b| (*id, *b)));
        pairs.take(max).collect()
    }

    /// Returns whether there was room to remember it.
    fn remember_damage(&self, id: ObjectId, block: u64) -> bool {
        let mut damaged = self.damaged.lock();
        let is_full = self.damaged_blocks.load(Relaxed) >= DAMAGED_MAX as u64;
        if !is_full && damaged.entry(id).or_default().insert(block) {
            self.damaged_blocks.fetch_add(1, Relaxed);
        }
        !is_full
    }

    fn forget_damage(&self, id: ObjectId, blocks: &[u64]) {
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

/// First and last block of a range that is not empty.
fn blocks_of(start: u64, end: u64) -> (u64, u64) {
    let block = u64::from(BLOCK_BYTES);
    (start / block, end.saturating_sub(1) / block)
}

impl Ds {
    /// Before a change: damaged blocks of which it changes a part are mended, and so is what it takes from a source. Returns
    /// those that it overwrites wholly.
    ///
    /// # Errors
    /// [`Fault::Damaged`] when one cannot be mended.
    pub(crate) async fn before_change_of_damage(
        &self,
        id: ObjectId,
        change: &Change<'_>,
    ) -> Result<Vec<u64>, Fault> {
        let (start, end) = change.range();
        if let Change::Clone {
            src, src_offset, ..
        } = change
        {
            self.mend_range(*src, *src_offset, src_offset.saturating_add(end - start))
                .await?;
        }
        if start >= end {
            return Ok(Vec::new());
        }
        let (first, last) = blocks_of(start, end);
        let block_bytes = u64::from(BLOCK_BYTES);
        let mark = self.index.known(id)?.high_water_bytes;
        let is_whole = |block: u64| {
            let from = block * block_bytes;
            start <= from && (from.saturating_add(block_bytes) <= end || end >= mark)
        };
        let mut whole = Vec::new();
        for block in self.sums.damaged_of(id, first, last) {
            if is_whole(block) {
                whole.push(block);
            } else if !self.mend_block(id, block).await? {
                return Err(Fault::Damaged);
            }
        }
        Ok(whole)
    }

    /// Damaged blocks were overwritten wholly, or removed.
    pub(crate) async fn overwritten(&self, id: ObjectId, blocks: &[u64]) -> Result<(), Fault> {
        let seq = self.index.forget_damage(id, blocks)?;
        self.index.durable(seq).await?;
        self.sums.forget_damage(id, blocks);
        Ok(())
    }

    /// Drops the sums of bytes that are about to change, durably. To be called while the change is noted as begun.
    pub(crate) async fn drop_sums(
        &self,
        id: ObjectId,
        (start, end): (u64, u64),
    ) -> Result<(), Fault> {
        if start >= end {
            return Ok(());
        }
        let chunks = (start / CHUNK_BYTES, (end - 1) / CHUNK_BYTES);
        while let Some((seq, is_more)) = self.index.drop_sums(id, chunks)? {
            self.index.durable(seq).await?;
            if !is_more {
                break;
            }
        }
        Ok(())
    }

    /// Before an object is removed: its name may be used again by a filling, so nothing may be left of its sums.
    pub(crate) async fn forget_sums(&self, id: ObjectId) -> Result<(), Fault> {
        let _changing = self.sums.begin(id.file_id);
        if self.index.known(id)?.has_sums {
            self.drop_sums(id, (0, u64::MAX)).await?;
        }
        if self.sums.has_damage() {
            let blocks = self.sums.damaged_of(id, 0, u64::MAX);
            if !blocks.is_empty() {
                self.overwritten(id, &blocks).await?;
            }
        }
        Ok(())
    }

    async fn mend_range(&self, id: ObjectId, start: u64, end: u64) -> Result<(), Fault> {
        if start >= end {
            return Ok(());
        }
        let (first, last) = blocks_of(start, end);
        for block in self.sums.damaged_of(id, first, last) {
            if !self.mend_block(id, block).await? {
                return Err(Fault::Damaged);
            }
        }
        Ok(())
    }

    /// Before a block is given to a member instead of what that has. A damaged one is mended first, from that member too.
    ///
    /// # Errors
    /// [`Fault::Damaged`].
    pub(crate) async fn before_passing_on(&self, id: ObjectId, block: u64) -> Result<(), Fault> {
        if self.index.known(id)?.has_sums {
            self.verify_blocks(id, block, block, false).await?;
        }
        let start = block.saturating_mul(u64::from(BLOCK_BYTES));
        self.mend_range(id, start, start.saturating_add(1)).await
    }

    /// Before bytes of an object are read: damage is mended or told. With `is_from_disk` they are compared with their
    /// sums, if that is wanted.
    ///
    /// # Errors
    /// [`Fault::Damaged`].
    pub(crate) async fn before_read(
        &self,
        id: ObjectId,
        (offset, len): (u64, u32),
        is_from_disk: bool,
    ) -> Result<(), Fault> {
        let end = offset.saturating_add(u64::from(len));
        if offset >= end {
            return Ok(());
        }
        let (first, last) = blocks_of(offset, end);
        if is_from_disk && self.sums.config.verify_reads && self.index.known(id)?.has_sums {
            self.verify_blocks(id, first, last, false).await?;
        }
        if self.sums.has_damage() {
            self.mend_range(id, offset, end).await?;
        }
        Ok(())
    }
}
