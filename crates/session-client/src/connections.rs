//! The connections of one session: made on demand, spread over the server's addresses, used in turn, closed together.
//!
//! A server with several network interfaces has an address for each. There is a connection to each address of the transport in use.
//! Every interface has its part of the work, and the loss of one leaves the others.
//!
//! # Ownership
//! A connection lives in a task of the transport until somebody closes it. Each one that was made is therefore either
//! in the table here or closed.
//!
//! # Failure
//! While one connection lives, the failure to make another is nobody's error, and nobody waits for it. An address that
//! failed is passed over for a while.

use crate::SessionError;
use crate::bare::Binding;
use crate::config::CONNECTIONS_MAX;
use futures_util::StreamExt;
use futures_util::stream::FuturesUnordered;
use parking_lot::Mutex;
use std::mem::discriminant;
use std::sync::Arc;
use std::time::Duration;
use tokio::time::Instant;
use transport::{Address, CloseReason, ConnHandle, ConnectError, Connector, DynService};

/// How long an address that failed is passed over while others will do.
const REST: Duration = Duration::from_secs(5);
/// How long an address may say nothing before the next one is tried beside it.
const STAGGER: Duration = Duration::from_secs(1);

pub(crate) struct Connections {
    connector: Arc<dyn Connector>,
    /// Preferred first; those of one transport one after the other or not.
    addresses: Vec<Address>,
    wanted: usize,
    reverse: Arc<dyn DynService>,
    table: Mutex<Table>,
    /// One makes the first connection, so that a burst of requests does not make one each.
    connecting: tokio::sync::Mutex<()>,
}

#[derive(Default)]
struct Table {
    live: Vec<Tied>,
    /// Since when each address is passed over.
    failed: Vec<Option<Instant>>,
    next: usize,
    /// Whether somebody makes a further connection.
    growing: bool,
    closed: bool,
}

/// A connection, and which address it goes to.
struct Tied {
    conn: ConnHandle,
    address: usize,
}

impl Table {
    fn is_resting(&self, address: usize) -> bool {
        let failed = self.failed.get(address).copied().flatten();
        failed.is_some_and(|at| Instant::now() < at + REST)
    }

    fn load(&self, address: usize) -> usize {
        self.live.iter().filter(|t| t.address == address).count()
    }

    /// The next in turn.
    fn next(&mut self) -> Option<ConnHandle> {
        self.live.retain(|tied| !tied.conn.is_closed());
        self.next = (self.next + 1) % self.live.len().max(1);
        self.live.get(self.next).map(|tied| tied.conn.clone())
    }
}

impl Connections {
    pub(crate) fn new(
        connector: Arc<dyn Connector>,
        addresses: Vec<Address>,
        wanted: u32,
        reverse: Arc<dyn DynService>,
    ) -> Arc<Self> {
        let table = Table {
            failed: vec![None; addresses.len()],
            ..Table::default()
        };
        Arc::new(Self {
            connector,
            addresses,
            wanted: wanted as usize,
            reverse,
            table: Mutex::new(table),
            connecting: tokio::sync::Mutex::new(()),
        })
    }

    /// A connection to the first address that answers; not in the table yet. Transports are tried one after the other;
    /// among the addresses of one, those that failed a short time ago come last.
    pub(crate) async fn connect(&self) -> Result<NewConn, SessionError> {
        let mut error = ConnectError::Unsupported;
        let mut no_rdma = None;
        for alike in self.by_kind() {
            let address = alike.first().map(|index| &self.addresses[*index]);
            let is_rdma = matches!(address, Some(Address::Rdma(_)));
            match self.connect_to_any(alike).await {
                Ok(new) => {
                    if let (Some(from), false) = (no_rdma, is_rdma) {
                        new.handle().fell_back(from, &error);
                    }
                    return Ok(new);
                }
                Err(e) => {
                    no_rdma = address.filter(|_| is_rdma).or(no_rdma);
                    error = e;
                }
            }
        }
        Err(SessionError::Unreachable(error))
    }

    /// To the first of these that answers. One that says nothing for a while does not hold up the next.
    async fn connect_to_any(&self, alike: Vec<usize>) -> Result<NewConn, ConnectError> {
        let mut error = ConnectError::Unsupported;
        let mut tries = FuturesUnordered::new();
        let mut left = alike.into_iter();
        loop {
            let index = left.next();
            tries.extend(index.map(|index| self.connect_to(index)));
            let patience = async {
                match left.len() {
                    0 => std::future::pending().await,
                    _ => tokio::time::sleep(STAGGER).await,
                }
            };
            tokio::select! {
                biased;
                made = tries.next() => match made {
                    Some(Ok(new)) => return Ok(new),
                    Some(Err(e)) => error = e,
                    None => return Err(error),
                },
                () = patience => {}
            }
        }
    }

