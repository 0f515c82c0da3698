//! LAYOUTSTATS (RFC 7862 §15.7).

use super::LayoutUpdate;
use crate::{DeviceId, OpNum, Stateid};

xdr::xdr_struct! {
    /// `io_info4`.
    #[derive(Copy, Default)]
    pub struct IoInfo {
        /// Requests.
        pub count: u64,
        /// Bytes.
        pub bytes: u64,
    }

    /// Arguments of LAYOUTSTATS.
    #[derive(Copy)]
    pub struct LayoutStatsArgs<'a> {
        /// First byte.
        pub offset: u64,
        /// Bytes; all ones is to the end of the file.
        pub length: u64,
        /// The layout.
        pub stateid: Stateid,
        /// Reads.
        pub read: IoInfo,
        /// Writes.
        pub write: IoInfo,
        /// The device.
        pub device_id: DeviceId,
        /// What the layout type adds.
        pub layout_update: LayoutUpdate<'a>,
    }

    /// Result of LAYOUTSTATS.
    #[derive(Copy)]
    pub struct LayoutStatsRes {}
}

operations! { OpNum::LayoutStats: LayoutStatsArgs<'_> => LayoutStatsRes; }
