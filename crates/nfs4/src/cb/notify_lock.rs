//! `CB_NOTIFY_LOCK` (RFC 8881 §20.11).

use crate::{CbOpNum, FhRef, StateOwner};

xdr::xdr_struct! {
    /// Arguments of `CB_NOTIFY_LOCK`.
    #[derive(Copy)]
    pub struct CbNotifyLockArgs<'a> {
        /// The file.
        pub fh: FhRef<'a>,
        /// Who waited for a lock that may be free now.
        pub lock_owner: StateOwner<'a>,
    }

    /// Result of `CB_NOTIFY_LOCK`.
    #[derive(Copy)]
    pub struct CbNotifyLockRes {}
}

operations! { CbOpNum::NotifyLock: CbNotifyLockArgs<'_> => CbNotifyLockRes; }
