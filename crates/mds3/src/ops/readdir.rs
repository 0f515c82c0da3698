//! READDIR and READDIRPLUS (RFC 1813 §3.3.16, §3.3.17). Version 3 lists `.` and `..` as well.

use crate::attrs::attrs_of;
use crate::cx::Cx;
use crate::results::failed;
use fs::{better_known, ready};
use namespace::{DirEntry, DirPage, Inode, READDIR_ENTRIES_MAX, ReadDirRequest};
use nfs3::procs::{
    DirListPlusWriter, DirListWriter, Entry3, EntryPlus3, ReadDirArgs, ReadDirOk, ReadDirPlusArgs,
};
use nfs3::{CookieVerf, Handle, Nfs3Status, PostOpAttr};
use nfs4::attr::{SIZE, TIME_MODIFY};
use nfs4::{Bitmap, FileHandle, NfsStatus};
use std::sync::Arc;
use xdr::{Encode, Encoder, Opaque};

/// Cookies of `.` and `..`; those of others are above.
const DOT: u64 = 1;
const DOT_DOT: u64 = 2;
/// Cookies are valid as long as their directory: the verifier never changes.
const COOKIE_VERIFIER: CookieVerf = [0; 8];
/// Most bytes of one reply.
const REPLY_BYTES_MAX: u32 = 1 << 20;
/// Smallest bytes of an entry.
const ENTRY_BYTES_MIN: usize = 28;
/// What a holder for writing knows better.
const HOLDERS: Bitmap = Bitmap::of(&[SIZE, TIME_MODIFY]);

