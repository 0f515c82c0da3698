//! Members that come and go: substitutes for those that are lost, drain, rebalance, primaries that return (P14, P18).
//!
//! # Ownership
//! `steps` says what a place needs next; this file does it. Orders of an administrator are stored, and outlive the process.
//!
//! # Ordering
//! Another member becomes primary when the old one has let go (YIELD). Until that is durable nobody serves the place.
//!
//! # Failure
//! A primary that does not let go in time takes its places back, and is asked again after a pause.

use crate::call;
use crate::cluster::Cluster;
use crate::groups::Groups;
use crate::members::{changed, failed, set_state};
use crate::records;
use crate::servers::{Server, Servers};
use crate::steps::{Look, Moves, Step, apply, depose, levelled, next_step};
use control::{LeftArgs, PlaceReign, Refusal, StoppingArgs, YieldArgs};
use layout::{Group, MemberState, Row};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;
use tokio::time::Instant;
use transport::{CloseReason, ConnHandle};

/// Members of places of one primary that are filled at one time.
const FILLINGS_MAX: usize = 2;
/// Longest time that a data server which is about to stop waits.
const STOPPING_WAIT_MAX: Duration = Duration::from_secs(8);
/// Pause between two looks at whether it has handed over.
const LOOK: Duration = Duration::from_millis(50);
/// Pause after a handover that did not come about.
const HAND_OVER_AGAIN: Duration = Duration::from_secs(30);
/// A place must have all copies for so long before its first member is primary again.
const RETURN_AFTER: Duration = Duration::from_secs(30);

/// A place that another member takes over.
struct HandOver {
    place: PlaceReign,
    era: u32,
    heir: u32,
    /// Whether the old primary is in sync no more.
    is_deposed: bool,
}

impl HandOver {
    fn of((group, place): (u32, usize), row: &Row, heir: u32, is_deposed: bool) -> Self {
        Self {
            place: PlaceReign {
                group,
                place: u32::try_from(place).unwrap_or(u32::MAX),
                reign: row.reign,
            },
            era: row.era,
            heir,
            is_deposed,
        }
    }
}

/// By primary, the members that it fills.
fn fillings(groups: &Groups) -> BTreeMap<u32, usize> {
    let mut fillings: BTreeMap<u32, usize> = BTreeMap::new();
    for row in groups.of_places().flat_map(|g| &g.rows) {
        *fillings.entry(row.primary).or_default() += row.in_state(MemberState::Filling).count();
    }
    fillings
}

impl Cluster {
    /// Decides what places need next, and asks primaries to let go of those that others take over. Returns the groups
    /// that change at once. To be called with the tables locked.
    pub(crate) fn plan_moves(self: &Arc<Self>, groups: &Groups, servers: &Servers) -> Vec<Group> {
        let mut moves = self.moves.lock();
        let steps = self.steps(groups, servers, &mut moves);
        let mut fillings = fillings(groups);
        let mut chosen: BTreeMap<(u32, usize), Step> = BTreeMap::new();
        let mut handed: BTreeMap<u32, Vec<HandOver>> = BTreeMap::new();
        for (id, place, step) in steps {
            let Some(row) = groups.placement().group(id).and_then(|g| g.rows.get(place)) else {
                continue;
            };
            match step {
                Step::HandOver(heir) | Step::Depose(heir) => {
                    let is_deposed = step == Step::Depose(heir);
                    let handed = handed.entry(row.primary).or_default();
                    handed.push(HandOver::of((id, place), row, heir, is_deposed));
                }
                Step::Add(_) => {
                    let filled = fillings.entry(row.primary).or_default();
                    *filled += 1;
                    if *filled <= FILLINGS_MAX {
                        chosen.insert((id, place), step);
                    }
                }
                Step::Release(_) => {
                    chosen.insert((id, place), step);
                }
            }
        }
        for (ds, places) in handed {
            if let Some(conn) = servers.live_conn(ds)
                && moves.handing_over.insert(ds)
            {
                tokio::spawn(hand_over(Arc::clone(self), (ds, conn), places));
            }
        }
        let step_of = |group: &Group, place: usize| chosen.get(&(group.id, place)).copied();
        let change = |group: &Arc<Group>| {
            let stepped = |place: usize, row: &mut Row| {
                step_of(group, place).is_some_and(|step| apply(row, step))
            };
            changed(group, stepped)
        };
        groups.of_places().filter_map(change).collect()
    }

