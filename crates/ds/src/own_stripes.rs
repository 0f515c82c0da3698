//! The stripes of an object that lie on this data server.

use control::{Range, Status};
use layout::Striping;
use objects::{ObjectError, ObjectId, ObjectStore};

/// Stripes whose storage one RESERVE takes.
const UNITS_MAX: usize = 1024;

/// The stripes of this data server.
#[derive(Clone, Copy)]
pub(crate) struct Own {
    striping: Striping,
    index: u32,
}

impl Own {
    pub(crate) fn of(stripes: control::Stripes) -> Result<Self, Status> {
        let striping = stripes.striping().ok_or(Status::Invalid)?;
        Ok(Self {
            striping,
            index: stripes.index,
        })
    }

    /// As a message says them.
    pub(crate) fn stripes(self) -> control::Stripes {
        control::Stripes::of(self.striping, self.index)
    }

    pub(crate) fn next(self, offset: u64) -> u64 {
        self.striping.next_own(self.index, offset)
    }
}

/// Takes storage for some own stripes; returns how far.
pub(crate) fn reserve_own(
    objects: &dyn ObjectStore,
    id: ObjectId,
    own: Own,
    asked: Range,
) -> Result<u64, ObjectError> {
    let unit_bytes = u64::from(own.striping.unit_bytes());
    let mut at = own.next(asked.start);
    check_room(objects, id, own, asked)?;
    for _ in 0..UNITS_MAX {
        if at >= asked.end {
            return Ok(asked.end);
        }
        let stop = if own.striping.width() == 1 {
            asked.end
        } else {
            asked.end.min(at - at % unit_bytes + unit_bytes)
        };
        objects.reserve(id, at, stop - at)?;
        at = own.next(stop);
    }
    Ok(at.min(asked.end))
}

/// Refuses what cannot be had at all, before any of it is taken. What the object has already counts in its favour.
fn check_room(
    objects: &dyn ObjectStore,
    id: ObjectId,
    own: Own,
    asked: Range,
) -> Result<(), ObjectError> {
    if more_bytes(objects, id, own, asked)? > objects.capacity()?.free_bytes {
        return Err(ObjectError::NoSpace);
    }
    Ok(())
}

/// Bytes that own stripes of a range take at least, beyond what the object has.
pub(crate) fn more_bytes(
    objects: &dyn ObjectStore,
    id: ObjectId,
    own: Own,
    asked: Range,
) -> Result<u64, ObjectError> {
    let unit_bytes = u64::from(own.striping.unit_bytes());
    let share = asked.end.saturating_sub(asked.start) / u64::from(own.striping.width());
    let taken = match objects.stat(id) {
        Ok(stat) => stat.allocated_bytes,
        Err(ObjectError::NotFound) => 0,
        Err(e) => return Err(e),
    };
    Ok(share.saturating_sub(unit_bytes).saturating_sub(taken))
}
