//! Gives a member what it lacks, until it counts (rule P15).
//!
//! # Ownership
//! One task for each member that is filled at a place. [`Fill`] has what writers note meanwhile.
//!
//! # Parts
//! A member that was in sync before lacks nothing of a part that is settled here and there ([`crate::part_index`]): the others are
//! compared. Any other member has all parts compared.
//!
//! # Ordering
//! The sums of a member are those of one point of its stream, and ours are taken under the order lock at the same point.
//! What differs is read and queued under that lock, so it is never behind a newer write. When all parts were compared
//! every promise waits for the member; then what was changed meanwhile is synced there; then the MDS is asked.
//!
//! # Failure
//! A filling that fails begins anew, as long as the MDS has the member down as filling.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use control::{FilledArgs, PlaceReign, Range};
use futures_util::stream::{StreamExt, TryStreamExt, iter};
use layout::MemberState;
use nfs4::NfsTime;
use objects::{Content, ObjectError, ObjectId, ObjectStore};
use parts::{
    BLOCK_BYTES, BLOCKS_MAX, Block, FileGeneration, PARTS_MAX, PartsAsked, PassOk, StreamItem,
};

use super::noted::{Fill, FillKey};
use super::stream::{Head, Outcome, Owned};
use crate::blocks::block_sums;
use crate::calls::rows::take_rows;
use crate::counts::count;
use crate::ds::Ds;
use crate::fault::Fault;
use crate::part::Part;
use crate::part_keys::Which;
use crate::rows::OwnRow;

/// Parts that are compared at one time.
const PARTS_AT_ONCE: usize = 4;
/// How long an answer may take that the filling needs.
const ANSWER_WAIT: Duration = Duration::from_secs(30);
/// How long the MDS may take.
const FILLED_WAIT: Duration = Duration::from_secs(5);

/// What a part has in some blocks.
pub(super) struct Sums {
    pub(super) size_bytes: u64,
    /// Where there are data beyond these blocks; the largest number for none.
    pub(super) next_data: u64,
    pub(super) blocks: Vec<Block>,
}

/// The sums of blocks of a part. A part that is not there has zeros.
pub(super) fn sums_of(
    objects: &dyn ObjectStore,
    id: ObjectId,
    (first, count): (u64, u32),
) -> Result<Sums, ObjectError> {
    let size_bytes = match objects.stat(id) {
        Ok(stat) => stat.size_bytes,
        Err(ObjectError::NotFound) => 0,
        Err(e) => return Err(e),
    };
    let (blocks, _) = block_sums(objects, id, (first, count.into()), false)?;
    let end = first
        .saturating_add(u64::from(count))
        .saturating_mul(u64::from(BLOCK_BYTES));
    let next_data = match end < size_bytes {
        true => objects.seek(id, end, Content::Data)?.unwrap_or(u64::MAX),
        false => u64::MAX,
    };
    Ok(Sums {
        size_bytes,
        next_data,
        blocks,
    })
}

/// The data of a block, holes left out. The last byte of a part is among them: it says how long the part is.
fn runs_of(
    objects: &dyn ObjectStore,
    id: ObjectId,
    block: u64,
    size_bytes: u64,
) -> Result<Vec<(u64, Bytes)>, ObjectError> {
    let start = block.saturating_mul(u64::from(BLOCK_BYTES));
    let bytes = block_of(objects, id, block, size_bytes)?;
    let end = start + bytes.len() as u64;
    let cut = |from: u64, to: u64| {
        let at = |offset: u64| usize::try_from(offset - start).expect("within a block");
        (from, bytes.slice(at(from)..at(to)))
    };
    let mut runs = Vec::new();
    let mut at = start;
    while at < end {
        let Some(data) = objects
            .seek(id, at, Content::Data)?
            .filter(|data| *data < end)
        else {
            break;
        };
        let hole = objects
            .seek(id, data, Content::Hole)?
            .unwrap_or(end)
            .min(end);
        if hole <= data {
            break;
        }
        runs.push(cut(data, hole));
        at = hole;
    }
    if end > start && end == size_bytes && at < end {
        runs.push(cut(end - 1, end));
    }
    Ok(runs)
}

