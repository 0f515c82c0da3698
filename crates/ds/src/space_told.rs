//! What the MDS was last told that objects take up: a stable write then tells what it has added, and the MDS need not ask.
//!
//! # Ordering
//! STAT sets what is told, and a stable write moves it on. What both do at the same time may be told twice. The MDS therefore measures a file once more that is written to right after it was measured.
//!
//! # Failure
//! An object that is not here tells nothing, and the MDS asks. So it is after a start, and after a report that failed.

use objects::ObjectId;
use rustc_hash::FxHashMap;
use tracing_mutex::parkinglot::Mutex;

/// Most objects that are remembered; one more, and all are forgotten.
const OBJECTS_MAX: usize = 65_536;

/// Allocated bytes by object, as the MDS was told.
#[derive(Debug, Default)]
pub(crate) struct SpaceTold {
    objects: Mutex<FxHashMap<ObjectId, u64>>,
}

impl SpaceTold {
    /// The MDS learns what the object takes up.
    pub(crate) fn set(&self, id: ObjectId, allocated_bytes: u64) {
        let mut objects = self.objects.lock();
        if objects.len() >= OBJECTS_MAX && !objects.contains_key(&id) {
            objects.clear();
        }
        objects.insert(id, allocated_bytes);
    }

    /// Whether the MDS knows what the object takes up.
    pub(crate) fn is_known(&self, id: ObjectId) -> bool {
        self.objects.lock().contains_key(&id)
    }

    /// The bytes that came since the MDS was last told, which is told of them now. `None` if it must ask.
    pub(crate) fn advance(&self, id: ObjectId, allocated_bytes: u64) -> Option<u64> {
        let mut objects = self.objects.lock();
        let told = objects.get_mut(&id)?;
        let added = allocated_bytes.checked_sub(*told);
        *told = allocated_bytes;
        added
    }

    /// It may not have heard of the last step.
    pub(crate) fn forget(&self, id: ObjectId) {
        self.objects.lock().remove(&id);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const fn object(file_id: u64) -> ObjectId {
        ObjectId {
            file_id,
            generation: 1,
            place: 0,
        }
    }

    #[test]
    fn each_byte_is_told_once_and_in_doubt_none() {
        let told = SpaceTold::default();
        assert_eq!(told.advance(object(1), 4096), None, "nothing is known");
        told.set(object(1), 4096);
        let steps = [(4096, Some(0)), (12_288, Some(8192)), (12_288, Some(0))];
        for (now, added) in steps {
            assert_eq!(told.advance(object(1), now), added);
        }
        // A hole was made meanwhile.
        assert_eq!(told.advance(object(1), 8192), None);
        assert_eq!(told.advance(object(1), 12_288), Some(4096));
        told.forget(object(1));
        assert!(!told.is_known(object(1)));
    }

    #[test]
    fn there_is_a_limit() {
        let told = SpaceTold::default();
        (0..OBJECTS_MAX as u64).for_each(|file| told.set(object(file), 1));
        told.set(object(3), 2);
        assert!(told.is_known(object(0)));
        told.set(object(OBJECTS_MAX as u64), 1);
        assert!(!told.is_known(object(0)) && told.is_known(object(OBJECTS_MAX as u64)));
    }
}
