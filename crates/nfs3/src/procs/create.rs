//! CREATE (RFC 1813 §3.3.8), and the result that it shares with all that make an object.

use crate::{CreateVerf, DirOpArgs, PostOpAttr, PostOpFh, Res, Sattr3, WccData};

xdr::xdr_union! {
    /// `createhow3`: what to do with a file that is there, and what a new one gets.
    #[derive(Copy)]
    pub union CreateHow {
        /// An existing file will do.
        Unchecked(attributes: Sattr3) = 0,
        /// An existing file is an error.
        Guarded(attributes: Sattr3) = 1,
        /// Only a file that was made with this verifier will do.
        Exclusive(verifier: CreateVerf) = 2,
    }
}

xdr::xdr_struct! {
    /// Arguments of CREATE.
    #[derive(Copy)]
    pub struct CreateArgs<'a> {
        /// The name of the file.
        pub place: DirOpArgs<'a>,
        /// How to make it.
        pub how: CreateHow,
    }

    /// Success of CREATE, MKDIR, SYMLINK and MKNOD.
    #[derive(Copy)]
    pub struct NewObject<'a> {
        /// The new object; a client without it does a LOOKUP.
        pub obj: PostOpFh<'a>,
        /// Its attributes.
        pub obj_attributes: PostOpAttr,
        /// The directory.
        pub dir_wcc: WccData,
    }
}

/// Success of CREATE.
pub type CreateOk<'a> = NewObject<'a>;
/// Failure of CREATE: the directory.
pub type CreateFail = WccData;
/// Result of CREATE.
pub type CreateRes<'a> = Res<CreateOk<'a>, CreateFail>;

procedure! { Create: CreateArgs<'_> => CreateOk<'r>, CreateFail }
