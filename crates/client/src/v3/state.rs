//! The state of a client of NFSv3: its peer, its exports, and the files in use with their written data.
//!
//! # Ordering
//! Of a file, locks are taken in this order: `flushing`, `gate`; the mutex of `dirty` is a leaf. I/O holds `gate` shared; writing
//! lost data again and a new size hold it alone.

use crate::config::ClientConfig;
use crate::dirty::Dirty;
use crate::stats::Stats;
use crate::waits::{WaitReason, Waits};
use crate::{Error, V3Ports};
use nfs3_client::{CallerAuth, Fh, MountClient, Nfs3Client, Nfs3Error};
use parking_lot::Mutex;
use std::collections::HashMap;
use std::future::Future;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Weak};
use tokio::sync::{Mutex as AsyncMutex, RwLock};
use tokio::task::JoinSet;
use transport::{Address, Connector};

/// A server of NFSv3. Cheap to clone; all clones are one client.
#[derive(Debug, Clone)]
pub(crate) struct Client3(pub(super) Arc<Inner3>);

pub(crate) struct Inner3 {
    pub(super) config: ClientConfig,
    pub(super) caller: CallerAuth,
    pub(super) connector: Arc<dyn Connector>,
    pub(super) addresses: Vec<Address>,
    pub(super) ports: V3Ports,
    pub(super) nfs: Nfs3Client,
    pub(super) exports: tokio::sync::Mutex<Exports>,
    /// The least of all exports in use.
    pub(super) read_bytes_max: AtomicU32,
    pub(super) write_bytes_max: AtomicU32,
    /// Files in use.
    pub(super) nodes: Mutex<HashMap<Fh, Weak<Node3>>>,
    pub(super) stats: Stats,
    pub(super) waits: Waits,
    /// Dropped files that are being flushed.
    pub(super) closing: Mutex<JoinSet<()>>,
    pub(super) next_verifier: AtomicU64,
}

impl std::fmt::Debug for Inner3 {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Client")
            .field("addresses", &self.addresses)
            .finish_non_exhaustive()
    }
}

impl Inner3 {
    /// Waits for a call, visibly.
    pub(super) async fn wait<T>(
        &self,
        call: impl Future<Output = Result<T, Nfs3Error>>,
    ) -> Result<T, Error> {
        let _waiting = self.waits.enter(WaitReason::Server);
        call.await.map_err(Error::from)
    }

    /// Largest READ.
    pub(super) fn read_bytes_max(&self) -> u32 {
        self.read_bytes_max.load(Relaxed)
    }

    /// Largest WRITE.
    pub(super) fn write_bytes_max(&self) -> u32 {
        self.write_bytes_max.load(Relaxed)
    }

    /// The node of a file, if it is in use.
    pub(super) fn node_in_use(&self, fh: &Fh) -> Option<Arc<Node3>> {
        self.nodes.lock().get(fh).and_then(Weak::upgrade)
    }
}

/// What is known of the server's exports.
#[derive(Debug, Default)]
pub(super) struct Exports {
    pub(super) mount: Option<MountClient>,
    pub(super) list: Option<Vec<Export>>,
}

/// An export.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Export {
    pub(super) path: Vec<u8>,
    pub(super) names: Vec<Vec<u8>>,
    pub(super) root: Option<Fh>,
}

/// A file in use.
pub(super) struct Node3 {
    pub(super) client: Arc<Inner3>,
    pub(super) fh: Fh,
    pub(super) dirty: Mutex<Dirty<()>>,
    pub(super) flushing: AsyncMutex<()>,
    pub(super) gate: RwLock<()>,
}

impl std::fmt::Debug for Node3 {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Node")
            .field("fh", &self.fh)
            .finish_non_exhaustive()
    }
}
