//! COPY within this server, and what clients ask of copies that go on: OFFLOAD_STATUS, OFFLOAD_CANCEL (RFC 7862 §15.2, §15.8, §15.9).
//!
//! A large copy is answered at once and goes on, when the client allows that and can be called back. Others end before the
//! answer, which may be of fewer bytes than were asked for. Either way what is told as copied is durable.

use super::read::check_io_on;
use crate::cx::{self, Asker, Cx, Prepared};
use crate::data::{self, Copy};
use crate::delegations::Excluded;
use crate::{Mds, atimes};
use namespace::{FileType, Inode};
use nfs4::ops::{
    Copied, CopyArgs, CopyRequirements, CopyRes, OffloadCancelArgs, OffloadCancelRes,
    OffloadStatusArgs, OffloadStatusRes, WriteResponse,
};
use nfs4::{ClientId, NfsStatus, StableHow, Stateid, Verifier};
use server::Nfsd;
use state::Io;
use std::sync::Arc;
use std::time::Duration;

/// Most bytes of a copy that is done before the answer: some seconds.
const SYNC_BYTES_MAX: u64 = 64 << 20;
/// How long such a copy waits for data servers that are away.
const SYNC_WAIT: Duration = Duration::from_secs(5);

pub(super) async fn copy(
    nfsd: &Nfsd<Mds>,
    cx: &mut Cx<'_>,
    args: &CopyArgs,
) -> Result<CopyRes, NfsStatus> {
    let (mut src, dst, _excluded) = files(nfsd, cx, args.src_stateid, args.dst_stateid).await?;
    if !args.source_servers.0.is_empty() {
        return Err(NfsStatus::PartnerNotSupp);
    }
    if src.id == dst.id {
        return Err(NfsStatus::Inval);
    }
    if data::until_ready(nfsd, src.id).await? {
        src = cx::saved(nfsd.role(), cx)?;
    }
    let end = data::end_of(nfsd, &src).await?;
    let left = end.checked_sub(args.src_offset).ok_or(NfsStatus::Inval)?;
    let count = match args.count {
        0 => left,
        count if count > left => return Err(NfsStatus::Inval),
        count => count,
    };
    nfsd.role().data().check_range(args.dst_offset, count)?;
    atimes::note_read(nfsd.role(), &cx.caller, &src);
    let copy = Copy {
        src,
        dst,
        src_offset: args.src_offset,
        dst_offset: args.dst_offset,
        count,
    };
    // Copies go on in tasks, which need the service as their own.
    let me = nfsd.role().data().service().ok_or(NfsStatus::Delay)?;
    let client = cx.client()?;
    let is_large = count > nfsd.role().data().copy_async_above_bytes();
    if !args.synchronous && is_large && can_be_called(nfsd, client) {
        let fh = cx.current_fh.clone().ok_or(NfsStatus::NoFileHandle)?;
        let started = data::start_offload(&me, client, &cx.caller.cred, &fh, copy.clone());
        if let Some(stateid) = started {
            return Ok(answer(Some(stateid), 0, Verifier::default()));
        }
    }
    let copy = Copy {
        count: count.min(SYNC_BYTES_MAX),
        ..copy
    };
    let mut asker = Asker::new(&cx.caller.cred);
    let kept = |copied: &data::Copied| {
        let res = answer(None, copied.count, copied.verifier);
        Prepared::new(cx, &res, None)
    };
    let result = data::copy(&me, &mut asker, &copy, SYNC_WAIT, &kept).await;
    let observed = asker.observed;
    cx.observe(observed.0);
    let copied = result?;
    Ok(answer(None, copied.count, copied.verifier))
}

/// What keeps delegations away from the source and the destination.
pub(super) type BothExcluded<'n> = [Option<Excluded<'n>>; 2];

/// Both files, which must be regular ones that the caller may read and write.
pub(super) async fn files<'n>(
    nfsd: &'n Nfsd<Mds>,
    cx: &mut Cx<'_>,
    src_stateid: Stateid,
    dst_stateid: Stateid,
) -> Result<(Arc<Inode>, Arc<Inode>, BothExcluded<'n>), NfsStatus> {
    let dst = cx::current(nfsd.role(), cx)?;
    let src = cx::saved(nfsd.role(), cx)?;
    cx::writable(cx)?;
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
        check_io_on(nfsd, cx, &src, src_stateid, Io::Read).await?,
        check_io_on(nfsd, cx, &dst, dst_stateid, Io::Write).await?,
    ];
    Ok((src, dst, excluded))
}

/// Whether a client has a session that it can be called back on.
fn can_be_called(nfsd: &Nfsd<Mds>, client: ClientId) -> bool {
    let clients = nfsd.clients();
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
    nfsd: &Nfsd<Mds>,
    cx: &mut Cx<'_>,
    args: OffloadStatusArgs,
) -> Result<OffloadStatusRes, NfsStatus> {
    let dst = cx::current(nfsd.role(), cx)?;
    let client = cx.client()?;
    let (count, complete) = data::offload_status(nfsd, client, dst.id, args.stateid)?;
    Ok(OffloadStatusRes { count, complete })
}

pub(super) async fn offload_cancel(
    nfsd: &Nfsd<Mds>,
    cx: &mut Cx<'_>,
    args: OffloadCancelArgs,
) -> Result<OffloadCancelRes, NfsStatus> {
    let dst = cx::current(nfsd.role(), cx)?;
    let client = cx.client()?;
    data::offload_cancel(nfsd, client, dst.id, args.stateid).await?;
    Ok(OffloadCancelRes {})
}
