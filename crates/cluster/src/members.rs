//! Members of places: left out, filled, made primary (rules P2, P10 to P13, P15, P20).
//!
//! ```text
//!            fails, or starts again            serves again, after a pause
//!   sync ───────────────────────────► stale ───────────────────────────► filling
//!    ▲                                  ▲ fails                             │
//!    └──────────────────────────────────┴───────────── has every byte ◄─────┘
//! ```
//! # Ownership
//! The store has the rows. This file and `moves` change them after a group was made.
//!
//! # Ordering
//! All rows that one event changes are one transaction. Data servers are told when it is durable. Another primary is
//! chosen when the lease of the first one and its margin are over, or it was expelled: until then it may serve.
//!
//! # Failure
//! The last member in sync is never left out. A place whose last one is away waits for it.

use crate::claims;
use crate::cluster::Cluster;
use crate::groups::Groups;
use crate::records;
use crate::rows::row_of;
use crate::servers::Servers;
use control::{FilledArgs, OutArgs, PlaceReign, PlaceRow, Refusal, RowsTold, Status};
use layout::{Group, Member, MemberState, Row};
use meta::{MetaError, Seq};
use std::sync::Arc;
use tokio::time::Instant;
use transport::ConnHandle;

/// Sets the state of a member, and notes whether it was in sync before (rule P10). Returns whether that is a change.
pub(crate) fn set_state(row: &mut Row, ds: u32, state: MemberState) -> bool {
    let member = row.members.0.iter_mut().find(|m| m.ds == ds);
    match member {
        Some(member) if member.state != state => {
            let was_sync = member.was_sync || member.state == MemberState::Sync;
            let may_return = matches!(state, MemberState::Stale | MemberState::Filling);
            (member.state, member.was_sync) = (state, was_sync && may_return);
            true
        }
        _ => false,
    }
}

/// The group with a row for which `change` says that it has changed it; `None` when there is none.
pub(crate) fn changed(
    group: &Group,
    mut change: impl FnMut(usize, &mut Row) -> bool,
) -> Option<Group> {
    let mut next = group.clone();
    next.version = group.version.checked_add(1)?;
    let mut is_changed = false;
    for (place, row) in next.rows.iter_mut().enumerate() {
        let was_primary = row.primary;
        if change(place, row) {
            is_changed = true;
            row.era = next.version;
            if row.primary != was_primary {
                row.reign = next.version;
            }
        }
    }
    is_changed.then_some(next)
}

/// What a start of a data server's process means for the rows: what it had not synced may be gone, there or at others
/// (rule P13). The members that are no primaries are filled anew.
pub(crate) fn after_start(groups: &Groups, ds: u32) -> Vec<Group> {
    let restarted = |_: usize, row: &mut Row| {
        let primary = row.primary;
        let counted: Vec<u32> = row.takers().filter(|ds| *ds != primary).collect();
        let is_left_out = |other: &u32| primary == ds || *other == ds;
        let mut is_changed = false;
        for other in counted.iter().filter(|ds| is_left_out(ds)) {
            is_changed |= set_state(row, *other, MemberState::Stale);
        }
        is_changed
    };
    let own = groups.of_places().filter(|g| g.is_member(ds));
    own.filter_map(|group| changed(group, restarted)).collect()
}

impl Cluster {
    /// Stores changed groups in one transaction and takes them into the table.
    pub(crate) fn change_groups(
        &self,
        groups: &mut Groups,
        changes: Vec<Group>,
    ) -> Result<Seq, MetaError> {
        if changes.is_empty() {
            return Ok(self.store.applied());
        }
        let seq = records::put_groups(&*self.store, &changes)?;
        for group in &changes {
            for (place, row) in group.rows.iter().enumerate() {
                if row.era == group.version {
                    tracing::info!(group = group.id, place, version = group.version, row = %shown(row), "a row changes");
                }
            }
        }
        groups.take(&changes);
        Ok(seq)
    }

