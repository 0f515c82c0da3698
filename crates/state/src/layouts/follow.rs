//! Recalls of layouts whose device has another primary now, and news of versions that are gone (rule P22; RFC 8881
//! §12.5.5, §20.12).
//!
//! Adds to [`Layouts`]; `devices` has the tables.
//!
//! # Failure
//! These recalls are for speed (rule P4 is for safety). No LAYOUTGET waits for them, and nobody is fenced who does not
//! answer. That is less than RFC 8881 §12.5.5.2.1.3 has a server do: a layout that is granted meanwhile names the new
//! version, and its stateid is after the one in the recall.

use std::collections::{BTreeMap, BTreeSet};

use nfs4::ClientId;

use super::devices::{DeviceVersion, Devices};
use super::{IoModes, Layouts, Phase, Recall, Returned};
use crate::stateid::{Other, next_seqid};

/// Layouts of one client that are recalled one by one; of more, its whole file system is.
pub const FOLLOW_FILES_MAX: usize = 64;
/// Versions that clients want to hear of, all clients together. More are not noted: it costs a client a cached device.
const WATCHED_MAX: usize = 65_536;

/// What a client is to be asked.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Follow {
    /// To give up these layouts. Their deadlines mean nothing.
    Files(Vec<Recall>),
    /// To give up all of the file system.
    All,
}

impl Layouts {
    /// A layout is about to name a version of a device.
    pub fn name_device(&mut self, other: &Other, device: DeviceVersion) {
        let Some(layout) = self.states.get_mut(other) else {
            return;
        };
        let before = layout.device;
        if before.is_some_and(|b| b.group == device.group && b.version <= device.version) {
            return;
        }
        layout.device = Some(device);
        let client = layout.client;
        self.devices.leave(client, before, other);
        self.devices.enter(client, device, *other);
    }

    /// Recalls layouts that name a version of their group before the one in `reigns`, once for each of these versions.
    /// Returns what to send to at most `clients_max` clients, none of them `busy`.
    pub fn ask_to_follow(
        &mut self,
        reigns: &BTreeMap<u32, u32>,
        busy: &BTreeSet<ClientId>,
        clients_max: usize,
    ) -> Vec<(ClientId, Follow)> {
        let Devices { named, asked, .. } = &mut self.devices;
        let groups: BTreeSet<(ClientId, u32)> = named.keys().map(|(c, d)| (*c, d.group)).collect();
        asked.retain(|key, _| groups.contains(key));
        let mut old: BTreeMap<ClientId, Vec<(u32, Other)>> = BTreeMap::new();
        for ((client, device), states) in named.iter() {
            let reign = reigns.get(&device.group).copied().unwrap_or(0);
            let is_asked = asked.get(&(*client, device.group)) >= Some(&reign);
            if device.version >= reign || is_asked || busy.contains(client) {
                continue;
            }
            // One more than the bound says enough.
            let of_client = old.entry(*client).or_default();
            of_client.extend(
                states
                    .iter()
                    .take(FOLLOW_FILES_MAX + 1)
                    .map(|o| (device.group, *o)),
            );
        }
        let mut all = Vec::new();
        for (client, layouts) in old.into_iter().take(clients_max) {
            let follow = if layouts.len() <= FOLLOW_FILES_MAX {
                let recalls = layouts.iter().filter_map(|(_, other)| self.ask_for(*other));
                Follow::Files(recalls.collect())
            } else if self.is_recalling(client) {
                // RFC 8881 §12.5.5.2.1.5: no bulk recall beside another one.
                continue;
            } else {
                Follow::All
            };
            for (group, _) in layouts {
                self.devices.asked.insert((client, group), reigns[&group]);
            }
            all.push((client, follow));
        }
        all
    }

    /// The callback that asks for all of a layout, unless that is recalled already.
    fn ask_for(&mut self, other: Other) -> Option<Recall> {
        let layout = self.states.get_mut(&other)?;
        if layout.phase != Phase::Held {
            return None;
        }
        // A recall has a later stateid than any grant before it (RFC 8881 §12.5.3).
        layout.seqid = next_seqid(layout.seqid);
        let due = super::Due {
            modes: IoModes::ANY,
            deadline_ms: 0,
            seqid: layout.seqid,
        };
        Some(layout.recall(other, due))
    }

    fn is_recalling(&self, client: ClientId) -> bool {
        let mut recalled = self
            .recalls
            .iter()
            .filter_map(|other| self.states.get(other));
        recalled.any(|layout| layout.client == client)
    }

    /// The client answered such a recall with NFS4ERR_NOMATCHING_LAYOUT. The layout counts as returned, unless it was
    /// granted again meanwhile, or something else is under way with it.
    pub fn follow_unmatched(&mut self, recall: &Recall) -> Option<Returned> {
        let layout = self.states.get(&recall.stateid.other)?;
        let is_same = layout.seqid == recall.stateid.seqid && layout.phase == Phase::Held;
        is_same.then(|| self.give_back(&recall.stateid.other, IoModes::ANY))?
    }

    /// The client wants to hear when this version is gone.
    pub fn watch_device(&mut self, client: ClientId, device: DeviceVersion) {
        if self.devices.watched.len() < WATCHED_MAX {
            self.devices.watched.insert((client, device));
        }
    }

    /// Versions before those in `current`, by group, that no layout of the client names, by client: at most
    /// `versions_max` for each, and no client that is `busy`. They are forgotten here.
    pub fn take_gone_devices(
        &mut self,
        current: &BTreeMap<u32, u32>,
        busy: &BTreeSet<ClientId>,
        versions_max: usize,
    ) -> BTreeMap<ClientId, Vec<DeviceVersion>> {
        let mut gone: BTreeMap<ClientId, Vec<DeviceVersion>> = BTreeMap::new();
        for (client, device) in &self.devices.watched {
            let version = current.get(&device.group).copied().unwrap_or(0);
            let is_used = device.version >= version || self.devices.is_named(*client, *device);
            if is_used || busy.contains(client) {
                continue;
            }
            let of_client = gone.entry(*client).or_default();
            if of_client.len() < versions_max {
                of_client.push(*device);
            }
        }
        for (client, devices) in &gone {
            for device in devices {
                self.devices.watched.remove(&(*client, *device));
            }
        }
        gone
    }

    /// The client is no more; its layouts have been taken.
    pub(crate) fn forget_devices_of(&mut self, client: ClientId) {
        self.devices.forget_client(client);
    }
}

#[cfg(test)]
#[path = "devices_tests.rs"]
mod tests;
