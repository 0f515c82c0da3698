//! GETDEVICEINFO and GETDEVICELIST (RFC 8881 §18.40, §18.41).

use xdr::{Decode, DecodeError, Decoder, Encode, Encoder, List, Opaque};

use crate::{Bitmap, DeviceId, NfsStatus, OpBody, OpNum, OpRes, Verifier};

/// Longest `da_addr_body` in bytes that a decoder takes: the longest of the files layout, 4096 indices
/// and 256 lists of some addresses, is below it.
pub const DEVICE_ADDR_BYTES_MAX: u32 = 1 << 20;
/// Most device ids of one GETDEVICELIST reply.
pub const DEVICE_LIST_MAX: u32 = 4096;

/// `gdia_notify_types` bit: the device's address changed.
pub const NOTIFY_DEVICEID_CHANGE: u32 = 1;
/// `gdia_notify_types` bit: the device is gone.
pub const NOTIFY_DEVICEID_DELETE: u32 = 2;

xdr::xdr_struct! {
    /// Arguments of GETDEVICEINFO.
    #[derive(Copy)]
    pub struct GetDeviceInfoArgs {
        /// The device.
        pub device_id: DeviceId,
        /// Layout type that it was met with.
        pub layout_type: u32,
        /// Most bytes of `device_addr4` that the client takes; 0 asks for the notifications only.
        pub maxcount: u32,
        /// Wanted notifications.
        pub notify_types: Bitmap,
    }

    /// `device_addr4`.
    #[derive(Copy)]
    pub struct DeviceAddr<'a> {
        /// Layout type.
        pub layout_type: u32,
        /// Meaning depends on the type: [`crate::layout::FileLayoutDsAddr`] for files.
        pub body: Opaque<'a, DEVICE_ADDR_BYTES_MAX>,
    }

    /// A device as answered.
    #[derive(Copy)]
    pub struct DeviceInfo<'a> {
        /// Its address.
        pub device_addr: DeviceAddr<'a>,
        /// Notifications that will be sent.
        pub notification: Bitmap,
    }

    /// Arguments of GETDEVICELIST.
    #[derive(Copy)]
    pub struct GetDeviceListArgs {
        /// Layout type.
        pub layout_type: u32,
        /// Most device ids to answer.
        pub maxdevices: u32,
        /// Where to go on.
        pub cookie: u64,
        /// Goes with `cookie`.
        pub cookie_verifier: Verifier,
    }

    /// Result of GETDEVICELIST.
    pub struct GetDeviceListRes {
        /// Where to go on.
        pub cookie: u64,
        /// Goes with `cookie`.
        pub cookie_verifier: Verifier,
        /// Devices.
        pub devices: List<DeviceId, DEVICE_LIST_MAX>,
        /// Whether these were the last.
        pub eof: bool,
    }
}

operations! {
    OpNum::GetDeviceList: GetDeviceListArgs => GetDeviceListRes;
    @args OpNum::GetDeviceInfo: GetDeviceInfoArgs;
}

/// Result of GETDEVICEINFO.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum GetDeviceInfoRes<'a> {
    /// The device.
    Ok(DeviceInfo<'a>),
    /// `NFS4ERR_TOOSMALL`: `maxcount` must be at least this.
    TooSmall {
        /// Bytes.
        mincount: u32,
    },
}

impl Encode for GetDeviceInfoRes<'_> {
    fn encode(&self, e: &mut Encoder) {
        match self {
            Self::Ok(info) => info.encode(e),
            Self::TooSmall { mincount } => e.u32(*mincount),
        }
    }
}

impl OpBody for GetDeviceInfoRes<'_> {
    type Num = OpNum;
    const OP: OpNum = OpNum::GetDeviceInfo;

    fn status(&self) -> NfsStatus {
        match self {
            Self::Ok(_) => NfsStatus::Ok,
            Self::TooSmall { .. } => NfsStatus::TooSmall,
        }
    }
}

impl<'a> OpRes<'a> for GetDeviceInfoRes<'a> {
    fn decode_res(status: NfsStatus, d: &mut Decoder<'a>) -> Result<Option<Self>, DecodeError> {
        Ok(match status {
            NfsStatus::Ok => Some(Self::Ok(DeviceInfo::decode(d)?)),
            NfsStatus::TooSmall => Some(Self::TooSmall { mincount: d.u32()? }),
            _ => None,
        })
    }
}
