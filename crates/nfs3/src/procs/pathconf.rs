//! PATHCONF (RFC 1813 §3.3.20).

use crate::{Handle, PostOpAttr, Res};

xdr::xdr_struct! {
    /// Arguments of PATHCONF.
    #[derive(Copy)]
    pub struct PathConfArgs<'a> {
        /// The object.
        pub object: Handle<'a>,
    }

    /// Success of PATHCONF.
    #[derive(Copy)]
    pub struct PathConfOk {
        /// Attributes of the object.
        pub obj_attributes: PostOpAttr,
        /// Most names of an object.
        pub linkmax: u32,
        /// Longest name in bytes.
        pub name_max: u32,
        /// Whether a longer name is refused, not cut.
        pub no_trunc: bool,
        /// Whether only a privileged user may change the owner.
        pub chown_restricted: bool,
        /// Whether names that differ in case only are the same.
        pub case_insensitive: bool,
        /// Whether names keep their case.
        pub case_preserving: bool,
    }
}

/// Failure of PATHCONF: attributes of the object.
pub type PathConfFail = PostOpAttr;
/// Result of PATHCONF.
pub type PathConfRes = Res<PathConfOk, PathConfFail>;

procedure! { PathConf: PathConfArgs<'_> => PathConfOk, PathConfFail }
