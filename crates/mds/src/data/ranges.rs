//! Ranges of striped files: where data are, holes that are made, storage that is taken (SEEK, DEALLOCATE, ALLOCATE).
//!
//! # Ownership
//! As proxied I/O: the file's gate keeps truncations out. Layouts stay: to whoever writes the range at a data server meanwhile it
//! is a WRITE like any other, and no byte outside of the range is touched.
//!
//! # Ordering
//! A hole or a reservation is durable at every data server before the name space learns of it, and that before the reply.
//! With sparse packing an object is a hole wherever the stripes of others lie, so each data server is asked about its own
//! stripes alone.
//!
//! # Failure
//! What fails may be done in part, and asking again does the rest. A data server that is away delays all of it, an expelled one
//! makes an I/O error of it: its part of the file is lost.

use super::call::{DsError, all, call};
use super::proxy::{enter, enter_to_write};
use super::sizes::{object_of, striping_of};
use super::space::note_space;
use crate::Mds;
use crate::cx::{Asker, Cx, Prepared};
use control::{MapArgs, MapOk, PunchArgs, Range, Request, ReserveArgs, Status, Stripes};
use layout::Striping;
use namespace::{FILE_SIZE_MAX, Inode, SizeCommit};
use nfs4::ops::{AllocateRes, DeallocateRes};
use nfs4::{NfsStatus, Verifier};
use server::Nfsd;
use state::IoModes;
use std::collections::BTreeMap;
use std::sync::Arc;
use tokio::task::JoinSet;
use transport::ConnHandle;

/// Rounds of questions of one SEEK. What is not found by then is said to be data, as it may be of any hole.
const SEEK_ROUNDS_MAX: usize = 4096;

/// What SEEK looks for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Content {
    Data,
    Hole,
}

/// What SEEK found.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Sought {
    /// It begins here.
    At(u64),
    /// There is none before the end of the file, which is here.
    End(u64),
}

/// The data servers of a file.
pub(super) struct Spread {
    striping: Striping,
    object: control::ObjectRef,
    ids: Vec<u32>,
    conns: Vec<ConnHandle>,
}

impl Spread {
    /// `None` for a file that never had a place: all of it is a hole.
    pub(super) fn of(nfsd: &Nfsd<Mds>, inode: &Inode) -> Result<Option<Self>, NfsStatus> {
        let data = nfsd.role().data();
        let Some(placement) = inode.placement else {
            return Ok(None);
        };
        let ids = data.group_servers(placement.group);
        let striping = striping_of(inode, ids.len()).ok_or(NfsStatus::ServerFault)?;
        let servers = data.servers.lock();
        if servers.members_of(&ids).len() < ids.len() {
            return Err(NfsStatus::Io);
        }
        let conns: Option<Vec<_>> = ids.iter().map(|ds| servers.live_conn(*ds)).collect();
        Ok(Some(Self {
            striping,
            object: object_of(inode),
            conns: conns.ok_or(NfsStatus::Delay)?,
            ids,
        }))
    }

    /// Asks data servers, by their place in the group, at the same time, as [`all`] waits for them.
    pub(super) async fn ask<R>(
        &self,
        asks: Vec<(usize, R)>,
    ) -> Result<Vec<(usize, R::Ok)>, NfsStatus>
    where
        R: Request + Send + Sync + 'static,
        R::Ok: Send + 'static,
    {
        let file = self.object.file_id;
        let mut tasks = JoinSet::new();
        for (place, args) in asks {
            let conn = self.conns[place].clone();
            let ds = self.ids[place];
            tasks.spawn(async move {
                let answer = call(&conn, &args).await;
                answer
                    .map(|ok| (place, ok))
                    .map_err(|error| failed(ds, file, &error))
            });
        }
        all(tasks).await
    }

    /// Places in the group of data servers that have stripes in a range.
    pub(super) fn touched(&self, range: Range) -> impl Iterator<Item = usize> + '_ {
        let len = range.end.saturating_sub(range.start);
        let indices = (0..self.striping.width()).zip(0..self.ids.len());
        indices
            .filter(move |(index, _)| self.striping.touches(*index, range.start, len))
            .map(|(_, place)| place)
    }

    fn stripes(&self, place: usize) -> Stripes {
        Stripes::of(self.striping, u32::try_from(place).unwrap_or(u32::MAX))
    }
}

fn failed(ds: u32, file: u64, error: &DsError) -> NfsStatus {
    let status = match error {
        DsError::Refused(refusal) => status_of(refusal.status),
        _ => NfsStatus::Delay,
    };
    match status {
        // Ordinary answers: a file system without clones, a file that was removed meanwhile.
        NfsStatus::NotSupp | NfsStatus::Stale => {
            tracing::debug!(ds, file, %error, "range of a file");
        }
        _ => tracing::warn!(ds, file, %error, "range of a file"),
    }
    status
}

