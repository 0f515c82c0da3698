//! GETDEVICEINFO (RFC 8881 §18.40): a placement group, its data servers in stripe order.

use crate::Mds;
use crate::cx::Cx;
use crate::layout_kind::{self, kind_of};
use nfs4::ops::{
    DeviceAddr, DeviceInfo, GetDeviceInfoArgs, GetDeviceInfoRes, NOTIFY_DEVICEID_CHANGE,
    NOTIFY_DEVICEID_DELETE,
};
use nfs4::{Bitmap, NfsStatus, OpNum, ReplyWriter};
use server::answer;
use xdr::Opaque;

/// Notifications that a client may ask for (`notify_deviceid_type4`, RFC 8881 §20.12).
const NOTIFICATIONS: Bitmap = Bitmap::of(&[NOTIFY_DEVICEID_CHANGE, NOTIFY_DEVICEID_DELETE]);

pub(super) fn getdeviceinfo(
    mds: &Mds,
    cx: &mut Cx<'_>,
    args: GetDeviceInfoArgs,
    reply: &mut ReplyWriter<OpNum>,
) -> NfsStatus {
    let kind = match kind_of(args.layout_type) {
        Ok(kind) => kind,
        Err(status) => return server::fail(reply, OpNum::GetDeviceInfo, status),
    };
    let Some(address) = layout_kind::device(mds, cx, kind, args.device_id) else {
        return server::fail(reply, OpNum::GetDeviceInfo, NfsStatus::NoEnt);
    };
    let body = if args.maxcount == 0 {
        Vec::new()
    } else {
        address
    };
    let device_addr = DeviceAddr {
        layout_type: kind.number(),
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
    // Other addresses come with another device id, so there is never a change to notify. The wish is echoed because
    // Linux does not cache a device whose server declines it. It would connect to every data server anew for every
    // file.
    let wanted = args.notify_types.intersection(&NOTIFICATIONS);
    if wanted.contains(NOTIFY_DEVICEID_DELETE) {
        fs::watch_device(&mds.fs, &cx.actor, args.device_id);
    }
    answer(
        reply,
        Ok(GetDeviceInfoRes::Ok(DeviceInfo {
            device_addr,
            notification: wanted,
        })),
    )
}
