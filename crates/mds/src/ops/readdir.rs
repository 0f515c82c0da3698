//! READDIR (RFC 8881 §18.23): entries go straight from the name space into the reply.

use crate::cx::{self, Cx};
use crate::{Mds, attrs};
use fs::Fresh;
use namespace::{DirEntry, FileId, FileType, READDIR_ENTRIES_MAX, ReadDirRequest};
use nfs4::attr::{Attrs, FILEID, MOUNTED_ON_FILEID, RDATTR_ERROR, TYPE, WRITE_ONLY, encode_fattr};
use nfs4::ops::{ReadDirArgs, ReadDirWriter};
use nfs4::{Bitmap, NfsStatus, OpNum, ReplyWriter, Verifier};
use server::fail;
use std::collections::BTreeMap;
use std::sync::Arc;
use xdr::Encoder;

/// Smallest bytes of one entry in a reply: flag, cookie, name, bitmap, values.
const ENTRY_BYTES_MIN: usize = 28;
/// Bytes kept free after READDIR for what follows it in the COMPOUND.
const TAIL_BYTES: usize = 256;
/// Holders that one READDIR asks about their files; its page ends before the next one.
const ASKED_MAX: usize = 64;
/// What a directory entry itself says. Linux asks for no more when it only lists names, and then no file is looked at. As in POSIX this does not need
/// the right to search the directory.
const OF_ENTRY: Bitmap = Bitmap::of(&[TYPE, RDATTR_ERROR, FILEID, MOUNTED_ON_FILEID]);
/// Cookies are valid as long as their directory: the verifier never changes.
const COOKIE_VERIFIER: Verifier = Verifier { bytes: [0; 8] };

