//! Settles parts that all members of their place have durably (rule P9).
//!
//! # Ownership
//! One task, [`run`], looks through the unsettled parts of the places of which this server is primary.
//!
//! # Ordering
//! Every member syncs the part, and this server does, before the first of them is told that it is settled. A change that is
//! begun meanwhile ends the attempt. Nothing is settled while a member of the place is out: so what it lacks stays unsettled at
//! the others. After a takeover members that stayed in sync are compared first (`levelled`).

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use futures_util::stream::{StreamExt, iter};
use layout::MemberState;
use nfs4::NfsTime;
use objects::ObjectId;
use parts::StreamItem;
use server::Nfsd;
use tokio::time::Instant;

use super::fill::level;
use super::stream::Owned;
use crate::ds::Ds;
use crate::fault::Fault;
use crate::part::Part;
use crate::part_keys::Which;
use crate::rows::OwnRow;
use crate::sums::Quiet;

/// How often it looks.
const LOOK: Duration = Duration::from_secs(1);
/// Parts of one place that one look takes.
const PAGE: usize = 1024;
/// Parts that are settled at one time.
const AT_ONCE: usize = 16;
/// Parts of which it is known since when they have had no write; of more, all are looked at anew.
const STILL_MAX: usize = 1 << 16;

/// Settles parts until it is dropped.
pub(super) async fn run(nfsd: Arc<Nfsd<Ds>>) {
    let ds = nfsd.role();
    // Where the next look at a place begins.
    let mut after: BTreeMap<(u32, u8), (u64, u32)> = BTreeMap::new();
    let mut still = Still::default();
    loop {
        tokio::time::sleep(LOOK).await;
        let places = own_places(ds);
        after.retain(|place, _| places.contains(place));
        for place in places {
            if !is_compared(ds, place).await {
                continue;
            }
            let page = ds
                .index
                .parts_of(Which::Unsettled, place, after.get(&place).copied(), PAGE);
            let page = match page {
                Ok(page) => page,
                Err(error) => {
                    tracing::debug!(%error, "parts that are not settled");
                    continue;
                }
            };
            match page.last() {
                Some(last) if page.len() >= PAGE => after.insert(place, *last),
                _ => after.remove(&place),
            };
            settle_some(ds, &mut still, place, &page).await;
        }
    }
}

/// Has all members of a place equal in what was changed before this reign. Returns whether none was found that cannot be.
async fn is_compared(ds: &Ds, (group, place): (u32, u8)) -> bool {
    let members = ds.gate.with_rows(|rows, ds_id| {
        let row = rows.of(group, u32::from(place))?;
        let others = row.row.members.0.iter().filter(|m| m.ds != ds_id);
        Some((row.row.reign, others.map(|m| m.ds).collect::<Vec<_>>()))
    });
    let Some((reign, others)) = members.flatten() else {
        return false;
    };
    for member in others {
        let key = (group, place, member);
        if ds.copies.levelled.is_level(key, reign) {
            continue;
        }
        let losses = ds.copies.levelled.losses();
        if let Err(why) = level(ds, key).await {
            tracing::debug!(group, place, member, why, "not compared now");
            return false;
        }
        ds.copies.levelled.note(key, reign, losses);
    }
    true
}

/// Places of which this server is primary and every member is in sync.
fn own_places(ds: &Ds) -> Vec<(u32, u8)> {
    let places = ds.gate.with_rows(|rows, ds_id| {
        let own = rows
            .all()
            .filter(|(_, _, row)| row.row.primary == ds_id && is_level(row));
        let places = own.filter_map(|(group, place, _)| Some((group, u8::try_from(place).ok()?)));
        places.collect()
    });
    places.unwrap_or_default()
}

/// Whether there are copies, and all members have all.
fn is_level(row: &OwnRow) -> bool {
    let members = &row.row.members.0;
    members.len() > 1 && members.iter().all(|m| m.state == MemberState::Sync)
}

/// Since when parts that are not settled have had no write.
#[derive(Default)]
struct Still(BTreeMap<ObjectId, (u64, Instant)>);

