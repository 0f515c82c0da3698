//! `GET_DIR_DELEGATION` (RFC 8881 §18.39).

use crate::{Bitmap, NfsTime, OpNum, Stateid, Verifier};

xdr::xdr_struct! {
    /// Arguments of `GET_DIR_DELEGATION`.
    #[derive(Copy)]
    pub struct GetDirDelegationArgs {
        /// Whether to tell the client when a refused delegation becomes available.
        pub signal_deleg_avail: bool,
        /// Wanted notifications.
        pub notification_types: Bitmap,
        /// Longest delay of notifications about entries.
        pub child_attr_delay: NfsTime,
        /// Longest delay of notifications about the directory.
        pub dir_attr_delay: NfsTime,
        /// Attributes of entries to notify about.
        pub child_attributes: Bitmap,
        /// Attributes of the directory to notify about.
        pub dir_attributes: Bitmap,
    }

    /// A directory delegation as granted.
    #[derive(Copy)]
    pub struct DirDelegation {
        /// Verifier of READDIR cookies.
        pub cookie_verifier: Verifier,
        /// The delegation.
        pub stateid: Stateid,
        /// Notifications that will be sent.
        pub notification: Bitmap,
        /// Attributes of entries that will be notified.
        pub child_attributes: Bitmap,
        /// Attributes of the directory that will be notified.
        pub dir_attributes: Bitmap,
    }
}

xdr::xdr_union! {
    /// Result of `GET_DIR_DELEGATION` (`GET_DIR_DELEGATION4res_non_fatal`).
    pub union GetDirDelegationRes {
        /// Granted.
        Ok(granted: DirDelegation) = 0,
        /// Not now; whether the server will signal when it can.
        Unavail(will_signal: bool) = 1,
    }
}

operations! { OpNum::GetDirDelegation: GetDirDelegationArgs => GetDirDelegationRes; }
