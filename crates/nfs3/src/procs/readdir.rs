//! READDIR and READDIRPLUS (RFC 1813 §3.3.16, §3.3.17): arguments, results as a client reads them, and the writers
//! by which a server fills a result entry by entry within the client's counts.
//!
//! `count` and `maxcount` bound all of `READDIR3resok`: attributes, verifier, entries, the end of the list and `eof`,
//! but not the status before it. `dircount` bounds names, file ids and cookies; it is a hint.

use xdr::{Chain, Encode, Encoder, padding};

use crate::{CookieVerf, FileName, Handle, PostOpAttr, PostOpFh, Res};

/// Most entries of one reply that a client takes. At 24 bytes for the smallest entry they fill more than any reply that
/// we ask for.
pub const ENTRIES_MAX: u32 = 1 << 16;

xdr::xdr_struct! {
    /// Arguments of READDIR.
    #[derive(Copy)]
    pub struct ReadDirArgs<'a> {
        /// The directory.
        pub dir: Handle<'a>,
        /// Where to go on; 0 is the start.
        pub cookie: u64,
        /// Goes with `cookie`; zeros at the start.
        pub cookieverf: CookieVerf,
        /// Most bytes of `READDIR3resok`.
        pub count: u32,
    }

    /// Arguments of READDIRPLUS.
    #[derive(Copy)]
    pub struct ReadDirPlusArgs<'a> {
        /// The directory.
        pub dir: Handle<'a>,
        /// Where to go on; 0 is the start.
        pub cookie: u64,
        /// Goes with `cookie`; zeros at the start.
        pub cookieverf: CookieVerf,
        /// Most bytes of names, file ids and cookies (a hint).
        pub dircount: u32,
        /// Most bytes of `READDIRPLUS3resok`.
        pub maxcount: u32,
    }

    /// `entry3`: one entry of READDIR.
    #[derive(Copy)]
    pub struct Entry3<'a> {
        /// The object.
        pub fileid: u64,
        /// Its name.
        pub name: FileName<'a>,
        /// Where to go on after this entry.
        pub cookie: u64,
    }

    /// `entryplus3`: one entry of READDIRPLUS.
    #[derive(Copy)]
    pub struct EntryPlus3<'a> {
        /// The object.
        pub fileid: u64,
        /// Its name.
        pub name: FileName<'a>,
        /// Where to go on after this entry.
        pub cookie: u64,
        /// Attributes of the object.
        pub name_attributes: PostOpAttr,
        /// Its handle.
        pub name_handle: PostOpFh<'a>,
    }

    /// Success of READDIR as a client reads it. A server writes it with [`DirListWriter`].
    pub struct ReadDirOk<'a> {
        /// Attributes of the directory.
        pub dir_attributes: PostOpAttr,
        /// Goes with the cookies.
        pub cookieverf: CookieVerf,
        /// The entries.
        pub entries: Chain<Entry3<'a>, ENTRIES_MAX>,
        /// Whether these were the last.
        pub eof: bool,
    }

    /// Success of READDIRPLUS as a client reads it. A server writes it with [`DirListPlusWriter`].
    pub struct ReadDirPlusOk<'a> {
        /// Attributes of the directory.
        pub dir_attributes: PostOpAttr,
        /// Goes with the cookies.
        pub cookieverf: CookieVerf,
        /// The entries.
        pub entries: Chain<EntryPlus3<'a>, ENTRIES_MAX>,
        /// Whether these were the last.
        pub eof: bool,
    }
}

/// Failure of READDIR: attributes of the directory.
pub type ReadDirFail = PostOpAttr;
/// Result of READDIR as a client reads it.
pub type ReadDirRes<'a> = Res<ReadDirOk<'a>, ReadDirFail>;
/// Failure of READDIRPLUS: attributes of the directory.
pub type ReadDirPlusFail = PostOpAttr;
/// Result of READDIRPLUS as a client reads it.
pub type ReadDirPlusRes<'a> = Res<ReadDirPlusOk<'a>, ReadDirPlusFail>;

procedure! { ReadDir: ReadDirArgs<'_> => ReadDirOk<'r>, ReadDirFail }
procedure! { ReadDirPlus: ReadDirPlusArgs<'_> => ReadDirPlusOk<'r>, ReadDirPlusFail }

/// Bytes of `fattr3`.
const FATTR_BYTES: usize = 84;
/// Bytes of the end of the list and `eof`.
const END_BYTES: usize = 4 + 4;

/// Bytes of a boolean and, where it is true, of what follows.
const fn optional(is_present: bool, bytes: usize) -> usize {
    4 + if is_present { bytes } else { 0 }
}

/// Bytes of an opaque of `len` bytes, with its length and padding.
const fn opaque(len: usize) -> usize {
    4 + len + padding(len)
}

/// What `dircount` counts of an entry: file id, name and cookie.
const fn dir_bytes(name_len: usize) -> usize {
    8 + opaque(name_len) + 8
}

impl Entry3<'_> {
    /// Bytes that the entry takes in a list, with the `true` before it.
    #[must_use]
    pub const fn list_bytes(&self) -> usize {
        4 + dir_bytes(self.name.0.len())
    }
}

