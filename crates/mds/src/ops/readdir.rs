//! READDIR (RFC 8881 §18.23): entries go straight from the name space into the reply.

use super::fail;
use crate::cx::{self, Cx, ns};
use crate::delegations::{self, Fresh};
use crate::{Mds, attrs, data};
use namespace::{DirEntry, FileId, READDIR_ENTRIES_MAX, ReadDir};
use nfs4::attr::{Attrs, FILEID, MOUNTED_ON_FILEID, RDATTR_ERROR, TYPE, WRITE_ONLY};
use nfs4::ops::{ReadDirArgs, ReadDirWriter};
use nfs4::{Bitmap, NfsStatus, OpNum, ReplyWriter, Verifier};
use server::Nfsd;
use std::collections::BTreeMap;
use std::sync::Arc;

/// Smallest bytes of one entry in a reply: flag, cookie, name, bitmap, values.
const ENTRY_BYTES_MIN: usize = 28;
/// Bytes kept free behind READDIR for what follows it in the COMPOUND.
const TAIL_BYTES: usize = 256;
/// Holders that one READDIR asks about their files; its page ends before the next one.
const ASKED_MAX: usize = 64;
/// What a directory entry itself says. Linux asks for no more when it only lists names, and then no file is looked at; as in POSIX this does not need
/// the right to search the directory.
const OF_ENTRY: Bitmap = Bitmap::of(&[TYPE, RDATTR_ERROR, FILEID, MOUNTED_ON_FILEID]);
/// Cookies are valid as long as their directory: the verifier never changes.
const COOKIE_VERIFIER: Verifier = Verifier { bytes: [0; 8] };

pub(super) async fn readdir(
    nfsd: &Nfsd<Mds>,
    cx: &mut Cx<'_>,
    args: &ReadDirArgs,
    reply: &mut ReplyWriter<OpNum>,
) -> NfsStatus {
    match check(cx, args) {
        Ok(()) => {}
        Err(status) => return fail(reply, OpNum::ReadDir, status),
    }
    let room = cx.room(reply.wire_len()).saturating_sub(TAIL_BYTES);
    let bytes_max = args.maxcount.min(u32::try_from(room).unwrap_or(u32::MAX));
    match page(nfsd, cx, args, bytes_max, reply).await {
        Ok(()) => NfsStatus::Ok,
        Err(status) => fail(reply, OpNum::ReadDir, status),
    }
}

fn check(cx: &Cx<'_>, args: &ReadDirArgs) -> Result<(), NfsStatus> {
    cx.fh()?;
    if !args.attr_request.intersection(&WRITE_ONLY).is_empty() {
        return Err(NfsStatus::Inval);
    }
    if matches!(args.cookie, 1 | 2) {
        return Err(NfsStatus::BadCookie);
    }
    if args.cookie != 0 && args.cookie_verifier != COOKIE_VERIFIER {
        return Err(NfsStatus::NotSame);
    }
    Ok(())
}

