//! REMOVE (RFC 8881 §18.25).

use crate::{ChangeInfo, Name, OpNum};

xdr::xdr_struct! {
    /// Arguments of REMOVE.
    #[derive(Copy)]
    pub struct RemoveArgs<'a> {
        /// Name in the current directory.
        pub target: Name<'a>,
    }

    /// Result of REMOVE.
    #[derive(Copy)]
    pub struct RemoveRes {
        /// Change of the directory.
        pub cinfo: ChangeInfo,
    }
}

operations! { OpNum::Remove: RemoveArgs<'_> => RemoveRes; }
