//! The clone of a range of one file into another (CLONE, RFC 7862 §15.13): every data server shares the storage of its own part.
//!
//! # Ownership
//! Both files are the clone's alone while it is made. Layouts for writing the source and all layouts of the destination are back,
//! except the caller's own. No new ones are granted, and proxied I/O waits.
//!
//! # Ordering
//! An object keeps the offsets of its file. Two files therefore share storage where their stripes lie on the same data
//! servers: in one group, by one stripe unit, shifted by whole rounds. A destination without bytes is given such a
//! place, after a truncation that ends every handle of the old one. Whether it has bytes is judged when nobody can
//! write it any more: a client may report bytes as late as at LAYOUTRETURN. All data servers agree before one begins.
//! What is cloned is durable at all of them before the name space learns of it, and that is durable before the reply.
//!
//! An inline source shares nothing: its bytes, which are few, are copied. An inline destination gets a place first.
//!
//! # Failure
//! Nothing is changed when a data server is away or cannot share. One that fails in the middle, or a crash, leaves a part of the range
//! cloned, as with COPY.

use crate::actor::{Actor, Prepared};
use crate::enter::without_privileges;
use crate::fs::Fs;
use crate::io::{WriteJob, read, write};
use crate::layouts::may_have_data;
use crate::placing;
use crate::quiesce::{LayoutHold, gate, layouts_gone};
use crate::ranges::end_of;
use crate::truncate::truncate_alone;
use control::{CloneObjectArgs, PunchArgs, Range};
use namespace::{FILE_SIZE_MAX, Inode, Placement, SetAttr, SizeCommit};
use nfs4::ops::WriteRes;
use nfs4::{NfsStatus, StableHow};
use state::IoModes;
use std::sync::Arc;
use stripes::{Expelled, Spread, striping_of};

/// What offsets and lengths are multiples of (`clone_blksize`, RFC 7862 §12.2.1): the block of the usual file systems.
pub const CLONE_BLOCK_BYTES: u32 = 4096;

/// What is to be cloned.
pub struct CloneJob {
    /// The source.
    pub src: Arc<Inode>,
    /// The destination.
    pub dst: Arc<Inode>,
    /// Where the range begins in the source.
    pub src_offset: u64,
    /// Where it begins in the destination.
    pub dst_offset: u64,
    /// Bytes; 0 is to the end of the source.
    pub count: u64,
}

/// Clones a range.
///
/// # Errors
/// `Inval` for ranges that the protocol forbids. `XDev` when the two files cannot lie on the same data servers; `NotSupp` when a
/// data server's file system shares no storage, and for files at foreign servers; `Delay`.
pub async fn clone_range(
    fs: &Arc<Fs>,
    actor: &mut Actor,
    job: &CloneJob,
    kept: &Prepared,
) -> Result<(), NfsStatus> {
    let (src, dst) = (&job.src, &job.dst);
    // Nothing is begun for what the protocol forbids.
    let range = target(fs, src, job).await?;
    if src.is_inline() {
        return clone_inline(fs, actor, job, range, kept).await;
    }
    if [src, dst].iter().any(|inode| inode.is_foreign()) {
        // NFSv3 has no words for it.
        return Err(NfsStatus::NotSupp);
    }
    let place = place_beside(fs, job)?;
    can_share(fs, job).await?;
    let dst = match dst.is_inline() {
        true => placing::place(fs, actor, dst, place).await?,
        false => Arc::clone(dst),
    };
    let job = CloneJob {
        dst,
        src: Arc::clone(src),
        ..*job
    };
    clone_placed(fs, actor, &job, kept).await
}

