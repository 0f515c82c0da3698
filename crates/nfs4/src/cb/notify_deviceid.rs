//! `CB_NOTIFY_DEVICEID` (RFC 8881 §20.12).

use xdr::{Decode, DecodeError, DecodeErrorKind, Decoder, Encode, Encoder, List};

use super::{NOTIFICATIONS_MAX, Notify};
use crate::{
    Bitmap, CbOpNum, DeviceId,
    ops::{NOTIFY_DEVICEID_CHANGE, NOTIFY_DEVICEID_DELETE},
};

/// Bytes of `notify_deviceid_delete4`.
const DELETE_BYTES: u32 = 4 + 16;
/// Bytes of `notify_deviceid_change4`.
const CHANGE_BYTES: u32 = DELETE_BYTES + 4;

/// One `notify4` about a device. Each carries a single notification, as clients expect.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum DeviceNotification {
    /// The device's address changed.
    Change {
        /// Layout type.
        layout_type: u32,
        /// The device.
        device_id: DeviceId,
        /// Whether the old address must not be used any more.
        immediate: bool,
    },
    /// The device is gone; no layout refers to it.
    Delete {
        /// Layout type.
        layout_type: u32,
        /// The device.
        device_id: DeviceId,
    },
}

impl Encode for DeviceNotification {
    fn encode(&self, e: &mut Encoder) {
        match self {
            Self::Change {
                layout_type,
                device_id,
                immediate,
            } => {
                Bitmap::of(&[NOTIFY_DEVICEID_CHANGE]).encode(e);
                e.u32(CHANGE_BYTES);
                e.u32(*layout_type);
                device_id.encode(e);
                e.bool(*immediate);
            }
            Self::Delete {
                layout_type,
                device_id,
            } => {
                Bitmap::of(&[NOTIFY_DEVICEID_DELETE]).encode(e);
                e.u32(DELETE_BYTES);
                e.u32(*layout_type);
                device_id.encode(e);
            }
        }
    }
}

impl Decode<'_> for DeviceNotification {
    fn decode(d: &mut Decoder<'_>) -> Result<Self, DecodeError> {
        let offset = d.position();
        let notify = Notify::decode(d)?;
        let mut values = Decoder::new(notify.values.0);
        let is = |bit| notify.mask == Bitmap::of(&[bit]);
        let out = if is(NOTIFY_DEVICEID_CHANGE) {
            Self::Change {
                layout_type: values.u32()?,
                device_id: DeviceId::decode(&mut values)?,
                immediate: values.bool()?,
            }
        } else if is(NOTIFY_DEVICEID_DELETE) {
            Self::Delete {
                layout_type: values.u32()?,
                device_id: DeviceId::decode(&mut values)?,
            }
        } else {
            return Err(DecodeError {
                kind: DecodeErrorKind::Invalid("not exactly one device notification"),
                offset,
            });
        };
        values.finish()?;
        Ok(out)
    }
}

xdr::xdr_struct! {
    /// Arguments of `CB_NOTIFY_DEVICEID`.
    pub struct CbNotifyDeviceidArgs {
        /// What happened.
        pub changes: List<DeviceNotification, NOTIFICATIONS_MAX>,
    }

    /// Result of `CB_NOTIFY_DEVICEID`.
    #[derive(Copy)]
    pub struct CbNotifyDeviceidRes {}
}

operations! { CbOpNum::NotifyDeviceid: CbNotifyDeviceidArgs => CbNotifyDeviceidRes; }
