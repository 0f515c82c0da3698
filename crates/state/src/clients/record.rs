//! What is kept durably of a client.

use nfs4::{ClientId, Verifier};

/// Longest `co_ownerid` in bytes (`NFS4_OPAQUE_LIMIT`).
pub const OWNER_BYTES_MAX: usize = 1024;
/// Longest principal in bytes.
pub const PRINCIPAL_BYTES_MAX: usize = 512;

/// What the names of these clients begin with in this server's tables. EXCHANGE_ID refuses names that do.
pub const OWNER_PREFIX: &[u8] = b"\0NFSv4.0\0";
/// Who makes a request, in a form that compares equal for the same caller: say flavour, user and
/// machine of AUTH_SYS, or a GSS name. At most [`PRINCIPAL_BYTES_MAX`] bytes.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Principal(pub Vec<u8>);

/// What is kept durably of a client that may hold state, to let it reclaim after a restart.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ClientRecord {
    /// Key of the record.
    pub client: ClientId,
    /// `co_ownerid`.
    pub owner: Vec<u8>,
    /// `co_verifier`: only the same incarnation may reclaim.
    pub verifier: Verifier,
    /// Only the same principal may reclaim.
    pub principal: Principal,
    /// A delegation was revoked and the client has not acknowledged that: it may reclaim none.
    pub lost_delegations: bool,
    /// It has nothing to reclaim, so nobody waits for it.
    pub holds_nothing: bool,
}
