//! A small table of handles whose MAC was verified, so that a client that reads a file costs one MAC, not one for each READ.
//!
//! An entry says that a key of ring `generation` signed these bytes, and which client owner was found to match their tag. It
//! says nothing of floors. The table is direct-mapped: an entry gives way to the next one of its slot.

use std::sync::Arc;

use layout::{DsHandle, SignedHandle};
use tracing_mutex::parkinglot::Mutex;

/// Slots of the table, a power of two; each takes about 180 bytes.
const SLOTS: usize = 4096;

#[derive(Debug, Clone)]
pub(crate) struct Verified {
    pub(crate) handle: DsHandle,
    /// The key ring that verified it.
    pub(crate) generation: u64,
    /// The last owner whose tag is that of the handle.
    pub(crate) owner: Option<Arc<[u8]>>,
}

struct Entry {
    bytes: SignedHandle,
    verified: Verified,
}

pub(crate) struct Handles {
    slots: Box<[Mutex<Option<Entry>>]>,
}

impl Handles {
    pub(crate) fn new() -> Self {
        Self {
            slots: (0..SLOTS).map(|_| Mutex::new(None)).collect(),
        }
    }

    /// By file, place, epoch, rights and client; never by the MAC, which a guess may not come near to.
    fn slot(&self, bytes: &SignedHandle) -> &Mutex<Option<Entry>> {
        let bytes = bytes.as_bytes();
        let pair = |at: usize| usize::from(u16::from_be_bytes([bytes[at], bytes[at + 1]]));
        let mixed = pair(22)
            ^ pair(20)
            ^ pair(34)
            ^ pair(36)
            ^ usize::from(bytes[1]) << 4
            ^ usize::from(bytes[2]) << 8;
        &self.slots[mixed % SLOTS]
    }

    pub(crate) fn find(&self, bytes: &SignedHandle, generation: u64) -> Option<Verified> {
        let slot = self.slot(bytes).lock();
        let entry = slot.as_ref()?;
        let known = entry.verified.generation == generation && same(&entry.bytes, bytes);
        known.then(|| entry.verified.clone())
    }

    pub(crate) fn keep(&self, bytes: &SignedHandle, verified: Verified) {
        *self.slot(bytes).lock() = Some(Entry {
            bytes: *bytes,
            verified,
        });
    }
}

/// Compares all bytes whatever they are: the time must not tell how much of a MAC was guessed.
fn same(a: &SignedHandle, b: &SignedHandle) -> bool {
    let differing = (a.as_bytes().iter().zip(b.as_bytes())).fold(0, |d, (x, y)| d | (x ^ y));
    std::hint::black_box(differing) == 0
}