/// Clones between two files at data servers.
async fn clone_placed(
    fs: &Arc<Fs>,
    actor: &mut Actor,
    job: &CloneJob,
    kept: &Prepared,
) -> Result<(), NfsStatus> {
    let (src, dst) = (&job.src, &job.dst);
    let client = actor.client()?;
    let place = place_beside(fs, job)?;
    let is_moved = place.is_some();
    let _holds = [LayoutHold::new(fs, src.id), LayoutHold::new(fs, dst.id)];
    layouts_gone(fs, src, IoModes::RW, Some(client)).await?;
    // A handle of the old place is of no use in the new one, whoever has it.
    let except = Some(client).filter(|_| !is_moved);
    layouts_gone(fs, dst, IoModes::ANY, except).await?;
    let mut ids = vec![src.id, dst.id];
    ids.sort_unstable();
    ids.dedup();
    let mut gates = Vec::with_capacity(ids.len());
    for id in ids {
        gates.push(gate(fs, id).await?);
    }
    let src = actor.ns(fs, |ns, op| ns.getattr(op, src.id))?;
    let dst = actor.ns(fs, |ns, op| ns.getattr(op, dst.id))?;
    if (src.placement, dst.placement) != (job.src.placement, job.dst.placement) {
        return Err(NfsStatus::Delay);
    }
    let range = target(fs, &src, job).await?;
    let dst = match place {
        Some(place) => move_to(fs, actor, &dst, place).await?,
        None => dst,
    };
    if range.start == range.end {
        return Ok(());
    }
    let dst = without_privileges(fs, actor, dst).await?;
    fs.restripes.overtake(dst.id);
    share(fs, &src, &dst, job.src_offset, range).await?;
    let grown = SizeCommit {
        new_end: Some(range.end),
        ..SizeCommit::default()
    };
    actor.change_as(fs, kept, |ns, op| ns.commit_size(op, dst.id, grown))?;
    fs.note_space(dst.id);
    Ok(())
}

/// Clones the bytes of an inline file, of which no storage is shared: they are read at one moment and written at once.
async fn clone_inline(
    fs: &Arc<Fs>,
    actor: &mut Actor,
    job: &CloneJob,
    range: Range,
    kept: &Prepared,
) -> Result<(), NfsStatus> {
    let count = range.end - range.start;
    let (bytes, _eof) = read(fs, actor, &job.src, (job.src_offset, count), 0).await?;
    if bytes.len() as u64 != count {
        return Err(NfsStatus::Inval);
    }
    if count == 0 {
        return Ok(());
    }
    let padded = block_end(range).min(job.dst.size.max(range.end)) - range.start;
    let mut bytes = bytes.to_vec();
    bytes.resize(usize::try_from(padded).unwrap_or(bytes.len()), 0);
    let job_of_write = WriteJob {
        offset: range.start,
        stable: StableHow::FileSync,
        bytes: bytes.into(),
    };
    let keep = |res: &WriteRes| match res.committed {
        StableHow::FileSync => kept.clone(),
        _ => Prepared::default(),
    };
    let written = write(fs, actor, &job.dst, &job_of_write, &keep).await?;
    if written.committed < StableHow::FileSync {
        let dst = actor.ns(fs, |ns, op| ns.getattr(op, job.dst.id))?;
        crate::target::commit(fs, &dst).await?;
    }
    Ok(())
}

/// Where the last block of a range ends. Up to there all is zeros (RFC 7862 §15.13.3), beyond the end of the file anyway.
fn block_end(range: Range) -> u64 {
    range.end.next_multiple_of(u64::from(CLONE_BLOCK_BYTES))
}

/// The range of the destination, when the protocol allows it: for good when the source cannot change.
async fn target(fs: &Arc<Fs>, src: &Arc<Inode>, job: &CloneJob) -> Result<Range, NfsStatus> {
    let end = end_of(fs, src).await?;
    let left = end.checked_sub(job.src_offset).ok_or(NfsStatus::Inval)?;
    let count = match job.count {
        0 => left,
        count if count <= left => count,
        _ => return Err(NfsStatus::Inval),
    };
    let block = u64::from(CLONE_BLOCK_BYTES);
    let offsets = [job.src_offset, job.dst_offset];
    let is_whole = count.is_multiple_of(block) || count == left;
    if !is_whole || offsets.iter().any(|offset| !offset.is_multiple_of(block)) {
        return Err(NfsStatus::Inval);
    }
    if job.src.id == job.dst.id && job.src_offset.abs_diff(job.dst_offset) < count {
        return Err(NfsStatus::Inval);
    }
    let end = fs.check_range(&job.dst, job.dst_offset, count)?;
    Ok(Range {
        start: job.dst_offset,
        end,
    })
}

