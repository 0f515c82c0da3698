//! Waits until the members of places have applied all that was passed on to them (rule P14).

use std::collections::BTreeMap;

use control::PlaceReign;
use layout::MemberState;
use nfs4::NfsTime;
use parts::{FileGeneration, LANES, StreamItem};

use super::stream::{Head, Outcome, Owned};
use crate::ds::Ds;

impl Ds {
    /// Returns whether every member in sync of these places, of which this server is primary, has applied what was queued
    /// before.
    pub(crate) async fn drain_streams(&self, places: &[PlaceReign]) -> bool {
        let members = self.gate.with_rows(|rows, ds_id| {
            let mut members = BTreeMap::new();
            for place in places {
                let Some(row) = rows.of(place.group, place.place) else {
                    continue;
                };
                let in_sync = row.row.in_state(MemberState::Sync);
                members.extend(in_sync.filter(|ds| *ds != ds_id).map(|ds| (ds, *place)));
            }
            members
        });
        let Some(members) = members else {
            return false;
        };
        let mut marks = Vec::new();
        for (ds, place) in members {
            let stream = self.copies.stream(ds);
            // Items of one lane are applied in their order: one that does nothing comes after all others.
            let lanes = (0..u64::from(LANES)).map(|file_id| Head {
                group: place.group,
                place: place.place,
                reign: place.reign,
                file: FileGeneration {
                    file_id,
                    generation: 0,
                },
                time: NfsTime::default(),
            });
            let mark = |head| stream.push(head, Owned::Plain(StreamItem::Nothing), true);
            marks.extend(lanes.filter_map(mark));
        }
        for mark in marks {
            if !matches!(mark.await, Ok(Outcome::Done(_))) {
                return false;
            }
        }
        true
    }
}
