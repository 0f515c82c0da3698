//! MKDIR (RFC 1813 §3.3.9).

use crate::procs::NewObject;
use crate::{DirOpArgs, Res, Sattr3, WccData};

xdr::xdr_struct! {
    /// Arguments of MKDIR.
    #[derive(Copy)]
    pub struct MkDirArgs<'a> {
        /// The name of the directory.
        pub place: DirOpArgs<'a>,
        /// Its attributes.
        pub attributes: Sattr3,
    }
}

/// Success of MKDIR.
pub type MkDirOk<'a> = NewObject<'a>;
/// Failure of MKDIR: the directory that was to get the name.
pub type MkDirFail = WccData;
/// Result of MKDIR.
pub type MkDirRes<'a> = Res<MkDirOk<'a>, MkDirFail>;

procedure! { MkDir: MkDirArgs<'_> => MkDirOk<'r>, MkDirFail }