    /// The next step of each place that needs one. Places with few copies left come first.
    fn steps(
        &self,
        groups: &Groups,
        servers: &Servers,
        moves: &mut Moves,
    ) -> Vec<(u32, usize, Step)> {
        let look = Look::new(
            servers,
            &moves.substitutes,
            groups.of_places(),
            self.replace_after,
        );
        let is_settled = |group: u32, place: usize| {
            let left_out = groups.left_out_at(group, place);
            left_out.unwrap_or(self.opened).elapsed() >= RETURN_AFTER
        };
        let mut steps = Vec::new();
        for group in groups.of_places() {
            for (place, row) in group.rows.iter().enumerate() {
                let fails = |s: &Server| {
                    let is_it = |p: &PlaceReign| {
                        (p.group, p.place as usize, p.reign) == (group.id, place, row.reign)
                    };
                    s.failing.iter().any(is_it)
                };
                let is_failing = servers.map.get(&row.primary).is_some_and(fails);
                let deposed = is_failing.then(|| depose(row, &look)).flatten();
                let is_settled = is_settled(group.id, place);
                let step = deposed.or_else(|| next_step(row, group.copies, is_settled, &look));
                let in_sync = row.in_state(MemberState::Sync).count();
                steps.extend(step.map(|step| (in_sync, (group.id, place, step))));
            }
        }
        let is_calm = steps.is_empty() && fillings(groups).values().all(|count| *count == 0);
        if moves.is_rebalancing && is_calm {
            // A moved group is none of those that new files go to: another one would be made in its stead.
            let may_move = |group: u32, place: usize| {
                !groups.is_current(group) && !moves.levelled.contains(&(group, place))
            };
            match levelled(groups.of_places(), &look, may_move) {
                Some((group, place, ds)) => {
                    moves.levelled.insert((group, place));
                    steps.push((0, (group, place, Step::Add(ds))));
                }
                None => {
                    tracing::info!("no further place is moved to make data servers level");
                    moves.is_rebalancing = false;
                    // Without it the next process finds out again that there is nothing to do.
                    if let Err(error) = records::put_orders(&*self.store, &moves.record()) {
                        tracing::error!(%error, "orders");
                    }
                }
            }
        }
        steps.sort_by_key(|(in_sync, _)| *in_sync);
        steps.into_iter().map(|(_, step)| step).collect()
    }

    /// STOPPING: a data server is about to stop (rule P14).
    pub(crate) async fn stopping(
        self: &Arc<Self>,
        conn: &ConnHandle,
        args: StoppingArgs,
    ) -> Result<(), Refusal> {
        let caller = self.caller(conn)?;
        if let Some(server) = self.servers.lock().map.get_mut(&caller) {
            server.is_stopping = true;
        }
        let wait = Duration::from_millis(u64::from(args.wait_ms)).min(STOPPING_WAIT_MAX);
        let deadline = Instant::now() + wait;
        while self.may_hand_over(caller) && Instant::now() < deadline {
            self.tend_members();
            let _either = tokio::time::timeout(LOOK, self.changed.notified()).await;
        }
        let seq = {
            let mut groups = self.groups.lock();
            let changes = self.without_backup(&groups, caller);
            self.change_groups(&mut groups, changes).map_err(failed)?
        };
        self.rows_durable(seq).await
    }

    /// The groups in which a data server that is about to stop counts as a backup, without it: no promise is to wait for
    /// it when it is gone.
    fn without_backup(&self, groups: &Groups, ds: u32) -> Vec<Group> {
        let servers = self.servers.lock();
        let now = Instant::now();
        let is_live = |ds: u32| servers.map.get(&ds).is_some_and(|s| s.is_live(now));
        let left_out = |_: usize, row: &mut Row| {
            let is_backup = row.primary != ds && row.takers().any(|taker| taker == ds);
            is_backup && is_live(row.primary) && set_state(row, ds, MemberState::Stale)
        };
        groups
            .of_places()
            .filter_map(|group| changed(group, left_out))
            .collect()
    }

