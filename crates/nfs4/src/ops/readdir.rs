//! READDIR (RFC 8881 §18.23).

use xdr::{Decode, DecodeError, DecodeErrorKind, Decoder, Encode, Encoder, Mark};

use crate::{Attrs, Bitmap, Fattr, Name, OpNum, Verifier, encode_fattr};

/// Most entries of one READDIR reply that a client takes. At 24 bytes for the smallest entry they fill more than any
/// reply that we ask for.
pub const ENTRIES_MAX: u32 = 1 << 16;

xdr::xdr_struct! {
    /// Arguments of READDIR.
    #[derive(Copy)]
    pub struct ReadDirArgs {
        /// Where to go on; 0 is the start.
        pub cookie: u64,
        /// Goes with `cookie`; zeros at the start.
        pub cookie_verifier: Verifier,
        /// Most bytes of names and cookies (a hint).
        pub dircount: u32,
        /// Most bytes of `READDIR4resok`.
        pub maxcount: u32,
        /// Wanted attributes.
        pub attr_request: Bitmap,
    }

    /// One entry.
    pub struct DirEntry<'a> {
        /// Where to go on after this entry.
        pub cookie: u64,
        /// Name.
        pub name: Name<'a>,
        /// Attributes.
        pub attrs: Fattr<'a>,
    }
}

/// Result of READDIR as a client reads it. A server writes it with [`ReadDirWriter`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ReadDirRes<'a> {
    /// Goes with the cookies.
    pub cookie_verifier: Verifier,
    /// At most [`ENTRIES_MAX`].
    pub entries: Vec<DirEntry<'a>>,
    /// Whether these were the last.
    pub eof: bool,
}

impl<'a> Decode<'a> for ReadDirRes<'a> {
    fn decode(d: &mut Decoder<'a>) -> Result<Self, DecodeError> {
        let cookie_verifier = Verifier::decode(d)?;
        let mut entries = Vec::new();
        while d.bool()? {
            if entries.len() >= ENTRIES_MAX as usize {
                return Err(d.error(DecodeErrorKind::TooLong {
                    len: u32::MAX,
                    limit: ENTRIES_MAX,
                }));
            }
            entries.push(DirEntry::decode(d)?);
        }
        Ok(Self {
            cookie_verifier,
            entries,
            eof: d.bool()?,
        })
    }
}

impl Encode for ReadDirRes<'_> {
    fn encode(&self, e: &mut Encoder) {
        self.cookie_verifier.encode(e);
        for entry in &self.entries {
            e.bool(true);
            entry.encode(e);
        }
        e.bool(false);
        e.bool(self.eof);
    }
}

operations! { OpNum::ReadDir: ReadDirArgs => ReadDirRes<'a>; }

/// Bytes of `READDIR4resok` beside its entries: verifier, end of the list, eof.
const FRAME_BYTES: usize = 8 + 4 + 4;
/// Bytes that `dircount` counts of an entry beside its name: cookie, length and padding (rounded up).
const DIRCOUNT_ENTRY_BYTES: usize = 8 + 4;

/// Writes `READDIR4resok` entry by entry into a reply, within `maxcount` bytes and, as far as it binds,
/// `dircount`.
#[derive(Debug)]
pub struct ReadDirWriter<'e> {
    e: &'e mut Encoder,
    bytes_left: usize,
    dir_bytes_left: usize,
    entries_count: u32,
}

impl<'e> ReadDirWriter<'e> {
    /// Begins the body. `bytes_max` is the client's `maxcount`, or what else bounds the reply; `dircount` 0 does not
    /// bind (RFC 8881 §18.23.3). `None` when not even an empty reply fits: `NFS4ERR_TOOSMALL`.
    #[must_use]
    pub fn new(
        e: &'e mut Encoder,
        cookie_verifier: Verifier,
        bytes_max: u32,
        dircount: u32,
    ) -> Option<Self> {
        let bytes_left = (bytes_max as usize).checked_sub(FRAME_BYTES)?;
        cookie_verifier.encode(e);
        let dir_bytes_left = match dircount {
            0 => usize::MAX,
            n => n as usize,
        };
        Some(Self {
            e,
            bytes_left,
            dir_bytes_left,
            entries_count: 0,
        })
    }

    /// Entries so far. None at the end, with entries left in the directory, is `NFS4ERR_TOOSMALL`.
    #[must_use]
    pub const fn entries_count(&self) -> u32 {
        self.entries_count
    }

    /// Appends an entry with those of its attributes that are in `mask`; `false`, with nothing written, when it
    /// does not fit.
    pub fn push(&mut self, cookie: u64, name: &[u8], mask: &Bitmap, attrs: &Attrs) -> bool {
        self.entry(cookie, name, |e| {
            encode_fattr(e, mask, attrs);
        })
    }

    /// As [`ReadDirWriter::push`], with a `fattr4` that is encoded already.
    pub fn push_encoded(&mut self, cookie: u64, name: &[u8], fattr: &[u8]) -> bool {
        self.entry(cookie, name, |e| e.raw(fattr))
    }

    fn entry(&mut self, cookie: u64, name: &[u8], fattr: impl FnOnce(&mut Encoder)) -> bool {
        let start: Mark = self.e.mark();
        let start_len = self.e.len();
        self.e.bool(true);
        self.e.u64(cookie);
        self.e.opaque(name);
        fattr(self.e);
        let bytes = self.e.len() - start_len;
        let dir_bytes = DIRCOUNT_ENTRY_BYTES + name.len() + xdr::padding(name.len());
        // One entry is answered however small `dircount` is: it is a hint, and without progress the
        // client could never go on.
        let is_past_hint = self.entries_count > 0 && dir_bytes > self.dir_bytes_left;
        if bytes > self.bytes_left || is_past_hint {
            self.e.truncate(start);
            return false;
        }
        self.bytes_left -= bytes;
        self.dir_bytes_left = self.dir_bytes_left.saturating_sub(dir_bytes);
        self.entries_count += 1;
        true
    }

    /// Ends the list.
    pub fn finish(self, eof: bool) {
        self.e.bool(false);
        self.e.bool(eof);
    }
}
