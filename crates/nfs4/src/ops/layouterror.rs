//! LAYOUTERROR (RFC 7862 §15.6).

use xdr::List;

use crate::{DeviceId, OpNum, Stateid};

/// Most errors of one request.
pub const LAYOUT_ERRORS_MAX: u32 = 256;

xdr::xdr_struct! {
    /// `device_error4`. The numbers are as sent: a client that used another version of NFS to the device may report
    /// ones that are not ours.
    #[derive(Copy)]
    pub struct DeviceError {
        /// The device.
        pub device_id: DeviceId,
        /// Status (`nfsstat4`).
        pub status: u32,
        /// Operation (`nfs_opnum4`).
        pub opnum: u32,
    }

    /// Arguments of LAYOUTERROR.
    pub struct LayoutErrorArgs {
        /// First byte.
        pub offset: u64,
        /// Bytes; all ones is to the end of the file.
        pub length: u64,
        /// The layout.
        pub stateid: Stateid,
        /// What went wrong.
        pub errors: List<DeviceError, LAYOUT_ERRORS_MAX>,
    }

    /// Result of LAYOUTERROR.
    #[derive(Copy)]
    pub struct LayoutErrorRes {}
}

operations! { OpNum::LayoutError: LayoutErrorArgs => LayoutErrorRes; }