/// A page of a directory.
struct Page {
    dir: Arc<Inode>,
    /// `.` and `..`, as far as they are on the page.
    dots: Vec<(u64, &'static [u8], Arc<Inode>)>,
    entries: Vec<DirEntry>,
    eof: bool,
}

pub(super) async fn readdir(cx: &mut Cx<'_>, args: ReadDirArgs<'_>, e: &mut Encoder) {
    let bytes_max = args.count.min(REPLY_BYTES_MAX);
    let page = page(cx, args.dir, (args.cookie, bytes_max), false);
    let dir_attributes = cx.attrs_of_handle(args.dir).await;
    let page = match page {
        Ok(page) => page,
        Err(status) => return failed::<ReadDirOk<'_>, _>(status, dir_attributes).encode(e),
    };
    let mut list = Encoder::new();
    let writer = DirListWriter::new(&mut list, &dir_attributes, COOKIE_VERIFIER, bytes_max);
    let is_told = writer.is_some_and(|writer| write_names(writer, &page));
    finish(cx, &page, is_told.then_some(list), dir_attributes, e);
}

pub(super) async fn readdirplus(cx: &mut Cx<'_>, args: ReadDirPlusArgs<'_>, e: &mut Encoder) {
    let bytes_max = args.maxcount.min(REPLY_BYTES_MAX);
    let page = page(cx, args.dir, (args.cookie, bytes_max), true);
    let dir_attributes = cx.attrs_of_handle(args.dir).await;
    let page = match page {
        Ok(page) => page,
        Err(status) => return failed::<ReadDirOk<'_>, _>(status, dir_attributes).encode(e),
    };
    let mut list = Encoder::new();
    let counts = (args.dircount, bytes_max);
    let writer = DirListPlusWriter::new(
        &mut list,
        &dir_attributes,
        COOKIE_VERIFIER,
        counts.0,
        counts.1,
    );
    let is_told = writer.is_some_and(|writer| write_all(cx, writer, &page));
    finish(cx, &page, is_told.then_some(list), dir_attributes, e);
}

/// Reads a page.
fn page(
    cx: &mut Cx<'_>,
    handle: Handle<'_>,
    (cookie, bytes_max): (u64, u32),
    with_inodes: bool,
) -> Result<Page, NfsStatus> {
    let dir = cx.directory(handle)?;
    let fs = cx.fs();
    let wanted = ReadDirRequest {
        cookie: if cookie <= DOT_DOT { 0 } else { cookie },
        entries_max: (bytes_max as usize / ENTRY_BYTES_MIN).clamp(1, READDIR_ENTRIES_MAX),
        name_bytes_max: bytes_max as usize,
        with_inodes,
    };
    let DirPage { entries, eof } = cx.actor.ns(fs, |ns, op| ns.readdir(op, dir.id, wanted))?;
    let mut dots: Vec<(u64, &'static [u8], Arc<Inode>)> = Vec::new();
    if cookie < DOT {
        dots.push((DOT, b".", Arc::clone(&dir)));
    }
    if cookie < DOT_DOT {
        // Who may not search the directory may still list it.
        let parent = cx.actor.ns(fs, |ns, op| ns.lookup_parent(op, dir.id));
        dots.push((DOT_DOT, b"..", parent.unwrap_or_else(|_| Arc::clone(&dir))));
    }
    Ok(Page {
        dir,
        dots,
        entries,
        eof,
    })
}

/// Returns whether the list says anything: an entry, or that there are none.
fn write_names(mut writer: DirListWriter<'_>, page: &Page) -> bool {
    let dots = page.dots.iter().map(|(cookie, name, inode)| Entry3 {
        fileid: inode.id.0,
        name: Opaque(name),
        cookie: *cookie,
    });
    let entries = page.entries.iter().map(|entry| Entry3 {
        fileid: entry.file.0,
        name: Opaque(&entry.name),
        cookie: entry.cookie,
    });
    let is_whole = dots.chain(entries).all(|entry| writer.push(&entry));
    let is_told = writer.entries_count() > 0 || (is_whole && page.eof);
    writer.finish(is_whole && page.eof);
    is_told
}

/// As [`write_names`], with attributes and handles.
fn write_all(cx: &Cx<'_>, mut writer: DirListPlusWriter<'_>, page: &Page) -> bool {
    let mut is_whole = true;
    for (cookie, name, inode) in &page.dots {
        is_whole = is_whole && push(cx, &mut writer, (*cookie, name), inode);
    }
    for entry in &page.entries {
        is_whole = is_whole
            && match &entry.inode {
                Some(inode) => push(cx, &mut writer, (entry.cookie, &entry.name), inode),
                None => writer.push(&EntryPlus3 {
                    fileid: entry.file.0,
                    name: Opaque(&entry.name),
                    cookie: entry.cookie,
                    name_attributes: None,
                    name_handle: None,
                }),
            };
    }
    let is_told = writer.entries_count() > 0 || (is_whole && page.eof);
    writer.finish(is_whole && page.eof);
    is_told
}

fn push(
    cx: &Cx<'_>,
    writer: &mut DirListPlusWriter<'_>,
    (cookie, name): (u64, &[u8]),
    inode: &Inode,
) -> bool {
    let handle: FileHandle = cx.handle_of(inode);
    writer.push(&EntryPlus3 {
        fileid: inode.id.0,
        name: Opaque(name),
        cookie,
        name_attributes: known(cx, inode),
        name_handle: Some(Opaque(&handle.0)),
    })
}

/// Attributes of an entry, unless somebody else knows them better, or nobody does by now: the client then asks for them.
fn known(cx: &Cx<'_>, inode: &Inode) -> PostOpAttr {
    let fs = cx.fs();
    let is_held = better_known(fs, inode.id, cx.actor.client_id(), &HOLDERS).is_some();
    let is_known = !is_held && ready(fs, inode.id).is_ok();
    is_known.then(|| attrs_of(cx.fs(), inode))
}

/// Writes the result. Without a list not even one entry fits.
fn finish(
    cx: &Cx<'_>,
    page: &Page,
    list: Option<Encoder>,
    dir_attributes: PostOpAttr,
    e: &mut Encoder,
) {
    match list {
        Some(list) => {
            Nfs3Status::Ok.encode(e);
            e.raw(list.as_bytes());
            cx.actor.note_read(cx.fs(), &page.dir);
        }
        None => failed::<ReadDirOk<'_>, _>(NfsStatus::TooSmall, dir_attributes).encode(e),
    }
}