async fn page(
    nfsd: &Nfsd<Mds>,
    cx: &mut Cx<'_>,
    args: &ReadDirArgs,
    bytes_max: u32,
    reply: &mut ReplyWriter<OpNum>,
) -> Result<(), NfsStatus> {
    let mds = nfsd.role();
    let dir = cx::current_dir(mds, cx)?.id;
    let mask = args
        .attr_request
        .intersection(&attrs::supported(cx.minor_version));
    let wanted = ReadDir {
        cookie: args.cookie,
        entries_max: (bytes_max as usize / ENTRY_BYTES_MIN).clamp(1, READDIR_ENTRIES_MAX),
        name_bytes_max: bytes_max as usize,
        with_inodes: !mask.difference(&OF_ENTRY).is_empty(),
    };
    let page = ns(mds, cx, |ns, op| ns.readdir(op, dir, wanted))?;
    let (entries, fresh) = ask_holders(nfsd, cx, &page.entries, &mask).await;
    for inode in entries.iter().filter_map(|e| e.inode.as_deref()) {
        attrs::learn_names(mds, inode, &mask).await;
    }
    let before = reply.checkpoint();
    let mark = reply.begin_op(OpNum::ReadDir);
    let writer = ReadDirWriter::new(reply.encoder(), COOKIE_VERIFIER, bytes_max, args.dircount);
    let Some(mut writer) = writer else {
        reply.rewind(before);
        return Err(NfsStatus::TooSmall);
    };
    let mut complete = entries.len() == page.entries.len();
    let mut failure = None;
    let is_of_entry = mask.difference(&OF_ENTRY).is_empty();
    let mut told = Attrs::default();
    for entry in entries {
        let pushed = if is_of_entry {
            tell(&mut told, entry, NfsStatus::Ok);
            Ok(writer.push(entry.cookie, &entry.name, &mask, &told))
        } else {
            values(nfsd, cx, entry, &mask, fresh.get(&entry.file))
                .map(|(mask, values)| writer.push(entry.cookie, &entry.name, &mask, &values))
        };
        match pushed {
            Ok(true) => {}
            Ok(false) => {
                complete = false;
                break;
            }
            Err(status) => {
                failure = Some(status);
                complete = false;
                break;
            }
        }
    }
    let entries_count = writer.entries_count();
    if entries_count == 0 && !(page.entries.is_empty() && page.eof) {
        reply.rewind(before);
        return Err(failure.unwrap_or(NfsStatus::TooSmall));
    }
    writer.finish(complete && page.eof);
    reply.end_op(mark, NfsStatus::Ok);
    Ok(())
}

/// Asks those who hold entries for writing about them. Returns the entries that may be shown, and what was answered.
async fn ask_holders<'e>(
    nfsd: &Nfsd<Mds>,
    cx: &mut Cx<'_>,
    entries: &'e [DirEntry],
    mask: &Bitmap,
) -> (&'e [DirEntry], BTreeMap<FileId, Result<Fresh, NfsStatus>>) {
    let mds = nfsd.role();
    let client = cx.session.as_ref().map(|s| s.client);
    let mut held = Vec::new();
    let mut shown = entries;
    for (at, entry) in entries.iter().enumerate() {
        let Some(inode) = &entry.inode else { continue };
        if delegations::better_known(mds, entry.file, client, mask).is_none() {
            continue;
        }
        if held.len() == ASKED_MAX {
            shown = &entries[..at];
            break;
        }
        held.push(Arc::clone(inode));
    }
    let fresh = delegations::fresh_entries(nfsd, cx, &held, mask).await;
    (shown, fresh)
}

/// Attributes of one entry. One that cannot be told now is `rdattr_error` when the client asked for that; else the page ends
/// before it.
fn values(
    nfsd: &Nfsd<Mds>,
    cx: &Cx<'_>,
    entry: &DirEntry,
    mask: &Bitmap,
    fresh: Option<&Result<Fresh, NfsStatus>>,
) -> Result<(Bitmap, Attrs), NfsStatus> {
    let problem = match (&entry.inode, data::ready(nfsd, entry.file)) {
        (Some(_), Ok(())) if fresh.is_some_and(Result::is_err) => NfsStatus::Delay,
        (Some(inode), Ok(())) => match attrs::may_see(&cx.caller.cred, inode, mask) {
            Ok(()) => {
                let mds = nfsd.role();
                let values = match fresh {
                    Some(Ok(fresh)) => fresh.attrs(mds, mask, cx.minor_version),
                    _ => attrs::of(mds, inode, mask, cx.minor_version),
                };
                return Ok((*mask, values));
            }
            Err(status) => status,
        },
        (None, Ok(())) => NfsStatus::Access,
        (_, Err(status)) => status,
    };
    if !mask.contains(RDATTR_ERROR) {
        return Err(problem);
    }
    let mut values = Attrs::default();
    tell(&mut values, entry, problem);
    Ok((mask.intersection(&OF_ENTRY), values))
}

/// Sets the values of [`OF_ENTRY`]. The others stay: one set of values serves all entries of a page, since making one costs more.
fn tell(values: &mut Attrs, entry: &DirEntry, status: NfsStatus) {
    values.rdattr_error = Some(status);
    values.fileid = Some(entry.file.0);
    values.mounted_on_fileid = Some(entry.file.0);
    values.file_type = Some(attrs::type_of(entry.kind));
}