    /// Whether a data server is primary of a place that another member in sync can take over.
    fn may_hand_over(&self, ds: u32) -> bool {
        let groups = self.groups.lock();
        let servers = self.servers.lock();
        let now = Instant::now();
        let takes = |other: u32| {
            let server = servers.map.get(&other);
            server.is_some_and(|s| s.is_live(now) && !s.is_stopping)
        };
        let mut rows = groups.of_places().flat_map(|g| &g.rows);
        rows.any(|row| row.primary == ds && row.in_state(MemberState::Sync).any(takes))
    }

    /// LEFT: a member that leaves a place has removed its parts (rule P18).
    pub(crate) async fn left(
        self: &Arc<Self>,
        conn: &ConnHandle,
        args: LeftArgs,
    ) -> Result<(), Refusal> {
        let caller = self.caller(conn)?;
        let seq = {
            let mut groups = self.groups.lock();
            let group = groups.open_group(args.group).cloned();
            let next = group.and_then(|group| {
                changed(&group, |place, row| {
                    let is_it = place == args.place as usize
                        && row.state_of(caller) == Some(MemberState::Leaving);
                    if is_it {
                        row.members.0.retain(|m| m.ds != caller);
                    }
                    is_it
                })
            });
            let changes = next.into_iter().collect();
            self.change_groups(&mut groups, changes).map_err(failed)?
        };
        self.rows_durable(seq).await
    }
}

/// Has a primary let go of places, and makes others primary there.
async fn hand_over(cluster: Arc<Cluster>, (ds, conn): (u32, ConnHandle), handed: Vec<HandOver>) {
    let places = handed.iter().take(control::ROWS_PAGE_MAX as usize);
    let places: Vec<PlaceReign> = places.map(|h| h.place).collect();
    let handed = &handed[..places.len()];
    let count = places.len();
    let let_go = call::call(
        &conn,
        &YieldArgs {
            places: places.into(),
        },
    )
    .await;
    let pause = match let_go {
        Ok(()) if take_over(&cluster, (ds, &conn), handed).await => {
            tracing::info!(ds, places = count, "a data server has handed over places");
            Duration::ZERO
        }
        Ok(()) => {
            // It says HELLO again, and serves what it has let go of if that is still its own.
            conn.close(CloseReason::Asked);
            HAND_OVER_AGAIN
        }
        // It has taken the places back, or its connection is closed.
        Err(error) => {
            tracing::warn!(ds, %error, "a data server did not let go of its places");
            HAND_OVER_AGAIN
        }
    };
    cluster.changed.notify_waiters();
    tokio::time::sleep(pause).await;
    cluster.moves.lock().handing_over.remove(&ds);
    cluster.changed.notify_waiters();
}

/// Stores the new primaries. Returns whether all were made.
async fn take_over(
    cluster: &Arc<Cluster>,
    (ds, conn): (u32, &ConnHandle),
    handed: &[HandOver],
) -> bool {
    let mut made = 0;
    let stored = {
        let mut groups = cluster.groups.lock();
        // One that has said HELLO since may serve again.
        if cluster.live_conn(ds).as_ref() != Some(conn) {
            return false;
        }
        let ids: BTreeSet<u32> = handed.iter().map(|h| h.place.group).collect();
        let mut changes = Vec::new();
        for group in ids.iter().filter_map(|id| groups.open_group(*id)) {
            changes.extend(changed(group, |place, row| {
                let is_it = |h: &&HandOver| {
                    (h.place.group, h.place.place as usize) == (group.id, place)
                        && (row.primary, row.reign, row.era) == (ds, h.place.reign, h.era)
                        && row.state_of(h.heir) == Some(MemberState::Sync)
                };
                let Some(handed) = handed.iter().find(is_it) else {
                    return false;
                };
                row.primary = handed.heir;
                if handed.is_deposed {
                    set_state(row, ds, MemberState::Stale);
                }
                made += 1;
                true
            }));
        }
        cluster.change_groups(&mut groups, changes)
    };
    match stored {
        Ok(seq) => cluster.rows_durable(seq).await.is_ok() && made == handed.len(),
        Err(error) => {
            tracing::error!(%error, "rows of placement groups");
            false
        }
    }
}
