//! RESTOREFH and SAVEFH (RFC 8881 §18.27, §18.28).

use crate::OpNum;

xdr::xdr_struct! {
    /// Arguments of SAVEFH.
    #[derive(Copy)]
    pub struct SaveFhArgs {}

    /// Result of SAVEFH.
    #[derive(Copy)]
    pub struct SaveFhRes {}

    /// Arguments of RESTOREFH.
    #[derive(Copy)]
    pub struct RestoreFhArgs {}

    /// Result of RESTOREFH.
    #[derive(Copy)]
    pub struct RestoreFhRes {}
}

operations! {
    OpNum::SaveFh: SaveFhArgs => SaveFhRes;
    OpNum::RestoreFh: RestoreFhArgs => RestoreFhRes;
}
