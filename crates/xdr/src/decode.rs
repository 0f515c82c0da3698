//! The decoder: a cursor over borrowed bytes. Every read checks the bytes that remain first, so no
//! input makes it panic, and every variable-length read names its limit.
//!
//! What reads a word or two is `#[inline]`: without it each field of each message is a call into this crate.

use crate::padding;

/// Why bytes could not be decoded, and where.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct DecodeError {
    /// What was wrong.
    pub kind: DecodeErrorKind,
    /// Byte offset from the decoder's start at which the item began.
    pub offset: usize,
}

/// What was wrong with the bytes of a peer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum DecodeErrorKind {
    /// The bytes end before the item does.
    Truncated,
    /// A length field is above the limit of its item.
    TooLong {
        /// The length that the peer sent.
        len: u32,
        /// The limit.
        limit: u32,
    },
    /// An enum or union discriminant that the protocol does not define.
    BadDiscriminant(u32),
    /// A boolean that is neither 0 nor 1.
    BadBool(u32),
    /// A string that must be UTF-8 is not.
    BadUtf8,
    /// A value that its type forbids (the text says which rule).
    Invalid(&'static str),
    /// Bytes remain after the last item.
    Trailing,
}

impl std::fmt::Display for DecodeError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self.kind {
            DecodeErrorKind::Truncated => write!(f, "truncated"),
            DecodeErrorKind::TooLong { len, limit } => write!(f, "length {len} above {limit}"),
            DecodeErrorKind::BadDiscriminant(v) => write!(f, "unknown discriminant {v}"),
            DecodeErrorKind::BadBool(v) => write!(f, "{v} is not a boolean"),
            DecodeErrorKind::BadUtf8 => write!(f, "not UTF-8"),
            DecodeErrorKind::Invalid(rule) => write!(f, "{rule}"),
            DecodeErrorKind::Trailing => write!(f, "trailing bytes"),
        }?;
        write!(f, " at byte {}", self.offset)
    }
}

impl std::error::Error for DecodeError {}

/// A value that can be read from XDR.
pub trait Decode<'a>: Sized {
    /// Reads one value and advances the decoder after it.
    ///
    /// # Errors
    /// [`DecodeError`] names the first byte of the item that was refused.
    fn decode(d: &mut Decoder<'a>) -> Result<Self, DecodeError>;
}

/// A cursor over the bytes of one message.
#[derive(Debug, Clone)]
pub struct Decoder<'a> {
    bytes: &'a [u8],
    at: usize,
}

impl<'a> Decoder<'a> {
    /// Starts at the first byte.
    #[must_use]
    pub const fn new(bytes: &'a [u8]) -> Self {
        Self { bytes, at: 0 }
    }

    /// Bytes consumed so far.
    #[must_use]
    #[inline]
    pub const fn position(&self) -> usize {
        self.at
    }

    /// Bytes that remain.
    #[must_use]
    #[inline]
    pub const fn remaining(&self) -> usize {
        self.bytes.len() - self.at
    }

