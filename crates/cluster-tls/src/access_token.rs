//! Access tokens: what a caller of the administration API shows.
//!
//! `rwa1.` and base 32 of: fingerprint of the cluster's CA, the token's number, a secret, and a checksum. A client pins the
//! CA by the fingerprint. The MDS finds the record by the number, and keeps only a hash of the secret.

use control::Text;
use xdr::{Decode, DecodeError, Decoder, Encode, Encoder};

use crate::peer::Fingerprint;
use crate::token_text::{self, TokenError};

/// Bytes of the secret in an access token.
pub const ACCESS_SECRET_BYTES: usize = 24;
/// Longest name of an access token in bytes.
pub const ACCESS_NAME_BYTES_MAX: u32 = 64;
/// Most access tokens of a cluster.
pub const ACCESS_TOKENS_MAX: usize = 256;

const PREFIX: &str = "rwa1.";
const HASH_CONTEXT: &str = "ropewalk access token";

/// Name of an access token.
pub type AccessName = Text<ACCESS_NAME_BYTES_MAX>;

/// The secret of an access token. Its Debug output is redacted.
#[derive(Clone, PartialEq, Eq)]
pub struct AccessSecret(pub [u8; ACCESS_SECRET_BYTES]);

impl std::fmt::Debug for AccessSecret {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("<secret>")
    }
}

impl Decode<'_> for AccessSecret {
    fn decode(d: &mut Decoder<'_>) -> Result<Self, DecodeError> {
        d.opaque_fixed().map(Self)
    }
}

impl Encode for AccessSecret {
    fn encode(&self, e: &mut Encoder) {
        e.opaque_fixed(&self.0);
    }
}

impl AccessSecret {
    /// What the MDS keeps: the secret cannot be made from it.
    #[must_use]
    pub fn hash(&self) -> [u8; 32] {
        blake3::derive_key(HASH_CONTEXT, &self.0)
    }

    /// Whether it has this hash, in a time that does not depend on the answer.
    #[must_use]
    pub fn has_hash(&self, hash: &[u8; 32]) -> bool {
        blake3::Hash::from(self.hash()) == blake3::Hash::from(*hash)
    }
}

xdr::xdr_struct! {
    /// A token in the hands of a caller. Its Debug output hides the secret.
    pub struct AccessToken {
        /// The CA that signs the certificate of the API.
        pub ca: Fingerprint,
        /// Its number.
        pub id: u32,
        /// What the caller proves to have.
        pub secret: AccessSecret,
    }
}

impl AccessToken {
    /// The text that a caller sends. It is a secret.
    #[must_use]
    pub fn to_text(&self) -> String {
        token_text::write(PREFIX, self)
    }

    /// The token of a text; white space around it is passed over.
    ///
    /// # Errors
    /// [`TokenError`].
    pub fn parse(text: &str) -> Result<Self, TokenError> {
        token_text::parse(PREFIX, text)
    }
}

#[cfg(test)]
mod tests {
    //! Goal: a token survives being copied, and nothing else is one.
    use super::*;
    use crate::token_text::TOKEN_CHARS_MAX;

    #[test]
    fn a_token_is_read_as_it_was_written_and_a_typing_error_is_noticed() {
        let token = AccessToken {
            ca: Fingerprint([7; 32]),
            id: 9,
            secret: AccessSecret([3; ACCESS_SECRET_BYTES]),
        };
        let text = token.to_text();
        assert_eq!(AccessToken::parse(&format!(" {text}\n")), Ok(token.clone()));
        assert!(format!("{token:?}").contains("<secret>"));
        assert!(token.secret.has_hash(&token.secret.hash()));
        assert!(!AccessSecret([4; ACCESS_SECRET_BYTES]).has_hash(&token.secret.hash()));
        let mut wrong = text;
        let changed = if wrong.pop() == Some('a') { 'b' } else { 'a' };
        wrong.push(changed);
        assert_eq!(AccessToken::parse(&wrong), Err(TokenError::Mistyped));
        assert_eq!(AccessToken::parse("rwj1.aaaa"), Err(TokenError::NotAToken));
        let long = PREFIX.to_owned() + &"a".repeat(TOKEN_CHARS_MAX);
        assert_eq!(AccessToken::parse(&long), Err(TokenError::Mistyped));
    }
}
