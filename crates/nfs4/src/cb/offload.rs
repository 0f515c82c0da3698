//! `CB_OFFLOAD` (RFC 7862 §16.1).

use xdr::{Decode, DecodeError, Decoder, Encode, Encoder};

use crate::{CbOpNum, FhRef, NfsStatus, Stateid, ops::WriteResponse};

/// `offload_info4`: how an asynchronous copy ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum OffloadInfo {
    /// It succeeded.
    Ok(WriteResponse),
    /// It failed.
    Failed {
        /// Why; not `NFS4_OK`.
        status: NfsStatus,
        /// Bytes copied until then.
        copied_bytes: u64,
    },
}

impl Encode for OffloadInfo {
    fn encode(&self, e: &mut Encoder) {
        match self {
            Self::Ok(response) => {
                NfsStatus::Ok.encode(e);
                response.encode(e);
            }
            Self::Failed {
                status,
                copied_bytes,
            } => {
                status.encode(e);
                e.u64(*copied_bytes);
            }
        }
    }
}

impl Decode<'_> for OffloadInfo {
    fn decode(d: &mut Decoder<'_>) -> Result<Self, DecodeError> {
        Ok(match NfsStatus::decode(d)? {
            NfsStatus::Ok => Self::Ok(WriteResponse::decode(d)?),
            status => Self::Failed {
                status,
                copied_bytes: d.u64()?,
            },
        })
    }
}

xdr::xdr_struct! {
    /// Arguments of `CB_OFFLOAD`.
    #[derive(Copy)]
    pub struct CbOffloadArgs<'a> {
        /// The destination.
        pub fh: FhRef<'a>,
        /// The copy.
        pub stateid: Stateid,
        /// How it ended.
        pub info: OffloadInfo,
    }

    /// Result of `CB_OFFLOAD`.
    #[derive(Copy)]
    pub struct CbOffloadRes {}
}

operations! { CbOpNum::Offload: CbOffloadArgs<'_> => CbOffloadRes; }
