//! The places that this server is to give up since its disk fails (rule P24). `given_up` says when and how.

use std::collections::BTreeSet;

use control::{FAILING_MAX, PlaceReign};
use tracing_mutex::parkinglot::Mutex;

/// Group, place and reign of each; at most [`FAILING_MAX`], which one HEARTBEAT tells.
#[derive(Default)]
pub(crate) struct Failing(Mutex<BTreeSet<(u32, u32, u32)>>);

impl Failing {
    /// A place is to be given up. Returns whether that is news. Above the limit it is not: the next operation says it again.
    pub(crate) fn note(&self, place: PlaceReign) -> bool {
        let mut failing = self.0.lock();
        failing.len() < FAILING_MAX as usize
            && failing.insert((place.group, place.place, place.reign))
    }

    /// Those that are still to be given up. The others are forgotten.
    pub(crate) fn still(&self, is_primary: impl Fn(&PlaceReign) -> bool) -> Vec<PlaceReign> {
        let mut failing = self.0.lock();
        let place = |&(group, place, reign): &(u32, u32, u32)| PlaceReign {
            group,
            place,
            reign,
        };
        failing.retain(|key| is_primary(&place(key)));
        failing.iter().map(place).collect()
    }
}
