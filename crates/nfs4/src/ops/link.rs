//! LINK (RFC 8881 §18.9).

use crate::{ChangeInfo, Name, OpNum};

xdr::xdr_struct! {
    /// Arguments of LINK: the saved object gets a name in the current directory.
    #[derive(Copy)]
    pub struct LinkArgs<'a> {
        /// The name.
        pub new_name: Name<'a>,
    }

    /// Result of LINK.
    #[derive(Copy)]
    pub struct LinkRes {
        /// Change of the directory.
        pub cinfo: ChangeInfo,
    }
}

operations! { OpNum::Link: LinkArgs<'_> => LinkRes; }