/// What a client is told when a data server refuses a call for its file. What may be otherwise with the next try is DELAY: the data
/// server comes back, or its place is taken.
const fn status_of(status: Status) -> NfsStatus {
    match status {
        Status::Removed => NfsStatus::Stale,
        Status::NoSpace => NfsStatus::NoSpc,
        Status::TooLarge => NfsStatus::FBig,
        Status::Unsupported => NfsStatus::NotSupp,
        Status::Io | Status::Invalid => NfsStatus::Io,
        Status::Ok
        | Status::Denied
        | Status::BadToken
        | Status::BadPublicKey
        | Status::UnsupportedVersion
        | Status::WrongCluster
        | Status::UnknownServer
        | Status::StoreSwapped
        | Status::StoreRolledBack
        | Status::Expelled
        | Status::NotReady
        | Status::TryLater
        | Status::NotFound
        | Status::TableFull => NfsStatus::Delay,
    }
}

/// Looks for data or for a hole.
pub(crate) async fn seek(
    nfsd: &Nfsd<Mds>,
    cx: &mut Cx<'_>,
    inode: &Inode,
    offset: u64,
    what: Content,
) -> Result<Sought, NfsStatus> {
    let mut asker = Asker::new(&cx.caller.cred);
    let result = seek_as(nfsd, &mut asker, inode, offset, what).await;
    let observed = asker.observed;
    cx.observe(observed.0);
    result
}

/// As [`seek`], for work that is no part of a COMPOUND. `NxIo` at or behind the end of the file.
pub(super) async fn seek_as(
    nfsd: &Nfsd<Mds>,
    asker: &mut Asker<'_>,
    inode: &Inode,
    offset: u64,
    what: Content,
) -> Result<Sought, NfsStatus> {
    let (_shared, inode) = enter(nfsd, asker, inode).await?;
    let written_unseen = may_be_longer(nfsd, &inode);
    if offset >= inode.size && !written_unseen {
        return Err(NfsStatus::NxIo);
    }
    let Some(spread) = Spread::of(nfsd, &inode)? else {
        return match what {
            _ if offset >= inode.size => Err(NfsStatus::NxIo),
            Content::Data => Ok(Sought::End(inode.size)),
            Content::Hole => Ok(Sought::At(offset)),
        };
    };
    let (found, object_sizes) = look(&spread, offset, what).await?;
    let mut end = inode.size;
    if written_unseen {
        end = end.max(spread.striping.file_size(&object_sizes));
    }
    match found {
        _ if offset >= end => Err(NfsStatus::NxIo),
        Some(at) if at < end => Ok(Sought::At(at)),
        _ => Ok(Sought::End(end)),
    }
}

/// The end of a file, with what is written to data servers under layouts that are out: Linux asks for a range of a file, or a
/// copy of it, before it has said LAYOUTCOMMIT.
pub(crate) async fn end_of(nfsd: &Nfsd<Mds>, inode: &Arc<Inode>) -> Result<u64, NfsStatus> {
    if may_be_longer(nfsd, inode) {
        Ok(super::sizes::measure(nfsd, inode).await?.max(inode.size))
    } else {
        Ok(inode.size)
    }
}

pub(super) fn may_be_longer(nfsd: &Nfsd<Mds>, inode: &Inode) -> bool {
    let state = nfsd.role().state();
    state.layouts.is_held(inode.id.0, IoModes::RW, None)
}