    async fn connect_to(&self, index: usize) -> Result<NewConn, ConnectError> {
        let reverse = Arc::clone(&self.reverse);
        let made = self
            .connector
            .connect(&self.addresses[index], reverse)
            .await;
        self.table.lock().failed[index] = made.is_err().then(Instant::now);
        made.map(|conn| {
            NewConn(Some(Tied {
                conn,
                address: index,
            }))
        })
    }

    /// The addresses of each transport in the order of tries, preferred transport first.
    fn by_kind(&self) -> Vec<Vec<usize>> {
        let table = self.table.lock();
        let first_of_kind = |index: &usize| self.same_kind(*index).next() == Some(*index);
        let kinds = (0..self.addresses.len()).filter(first_of_kind);
        let sorted = |kind: usize| {
            let mut alike: Vec<usize> = self.same_kind(kind).collect();
            alike.sort_by_key(|index| table.is_resting(*index));
            alike
        };
        kinds.map(sorted).collect()
    }

    /// The addresses of the transport of one of them.
    fn same_kind(&self, of: usize) -> impl Iterator<Item = usize> {
        let of = discriminant(&self.addresses[of]);
        let all = self.addresses.iter().enumerate();
        all.filter(move |(_, a)| discriminant(*a) == of)
            .map(|(index, _)| index)
    }

    /// The address of a connection answers nothing, so others are tried before it for a while.
    pub(crate) fn pass_over(&self, new: &NewConn) {
        self.table.lock().failed[new.address()] = Some(Instant::now());
    }

    /// Puts a connection into the table, or closes it when the session ended meanwhile.
    pub(crate) fn add(&self, mut new: NewConn) -> ConnHandle {
        let conn = new.handle().clone();
        let mut table = self.table.lock();
        if !table.closed {
            table.live.extend(new.0.take());
        }
        conn
    }

    /// The next connection in turn. The first one is waited for; those that are missing beside it are made by themselves,
    /// and tied to the session.
    pub(crate) async fn pick(
        self: &Arc<Self>,
        binding: &Binding,
    ) -> Result<ConnHandle, SessionError> {
        if let Some(conn) = self.next() {
            self.grow(binding);
            return Ok(conn);
        }
        let _one = self.connecting.lock().await;
        if let Some(conn) = self.next() {
            return Ok(conn);
        }
        let new = self.connect().await?;
        self.tie(new, binding).await
    }

    /// Makes a new connection one of the session's.
    async fn tie(&self, new: NewConn, binding: &Binding) -> Result<ConnHandle, SessionError> {
        if let Err(e) = binding.bind(new.handle()).await {
            let address = &self.addresses[new.address()];
            tracing::debug!(%address, "a new connection is not of the session: {e}");
            self.pass_over(&new);
            return Err(e);
        }
        Ok(self.add(new))
    }

    fn next(&self) -> Option<ConnHandle> {
        self.table.lock().next()
    }

    /// Makes another connection if one is missing: to the address that has the fewest.
    fn grow(self: &Arc<Self>, binding: &Binding) {
        let Some(index) = self.lacking() else {
            return;
        };
        let (connections, binding) = (Arc::clone(self), binding.clone());
        tokio::spawn(async move {
            let growing = Growing(connections);
            if let Ok(new) = growing.0.connect_to(index).await {
                // The next request finds out that the session is lost.
                let _ = growing.0.tie(new, &binding).await;
            }
        });
    }

    /// The address to which a connection is to be made, by the task that asks.
    fn lacking(&self) -> Option<usize> {
        let mut table = self.table.lock();
        let kind = table.live.first()?.address;
        let wanted = self.same_kind(kind).count().max(self.wanted);
        if table.growing || table.closed || table.live.len() >= wanted.min(CONNECTIONS_MAX as usize)
        {
            return None;
        }
        let awake = self
            .same_kind(kind)
            .filter(|index| !table.is_resting(*index));
        let index = awake.min_by_key(|index| table.load(*index))?;
        table.growing = true;
        Some(index)
    }

    /// Any live connection.
    pub(crate) fn any(&self) -> Option<ConnHandle> {
        self.next()
    }

    /// Closes all, also those that are still being made.
    pub(crate) fn close(&self) {
        let mut table = self.table.lock();
        table.closed = true;
        for tied in table.live.drain(..) {
            tied.conn.close(CloseReason::Asked);
        }
    }
}

/// Who makes a further connection; dropped, somebody else may.
struct Growing(Arc<Connections>);

impl Drop for Growing {
    fn drop(&mut self) {
        self.0.table.lock().growing = false;
    }
}

/// A connection that belongs to nobody yet: dropped, it is closed.
pub(crate) struct NewConn(Option<Tied>);

impl NewConn {
    pub(crate) fn handle(&self) -> &ConnHandle {
        &self.tied().conn
    }

    fn address(&self) -> usize {
        self.tied().address
    }

    fn tied(&self) -> &Tied {
        self.0.as_ref().expect("only adding takes it")
    }
}

impl Drop for NewConn {
    fn drop(&mut self) {
        if let Some(tied) = self.0.take() {
            tied.conn.close(CloseReason::Asked);
        }
    }
}
