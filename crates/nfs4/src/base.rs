//! The small types that everything else is made of (RFC 8881 §3.3).

use xdr::{Decode, DecodeError, Decoder, Encode, Encoder, OpaqueBuf};

/// Bytes of `stateid4.other` (`NFS4_OTHER_SIZE`).
pub const OTHER_BYTES: usize = 12;
/// Bytes of a session id (`NFS4_SESSIONID_SIZE`).
pub const SESSION_ID_BYTES: usize = 16;
/// Longest file handle in bytes (`NFS4_FHSIZE`).
pub const FH_BYTES_MAX: u32 = 128;
/// Longest opaque owner, client id or scope in bytes (`NFS4_OPAQUE_LIMIT`).
pub const OPAQUE_BYTES_MAX: u32 = 1024;
/// Longest component name in bytes that this implementation takes.
pub const NAME_BYTES_MAX: u32 = 255;
/// Longest symbolic link in bytes that this implementation takes.
pub const LINK_BYTES_MAX: u32 = 4096;
/// Most words of a bitmap that a decoder keeps; further words must be within this bound too.
pub const BITMAP_WORDS_MAX: u32 = 8;
/// Most words of a question for attributes; those beyond [`BITMAP_WORDS_MAX`] are not kept.
const ASKED_WORDS_MAX: u32 = 64;

xdr::xdr_struct! {
    /// `stateid4`: names open, lock, delegation or layout state (RFC 8881 §8.2).
    #[derive(Copy, Hash, PartialOrd, Ord, Default)]
    pub struct Stateid {
        /// Rises with each change of the state that `other` names.
        pub seqid: u32,
        /// Names the state.
        pub other: [u8; OTHER_BYTES],
    }

    /// `sessionid4`.
    #[derive(Copy, Hash, PartialOrd, Ord, Default)]
    pub struct SessionId {
        /// Opaque to the client.
        pub bytes: [u8; SESSION_ID_BYTES],
    }

    /// `verifier4`.
    #[derive(Copy, Hash, PartialOrd, Ord, Default)]
    pub struct Verifier {
        /// Compared only for equality.
        pub bytes: [u8; 8],
    }

    /// `clientid4`.
    #[derive(Copy, Hash, PartialOrd, Ord, Default)]
    pub struct ClientId {
        /// Opaque to the client.
        pub value: u64,
    }

    /// `deviceid4`.
    #[derive(Copy, Hash, PartialOrd, Ord, Default)]
    pub struct DeviceId {
        /// Opaque to the client.
        pub bytes: [u8; 16],
    }

    /// `nfstime4`: time since 1970-01-01 UTC.
    #[derive(Copy, Hash, PartialOrd, Ord, Default)]
    pub struct NfsTime {
        /// Whole seconds; negative before 1970.
        pub seconds: i64,
        /// Nanoseconds, below 10^9.
        pub nanoseconds: u32,
    }

    /// `fsid4`.
    #[derive(Copy, Hash, Default)]
    pub struct FsId {
        /// First half.
        pub major: u64,
        /// Second half.
        pub minor: u64,
    }
}

impl Stateid {
    /// The anonymous stateid: all zeros (RFC 8881 §8.2.3).
    pub const ANONYMOUS: Self = Self {
        seqid: 0,
        other: [0; OTHER_BYTES],
    };
    /// The READ bypass stateid: all ones (RFC 8881 §8.2.3).
    pub const READ_BYPASS: Self = Self {
        seqid: u32::MAX,
        other: [u8::MAX; OTHER_BYTES],
    };
    /// The current stateid: seqid 1 and zeros (RFC 8881 §16.2.3.1.2).
    pub const CURRENT: Self = Self {
        seqid: 1,
        other: [0; OTHER_BYTES],
    };
    /// The invalid stateid (RFC 8881 §8.2.3).
    pub const INVALID: Self = Self {
        seqid: u32::MAX,
        other: [0; OTHER_BYTES],
    };

    /// Whether this is one of the four special values.
    #[must_use]
    pub fn is_special(self) -> bool {
        self.other == [0; OTHER_BYTES] || self.other == [u8::MAX; OTHER_BYTES]
    }
}

/// `nfs_fh4`: opaque to clients.
pub type FileHandle = OpaqueBuf<FH_BYTES_MAX>;

