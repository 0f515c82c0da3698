//! How a session is made, and what bounds it.

use crate::{CallbackHandler, Caller};
use nfs4::Verifier;
use std::sync::Arc;
use std::time::Duration;
use transport::Address;

/// Largest request and reply that we ask for, in bytes: 1 MiB of data and what stands around them.
pub(crate) const MESSAGE_BYTES_MAX: u32 = (1 << 20) + 4096;
/// Most connections of one session (Linux's `nconnect` has the same).
pub const CONNECTIONS_MAX: u32 = 16;

/// How a session is made.
#[derive(Clone)]
pub struct SessionConfig {
    /// `co_ownerid`: the same at the MDS and all DSes (RFC 8881 §13.1).
    pub owner: Vec<u8>,
    /// `co_verifier`: new for each incarnation of the client.
    pub verifier: Verifier,
    /// Addresses of the one server, preferred first. All of the transport in use have connections: each network interface has its
    /// part, and the loss of one leaves the others.
    pub addresses: Vec<Address>,
    /// `EXCHGID_*` role flag to ask for, or 0.
    pub role_flag: u32,
    /// 1 or 2.
    pub minor_version: u32,
    /// Who the session operations are made as.
    pub caller: Caller,
    /// Slots to ask for.
    pub slots: u32,
    /// Connections to spread requests over, at most [`CONNECTIONS_MAX`]; one for each address at least.
    pub connections: u32,
    /// Executes callbacks; `None` asks for no back channel.
    pub callbacks: Option<Arc<dyn CallbackHandler>>,
    /// How long one try waits for its reply.
    pub try_timeout: Duration,
    /// How long a request is tried in all.
    pub give_up: Duration,
}
