//! What a device would have registered: slabs, each as a whole, when a buffer of theirs is first used.

use crate::slab::{SlabUser, slab_at};
use parking_lot::Mutex;
use std::collections::BTreeSet;
use std::sync::{Arc, Weak};

/// A protection domain without a device: the slabs that it knows, by their first address.
#[derive(Debug, Default)]
pub(super) struct Domain(Mutex<BTreeSet<usize>>);

impl Domain {
    /// A transfer uses these bytes; whether their slab is new here. Bytes in no slab would be copied into one.
    pub(super) fn uses(self: &Arc<Self>, bytes: &[u8]) -> bool {
        if bytes.is_empty() {
            return false;
        }
        let Some(slab) = slab_at(bytes.as_ptr().addr()) else {
            return false;
        };
        let is_new = self.0.lock().insert(slab.range().start);
        if is_new {
            let me: Weak<Self> = Arc::downgrade(self);
            slab.tell(me);
        }
        is_new
    }
}

impl SlabUser for Domain {
    fn forget(&self, start: usize) {
        self.0.lock().remove(&start);
    }
}
