//! How many parts of places lack a copy: what the primary tells with HEARTBEAT.
//!
//! # Ownership
//! The index has the parts, a filling its progress. Here is only when they were counted, and how many there were. A place
//! that waits for a member is counted by its unsettled parts, or as a whole when the member was never in sync: what it
//! lacks is known when it is compared.

use std::collections::BTreeMap;
use std::time::Duration;

use control::{LACKING_MAX, PlaceParts};
use layout::{Member, MemberState};
use tokio::time::Instant;

use super::noted::FillKey;
use crate::ds::Ds;
use crate::part_keys::Which;

/// Parts of a place that lacks a copy are counted again after so long: files come and go meanwhile.
const COUNT_AGAIN: Duration = Duration::from_secs(60);

/// Group and place.
type Place = (u32, u8);

/// Members of a place that are not in sync.
struct Lack {
    filled: Vec<FillKey>,
    /// Whether some only wait.
    has_stale: bool,
    /// Which parts they may lack.
    which: Which,
}

impl Ds {
    /// Places of which this server is primary and some member is not in sync.
    fn lacking_places(&self) -> BTreeMap<Place, Lack> {
        let places = self.gate.with_rows(|rows, ds_id| {
            let own = rows.all().filter(|(_, _, row)| row.row.primary == ds_id);
            let lacking = own.filter_map(|(group, place, row)| {
                let place = u8::try_from(place).ok()?;
                let filled = row.row.in_state(MemberState::Filling);
                let mut members = row.row.members.0.iter();
                let is_unknown = |m: &Member| {
                    let is_out = matches!(m.state, MemberState::Stale | MemberState::Filling);
                    is_out && !m.was_sync
                };
                let lack = Lack {
                    which: match members.any(is_unknown) {
                        true => Which::All,
                        false => Which::Unsettled,
                    },
                    filled: filled.map(|ds| (group, place, ds)).collect(),
                    has_stale: row.row.in_state(MemberState::Stale).next().is_some(),
                };
                let lacks = lack.has_stale || !lack.filled.is_empty();
                lacks.then_some(((group, place), lack))
            });
            lacking.collect()
        });
        places.unwrap_or_default()
    }

    /// Counts the parts of a place that lacks a copy and was not counted lately, if there is one. Returns whether there was.
    pub(super) async fn count_lacking(&self) -> bool {
        let places = self.lacking_places();
        let due = {
            let mut counted = self.copies.counted_parts.lock();
            counted
                .retain(|place, (_, at)| places.contains_key(place) && at.elapsed() < COUNT_AGAIN);
            places
                .into_iter()
                .find(|(place, _)| !counted.contains_key(place))
        };
        let Some((place, Lack { which, .. })) = due else {
            return false;
        };
        let parts = match self.count_parts(which, place).await {
            Ok(parts) => parts,
            Err(error) => {
                tracing::warn!(group = place.0, place = place.1, %error, "parts are not counted");
                return false;
            }
        };
        let mut counted = self.copies.counted_parts.lock();
        counted.insert(place, (parts, Instant::now()));
        true
    }

    /// Parts that lack a copy, by place of which this server is primary. A place that was not counted yet is left out.
    pub(crate) fn lacking_parts(&self) -> Vec<PlaceParts> {
        let places = self.lacking_places();
        let fills = self.copies.fills.lock();
        let counted = self.copies.counted_parts.lock();
        let told = places.into_iter().filter_map(|(place, lack)| {
            let left = lack.filled.iter().map(|key| fills.get(key)?.left());
            // With a member that only waits it is all of them.
            let left = left
                .collect::<Option<Vec<u64>>>()
                .filter(|_| !lack.has_stale);
            let parts = match left.and_then(|left| left.into_iter().max()) {
                Some(left) => left,
                None => counted.get(&place)?.0,
            };
            let (group, place) = (place.0, u32::from(place.1));
            Some(PlaceParts {
                group,
                place,
                parts,
            })
        });
        told.take(LACKING_MAX as usize).collect()
    }
}
