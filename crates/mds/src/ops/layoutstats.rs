//! LAYOUTSTATS and LAYOUTERROR (RFC 7862 §15.6, §15.7): what clients tell of their I/O at data servers. It is logged; a
//! data server that clients cannot reach is found by its own connection to the MDS.

use crate::Mds;
use crate::cx::{self, Cx};
use nfs4::ops::{LayoutErrorArgs, LayoutErrorRes, LayoutStatsArgs, LayoutStatsRes};
use nfs4::{NfsStatus, OpNum, OpReader, ReplyWriter};
use server::{Nfsd, answer};

pub(super) fn perform(
    nfsd: &Nfsd<Mds>,
    cx: &mut Cx<'_>,
    op: OpNum,
    ops: &mut OpReader<'_>,
    reply: &mut ReplyWriter<OpNum>,
) -> NfsStatus {
    if op == OpNum::LayoutError {
        answer(reply, layouterror(nfsd, cx, ops))
    } else {
        answer(reply, layoutstats(nfsd, cx, ops))
    }
}

fn layoutstats(
    nfsd: &Nfsd<Mds>,
    cx: &mut Cx<'_>,
    ops: &mut OpReader<'_>,
) -> Result<LayoutStatsRes, NfsStatus> {
    let args: LayoutStatsArgs<'_> = ops.args().map_err(|_| NfsStatus::BadXdr)?;
    let inode = cx::current_regular(nfsd.role(), cx)?;
    tracing::debug!(
        file = inode.id.0,
        read_bytes = args.read.bytes,
        written_bytes = args.write.bytes,
        "LAYOUTSTATS"
    );
    Ok(LayoutStatsRes {})
}

fn layouterror(
    nfsd: &Nfsd<Mds>,
    cx: &mut Cx<'_>,
    ops: &mut OpReader<'_>,
) -> Result<LayoutErrorRes, NfsStatus> {
    let args: LayoutErrorArgs = ops.args().map_err(|_| NfsStatus::BadXdr)?;
    let inode = cx::current_regular(nfsd.role(), cx)?;
    for error in &args.errors.0 {
        tracing::warn!(
            file = inode.id.0,
            device = ?error.device_id,
            status = error.status,
            op = error.opnum,
            "LAYOUTERROR"
        );
    }
    Ok(LayoutErrorRes {})
}
