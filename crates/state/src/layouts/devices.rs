//! Three tables of device versions: those that layouts name, those whose layouts were recalled, and those whose end
//! clients want to hear of (RFC 8881 §12.2.10, §20.3, §20.12; rule P22).
//!
//! Owns these three tables and knows nothing else. It knows no placement groups: which
//! versions are old is what the caller says.
//!
//! # Ordering
//! A version is noted when the holder is entered, before the layout's handles are signed. What is noted of a layout is
//! therefore never newer than what the client was told. A layout that got segments at two versions counts as the older.

use std::collections::{BTreeMap, BTreeSet};

use nfs4::ClientId;

use crate::stateid::Other;

/// A version of a device.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct DeviceVersion {
    /// The placement group.
    pub group: u32,
    /// Its version.
    pub version: u32,
}

/// See the module.
#[derive(Debug, Default)]
pub(super) struct Devices {
    pub(super) named: BTreeMap<(ClientId, DeviceVersion), BTreeSet<Other>>,
    /// The version below which layouts of a client in a group were recalled last.
    pub(super) asked: BTreeMap<(ClientId, u32), u32>,
    pub(super) watched: BTreeSet<(ClientId, DeviceVersion)>,
}

impl Devices {
    pub(super) fn enter(&mut self, client: ClientId, device: DeviceVersion, other: Other) {
        let states = self.named.entry((client, device)).or_default();
        states.insert(other);
    }

    pub(super) fn leave(&mut self, client: ClientId, device: Option<DeviceVersion>, other: &Other) {
        let Some(device) = device else { return };
        if let Some(states) = self.named.get_mut(&(client, device)) {
            states.remove(other);
            if states.is_empty() {
                self.named.remove(&(client, device));
            }
        }
    }

    /// The client is no more; its layouts have been taken.
    pub(super) fn forget_client(&mut self, client: ClientId) {
        self.watched.retain(|(watching, _)| *watching != client);
        self.asked.retain(|(asked, _), _| *asked != client);
    }

    /// Whether a layout of the client names this version of the group or an earlier one.
    pub(super) fn is_named(&self, client: ClientId, device: DeviceVersion) -> bool {
        let first = DeviceVersion {
            version: 0,
            ..device
        };
        let mut named = self.named.range((client, first)..=(client, device));
        named.next().is_some()
    }
}
