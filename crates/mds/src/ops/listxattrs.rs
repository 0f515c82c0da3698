//! LISTXATTRS (RFC 8276 §8.4.3). A cookie belongs to its name, so a listing goes on while others come and go.

use crate::Mds;
use crate::cx::{self, Cx, ns};
use namespace::XattrPage;
use nfs4::ops::{ListXattrsArgs, ListXattrsRes};
use nfs4::{NfsStatus, OpNum, ReplyWriter};
use server::{Nfsd, answer};
use xdr::{List, Opaque};

/// `LISTXATTRS4resok` without names: cookie, their count, `lxr_eof`.
const RESULT_BYTES: usize = 8 + 4 + 4;
/// Number and status before it.
const HEADER_BYTES: usize = 8;

pub(super) fn listxattrs(
    nfsd: &Nfsd<Mds>,
    cx: &mut Cx<'_>,
    args: ListXattrsArgs,
    reply: &mut ReplyWriter<OpNum>,
) -> NfsStatus {
    let room = cx.room(reply.wire_len()).saturating_sub(HEADER_BYTES);
    match page(nfsd, cx, args, room) {
        Ok(page) => {
            let names = page.names.iter().map(|(_, name)| Opaque(name.as_slice()));
            let result = ListXattrsRes {
                cookie: page.names.last().map_or(args.cookie, |(cookie, _)| *cookie),
                names: List(names.collect()),
                eof: page.eof,
            };
            answer(reply, Ok(result))
        }
        Err(status) => super::fail(reply, OpNum::ListXattrs, status),
    }
}

fn page(
    nfsd: &Nfsd<Mds>,
    cx: &mut Cx<'_>,
    args: ListXattrsArgs,
    room: usize,
) -> Result<XattrPage, NfsStatus> {
    let mds = nfsd.role();
    let file = cx::current(mds, cx)?.id;
    let bytes_max = room.min(args.maxcount as usize).checked_sub(RESULT_BYTES);
    let bytes_max = bytes_max.ok_or(NfsStatus::TooSmall)?;
    let page = ns(mds, cx, |ns, op| {
        ns.list_xattrs(op, file, args.cookie, bytes_max)
    })?;
    if page.names.is_empty() && !page.eof {
        return Err(NfsStatus::TooSmall);
    }
    Ok(page)
}
