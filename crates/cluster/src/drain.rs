//! What an administrator asks for data servers: drain, the way back, remove, replace, rebalance.
//!
//! # Ordering
//! An order is durable before it is answered. `moves` does the rest, also after a restart.
//!
//! # Failure
//! An order that cannot be kept is refused: with too few other data servers, or for a group of an earlier version.

use crate::cluster::Cluster;
use crate::groups::Groups;
use crate::join::{AdminError, expel};
use crate::last_copies::last_copies;
use crate::records::{self, Membership, ServerRecord};
use crate::servers::Servers;
use layout::{Group, GroupForm};
use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;

/// Refuses to drain a data server of a group that cannot be moved, or one whose files have more copies than there are others
/// to take them.
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
        self.set_substitute(ds, substitute)?;
        self.set_membership(ds, Membership::Draining).await
    }

    /// A data server keeps the places that it still has, and takes new files again.
    ///
    /// # Errors
    /// [`AdminError`].
    pub async fn undrain(&self, ds: u32) -> Result<(), AdminError> {
        self.set_substitute(ds, None)?;
        self.set_membership(ds, Membership::Active).await
    }

    /// Stores where the places of a data server go. The change of its membership, which follows, makes it durable.
    fn set_substitute(&self, ds: u32, substitute: Option<u32>) -> Result<(), AdminError> {
        let mut moves = self.moves.lock();
        match substitute {
            Some(other) => moves.substitutes.insert(ds, other),
            None => moves.substitutes.remove(&ds),
        };
        records::put_orders(&*self.store, &moves.record())?;
        Ok(())
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
    ///
    /// # Errors
    /// [`AdminError::UnknownServer`].
    pub fn last_copies(&self, ds: u32) -> Result<BTreeSet<(u32, u32)>, AdminError> {
        let groups = self.groups.lock();
        let servers = self.servers.lock();
        match servers.map.get(&ds).is_some_and(|s| s.is_member()) {
            true => Ok(last_copies(&groups, &servers, ds)),
            false => Err(AdminError::UnknownServer),
        }
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
    ///
    /// # Errors
    /// [`AdminError`] when the store fails.
    pub async fn rebalance(&self, is_wanted: bool) -> Result<(), AdminError> {
        let seq = {
            let mut moves = self.moves.lock();
            moves.is_rebalancing = is_wanted;
            moves.levelled.clear();
            records::put_orders(&*self.store, &moves.record())?
        };
        self.store.durable(seq).await?;
        Ok(())
    }

    /// Whether data servers are being made level.
    pub fn is_rebalancing(&self) -> bool {
        self.moves.lock().is_rebalancing
    }

    /// Limits what the fillings of each data server send, in bytes per second; 0 takes the limit away. Data servers hear of
    /// it with their next heartbeat. It is kept in memory.
    pub fn set_fill_rate(&self, bytes_per_s: u64) {
        self.fill_bytes_per_s.store(bytes_per_s, Relaxed);
    }

    /// What was set last.
    pub fn fill_rate(&self) -> u64 {
        self.fill_bytes_per_s.load(Relaxed)
    }
}
