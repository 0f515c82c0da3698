//! LOOKUP (RFC 1813 §3.3.3).

use crate::{DirOpArgs, Handle, PostOpAttr, Res};

xdr::xdr_struct! {
    /// Arguments of LOOKUP.
    #[derive(Copy)]
    pub struct LookupArgs<'a> {
        /// What to look up.
        pub what: DirOpArgs<'a>,
    }

    /// Success of LOOKUP.
    #[derive(Copy)]
    pub struct LookupOk<'a> {
        /// The object that has the name.
        pub object: Handle<'a>,
        /// Its attributes.
        pub obj_attributes: PostOpAttr,
        /// Those of the directory.
        pub dir_attributes: PostOpAttr,
    }
}

/// Failure of LOOKUP: attributes of the directory.
pub type LookupFail = PostOpAttr;
/// Result of LOOKUP.
pub type LookupRes<'a> = Res<LookupOk<'a>, LookupFail>;

procedure! { Lookup: LookupArgs<'_> => LookupOk<'r>, LookupFail }