    /// Looks whether a primary is gone for good, and whether a member can be filled. To be called about every second.
    pub(crate) fn tend_members(self: &Arc<Self>) {
        let changed = {
            let mut groups = self.groups.lock();
            let mut servers = self.servers.lock();
            let left_out = self.judge_slow(&groups, &mut servers);
            let mut is_changed = !left_out.is_empty();
            if let Err(error) = self.change_groups(&mut groups, left_out) {
                tracing::error!(%error, "rows of placement groups");
            }
            let lacking = self.lacking_removals.lock();
            let may_fill = |ds: u32| lacking.as_ref().is_some_and(|l| !l.contains(&ds));
            let now = Instant::now();
            let changes: Vec<Group> = groups
                .of_places()
                .filter_map(|group| {
                    changed(group, |place, row| {
                        let left_out = groups.left_out_at(group.id, place);
                        let fill_after = groups.fill_after(group.id, place);
                        let is_due = left_out
                            .is_none_or(|since| now.saturating_duration_since(since) >= fill_after);
                        tend(row, &servers, (is_due, now), may_fill)
                    })
                })
                .collect();
            is_changed |= !changes.is_empty();
            if let Err(error) = self.change_groups(&mut groups, changes) {
                tracing::error!(%error, "rows of placement groups");
            }
            let moved = self.plan_moves(&groups, &servers);
            let is_moved = !moved.is_empty();
            if let Err(error) = self.change_groups(&mut groups, moved) {
                tracing::error!(%error, "rows of placement groups");
            }
            is_changed || is_moved
        };
        if changed {
            self.deliver_rows();
            self.changed.notify_waiters();
        }
    }

    /// OUT: a primary has lost a member (rule P11).
    pub(crate) async fn out(
        self: &Arc<Self>,
        conn: &ConnHandle,
        args: OutArgs,
    ) -> Result<RowsTold, Refusal> {
        let caller = self.caller(conn)?;
        let seq = {
            let mut groups = self.groups.lock();
            claims::check_out(&groups, caller, &args)?;
            let is_named = |group: &Group, place: usize, row: &Row| {
                let named = |p: &PlaceReign| {
                    (p.group, p.place as usize, p.reign) == (group.id, place, row.reign)
                };
                args.places.0.iter().any(named)
            };
            let is_touched =
                |group: &&Arc<Group>| args.places.0.iter().any(|p| p.group == group.id);
            let mut filled = Vec::new();
            let mut changes = Vec::new();
            for group in groups.of_places().filter(is_touched) {
                changes.extend(changed(group, |place, row| {
                    let state = row.state_of(args.ds_id);
                    let is_out = row.primary == caller
                        && args.ds_id != caller
                        && is_named(group, place, row)
                        && row.takers().any(|ds| ds == args.ds_id)
                        && set_state(row, args.ds_id, MemberState::Stale);
                    if is_out && state == Some(MemberState::Filling) {
                        filled.push((group.id, place));
                    }
                    is_out
                }));
            }
            for (group, place) in filled {
                groups.note_filling(group, place, false);
            }
            self.change_groups(&mut groups, changes).map_err(failed)?
        };
        self.rows_durable(seq).await?;
        self.told(caller, &args.places.0).await
    }

    /// FILLED: a member has every byte (rule P15).
    pub(crate) async fn filled(
        self: &Arc<Self>,
        conn: &ConnHandle,
        args: FilledArgs,
    ) -> Result<RowsTold, Refusal> {
        let caller = self.caller(conn)?;
        let seq = {
            let mut groups = self.groups.lock();
            claims::check_filled(&groups, caller, &args)?;
            let group = groups.open_group(args.place.group).cloned();
            let next = group.and_then(|group| {
                changed(&group, |place, row| {
                    let is_it = place == args.place.place as usize
                        && (row.primary, row.reign) == (caller, args.place.reign)
                        && row.era == args.era
                        && row.state_of(args.ds_id) == Some(MemberState::Filling);
                    is_it && set_state(row, args.ds_id, MemberState::Sync)
                })
            });
            if next.is_some() {
                groups.note_filling(args.place.group, args.place.place as usize, true);
            }
            let changes = next.into_iter().collect();
            self.change_groups(&mut groups, changes).map_err(failed)?
        };
        self.rows_durable(seq).await?;
        self.told(caller, &[args.place]).await
    }

