//! What a data server counts, and the snapshot of it that heartbeats and `ropewalk status` show.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

/// Running totals since the start of the process.
#[derive(Debug, Default)]
pub(crate) struct Counts {
    pub(crate) client_read_bytes: AtomicU64,
    pub(crate) client_written_bytes: AtomicU64,
    pub(crate) proxy_read_bytes: AtomicU64,
    pub(crate) proxy_written_bytes: AtomicU64,
    pub(crate) reads: AtomicU64,
    pub(crate) writes: AtomicU64,
    pub(crate) commits: AtomicU64,
    pub(crate) cold_reads: AtomicU64,
    pub(crate) parts_compared: AtomicU64,
    pub(crate) sizes_asked: AtomicU64,
    pub(crate) wrote_reports: AtomicU64,
    pub(crate) forged: AtomicU64,
    pub(crate) of_others: AtomicU64,
    pub(crate) fenced: AtomicU64,
    pub(crate) removed: AtomicU64,
    pub(crate) rights: AtomicU64,
    pub(crate) other_place: AtomicU64,
    pub(crate) few_copies: AtomicU64,
    pub(crate) not_serving: AtomicU64,
    pub(crate) stateids: AtomicU64,
    pub(crate) objects_lost: AtomicU64,
    pub(crate) io_errors: AtomicU64,
    pub(crate) no_space: AtomicU64,
    /// Read out of files into memory.
    pub(crate) read_copied_bytes: AtomicU64,
}

/// Adds one.
pub(crate) fn count(counter: &AtomicU64) {
    counter.fetch_add(1, Relaxed);
}

/// Adds bytes.
pub(crate) fn add(counter: &AtomicU64, bytes: usize) {
    counter.fetch_add(bytes as u64, Relaxed);
}

/// Refused operations by kind.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Refusals {
    /// No live key signed the handle, or it was altered.
    pub forged: u64,
    /// A good handle of another client.
    pub of_others: u64,
    /// Below a floor, or signed under a retired key.
    pub fenced: u64,
    /// Of a removed file.
    pub removed: u64,
    /// A write with a handle for reading.
    pub rights: u64,
    /// Of another place, or of another reign of this one.
    pub other_place: u64,
    /// Changes and promises while fewer members of the place were in sync than must be.
    pub few_copies: u64,
    /// No lease, or floors are still to come.
    pub not_serving: u64,
    /// Special and layout stateids.
    pub stateids: u64,
}

/// Whether the data server serves, and if not, why.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LeaseState {
    /// Never said HELLO, or the lease has ended.
    Away,
    /// Connected; floors that it missed are still to come.
    CatchingUp,
    /// Serves for so many milliseconds more, if no HEARTBEAT is answered.
    Serving {
        /// What is left of the lease.
        left_ms: u64,
    },
    /// Out of the cluster.
    Expelled,
}

/// A snapshot.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct DsStatus {
    /// The store.
    pub store_id: u64,
    /// Starts of this store.
    pub counter: u64,
    /// Changes of the store that no crash takes back.
    pub changes: u64,
    /// The id in the cluster, once joined.
    pub ds_id: Option<u32>,
    /// Whether it serves.
    pub lease: LeaseState,
    /// Size of the object store in bytes.
    pub total_bytes: u64,
    /// What is left of it.
    pub free_bytes: u64,
    /// Bytes of the index.
    pub index_bytes: u64,
    /// Bytes of the redo log that records take; 0 without a log.
    pub redo_used_bytes: u64,
    /// Size of the redo log in bytes; 0 without one.
    pub redo_capacity_bytes: u64,
    /// Objects in the index.
    pub objects_count: u64,
    /// Floors and tombstones.
    pub floors_count: u64,
    /// Bytes that clients read.
    pub client_read_bytes: u64,
    /// Bytes that clients wrote.
    pub client_written_bytes: u64,
    /// Bytes that the MDS read for clients without layouts.
    pub proxy_read_bytes: u64,
    /// Bytes that the MDS wrote for them.
    pub proxy_written_bytes: u64,
    /// READ operations that were admitted.
    pub reads: u64,
    /// WRITE operations that were admitted.
    pub writes: u64,
    /// COMMIT operations that were admitted.
    pub commits: u64,
    /// READs that waited for a disk.
    pub cold_reads: u64,
    /// Parts that were compared with those of a member that is filled.
    pub parts_compared: u64,
    /// SIZE calls to the MDS.
    pub sizes_asked: u64,
    /// WROTE calls to the MDS.
    pub wrote_reports: u64,
    /// Refused operations.
    pub refusals: Refusals,
    /// Times that an indexed object was found missing or short (R9).
    pub objects_lost: u64,
    /// Errors of the store's disk.
    pub io_errors: u64,
    /// Writes that found the store full.
    pub no_space: u64,
    /// Bytes that were copied to get into the object store or out of it, in memory or between memory and files.
    pub store_copied_bytes: u64,
}

impl Counts {
    /// Operations of clients, to see whether some are served.
    pub(crate) fn of_clients(&self) -> u64 {
        self.reads.load(Relaxed) + self.writes.load(Relaxed)
    }

    pub(crate) fn refusals(&self) -> Refusals {
        Refusals {
            forged: self.forged.load(Relaxed),
            of_others: self.of_others.load(Relaxed),
            fenced: self.fenced.load(Relaxed),
            removed: self.removed.load(Relaxed),
            rights: self.rights.load(Relaxed),
            other_place: self.other_place.load(Relaxed),
            few_copies: self.few_copies.load(Relaxed),
            not_serving: self.not_serving.load(Relaxed),
            stateids: self.stateids.load(Relaxed),
        }
    }

    /// As HEARTBEAT carries them.
    pub(crate) fn to_wire(&self) -> control::Counters {
        control::Counters {
            client_read_bytes: self.client_read_bytes.load(Relaxed),
            client_written_bytes: self.client_written_bytes.load(Relaxed),
            proxy_read_bytes: self.proxy_read_bytes.load(Relaxed),
            proxy_written_bytes: self.proxy_written_bytes.load(Relaxed),
            handles_forged: self.forged.load(Relaxed),
            handles_of_others: self.of_others.load(Relaxed),
            handles_fenced: self.fenced.load(Relaxed),
            handles_removed: self.removed.load(Relaxed),
            objects_lost: self.objects_lost.load(Relaxed),
            io_errors: self.io_errors.load(Relaxed),
        }
    }
}