/// The bytes of a block, up to the end of the part.
fn block_of(
    objects: &dyn ObjectStore,
    id: ObjectId,
    block: u64,
    size_bytes: u64,
) -> Result<Bytes, ObjectError> {
    let offset = block.saturating_mul(u64::from(BLOCK_BYTES));
    let len = size_bytes
        .saturating_sub(offset)
        .min(u64::from(BLOCK_BYTES));
    let len = u32::try_from(len).expect("at most a block");
    if len == 0 {
        return Ok(Bytes::new());
    }
    objects.read(id, offset, len).and_then(objects::whole)
}

/// Why a filling did not come to its end.
type Failed = String;

fn failed(what: &'static str) -> impl Fn(Fault) -> Failed {
    move |fault| format!("{what}: {fault:?}")
}

/// A filling that goes on.
struct Filling<'d> {
    ds: &'d Ds,
    row: Arc<OwnRow>,
    key: FillKey,
    /// What may differ.
    which: Which,
    noted: &'d Fill,
}

impl Ds {
    /// Parts of a place.
    pub(super) async fn count_parts(&self, which: Which, place: (u32, u8)) -> Result<u64, Failed> {
        let (mut count, mut after) = (0, None);
        loop {
            let page = self.index.parts_of(which, place, after, PARTS_MAX as usize);
            let page = page.map_err(|e| e.to_string())?;
            count += page.len() as u64;
            after = page.last().copied();
            if page.len() < PARTS_MAX as usize {
                return Ok(count);
            }
            tokio::task::yield_now().await;
        }
    }
}

/// The part that stands for a place.
const fn any_part(group: u32, place: u8) -> Part {
    let id = ObjectId {
        file_id: 0,
        generation: 0,
        place,
    };
    Part { id, group }
}

/// Makes a member in sync equal to this server in what is not settled: another primary may have given one of the two a
/// change that it did not give the other (rule P12). Nobody was promised such a change.
pub(super) async fn level(ds: &Ds, key: FillKey) -> Result<(), Failed> {
    let (group, place, member) = key;
    let any = any_part(group, place);
    let row = ds.gate.primary_row(any).ok_or("not primary any more")?;
    if row.row.state_of(member) != Some(MemberState::Sync) {
        return Err("not in sync any more".to_owned());
    }
    let filling = Filling {
        ds,
        row,
        key,
        which: Which::Unsettled,
        noted: &Fill::default(),
    };
    filling.look_at_theirs(any).await?;
    filling.compare_ours(any).await
}

/// Fills a member and has the MDS count it.
pub(super) async fn fill(ds: &Ds, key: FillKey, fill: &Fill) -> Result<(), Failed> {
    let (group, place, member) = key;
    let any = any_part(group, place);
    let row = ds.gate.primary_row(any).ok_or("not primary any more")?;
    let known = row.row.member(member);
    let Some(known) = known.filter(|m| m.state == MemberState::Filling) else {
        return Ok(());
    };
    let which = match known.was_sync {
        true => Which::Unsettled,
        false => Which::All,
    };
    let losses = ds.copies.levelled.losses();
    // What was let in when the place had other members was not passed on.
    ds.gate.drain_all().await;
    fill.begin(ds.count_parts(which, (group, place)).await?);
    let filling = Filling {
        ds,
        row: Arc::clone(&row),
        key,
        which,
        noted: fill,
    };
    filling.look_at_theirs(any).await?;
    filling.compare_ours(any).await?;
    loop {
        let again = fill.take_again();
        if again.is_empty() {
            break;
        }
        for id in again {
            filling.compare(Part { id, group }).await?;
        }
    }
    let touched = {
        let _all = ds.copies.fills.lock();
        fill.wait_for()
    };
    for id in touched.ok_or("too much was changed meanwhile")? {
        filling.ask(Part { id, group }, StreamItem::Sync).await?;
    }
    let args = FilledArgs {
        ds_id: member,
        place: PlaceReign {
            group,
            place: u32::from(place),
            reign: row.row.reign,
        },
        era: row.row.era,
    };
    let told = ds
        .call_mds(&args, FILLED_WAIT)
        .await
        .map_err(|e| e.to_string())?;
    let taken = take_rows(ds, told.rows.0).await;
    taken.map_err(|status| format!("rows of the MDS: {status:?}"))?;
    let now = ds.gate.primary_row(any);
    let state = now.and_then(|row| row.row.state_of(member));
    if state != Some(MemberState::Sync) {
        return Err("the row has changed meanwhile".to_owned());
    }
    ds.copies.levelled.note(key, row.row.reign, losses);
    tracing::info!(group, place, member, "a member is in sync");
    Ok(())
}

