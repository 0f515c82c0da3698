//! The caller of a request, and what each role allows.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// What a caller may do. Each role may do what those below it may.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema,
)]
#[serde(rename_all = "lowercase")]
pub enum CallerRole {
    /// Sees everything but secrets, and changes nothing.
    Viewer,
    /// Acts on what is there: drains, repairs, evicts.
    Operator,
    /// Changes who belongs to the cluster, who may ask, and any file.
    Admin,
}

impl CallerRole {
    /// Its name, as in tokens and documents.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Viewer => "viewer",
            Self::Operator => "operator",
            Self::Admin => "admin",
        }
    }
}

impl std::fmt::Display for CallerRole {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.name())
    }
}

/// The caller of a request.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Caller {
    /// The name that the token was made for.
    pub name: String,
    /// What it may do.
    pub role: CallerRole,
    /// When the token ends, in seconds since 1970; never without.
    pub expires_at: Option<u64>,
}

impl Caller {
    /// Whoever can open the admin socket: the user that runs the server, and root.
    #[must_use]
    pub fn at_socket() -> Self {
        Self {
            name: "admin socket".to_owned(),
            role: CallerRole::Admin,
            expires_at: None,
        }
    }
}

/// Why a token is not taken.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Denied {
    /// None was sent.
    Missing,
    /// It was never made, or it is mistyped, or it was revoked.
    Unknown,
    /// Its time is over.
    Expired,
    /// Tokens cannot be looked up now.
    Unavailable,
}

impl Denied {
    /// What to tell the caller.
    #[must_use]
    pub const fn text(self) -> &'static str {
        match self {
            Self::Missing => {
                "send `Authorization: Bearer TOKEN`; `ropewalk access create NAME` makes a token"
            }
            Self::Unknown => "the token is unknown, mistyped or revoked",
            Self::Expired => "the token has expired; an admin can make another",
            Self::Unavailable => "the tokens cannot be read now",
        }
    }
}
