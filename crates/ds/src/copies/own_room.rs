//! The room of this store for what clients write where there are copies (rule P24).
//!
//! It is measured now and then. What came since is counted.

use std::time::Duration;

use objects::ObjectStore;
use tokio::time::Instant;
use tracing_mutex::parkinglot::Mutex;

/// Bytes of a store that are kept for items which were let in before it was known to be full: what the queue of one member
/// holds.
const KEPT_BYTES_MAX: u64 = 64 << 20;
/// Of a small store this part is kept.
const KEPT_SHARE: u64 = 64;
/// The store is measured again after so long, or so many bytes.
const MEASURED_FOR: Duration = Duration::from_millis(100);
const MEASURED_BYTES: u64 = 4 << 20;

#[derive(Clone, Copy)]
struct Measured {
    at: Instant,
    room_bytes: u64,
    /// Bytes that came since.
    taken_bytes: u64,
}

/// The room of this store.
#[derive(Default)]
pub(super) struct OwnRoom(Mutex<Option<Measured>>);

impl OwnRoom {
    /// Bytes that clients may still write. The largest number when the store cannot tell.
    pub(super) fn bytes(&self, objects: &dyn ObjectStore) -> u64 {
        let mut known = self.0.lock();
        let is_fresh =
            |m: &Measured| m.at.elapsed() < MEASURED_FOR && m.taken_bytes < MEASURED_BYTES;
        let measured = known.filter(is_fresh).unwrap_or_else(|| Measured {
            at: Instant::now(),
            room_bytes: measure(objects),
            taken_bytes: 0,
        });
        *known = Some(measured);
        measured.room_bytes.saturating_sub(measured.taken_bytes)
    }

    /// So many bytes came, or come now.
    pub(super) fn take(&self, bytes: u64) {
        if let Some(measured) = &mut *self.0.lock() {
            measured.taken_bytes = measured.taken_bytes.saturating_add(bytes);
        }
    }
}

fn measure(objects: &dyn ObjectStore) -> u64 {
    objects.capacity().map_or(u64::MAX, |capacity| {
        let kept = KEPT_BYTES_MAX.min(capacity.total_bytes / KEPT_SHARE);
        capacity.free_bytes.saturating_sub(kept)
    })
}
