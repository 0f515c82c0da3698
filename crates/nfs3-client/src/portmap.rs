//! The port mapper, version 2: at which port a program listens (RFC 1833 §3).

use crate::message::{REPLY_BYTES, Target};
use crate::{CallerAuth, RpcError, RpcPeer};
use transport::ReplyRoom;

/// Port of the port mapper itself.
pub const PORTMAP_PORT: u16 = 111;
/// ONC RPC program number.
const PROGRAM: u32 = 100_000;
/// The version with `PMAPPROC_GETPORT` alone.
const VERSION: u32 = 2;
/// `PMAPPROC_GETPORT`.
const GETPORT: u32 = 3;
/// `IPPROTO_TCP`.
const TCP: u32 = 6;

xdr::xdr_struct! {
    /// `mapping`, of which GETPORT ignores the port.
    struct Mapping {
        program: u32,
        version: u32,
        protocol: u32,
        port: u32,
    }
}

/// The TCP port of a version of a program, as the port mapper `remote` tells; `None` when nobody has registered it.
///
/// # Errors
/// [`RpcError`]: no port mapper answers there, or its answer is malformed.
pub async fn get_port(
    remote: &RpcPeer,
    program: u32,
    version: u32,
) -> Result<Option<u16>, RpcError> {
    let target = Target {
        program: PROGRAM,
        version: VERSION,
        procedure: GETPORT,
    };
    let args = Mapping {
        program,
        version,
        protocol: TCP,
        port: 0,
    };
    let room = ReplyRoom::plain(REPLY_BYTES);
    let caller = CallerAuth::none();
    let call = remote.call(remote.deadline(), target, &caller, &args, None, room);
    let port = xdr::decode_all::<u32>(&call.await?);
    let port = port.ok().and_then(|port| u16::try_from(port).ok());
    match port {
        Some(0) => Ok(None),
        Some(port) => Ok(Some(port)),
        None => Err(RpcError::Malformed("result of GETPORT")),
    }
}
