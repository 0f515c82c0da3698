//! READLINK (RFC 1813 §3.3.5).

use crate::{Handle, PathText, PostOpAttr, Res};

xdr::xdr_struct! {
    /// Arguments of READLINK.
    #[derive(Copy)]
    pub struct ReadLinkArgs<'a> {
        /// The symbolic link.
        pub symlink: Handle<'a>,
    }

    /// Success of READLINK.
    #[derive(Copy)]
    pub struct ReadLinkOk<'a> {
        /// Attributes of the link.
        pub symlink_attributes: PostOpAttr,
        /// Its text.
        pub data: PathText<'a>,
    }
}

/// Failure of READLINK: attributes of the link.
pub type ReadLinkFail = PostOpAttr;
/// Result of READLINK.
pub type ReadLinkRes<'a> = Res<ReadLinkOk<'a>, ReadLinkFail>;

procedure! { ReadLink: ReadLinkArgs<'_> => ReadLinkOk<'r>, ReadLinkFail }