    pub(crate) async fn rows_durable(self: &Arc<Self>, seq: Seq) -> Result<(), Refusal> {
        self.store.durable(seq).await.map_err(failed)?;
        self.deliver_rows();
        self.changed.notify_waiters();
        Ok(())
    }

    pub(crate) fn caller(&self, conn: &ConnHandle) -> Result<u32, Refusal> {
        let mut servers = self.servers.lock();
        let caller = servers.by_conn(conn).map(|(id, _)| id);
        caller.ok_or_else(|| Refusal::new(Status::NotReady, "HELLO must come first"))
    }

    /// The rows of places of which a data server is a member. They are durable: no version that a crash takes is ever told.
    async fn told(&self, caller: u32, places: &[PlaceReign]) -> Result<RowsTold, Refusal> {
        let (rows, seq) = {
            let groups = self.groups.lock();
            let row = |asked: &PlaceReign| {
                let group = groups.open_group(asked.group)?;
                row_of(group, asked.place, groups.copies_min())
                    .filter(|told| told.row.state_of(caller).is_some())
            };
            let rows: Vec<PlaceRow> = places.iter().filter_map(row).collect();
            (rows, self.store.applied())
        };
        self.store.durable(seq).await.map_err(failed)?;
        if let Some(server) = self.servers.lock().map.get_mut(&caller) {
            server.note_sent(&rows);
        }
        Ok(RowsTold { rows: rows.into() })
    }
}

pub(crate) fn failed(error: MetaError) -> Refusal {
    tracing::error!(%error, "rows of placement groups");
    Refusal::new(Status::Io, "the metadata store failed")
}

/// What a row needs: another primary, members that are filled, members that were expelled to be gone. Returns whether it
/// was changed.
fn tend(
    row: &mut Row,
    servers: &Servers,
    (is_due, now): (bool, Instant),
    may_fill: impl Fn(u32) -> bool,
) -> bool {
    let is_gone = |ds: u32| {
        let server = servers.map.get(&ds);
        server.is_none_or(|s| !s.is_member() && !s.has_lease(now))
    };
    let is_live = |ds: u32| servers.map.get(&ds).is_some_and(|s| s.is_live(now));
    let may_serve = |ds: u32| servers.map.get(&ds).is_some_and(|s| s.has_lease(now));
    let mut is_changed = false;
    if !may_serve(row.primary) || is_gone(row.primary) {
        let heir = row
            .in_state(MemberState::Sync)
            .find(|ds| *ds != row.primary && is_live(*ds));
        let Some(heir) = heir else {
            return false;
        };
        set_state(row, row.primary, MemberState::Stale);
        row.primary = heir;
        is_changed = true;
    }
    // A member whose lease is over holds up no promise any more, and does not count as a copy.
    let silent: Vec<u32> = row
        .takers()
        .filter(|ds| *ds != row.primary && !may_serve(*ds))
        .collect();
    for ds in silent {
        is_changed |= set_state(row, ds, MemberState::Stale);
    }
    let members = row.members.0.len();
    row.members
        .0
        .retain(|m| m.ds == row.primary || !is_gone(m.ds));
    is_changed |= row.members.0.len() < members;
    if is_changed || !is_due || !is_live(row.primary) || !may_fill(row.primary) {
        return is_changed;
    }
    let stale: Vec<u32> = row
        .in_state(MemberState::Stale)
        .filter(|ds| is_live(*ds) && !servers.sick.is_out(*ds, now))
        .collect();
    for ds in stale {
        is_changed |= set_state(row, ds, MemberState::Filling);
    }
    is_changed
}

/// A row for the log: the primary first, then the others.
fn shown(row: &Row) -> String {
    let state = |m: &Member| match m.state {
        MemberState::Sync => "",
        MemberState::Filling => " filling",
        MemberState::Stale => " stale",
        MemberState::Leaving => " leaving",
    };
    let others = row.members.0.iter().filter(|m| m.ds != row.primary);
    let others: Vec<String> = others.map(|m| format!(", {}{}", m.ds, state(m))).collect();
    format!("{}{}", row.primary, others.concat())
}
