//! The connections to one server: made when they are needed, used in turn, closed together.
//!
//! # Ownership
//! A connection lives in a task of the transport until somebody closes it. Each one that was made is in the table here, or closed.

use crate::{CONNECTIONS_MAX, RpcError};
use parking_lot::Mutex;
use std::sync::Arc;
use transport::{Address, CloseReason, ConnHandle, ConnectError, Connector, NoService};

pub(crate) struct Connections {
    connector: Arc<dyn Connector>,
    /// Preferred first.
    addresses: Vec<Address>,
    wanted: usize,
    table: Mutex<Table>,
    /// One connects at a time, so that a burst of calls does not make a connection each.
    connecting: tokio::sync::Mutex<()>,
}

#[derive(Default)]
struct Table {
    live: Vec<ConnHandle>,
    next: usize,
    closed: bool,
}

impl Table {
    /// The next in turn, unless fewer than `wanted` are there.
    fn next(&mut self, wanted: usize) -> Option<ConnHandle> {
        self.live.retain(|conn| !conn.is_closed());
        if self.live.len() < wanted {
            return None;
        }
        self.next = (self.next + 1) % self.live.len();
        self.live.get(self.next).cloned()
    }
}

impl Connections {
    pub(crate) fn new(connector: Arc<dyn Connector>, addresses: Vec<Address>, wanted: u32) -> Self {
        Self {
            connector,
            addresses,
            wanted: wanted.clamp(1, CONNECTIONS_MAX) as usize,
            table: Mutex::default(),
            connecting: tokio::sync::Mutex::default(),
        }
    }

    /// The next connection in turn. One that is missing is made first; while another lives, that may fail.
    pub(crate) async fn pick(&self) -> Result<ConnHandle, RpcError> {
        if let Some(conn) = self.table.lock().next(self.wanted) {
            return Ok(conn);
        }
        let _one = match self.connecting.try_lock() {
            Ok(one) => one,
            Err(_) => {
                if let Some(conn) = self.table.lock().next(1) {
                    return Ok(conn);
                }
                self.connecting.lock().await
            }
        };
        if let Some(conn) = self.table.lock().next(self.wanted) {
            return Ok(conn);
        }
        match self.connect().await {
            Ok(conn) => self.add(conn),
            Err(e) => self.table.lock().next(1).ok_or(e),
        }
    }

    async fn connect(&self) -> Result<ConnHandle, RpcError> {
        let mut error = ConnectError::Unsupported;
        let mut no_rdma = None;
        for address in &self.addresses {
            match self.connector.connect(address, NoService::shared()).await {
                Ok(conn) => {
                    if let (Some(from), false) = (no_rdma, matches!(address, Address::Rdma(_))) {
                        conn.fell_back(from, &error);
                    }
                    return Ok(conn);
                }
                Err(e) => {
                    no_rdma = Some(address)
                        .filter(|a| matches!(a, Address::Rdma(_)))
                        .or(no_rdma);
                    error = e;
                }
            }
        }
        Err(RpcError::Unreachable(error))
    }

    /// Puts a connection into the table, or closes it when all have been closed meanwhile.
    fn add(&self, conn: ConnHandle) -> Result<ConnHandle, RpcError> {
        let mut table = self.table.lock();
        if table.closed {
            conn.close(CloseReason::Asked);
            return Err(RpcError::Unreachable(ConnectError::Unsupported));
        }
        table.live.push(conn.clone());
        Ok(conn)
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
