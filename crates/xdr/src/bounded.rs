//! Variable-length items whose limit is part of their type, for use as fields of wire structs.

use crate::{Decode, DecodeError, DecodeErrorKind, Decoder, Encode, Encoder};

/// Borrowed opaque of at most `MAX` bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub struct Opaque<'a, const MAX: u32>(pub &'a [u8]);

impl<'a, const MAX: u32> Decode<'a> for Opaque<'a, MAX> {
    fn decode(d: &mut Decoder<'a>) -> Result<Self, DecodeError> {
        d.opaque(MAX).map(Self)
    }
}

impl<const MAX: u32> Encode for Opaque<'_, MAX> {
    fn encode(&self, e: &mut Encoder) {
        e.opaque(self.0);
    }
}

/// Owned opaque of at most `MAX` bytes.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Default, PartialOrd, Ord)]
pub struct OpaqueBuf<const MAX: u32>(pub Vec<u8>);

impl<const MAX: u32> Decode<'_> for OpaqueBuf<MAX> {
    fn decode(d: &mut Decoder<'_>) -> Result<Self, DecodeError> {
        d.opaque(MAX).map(|b| Self(b.to_vec()))
    }
}

impl<const MAX: u32> Encode for OpaqueBuf<MAX> {
    fn encode(&self, e: &mut Encoder) {
        e.opaque(&self.0);
    }
}

impl<const MAX: u32> From<&[u8]> for OpaqueBuf<MAX> {
    fn from(bytes: &[u8]) -> Self {
        Self(bytes.to_vec())
    }
}

/// Counted array of at most `MAX` items.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct List<T, const MAX: u32>(pub Vec<T>);

impl<T, const MAX: u32> Default for List<T, MAX> {
    fn default() -> Self {
        Self(Vec::new())
    }
}

impl<'a, T: Decode<'a>, const MAX: u32> Decode<'a> for List<T, MAX> {
    fn decode(d: &mut Decoder<'a>) -> Result<Self, DecodeError> {
        d.list(MAX).map(Self)
    }
}

impl<T: Encode, const MAX: u32> Encode for List<T, MAX> {
    fn encode(&self, e: &mut Encoder) {
        e.list(&self.0);
    }
}

impl<T, const MAX: u32> From<Vec<T>> for List<T, MAX> {
    fn from(items: Vec<T>) -> Self {
        Self(items)
    }
}

/// Linked list of at most `MAX` items (RFC 4506 §4.19): each follows a `true`, and a `false` ends them.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Chain<T, const MAX: u32>(pub Vec<T>);

impl<T, const MAX: u32> Default for Chain<T, MAX> {
    fn default() -> Self {
        Self(Vec::new())
    }
}

impl<'a, T: Decode<'a>, const MAX: u32> Decode<'a> for Chain<T, MAX> {
    fn decode(d: &mut Decoder<'a>) -> Result<Self, DecodeError> {
        let mut items = Vec::new();
        let mut len = 0_u32;
        loop {
            let offset = d.position();
            if !d.bool()? {
                return Ok(Self(items));
            }
            len += 1;
            if len > MAX {
                let kind = DecodeErrorKind::TooLong { len, limit: MAX };
                return Err(DecodeError { kind, offset });
            }
            items.push(T::decode(d)?);
        }
    }
}

impl<T: Encode, const MAX: u32> Encode for Chain<T, MAX> {
    fn encode(&self, e: &mut Encoder) {
        for item in &self.0 {
            e.bool(true);
            item.encode(e);
        }
        e.bool(false);
    }
}

impl<T, const MAX: u32> From<Vec<T>> for Chain<T, MAX> {
    fn from(items: Vec<T>) -> Self {
        Self(items)
    }
}