impl Filling<'_> {
    fn head(&self, part: Part) -> Head {
        Head {
            group: part.group,
            place: u32::from(part.id.place),
            reign: self.row.row.reign,
            file: FileGeneration {
                file_id: part.id.file_id,
                generation: part.id.generation,
            },
            time: self
                .ds
                .index
                .known(part.id)
                .map_or(NfsTime::default(), |known| known.modified),
        }
    }

    /// Queues an item for the member; returns what says its answer.
    fn queue(&self, part: Part, item: Owned) -> tokio::sync::oneshot::Receiver<Outcome> {
        let stream = self.ds.copies.stream(self.key.2);
        stream
            .push(self.head(part), item, true)
            .expect("it is waited for")
    }

    async fn answer(
        &self,
        waiting: tokio::sync::oneshot::Receiver<Outcome>,
    ) -> Result<PassOk, Failed> {
        match tokio::time::timeout(ANSWER_WAIT, waiting).await {
            Ok(Ok(Outcome::Done(answer))) => Ok(answer),
            Ok(Ok(Outcome::Full)) => Err("the member has no room".to_owned()),
            Ok(_) => Err("the member does not count any more".to_owned()),
            Err(_) => Err("the member does not answer".to_owned()),
        }
    }

    async fn ask(&self, part: Part, item: StreamItem<'static>) -> Result<PassOk, Failed> {
        let waiting = self.queue(part, Owned::Plain(item));
        self.answer(waiting).await
    }

    /// Drops the parts at the member that are none here, and compares those that are settled here alone.
    async fn look_at_theirs(&self, any: Part) -> Result<(), Failed> {
        let which = match self.which {
            Which::All => PartsAsked::All,
            Which::Unsettled => PartsAsked::Unsettled,
        };
        let mut after = None;
        loop {
            let page = self
                .ask(any, StreamItem::Parts { after, which })
                .await?
                .parts
                .0;
            let mut settled_here = Vec::new();
            for file in &page {
                let part = any.of_file(file.file_id, file.generation);
                let order = self.ds.copies.order(file.file_id).lock().await;
                let known = self.ds.index.known(part.id);
                if known.map_err(|e| e.to_string())?.group == part.group {
                    let is_settled = self.ds.index.is_settled(part.id);
                    if is_settled.map_err(|e| e.to_string())? {
                        settled_here.push(part);
                    }
                    continue;
                }
                let waiting = self.queue(part, Owned::Plain(StreamItem::Drop));
                drop(order);
                self.answer(waiting).await?;
            }
            if self.which == Which::Unsettled {
                self.compare_some(settled_here).await?;
            }
            after = page.last().copied();
            if page.len() < PARTS_MAX as usize {
                return Ok(());
            }
        }
    }

    /// Compares parts, some at one time.
    async fn compare_some(&self, parts: Vec<Part>) -> Result<(), Failed> {
        let compared = iter(parts).map(|part| self.compare(part));
        let mut compared = compared.buffer_unordered(PARTS_AT_ONCE);
        while compared.try_next().await?.is_some() {}
        Ok(())
    }

    /// Compares what is here of the place.
    async fn compare_ours(&self, any: Part) -> Result<(), Failed> {
        let place = (any.group, any.id.place);
        let mut after = None;
        loop {
            let index = &self.ds.index;
            let page = index.parts_of(self.which, place, after, PARTS_MAX as usize);
            let page = page.map_err(|e| e.to_string())?;
            let part = |(file, generation): &(u64, u32)| any.of_file(*file, *generation);
            self.compare_some(page.iter().map(part).collect()).await?;
            after = page.last().copied();
            if page.len() < PARTS_MAX as usize {
                return Ok(());
            }
        }
    }

    /// Compares a part. One that is removed meanwhile is no failure: the member is told of that by the MDS.
    async fn compare(&self, part: Part) -> Result<(), Failed> {
        let compared = self.compare_blocks(part).await;
        match self.ds.is_there(part) {
            Ok(false) => Ok(()),
            _ => compared,
        }
    }

    /// Compares the blocks of a part, sends what differs, and has it synced there.
    async fn compare_blocks(&self, part: Part) -> Result<(), Failed> {
        let mut first = 0;
        loop {
            self.ds.fill_turn(&self.row, 0).await;
            let (mine, waiting) = {
                let _order = self.ds.copies.order(part.id.file_id).lock().await;
                // What is lost here must not be lost there (R9).
                let size = self.ds.size_of(part.id).map_err(failed("size of a part"))?;
                self.ds
                    .check_mark(part.id, size)
                    .map_err(failed("a part"))?;
                let sums = self
                    .ds
                    .blocking(move |objects| sums_of(objects, part.id, (first, BLOCKS_MAX)));
                let mine = sums.await.map_err(|e| e.to_string())?;
                let count = BLOCKS_MAX;
                let waiting = self.queue(part, Owned::Plain(StreamItem::Sums { first, count }));
                (mine, waiting)
            };
            let theirs = self.answer(waiting).await?;
            self.mend(part, first, &mine, &theirs).await?;
            let next = mine.next_data.min(theirs.next_data);
            if next == u64::MAX {
                break;
            }
            first = next / u64::from(BLOCK_BYTES);
        }
        self.ask(part, StreamItem::Sync).await?;
        count(&self.ds.counts.parts_compared);
        self.noted.note_progress(1, 0);
        Ok(())
    }

    /// Sends the blocks that differ, as they are now, and the end of the part.
    async fn mend(
        &self,
        part: Part,
        first: u64,
        mine: &Sums,
        theirs: &PassOk,
    ) -> Result<(), Failed> {
        let pairs = mine.blocks.iter().zip(&theirs.blocks.0);
        let differing = (first..)
            .zip(pairs)
            .filter(|(_, (mine, theirs))| mine != theirs);
        let mut blocks: Vec<u64> = differing.map(|(block, _)| block).collect();
        let last = mine.size_bytes.saturating_sub(1) / u64::from(BLOCK_BYTES);
        let is_last = mine.size_bytes > 0 && (first..first + u64::from(BLOCKS_MAX)).contains(&last);
        if is_last && theirs.size_bytes < mine.size_bytes && !blocks.contains(&last) {
            // Zeros up to its end have the sum of what the member lacks.
            blocks.push(last);
        }
        for block in blocks {
            self.ds.fill_turn(&self.row, u64::from(BLOCK_BYTES)).await;
            // What is damaged here may be whole there.
            let whole = self.ds.before_passing_on(part.id, block).await;
            whole.map_err(failed("a block"))?;
            let _order = self.ds.copies.order(part.id.file_id).lock().await;
            let size = self.ds.size_of(part.id).map_err(failed("size of a part"))?;
            let size = size.unwrap_or(0);
            let read = self
                .ds
                .blocking(move |objects| runs_of(objects, part.id, block, size));
            let runs = read.await.map_err(|e| e.to_string())?;
            let start = block.saturating_mul(u64::from(BLOCK_BYTES));
            let range = Range {
                start,
                end: size.min(start.saturating_add(u64::from(BLOCK_BYTES))),
            };
            let is_whole = runs.len() == 1 && runs[0].1.len() as u64 == range.end - range.start;
            if range.end > range.start && !is_whole {
                // A hole stays a hole there.
                let _sent = self.queue(part, Owned::Plain(StreamItem::Punch { range }));
            }
            for (offset, bytes) in runs {
                self.noted.note_progress(0, bytes.len() as u64);
                let _sent = self.queue(part, Owned::block(offset, bytes));
            }
        }
        if theirs.size_bytes > mine.size_bytes {
            let _order = self.ds.copies.order(part.id.file_id).lock().await;
            let size = self.ds.size_of(part.id).map_err(failed("size of a part"))?;
            let size_bytes = size.unwrap_or(0);
            let _sent = self.queue(part, Owned::Plain(StreamItem::Cut { size_bytes }));
        }
        self.ds.copies.stream(self.key.2).room().await;
        Ok(())
    }
}
