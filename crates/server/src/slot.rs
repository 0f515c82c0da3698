//! The slot of a running request.
//!
//! # Ownership
//! A [`RunningSlot`] owns the token of its slot. Whatever becomes of the request (it ends, its role panics, its future is
//! dropped at the end of a shutdown), the slot is completed: a busy slot would answer DELAY for ever and keep its
//! client's lease from ending.
//!
//! # Failure
//! Dropped without a reply, the slot says "executed, not cached": nobody knows how far the request came, so a retry must
//! not execute it again.

use client_table::ClientTable;
use nfs4::SessionId;
use state::SlotToken;
use std::sync::Arc;

pub(crate) struct RunningSlot<'a> {
    clients: &'a ClientTable,
    session: SessionId,
    token: Option<SlotToken>,
}

impl<'a> RunningSlot<'a> {
    pub(crate) fn new(clients: &'a ClientTable, session: SessionId, token: SlotToken) -> Self {
        Self {
            clients,
            session,
            token: Some(token),
        }
    }

    /// Ends the request with the bytes to keep. `false` when the session was removed while it ran.
    pub(crate) fn complete(mut self, reply: Option<Arc<[u8]>>) -> bool {
        self.end(reply)
    }

    fn end(&mut self, reply: Option<Arc<[u8]>>) -> bool {
        let Some(token) = self.token.take() else {
            return true;
        };
        let mut clients = self.clients.lock();
        clients.complete(self.session, token, reply) || clients.session(self.session).is_some()
    }
}

impl Drop for RunningSlot<'_> {
    fn drop(&mut self) {
        self.end(None);
    }
}
