//! LAYOUTSTATS and LAYOUTERROR (RFC 7862 §15.6, §15.7): what clients tell of their I/O at data servers. It is logged. An own data
//! server that clients cannot reach is found by its own connection to the MDS. A write that failed at a foreign server costs the
//! file that mirror. What clients moved to and from foreign servers is shown for each of them.

use crate::Mds;
use crate::cx::{self, Cx};
use crate::layout_kind::fault;
use foreign::ClientBytes;
use nfs4::ops::{LayoutErrorArgs, LayoutErrorRes, LayoutStatsArgs, LayoutStatsRes};
use nfs4::{NfsStatus, OpNum, OpReader, ReplyWriter};
use server::answer;

pub(super) fn perform(
    mds: &Mds,
    cx: &mut Cx<'_>,
    op: OpNum,
    ops: &mut OpReader<'_>,
    reply: &mut ReplyWriter<OpNum>,
) -> NfsStatus {
    if op == OpNum::LayoutError {
        answer(reply, layouterror(mds, cx, ops))
    } else {
        answer(reply, layoutstats(mds, cx, ops))
    }
}

fn layoutstats(
    mds: &Mds,
    cx: &mut Cx<'_>,
    ops: &mut OpReader<'_>,
) -> Result<LayoutStatsRes, NfsStatus> {
    let args: LayoutStatsArgs<'_> = ops.args().map_err(|_| NfsStatus::BadXdr)?;
    let inode = cx::current_regular(mds, cx)?;
    tracing::debug!(
        file = inode.id.0,
        read_bytes = args.read.bytes,
        written_bytes = args.write.bytes,
        "LAYOUTSTATS"
    );
    // No error may come of the numbers (§15.7.3).
    let told = ClientBytes {
        read: args.read.bytes,
        written: args.write.bytes,
    };
    if inode.is_foreign() {
        let layout = cx.resolve(args.stateid)?.other;
        (mds.fs.foreign()).note_client_bytes(layout, args.device_id, told);
    }
    Ok(LayoutStatsRes {})
}

fn layouterror(
    mds: &Mds,
    cx: &mut Cx<'_>,
    ops: &mut OpReader<'_>,
) -> Result<LayoutErrorRes, NfsStatus> {
    let args: LayoutErrorArgs = ops.args().map_err(|_| NfsStatus::BadXdr)?;
    let inode = cx::current_regular(mds, cx)?;
    // One line for each request: a client must not fill the log.
    if let Some(first) = args.errors.0.first() {
        tracing::warn!(
            file = inode.id.0,
            device = ?first.device_id,
            status = first.status,
            op = first.opnum,
            errors = args.errors.0.len(),
            "LAYOUTERROR"
        );
    }
    let range = (args.offset, args.length);
    let faults: Vec<_> = args.errors.0.iter().map(|e| fault(e, range)).collect();
    let stateid = cx.resolve(args.stateid)?;
    fs::note_device_faults(&mds.fs, &cx.actor, &inode, stateid, &faults)?;
    Ok(LayoutErrorRes {})
}
