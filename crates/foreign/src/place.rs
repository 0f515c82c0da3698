//! Where a new file goes: a group over servers that are up and have room, in rotation.
//!
//! Owns the choice. Groups are the servers that follow each other in the ring of those that can be used, so that each server is
//! the first one of a group in turn: small files lie on the first one alone.

use crate::foreign::{Foreign, Groups};
use crate::group::{FOREIGN_GROUP_MIN, ForeignGroup, MIRRORS_MAX};
use crate::records::{self, GROUPS_MAX, GroupRecord, ServerState};
use crate::refusals::NoPlace;
use crate::server::Server;
use meta::MetaError;
use std::sync::Arc;

/// What a group may lack.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum MayLack {
    /// It has all stripes, and all of its servers are up.
    Nothing,
    /// It may have fewer stripes. All of its servers are up.
    Stripes,
    /// It may have fewer stripes, and mirrors after the first may be on servers that are down.
    Mirrors,
}

impl Foreign {
    /// A group for a new file. The width is cut to what there is, unless nothing may lack, and 0 is 1; fewer mirrors are refused. A
    /// new group is in the metadata store before it is told, so whatever names it there is durable after it.
    ///
    /// With `allowed` [`MayLack::Mirrors`] and too few servers up, mirrors after the first lie on servers that are down: a file is
    /// better made with a mirror that is brought back later than not made.
    ///
    /// # Errors
    /// [`MetaError`]; inside, why there is no place.
    pub fn pick(
        &self,
        width: u32,
        mirrors: u32,
        allowed: MayLack,
    ) -> Result<Result<u32, NoPlace>, MetaError> {
        let mirrors = mirrors.max(1);
        if mirrors > MIRRORS_MAX {
            return Ok(Err(NoPlace::NotYet));
        }
        let servers: Vec<_> = self.all_servers();
        let usable: Vec<_> = servers.iter().filter(|s| s.is_usable()).collect();
        let roomy = usable.iter().filter(|s| !s.is_full()).map(|s| s.id);
        let ring: Vec<u32> = roomy.collect();
        let count = u32::try_from(ring.len()).unwrap_or(u32::MAX);
        let is_down = |s: &&Arc<Server>| s.state() == ServerState::Active && !s.is_up();
        let down: Vec<u32> = servers.iter().filter(is_down).map(|s| s.id).collect();
        let all = count.saturating_add(u32::try_from(down.len()).unwrap_or(u32::MAX));
        let least = match allowed {
            MayLack::Nothing => width.max(1).saturating_mul(mirrors),
            MayLack::Stripes | MayLack::Mirrors => mirrors,
        };
        let width = match allowed {
            _ if count >= least => width.max(1).min(count / mirrors),
            MayLack::Mirrors if count > 0 && all >= mirrors => {
                width.max(1).min(count).min(all / mirrors)
            }
            _ => {
                let is_full = usable.len() >= least as usize;
                return Ok(Err(match is_full {
                    true => NoPlace::Full,
                    false => NoPlace::NotYet,
                }));
            }
        };
        let mut groups = self.groups.lock();
        let mut servers = groups.turned(&ring);
        servers.extend(down);
        servers.truncate((width * mirrors) as usize);
        if let Some(id) = groups.ids.get(&(mirrors, servers.clone())) {
            return Ok(Ok(*id));
        }
        if groups.by_id.len() >= GROUPS_MAX as usize {
            return Ok(groups.any_over(&ring, (width, mirrors), allowed));
        }
        let last = groups.by_id.keys().next_back();
        let record = GroupRecord {
            id: last.map_or(FOREIGN_GROUP_MIN, |last| last + 1),
            width,
            mirrors,
            servers: servers.into(),
        };
        records::put_group(&*self.config.store, &record)?;
        Ok(Ok(groups.insert(record).id))
    }
}

impl Groups {
    /// The servers of a ring that is not empty, from the one whose turn it is.
    fn turned(&mut self, ring: &[u32]) -> Vec<u32> {
        let mut turned = ring.to_vec();
        turned.rotate_left(self.turn % ring.len());
        self.turn = self.turn.wrapping_add(1);
        turned
    }

    /// A group that is there already, of at most that width, over servers that can be used. For when no more groups can be.
    fn any_over(
        &self,
        ring: &[u32],
        (width, mirrors): (u32, u32),
        allowed: MayLack,
    ) -> Result<u32, NoPlace> {
        let is_wide = |group: &ForeignGroup| match allowed {
            MayLack::Nothing => group.width == width,
            MayLack::Stripes | MayLack::Mirrors => group.width <= width,
        };
        let fits = self.by_id.values().filter(|group| {
            let has_shape = group.mirrors == mirrors && is_wide(group);
            has_shape && group.servers.iter().all(|server| ring.contains(server))
        });
        let fits: Vec<u32> = fits.map(|group| group.id).collect();
        let turn = self.turn.checked_rem(fits.len()).unwrap_or(0);
        fits.get(turn).copied().ok_or(NoPlace::NotYet)
    }
}
