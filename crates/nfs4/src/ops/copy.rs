//! COPY and `COPY_NOTIFY` (RFC 7862 §15.2, §15.3): from the saved file to the current one.

use xdr::{Decode, DecodeError, Decoder, Encode, Encoder, List, OpaqueBuf};

use crate::{
    NetAddr, NfsStatus, NfsTime, OpBody, OpNum, OpRes, STRING_BYTES_MAX, StableHow, Stateid,
    Verifier,
};

/// Most addresses of a source server.
pub const NETLOCS_MAX: u32 = 64;

xdr::xdr_union! {
    /// `netloc4`: where a server is.
    pub union NetLoc {
        /// A name.
        Name(name: OpaqueBuf<STRING_BYTES_MAX>) = 1,
        /// A URL.
        Url(url: OpaqueBuf<STRING_BYTES_MAX>) = 2,
        /// An address.
        NetAddr(addr: NetAddr) = 3,
    }
}

xdr::xdr_struct! {
    /// `write_response4`.
    #[derive(Copy)]
    pub struct WriteResponse {
        /// Names the copy while it goes on; absent when it is done (an array of at most one item).
        pub callback_id: Option<Stateid>,
        /// Bytes written.
        pub count: u64,
        /// How stable they are.
        pub committed: StableHow,
        /// Changes when unstable writes may have been lost.
        pub write_verifier: Verifier,
    }

    /// `copy_requirements4`.
    #[derive(Copy)]
    pub struct CopyRequirements {
        /// Whether bytes are copied in order.
        pub consecutive: bool,
        /// Whether the copy ends before the reply.
        pub synchronous: bool,
    }

    /// Arguments of COPY.
    pub struct CopyArgs {
        /// An open of the source.
        pub src_stateid: Stateid,
        /// An open of the destination.
        pub dst_stateid: Stateid,
        /// First byte of the source.
        pub src_offset: u64,
        /// First byte of the destination.
        pub dst_offset: u64,
        /// Bytes; 0 is to the end of the source.
        pub count: u64,
        /// Whether bytes must be copied in order.
        pub consecutive: bool,
        /// Whether the copy must end before the reply.
        pub synchronous: bool,
        /// Where the source is; empty for this server.
        pub source_servers: List<NetLoc, NETLOCS_MAX>,
    }

    /// `COPY4resok`.
    #[derive(Copy)]
    pub struct Copied {
        /// What was written.
        pub response: WriteResponse,
        /// How.
        pub requirements: CopyRequirements,
    }

    /// Arguments of `COPY_NOTIFY`.
    pub struct CopyNotifyArgs {
        /// An open of the source.
        pub src_stateid: Stateid,
        /// Who will read it.
        pub destination_server: NetLoc,
    }

    /// Result of `COPY_NOTIFY`.
    pub struct CopyNotifyRes {
        /// How long the destination may wait before it begins.
        pub lease_time: NfsTime,
        /// For the destination to read with.
        pub stateid: Stateid,
        /// Where the source is.
        pub source_servers: List<NetLoc, NETLOCS_MAX>,
    }
}

operations! {
    OpNum::CopyNotify: CopyNotifyArgs => CopyNotifyRes;
    @args OpNum::Copy: CopyArgs;
}

/// Result of COPY.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CopyRes {
    /// Done or begun.
    Ok(Copied),
    /// `NFS4ERR_OFFLOAD_NO_REQS`: what the server could do instead.
    NoReqs(CopyRequirements),
}

impl Encode for CopyRes {
    fn encode(&self, e: &mut Encoder) {
        match self {
            Self::Ok(copied) => copied.encode(e),
            Self::NoReqs(requirements) => requirements.encode(e),
        }
    }
}

impl OpBody for CopyRes {
    type Num = OpNum;
    const OP: OpNum = OpNum::Copy;

    fn status(&self) -> NfsStatus {
        match self {
            Self::Ok(_) => NfsStatus::Ok,
            Self::NoReqs(_) => NfsStatus::OffloadNoReqs,
        }
    }
}

impl<'a> OpRes<'a> for CopyRes {
    fn decode_res(status: NfsStatus, d: &mut Decoder<'a>) -> Result<Option<Self>, DecodeError> {
        Ok(match status {
            NfsStatus::Ok => Some(Self::Ok(Copied::decode(d)?)),
            NfsStatus::OffloadNoReqs => Some(Self::NoReqs(CopyRequirements::decode(d)?)),
            _ => None,
        })
    }
}
