//! What an administrator asks for data servers: drain, the way back, remove, replace, rebalance.
//!
//! # Ordering
//! That a data server is drained is durable before the order is answered. `moves` does the rest, also after a restart.
//!
//! # Failure
//! An order that cannot be kept is refused: with too few other data servers, or with files that cannot be moved.

use crate::cluster::Cluster;
use crate::groups::Groups;
use crate::join::{AdminError, expel};
use crate::records::{self, Membership, ServerRecord};
use crate::servers::{Server, Servers};
use layout::{Group, GroupForm, MemberState, Row};
use std::collections::BTreeSet;
use std::sync::Arc;

/// Refuses to drain a data server whose files cannot be moved, or have more copies than there are others to take them.
fn check_others(groups: &Groups, servers: &Servers, ds: u32) -> Result<(), AdminError> {
    let has_it = |g: &&Arc<Group>| g.is_member(ds);
    let own = || groups.placement().groups().filter(has_it);
    let fixed = own().filter(|g| g.form == GroupForm::Shared).count();
    if fixed > 0 {
        return Err(AdminError::Fixed { groups: fixed });
    }
    let wanted = own().map(|g| g.copies as usize).max().unwrap_or(0);
    let mut others: BTreeSet<u32> = servers.lasting_ids().into_iter().collect();
    others.remove(&ds);
    if others.len() < wanted {
        return Err(AdminError::TooFew {
            wanted,
            there: others.len(),
        });
    }
    Ok(())
}

/// The places whose last copy in sync a data server has: others that were expelled do not count.
pub(crate) fn last_copies(groups: &Groups, servers: &Servers, ds: u32) -> BTreeSet<(u32, u32)> {
    let is_other = |other: &u32| {
        let server = servers.map.get(other);
        *other != ds && server.is_some_and(Server::is_member)
    };
    let is_last = |row: &Row| {
        let has_it = row.state_of(ds) == Some(MemberState::Sync);
        has_it
            && !row
                .in_state(MemberState::Sync)
                .any(|other| is_other(&other))
    };
    let mut last = BTreeSet::new();
    for group in groups.placement().groups() {
        let places = (0..).zip(&group.rows).filter(|(_, row)| is_last(row));
        last.extend(places.map(|(place, _)| (group.id, place)));
    }
    last
}

impl Cluster {
    /// Whether a data server can be drained.
    ///
    /// # Errors
    /// [`AdminError`].
    pub fn check_drain(&self, ds: u32, substitute: Option<u32>) -> Result<(), AdminError> {
        let groups = self.groups.lock();
        let servers = self.servers.lock();
        if servers.map.get(&ds).is_none_or(|s| !s.is_member()) {
            return Err(AdminError::UnknownServer);
        }
        check_others(&groups, &servers, ds)?;
        let usable = servers.lasting_ids();
        match substitute {
            Some(other) if other == ds || !usable.contains(&other) => Err(AdminError::NoSubstitute),
            _ => Ok(()),
        }
    }

    /// Gives the places of a data server to others: to `substitute` where it can take them. The data server serves until
    /// then, and takes no new files.
    ///
    /// # Errors
    /// [`AdminError`].
    pub async fn drain(&self, ds: u32, substitute: Option<u32>) -> Result<(), AdminError> {
        self.check_drain(ds, substitute)?;
        {
            let mut moves = self.moves.lock();
            match substitute {
                Some(other) => moves.substitutes.insert(ds, other),
                None => moves.substitutes.remove(&ds),
            };
        }
        self.set_membership(ds, Membership::Draining).await
    }

    /// A data server keeps the places that it still has, and takes new files again.
    ///
    /// # Errors
    /// [`AdminError`].
    pub async fn undrain(&self, ds: u32) -> Result<(), AdminError> {
        self.moves.lock().substitutes.remove(&ds);
        self.set_membership(ds, Membership::Active).await
    }

    async fn set_membership(&self, ds: u32, membership: Membership) -> Result<(), AdminError> {
        let seq = {
            let mut servers = self.servers.lock();
            let server = servers.map.get_mut(&ds).filter(|s| s.is_member());
            let server = server.ok_or(AdminError::UnknownServer)?;
            let record = ServerRecord {
                membership,
                ..server.record.clone()
            };
            let seq = records::put_server(&*self.store, ds, &record, &[])?;
            server.record = record;
            match membership {
                Membership::Draining => servers.draining.insert(ds),
                _ => servers.draining.remove(&ds),
            };
            seq
        };
        self.store.durable(seq).await?;
        Ok(())
    }

    /// The places of which no other member of the cluster has a copy in sync: group and place.
    pub fn last_copies(&self, ds: u32) -> BTreeSet<(u32, u32)> {
        let groups = self.groups.lock();
        let servers = self.servers.lock();
        last_copies(&groups, &servers, ds)
    }

    /// Puts a data server out of the cluster that has no places any more.
    ///
    /// # Errors
    /// [`AdminError`].
    pub async fn remove(&self, ds: u32, reason: &str) -> Result<(), AdminError> {
        let places = self.places_of(ds);
        if places > 0 {
            return Err(AdminError::HasPlaces { places });
        }
        expel(self, ds, reason).await
    }

    /// Places of which a data server is a member, those included that it has not left yet.
    pub fn places_of(&self, ds: u32) -> usize {
        let groups = self.groups.lock();
        let rows = groups.placement().groups().flat_map(|g| &g.rows);
        rows.filter(|row| row.state_of(ds).is_some()).count()
    }

    /// Begins to make data servers level, or ends that.
    pub fn rebalance(&self, is_wanted: bool) {
        let mut moves = self.moves.lock();
        moves.is_rebalancing = is_wanted;
        moves.levelled.clear();
    }

    /// Whether data servers are being made level.
    pub fn is_rebalancing(&self) -> bool {
        self.moves.lock().is_rebalancing
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use MemberState::{Filling, Stale, Sync};

    #[test]
    fn a_last_copy_is_one_in_sync_beside_which_no_member_has_another() {
        let mut servers = Servers::default();
        (1..=3).for_each(|id| servers.add_at(id, ""));
        let last = |servers: &Servers, state, ds| {
            let mut group = Group::new(7, &[vec![1, 2], vec![3]]);
            group.rows[0].members.0[1].state = state;
            let groups = Groups::load((1, (2, 1)), vec![group], 0).unwrap();
            last_copies(&groups, servers, ds)
                .into_iter()
                .collect::<Vec<_>>()
        };
        assert_eq!(last(&servers, Sync, 1), []);
        assert_eq!(last(&servers, Sync, 3), [(7, 1)]);
        for state in [Stale, Filling] {
            assert_eq!(last(&servers, state, 1), [(7, 0)]);
            assert_eq!(last(&servers, state, 2), []);
        }
        let gone = servers.map.get_mut(&2).unwrap();
        gone.record.membership = Membership::Expelled;
        assert_eq!(last(&servers, Sync, 1), [(7, 0)]);
    }
}
