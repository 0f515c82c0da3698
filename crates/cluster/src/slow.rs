//! What follows when a data server is slow (rule P25): it loses its primaries, then its places, and is filled again later.
//!
//! # Ownership
//! [`Sick`] decides, in memory alone. The rows say what came of it. `steps` moves primaries away; this file leaves members
//! out, and `members` fills none that is out.
//!
//! # Ordering
//! A member that is left out is so durably before a promise goes without it, as with any that fails.
//!
//! # Failure
//! The last copy is never left out, nor one without which there are fewer than `copies_min`.
//!
//! [`Sick`]: crate::sick::Sick

use crate::cluster::Cluster;
use crate::groups::Groups;
use crate::members::{changed, set_state};
use crate::servers::Servers;
use crate::sick::{News, Said, WhySlow};
use layout::{Group, MemberState, Row};
use std::collections::BTreeSet;
use tokio::time::Instant;

/// That a data server is slow.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SlowStatus {
    /// Why it counts as slow.
    pub why: WhySlow,
    /// Whether it is left out of places that can do without it.
    pub is_out: bool,
}

impl Cluster {
    /// Judges which data servers are slow. Returns the groups in which one is left out. To be called with the tables locked.
    pub(crate) fn judge_slow(&self, groups: &Groups, servers: &mut Servers) -> Vec<Group> {
        let now = Instant::now();
        let live: BTreeSet<u32> = servers.live_ids().into_iter().collect();
        let is_live = |ds: u32| live.contains(&ds);
        let copies_min = groups.copies_min();
        let filling: BTreeSet<u32> = {
            let rows = groups.of_places().flat_map(|g| &g.rows);
            rows.flat_map(|row| row.in_state(MemberState::Filling))
                .collect()
        };
        let may_leave = |ds: u32| {
            let mut groups = groups.of_places();
            groups.any(|group| {
                let least = copies_min.min(group.copies);
                group
                    .rows
                    .iter()
                    .any(|row| can_do_without(row, ds, least, is_live))
            })
        };
        let Servers { map, sick, .. } = servers;
        let heard = map.iter().filter(|(id, _)| is_live(**id));
        let said: Vec<Said<'_>> = heard
            .map(|(id, server)| Said {
                ds: *id,
                sync_us: server.sync_us,
                lags: &server.lags,
                is_filling: filling.contains(id),
            })
            .collect();
        for (ds, news) in sick.look(now, &said, may_leave) {
            tell(ds, news);
        }
        let out: Vec<u32> = sick.all_slow().filter(|ds| sick.is_out(*ds, now)).collect();
        let left_out = |group: &Group| {
            let least = copies_min.min(group.copies);
            changed(group, |_, row| {
                let mut is_changed = false;
                for ds in &out {
                    let takes = row.takers().any(|taker| taker == *ds);
                    if takes && can_do_without(row, *ds, least, is_live) {
                        is_changed |= set_state(row, *ds, MemberState::Stale);
                    }
                }
                is_changed
            })
        };
        let groups = groups
            .of_places()
            .filter(|g| out.iter().any(|ds| g.is_member(*ds)));
        groups.filter_map(|group| left_out(group)).collect()
    }
}

/// Whether a data server is a member of a place, not its primary, and enough others that serve are in sync without it.
fn can_do_without(row: &Row, ds: u32, least: u32, is_live: impl Fn(u32) -> bool) -> bool {
    let is_backup = row.primary != ds
        && matches!(
            row.state_of(ds),
            Some(MemberState::Sync | MemberState::Filling | MemberState::Stale)
        );
    let others = row
        .in_state(MemberState::Sync)
        .filter(|other| *other != ds && is_live(*other));
    is_backup && is_live(row.primary) && others.count() >= least.max(1) as usize
}

fn tell(ds: u32, news: News) {
    match news {
        News::Slow(why) => {
            tracing::warn!(ds, %why, "a data server is slow: others become primary of its places");
        }
        News::Out(why, pause) => {
            let seconds = pause.as_secs();
            tracing::warn!(ds, %why, seconds, "a slow data server is left out of places");
        }
        News::OnTrial => tracing::info!(ds, "a slow data server may be filled again"),
        News::Well => tracing::info!(ds, "a data server is slow no more"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use MemberState::{Filling, Leaving, Stale, Sync};
    use layout::Member;

    #[test]
    fn a_backup_is_left_out_only_where_enough_others_that_serve_are_in_sync() {
        let row = |members: &[(u32, MemberState)]| {
            let mut row = Row::single(1, 1);
            let member = |(ds, state): &(u32, MemberState)| Member::new(*ds, *state);
            row.members = members.iter().map(member).collect::<Vec<_>>().into();
            row
        };
        let two = [(1, Sync), (2, Sync)];
        let three = [(1, Sync), (2, Sync), (3, Sync)];
        type Case<'c> = (&'c str, &'c [(u32, MemberState)], u32, bool);
        let cases: [Case<'_>; 9] = [
            ("the primary has all", &two, 1, true),
            ("copies_min", &two, 2, false),
            ("copies_min is kept", &three, 2, true),
            (
                "one of three is away",
                &[(1, Sync), (2, Sync), (9, Sync)],
                2,
                false,
            ),
            (
                "one of three is filled",
                &[(1, Sync), (2, Sync), (3, Filling)],
                2,
                false,
            ),
            ("it is filled itself", &[(1, Sync), (2, Filling)], 1, true),
            ("it is out already", &[(1, Sync), (2, Stale)], 1, true),
            ("it leaves", &[(1, Sync), (2, Leaving)], 1, false),
            ("it is no member", &[(1, Sync), (3, Sync)], 1, false),
        ];
        for (what, members, least, expected) in cases {
            let can = can_do_without(&row(members), 2, least, |ds| ds != 9);
            assert_eq!(can, expected, "{what}");
        }
        assert!(!can_do_without(&row(&two), 1, 1, |_| true), "the primary");
        assert!(
            !can_do_without(&row(&two), 2, 1, |ds| ds != 1),
            "the primary is away"
        );
    }
}
