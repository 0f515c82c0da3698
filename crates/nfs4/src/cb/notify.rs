//! `CB_NOTIFY` (RFC 8881 §20.4), with its values not decoded: we give out no directory delegations.

use xdr::{List, Opaque};

use crate::{Bitmap, CbOpNum, FhRef, Stateid};

/// Most notifications of one callback.
pub const NOTIFICATIONS_MAX: u32 = 256;
/// Longest `notifylist4` in bytes.
pub const NOTIFY_BYTES_MAX: u32 = 64 << 10;

xdr::xdr_struct! {
    /// `notify4`.
    #[derive(Copy)]
    pub struct Notify<'a> {
        /// Which notifications.
        pub mask: Bitmap,
        /// Their values in ascending order.
        pub values: Opaque<'a, NOTIFY_BYTES_MAX>,
    }

    /// Arguments of `CB_NOTIFY`.
    pub struct CbNotifyArgs<'a> {
        /// The directory delegation.
        pub stateid: Stateid,
        /// The directory.
        pub fh: FhRef<'a>,
        /// What happened.
        pub changes: List<Notify<'a>, NOTIFICATIONS_MAX>,
    }

    /// Result of `CB_NOTIFY`.
    #[derive(Copy)]
    pub struct CbNotifyRes {}
}

operations! { CbOpNum::Notify: CbNotifyArgs<'_> => CbNotifyRes; }
