//! The state of a client: its session with the MDS, and the files in use, each with its opens, its layout and its written data.
//! All handles of one file share it.
//!
//! # Ordering
//! Locks are taken in this order: `flushing`, `gate`, `getting`; the small mutexes inside are leaves.
//! I/O holds `gate` shared; returning the layout and writing lost data again hold it alone.

use crate::ClientConfig;
use crate::device::{Devices, Ds};
use crate::dirty::Dirty;
use crate::held_layout::LayoutState;
use crate::held_locks::Locks;
use crate::offloads::Offloads;
use crate::stats::Stats;
use crate::threshold::Small;
use crate::waits::Waits;
use nfs4::ops::{SHARE_ACCESS_READ, SHARE_ACCESS_WRITE};
use nfs4::{ClientId, FileHandle, SessionId, Stateid};
use parking_lot::Mutex;
use session_client::{Caller, Session};
use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Weak};
use tokio::sync::{Mutex as AsyncMutex, Notify, RwLock};
use tokio::task::JoinSet;
use transport::Connector;

/// What all clones of a client share.
pub(crate) struct Inner {
    pub(crate) config: ClientConfig,
    pub(crate) connector: Arc<dyn Connector>,
    pub(crate) caller: Caller,
    pub(crate) session: Arc<Session>,
    pub(crate) recovery: tokio::sync::Mutex<Recovery>,
    /// The session whose state was reclaimed; requests of others wait for recovery.
    pub(crate) ready: Mutex<Option<SessionId>>,
    pub(crate) nodes: Mutex<HashMap<FileHandle, Weak<Node>>>,
    pub(crate) devices: Devices,
    pub(crate) offloads: Offloads,
    pub(crate) stats: Stats,
    pub(crate) waits: Waits,
    /// Dropped files that are being closed.
    pub(crate) closing: Mutex<JoinSet<()>>,
    pub(crate) next_owner: AtomicU64,
    pub(crate) lease_s: AtomicU32,
    pub(crate) closed: AtomicBool,
    pub(crate) stop: Arc<Notify>,
}

impl std::fmt::Debug for Inner {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Client")
            .field("session", &self.session)
            .finish_non_exhaustive()
    }
}

impl Drop for Inner {
    fn drop(&mut self) {
        self.stop.notify_one();
    }
}

impl Inner {
    /// Files in use, in the order of their handles: recoveries go the same way in every simulated run.
    pub(crate) fn live_nodes(&self) -> Vec<Arc<Node>> {
        let mut nodes = self.nodes.lock();
        nodes.retain(|_, node| node.strong_count() > 0);
        let mut live: Vec<_> = nodes.values().filter_map(Weak::upgrade).collect();
        live.sort_unstable_by(|a, b| a.fh.cmp(&b.fh));
        live
    }
}

/// Whose state the server holds.
#[derive(Debug, Default)]
pub(crate) struct Recovery {
    pub(crate) client: Option<ClientId>,
}

/// Who holds written data, and answers for them by one COMMIT.
#[derive(Debug, Clone)]
pub(crate) enum Target {
    /// A data server, with the file's handle there.
    Ds(Arc<Ds>, FileHandle),
    /// The MDS, for data on data servers: the layout wants it so (`NFL4_UFLG_COMMIT_THRU_MDS`).
    ThroughMds,
    /// The MDS, for data that it took itself.
    Mds,
}

impl Target {
    /// Whether the MDS learns of the data by LAYOUTCOMMIT only.
    pub(crate) const fn needs_layoutcommit(&self) -> bool {
        !matches!(self, Self::Mds)
    }
}

impl PartialEq for Target {
    fn eq(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::Mds, Self::Mds) | (Self::ThroughMds, Self::ThroughMds) => true,
            (Self::Ds(a, fa), Self::Ds(b, fb)) => Arc::ptr_eq(a, b) && fa == fb,
            _ => false,
        }
    }
}

/// One OPEN at the server.
#[derive(Debug)]
pub(crate) struct Open {
    pub(crate) owner: Vec<u8>,
    /// `SHARE_ACCESS_*`.
    pub(crate) access: u32,
    stateid: Mutex<Stateid>,
    lost: AtomicBool,
    pub(crate) locks: Locks,
}

