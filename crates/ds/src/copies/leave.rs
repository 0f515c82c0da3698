//! Removes the parts of a place that this server leaves (rule P18).
//!
//! # Ordering
//! All parts are removed, durably, then the MDS is told, and this server is no member any more.
//!
//! # Failure
//! What fails is begun anew as long as the MDS has this server down as leaving.

use std::sync::Arc;
use std::time::Duration;

use control::LeftArgs;
use layout::MemberState;
use objects::ObjectId;
use parts::PARTS_MAX;

use crate::ds::Ds;
use crate::part::Part;
use crate::part_keys::Which;

/// Objects without an entry that are removed at one time.
const LEFTOVERS_MAX: usize = 1 << 16;
/// A group that is none: the check for an entry needs some group of places.
const NO_GROUP: u32 = u32::MAX;
/// How long the MDS may take.
const LEFT_WAIT: Duration = Duration::from_secs(5);

/// The first place that this server leaves.
pub(super) fn to_leave(ds: &Ds) -> Option<(u32, u8)> {
    ds.gate.with_rows(|rows, ds_id| {
        let mut left = rows.all().filter_map(|(group, place, row)| {
            let is_leaving = row.row.state_of(ds_id) == Some(MemberState::Leaving);
            is_leaving.then_some((group, u8::try_from(place).ok()?))
        });
        left.next()
    })?
}

/// Whether the row of a place still says that this server leaves it.
fn is_leaving(ds: &Ds, (group, place): (u32, u8)) -> bool {
    ds.gate.state_at(group, place) == Some(MemberState::Leaving)
}

/// Removes objects of a place, of whichever group, that have no entry: what a crash has left of writes that were never
/// promised. Nobody would remove them later. A store of an earlier version has objects at place 0 without groups, and
/// keeps what is there.
async fn remove_leftovers(ds: &Ds, place: u8) -> Result<u64, String> {
    let index = Arc::clone(&ds.index);
    let found = ds.blocking(move |objects| {
        let (mut leftovers, mut is_of_places) = (Vec::new(), true);
        let listed = objects.list(&mut |id, _| {
            if id.place == place {
                match index.known(id) {
                    Ok(known) if !known.indexed => leftovers.push(id),
                    Ok(known) => is_of_places &= known.group != 0,
                    Err(_) => is_of_places = false,
                }
            }
            is_of_places && leftovers.len() < LEFTOVERS_MAX
        });
        listed.map(|()| if is_of_places { leftovers } else { Vec::new() })
    });
    let leftovers = found.await.map_err(|e| e.to_string())?;
    let count = leftovers.len() as u64;
    for id in leftovers {
        // A part of another group may have got its entry meanwhile.
        let cleared = ds.clear(Part {
            id,
            group: NO_GROUP,
        });
        cleared.map_err(|fault| format!("removing a leftover: {fault:?}"))?;
    }
    Ok(count)
}

/// Removes the parts of a place, and tells the MDS.
pub(super) async fn leave(ds: &Ds, (group, place): (u32, u8)) -> Result<(), String> {
    let mut removed: u64 = 0;
    // Items that were let in before the row was told end first.
    ds.gate.drain_all().await;
    loop {
        let place_of = (group, place);
        let page = ds
            .index
            .parts_of(Which::All, place_of, None, PARTS_MAX as usize);
        let page = page.map_err(|e| e.to_string())?;
        if page.is_empty() {
            break;
        }
        for (file_id, generation) in page {
            let id = ObjectId {
                file_id,
                generation,
                place,
            };
            if !is_leaving(ds, (group, place)) {
                return Err("the row has changed".to_owned());
            }
            let dropped = ds.drop_part(id).await;
            dropped.map_err(|fault| format!("removing a part: {fault:?}"))?;
            removed += 1;
        }
    }
    removed += remove_leftovers(ds, place).await?;
    let args = LeftArgs {
        group,
        place: u32::from(place),
    };
    let told = ds.call_mds(&args, LEFT_WAIT).await;
    told.map_err(|e| e.to_string())?;
    ds.gate.forget_left(group, u32::from(place));
    tracing::info!(group, place, removed, "left a place");
    Ok(())
}
