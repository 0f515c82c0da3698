//! The rows that the MDS has told: of which places this server is a member, and who is primary (rules P2, P3, P4).
//!
//! # Ownership
//! [`Rows`] belongs to the gate and lies under its lock. It says what holds on the present connection. What it was told
//! before HELLO is forgotten, since the MDS tells all of it again.
//!
//! # Ordering
//! The newest version of a group that was ever told is durable in the index before ROWS is answered, and before the row
//! counts. An older one is not taken: the MDS's store went back (rule P21).

use std::sync::Arc;

use control::{PlaceReign, PlaceRow};
use layout::{COPIES_MAX, GROUPS_MAX, HandlePlace, MemberState, Row, Striping};
use rustc_hash::FxHashMap;

/// Most rows that are kept: of each group, a data server has a few places.
const ROWS_MAX: usize = GROUPS_MAX * 4 * COPIES_MAX as usize;

/// What is known of a place.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct OwnRow {
    /// Places of the group.
    pub(crate) width: u32,
    /// The members that hold the parts.
    pub(crate) row: Row,
    /// With fewer members in sync nothing is changed and nothing promised (rule P20).
    pub(crate) copies_min: u32,
}

impl OwnRow {
    /// Whether enough members are in sync for changes and promises.
    pub(crate) fn has_copies(&self) -> bool {
        let in_sync = self.row.in_state(MemberState::Sync).count();
        in_sync >= self.copies_min as usize
    }
}

/// See the module.
#[derive(Debug, Default)]
pub(crate) struct Rows {
    by_place: FxHashMap<(u32, u32), Arc<OwnRow>>,
    /// Reigns of places that this server has let go (rule P14).
    yielded: FxHashMap<(u32, u32), u32>,
    /// Rises with each change.
    changes: u64,
}

/// The stripes that a handle is for.
#[derive(Debug, Clone, Copy)]
pub(crate) struct HandleStripes {
    striping: Striping,
    index: u32,
    is_alone: bool,
    has_copies: bool,
}

impl HandleStripes {
    /// Whether the place has one member.
    pub(crate) const fn is_alone(self) -> bool {
        self.is_alone
    }

    /// Whether enough members are in sync for changes and promises.
    pub(crate) const fn has_copies(self) -> bool {
        self.has_copies
    }

    /// Whether all of `len` bytes from `offset` on are among them.
    pub(crate) fn have_all(self, offset: u64, len: u64) -> bool {
        self.striping.has_all(self.index, offset, len)
    }
}

impl Rows {
    /// Forgets all: another connection begins.
    pub(crate) fn clear(&mut self) {
        self.by_place.clear();
        self.yielded.clear();
        self.changes += 1;
    }

    /// Takes a row. Returns false when there are too many.
    pub(crate) fn take(&mut self, told: PlaceRow) -> bool {
        let key = (told.group, told.place);
        // Answers of two calls may come in any order.
        if self
            .by_place
            .get(&key)
            .is_some_and(|known| known.row.era > told.row.era)
        {
            return true;
        }
        if self.by_place.len() >= ROWS_MAX && !self.by_place.contains_key(&key) {
            return false;
        }
        if self
            .yielded
            .get(&key)
            .is_some_and(|reign| *reign != told.row.reign)
        {
            self.yielded.remove(&key);
        }
        let row = OwnRow {
            width: told.width,
            row: told.row,
            copies_min: told.copies_min,
        };
        self.by_place.insert(key, Arc::new(row));
        self.changes += 1;
        true
    }

    /// Notes that `ds` has left a place: the MDS tells it no more of that. The row stays, so that an older one which is
    /// still on its way does not make `ds` a member again.
    pub(crate) fn forget_left(&mut self, group: u32, place: u32, ds: u32) {
        let Some(known) = self.by_place.get_mut(&(group, place)) else {
            return;
        };
        if known.row.state_of(ds) == Some(MemberState::Leaving) {
            Arc::make_mut(known).row.members.0.retain(|m| m.ds != ds);
            self.changes += 1;
        }
    }

    /// Rises with each change.
    pub(crate) fn changes(&self) -> u64 {
        self.changes
    }

    /// The row of a place.
    pub(crate) fn of(&self, group: u32, place: u32) -> Option<&Arc<OwnRow>> {
        self.by_place.get(&(group, place))
    }

    /// All rows: group, place and row.
    pub(crate) fn all(&self) -> impl Iterator<Item = (u32, u32, &Arc<OwnRow>)> {
        let rows = self.by_place.iter();
        rows.map(|((group, place), row)| (*group, *place, row))
    }

    /// The row of a place of which `ds` is primary and has not let go.
    pub(crate) fn governed(&self, group: u32, place: u32, ds: u32) -> Option<&Arc<OwnRow>> {
        let key = (group, place);
        let known = self
            .by_place
            .get(&key)
            .filter(|known| known.row.primary == ds)?;
        (self.yielded.get(&key) != Some(&known.row.reign)).then_some(known)
    }

    /// Lets go of places of which `ds` is primary in these reigns: of all, or of none. Returns whether it has.
    pub(crate) fn let_go(&mut self, places: &[PlaceReign], ds: u32) -> bool {
        let is_own = |told: &PlaceReign| {
            let known = self.by_place.get(&(told.group, told.place));
            known.is_some_and(|known| (known.row.primary, known.row.reign) == (ds, told.reign))
        };
        let is_primary = places.iter().all(is_own);
        if is_primary {
            let yielded = places
                .iter()
                .map(|told| ((told.group, told.place), told.reign));
            self.yielded.extend(yielded);
            self.changes += 1;
        }
        is_primary
    }

    /// Takes places back that were let go in these reigns.
    pub(crate) fn take_back(&mut self, places: &[PlaceReign]) {
        for told in places {
            let key = (told.group, told.place);
            if self.yielded.get(&key) == Some(&told.reign) {
                self.yielded.remove(&key);
            }
        }
        self.changes += 1;
    }

    /// The stripes of a handle's place, if `ds` is its primary in the reign of the handle.
    pub(crate) fn stripes_of(&self, place: &HandlePlace, ds: u32) -> Option<HandleStripes> {
        let index = u32::from(place.place);
        let known = self.governed(place.group, index, ds)?;
        let striping = place.striping(known.width)?;
        let has_copies = known.has_copies();
        (known.row.reign == place.reign && index < known.width).then_some(HandleStripes {
            striping,
            index,
            is_alone: known.row.members.0.len() == 1 && has_copies,
            has_copies,
        })
    }
}