impl Still {
    /// Whether a part, whose newest write has this number, has had none for so long.
    fn is_quiet(&mut self, id: ObjectId, write: u64, quiet: Duration) -> bool {
        let now = Instant::now();
        if self.0.len() >= STILL_MAX && !self.0.contains_key(&id) {
            self.0.clear();
        }
        let seen = self.0.entry(id).or_insert((write, now));
        if seen.0 != write {
            *seen = (write, now);
        }
        let is_quiet = now.saturating_duration_since(seen.1) >= quiet;
        if is_quiet {
            self.0.remove(&id);
        }
        is_quiet
    }
}

async fn settle_some(ds: &Ds, still: &mut Still, (group, place): (u32, u8), files: &[(u64, u32)]) {
    let part = |(file_id, generation): &(u64, u32)| {
        let (file_id, generation) = (*file_id, *generation);
        let id = ObjectId {
            file_id,
            generation,
            place,
        };
        Part { id, group }
    };
    let quiet = ds.sums.config.quiet;
    let mut is_quiet = |part: &Part| {
        let known = ds.index.known(part.id);
        known.is_ok_and(|known| still.is_quiet(part.id, known.write, quiet))
    };
    let parts: Vec<Part> = files
        .iter()
        .map(part)
        .filter(|part| is_quiet(part))
        .collect();
    let settled = iter(parts).map(|part| async move {
        if let Err(fault) = ds.settle_at_all(part).await {
            tracing::debug!(file = part.id.file_id, ?fault, "not settled now");
        }
    });
    settled.buffer_unordered(AT_ONCE).collect::<()>().await;
}

impl Ds {
    /// All members have all of a part durably, as it was when it was quiet: it is settled, if no change was begun since.
    pub(super) fn settle(&self, part: Part, since: Quiet) -> Result<bool, Fault> {
        let settle = || {
            self.index.note_unsettled(part.id, false);
            self.index.settle(part)
        };
        match self.sums.if_still(part.id.file_id, since, settle) {
            Some(settled) => Ok(settled.map(|()| true)?),
            None => Ok(false),
        }
    }

    /// Whether all members of a place have been compared, as far as that is needed.
    fn are_equal(&self, part: Part, row: &OwnRow) -> bool {
        let mut others = (row.row.members.0.iter()).filter(|m| m.ds != row.row.primary);
        others.all(|m| {
            let key = (part.group, part.id.place, m.ds);
            self.copies.levelled.is_level(key, row.row.reign)
        })
    }

    /// Has every member make a part durable, then settles it here and there.
    async fn settle_at_all(&self, part: Part) -> Result<(), Fault> {
        let pass = |row: &OwnRow, item, is_waited| {
            let item = Owned::Plain(item);
            self.copies
                .pass(part, row, NfsTime::default(), &item, is_waited)
        };
        let level = || {
            let row = self.gate.primary_row(part)?;
            (is_level(&row) && self.are_equal(part, &row)).then_some(row)
        };
        let (quiet, synced) = {
            let _order = self.copies.order(part.id.file_id).lock().await;
            let Some(row) = level() else { return Ok(()) };
            let Some(quiet) = self.sums.quiet(part.id.file_id) else {
                return Ok(());
            };
            (quiet, pass(&row, StreamItem::Sync, true))
        };
        let (here, there) = tokio::join!(self.sync(part.id), synced.done_by_all());
        here?;
        if !there {
            return Ok(());
        }
        let _order = self.copies.order(part.id.file_id).lock().await;
        let Some(row) = level() else { return Ok(()) };
        if self.settle(part, quiet)? {
            // One that does not hear it keeps a mark too many.
            let _told = pass(&row, StreamItem::Settle, false);
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn a_part_is_quiet_when_it_was_not_written_for_long_enough() {
        let (mut still, quiet) = (Still::default(), Duration::from_secs(30));
        let id = ObjectId {
            file_id: 7,
            generation: 1,
            place: 0,
        };
        let pass = |seconds| tokio::time::advance(Duration::from_secs(seconds));
        assert!(!still.is_quiet(id, 5, quiet));
        pass(20).await;
        assert!(!still.is_quiet(id, 6, quiet), "written again");
        pass(20).await;
        assert!(!still.is_quiet(id, 6, quiet));
        pass(10).await;
        assert!(still.is_quiet(id, 6, quiet));
        assert!(!still.is_quiet(id, 6, quiet), "it begins anew");
    }
}
