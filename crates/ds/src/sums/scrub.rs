//! Scrub: sums for parts that are quiet, and a comparison of everything on the disk with its sums.
//!
//! # Ownership
//! One task, [`run`]. It reads from the disk, past the page cache where the store can.
//!
//! # Failure
//! A block that does not fit is read again. If it still does not, and its sums are the same, it is damaged: durably noted,
//! then mended if another member has it. What cannot be read is left for the next pass.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::time::Duration;

use layout::MemberState;
use meta::MetaError;
use objects::{Content, ObjectError, ObjectId};
use parts::{BLOCK_BYTES, Block};
use server::Nfsd;
use tokio::time::{Instant, sleep};

use super::table::{CHUNK_BLOCKS, CHUNK_BYTES};
use crate::blocks::block_sums;
use crate::ds::Ds;
use crate::fault::Fault;
use crate::pace::Pace;
use crate::rows::OwnRow;

/// A group, and a place of it.
type Place = (u32, u8);

/// How often it looks for work.
const LOOK: Duration = Duration::from_secs(1);
/// Objects of one page of a pass, and parts that get their sums in one look.
const PAGE: usize = 64;
/// Blocks that are read at one time.
const READ_BLOCKS: u64 = 16;
/// How often damaged blocks are tried again, and how many at one time.
const MEND_AGAIN: Duration = Duration::from_secs(10);
const MENDED_AT_ONCE: usize = 256;

/// Makes and compares sums until it is dropped. Of no use for a store that no process outlives.
pub async fn run(nfsd: Arc<Nfsd<Ds>>) {
    let ds = nfsd.role();
    let mut pace = Pace::new(ds.counts.of_clients());
    let mut mended = Instant::now();
    loop {
        tokio::select! {
            biased;
            () = sleep(LOOK) => {}
            () = ds.sums.wake.notified() => {}
        }
        sum_quiet(ds, &mut pace).await;
        if mended.elapsed() >= MEND_AGAIN {
            mended = Instant::now();
            mend_all(ds).await;
        }
        if let Some(order) = due(ds) {
            pass(ds, &mut pace, order).await;
        }
    }
}

/// Keeps scrub to its share of the time while clients are served (rule P26).
async fn rest(ds: &Ds, pace: &mut Pace, worked: Duration) {
    match pace.rest_after(worked, ds.counts.of_clients()) {
        Some(rest) => sleep(rest).await,
        None => tokio::task::yield_now().await,
    }
}

/// The order that a pass would follow, if one is due.
fn due(ds: &Ds) -> Option<u64> {
    let ordered = ds.sums.ordered.load(Relaxed);
    let followed = ds.sums.state.lock().order;
    let age = (ds.clock)().seconds - ds.index.scrubbed_at().unwrap_or(0);
    let interval = i64::try_from(ds.sums.config.scrub_interval.as_secs()).unwrap_or(i64::MAX);
    // A clock that went back costs a pass.
    (ordered > followed || age >= interval || age < 0).then_some(ordered)
}

async fn sum_quiet(ds: &Ds, pace: &mut Pace) {
    for id in ds.sums.take_quiet(PAGE) {
        if let Err(fault) = ds.look_at(id, false, pace).await {
            tracing::debug!(file = id.file_id, ?fault, "no sums now");
        }
    }
}

async fn mend_all(ds: &Ds) {
    for (id, block) in ds.sums.all_damaged(MENDED_AT_ONCE) {
        if let Err(fault) = ds.mend_block(id, block).await {
            tracing::debug!(file = id.file_id, block, ?fault, "not mended");
        }
    }
}

