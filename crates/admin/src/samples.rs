//! The newest sample of the state, and places for those who follow it.

use bytes::Bytes;
use std::sync::Arc;
use tokio::sync::{OwnedSemaphorePermit, Semaphore, watch};

/// Streams at once.
pub const STREAMS_MAX: usize = 32;

/// The newest sample, and who follows.
#[derive(Debug)]
pub struct Samples {
    pub(crate) newest: watch::Sender<Bytes>,
    places: Arc<Semaphore>,
}

impl Default for Samples {
    fn default() -> Self {
        Self {
            newest: watch::Sender::new(Bytes::new()),
            places: Arc::new(Semaphore::new(STREAMS_MAX)),
        }
    }
}

impl Samples {
    /// A place for one more stream, where there is one.
    pub(crate) fn place(&self) -> Option<OwnedSemaphorePermit> {
        Arc::clone(&self.places).try_acquire_owned().ok()
    }
}
