//! LAYOUTGET (RFC 8881 §18.43): always the whole file, sparse, return on close.
//!
//! A handle for writing reads as well. A client that opened for writing and may not read gets LAYOUTUNAVAILABLE, and writes
//! through this server. A handle that only writes would be of no use to the readers that share the client's layout.
//!
//! An inline file has no layout (T10). LAYOUTGET for writing first gives the file a place, then grants a layout. LAYOUTGET
//! for reading is answered LAYOUTUNAVAILABLE. One in the compound of an OPEN, as Linux sends it, is answered
//! LAYOUTTRYLATER: the client goes on without, and asks again when it writes more than `mdsthreshold` says.
//!
//! There is a handle for each place of the file's group. A group of earlier versions has one for all its data servers,
//! and RFC 8881 §13.4.2 lets a layout carry one. It is repeated for each: Linux kernels with "pNFS/filelayout: fix coalescing test for single DS" (2024, also in 6.1-stable) take a
//! single handle for "no stripes". They send I/O across a stripe's end to the wrong data server.

use crate::Mds;
use crate::check_io;
use crate::cx::{self, Cx};
use crate::layout_kind::{Body, flex_body, kind_of, kind_of_tree};
use layout::LayoutKind;
use namespace::Inode;
use nfs4::layout::{LENGTH_TO_EOF, Layout};
use nfs4::ops::{LayoutGetArgs, LayoutGetRes, LayoutsGranted};
use nfs4::{IoMode, NfsStatus, OpNum, ReplyWriter, Stateid};
use server::answer;
use state::Io;
use std::sync::Arc;
use xdr::{List, Opaque};

pub(super) async fn layoutget(
    mds: &Mds,
    cx: &mut Cx<'_>,
    args: LayoutGetArgs,
    reply: &mut ReplyWriter<OpNum>,
) -> NfsStatus {
    match get(mds, cx, &args).await {
        Ok((kind, stateid, body)) => {
            cx.current_stateid = Some(stateid);
            let layouts = granted(stateid, (kind, args.iomode), &body);
            answer(reply, Ok(LayoutGetRes::Ok(layouts)))
        }
        Err(NfsStatus::LayoutTryLater) => {
            answer(reply, Ok(LayoutGetRes::TryLater { will_signal: false }))
        }
        Err(status) => server::fail(reply, OpNum::LayoutGet, status),
    }
}

fn granted(
    stateid: nfs4::Stateid,
    (kind, iomode): (LayoutKind, IoMode),
    body: &[u8],
) -> LayoutsGranted<'_> {
    LayoutsGranted {
        return_on_close: true,
        stateid,
        layouts: List(vec![Layout {
            offset: 0,
            length: LENGTH_TO_EOF,
            iomode,
            layout_type: kind.number(),
            body: Opaque(body),
        }]),
    }
}