/// The first byte at or behind `offset` that is `what` in its own object, and the sizes of the objects.
async fn look(
    spread: &Spread,
    offset: u64,
    what: Content,
) -> Result<(Option<u64>, Vec<u64>), NfsStatus> {
    let mut sizes = vec![0; spread.ids.len()];
    let mut from: Vec<Option<u64>> = vec![Some(offset); spread.ids.len()];
    let mut best: Option<u64> = None;
    for _ in 0..SEEK_ROUNDS_MAX {
        let open = from.iter().enumerate().filter_map(|(place, at)| {
            let at = at.filter(|at| best.is_none_or(|best| *at < best))?;
            Some((place, at))
        });
        let args = |(place, start): (usize, u64)| MapArgs {
            object: spread.object,
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
    /// It did not look behind this.
    Further(u64),
    Nothing,
}

fn next(spread: &Spread, place: usize, at: u64, what: Content, answer: &MapOk) -> Next {
    let index = u32::try_from(place).unwrap_or(u32::MAX);
    let own = spread.striping.next_own(index, at);
    let first = answer.ranges.0.first();
    let is_whole = answer.through >= FILE_SIZE_MAX;
    match (what, first) {
        (Content::Data, Some(range)) => Next::Found(range.start.max(own)),
        (Content::Data, None) if is_whole => Next::Nothing,
        (Content::Data, None) => Next::Further(answer.through),
        (Content::Hole, _) => {
            let data_end = first.filter(|range| range.start <= own).map(|r| r.end);
            let hole = spread.striping.next_own(index, data_end.unwrap_or(own));
            if is_whole || hole < answer.through {
                Next::Found(hole)
            } else {
                Next::Further(answer.through)
            }
        }
    }
}

/// Makes a hole of a range, durably. The size stays.
pub(crate) async fn deallocate(
    nfsd: &Nfsd<Mds>,
    cx: &mut Cx<'_>,
    inode: &Inode,
    range: Range,
) -> Result<(), NfsStatus> {
    let kept = Prepared::new(cx, &DeallocateRes {}, None);
    let mut asker = Asker::new(&cx.caller.cred);
    let result = punch_keeping(nfsd, &mut asker, &kept, inode, (range, true)).await;
    let observed = asker.observed;
    cx.observe(observed.0);
    result.map(drop)
}

/// Makes a hole of a range. One that is not `durable` is so after a COMMIT; the write verifiers of the data servers tell whether that
/// was the same run of theirs.
pub(super) async fn punch_as(
    nfsd: &Nfsd<Mds>,
    asker: &mut Asker<'_>,
    inode: &Inode,
    range: Range,
    durable: bool,
) -> Result<BTreeMap<u32, Verifier>, NfsStatus> {
    punch_keeping(nfsd, asker, &Prepared::default(), inode, (range, durable)).await
}

async fn punch_keeping(
    nfsd: &Nfsd<Mds>,
    asker: &mut Asker<'_>,
    kept: &Prepared,
    inode: &Inode,
    (range, durable): (Range, bool),
) -> Result<BTreeMap<u32, Verifier>, NfsStatus> {
    let (_shared, inode) = enter_to_write(nfsd, asker, inode).await?;
    let mut seen = BTreeMap::new();
    if let Some(spread) = Spread::of(nfsd, &inode)? {
        let args = PunchArgs {
            object: spread.object,
            range,
            durable,
        };
        let asks = spread.touched(range).map(|place| (place, args)).collect();
        for (place, answer) in spread.ask(asks).await? {
            seen.insert(spread.ids[place], answer.verifier);
        }
    }
    let changed = SizeCommit::default();
    asker.change_as(nfsd.role(), kept, |ns, op| {
        ns.commit_size(op, inode.id, changed)
    })?;
    note_space(nfsd, inode.id);
    Ok(seen)
}

/// Takes storage for a range, durably; the file grows to its end.
pub(crate) async fn allocate(
    nfsd: &Nfsd<Mds>,
    cx: &mut Cx<'_>,
    inode: &Inode,
    range: Range,
) -> Result<(), NfsStatus> {
    let kept = Prepared::new(cx, &AllocateRes {}, None);
    let mut asker = Asker::new(&cx.caller.cred);
    let result = reserve_as(nfsd, &mut asker, &kept, inode, range).await;
    let observed = asker.observed;
    cx.observe(observed.0);
    result
}

async fn reserve_as(
    nfsd: &Nfsd<Mds>,
    asker: &mut Asker<'_>,
    kept: &Prepared,
    inode: &Inode,
    range: Range,
) -> Result<(), NfsStatus> {
    let (_shared, inode) = enter_to_write(nfsd, asker, inode).await?;
    let spread = Spread::of(nfsd, &inode)?.ok_or(NfsStatus::NoSpc)?;
    let mut open: Vec<(usize, u64)> = spread.touched(range).map(|p| (p, range.start)).collect();
    while !open.is_empty() {
        let args = |(place, start): (usize, u64)| ReserveArgs {
            object: spread.object,
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
    asker.change_as(nfsd.role(), kept, |ns, op| {
        ns.commit_size(op, inode.id, grown)
    })?;
    note_space(nfsd, inode.id);
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_file_system_refuses_has_its_status() {
        for (refused, told) in [
            (Status::NoSpace, NfsStatus::NoSpc),
            (Status::TooLarge, NfsStatus::FBig),
            (Status::Io, NfsStatus::Io),
            (Status::Unsupported, NfsStatus::NotSupp),
            (Status::Removed, NfsStatus::Stale),
            (Status::TryLater, NfsStatus::Delay),
            (Status::NotReady, NfsStatus::Delay),
        ] {
            assert_eq!(status_of(refused), told, "{refused:?}");
        }
    }
}
