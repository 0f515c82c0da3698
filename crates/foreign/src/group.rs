//! Groups over servers of others: which server holds which stripe of which mirror. Owns the numbers of groups and their shape.

use crate::records::{GroupRecord, SERVERS_MAX};
use layout::Striping;

/// Lowest id of a group over servers of others.
pub const FOREIGN_GROUP_MIN: u32 = 0x4000_0000;
/// Highest one.
pub const FOREIGN_GROUP_MAX: u32 = 0x7fff_ffff;
/// Most mirrors of a file.
pub const MIRRORS_MAX: u32 = layout::COPIES_MAX;

/// Whether the id of a placement group is that of a group over servers of others.
#[must_use]
pub const fn is_foreign(group: u32) -> bool {
    group >= FOREIGN_GROUP_MIN && group <= FOREIGN_GROUP_MAX
}

impl GroupRecord {
    /// Whether there can be a group like that.
    #[must_use]
    pub fn is_sound(&self) -> bool {
        let places = self.width.checked_mul(self.mirrors);
        is_foreign(self.id)
            && (1..=MIRRORS_MAX).contains(&self.mirrors)
            && (1..=SERVERS_MAX).contains(&self.width)
            && places == u32::try_from(self.servers.0.len()).ok()
    }
}

/// A group. It never changes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ForeignGroup {
    /// The group.
    pub id: u32,
    /// Stripes.
    pub width: u32,
    /// Copies of each stripe.
    pub mirrors: u32,
    /// `servers[mirror * width + stripe]`.
    pub servers: Vec<u32>,
}

impl ForeignGroup {
    pub(crate) fn of(record: GroupRecord) -> Self {
        Self {
            id: record.id,
            width: record.width,
            mirrors: record.mirrors,
            servers: record.servers.0,
        }
    }

    /// The server of a stripe of a mirror.
    #[must_use]
    pub fn server(&self, mirror: u32, stripe: u32) -> Option<u32> {
        let place = mirror.checked_mul(self.width)?.checked_add(stripe)?;
        let is_there = mirror < self.mirrors && stripe < self.width;
        is_there.then(|| self.servers.get(place as usize).copied())?
    }

    /// Bits of all mirrors.
    #[must_use]
    pub const fn all_mirrors(&self) -> u32 {
        match 1u32.checked_shl(self.mirrors) {
            Some(next) => next - 1,
            None => u32::MAX,
        }
    }

    /// How a file with this stripe unit lies over the stripes; `None` for a unit that cannot be.
    #[must_use]
    pub fn striping(&self, stripe_unit: u32) -> Option<Striping> {
        Striping::new(stripe_unit, self.width, 0).ok()
    }
}