/// The place that the destination must have, when it has another: each byte on the data server that has it in the source.
fn place_beside(fs: &Arc<Fs>, job: &CloneJob) -> Result<Option<Placement>, NfsStatus> {
    let from = job.src.placement.ok_or(NfsStatus::ServerFault)?;
    let width = fs.cluster.group_servers(from.group).len();
    let striping = striping_of(&job.src, width).ok_or(NfsStatus::ServerFault)?;
    let shift = i128::from(job.dst_offset) - i128::from(job.src_offset);
    let unit = i128::from(striping.unit_bytes());
    let width = i128::from(striping.width());
    if shift % unit != 0 && width > 1 {
        return Err(NfsStatus::XDev);
    }
    let first = (i128::from(from.first_index) - shift / unit).rem_euclid(width);
    let place = Placement {
        first_index: u32::try_from(first).map_err(|_| NfsStatus::ServerFault)?,
        ..from
    };
    match job.dst.placement {
        Some(now) if now == place => Ok(None),
        // Where all bytes lie on one data server the stripe unit says nothing.
        Some(now) if now.group == from.group && width == 1 => Ok(None),
        Some(now) if now.group == from.group && job.dst.size == 0 => Ok(Some(place)),
        None => Ok(Some(place)),
        _ => Err(NfsStatus::XDev),
    }
}

/// Gives a file that has no bytes another place. To be called under hold and gate, when nobody has a layout.
async fn move_to(
    fs: &Arc<Fs>,
    actor: &mut Actor,
    dst: &Arc<Inode>,
    place: Placement,
) -> Result<Arc<Inode>, NfsStatus> {
    if dst.size > 0 {
        return Err(NfsStatus::XDev);
    }
    if may_have_data(fs, dst.id) {
        // A writer was just fenced: size recovery soon knows what it left.
        return Err(NfsStatus::Delay);
    }
    let cut = SetAttr {
        size: Some(0),
        ..SetAttr::default()
    };
    truncate_alone(fs, actor, dst, &cut, true, &Prepared::default()).await?;
    actor.ns(fs, |ns, op| ns.take_place(op, dst.id, place))
}

/// Asks all data servers of the source whether they can share storage.
async fn can_share(fs: &Arc<Fs>, job: &CloneJob) -> Result<(), NfsStatus> {
    let Some(spread) = Spread::of(&fs.cluster, &job.src, Expelled::Fails)? else {
        return Ok(());
    };
    let nothing = |place| CloneObjectArgs {
        src: spread.object(place),
        src_offset: 0,
        dst: spread.object_of(&job.dst, place),
        range: Range { start: 0, end: 0 },
    };
    let everything = Range {
        start: 0,
        end: FILE_SIZE_MAX,
    };
    let places = spread.touched(everything);
    spread
        .ask(places.map(|place| (place, nothing(place))).collect())
        .await?;
    Ok(())
}

/// Has all data servers share what they have of the range, durably.
async fn share(
    fs: &Arc<Fs>,
    src: &Inode,
    dst: &Inode,
    src_offset: u64,
    range: Range,
) -> Result<(), NfsStatus> {
    let Some(spread) = Spread::of(&fs.cluster, dst, Expelled::Fails)? else {
        return Ok(());
    };
    let args = |place| CloneObjectArgs {
        src: spread.object_of(src, place),
        src_offset,
        dst: spread.object(place),
        range,
    };
    let asks = spread
        .touched(range)
        .map(|place| (place, args(place)))
        .collect();
    spread.ask(asks).await?;
    let block_end = block_end(range);
    if range.end < dst.size.min(block_end) {
        let rest = Range {
            start: range.end,
            end: block_end,
        };
        let punch = |place| PunchArgs {
            object: spread.object(place),
            range: rest,
            durable: true,
        };
        let asks = spread
            .touched(rest)
            .map(|place| (place, punch(place)))
            .collect();
        spread.ask(asks).await?;
    }
    Ok(())
}
