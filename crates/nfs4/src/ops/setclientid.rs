//! SETCLIENTID and `SETCLIENTID_CONFIRM` of NFSv4.0 (RFC 7530 §16.33, §16.34).

use xdr::{Decode, DecodeError, Decoder, Encode, Encoder, Opaque};

use crate::types::{NETID_BYTES_MAX, UADDR_BYTES_MAX};
use crate::{ClientId, ClientOwner, NfsStatus, OpBody, OpNum, OpRes, Verifier};

xdr::xdr_struct! {
    /// `clientaddr4`: where the client takes callbacks.
    #[derive(Copy)]
    pub struct ClientAddr<'a> {
        /// `tcp` or `tcp6`; others are of no use here.
        pub netid: Opaque<'a, NETID_BYTES_MAX>,
        /// Universal address: `192.0.2.1.8.1`.
        pub uaddr: Opaque<'a, UADDR_BYTES_MAX>,
    }

    /// `cb_client4`: the program that the client takes callbacks with.
    #[derive(Copy)]
    pub struct CbClient<'a> {
        /// Number of the program.
        pub program: u32,
        /// Where it is.
        pub location: ClientAddr<'a>,
    }

    /// Arguments of SETCLIENTID.
    #[derive(Copy)]
    pub struct SetClientIdArgs<'a> {
        /// `nfs_client_id4`: it has the form of `client_owner4`.
        pub client: ClientOwner<'a>,
        /// Where callbacks go.
        pub callback: CbClient<'a>,
        /// Comes with each callback.
        pub callback_ident: u32,
    }

    /// `SETCLIENTID4resok`.
    #[derive(Copy)]
    pub struct ClientIdSet {
        /// The client's id once it is confirmed.
        pub clientid: ClientId,
        /// To be shown in `SETCLIENTID_CONFIRM`.
        pub confirm: Verifier,
    }

    /// Arguments of `SETCLIENTID_CONFIRM`.
    #[derive(Copy)]
    pub struct SetClientIdConfirmArgs {
        /// The id.
        pub clientid: ClientId,
        /// As answered to SETCLIENTID.
        pub confirm: Verifier,
    }

    /// Result of `SETCLIENTID_CONFIRM`.
    #[derive(Copy)]
    pub struct SetClientIdConfirmRes {}
}

operations! {
    @args OpNum::SetClientId: SetClientIdArgs<'_>;
    OpNum::SetClientIdConfirm: SetClientIdConfirmArgs => SetClientIdConfirmRes;
}

/// Result of SETCLIENTID.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SetClientIdRes<'a> {
    /// The id, which is to be confirmed.
    Ok(ClientIdSet),
    /// `NFS4ERR_CLID_INUSE`: where the client is that has the name.
    InUse(ClientAddr<'a>),
}

impl Encode for SetClientIdRes<'_> {
    fn encode(&self, e: &mut Encoder) {
        match self {
            Self::Ok(set) => set.encode(e),
            Self::InUse(other) => other.encode(e),
        }
    }
}

impl OpBody for SetClientIdRes<'_> {
    type Num = OpNum;
    const OP: OpNum = OpNum::SetClientId;

    fn status(&self) -> NfsStatus {
        match self {
            Self::Ok(_) => NfsStatus::Ok,
            Self::InUse(_) => NfsStatus::ClidInUse,
        }
    }
}

impl<'a> OpRes<'a> for SetClientIdRes<'a> {
    fn decode_res(status: NfsStatus, d: &mut Decoder<'a>) -> Result<Option<Self>, DecodeError> {
        Ok(match status {
            NfsStatus::Ok => Some(Self::Ok(ClientIdSet::decode(d)?)),
            NfsStatus::ClidInUse => Some(Self::InUse(ClientAddr::decode(d)?)),
            _ => None,
        })
    }
}
