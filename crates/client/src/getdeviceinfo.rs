//! GETDEVICEINFO (RFC 8881 §18.40): which data servers a device is.

use crate::Error;
use crate::device::{Device, Making};
use crate::layout_kind::{DeviceBody, KIND};
use crate::state::Inner;
use nfs4::ops::{
    GetDeviceInfoArgs, GetDeviceInfoRes, NOTIFY_DEVICEID_CHANGE, NOTIFY_DEVICEID_DELETE,
};
use nfs4::{Bitmap, DeviceId, NetAddr};
use rpc::{Netid, UniversalAddress};
use std::sync::Arc;
use transport::Address;

/// Most devices that are remembered; a cluster has few (decision 1).
const DEVICES_MAX: usize = 1024;
/// Bytes of `device_addr4` that we take: every device of the files layout within our limits fits.
const DEVICE_BYTES_MAX: u32 = 256 << 10;

impl Inner {
    /// A device, from memory or by GETDEVICEINFO. `None` when none of its addresses is of a kind that we can use.
    pub(crate) async fn device(
        self: &Arc<Self>,
        id: DeviceId,
    ) -> Result<Option<Arc<Device>>, Error> {
        if let Some(device) = self.devices.devices.lock().get(&id) {
            return Ok(Some(Arc::clone(device)));
        }
        let outcome = self
            .call(&|b| {
                b.push(&GetDeviceInfoArgs {
                    device_id: id,
                    layout_type: KIND.number(),
                    maxcount: DEVICE_BYTES_MAX,
                    notify_types: Bitmap::of(&[NOTIFY_DEVICEID_CHANGE, NOTIFY_DEVICEID_DELETE]),
                });
                Vec::new()
            })
            .await?;
        let GetDeviceInfoRes::Ok(info) = outcome.results()?.take()? else {
            return Ok(None);
        };
        let body = DeviceBody::decode(KIND, info.device_addr.body.0)?;
        let making = Making {
            config: &self.config,
            caller: &self.caller,
            connector: &self.connector,
        };
        let mut servers = Vec::with_capacity(body.servers.len());
        for addresses in &body.servers {
            let addresses = addresses.iter().filter_map(address).collect();
            let addresses = self.config.data_transport.order(addresses);
            if addresses.is_empty() {
                tracing::warn!("a data server has no address that this client can use");
                return Ok(None);
            }
            servers.push(self.devices.server(making, addresses));
        }
        let device = Arc::new(Device {
            stripe_indices: body.stripe_indices,
            servers,
        });
        let mut devices = self.devices.devices.lock();
        if devices.len() >= DEVICES_MAX {
            devices.clear();
        }
        devices.insert(id, Arc::clone(&device));
        Ok(Some(device))
    }
}

/// An address of a transport that we have.
fn address(addr: &NetAddr) -> Option<Address> {
    let parsed = UniversalAddress::parse(&addr.netid.0, &addr.uaddr.0).ok()?;
    match parsed.netid {
        Netid::Tcp | Netid::Tcp6 => Some(Address::Tcp(parsed.address)),
        Netid::Rdma | Netid::Rdma6 => Some(Address::Rdma(parsed.address)),
    }
}
