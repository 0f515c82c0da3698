//! The connections to one server: made when they are needed, used in turn, closed together.
//!
//! # Ownership
//! A connection lives in a task of the transport until somebody closes it. Each one that was made is in the table here, or closed.
//!
//! # Failure
//! An address that failed comes after the others for a while. While one connection lives, nobody waits for another one to
//! an address that has just failed.

use crate::{CONNECTIONS_MAX, RpcError};
use parking_lot::Mutex;
use std::sync::Arc;
use std::time::Duration;
use tokio::time::Instant;
use transport::{Address, CloseReason, ConnHandle, ConnectError, Connector, NoService};

/// How long an address that failed comes after the others.
const REST: Duration = Duration::from_secs(30);

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
    /// Since when each address rests.
    failed: Vec<Option<Instant>>,
    closed: bool,
}

impl Table {
    fn is_resting(&self, address: usize) -> bool {
        let failed = self.failed.get(address).copied().flatten();
        failed.is_some_and(|at| Instant::now() < at + REST)
    }

    /// The next in turn, unless fewer than `wanted` are there and another one may be made.
    fn next(&mut self, wanted: usize) -> Option<ConnHandle> {
        self.live.retain(|conn| !conn.is_closed());
        let all_rest = (0..self.failed.len()).all(|address| self.is_resting(address));
        if self.live.len() < wanted && (self.live.is_empty() || !all_rest) {
            return None;
        }
        self.next = (self.next + 1) % self.live.len();
        self.live.get(self.next).cloned()
    }
}

impl Connections {
    pub(crate) fn new(connector: Arc<dyn Connector>, addresses: Vec<Address>, wanted: u32) -> Self {
        let table = Table {
            failed: vec![None; addresses.len()],
            ..Table::default()
        };
        Self {
            connector,
            addresses,
            wanted: wanted.clamp(1, CONNECTIONS_MAX) as usize,
            table: Mutex::new(table),
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
        for index in self.order() {
            let address = &self.addresses[index];
            let made = self.connector.connect(address, NoService::shared()).await;
            self.table.lock().failed[index] = made.is_err().then(Instant::now);
            match made {
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

    /// The addresses in the order of tries.
    fn order(&self) -> Vec<usize> {
        let table = self.table.lock();
        let mut order: Vec<usize> = (0..self.addresses.len()).collect();
        order.sort_by_key(|index| table.is_resting(*index));
        order
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
