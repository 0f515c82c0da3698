//! Ranges of striped files: where data are, holes that are made, storage that is taken (SEEK, DEALLOCATE, ALLOCATE).
//!
//! # Ownership
//! As proxied I/O: the file's gate keeps truncations out. Layouts stay. A client that writes the range at a data server
//! meanwhile sees a WRITE like any other. No byte outside of the range is touched.
//!
//! # Ordering
//! A hole or a reservation is durable at every data server before the name space learns of it, and that before the reply.
//! With sparse packing an object is a hole wherever the stripes of others lie, so each data server is asked about its own
//! stripes alone.
//!
//! # Failure
//! What fails may be done in part, and asking again does the rest. A data server that is away delays all of it. An
//! expelled one makes an I/O error of it: its part of the file is lost.

use crate::actor::{Actor, Prepared};
use crate::enter::enter;
use crate::foreign_files::file_at;
use crate::fs::Fs;
use crate::inline;
use crate::io::enter_to_write;
use crate::size_recovery::{may_be_longer, measure};
use control::{MapArgs, MapOk, PunchArgs, Range, ReserveArgs};
use namespace::{FILE_SIZE_MAX, Inode, SizeCommit};
use nfs4::{NfsStatus, Verifier};
use std::collections::BTreeMap;
use std::sync::Arc;
use stripes::{Expelled, Spread};

/// Rounds of questions of one SEEK. What is not found by then is said to be data, as it may be of any hole.
const SEEK_ROUNDS_MAX: usize = 4096;

/// What SEEK looks for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Content {
    /// Bytes that were written.
    Data,
    /// None.
    Hole,
}

/// What SEEK found.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Sought {
    /// It begins here.
    At(u64),
    /// There is none before the end of the file, which is here.
    End(u64),
}

/// Looks for data or for a hole.
///
/// # Errors
/// `NxIo` at or after the end of the file.
pub async fn seek(
    fs: &Arc<Fs>,
    actor: &mut Actor,
    inode: &Inode,
    offset: u64,
    what: Content,
) -> Result<Sought, NfsStatus> {
    let (_shared, inode) = enter(fs, actor, inode).await?;
    if inode.is_inline() {
        return seek_inline(&inode, offset, what);
    }
    let written_unseen = may_be_longer(fs, &inode);
    if offset >= inode.size && !written_unseen {
        return Err(NfsStatus::NxIo);
    }
    if file_at(fs, &inode).is_some() {
        let end = end_of(fs, &inode).await?;
        return seek_without_holes(end, offset, what);
    }
    let spread = Spread::of(&fs.cluster, &inode, Expelled::Fails)?.ok_or(NfsStatus::ServerFault)?;
    let (found, object_sizes) = look(&spread, offset, what).await?;
    let mut end = inode.size;
    if written_unseen {
        end = end.max(spread.striping().file_size(&object_sizes));
    }
    match found {
        _ if offset >= end => Err(NfsStatus::NxIo),
        Some(at) if at < end => Ok(Sought::At(at)),
        _ => Ok(Sought::End(end)),
    }
}

/// Looks for data or for a hole of an inline file: the bytes of the record are data, and what the file has beyond them is a hole.
fn seek_inline(inode: &Inode, offset: u64, what: Content) -> Result<Sought, NfsStatus> {
    let (data_end, end) = (inode.space_used.min(inode.size), inode.size);
    match what {
        _ if offset >= end => Err(NfsStatus::NxIo),
        Content::Data if offset < data_end => Ok(Sought::At(offset)),
        Content::Hole if offset.max(data_end) < end => Ok(Sought::At(offset.max(data_end))),
        _ => Ok(Sought::End(end)),
    }
}

/// NFSv3 does not tell where holes are, so all is data (RFC 7862 §15.11.3).
fn seek_without_holes(end: u64, offset: u64, what: Content) -> Result<Sought, NfsStatus> {
    match what {
        _ if offset >= end => Err(NfsStatus::NxIo),
        Content::Data => Ok(Sought::At(offset)),
        Content::Hole => Ok(Sought::End(end)),
    }
}

/// The end of a file, with what is written to data servers under layouts that are out: Linux asks for a range of a file, or a
/// copy of it, before it has said LAYOUTCOMMIT.
pub async fn end_of(fs: &Arc<Fs>, inode: &Arc<Inode>) -> Result<u64, NfsStatus> {
    if may_be_longer(fs, inode) {
        Ok(measure(fs, inode).await?.max(inode.size))
    } else {
        Ok(inode.size)
    }
}

