//! GETDEVICEINFO (RFC 8881 §18.40): a placement group, its data servers in stripe order.

use crate::Mds;
use crate::cx::Cx;
use nfs4::layout::{FileLayoutDsAddr, LAYOUT_NFSV4_1_FILES};
use nfs4::ops::{
    DeviceAddr, DeviceInfo, GetDeviceInfoArgs, GetDeviceInfoRes, NOTIFY_DEVICEID_CHANGE,
    NOTIFY_DEVICEID_DELETE,
};
use nfs4::{Bitmap, NfsStatus, OpNum, ReplyWriter};
use server::answer;
use xdr::{List, Opaque};

/// Notifications that a client may ask for (`notify_deviceid_type4`, RFC 8881 §20.12).
const NOTIFICATIONS: Bitmap = Bitmap::of(&[NOTIFY_DEVICEID_CHANGE, NOTIFY_DEVICEID_DELETE]);

pub(super) fn getdeviceinfo(
    mds: &Mds,
    cx: &mut Cx<'_>,
    args: GetDeviceInfoArgs,
    reply: &mut ReplyWriter<OpNum>,
) -> NfsStatus {
    if args.layout_type != LAYOUT_NFSV4_1_FILES {
        return server::fail(reply, OpNum::GetDeviceInfo, NfsStatus::UnknownLayoutType);
    }
    let Some((group, addresses)) = mds.fs.cluster().device(args.device_id, cx.conn.kind()) else {
        return server::fail(reply, OpNum::GetDeviceInfo, NfsStatus::NoEnt);
    };
    let address = FileLayoutDsAddr {
        stripe_indices: List((0..group.width()).collect()),
        multipath_ds_list: List(addresses.into_iter().map(List).collect()),
    };
    let body = if args.maxcount == 0 {
        Vec::new()
    } else {
        xdr::encode_to_vec(&address)
    };
    let device_addr = DeviceAddr {
        layout_type: LAYOUT_NFSV4_1_FILES,
        body: Opaque(&body),
    };
    let device_bytes = u32::try_from(xdr::encode_to_vec(&device_addr).len()).unwrap_or(u32::MAX);
    if args.maxcount != 0 && device_bytes > args.maxcount {
        return answer(
            reply,
            Ok(GetDeviceInfoRes::TooSmall {
                mincount: device_bytes,
            }),
        );
    }
    // Other addresses come with another device id, so there is never anything to notify. The wish is echoed because Linux does not cache a device
    // whose server declines it: it would connect to every data server anew for every file.
    let wanted = args.notify_types.intersection(&NOTIFICATIONS);
    answer(
        reply,
        Ok(GetDeviceInfoRes::Ok(DeviceInfo {
            device_addr,
            notification: wanted,
        })),
    )
}
