//! What `ropewalk status` shows of files and data servers.

use crate::fs::Fs;
use cluster::ClusterStatus;
use std::sync::atomic::Ordering::Relaxed;

/// The state of the file service.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FsStatus {
    /// The data servers, their groups and keys.
    pub cluster: ClusterStatus,
    /// Bytes read through the MDS.
    pub proxied_read_bytes: u64,
    /// Bytes written through the MDS.
    pub proxied_written_bytes: u64,
    /// Layouts refused since the client takes no reply of their size.
    pub layouts_too_wide: u64,
    /// Files whose size is being recovered.
    pub sizes_unknown: usize,
    /// Truncations under way.
    pub truncations: usize,
}

impl Fs {
    /// The state of the file service now.
    pub fn status(&self) -> FsStatus {
        let (own_read_bytes, own_written_bytes) = self.peers.bytes();
        let proxied_read_bytes = own_read_bytes + self.foreign_read_bytes.load(Relaxed);
        let proxied_written_bytes = own_written_bytes + self.foreign_written_bytes.load(Relaxed);
        FsStatus {
            cluster: self.cluster.status(),
            proxied_read_bytes,
            proxied_written_bytes,
            layouts_too_wide: self.too_wide_count(),
            sizes_unknown: self.layouts.unknown.lock().len(),
            truncations: self.layouts.truncating.lock().len(),
        }
    }
}
