//! LAYOUTGET (RFC 8881 §18.43): always the whole file, sparse, return on close.
//!
//! A handle for writing reads as well: whoever opened for writing and may not read gets LAYOUTUNAVAILABLE, and writes through
//! this server. One that only writes would be of no use to the readers that share the client's layout.
//!
//! One handle serves every data server of the file, and one would do (§13.4.2). It is repeated for each all the same: Linux kernels
//! with "pNFS/filelayout: fix coalescing test for single DS" (2024, also in 6.1-stable) take a layout with a single handle for
//! one without stripes, and then send I/O across a stripe's end to the wrong data server.

use crate::cx::{self, Cx};
use crate::{Mds, atimes, data};
use nfs4::layout::{
    FileLayout, LAYOUT_NFSV4_1_FILES, LENGTH_TO_EOF, Layout, NFL_IO_ADVISE_THRU_MDS, NflUtil,
};
use nfs4::ops::{LayoutGetArgs, LayoutGetRes, LayoutsGranted};
use nfs4::{FileHandle, IoMode, NfsStatus, OpNum, ReplyWriter};
use server::{Nfsd, answer};
use xdr::{List, Opaque};

pub(super) async fn layoutget(
    nfsd: &Nfsd<Mds>,
    cx: &mut Cx<'_>,
    args: LayoutGetArgs,
    reply: &mut ReplyWriter<OpNum>,
) -> NfsStatus {
    match get(nfsd, cx, &args).await {
        Ok((stateid, body)) => {
            cx.current_stateid = Some(stateid);
            answer(
                reply,
                Ok(LayoutGetRes::Ok(granted(stateid, args.iomode, &body))),
            )
        }
        Err(NfsStatus::LayoutTryLater) => {
            answer(reply, Ok(LayoutGetRes::TryLater { will_signal: false }))
        }
        Err(status) => super::fail(reply, OpNum::LayoutGet, status),
    }
}

fn granted(stateid: nfs4::Stateid, iomode: IoMode, body: &[u8]) -> LayoutsGranted<'_> {
    LayoutsGranted {
        return_on_close: true,
        stateid,
        layouts: List(vec![Layout {
            offset: 0,
            length: LENGTH_TO_EOF,
            iomode,
            layout_type: LAYOUT_NFSV4_1_FILES,
            body: Opaque(body),
        }]),
    }
}

async fn get(
    nfsd: &Nfsd<Mds>,
    cx: &mut Cx<'_>,
    args: &LayoutGetArgs,
) -> Result<(nfs4::Stateid, Vec<u8>), NfsStatus> {
    let mds = nfsd.role();
    let inode = data::grantable(nfsd, cx).await?;
    if args.layout_type != LAYOUT_NFSV4_1_FILES {
        return Err(NfsStatus::UnknownLayoutType);
    }
    check_range(args)?;
    let mode = match args.iomode {
        IoMode::Read => state::IoMode::Read,
        IoMode::Rw => {
            cx::writable(cx)?;
            state::IoMode::ReadWrite
        }
        IoMode::Any => return Err(NfsStatus::BadIoMode),
    };
    let placement = inode.placement.ok_or(NfsStatus::LayoutUnavailable)?;
    let device_id = mds
        .data()
        .device_id(placement.group)
        .ok_or(NfsStatus::LayoutUnavailable)?;
    // No data server takes IO_ADVISE. What NFSv4.1 knows nothing of must not be in its layouts (RFC 7862 §15.5.6).
    let flags = match cx.minor_version {
        0 | 1 => 0,
        _ => NFL_IO_ADVISE_THRU_MDS,
    };
    let util = NflUtil::new(placement.stripe_unit, flags).ok_or(NfsStatus::LayoutUnavailable)?;
    let width = usize::try_from(mds.data().width(placement.group).max(1)).unwrap_or(1);
    let body = |handle: &[u8]| {
        xdr::encode_to_vec(&FileLayout {
            device_id,
            util,
            first_stripe_index: placement.first_index,
            pattern_offset: 0,
            file_handles: List(vec![FileHandle::from(handle); width]),
        })
    };
    // Its size is the same whatever the handle: nothing is granted that cannot be told.
    let blank = body(&[0; layout::DS_HANDLE_BYTES]);
    let result_bytes =
        xdr::encode_to_vec(&granted(nfs4::Stateid::default(), args.iomode, &blank)).len();
    if result_bytes > usize::try_from(args.maxcount).unwrap_or(usize::MAX) {
        let data = mds.data();
        data.note_too_wide(placement.group, result_bytes, args.maxcount);
        return Err(NfsStatus::TooSmall);
    }
    super::client_record::ensure(nfsd, cx)?;
    let request = data::GrantRequest {
        stateid: cx.resolve(args.stateid)?,
        mode,
        may_read: super::read::may_do(cx, &inode, namespace::READ),
        stamps: match mode {
            state::IoMode::Read => Vec::new(),
            state::IoMode::ReadWrite => data::stamps(nfsd, &inode).await?,
        },
    };
    let (stateid, handle) = data::grant(nfsd, cx, &inode, &request)?;
    if mode == state::IoMode::Read {
        // The client asks in order to read, and this server sees no more of it.
        atimes::note_read(mds, &cx.caller, &inode);
    }
    Ok((stateid, body(&handle)))
}

/// Ranges that make no sense (RFC 8881 §18.43.3). Any other is answered with the whole file.
fn check_range(args: &LayoutGetArgs) -> Result<(), NfsStatus> {
    let overflows = |len: u64| len != LENGTH_TO_EOF && args.offset.checked_add(len).is_none();
    let impossible = args.length == 0 || args.minlength > args.length;
    if impossible || overflows(args.length) || overflows(args.minlength) {
        return Err(NfsStatus::Inval);
    }
    Ok(())
}
