//! Where a file lies: the name of its objects, and its stripes.

use control::ObjectRef;
use layout::Striping;
use namespace::Inode;

/// The object of a file, the same at every data server.
#[must_use]
pub fn object_of(inode: &Inode) -> ObjectRef {
    ObjectRef {
        file_id: inode.id.0,
        generation: inode.generation,
        mirror: 0,
    }
}

/// How a file lies on a group of `width` data servers; `None` for one without a place.
#[must_use]
pub fn striping_of(inode: &Inode, width: usize) -> Option<Striping> {
    let placement = inode.placement?;
    let width = u32::try_from(width).ok()?;
    Striping::new(placement.stripe_unit, width, placement.first_index).ok()
}
