//! What serves the calls of a connection.
//!
//! A request's future is polled in the task of its connection, so it must not block the thread. It is never dropped
//! half-way because its connection died. It runs to its end and its reply is discarded (a half-executed COMPOUND would
//! leave its slot busy for ever). Only the end of the drain time of a shutdown drops it.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;

use bytes::Bytes;

use crate::{CloseReason, ConnHandle, Endpoint, Message};

/// A boxed future that may move between threads.
pub type BoxFuture<'a, T> = Pin<Box<dyn Future<Output = T> + Send + 'a>>;

/// Serves the calls that arrive on connections.
///
/// Implement `call` as an `async fn`. Requests of one connection run concurrently, replies leave in
/// the order of completion.
pub trait Service: Send + Sync + 'static {
    /// Executes one CALL record. `None` sends no reply; `conn.close` may be used to cut the peer.
    fn call(
        &self,
        conn: &ConnHandle,
        record: Bytes,
    ) -> impl Future<Output = Option<Message>> + Send;

    /// Whether a peer may connect. Others are closed at once, counted, and logged, at most one line in 10 s.
    fn admits(&self, _peer: &Endpoint) -> bool {
        true
    }

    /// A connection was made; no call of it was served yet.
    fn connected(&self, _conn: &ConnHandle) {}

    /// The connection is gone. Requests of it may still be running.
    fn disconnected(&self, _conn: &ConnHandle, _reason: CloseReason) {}

    /// This idle peer holds credits that others need. Ask it to release slots; it is disconnected if it does not.
    fn credits_short(&self, _conn: &ConnHandle) {}
}

/// [`Service`] in a form that can stand behind `Arc<dyn DynService>`; every service has it.
pub trait DynService: Send + Sync + 'static {
    /// See [`Service::call`].
    fn call_boxed<'a>(
        &'a self,
        conn: &'a ConnHandle,
        record: Bytes,
    ) -> BoxFuture<'a, Option<Message>>;

    /// See [`Service::admits`].
    fn admits_peer(&self, peer: &Endpoint) -> bool;

    /// See [`Service::connected`].
    fn on_connected(&self, conn: &ConnHandle);

    /// See [`Service::disconnected`].
    fn on_disconnected(&self, conn: &ConnHandle, reason: CloseReason);

    /// See [`Service::credits_short`].
    fn on_credits_short(&self, conn: &ConnHandle);
}

impl<S: Service> DynService for S {
    fn call_boxed<'a>(
        &'a self,
        conn: &'a ConnHandle,
        record: Bytes,
    ) -> BoxFuture<'a, Option<Message>> {
        Box::pin(self.call(conn, record))
    }

    fn admits_peer(&self, peer: &Endpoint) -> bool {
        self.admits(peer)
    }

    fn on_connected(&self, conn: &ConnHandle) {
        self.connected(conn);
    }

    fn on_disconnected(&self, conn: &ConnHandle, reason: CloseReason) {
        self.disconnected(conn, reason);
    }

    fn on_credits_short(&self, conn: &ConnHandle) {
        self.credits_short(conn);
    }
}

/// Answers every call with PROG_UNAVAIL: for clients that offer no program of their own.
#[derive(Debug, Clone, Copy, Default)]
pub struct NoService;

impl NoService {
    /// The service in the form that connectors take.
    #[must_use]
    pub fn shared() -> Arc<dyn DynService> {
        Arc::new(Self)
    }
}

impl Service for NoService {
    async fn call(&self, _conn: &ConnHandle, record: Bytes) -> Option<Message> {
        let (xid, _) = rpc::peek(&record).ok()?;
        let mut e = xdr::Encoder::new();
        rpc::encode_error(&mut e, xid, rpc::AcceptError::ProgUnavail.into());
        Some(e.into())
    }
}
