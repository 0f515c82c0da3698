//! Members that are equal to this server, the primary, in all that was changed before its reign (rule P12).
//!
//! Members that stay in sync when another primary takes over may differ in what nobody was promised. Each of them is compared
//! before anything of the place is settled. One that was filled in the reign is equal already.
//!
//! # Ownership
//! What is known of members, in memory. `settle` asks, and `fill` says.

use std::collections::BTreeMap;

use parking_lot::Mutex;

use super::noted::FillKey;

/// The reign of groups that nobody has taken over.
const FIRST_REIGN: u32 = 1;

/// The members that are equal, each with the reign in which it became so. As many as there are rows.
#[derive(Debug, Default)]
pub(super) struct Levelled(Mutex<BTreeMap<FillKey, u32>>);

impl Levelled {
    /// A member has become equal in a reign.
    pub(super) fn note(&self, key: FillKey, reign: u32) {
        self.0.lock().insert(key, reign);
    }

    /// Whether a member is equal.
    pub(super) fn is_level(&self, key: FillKey, reign: u32) -> bool {
        reign == FIRST_REIGN || self.0.lock().get(&key) == Some(&reign)
    }
}