async fn get(
    mds: &Mds,
    cx: &mut Cx<'_>,
    args: &LayoutGetArgs,
) -> Result<(LayoutKind, nfs4::Stateid, Vec<u8>), NfsStatus> {
    let mut inode = cx::current_regular(mds, cx)?;
    if fs::grantable(&mds.fs, &cx.actor, &inode).await? {
        inode = cx::current_regular(mds, cx)?;
    }
    let kind = kind_of(args.layout_type)?;
    if kind != kind_of_tree(&inode) {
        // Linux knows the directory from before it became the top of a tree. It makes an I/O error of UNKNOWN_LAYOUTTYPE.
        return Err(NfsStatus::LayoutUnavailable);
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
    if inode.is_inline() {
        inode = placed(mds, cx, &inode, (args.stateid, mode)).await?;
    }
    let (stateid, body) = match kind {
        LayoutKind::Files => get_files(mds, cx, args, (&inode, mode)).await?,
        LayoutKind::FlexFiles => get_flex_files(mds, cx, args, (&inode, mode)).await?,
    };
    if mode == state::IoMode::Read {
        // The client asks in order to read, and this server sees no more of it.
        cx.actor.note_read(&mds.fs, &inode);
    }
    Ok((kind, stateid, body))
}

/// A files layout: its stateid and its body.
async fn get_files(
    mds: &Mds,
    cx: &mut Cx<'_>,
    args: &LayoutGetArgs,
    (inode, mode): (&Arc<Inode>, state::IoMode),
) -> Result<(Stateid, Vec<u8>), NfsStatus> {
    let placement = inode.placement.ok_or(NfsStatus::LayoutUnavailable)?;
    let body = Body::new(mds, cx, placement)?;
    // Its size is the same whatever the handle: nothing is granted that cannot be told.
    check_fits(
        mds,
        args,
        placement.group,
        (LayoutKind::Files, &body.blank()),
    )?;
    let request = request(mds, cx, args, (inode, mode)).await?;
    let (stateid, device_id, handles) = fs::grant(&mds.fs, &mut cx.actor, inode, &request)?;
    Ok((stateid, body.encode(device_id, &handles)))
}

/// A flexible files layout: its stateid and its body.
async fn get_flex_files(
    mds: &Mds,
    cx: &mut Cx<'_>,
    args: &LayoutGetArgs,
    (inode, mode): (&Arc<Inode>, state::IoMode),
) -> Result<(Stateid, Vec<u8>), NfsStatus> {
    let group = inode.placement.map_or(0, |placement| placement.group);
    let shape = fs::shape_of(&mds.fs, inode);
    let is_striped = shape.is_some_and(|shape| shape.width > 1);
    if is_striped && !mds.fs.clients().has_striped_flex_files(cx.client()?) {
        return Err(NfsStatus::LayoutUnavailable);
    }
    let objects = fs::foreign_objects(&mds.fs, inode, mode).await?;
    let body = flex_body(&objects, mode == state::IoMode::ReadWrite);
    check_fits(mds, args, group, (LayoutKind::FlexFiles, &body))?;
    let request = request(mds, cx, args, (&objects.inode, mode)).await?;
    let stateid = fs::grant_foreign(&mds.fs, &mut cx.actor, &objects, &request)?;
    Ok((stateid, body))
}

/// Refuses a layout that is longer than the client takes.
fn check_fits(
    mds: &Mds,
    args: &LayoutGetArgs,
    group: u32,
    (kind, body): (LayoutKind, &[u8]),
) -> Result<(), NfsStatus> {
    let blank = granted(Stateid::default(), (kind, args.iomode), body);
    let result_bytes = xdr::encode_to_vec(&blank).len();
    if result_bytes > usize::try_from(args.maxcount).unwrap_or(usize::MAX) {
        mds.fs.note_too_wide(group, result_bytes, args.maxcount);
        return Err(NfsStatus::TooSmall);
    }
    Ok(())
}

/// What the file service is asked for.
async fn request(
    mds: &Mds,
    cx: &mut Cx<'_>,
    args: &LayoutGetArgs,
    (inode, mode): (&Arc<Inode>, state::IoMode),
) -> Result<fs::GrantRequest, NfsStatus> {
    fs::ensure(&mds.fs, &mut cx.actor)?;
    Ok(fs::GrantRequest {
        stateid: cx.resolve(args.stateid)?,
        mode,
        may_read: check_io::may_do(cx, inode, namespace::READ),
        stamps: match mode {
            state::IoMode::Read => Vec::new(),
            state::IoMode::ReadWrite => fs::stamps(&mds.fs, inode).await?,
        },
    })
}

/// An inline file, with the place that it gets if the caller asks in order to write.
async fn placed(
    mds: &Mds,
    cx: &mut Cx<'_>,
    inode: &Inode,
    (stateid, mode): (Stateid, state::IoMode),
) -> Result<Arc<Inode>, NfsStatus> {
    if stateid == Stateid::CURRENT {
        return Err(NfsStatus::LayoutTryLater);
    }
    if mode == state::IoMode::Read {
        return Err(NfsStatus::LayoutUnavailable);
    }
    let stateid = cx.resolve(stateid)?;
    let _excluded = check_io::check_io_on(mds, cx, inode, stateid, Io::Write).await?;
    fs::place(&mds.fs, &mut cx.actor, inode, None).await
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
