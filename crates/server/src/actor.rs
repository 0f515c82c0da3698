//! Whom a COMPOUND acts for, and the session that it runs in.

use nfs4::{ClientId, NfsStatus, SessionId};
use state::Origin;
use std::sync::Arc;

/// The session that SEQUENCE named.
#[derive(Debug, Clone)]
pub struct SessionContext {
    /// The session.
    pub id: SessionId,
    /// Slot of the request.
    pub slot: u32,
    /// Its sequence id.
    pub seqid: u32,
    /// Its client.
    pub client: ClientId,
    /// `co_ownerid` of the client: what signed handles are bound to (rule R5).
    pub owner: Arc<[u8]>,
    /// Largest reply in bytes, its RPC header included.
    pub response_bytes_max: u32,
    /// Largest reply in bytes that is kept when the client asks for caching.
    pub response_cached_bytes_max: u32,
    /// Whether it asked.
    pub cache_this: bool,
}

impl SessionContext {
    /// The name of this request, for callbacks about what it granted.
    #[must_use]
    pub const fn origin(&self) -> Origin {
        Origin {
            session: self.id,
            slot: self.slot,
            seqid: self.seqid,
        }
    }

    /// Judges the size of a reply of `wire_len` bytes (RFC 8881 §2.10.6.4).
    pub(crate) fn check_size(&self, wire_len: usize) -> Result<(), NfsStatus> {
        if wire_len > self.response_bytes_max as usize {
            return Err(NfsStatus::RepTooBig);
        }
        if self.cache_this && wire_len > self.response_cached_bytes_max as usize {
            return Err(NfsStatus::RepTooBigToCache);
        }
        Ok(())
    }
}

/// Whom the operations of a COMPOUND act for, and what they have seen.
pub trait Actor: Send + Sync {
    /// SEQUENCE has named the session that the COMPOUND runs in, or an operation of NFSv4.0 its client. `owner` is the client's name.
    fn enter(&mut self, client: ClientId, owner: &Arc<[u8]>);

    /// A result depends on transaction `seq`, in the role's own numbering.
    fn observe(&mut self, seq: u64);
}

/// An actor of a role that tells its clients apart by nothing but their sessions, and has no transactions.
impl Actor for () {
    fn enter(&mut self, _client: ClientId, _owner: &Arc<[u8]>) {}

    fn observe(&mut self, _seq: u64) {}
}
