//! A built-in fault: an object store that answers `sync` without doing it.

use objects::{Capacity, MemObjects, ObjectError, ObjectId, ObjectStat, ObjectStore, Span};
use std::sync::Arc;

/// The store that lies.
#[derive(Debug)]
pub(crate) struct LyingObjects(pub(crate) Arc<MemObjects>);

impl ObjectStore for LyingObjects {
    fn read(&self, id: ObjectId, offset: u64, len: u32) -> Result<Span, ObjectError> {
        self.0.read(id, offset, len)
    }

    fn write(&self, id: ObjectId, offset: u64, data: &[u8]) -> Result<(), ObjectError> {
        self.0.write(id, offset, data)
    }

    fn sync(&self, _: ObjectId) -> Result<(), ObjectError> {
        Ok(())
    }

    fn stat(&self, id: ObjectId) -> Result<ObjectStat, ObjectError> {
        self.0.stat(id)
    }

    fn set_size(&self, id: ObjectId, size_bytes: u64) -> Result<(), ObjectError> {
        self.0.set_size(id, size_bytes)
    }

    fn remove(&self, id: ObjectId) -> Result<(), ObjectError> {
        self.0.remove(id)
    }

    fn is_cached(&self, id: ObjectId, offset: u64, len: u32) -> bool {
        self.0.is_cached(id, offset, len)
    }

    fn capacity(&self) -> Result<Capacity, ObjectError> {
        self.0.capacity()
    }

    fn list(&self, visit: &mut dyn FnMut(ObjectId, ObjectStat) -> bool) -> Result<(), ObjectError> {
        self.0.list(visit)
    }

    fn tie(&self, index_id: u64, knows_objects: bool) -> Result<(), ObjectError> {
        self.0.tie(index_id, knows_objects)
    }

    fn is_persistent(&self) -> bool {
        self.0.is_persistent()
    }
}
