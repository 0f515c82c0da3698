//! What clients say that they moved to and from servers by layouts (LAYOUTSTATS, RFC 7862 §15.7).

use crate::client_sums::ClientBytes;
use crate::foreign::Foreign;
use nfs4::DeviceId;

impl Foreign {
    /// A client tells what it has moved under a layout to and from a device. An unknown device is passed over.
    pub fn note_client_bytes(&self, layout: [u8; 12], device: DeviceId, told: ClientBytes) {
        if let Some(server) = self.server_of(device).filter(|id| self.is_used(*id)) {
            self.client_io.note((layout, server), told);
        }
    }
}
