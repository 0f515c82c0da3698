//! LISTXATTRS (RFC 8276 §8.4.3). A cookie belongs to its name, so a listing goes on while others come and go.

use super::layout_xattr::{self, COOKIE, NAME};
use crate::Mds;
use crate::cx::{self, Cx};
use namespace::XattrPage;
use nfs4::ops::{ListXattrsArgs, ListXattrsRes};
use nfs4::{NfsStatus, OpNum, ReplyWriter};
use server::answer;
use xdr::{List, Opaque};

/// `LISTXATTRS4resok` without names: cookie, their count, `lxr_eof`.
const RESULT_BYTES: usize = 8 + 4 + 4;
/// Number and status before it.
const HEADER_BYTES: usize = 8;

pub(super) fn listxattrs(
    mds: &Mds,
    cx: &mut Cx<'_>,
    args: ListXattrsArgs,
    reply: &mut ReplyWriter<OpNum>,
) -> NfsStatus {
    let room = cx.room(reply.wire_len()).saturating_sub(HEADER_BYTES);
    match page(mds, cx, args, room) {
        Ok(page) => {
            let names = page.names.iter().map(|(_, name)| Opaque(name.as_slice()));
            let result = ListXattrsRes {
                cookie: page.names.last().map_or(args.cookie, |(cookie, _)| *cookie),
                names: List(names.collect()),
                eof: page.eof,
            };
            answer(reply, Ok(result))
        }
        Err(status) => server::fail(reply, OpNum::ListXattrs, status),
    }
}

fn page(
    mds: &Mds,
    cx: &mut Cx<'_>,
    args: ListXattrsArgs,
    room: usize,
) -> Result<XattrPage, NfsStatus> {
    let inode = cx::current(mds, cx)?;
    let bytes_max = room.min(args.maxcount as usize).checked_sub(RESULT_BYTES);
    let bytes_max = bytes_max.ok_or(NfsStatus::TooSmall)?;
    let mut page = cx.actor.ns(&mds.fs, |ns, op| {
        ns.list_xattrs(op, inode.id, args.cookie, bytes_max)
    })?;
    if args.cookie < COOKIE && layout_xattr::is_set(&inode) {
        page.names.insert(0, (COOKIE, NAME.to_vec()));
        let bytes = |name: &[u8]| 4 + name.len().next_multiple_of(4);
        let mut sum = 0;
        let fit = page.names.iter().take_while(|(_, name)| {
            sum += bytes(name);
            sum <= bytes_max
        });
        let fit = fit.count();
        page.eof &= fit == page.names.len();
        page.names.truncate(fit);
    }
    if page.names.is_empty() && !page.eof {
        return Err(NfsStatus::TooSmall);
    }
    Ok(page)
}
