//! REMOVE (RFC 1813 §3.3.12).

use crate::{DirOpArgs, Res, WccData};

xdr::xdr_struct! {
    /// Arguments of REMOVE.
    #[derive(Copy)]
    pub struct RemoveArgs<'a> {
        /// The name of an object that is no directory.
        pub object: DirOpArgs<'a>,
    }
}

/// Success of REMOVE: the directory that had the name.
pub type RemoveOk = WccData;
/// Failure of REMOVE: the directory.
pub type RemoveFail = WccData;
/// Result of REMOVE.
pub type RemoveRes = Res<RemoveOk, RemoveFail>;

procedure! { Remove: RemoveArgs<'_> => RemoveOk, RemoveFail }
