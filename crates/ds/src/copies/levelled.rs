//! Members that are equal to this server, the primary, in all that was changed before its reign (rule P12).
//!
//! Members that stay in sync when another primary takes over may differ in what nobody was promised. Each of them is compared
//! before anything of the place is settled. One that was filled in the reign is equal already. After a failed sync this server
//! lacks what it had passed on (`durable`): the members of the place are compared again.
//!
//! # Ownership
//! What is known of members, in memory. `settle` asks, and `fill` says.

use std::collections::{BTreeMap, BTreeSet};

use tracing_mutex::parkinglot::Mutex;

use super::noted::FillKey;

/// The reign of groups that nobody has taken over.
const FIRST_REIGN: u32 = 1;

/// The members that are equal, each with the reign in which it became so. As many as there are rows.
#[derive(Debug, Default)]
pub(super) struct Levelled(Mutex<Known>);

#[derive(Debug, Default)]
struct Known {
    reigns: BTreeMap<FillKey, u32>,
    /// Places of which this server has lost something.
    lost: BTreeSet<(u32, u8)>,
    losses: u64,
}

impl Levelled {
    /// How often this server has lost something: to be asked before a member is compared.
    pub(super) fn losses(&self) -> u64 {
        self.0.lock().losses
    }

    /// A member has become equal in a reign, unless something was lost since there were so many losses.
    pub(super) fn note(&self, key: FillKey, reign: u32, losses: u64) {
        let mut known = self.0.lock();
        if known.losses == losses {
            known.reigns.insert(key, reign);
        }
    }

    /// This server has lost some of a place that members may have.
    pub(super) fn lose(&self, place: (u32, u8)) {
        let mut known = self.0.lock();
        known.losses += 1;
        known.reigns.retain(|key, _| (key.0, key.1) != place);
        known.lost.insert(place);
    }

    /// Whether a member is equal.
    pub(super) fn is_level(&self, key: FillKey, reign: u32) -> bool {
        let known = self.0.lock();
        match known.reigns.get(&key) {
            Some(equal_in) => *equal_in == reign,
            None => reign == FIRST_REIGN && !known.lost.contains(&(key.0, key.1)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn members_are_compared_after_a_takeover_and_after_a_loss() {
        let (levelled, key) = (Levelled::default(), (7, 0, 2));
        assert!(levelled.is_level(key, FIRST_REIGN) && !levelled.is_level(key, 2));
        levelled.note(key, 2, 0);
        assert!(levelled.is_level(key, 2) && !levelled.is_level(key, 3));
        levelled.lose((7, 0));
        assert!(!levelled.is_level(key, 2) && !levelled.is_level(key, FIRST_REIGN));
        levelled.note(key, 2, 0);
        assert!(
            !levelled.is_level(key, 2),
            "it was compared before the loss"
        );
        levelled.note(key, 2, levelled.losses());
        assert!(levelled.is_level(key, 2));
        assert!(levelled.is_level((7, 1, 2), FIRST_REIGN), "another place");
    }
}
