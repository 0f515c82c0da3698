//! How a server is called, and by whom.

use rpc::{AuthSys, OpaqueAuth, flavor};
use std::time::Duration;
use transport::Address;

/// Most connections to one server.
pub const CONNECTIONS_MAX: u32 = 16;

/// How one server is called.
#[derive(Debug, Clone)]
pub struct RpcPeerConfig {
    /// Addresses of the one server, preferred first.
    pub addresses: Vec<Address>,
    /// Connections to spread calls over, at most [`CONNECTIONS_MAX`]; they are made when they are needed.
    pub connections: u32,
    /// Most calls in flight; more wait.
    pub calls_max: u32,
    /// How long one try waits for its reply.
    pub try_timeout: Duration,
    /// How long a call is tried in all, waits after `NFS3ERR_JUKEBOX` included.
    pub give_up: Duration,
    /// The first transaction id. It must be random: a server may take a call with the id of an earlier process for that call
    /// sent again.
    pub first_xid: u32,
}

/// Who a call is made as.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CallerAuth {
    flavor: u32,
    body: Vec<u8>,
}

impl CallerAuth {
    /// An `AUTH_SYS` identity (RFC 5531 appendix A).
    ///
    /// # Panics
    /// When the machine name or the groups exceed their limits.
    #[must_use]
    pub fn auth_sys(identity: &AuthSys) -> Self {
        Self {
            flavor: flavor::AUTH_SYS,
            body: identity.to_body(),
        }
    }

    /// Nobody: for NULL, and for port mappers.
    #[must_use]
    pub const fn none() -> Self {
        Self {
            flavor: flavor::AUTH_NONE,
            body: Vec::new(),
        }
    }

    pub(crate) fn credential(&self) -> OpaqueAuth<'_> {
        OpaqueAuth {
            flavor: self.flavor,
            body: &self.body,
        }
    }
}
