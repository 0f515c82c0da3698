//! Replies that are kept for retries: a request that is not idempotent must not be executed twice.
//!
//! What names a request depends on the protocol. NFSv4.1 has the slot of a session (RFC 8881 §2.10.6.1). Older programs have
//! the connection and the transaction id (RFC 5531 §9). A [`ReplyCache`] has its own key, and judges retries in its own way.
//! What they share is here: the guard of a running request, and what of a reply is kept.
//!
//! # Ownership
//! A [`RunningCall`] owns the entry of its request. The entry is completed whatever becomes of the request: it ends,
//! its program panics, its future is dropped at the end of a shutdown. A busy entry would turn every retry away.
//!
//! # Failure
//! Dropped without a reply, the entry says "executed, not kept". Nobody knows how far the request came, so a retry must not
//! execute it again.

use crate::Seal;
use std::sync::Arc;
use transport::Message;
use xdr::Encoder;

/// Where replies are kept.
pub trait ReplyCache {
    /// What names a running request: a slot and its sequence id, or a connection and a transaction id.
    type Key;

    /// Ends a request with the bytes to keep, or with the news that none are kept. `false` when what the request belonged to, its
    /// session or its connection, went while it ran.
    fn complete(&self, key: Self::Key, reply: Option<Arc<[u8]>>) -> bool;
}

/// The guard of a running request.
#[derive(Debug)]
pub struct RunningCall<C: ReplyCache> {
    pub(crate) cache: C,
    pub(crate) key: Option<C::Key>,
}

impl<C: ReplyCache> RunningCall<C> {
    /// Guards the request `key`, which `cache` has just found to be new.
    #[must_use]
    pub fn new(cache: C, key: C::Key) -> Self {
        let key = Some(key);
        Self { cache, key }
    }

    /// Ends the request: see [`ReplyCache::complete`].
    pub fn complete(mut self, reply: Option<Arc<[u8]>>) -> bool {
        self.end(reply)
    }

    fn end(&mut self, reply: Option<Arc<[u8]>>) -> bool {
        let Some(key) = self.key.take() else {
            return true;
        };
        self.cache.complete(key, reply)
    }
}

impl<C: ReplyCache> Drop for RunningCall<C> {
    fn drop(&mut self) {
        self.end(None);
    }
}

/// The reply to a retry under `xid`: `body`, which was kept, after a header of its own.
#[must_use]
pub fn replay(seal: Seal, xid: u32, body: &[u8]) -> Message {
    let mut e = Encoder::new();
    seal.begin(&mut e, xid);
    e.raw(body);
    e.into()
}
