//! RENAME (RFC 8881 §18.26).

use crate::{ChangeInfo, Name, OpNum};

xdr::xdr_struct! {
    /// Arguments of RENAME: from the saved directory to the current one.
    #[derive(Copy)]
    pub struct RenameArgs<'a> {
        /// Name in the saved directory.
        pub old_name: Name<'a>,
        /// Name in the current directory.
        pub new_name: Name<'a>,
    }

    /// Result of RENAME.
    #[derive(Copy)]
    pub struct RenameRes {
        /// Change of the saved directory.
        pub source_cinfo: ChangeInfo,
        /// Change of the current directory.
        pub target_cinfo: ChangeInfo,
    }
}

operations! { OpNum::Rename: RenameArgs<'_> => RenameRes; }