    /// The bytes that remain, without consuming them.
    #[must_use]
    pub fn rest(&self) -> &'a [u8] {
        &self.bytes[self.at..]
    }

    /// An error of `kind` at the current position.
    #[must_use]
    pub const fn error(&self, kind: DecodeErrorKind) -> DecodeError {
        DecodeError {
            kind,
            offset: self.at,
        }
    }

    /// Refuses bytes after the last item.
    ///
    /// # Errors
    /// [`DecodeErrorKind::Trailing`].
    pub fn finish(&self) -> Result<(), DecodeError> {
        if self.remaining() == 0 {
            Ok(())
        } else {
            Err(self.error(DecodeErrorKind::Trailing))
        }
    }

    /// Takes `len` raw bytes, without padding.
    ///
    /// # Errors
    /// [`DecodeErrorKind::Truncated`].
    #[inline]
    pub fn take(&mut self, len: usize) -> Result<&'a [u8], DecodeError> {
        let Some(slice) = self.bytes[self.at..].get(..len) else {
            return Err(self.error(DecodeErrorKind::Truncated));
        };
        self.at += len;
        Ok(slice)
    }

    #[inline]
    fn array<const N: usize>(&mut self) -> Result<[u8; N], DecodeError> {
        let mut out = [0; N];
        out.copy_from_slice(self.take(N)?);
        Ok(out)
    }

    /// An unsigned 32-bit integer (RFC 4506 §4.2).
    ///
    /// # Errors
    /// [`DecodeErrorKind::Truncated`].
    #[inline]
    pub fn u32(&mut self) -> Result<u32, DecodeError> {
        Ok(u32::from_be_bytes(self.array()?))
    }

    /// A signed 32-bit integer (RFC 4506 §4.1).
    ///
    /// # Errors
    /// [`DecodeErrorKind::Truncated`].
    #[inline]
    pub fn i32(&mut self) -> Result<i32, DecodeError> {
        Ok(i32::from_be_bytes(self.array()?))
    }

    /// An unsigned 64-bit integer (RFC 4506 §4.5).
    ///
    /// # Errors
    /// [`DecodeErrorKind::Truncated`].
    #[inline]
    pub fn u64(&mut self) -> Result<u64, DecodeError> {
        Ok(u64::from_be_bytes(self.array()?))
    }

    /// A signed 64-bit integer (RFC 4506 §4.5).
    ///
    /// # Errors
    /// [`DecodeErrorKind::Truncated`].
    #[inline]
    pub fn i64(&mut self) -> Result<i64, DecodeError> {
        Ok(i64::from_be_bytes(self.array()?))
    }

    /// A boolean (RFC 4506 §4.4).
    ///
    /// # Errors
    /// [`DecodeErrorKind::BadBool`] for anything but 0 and 1.
    #[inline]
    pub fn bool(&mut self) -> Result<bool, DecodeError> {
        let offset = self.at;
        match self.u32()? {
            0 => Ok(false),
            1 => Ok(true),
            v => Err(DecodeError {
                kind: DecodeErrorKind::BadBool(v),
                offset,
            }),
        }
    }

    /// The length of a variable-length item, checked against its limit.
    ///
    /// # Errors
    /// [`DecodeErrorKind::TooLong`].
    #[inline]
    pub fn len(&mut self, limit: u32) -> Result<usize, DecodeError> {
        let offset = self.at;
        let len = self.u32()?;
        if len > limit {
            return Err(DecodeError {
                kind: DecodeErrorKind::TooLong { len, limit },
                offset,
            });
        }
        Ok(len as usize)
    }

    /// Fixed-length opaque (RFC 4506 §4.9). The padding is skipped, not checked.
    ///
    /// # Errors
    /// [`DecodeErrorKind::Truncated`].
    #[inline]
    pub fn opaque_fixed<const N: usize>(&mut self) -> Result<[u8; N], DecodeError> {
        let out = self.array()?;
        self.take(padding(N))?;
        Ok(out)
    }

    /// Variable-length opaque of at most `limit` bytes (RFC 4506 §4.10), borrowed.
    ///
    /// # Errors
    /// [`DecodeErrorKind::TooLong`] or [`DecodeErrorKind::Truncated`].
    #[inline]
    pub fn opaque(&mut self, limit: u32) -> Result<&'a [u8], DecodeError> {
        let len = self.len(limit)?;
        let out = self.take(len)?;
        self.take(padding(len))?;
        Ok(out)
    }

    /// A string that must be UTF-8, of at most `limit` bytes.
    ///
    /// # Errors
    /// As [`Decoder::opaque`], or [`DecodeErrorKind::BadUtf8`].
    pub fn str(&mut self, limit: u32) -> Result<&'a str, DecodeError> {
        let offset = self.at;
        std::str::from_utf8(self.opaque(limit)?).map_err(|_| DecodeError {
            kind: DecodeErrorKind::BadUtf8,
            offset,
        })
    }

    /// A counted array of at most `limit` items. Memory is reserved only as items arrive.
    ///
    /// # Errors
    /// [`DecodeErrorKind::TooLong`], or whatever an item refuses.
    pub fn list<T: Decode<'a>>(&mut self, limit: u32) -> Result<Vec<T>, DecodeError> {
        let len = self.len(limit)?;
        let mut out = Vec::with_capacity(len.min(self.remaining() / 4));
        for _ in 0..len {
            out.push(T::decode(self)?);
        }
        Ok(out)
    }

    /// An optional item (RFC 4506 §4.19).
    ///
    /// # Errors
    /// [`DecodeErrorKind::BadBool`], or whatever the item refuses.
    pub fn option<T: Decode<'a>>(&mut self) -> Result<Option<T>, DecodeError> {
        Ok(if self.bool()? {
            Some(T::decode(self)?)
        } else {
            None
        })
    }
}

macro_rules! decode_scalar {
    ($($ty:ident),*) => {$(
        impl<'a> Decode<'a> for $ty {
            #[inline]
            fn decode(d: &mut Decoder<'a>) -> Result<Self, DecodeError> {
                d.$ty()
            }
        }
    )*};
}
decode_scalar!(u32, i32, u64, i64, bool);

impl<'a, const N: usize> Decode<'a> for [u8; N] {
    #[inline]
    fn decode(d: &mut Decoder<'a>) -> Result<Self, DecodeError> {
        d.opaque_fixed()
    }
}

impl<'a, T: Decode<'a>> Decode<'a> for Option<T> {
    fn decode(d: &mut Decoder<'a>) -> Result<Self, DecodeError> {
        d.option()
    }
}

impl<'a> Decode<'a> for () {
    fn decode(_: &mut Decoder<'a>) -> Result<Self, DecodeError> {
        Ok(())
    }
}
