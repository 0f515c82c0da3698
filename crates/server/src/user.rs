//! The identity that a call shows (RFC 5531 §8.2).
//!
//! Every match on it names each kind. A new kind of identity, such as that of RPCSEC_GSS, then fails to compile wherever
//! it would be taken for nobody.

use rpc::{AuthStat, AuthSys, Credential};
use rpc_service::Seal;
use state::Principal;

/// An identity of a flavour that this server takes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum User {
    /// AUTH_NONE: nobody in particular.
    Nobody,
    /// AUTH_SYS: what the client's kernel says.
    Sys(AuthSys),
}

impl User {
    /// The identity of a credential.
    ///
    /// # Errors
    /// `RejectedCred` for flavours that this server does not take.
    pub fn of(credential: Credential<'_>) -> Result<Self, AuthStat> {
        match credential {
            Credential::None => Ok(Self::Nobody),
            Credential::Sys(sys) => Ok(Self::Sys(sys)),
            Credential::Gss(_) | Credential::TlsProbe => Err(AuthStat::RejectedCred),
        }
    }

    /// For comparison with the owner of a client record: the flavour and what it proves. Groups are left out, since they
    /// may change under a running client.
    #[must_use]
    pub fn principal(&self) -> Principal {
        Principal(match self {
            Self::Nobody => vec![0],
            Self::Sys(sys) => {
                let mut bytes = vec![1];
                bytes.extend(sys.uid.to_be_bytes());
                bytes.extend(&sys.machine);
                bytes
            }
        })
    }

    /// How replies to this user are sealed.
    pub(crate) fn seal(&self) -> Seal {
        match self {
            Self::Nobody | Self::Sys(_) => Seal::None,
        }
    }

    /// As the fingerprint of a request has it: different for any two users of a client.
    pub(crate) fn fingerprint(&self) -> u64 {
        match self {
            Self::Nobody => 0,
            Self::Sys(sys) => 1 << 32 | u64::from(sys.uid),
        }
    }
}
