//! Placement groups: which ordered list of data servers a new file is cut over, and where it starts.
//!
//! A group is a device of the files layout. Its list never changes once a file may use it: another list is another
//! group with another device id. When a data server of it moves to other addresses, only the version rises, and the
//! device id with it. Clients ask anew for an id that they do not know, and keep the addresses of one that they do.
//!
//! The table picks by smooth weighted round robin: a heavy group does not get its share in one burst. It rotates the first
//! stripe index within each group, which spreads small files. It is deterministic: the same calls give the same picks.
//!
//! Whether a group is available (none of its data servers full, out or expelled) is the caller's
//! policy, given by [`PlacementTable::set_available`].

use std::collections::BTreeMap;
use std::sync::Arc;

use nfs4::DeviceId;

use crate::group::{DeviceName, GROUP_WIDTH_MAX, Group};

/// Most groups in a cluster.
pub const GROUPS_MAX: usize = 4096;

/// Where a new file lies.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Placed {
    /// The placement group.
    pub group: u32,
    /// Place in the group at which its first stripe lies.
    pub first_index: u32,
}

/// Why the table refused a group.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PlacementError {
    /// No place, too many, or a row that cannot be.
    Servers,
    /// The id is in use with another list or version: a group never changes.
    Changed,
    /// [`GROUPS_MAX`] groups exist.
    Full,
    /// No such group.
    Unknown,
}

impl std::fmt::Display for PlacementError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Servers => write!(
                f,
                "a group has 1 to {GROUP_WIDTH_MAX} places, each with a primary and distinct members"
            ),
            Self::Changed => write!(f, "a placement group never changes"),
            Self::Full => write!(f, "{GROUPS_MAX} placement groups exist"),
            Self::Unknown => write!(f, "no such placement group"),
        }
    }
}

impl std::error::Error for PlacementError {}

#[derive(Debug)]
struct Entry {
    group: Arc<Group>,
    weight: u32,
    available: bool,
    /// Credit of the smooth round robin: rises by the weight, falls by the total when picked.
    credit: i64,
    next_first: u32,
}

/// The table of groups.
#[derive(Debug)]
pub struct PlacementTable {
    cluster_id: u64,
    groups: BTreeMap<u32, Entry>,
}

impl PlacementTable {
    /// A table without groups.
    #[must_use]
    pub const fn new(cluster_id: u64) -> Self {
        Self {
            cluster_id,
            groups: BTreeMap::new(),
        }
    }

    /// Adds a group that is not available yet. `weight` is its share of new files (0: none). The
    /// first stripe of its files starts to rotate at `seed`, so that a restart need not begin at 0
    /// again. Adding the same group again changes nothing.
    ///
    /// # Errors
    /// [`PlacementError`]; the table is unchanged.
    pub fn add(&mut self, group: Group, weight: u32, seed: u32) -> Result<(), PlacementError> {
        if !group.is_sound() {
            return Err(PlacementError::Servers);
        }
        if let Some(entry) = self.groups.get(&group.id) {
            return if *entry.group == group {
                Ok(())
            } else {
                Err(PlacementError::Changed)
            };
        }
        if self.groups.len() >= GROUPS_MAX {
            return Err(PlacementError::Full);
        }
        let entry = Entry {
            weight,
            available: false,
            credit: 0,
            next_first: seed % group.width(),
            group: Arc::new(group),
        };
        self.groups.insert(entry.group.id, entry);
        Ok(())
    }

    /// Says whether new files may go to a group.
    ///
    /// # Errors
    /// [`PlacementError::Unknown`].
    pub fn set_available(&mut self, group: u32, available: bool) -> Result<(), PlacementError> {
        let entry = self.entry_mut(group)?;
        entry.available = available;
        // A group that comes back must not catch up on what it missed.
        entry.credit = 0;
        Ok(())
    }

    /// Changes a group's share of new files.
    ///
    /// # Errors
    /// [`PlacementError::Unknown`].
    pub fn set_weight(&mut self, group: u32, weight: u32) -> Result<(), PlacementError> {
        self.entry_mut(group)?.weight = weight;
        Ok(())
    }

    fn entry_mut(&mut self, group: u32) -> Result<&mut Entry, PlacementError> {
        self.groups.get_mut(&group).ok_or(PlacementError::Unknown)
    }

    /// Picks group and first stripe index of a new file; `None` when no group with a share is available.
    pub fn pick(&mut self) -> Option<Placed> {
        let mut total = 0;
        let mut best: Option<(i64, u32)> = None;
        for (id, entry) in &mut self.groups {
            if !entry.available || entry.weight == 0 {
                continue;
            }
            total += i64::from(entry.weight);
            entry.credit += i64::from(entry.weight);
            if best.is_none_or(|(credit, _)| entry.credit > credit) {
                best = Some((entry.credit, *id));
            }
        }
        let (_, id) = best?;
        let entry = self.groups.get_mut(&id)?;
        entry.credit -= total;
        let first_index = entry.next_first;
        entry.next_first = (first_index + 1) % entry.group.width();
        Some(Placed {
            group: id,
            first_index,
        })
    }

    /// The group `id`.
    #[must_use]
    pub fn group(&self, id: u32) -> Option<&Arc<Group>> {
        self.groups.get(&id).map(|entry| &entry.group)
    }

    /// The group of a device id, of its version now or an earlier one: layouts under that may be out.
    #[must_use]
    pub fn by_device(&self, id: DeviceId) -> Option<&Arc<Group>> {
        let name = DeviceName::from_device_id(id);
        let group = self.group(name.group)?;
        let known = (1..=group.version).contains(&name.version);
        (name.cluster_id == self.cluster_id && known).then_some(group)
    }

    /// The groups of a data server, each with its next version: what they are once its addresses change.
    #[must_use]
    pub fn renewed(&self, server: u32) -> Vec<Group> {
        let groups = self.groups().filter(|g| g.is_member(server));
        groups
            .map(|g| Group {
                version: g.version.saturating_add(1),
                ..Group::clone(g)
            })
            .collect()
    }

    /// Takes a newer version of a group.
    ///
    /// # Errors
    /// [`PlacementError::Unknown`]; [`PlacementError::Changed`] for another width or form, or an older version;
    /// [`PlacementError::Servers`] for rows that cannot be.
    pub fn change(&mut self, group: Group) -> Result<(), PlacementError> {
        let known = &mut self.entry_mut(group.id)?.group;
        if !group.is_sound() {
            return Err(PlacementError::Servers);
        }
        let is_same = known.form == group.form && known.rows.len() == group.rows.len();
        if !is_same || group.version <= known.version {
            return Err(PlacementError::Changed);
        }
        *known = Arc::new(group);
        Ok(())
    }

    /// All groups, ascending by id.
    pub fn groups(&self) -> impl Iterator<Item = &Arc<Group>> {
        self.groups.values().map(|entry| &entry.group)
    }
}
