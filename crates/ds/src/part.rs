//! A part: the object of a file at a place, and the placement group that the place belongs to.

use objects::ObjectId;

/// An object, and the group of its place.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) struct Part {
    /// The object.
    pub(crate) id: ObjectId,
    /// The group; 0 for an object of a group without places. Nobody has copies of those.
    pub(crate) group: u32,
}

impl Part {
    /// The part of a handle.
    pub(crate) fn of_handle(handle: &layout::DsHandle) -> Self {
        Self {
            id: ObjectId {
                file_id: handle.file_id,
                generation: handle.generation,
                place: handle.object_place(),
            },
            group: handle.place.map_or(0, |place| place.group),
        }
    }

    /// The part that the MDS names.
    pub(crate) const fn of_ref(object: &control::ObjectRef) -> Self {
        Self {
            id: ObjectId {
                file_id: object.file_id,
                generation: object.generation,
                place: object.place,
            },
            group: object.group,
        }
    }

    /// The same file and generation at this place.
    pub(crate) const fn of_file(self, file_id: u64, generation: u32) -> Self {
        Self {
            id: ObjectId {
                file_id,
                generation,
                place: self.id.place,
            },
            group: self.group,
        }
    }
}
