//! Join tokens: what an administrator carries from the MDS to a new data server.
//!
//! `rwj1.` and base 32 of: addresses of the MDS, fingerprint of its CA, a secret, and a checksum. The checksum tells a
//! typing error from a forgery. The MDS keeps only a hash of the secret, with an expiry, and takes it once.

use std::collections::BTreeMap;

use control::{JOIN_SECRET_BYTES, JoinSecret, Text};
use xdr::List;

use crate::peer::Fingerprint;
use crate::token_text::{self, TokenError};

/// Most addresses in a token.
pub const TOKEN_ADDRESSES_MAX: u32 = 8;
/// Longest address in a token ("host:port"), in bytes.
pub const TOKEN_ADDRESS_BYTES_MAX: u32 = 264;
/// Most tokens that wait to be used.
pub const TOKENS_MAX: usize = 1024;

const PREFIX: &str = "rwj1.";
const HASH_CONTEXT: &str = "ropewalk join token";

xdr::xdr_struct! {
    /// A token in the hands of a data server. Its Debug output hides the secret.
    pub struct JoinToken {
        /// Where the MDS listens for control connections, "host:port" each.
        pub addresses: List<Text<TOKEN_ADDRESS_BYTES_MAX>, TOKEN_ADDRESSES_MAX>,
        /// The CA that the MDS must prove to have.
        pub ca: Fingerprint,
        /// What the data server must prove to have.
        pub secret: JoinSecret,
    }
}

impl JoinToken {
    /// A token for an MDS at `addresses`.
    ///
    /// # Errors
    /// [`TokenError::Malformed`] without an address, with too many, or with one that is too long.
    pub fn new(
        addresses: &[String],
        ca: Fingerprint,
        secret: JoinSecret,
    ) -> Result<Self, TokenError> {
        let too_long = |a: &String| a.is_empty() || a.len() > TOKEN_ADDRESS_BYTES_MAX as usize;
        let count = addresses.len();
        if count == 0 || count > TOKEN_ADDRESSES_MAX as usize || addresses.iter().any(too_long) {
            return Err(TokenError::Malformed);
        }
        let addresses: Vec<_> = addresses.iter().map(|a| Text::cut(a)).collect();
        Ok(Self {
            addresses: addresses.into(),
            ca,
            secret,
        })
    }

    /// The text that an administrator copies. It is a secret: whoever has it may join.
    #[must_use]
    pub fn to_text(&self) -> String {
        token_text::write(PREFIX, self)
    }

    /// The token of a text; white space around it is passed over.
    ///
    /// # Errors
    /// [`TokenError`].
    pub fn parse(text: &str) -> Result<Self, TokenError> {
        let token: Self = token_text::parse(PREFIX, text)?;
        if token.addresses.0.is_empty() {
            return Err(TokenError::Malformed);
        }
        Ok(token)
    }
}

/// What the MDS keeps of a token: no token can be made from it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct TokenHash(pub [u8; 32]);

impl TokenHash {
    /// The hash of a secret.
    #[must_use]
    pub fn of(secret: &JoinSecret) -> Self {
        let secret: &[u8; JOIN_SECRET_BYTES] = &secret.0;
        Self(blake3::derive_key(HASH_CONTEXT, secret))
    }
}

/// Why the MDS does not take a secret.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TokenRefusal {
    /// Never made, or used already.
    Unknown,
    /// Too late.
    Expired,
    /// [`TOKENS_MAX`] tokens wait already.
    Full,
}

impl std::fmt::Display for TokenRefusal {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Unknown => f.write_str("the join token is unknown or used up"),
            Self::Expired => f.write_str("the join token has expired"),
            Self::Full => write!(f, "{TOKENS_MAX} join tokens wait already"),
        }
    }
}

impl std::error::Error for TokenRefusal {}

/// The tokens that wait to be used. Times are wall-clock milliseconds, so that they mean the same
/// after a restart. The caller stores what it adds and deletes what is redeemed, in the transaction of
/// the JOIN.
#[derive(Debug, Default)]
pub struct TokenTable {
    expires_ms: BTreeMap<TokenHash, u64>,
}

impl TokenTable {
    /// No tokens.
    #[must_use]
    pub const fn new() -> Self {
        Self {
            expires_ms: BTreeMap::new(),
        }
    }

    /// Adds a token that is good until `expires_ms`.
    ///
    /// # Errors
    /// [`TokenRefusal::Full`], when dropping expired ones did not make room.
    pub fn add(
        &mut self,
        hash: TokenHash,
        expires_ms: u64,
        now_ms: u64,
    ) -> Result<(), TokenRefusal> {
        if self.expires_ms.len() >= TOKENS_MAX {
            self.drop_expired(now_ms);
        }
        if self.expires_ms.len() >= TOKENS_MAX {
            return Err(TokenRefusal::Full);
        }
        self.expires_ms.insert(hash, expires_ms);
        Ok(())
    }

    /// Takes a secret, once. An expired one is gone from the table too.
    ///
    /// # Errors
    /// [`TokenRefusal::Unknown`] or [`TokenRefusal::Expired`].
    pub fn redeem(&mut self, secret: &JoinSecret, now_ms: u64) -> Result<TokenHash, TokenRefusal> {
        // The map is searched by a hash of what the peer sent: timing tells nothing of a secret.
        let hash = TokenHash::of(secret);
        let expires_ms = self.expires_ms.remove(&hash).ok_or(TokenRefusal::Unknown)?;
        if now_ms >= expires_ms {
            return Err(TokenRefusal::Expired);
        }
        Ok(hash)
    }

    /// Drops tokens that are too late, and returns what to delete from the store.
    pub fn drop_expired(&mut self, now_ms: u64) -> Vec<TokenHash> {
        let mut gone = Vec::new();
        self.expires_ms.retain(|hash, expires_ms| {
            let keep = now_ms < *expires_ms;
            if !keep {
                gone.push(*hash);
            }
            keep
        });
        gone
    }

    /// Tokens that wait, expired ones included.
    #[must_use]
    pub fn len(&self) -> usize {
        self.expires_ms.len()
    }

    /// Whether none waits.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.expires_ms.is_empty()
    }
}
