//! LINK (RFC 1813 §3.3.15).

use crate::{DirOpArgs, Handle, PostOpAttr, Res, WccData};

xdr::xdr_struct! {
    /// Arguments of LINK.
    #[derive(Copy)]
    pub struct LinkArgs<'a> {
        /// The object.
        pub file: Handle<'a>,
        /// Its further name.
        pub link: DirOpArgs<'a>,
    }

    /// Success and failure of LINK: the object and the directory.
    #[derive(Copy, Default)]
    pub struct LinkWcc {
        /// Attributes of the object.
        pub file_attributes: PostOpAttr,
        /// The directory of the new name.
        pub linkdir_wcc: WccData,
    }
}

/// Success of LINK.
pub type LinkOk = LinkWcc;
/// Failure of LINK.
pub type LinkFail = LinkWcc;
/// Result of LINK.
pub type LinkRes = Res<LinkOk, LinkFail>;

procedure! { Link: LinkArgs<'_> => LinkOk, LinkFail }
