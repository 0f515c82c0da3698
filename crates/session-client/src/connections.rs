//! The connections of one session: made on demand, used in turn, closed together.
//!
//! # Ownership
//! A connection lives in a task of the transport until somebody closes it, so each one that was made is either in the
//! table here or closed.
//!
//! # Failure
//! While one connection lives, the failure to make another is nobody's error.

use crate::SessionError;
use crate::session::CONNECTIONS_MAX;
use parking_lot::Mutex;
use std::future::Future;
use std::sync::Arc;
use transport::{Address, CloseReason, ConnHandle, ConnectError, Connector, DynService};

pub(crate) struct Connections {
    connector: Arc<dyn Connector>,
    addresses: Vec<Address>,
    wanted: usize,
    reverse: Arc<dyn DynService>,
    table: Mutex<Table>,
    /// One connects at a time, so that a burst of requests does not make a connection each.
    connecting: tokio::sync::Mutex<()>,
}

#[derive(Default)]
struct Table {
    live: Vec<ConnHandle>,
    next: usize,
    closed: bool,
}

impl Connections {
    pub(crate) fn new(
        connector: Arc<dyn Connector>,
        addresses: Vec<Address>,
        wanted: u32,
        reverse: Arc<dyn DynService>,
    ) -> Arc<Self> {
        Arc::new(Self {
            connector,
            addresses,
            wanted: wanted.clamp(1, CONNECTIONS_MAX) as usize,
            reverse,
            table: Mutex::default(),
            connecting: tokio::sync::Mutex::new(()),
        })
    }

    /// A connection to the first address that answers; not in the table yet.
    pub(crate) async fn connect(&self) -> Result<NewConn, SessionError> {
        let mut error = ConnectError::Unsupported;
        let mut no_rdma = None;
        for address in &self.addresses {
            match self
                .connector
                .connect(address, Arc::clone(&self.reverse))
                .await
            {
                Ok(conn) => {
                    if let (Some(from), false) = (no_rdma, matches!(address, Address::Rdma(_))) {
                        conn.fell_back(from, &error);
                    }
                    return Ok(NewConn(Some(conn)));
                }
                Err(e) => {
                    if matches!(address, Address::Rdma(_)) {
                        no_rdma = Some(address);
                    }
                    error = e;
                }
            }
        }
        Err(SessionError::Unreachable(error))
    }

    /// Puts a connection into the table, or closes it when the session ended meanwhile.
    pub(crate) fn add(&self, mut new: NewConn) -> ConnHandle {
        let conn = new.handle().clone();
        let mut table = self.table.lock();
        if !table.closed {
            table.live.push(conn.clone());
            new.0 = None;
        }
        conn
    }

    /// The next connection in turn. A missing one is made, and tied to the session by `bind`.
    pub(crate) async fn pick<F>(
        &self,
        bind: impl Fn(ConnHandle) -> F,
    ) -> Result<ConnHandle, SessionError>
    where
        F: Future<Output = Result<(), SessionError>>,
    {
        if let Some(conn) = self.next(self.wanted) {
            return Ok(conn);
        }
        let _one = match (self.connecting.try_lock(), self.next(1)) {
            (Ok(one), _) => one,
            // Somebody else is at it; what there is will do.
            (Err(_), Some(conn)) => return Ok(conn),
            (Err(_), None) => self.connecting.lock().await,
        };
        if let Some(conn) = self.next(self.wanted) {
            return Ok(conn);
        }
        let made = async {
            let conn = self.connect().await?;
            bind(conn.handle().clone()).await?;
            Ok(self.add(conn))
        };
        match made.await {
            Ok(conn) => Ok(conn),
            Err(SessionError::Lost) => Err(SessionError::Lost),
            Err(e) => self.next(1).ok_or(e),
        }
    }

    /// The next in turn if there are at least `least`.
    fn next(&self, least: usize) -> Option<ConnHandle> {
        let mut table = self.table.lock();
        table.live.retain(|c| !c.is_closed());
        if table.live.len() < least {
            return None;
        }
        table.next = (table.next + 1) % table.live.len();
        Some(table.live[table.next].clone())
    }

    /// Any live connection.
    pub(crate) fn any(&self) -> Option<ConnHandle> {
        self.next(1)
    }

    /// Closes all, also those that are still being made.
    pub(crate) fn close(&self) {
        let mut table = self.table.lock();
        table.closed = true;
        for conn in table.live.drain(..) {
            conn.close(CloseReason::Asked);
        }
    }
}

/// A connection that belongs to nobody yet: dropped, it is closed.
pub(crate) struct NewConn(Option<ConnHandle>);

impl NewConn {
    pub(crate) fn handle(&self) -> &ConnHandle {
        self.0.as_ref().expect("only adding takes it")
    }
}

impl Drop for NewConn {
    fn drop(&mut self) {
        if let Some(conn) = self.0.take() {
            conn.close(CloseReason::Asked);
        }
    }
}