impl EntryPlus3<'_> {
    /// Bytes that the entry takes in a list, with the `true` before it: what `maxcount` counts.
    #[must_use]
    pub const fn list_bytes(&self) -> usize {
        let handle = match self.name_handle {
            Some(handle) => optional(true, opaque(handle.0.len())),
            None => optional(false, 0),
        };
        let attrs = optional(self.name_attributes.is_some(), FATTR_BYTES);
        4 + dir_bytes(self.name.0.len()) + attrs + handle
    }

    /// Bytes of the entry that `dircount` counts.
    #[must_use]
    pub const fn dir_bytes(&self) -> usize {
        dir_bytes(self.name.0.len())
    }
}

/// Writes `READDIR3resok` entry by entry, within the client's count.
#[derive(Debug)]
pub struct DirListWriter<'e> {
    e: &'e mut Encoder,
    bytes_left: usize,
    entries_count: u32,
}

impl<'e> DirListWriter<'e> {
    /// Begins the body; the status is written before. `bytes_max` is the client's `count`, or what else bounds the
    /// reply. `None`, with nothing written, when not even an empty list fits: `NFS3ERR_TOOSMALL`.
    #[must_use]
    pub fn new(
        e: &'e mut Encoder,
        dir_attributes: &PostOpAttr,
        cookieverf: CookieVerf,
        bytes_max: u32,
    ) -> Option<Self> {
        let head = optional(dir_attributes.is_some(), FATTR_BYTES) + cookieverf.len();
        let bytes_left = (bytes_max as usize).checked_sub(head + END_BYTES)?;
        dir_attributes.encode(e);
        cookieverf.encode(e);
        Some(Self {
            e,
            bytes_left,
            entries_count: 0,
        })
    }

    /// Entries so far. None at the end, with entries left in the directory, is `NFS3ERR_TOOSMALL`.
    #[must_use]
    pub const fn entries_count(&self) -> u32 {
        self.entries_count
    }

    /// Whether an entry of [`Entry3::list_bytes`] still fits.
    #[must_use]
    pub const fn fits(&self, list_bytes: usize) -> bool {
        list_bytes <= self.bytes_left
    }

    /// Appends an entry; `false`, with nothing written, when it does not fit.
    #[must_use]
    pub fn push(&mut self, entry: &Entry3<'_>) -> bool {
        let bytes = entry.list_bytes();
        let fits = self.fits(bytes);
        if fits {
            self.append(entry, bytes);
        }
        fits
    }

    fn append(&mut self, entry: &impl Encode, list_bytes: usize) {
        self.e.bool(true);
        entry.encode(self.e);
        self.bytes_left -= list_bytes;
        self.entries_count += 1;
    }

    /// Ends the list.
    pub fn finish(self, eof: bool) {
        self.e.bool(false);
        self.e.bool(eof);
    }
}

/// Writes `READDIRPLUS3resok` entry by entry, within the client's counts.
#[derive(Debug)]
pub struct DirListPlusWriter<'e> {
    list: DirListWriter<'e>,
    dir_bytes_left: usize,
}

impl<'e> DirListPlusWriter<'e> {
    /// As [`DirListWriter::new`]. `bytes_max` is the client's `maxcount`, or what else bounds the reply; `dircount` 0
    /// does not bind.
    #[must_use]
    pub fn new(
        e: &'e mut Encoder,
        dir_attributes: &PostOpAttr,
        cookieverf: CookieVerf,
        dircount: u32,
        bytes_max: u32,
    ) -> Option<Self> {
        let dir_bytes_left = match dircount {
            0 => usize::MAX,
            n => n as usize,
        };
        Some(Self {
            list: DirListWriter::new(e, dir_attributes, cookieverf, bytes_max)?,
            dir_bytes_left,
        })
    }

    /// Entries so far. None at the end, with entries left in the directory, is `NFS3ERR_TOOSMALL`.
    #[must_use]
    pub const fn entries_count(&self) -> u32 {
        self.list.entries_count
    }

    /// Whether an entry still fits whose sizes are [`EntryPlus3::list_bytes`] and [`EntryPlus3::dir_bytes`].
    ///
    /// The first one fits however small `dircount` is: it is a hint, and without progress the client could never go on.
    #[must_use]
    pub const fn fits(&self, list_bytes: usize, dir_bytes: usize) -> bool {
        self.list.fits(list_bytes)
            && (self.list.entries_count == 0 || dir_bytes <= self.dir_bytes_left)
    }

    /// Appends an entry; `false`, with nothing written, when it does not fit.
    #[must_use]
    pub fn push(&mut self, entry: &EntryPlus3<'_>) -> bool {
        let (bytes, dir_bytes) = (entry.list_bytes(), entry.dir_bytes());
        let fits = self.fits(bytes, dir_bytes);
        if fits {
            self.list.append(entry, bytes);
            self.dir_bytes_left = self.dir_bytes_left.saturating_sub(dir_bytes);
        }
        fits
    }

    /// Ends the list.
    pub fn finish(self, eof: bool) {
        self.list.finish(eof);
    }
}
