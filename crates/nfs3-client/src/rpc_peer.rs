//! One server as an RPC peer: calls with a bound, repeated over new connections until they are answered.
//!
//! # Ordering
//! A call keeps its transaction id and its bytes over all its tries. Calls are not ordered among each other.
//!
//! # Failure
//! A connection that ends or says nothing for a try is closed, and all its calls are sent again over another one. A call
//! that was dropped by its caller may still be executed.

use crate::connections::Connections;
use crate::message::{self, Target};
use crate::pauses::Pauses;
use crate::{CallerAuth, RpcError, RpcPeerConfig};
use bytes::Bytes;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering::Relaxed};
use std::time::Duration;
use tokio::sync::Semaphore;
use tokio::time::Instant;
use transport::{CallError, CloseReason, Connector, ReplyRoom};
use xdr::Encode;

/// A server. Shared by reference; every method may be called concurrently.
pub struct RpcPeer {
    connections: Connections,
    calls: Semaphore,
    next_xid: AtomicU32,
    try_timeout: Duration,
    give_up: Duration,
}

impl std::fmt::Debug for RpcPeer {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("RpcPeer").finish_non_exhaustive()
    }
}

impl Drop for RpcPeer {
    fn drop(&mut self) {
        self.connections.close();
    }
}

impl RpcPeer {
    /// A server that is not connected to yet.
    #[must_use]
    pub fn new(connector: Arc<dyn Connector>, config: RpcPeerConfig) -> Arc<Self> {
        let connections = Connections::new(connector, config.addresses, config.connections);
        Arc::new(Self {
            connections,
            calls: Semaphore::new(config.calls_max.max(1) as usize),
            next_xid: AtomicU32::new(config.first_xid),
            try_timeout: config.try_timeout,
            give_up: config.give_up,
        })
    }

    /// When a call that begins now is given up.
    pub(crate) fn deadline(&self) -> Instant {
        Instant::now() + self.give_up
    }

    /// Makes one call, and returns its result as a slice of the reply.
    ///
    /// # Errors
    /// [`RpcError`] after the deadline, or at once when the server refuses.
    pub(crate) async fn call(
        &self,
        deadline: Instant,
        target: Target,
        caller: &CallerAuth,
        args: &(dyn Encode + Sync),
        data: Option<&Bytes>,
        room: ReplyRoom,
    ) -> Result<Bytes, RpcError> {
        let _place = self.calls.acquire().await;
        let xid = self.next_xid.fetch_add(1, Relaxed);
        let mut pauses = Pauses::of_tries();
        loop {
            let message = message::call(xid, target, caller, args, data, room);
            let error = match self.connections.pick().await {
                Err(e) => e,
                Ok(conn) => match conn.call_again(message, self.try_timeout).await {
                    Ok(record) => return message::result(&record),
                    Err(CallError::Refused) => return Err(RpcError::NotCarried),
                    Err(e) => {
                        tracing::debug!(xid, ?target, "a call is sent again: {e}");
                        // One that does not answer may be half dead: nobody is to wait for it again.
                        conn.close(CloseReason::Asked);
                        RpcError::TimedOut
                    }
                },
            };
            let left = deadline.saturating_duration_since(Instant::now());
            let Some(pause) = pauses.next(left) else {
                return Err(error);
            };
            tokio::time::sleep(pause).await;
        }
    }

    /// Closes all connections; calls in progress and later ones fail in their time.
    pub fn close(&self) {
        self.connections.close();
    }
}