/// `bitmap4`: a set of attribute or operation numbers. Words beyond [`BITMAP_WORDS_MAX`] are refused; an unknown
/// bit is kept, so that its operation can answer as the RFC says.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub struct Bitmap {
    words: [u32; BITMAP_WORDS_MAX as usize],
}

impl Bitmap {
    /// The empty set.
    pub const EMPTY: Self = Self {
        words: [0; BITMAP_WORDS_MAX as usize],
    };

    /// The set of `bits`.
    ///
    /// # Panics
    /// (At compile time, when used in a constant) for a bit beyond the words that are kept.
    #[must_use]
    pub const fn of(bits: &[u32]) -> Self {
        let mut out = Self::EMPTY;
        let mut i = 0;
        while i < bits.len() {
            out.words[(bits[i] / 32) as usize] |= 1 << (bits[i] % 32);
            i += 1;
        }
        out
    }

    /// Whether `bit` is in the set.
    #[must_use]
    pub const fn contains(&self, bit: u32) -> bool {
        bit / 32 < BITMAP_WORDS_MAX && self.words[(bit / 32) as usize] & (1 << (bit % 32)) != 0
    }

    /// Adds `bit`.
    ///
    /// # Panics
    /// For a bit beyond the words that are kept: a bug of the caller.
    pub const fn insert(&mut self, bit: u32) {
        self.words[(bit / 32) as usize] |= 1 << (bit % 32);
    }

    /// Removes `bit`.
    pub const fn remove(&mut self, bit: u32) {
        if bit / 32 < BITMAP_WORDS_MAX {
            self.words[(bit / 32) as usize] &= !(1 << (bit % 32));
        }
    }

    /// Whether the set is empty.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.words.iter().all(|w| *w == 0)
    }

    /// Bits in both sets.
    #[must_use]
    pub fn intersection(&self, other: &Self) -> Self {
        let mut out = *self;
        out.words
            .iter_mut()
            .zip(other.words)
            .for_each(|(a, b)| *a &= b);
        out
    }

    /// Bits in either set.
    #[must_use]
    pub fn union(&self, other: &Self) -> Self {
        let mut out = *self;
        out.words
            .iter_mut()
            .zip(other.words)
            .for_each(|(a, b)| *a |= b);
        out
    }

    /// Bits in this set that `other` lacks.
    #[must_use]
    pub const fn difference(&self, other: &Self) -> Self {
        let mut out = *self;
        let mut i = 0;
        while i < out.words.len() {
            out.words[i] &= !other.words[i];
            i += 1;
        }
        out
    }

    /// The bits in ascending order.
    pub fn iter(&self) -> impl Iterator<Item = u32> + '_ {
        let (mut words, mut at) = (self.words, 0);
        std::iter::from_fn(move || {
            while words.get(at as usize)? == &0 {
                at += 1;
            }
            let word = &mut words[at as usize];
            let bit = word.trailing_zeros();
            *word &= *word - 1;
            Some(at * 32 + bit)
        })
    }
}

impl Bitmap {
    /// Decodes a question for attributes: those beyond what is kept nobody here has, so they are read over (RFC 7530 §16.7.4).
    ///
    /// # Errors
    /// The bitmap is malformed, or longer than 64 words.
    pub fn decode_asked(d: &mut Decoder<'_>) -> Result<Self, DecodeError> {
        let mut out = Self::EMPTY;
        for i in 0..d.len(ASKED_WORDS_MAX)? {
            let word = d.u32()?;
            if let Some(kept) = out.words.get_mut(i) {
                *kept = word;
            }
        }
        Ok(out)
    }
}

impl Decode<'_> for Bitmap {
    fn decode(d: &mut Decoder<'_>) -> Result<Self, DecodeError> {
        let mut out = Self::EMPTY;
        for i in 0..d.len(BITMAP_WORDS_MAX)? {
            out.words[i] = d.u32()?;
        }
        Ok(out)
    }
}

impl Encode for Bitmap {
    fn encode(&self, e: &mut Encoder) {
        let used = self
            .words
            .iter()
            .rposition(|w| *w != 0)
            .map_or(0, |last| last + 1);
        e.list(&self.words[..used]);
    }
}