/// The first byte at or after `offset` that is `what` in its own object, and the sizes of the objects.
async fn look(
    spread: &Spread,
    offset: u64,
    what: Content,
) -> Result<(Option<u64>, Vec<u64>), NfsStatus> {
    let mut sizes = vec![0; spread.ids().len()];
    let mut from: Vec<Option<u64>> = vec![Some(offset); spread.ids().len()];
    let mut best: Option<u64> = None;
    for _ in 0..SEEK_ROUNDS_MAX {
        let open = from.iter().enumerate().filter_map(|(place, at)| {
            let at = at.filter(|at| best.is_none_or(|best| *at < best))?;
            Some((place, at))
        });
        let args = |(place, start): (usize, u64)| MapArgs {
            object: spread.object(place),
            stripes: spread.stripes(place),
            range: Range {
                start,
                end: FILE_SIZE_MAX,
            },
            ranges_max: 1,
        };
        let asks: Vec<_> = open.map(|ask| (ask.0, args(ask))).collect();
        if asks.is_empty() {
            return Ok((best, sizes));
        }
        for (place, answer) in spread.ask(asks).await? {
            sizes[place] = answer.size_bytes;
            let at = from[place].unwrap_or(offset);
            match next(spread, place, at, what, &answer) {
                Next::Found(found) => {
                    best = Some(best.map_or(found, |best| best.min(found)));
                    from[place] = None;
                }
                Next::Further(further) if further > at => from[place] = Some(further),
                Next::Further(_) => return Err(NfsStatus::Io),
                Next::Nothing => from[place] = None,
            }
        }
    }
    let reached = from.into_iter().flatten().min();
    if what == Content::Data {
        best = best.into_iter().chain(reached).min();
    }
    Ok((best, sizes))
}

/// What one data server's answer says.
enum Next {
    Found(u64),
    /// It did not look after this.
    Further(u64),
    Nothing,
}

fn next(spread: &Spread, place: usize, at: u64, what: Content, answer: &MapOk) -> Next {
    let index = u32::try_from(place).unwrap_or(u32::MAX);
    let own = spread.striping().next_own(index, at);
    let first = answer.ranges.0.first();
    let is_whole = answer.through >= FILE_SIZE_MAX;
    match (what, first) {
        (Content::Data, Some(range)) => Next::Found(range.start.max(own)),
        (Content::Data, None) if is_whole => Next::Nothing,
        (Content::Data, None) => Next::Further(answer.through),
        (Content::Hole, _) => {
            let data_end = first.filter(|range| range.start <= own).map(|r| r.end);
            let hole = spread.striping().next_own(index, data_end.unwrap_or(own));
            if is_whole || hole < answer.through {
                Next::Found(hole)
            } else {
                Next::Further(answer.through)
            }
        }
    }
}

/// Makes a hole of a range. The size stays. One that is not `durable` is so after a COMMIT. The write verifiers of the data
/// servers tell whether that was the same run of theirs.
///
/// # Errors
/// `Delay` while a data server is away; `NotSupp` when its file system makes no holes, and at foreign servers: NFSv3 has no words
/// for them.
pub async fn deallocate(
    fs: &Arc<Fs>,
    actor: &mut Actor,
    kept: &Prepared,
    inode: &Inode,
    (range, durable): (Range, bool),
) -> Result<BTreeMap<u32, Verifier>, NfsStatus> {
    let (_shared, inode) = enter_to_write(fs, actor, inode, 0).await?;
    let mut seen = BTreeMap::new();
    if inode.is_inline() {
        inline::punch(fs, actor, &inode, range, kept)?;
        return Ok(seen);
    }
    if file_at(fs, &inode).is_some() {
        return Err(NfsStatus::NotSupp);
    }
    let spread = Spread::of(&fs.cluster, &inode, Expelled::Fails)?;
    let spread = spread.ok_or(NfsStatus::ServerFault)?;
    let args = |place| PunchArgs {
        object: spread.object(place),
        range,
        durable,
    };
    let asks = spread
        .touched(range)
        .map(|place| (place, args(place)))
        .collect();
    let _noted = fs.restripes.writing(inode.id, range.start, range.end);
    for (place, answer) in spread.ask(asks).await? {
        let (index, verifier) = spread.verifier_of(place, answer.verifier);
        seen.insert(index, verifier);
    }
    let changed = SizeCommit::default();
    actor.change_as(fs, kept, |ns, op| ns.commit_size(op, inode.id, changed))?;
    fs.note_space(inode.id);
    Ok(seen)
}