/// One pass over all objects: those first of which no other member has a copy that counts.
async fn pass(ds: &Ds, pace: &mut Pace, order: u64) {
    let begun = Instant::now();
    let total = ds.index.objects_count();
    {
        let mut state = ds.sums.state.lock();
        (state.is_running, state.order) = (true, order);
        (state.objects, state.objects_done, state.bytes_read) = (total, 0, 0);
    }
    let last_copies = last_copies(ds);
    let ended = match walk(ds, pace, |place| last_copies.contains(&place)).await {
        Ok(()) => walk(ds, pace, |place| !last_copies.contains(&place)).await,
        Err(error) => Err(error),
    };
    let now = (ds.clock)().seconds;
    let ended = ended.and_then(|()| ds.index.put_scrubbed_at(now));
    let mut state = ds.sums.state.lock();
    state.is_running = false;
    match ended {
        Ok(()) => {
            state.scrubbed_at = now;
            let took_ms = begun.elapsed().as_millis();
            tracing::info!(
                objects = total,
                bytes = state.bytes_read,
                took_ms,
                "scrubbed"
            );
        }
        Err(error) => tracing::error!(%error, "scrub"),
    }
}

/// The places of which this server alone is in sync.
fn last_copies(ds: &Ds) -> BTreeSet<Place> {
    let places = ds.gate.with_rows(|rows, ds_id| {
        let is_last = |row: &OwnRow| {
            let in_sync: Vec<u32> = row.row.in_state(MemberState::Sync).collect();
            in_sync == [ds_id]
        };
        let own = rows.all().filter(|(_, _, row)| is_last(row));
        let places = own.filter_map(|(group, place, _)| Some((group, u8::try_from(place).ok()?)));
        places.collect()
    });
    places.unwrap_or_default()
}

/// Looks at all objects of some places.
async fn walk(ds: &Ds, pace: &mut Pace, is_of: impl Fn(Place) -> bool) -> Result<(), MetaError> {
    let mut after = None;
    loop {
        let page = ds.index.objects_after(after, PAGE)?;
        for (id, group) in page.iter().filter(|(id, group)| is_of((*group, id.place))) {
            if ds.is_scrubbed(*id, *group)
                && let Err(fault) = ds.look_at(*id, true, pace).await
            {
                ds.note(*id, &fault);
            }
            ds.sums.state.lock().objects_done += 1;
        }
        sum_quiet(ds, pace).await;
        match page.last() {
            Some((last, _)) if page.len() >= PAGE => after = Some(*last),
            _ => return Ok(()),
        }
    }
}

impl Ds {
    /// Whether an object is looked at: a member that is not in sync is filled anyway.
    fn is_scrubbed(&self, id: ObjectId, group: u32) -> bool {
        group == 0 || self.gate.state_at(group, id.place) == Some(MemberState::Sync)
    }

    /// Makes sums of the chunks that have none, and compares those that have, if `is_compared`.
    async fn look_at(&self, id: ObjectId, is_compared: bool, pace: &mut Pace) -> Result<(), Fault> {
        let known = self.index.known(id)?;
        if !known.indexed {
            return Ok(());
        }
        let size = self.size_of(id)?.unwrap_or(0);
        let end = size.max(known.high_water_bytes).div_ceil(CHUNK_BYTES);
        let mut chunk = 0;
        while chunk < end {
            let begun = Instant::now();
            let has_sums = self.index.sums(id, chunk)?.is_some();
            if has_sums && is_compared {
                let first = chunk * CHUNK_BLOCKS;
                self.verify_blocks(id, first, first + CHUNK_BLOCKS - 1, true)
                    .await?;
            } else if !has_sums {
                let data = self.objects.seek(id, chunk * CHUNK_BYTES, Content::Data);
                match data.map_err(Fault::Object)? {
                    Some(at) if at / CHUNK_BYTES > chunk => {
                        let next = self.index.next_sums(id, chunk)?.unwrap_or(u64::MAX);
                        chunk = next.min(at / CHUNK_BYTES);
                        continue;
                    }
                    Some(_) => self.sum_chunk(id, chunk).await?,
                    None => match self.index.next_sums(id, chunk)? {
                        Some(next) => {
                            chunk = next;
                            continue;
                        }
                        None => break,
                    },
                }
            }
            chunk += 1;
            rest(self, pace, begun.elapsed()).await;
        }
        Ok(())
    }

