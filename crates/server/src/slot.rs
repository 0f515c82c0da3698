//! The slot of a running request: sessions as a reply cache (RFC 8881 §2.10.6.1).

use client_table::ClientTable;
use nfs4::SessionId;
use rpc_service::{ReplyCache, RunningCall};
use state::SlotToken;
use std::sync::Arc;

/// The slots of all sessions.
pub(crate) struct Slots<'a>(pub(crate) &'a ClientTable);

/// A request in its slot.
pub(crate) type RunningSlot<'a> = RunningCall<Slots<'a>>;

impl ReplyCache for Slots<'_> {
    type Key = (SessionId, SlotToken);

    fn complete(&self, (session, token): Self::Key, reply: Option<Arc<[u8]>>) -> bool {
        let mut clients = self.0.lock();
        clients.complete(session, token, reply) || clients.session(session).is_some()
    }
}
