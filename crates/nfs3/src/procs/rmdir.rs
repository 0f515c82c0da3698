//! RMDIR (RFC 1813 §3.3.13).

use crate::{DirOpArgs, Res, WccData};

xdr::xdr_struct! {
    /// Arguments of RMDIR.
    #[derive(Copy)]
    pub struct RmDirArgs<'a> {
        /// The name of a directory.
        pub object: DirOpArgs<'a>,
    }
}

/// Success of RMDIR: the directory that had the name.
pub type RmDirOk = WccData;
/// Failure of RMDIR: the directory.
pub type RmDirFail = WccData;
/// Result of RMDIR.
pub type RmDirRes = Res<RmDirOk, RmDirFail>;

procedure! { RmDir: RmDirArgs<'_> => RmDirOk, RmDirFail }
