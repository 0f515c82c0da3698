//! SECINFO and `SECINFO_NO_NAME` (RFC 8881 §18.29, §18.45).

use xdr::{Decode, DecodeError, Decoder, Encode, Encoder, List, OpaqueBuf};

use super::GssService;
use crate::{Name, OID_BYTES_MAX, OpNum};

/// Most security triples of one answer.
pub const SECINFO_MAX: u32 = 64;
/// RPC flavor AUTH_NONE.
pub const FLAVOR_NONE: u32 = 0;
/// RPC flavor AUTH_SYS.
pub const FLAVOR_SYS: u32 = 1;
/// RPC flavor RPCSEC_GSS (RFC 2203).
pub const FLAVOR_GSS: u32 = 6;

xdr::xdr_enum! {
    /// `secinfo_style4`.
    pub enum SecInfoStyle {
        /// Of the current file handle.
        CurrentFh = 0,
        /// Of its parent.
        Parent = 1,
    }
}

xdr::xdr_struct! {
    /// `rpcsec_gss_info`.
    pub struct GssInfo {
        /// Mechanism.
        pub oid: OpaqueBuf<OID_BYTES_MAX>,
        /// Quality of protection.
        pub qop: u32,
        /// Service.
        pub service: GssService,
    }

    /// Arguments of SECINFO.
    #[derive(Copy)]
    pub struct SecInfoArgs<'a> {
        /// Name in the current directory.
        pub name: Name<'a>,
    }

    /// Result of SECINFO, best first.
    pub struct SecInfoRes {
        /// What is accepted.
        pub flavors: List<SecInfo, SECINFO_MAX>,
    }

    /// Arguments of `SECINFO_NO_NAME`.
    #[derive(Copy)]
    pub struct SecInfoNoNameArgs {
        /// Of what.
        pub style: SecInfoStyle,
    }

    /// Result of `SECINFO_NO_NAME`, best first.
    pub struct SecInfoNoNameRes {
        /// What is accepted.
        pub flavors: List<SecInfo, SECINFO_MAX>,
    }
}

/// `secinfo4`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum SecInfo {
    /// RPCSEC_GSS.
    Gss(GssInfo),
    /// Any other flavor, by its number.
    Flavor(u32),
}

impl Decode<'_> for SecInfo {
    fn decode(d: &mut Decoder<'_>) -> Result<Self, DecodeError> {
        Ok(match d.u32()? {
            FLAVOR_GSS => Self::Gss(GssInfo::decode(d)?),
            flavor => Self::Flavor(flavor),
        })
    }
}

impl Encode for SecInfo {
    fn encode(&self, e: &mut Encoder) {
        match self {
            Self::Gss(info) => {
                e.u32(FLAVOR_GSS);
                info.encode(e);
            }
            Self::Flavor(flavor) => e.u32(*flavor),
        }
    }
}

operations! {
    OpNum::SecInfo: SecInfoArgs<'_> => SecInfoRes;
    OpNum::SecInfoNoName: SecInfoNoNameArgs => SecInfoNoNameRes;
}
