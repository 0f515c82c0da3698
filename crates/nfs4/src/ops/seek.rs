//! SEEK (RFC 7862 §15.11).

use crate::{OpNum, Stateid};

xdr::xdr_struct! {
    /// Arguments of SEEK.
    #[derive(Copy)]
    pub struct SeekArgs {
        /// An open.
        pub stateid: Stateid,
        /// Where to begin.
        pub offset: u64,
        /// [`super::CONTENT_DATA`] or [`super::CONTENT_HOLE`]; anything else is `NFS4ERR_UNION_NOTSUPP`.
        pub what: u32,
    }

    /// Result of SEEK.
    #[derive(Copy)]
    pub struct SeekRes {
        /// Whether there is none before the end of the file.
        pub eof: bool,
        /// Where it begins.
        pub offset: u64,
    }
}

operations! { OpNum::Seek: SeekArgs => SeekRes; }
