//! COPY within this server, and what clients ask of copies that go on: OFFLOAD_STATUS, OFFLOAD_CANCEL (RFC 7862 §15.2, §15.8, §15.9).
//!
//! A large copy is answered at once and goes on, when the client allows that and can be called back. Others end before the
//! answer, which may be of fewer bytes than were asked for. Either way what is told as copied is durable.

use crate::Mds;
use crate::check_io::check_io_on;
use crate::cx::{self, Cx};
use fs::Copy;
use fs::Excluded;
use namespace::{FileType, Inode};
use nfs4::ops::{
    Copied, CopyArgs, CopyRequirements, CopyRes, OffloadCancelArgs, OffloadCancelRes,
    OffloadStatusArgs, OffloadStatusRes, WriteResponse,
};
use nfs4::{ClientId, NfsStatus, StableHow, Stateid, Verifier};
use state::Io;
use std::sync::Arc;
use std::time::Duration;

/// Most bytes of a copy that is done before the answer: some seconds.
const SYNC_BYTES_MAX: u64 = 64 << 20;
/// How long such a copy waits for data servers that are away.
const SYNC_WAIT: Duration = Duration::from_secs(5);

pub(super) async fn copy(
    mds: &Mds,
    cx: &mut Cx<'_>,
    args: &CopyArgs,
) -> Result<CopyRes, NfsStatus> {
    let (mut src, dst, _excluded) = files(mds, cx, args.src_stateid, args.dst_stateid).await?;
    if !args.source_servers.0.is_empty() {
        return Err(NfsStatus::PartnerNotSupp);
    }
    if src.id == dst.id {
        return Err(NfsStatus::Inval);
    }
    if fs::until_ready(&mds.fs, src.id).await? {
        src = cx::saved(mds, cx)?;
    }
    let end = fs::end_of(&mds.fs, &src).await?;
    let left = end.checked_sub(args.src_offset).ok_or(NfsStatus::Inval)?;
    let count = match args.count {
        0 => left,
        count if count > left => return Err(NfsStatus::Inval),
        count => count,
    };
    mds.fs.check_range(&dst, args.dst_offset, count)?;
    cx.actor.note_read(&mds.fs, &src);
    let copy = Copy {
        src,
        dst,
        src_offset: args.src_offset,
        dst_offset: args.dst_offset,
        count,
    };
    let client = cx.client()?;
    let is_large = count > mds.fs.copy_async_above_bytes();
    if !args.synchronous && is_large && can_be_called(mds, client) {
        let fh = cx.current_fh.clone().ok_or(NfsStatus::NoFileHandle)?;
        let started = fs::start_offload(&mds.fs, client, &cx.actor.cred, &fh, copy.clone());
        if let Some(stateid) = started {
            return Ok(answer(Some(stateid), 0, Verifier::default()));
        }
    }
    let copy = Copy {
        count: count.min(SYNC_BYTES_MAX),
        ..copy
    };
    let (actor, keeper) = cx.split();
    let keep = |copied: &fs::CopyDone| {
        let res = answer(None, copied.count, copied.verifier);
        cx::prepare(keeper, &res, None)
    };
    let copied = fs::copy(&mds.fs, actor, &copy, SYNC_WAIT, &keep).await?;
    Ok(answer(None, copied.count, copied.verifier))
}

/// What keeps delegations away from the source and the destination.
pub(super) type BothExcluded = [Option<Excluded>; 2];

/// Both files, which must be regular ones that the caller may read and write.
pub(super) async fn files(
    mds: &Mds,
    cx: &mut Cx<'_>,
    src_stateid: Stateid,
    dst_stateid: Stateid,
) -> Result<(Arc<Inode>, Arc<Inode>, BothExcluded), NfsStatus> {
    let dst = cx::current(mds, cx)?;
    let src = cx::saved(mds, cx)?;
    cx.actor.check_writable()?;
    if dst.kind != FileType::Regular || src.kind != FileType::Regular {
        return Err(NfsStatus::WrongType);
    }
    let src_stateid = if src_stateid == Stateid::CURRENT {
        cx.saved_stateid.ok_or(NfsStatus::BadStateid)?
    } else {
        src_stateid
    };
    let dst_stateid = cx.resolve(dst_stateid)?;
    let excluded = [
        check_io_on(mds, cx, &src, src_stateid, Io::Read).await?,
        check_io_on(mds, cx, &dst, dst_stateid, Io::Write).await?,
    ];
    Ok((src, dst, excluded))
}

/// Whether a client has a session that it can be called back on.
fn can_be_called(mds: &Mds, client: ClientId) -> bool {
    let clients = mds.fs.clients().lock();
    let mut sessions = clients.sessions_of(client).iter();
    sessions.any(|id| {
        let session = clients.session(*id);
        session.is_some_and(|s| s.back_connections().next().is_some())
    })
}

fn answer(callback_id: Option<Stateid>, count: u64, write_verifier: Verifier) -> CopyRes {
    CopyRes::Ok(Copied {
        response: WriteResponse {
            callback_id,
            count,
            committed: StableHow::FileSync,
            write_verifier,
        },
        requirements: CopyRequirements {
            consecutive: true,
            synchronous: callback_id.is_none(),
        },
    })
}

pub(super) fn offload_status(
    mds: &Mds,
    cx: &mut Cx<'_>,
    args: OffloadStatusArgs,
) -> Result<OffloadStatusRes, NfsStatus> {
    let dst = cx::current(mds, cx)?;
    let client = cx.client()?;
    let (count, complete) = fs::offload_status(&mds.fs, client, dst.id, args.stateid)?;
    Ok(OffloadStatusRes { count, complete })
}

pub(super) async fn offload_cancel(
    mds: &Mds,
    cx: &mut Cx<'_>,
    args: OffloadCancelArgs,
) -> Result<OffloadCancelRes, NfsStatus> {
    let dst = cx::current(mds, cx)?;
    let client = cx.client()?;
    fs::offload_cancel(&mds.fs, client, dst.id, args.stateid).await?;
    Ok(OffloadCancelRes {})
}
