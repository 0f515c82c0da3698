//! The text form that tokens share: a prefix, and base 32 of the content and a checksum. The checksum tells a typing error
//! from a forgery.

use xdr::{Decode, Encode};

use crate::base32;

/// Longest token, in characters.
pub const TOKEN_CHARS_MAX: usize = 4096;

const CHECKSUM_BYTES: usize = 4;

/// Why a text is not a token.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TokenError {
    /// It does not begin with `rwj1.`: something else, or of a newer version.
    NotAToken,
    /// Characters are missing or wrong.
    Mistyped,
    /// The checksum is right and the content is not.
    Malformed,
}

impl std::fmt::Display for TokenError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Self::NotAToken => "a join token begins with rwj1.",
            Self::Mistyped => "the join token is incomplete or mistyped",
            Self::Malformed => "the join token says nothing that this version understands",
        })
    }
}

impl std::error::Error for TokenError {}

/// The text of a token.
pub(crate) fn write(prefix: &str, token: &impl Encode) -> String {
    let mut bytes = xdr::encode_to_vec(token);
    let sum = checksum(&bytes);
    bytes.extend_from_slice(&sum);
    prefix.to_owned() + &base32::encode(&bytes)
}

/// The token of a text; white space around it is passed over.
///
/// # Errors
/// [`TokenError`].
pub(crate) fn parse<T: for<'a> Decode<'a>>(prefix: &str, text: &str) -> Result<T, TokenError> {
    let text = text.trim();
    let body = text.strip_prefix(prefix).ok_or(TokenError::NotAToken)?;
    if text.len() > TOKEN_CHARS_MAX {
        return Err(TokenError::Mistyped);
    }
    let bytes = base32::decode(body).ok_or(TokenError::Mistyped)?;
    let split = bytes.split_last_chunk::<CHECKSUM_BYTES>();
    let (content, sum) = split.ok_or(TokenError::Mistyped)?;
    if checksum(content) != *sum {
        return Err(TokenError::Mistyped);
    }
    xdr::decode_all(content).map_err(|_| TokenError::Malformed)
}

fn checksum(bytes: &[u8]) -> [u8; CHECKSUM_BYTES] {
    let hash = blake3::hash(bytes);
    *hash.as_bytes().first_chunk().expect("a hash has 32 bytes")
}