pub(super) async fn readdir(
    mds: &Mds,
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
    match page(mds, cx, args, bytes_max, reply).await {
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
    mds: &Mds,
    cx: &mut Cx<'_>,
    args: &ReadDirArgs,
    bytes_max: u32,
    reply: &mut ReplyWriter<OpNum>,
) -> Result<(), NfsStatus> {
    let dir = cx::current_dir(mds, cx)?;
    let mask = args
        .attr_request
        .intersection(&attrs::supported(cx.minor_version));
    let is_of_entry = mask.difference(&OF_ENTRY).is_empty();
    let wanted = ReadDirRequest {
        cookie: args.cookie,
        entries_max: (bytes_max as usize / ENTRY_BYTES_MIN).clamp(1, READDIR_ENTRIES_MAX),
        name_bytes_max: bytes_max as usize,
        with_inodes: !is_of_entry,
    };
    let page = cx
        .actor
        .ns(&mds.fs, |ns, op| ns.readdir(op, dir.id, wanted))?;
    let (entries, fresh) = ask_holders(mds, cx, &page.entries, &mask).await;
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
    let mut fattr = is_of_entry.then(|| EntryFattr::new(&mask));
    for entry in entries {
        let pushed = if let Some(fattr) = &mut fattr {
            Ok(writer.push_encoded(entry.cookie, &entry.name, fattr.of(entry)))
        } else {
            values(mds, cx, entry, &mask, fresh.get(&entry.file))
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
    cx.actor.note_read(&mds.fs, &dir);
    Ok(())
}

/// Asks those who hold entries for writing about them. Returns the entries that may be shown, and what was answered.
async fn ask_holders<'e>(
    mds: &Mds,
    cx: &mut Cx<'_>,
    entries: &'e [DirEntry],
    mask: &Bitmap,
) -> (&'e [DirEntry], BTreeMap<FileId, Result<Fresh, NfsStatus>>) {
    let client = cx.actor.client_id();
    let mut held = Vec::new();
    let mut shown = entries;
    for (at, entry) in entries.iter().enumerate() {
        let Some(inode) = &entry.inode else { continue };
        if fs::better_known(&mds.fs, entry.file, client, mask).is_none() {
            continue;
        }
        if held.len() == ASKED_MAX {
            shown = &entries[..at];
            break;
        }
        held.push(Arc::clone(inode));
    }
    let fresh = fs::fresh_entries(&mds.fs, &mut cx.actor, &held, mask).await;
    (shown, fresh)
}

/// Attributes of one entry. One that cannot be told now is `rdattr_error` when the client asked for that; else the page ends
/// before it.
fn values(
    mds: &Mds,
    cx: &Cx<'_>,
    entry: &DirEntry,
    mask: &Bitmap,
    fresh: Option<&Result<Fresh, NfsStatus>>,
) -> Result<(Bitmap, Attrs), NfsStatus> {
    let problem = match (&entry.inode, fs::ready(&mds.fs, entry.file)) {
        (Some(_), Ok(())) if fresh.is_some_and(Result::is_err) => NfsStatus::Delay,
        (Some(inode), Ok(())) => match attrs::may_see(&cx.actor.cred, inode, mask) {
            Ok(()) => {
                let values = match fresh {
                    Some(Ok(fresh)) => attrs::of_fresh(mds, fresh, mask, cx.minor_version),
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
    let values = of_entry(entry.file, entry.kind, problem);
    Ok((mask.intersection(&OF_ENTRY), values))
}

/// The values of [`OF_ENTRY`].
fn of_entry(file: FileId, kind: FileType, status: NfsStatus) -> Attrs {
    Attrs {
        rdattr_error: Some(status),
        fileid: Some(file.0),
        mounted_on_fileid: Some(file.0),
        file_type: Some(attrs::type_of(kind)),
        ..Attrs::default()
    }
}

/// The `fattr4` of entries of which only [`OF_ENTRY`] is told: encoded once for a page, since that costs more than all else of an
/// entry. For each entry its type and number are put into their places.
struct EntryFattr {
    bytes: Vec<u8>,
    type_at: Option<usize>,
    ids_at: [Option<usize>; 2],
}

impl EntryFattr {
    fn new(mask: &Bitmap) -> Self {
        let mask = mask.intersection(&OF_ENTRY);
        let mut e = Encoder::new();
        let any = of_entry(FileId(0), FileType::Regular, NfsStatus::Ok);
        encode_fattr(&mut e, &mask, &any);
        // From the last value to the first.
        let mut end = e.len();
        let mut place = |num: u32, bytes: usize| {
            let is_there = mask.contains(num);
            end -= if is_there { bytes } else { 0 };
            is_there.then_some(end)
        };
        let ids_at = [place(MOUNTED_ON_FILEID, 8), place(FILEID, 8)];
        let _status_at = place(RDATTR_ERROR, 4);
        Self {
            type_at: place(TYPE, 4),
            ids_at,
            bytes: e.into_bytes(),
        }
    }

    fn of(&mut self, entry: &DirEntry) -> &[u8] {
        if let Some(at) = self.type_at {
            let kind = attrs::type_of(entry.kind) as u32;
            self.bytes[at..at + 4].copy_from_slice(&kind.to_be_bytes());
        }
        for at in self.ids_at.into_iter().flatten() {
            self.bytes[at..at + 8].copy_from_slice(&entry.file.0.to_be_bytes());
        }
        &self.bytes
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_put_together_for_an_entry_is_its_fattr() {
        let asked = [TYPE, RDATTR_ERROR, FILEID, MOUNTED_ON_FILEID];
        for subset in 0..16 {
            let mut mask = Bitmap::EMPTY;
            for (at, num) in asked.iter().enumerate() {
                if subset & (1 << at) != 0 {
                    mask.insert(*num);
                }
            }
            let mut fattr = EntryFattr::new(&mask);
            for (number, kind) in [(7, FileType::Directory), (u64::MAX, FileType::Regular)] {
                let entry = DirEntry {
                    file: FileId(number),
                    kind,
                    name: Box::default(),
                    cookie: 3,
                    inode: None,
                };
                let mut e = Encoder::new();
                let values = of_entry(entry.file, kind, NfsStatus::Ok);
                encode_fattr(&mut e, &mask, &values);
                assert_eq!(fattr.of(&entry), e.as_bytes(), "{mask:?}");
            }
        }
    }
}
