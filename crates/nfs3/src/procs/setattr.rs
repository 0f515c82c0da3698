//! SETATTR (RFC 1813 §3.3.2).

use crate::{Handle, NfsTime3, Res, Sattr3, WccData};

xdr::xdr_struct! {
    /// Arguments of SETATTR.
    #[derive(Copy)]
    pub struct SetAttrArgs<'a> {
        /// The object.
        pub object: Handle<'a>,
        /// What to set.
        pub new_attributes: Sattr3,
        /// `sattrguard3`: with a time, nothing is set unless it is the object's ctime (`NFS3ERR_NOT_SYNC`).
        pub guard: Option<NfsTime3>,
    }
}

/// Success of SETATTR: the object.
pub type SetAttrOk = WccData;
/// Failure of SETATTR: the object.
pub type SetAttrFail = WccData;
/// Result of SETATTR.
pub type SetAttrRes = Res<SetAttrOk, SetAttrFail>;

procedure! { SetAttr: SetAttrArgs<'_> => SetAttrOk, SetAttrFail }
