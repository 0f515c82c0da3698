//! SYMLINK (RFC 1813 §3.3.10).

use crate::procs::NewObject;
use crate::{DirOpArgs, PathText, Res, Sattr3, WccData};

xdr::xdr_struct! {
    /// Arguments of SYMLINK.
    #[derive(Copy)]
    pub struct SymlinkArgs<'a> {
        /// The name of the link.
        pub place: DirOpArgs<'a>,
        /// Its attributes.
        pub symlink_attributes: Sattr3,
        /// Its text.
        pub symlink_data: PathText<'a>,
    }
}

/// Success of SYMLINK.
pub type SymlinkOk<'a> = NewObject<'a>;
/// Failure of SYMLINK: the directory.
pub type SymlinkFail = WccData;
/// Result of SYMLINK.
pub type SymlinkRes<'a> = Res<SymlinkOk<'a>, SymlinkFail>;

procedure! { Symlink: SymlinkArgs<'_> => SymlinkOk<'r>, SymlinkFail }
