//! RENAME (RFC 1813 §3.3.14).

use crate::{DirOpArgs, Res, WccData};

xdr::xdr_struct! {
    /// Arguments of RENAME.
    #[derive(Copy)]
    pub struct RenameArgs<'a> {
        /// The old name.
        pub from: DirOpArgs<'a>,
        /// The new name.
        pub to: DirOpArgs<'a>,
    }

    /// Success and failure of RENAME: both directories.
    #[derive(Copy, Default)]
    pub struct RenameWcc {
        /// The directory of the old name.
        pub fromdir_wcc: WccData,
        /// The directory of the new name.
        pub todir_wcc: WccData,
    }
}

/// Success of RENAME.
pub type RenameOk = RenameWcc;
/// Failure of RENAME.
pub type RenameFail = RenameWcc;
/// Result of RENAME.
pub type RenameRes = Res<RenameOk, RenameFail>;

procedure! { Rename: RenameArgs<'_> => RenameOk, RenameFail }
