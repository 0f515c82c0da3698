//! `RELEASE_LOCKOWNER` of NFSv4.0 (RFC 7530 §16.37).

use crate::{OpNum, StateOwner};

xdr::xdr_struct! {
    /// Arguments of `RELEASE_LOCKOWNER`.
    #[derive(Copy)]
    pub struct ReleaseLockOwnerArgs<'a> {
        /// Who will lock no more.
        pub owner: StateOwner<'a>,
    }

    /// Result of `RELEASE_LOCKOWNER`.
    #[derive(Copy)]
    pub struct ReleaseLockOwnerRes {}
}

operations! { OpNum::ReleaseLockOwner: ReleaseLockOwnerArgs<'_> => ReleaseLockOwnerRes; }