/// Takes storage for a range, durably; the file grows to its end. Only data servers have storage to take, so an inline file
/// gets a place.
///
/// # Errors
/// `NoSpc`; `Delay` while a data server is away; `NotSupp` at foreign servers.
pub async fn allocate(
    fs: &Arc<Fs>,
    actor: &mut Actor,
    kept: &Prepared,
    inode: &Inode,
    range: Range,
) -> Result<(), NfsStatus> {
    let (_shared, inode) = enter_to_write(fs, actor, inode, u64::MAX).await?;
    if file_at(fs, &inode).is_some() {
        return Err(NfsStatus::NotSupp);
    }
    let spread = Spread::of(&fs.cluster, &inode, Expelled::Fails)?.ok_or(NfsStatus::NoSpc)?;
    // Storage that is taken does not go along.
    fs.restripes.overtake(inode.id);
    let mut open: Vec<(usize, u64)> = spread.touched(range).map(|p| (p, range.start)).collect();
    while !open.is_empty() {
        let args = |(place, start): (usize, u64)| ReserveArgs {
            object: spread.object(place),
            stripes: spread.stripes(place),
            range: Range { start, ..range },
        };
        let asks = open.iter().map(|ask| (ask.0, args(*ask))).collect();
        let was = open.clone();
        open.clear();
        for (place, answer) in spread.ask(asks).await? {
            let before = was
                .iter()
                .find(|(p, _)| *p == place)
                .map_or(0, |(_, at)| *at);
            if answer.through >= range.end {
                continue;
            }
            if answer.through <= before {
                return Err(NfsStatus::Io);
            }
            open.push((place, answer.through));
        }
    }
    let grown = SizeCommit {
        new_end: Some(range.end),
        ..SizeCommit::default()
    };
    actor.change_as(fs, kept, |ns, op| ns.commit_size(op, inode.id, grown))?;
    fs.note_space(inode.id);
    Ok(())
}

#[cfg(test)]
mod tests {
    //! Goal: SEEK tells the bytes of a record from the hole after them, at every edge.
    use super::*;
    use namespace::{
        Cred, FileId, Format, How, Namespace, NamespaceLimits, NewNode, Op, SetAttr, Time,
    };

    #[test]
    fn data_lie_at_the_start_and_a_hole_after_them() {
        let store = Arc::new(meta::MemStore::new());
        let format = Format {
            cluster_id: 1,
            hash_key: [0; 16],
        };
        let now = Time::default();
        let opened = Namespace::open(store, format, now, NamespaceLimits::default());
        let (ns, _) = opened.unwrap();
        let cred = Cred::root();
        let mut op = Op::new(&cred, now);
        let new = NewNode::mode(0o644);
        let made = ns.create(&mut op, FileId::ROOT, b"f", &new, How::Guarded, None);
        let file = made.unwrap().inode.id;
        ns.write_inline(&mut op, file, (0, b"abc"), 9).unwrap();
        let whole = ns.getattr(&mut op, file).unwrap();
        let longer = SetAttr {
            size: Some(5),
            ..SetAttr::default()
        };
        let holed = ns.setattr(&mut op, file, &longer, true).unwrap().inode;
        for (inode, at, data, hole) in [
            (&whole, 0, Ok(Sought::At(0)), Ok(Sought::End(3))),
            (&whole, 2, Ok(Sought::At(2)), Ok(Sought::End(3))),
            (&whole, 3, Err(NfsStatus::NxIo), Err(NfsStatus::NxIo)),
            (&holed, 2, Ok(Sought::At(2)), Ok(Sought::At(3))),
            (&holed, 3, Ok(Sought::End(5)), Ok(Sought::At(3))),
            (&holed, 4, Ok(Sought::End(5)), Ok(Sought::At(4))),
            (&holed, 5, Err(NfsStatus::NxIo), Err(NfsStatus::NxIo)),
        ] {
            assert_eq!(seek_inline(inode, at, Content::Data), data, "data at {at}");
            assert_eq!(seek_inline(inode, at, Content::Hole), hole, "hole at {at}");
        }
    }
}
