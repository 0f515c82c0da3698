//! Servers of others as devices of layouts. Owns how a device id names a server.

use crate::foreign::Foreign;
use crate::group::{FOREIGN_GROUP_MIN, is_foreign};
use crate::records::{SERVERS_MAX, ServerState};
use control::NetAddr;
use layout::DeviceName;
use nfs4::DeviceId;

/// Version in the device id of a server: its addresses never change.
const VERSION: u32 = 1;

/// What a client is told of a server.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FarDevice {
    /// The server.
    pub server: u32,
    /// Where it is, preferred first.
    pub addresses: Vec<NetAddr>,
    /// Most bytes of a READ.
    pub read_bytes_max: u32,
    /// Most bytes of a WRITE.
    pub write_bytes_max: u32,
}

impl Foreign {
    /// The device id of a server that is used.
    #[must_use]
    pub fn device_id(&self, server: u32) -> Option<DeviceId> {
        let found = self.server(server)?;
        (found.state() != ServerState::Removed).then(|| self.name_of(server))
    }

    pub(crate) fn name_of(&self, server: u32) -> DeviceId {
        DeviceName {
            cluster_id: self.config.cluster_id,
            group: FOREIGN_GROUP_MIN | server,
            version: VERSION,
        }
        .to_device_id()
    }

    /// The server that a client's device id names. Any bytes say something; only ours name a server.
    #[must_use]
    pub fn server_of(&self, device: DeviceId) -> Option<u32> {
        let name = DeviceName::from_device_id(device);
        let server = name.group & !FOREIGN_GROUP_MIN;
        let is_ours = name.cluster_id == self.config.cluster_id
            && name.version == VERSION
            && is_foreign(name.group)
            && server <= SERVERS_MAX;
        let found = is_ours.then(|| self.server(server))??;
        (found.state() != ServerState::Removed).then_some(server)
    }

    /// What a client is told of a device.
    #[must_use]
    pub fn device(&self, device: DeviceId) -> Option<FarDevice> {
        let server = self.server_of(device)?;
        let record = self.server(server)?.record();
        Some(FarDevice {
            server,
            addresses: record.addresses.0.clone(),
            read_bytes_max: record.limits.read_bytes_max,
            write_bytes_max: record.limits.write_bytes_max,
        })
    }
}
