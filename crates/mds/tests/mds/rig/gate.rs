//! Clients that answer callbacks late, or are cut off for a while.

use super::{Client, Rig};
use bytes::Bytes;
use session_client::CallbackHandler;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::SeqCst};
use std::time::Duration;
use tracing_mutex::parkinglot::Mutex;
use transport::memory::MemoryConnector;
use transport::{
    Address, BoxFuture, CloseReason, ConnHandle, ConnectError, Connector, DynService, Message,
    Service,
};

/// Between a client and the server.
#[derive(Default)]
pub struct Gate {
    /// No callback is looked at.
    busy: AtomicBool,
    /// There are no connections.
    cut: AtomicBool,
    conns: Mutex<Vec<ConnHandle>>,
}

impl Gate {
    /// From now on callbacks wait, or no longer.
    pub fn be_busy(&self, busy: bool) {
        self.busy.store(busy, SeqCst);
    }

    /// All connections end, and no new ones come about.
    pub fn cut(&self) {
        self.cut.store(true, SeqCst);
        for conn in self.conns.lock().drain(..) {
            conn.close(CloseReason::Asked);
        }
    }

    /// Connections can be made again.
    pub fn mend(&self) {
        self.cut.store(false, SeqCst);
    }
}

struct Gated {
    inner: MemoryConnector,
    gate: Arc<Gate>,
}

impl Connector for Gated {
    fn connect<'a>(
        &'a self,
        address: &'a Address,
        reverse: Arc<dyn DynService>,
    ) -> BoxFuture<'a, Result<ConnHandle, ConnectError>> {
        Box::pin(async move {
            if self.gate.cut.load(SeqCst) {
                return Err(ConnectError::TimedOut);
            }
            let reverse = Arc::new(Late {
                inner: reverse,
                gate: Arc::clone(&self.gate),
            });
            let conn = self.inner.connect(address, reverse).await?;
            self.gate.conns.lock().push(conn.clone());
            Ok(conn)
        })
    }
}

struct Late {
    inner: Arc<dyn DynService>,
    gate: Arc<Gate>,
}

impl Service for Late {
    async fn call(&self, conn: &ConnHandle, record: Bytes) -> Option<Message> {
        while self.gate.busy.load(SeqCst) {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
        self.inner.call_boxed(conn, record).await
    }
}

/// A client with a session, and its gate.
pub async fn gated(
    rig: &Rig,
    owner: &str,
    callbacks: Arc<dyn CallbackHandler>,
) -> (Client, Arc<Gate>) {
    let gate = Arc::new(Gate::default());
    let connector = Gated {
        inner: rig.connector(owner),
        gate: Arc::clone(&gate),
    };
    let client = Rig::stranger_over(Arc::new(connector), owner, *b"boot0001", Some(callbacks));
    client.session.establish().await.unwrap();
    client.reclaim_complete().await;
    (client, gate)
}
