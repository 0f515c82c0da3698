//! The port mapper, version 2: at which port a program listens (RFC 1833 §3).

use crate::message::{REPLY_BYTES, Target};
use crate::{CallerAuth, RpcError, RpcPeer};
use rpc::rpcbind::{self, PortMapping};
use transport::ReplyRoom;

/// Port of the port mapper itself.
pub const PORTMAP_PORT: u16 = rpcbind::PORT;

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
        program: rpcbind::PROGRAM,
        version: rpcbind::PORTMAP_VERSION,
        procedure: rpcbind::GETPORT,
    };
    let args = PortMapping {
        program,
        version,
        protocol: rpcbind::IPPROTO_TCP,
        port: 0,
    };
    let room = ReplyRoom::plain(REPLY_BYTES);
    let caller = CallerAuth::none();
    let call = remote.call(remote.deadline(), target, &caller, &args, None, room);
    rpcbind::port(&call.await?).map_err(|_| RpcError::Malformed("result of GETPORT"))
}
