//! The newest sample of the state, and the places of a server for streams and tunnels, whatever they come in by.

use bytes::Bytes;
use std::sync::Arc;
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
}

impl Default for Samples {
    fn default() -> Self {
        Self {
            newest: watch::Sender::new(Bytes::new()),
            places: Arc::new(Semaphore::new(STREAMS_MAX)),
            tunnels: Arc::new(Semaphore::new(TUNNELS_MAX)),
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

    /// A place for one more tunnel, where there is one.
    pub(crate) fn tunnel_place(&self) -> Option<OwnedSemaphorePermit> {
        Arc::clone(&self.tunnels).try_acquire_owned().ok()
    }
}
