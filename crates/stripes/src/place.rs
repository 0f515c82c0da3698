//! Where a file lies: the names of its objects, and its stripes.

use control::ObjectRef;
use layout::{Group, GroupForm, Striping};
use namespace::Inode;

/// The object of a file at a place of its group.
#[must_use]
pub fn object_of(inode: &Inode, group: &Group, index: u32) -> ObjectRef {
    let data = inode.data();
    ObjectRef {
        file_id: data.file.0,
        generation: data.generation,
        place: group.object_place(index),
        group: match group.form {
            GroupForm::Shared => 0,
            GroupForm::Places => group.id,
        },
    }
}

/// How a file lies on a group of `width` data servers; `None` for one without a place.
#[must_use]
pub fn striping_of(inode: &Inode, width: usize) -> Option<Striping> {
    let placement = inode.placement?;
    let width = u32::try_from(width).ok()?;
    Striping::new(placement.stripe_unit, width, placement.first_index).ok()
}
