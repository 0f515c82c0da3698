//! XDR (RFC 4506): a bounded decoder over borrowed bytes, an encoder, and macros that define a
//! wire type once for both directions.
//!
//! The crate owns bytes-to-values and back; it knows no protocol. Variable-length items always name
//! their limit, and no length from a peer makes the decoder allocate before the bytes that it
//! promises are present. Bulk payloads are never copied: a decoder hands out a borrowed slice, an
//! encoder records a [`PayloadSpan`] where the transport later inserts the bytes.
//!
//! Entry points: [`Decoder`], [`Encoder`], [`Decode`], [`Encode`], [`xdr_struct!`], [`xdr_enum!`],
//! [`xdr_union!`].
#![forbid(unsafe_code)]

mod bounded;
mod decode;
mod encode;
mod macros;

pub use bounded::{Chain, List, Opaque, OpaqueBuf};
pub use decode::{Decode, DecodeError, DecodeErrorKind, Decoder};
pub use encode::{Encode, Encoder, Mark, PayloadSpan};

/// Bytes of padding that follow an opaque of `len` bytes (RFC 4506 §3: items are multiples of 4).
#[must_use]
pub const fn padding(len: usize) -> usize {
    (4 - len % 4) % 4
}

/// Decodes one `T` from `bytes` and refuses trailing bytes.
///
/// # Errors
/// Whatever `T` refuses, or [`DecodeErrorKind::Trailing`].
pub fn decode_all<'a, T: Decode<'a>>(bytes: &'a [u8]) -> Result<T, DecodeError> {
    let mut d = Decoder::new(bytes);
    let value = T::decode(&mut d)?;
    d.finish()?;
    Ok(value)
}

/// Encodes one value into a fresh buffer.
#[must_use]
pub fn encode_to_vec<T: Encode + ?Sized>(value: &T) -> Vec<u8> {
    let mut e = Encoder::new();
    value.encode(&mut e);
    e.into_bytes()
}

#[cfg(test)]
mod tests;