    /// Makes the sums of a chunk, unless the file is changed meanwhile.
    async fn sum_chunk(&self, id: ObjectId, chunk: u64) -> Result<(), Fault> {
        let Some(quiet) = self.sums.quiet(id.file_id) else {
            return Ok(());
        };
        // What lies on the disk is what was read, also after a crash.
        self.sync(id).await?;
        let first = chunk * CHUNK_BLOCKS;
        let summed = self.blocking(move |objects| {
            let size = objects.stat(id)?.size_bytes;
            let blocks = size.div_ceil(u64::from(BLOCK_BYTES)).saturating_sub(first);
            let (mut sums, mut read_bytes) = (Vec::new(), 0);
            let blocks = blocks.min(CHUNK_BLOCKS);
            let mut at = 0;
            while at < blocks {
                let count = READ_BLOCKS.min(blocks - at);
                let (some, bytes) = block_sums(objects, id, (first + at, count), false)?;
                sums.extend(some);
                read_bytes += bytes;
                at += count;
            }
            Ok((sums, read_bytes))
        });
        let (sums, read_bytes): (Vec<Block>, u64) = summed.await.map_err(Fault::Object)?;
        self.sums.state.lock().bytes_read += read_bytes;
        let put = || self.index.put_sums(id, chunk, sums);
        Ok(self
            .sums
            .if_still(id.file_id, quiet, put)
            .unwrap_or(Ok(()))?)
    }

    /// Compares blocks, the last one included, with their sums. Notes those that do not fit, and mends them if that can be.
    pub(super) async fn verify_blocks(
        &self,
        id: ObjectId,
        first: u64,
        last: u64,
        from_disk: bool,
    ) -> Result<(), Fault> {
        let mut at = first;
        while at <= last {
            let chunk_end = (at / CHUNK_BLOCKS + 1) * CHUNK_BLOCKS;
            let count = (last + 1).min(chunk_end).min(at + READ_BLOCKS) - at;
            for block in self.misfits(id, at, count, from_disk).await? {
                // A second look: the first may have met a change.
                if !self.misfits(id, block, 1, from_disk).await?.is_empty() {
                    self.damaged(id, block).await?;
                }
            }
            at += count;
        }
        Ok(())
    }

    /// Blocks of one chunk that do not fit their sums.
    async fn misfits(
        &self,
        id: ObjectId,
        first: u64,
        count: u64,
        from_disk: bool,
    ) -> Result<Vec<u64>, Fault> {
        let read = self.blocking(move |objects| block_sums(objects, id, (first, count), from_disk));
        let found = match read.await {
            Ok((found, read_bytes)) => {
                self.sums.state.lock().bytes_read += read_bytes;
                Some(found)
            }
            // What the disk does not give back is damaged as well.
            Err(ObjectError::Io(_)) => None,
            Err(e) => return Err(Fault::Object(e)),
        };
        // After the bytes: a change drops the sums before it changes a byte.
        let Some(sums) = self.index.sums(id, first / CHUNK_BLOCKS)? else {
            return Ok(Vec::new());
        };
        let fits = |at: &u64| {
            let index = usize::try_from((first + at) % CHUNK_BLOCKS).expect("small");
            let sum = sums.get(index);
            let found = usize::try_from(*at)
                .ok()
                .and_then(|at| found.as_ref()?.get(at));
            sum.is_none_or(|sum| found == Some(sum))
        };
        let misfits = (0..count).filter(|at| !fits(at)).map(|at| first + at);
        Ok(misfits.collect())
    }

    /// A block is damaged: that is durable before anything else, then it is mended if another member has it.
    async fn damaged(&self, id: ObjectId, block: u64) -> Result<(), Fault> {
        if self.sums.damaged_of(id, block, block).is_empty() {
            tracing::error!(
                file = id.file_id,
                place = id.place,
                offset = block * u64::from(BLOCK_BYTES),
                "a block on the disk does not fit its sum"
            );
            let seq = self.index.put_damage(id, block)?;
            if self.sums.remember_damage(id, block) {
                self.sums.state.lock().blocks_found += 1;
            }
            self.index.durable(seq).await?;
        }
        self.mend_block(id, block).await?;
        Ok(())
    }
}
