//! The newest sample of the state, and the places of a server for streams and tunnels, whatever they come in by. Connections that
//! were refused are counted here too.

use bytes::Bytes;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use tokio::sync::{OwnedSemaphorePermit, Semaphore, watch};

/// Streams at once.
pub const STREAMS_MAX: usize = 32;
/// Tunnels at once.
pub const TUNNELS_MAX: usize = 16;

/// The newest sample, and who follows.
#[derive(Debug)]
pub struct Samples {
    pub(crate) newest: watch::Sender<Bytes>,
    places: Arc<Semaphore>,
    tunnels: Arc<Semaphore>,
    tunnels_opened: AtomicU64,
    tunnels_refused: AtomicU64,
    connections_refused: AtomicU64,
}

impl Default for Samples {
    fn default() -> Self {
        Self {
            newest: watch::Sender::new(Bytes::new()),
            places: Arc::new(Semaphore::new(STREAMS_MAX)),
            tunnels: Arc::new(Semaphore::new(TUNNELS_MAX)),
            tunnels_opened: AtomicU64::new(0),
            tunnels_refused: AtomicU64::new(0),
            connections_refused: AtomicU64::new(0),
        }
    }
}

impl Samples {
    /// A place for one more stream, where there is one.
    pub(crate) fn place(&self) -> Option<OwnedSemaphorePermit> {
        Arc::clone(&self.places).try_acquire_owned().ok()
    }

    /// Streams that are open.
    #[must_use]
    pub fn streams_open(&self) -> usize {
        STREAMS_MAX - self.places.available_permits()
    }

    /// A place for one more tunnel, where there is one, and NFS has room for its connection.
    pub(crate) fn tunnel_place(&self, has_room: bool) -> Option<OwnedSemaphorePermit> {
        let place = Arc::clone(&self.tunnels).try_acquire_owned().ok();
        let place = place.filter(|_| has_room);
        let counter = match place {
            Some(_) => &self.tunnels_opened,
            None => &self.tunnels_refused,
        };
        counter.fetch_add(1, Relaxed);
        place
    }

    /// Tunnels that are open.
    #[must_use]
    pub fn tunnels_open(&self) -> usize {
        TUNNELS_MAX - self.tunnels.available_permits()
    }

    /// Tunnels that were opened since the start.
    #[must_use]
    pub fn tunnels_opened(&self) -> u64 {
        self.tunnels_opened.load(Relaxed)
    }

    /// Tunnels for which there was no place.
    #[must_use]
    pub fn tunnels_refused(&self) -> u64 {
        self.tunnels_refused.load(Relaxed)
    }

    /// Notes a connection of an address that had as many as it may have.
    pub(crate) fn count_refused_connection(&self) {
        self.connections_refused.fetch_add(1, Relaxed);
    }

    /// Connections that were closed at once, since their address had as many as it may have.
    #[must_use]
    pub fn connections_refused(&self) -> u64 {
        self.connections_refused.load(Relaxed)
    }
}