impl Open {
    pub(crate) fn new(owner: Vec<u8>, access: u32, stateid: Stateid) -> Arc<Self> {
        Arc::new(Self {
            owner,
            access,
            stateid: Mutex::new(stateid),
            lost: AtomicBool::new(false),
            locks: Locks::default(),
        })
    }

    pub(crate) fn stateid(&self) -> Stateid {
        *self.stateid.lock()
    }

    /// For I/O: "the current one" (RFC 8881 §13.9.1 demands it at a DS).
    pub(crate) fn io_stateid(&self) -> Stateid {
        Stateid {
            seqid: 0,
            ..self.stateid()
        }
    }

    pub(crate) fn set_stateid(&self, stateid: Stateid) {
        *self.stateid.lock() = stateid;
        self.lost.store(false, Relaxed);
    }

    pub(crate) fn mark_lost(&self) {
        self.lost.store(true, Relaxed);
    }

    pub(crate) fn is_lost(&self) -> bool {
        self.lost.load(Relaxed)
    }

    pub(crate) fn can_read(&self) -> bool {
        self.access & SHARE_ACCESS_READ != 0
    }

    pub(crate) fn can_write(&self) -> bool {
        self.access & SHARE_ACCESS_WRITE != 0
    }
}

pub(crate) struct Node {
    pub(crate) client: Arc<Inner>,
    pub(crate) fh: FileHandle,
    opens: Mutex<Vec<Arc<Open>>>,
    pub(crate) layout: Mutex<LayoutState>,
    pub(crate) dirty: Mutex<Dirty<Target>>,
    pub(crate) small: Mutex<Small>,
    pub(crate) flushing: AsyncMutex<()>,
    pub(crate) gate: RwLock<()>,
    pub(crate) getting: AsyncMutex<()>,
}

impl std::fmt::Debug for Node {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Node")
            .field("fh", &self.fh)
            .finish_non_exhaustive()
    }
}

impl Node {
    /// The node of a file, which the table knows from now on, with one more open.
    pub(crate) fn open(client: &Arc<Inner>, fh: FileHandle, open: Arc<Open>) -> Arc<Self> {
        let mut nodes = client.nodes.lock();
        let node = nodes.get(&fh).and_then(Weak::upgrade).unwrap_or_else(|| {
            // Nodes that nobody uses any more go when their number has doubled, so this is cheap on average.
            if nodes.len() == nodes.capacity() {
                nodes.retain(|_, node| node.strong_count() > 0);
            }
            let node = Arc::new(Self {
                client: Arc::clone(client),
                fh: fh.clone(),
                opens: Mutex::default(),
                layout: Mutex::default(),
                dirty: Mutex::default(),
                small: Mutex::default(),
                flushing: AsyncMutex::default(),
                gate: RwLock::default(),
                getting: AsyncMutex::default(),
            });
            nodes.insert(fh, Arc::downgrade(&node));
            node
        });
        node.opens.lock().push(open);
        node
    }

    /// The opens at this moment.
    pub(crate) fn opens(&self) -> Vec<Arc<Open>> {
        self.opens.lock().clone()
    }

    /// An open that allows writing.
    pub(crate) fn writable_open(&self) -> Option<Arc<Open>> {
        let opens = self.opens.lock();
        opens
            .iter()
            .find(|o| o.can_write() && !o.is_lost())
            .cloned()
    }

    /// Forgets an open; `true` when it was the last.
    pub(crate) fn forget_open(&self, open: &Arc<Open>) -> bool {
        let mut opens = self.opens.lock();
        opens.retain(|o| !Arc::ptr_eq(o, open));
        opens.is_empty()
    }

    /// The only open is this one.
    pub(crate) fn is_only_open(&self, open: &Arc<Open>) -> bool {
        self.opens.lock().iter().all(|o| Arc::ptr_eq(o, open))
    }

    /// The server does not know the layout any more.
    pub(crate) fn forget_layout(&self) {
        self.layout.lock().forget();
    }
}
