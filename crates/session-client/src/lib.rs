//! One NFSv4.1 session of a client to one server: EXCHANGE_ID, CREATE_SESSION, slots, retry over a new connection,
//! the back channel, lease renewal (RFC 8881 §2.10).
//!
//! [`Session::compound`] sends operations after a SEQUENCE and hands back the reply. A broken connection is repaired,
//! and the request is sent again under the same slot and sequence id. The server's reply cache makes it exactly once.
//! If the server has forgotten the session (it restarted, or the lease ended) the call ends with
//! [`SessionError::Lost`]. Only the caller knows what must be reclaimed, and whether to ask again.
//! [`Session::establish`] then makes a new one.
//!
//! Used by the client library, by the MDS for proxy I/O, and by tests and benchmarks.
#![forbid(unsafe_code)]

mod bare;
mod callback;
mod compound_call;
mod config;
mod connections;
mod error;
mod room;
mod session;
mod slots;

pub use callback::{CallbackHandler, HeldAttrs, NoCallbacks};
pub use config::{CONNECTIONS_MAX, SessionConfig};
pub use error::SessionError;
pub use session::{Build, Established, Outcome, Session};

#[cfg(test)]
mod tests;

use rpc::AuthSys;

/// Who a call is made as.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Caller {
    body: Vec<u8>,
}

impl Caller {
    /// An `AUTH_SYS` identity (RFC 5531 appendix A).
    #[must_use]
    pub fn auth_sys(identity: &AuthSys) -> Self {
        Self {
            body: identity.to_body(),
        }
    }

    pub(crate) fn credential(&self) -> rpc::OpaqueAuth<'_> {
        rpc::OpaqueAuth {
            flavor: rpc::flavor::AUTH_SYS,
            body: &self.body,
        }
    }
}
