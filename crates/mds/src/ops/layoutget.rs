//! LAYOUTGET (RFC 8881 §18.43): always the whole file, sparse, return on close.
//!
//! A handle for writing reads as well: whoever opened for writing and may not read gets LAYOUTUNAVAILABLE, and writes through
//! this server. One that only writes would be of no use to the readers that share the client's layout.
//!
//! One handle serves every data server of the file, and one would do (§13.4.2). It is repeated for each all the same: Linux kernels
//! with "pNFS/filelayout: fix coalescing test for single DS" (2024, also in 6.1-stable) take a layout with a single handle for
//! one without stripes, and then send I/O across a stripe's end to the wrong data server.

use crate::Mds;
use crate::check_io;
use crate::cx::{self, Cx};
use nfs4::layout::{
    FileLayout, LAYOUT_NFSV4_1_FILES, LENGTH_TO_EOF, Layout, NFL_IO_ADVISE_THRU_MDS, NflUtil,
};
use nfs4::ops::{LayoutGetArgs, LayoutGetRes, LayoutsGranted};
use nfs4::{FileHandle, IoMode, NfsStatus, OpNum, ReplyWriter};
use server::answer;
use xdr::{List, Opaque};

pub(super) async fn layoutget(
    mds: &Mds,
    cx: &mut Cx<'_>,
    args: LayoutGetArgs,
    reply: &mut ReplyWriter<OpNum>,
) -> NfsStatus {
    match get(mds, cx, &args).await {
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
        Err(status) => server::fail(reply, OpNum::LayoutGet, status),
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
    mds: &Mds,
    cx: &mut Cx<'_>,
    args: &LayoutGetArgs,
) -> Result<(nfs4::Stateid, Vec<u8>), NfsStatus> {
    let mut inode = cx::current_regular(mds, cx)?;
    if fs::grantable(&mds.fs, &cx.actor, &inode).await? {
        inode = cx::current_regular(mds, cx)?;
    }
    if args.layout_type != LAYOUT_NFSV4_1_FILES {
        return Err(NfsStatus::UnknownLayoutType);
    }
    check_range(args)?;
    let mode = match args.iomode {
        IoMode::Read => state::IoMode::Read,
        IoMode::Rw => {
            cx.actor.check_writable()?;
            state::IoMode::ReadWrite
        }
        IoMode::Any => return Err(NfsStatus::BadIoMode),
    };
    let placement = inode.placement.ok_or(NfsStatus::LayoutUnavailable)?;
    let device_id = mds
        .fs
        .cluster()
        .device_id(placement.group)
        .ok_or(NfsStatus::LayoutUnavailable)?;
    // No data server takes IO_ADVISE. What NFSv4.1 knows nothing of must not be in its layouts (RFC 7862 §15.5.6).
    let flags = match cx.minor_version {
        0 | 1 => 0,
        _ => NFL_IO_ADVISE_THRU_MDS,
    };
    let util = NflUtil::new(placement.stripe_unit, flags).ok_or(NfsStatus::LayoutUnavailable)?;
    let width = usize::try_from(mds.fs.cluster().width(placement.group).max(1)).unwrap_or(1);
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
        mds.fs
            .note_too_wide(placement.group, result_bytes, args.maxcount);
        return Err(NfsStatus::TooSmall);
    }
    fs::ensure(&mds.fs, &mut cx.actor)?;
    let request = fs::GrantRequest {
        stateid: cx.resolve(args.stateid)?,
        mode,
        may_read: check_io::may_do(cx, &inode, namespace::READ),
        stamps: match mode {
            state::IoMode::Read => Vec::new(),
            state::IoMode::ReadWrite => fs::stamps(&mds.fs, &inode).await?,
        },
    };
    let (stateid, handle) = fs::grant(&mds.fs, &mut cx.actor, &inode, &request)?;
    if mode == state::IoMode::Read {
        // The client asks in order to read, and this server sees no more of it.
        cx.actor.note_read(&mds.fs, &inode);
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
