//! How an operation writes its result.

use nfs4::{NfsStatus, OpBody, OpNum, ReplyWriter};
use transport::{CloseReason, ConnHandle};

/// Writes the result of an operation, or its failure, and returns the status that was written.
pub fn answer<T: OpBody<Num = OpNum>>(
    reply: &mut ReplyWriter<OpNum>,
    result: Result<T, NfsStatus>,
) -> NfsStatus {
    match result {
        Ok(res) => {
            let status = res.status();
            let _ = reply.result(&res);
            status
        }
        Err(status) => {
            reply.error(T::OP, status);
            status
        }
    }
}

/// Writes that an operation failed, and returns the status.
pub fn fail(reply: &mut ReplyWriter<OpNum>, op: OpNum, status: NfsStatus) -> NfsStatus {
    reply.error(op, status);
    status
}

/// What a call did may not last. Closes its connection: the client hears nothing, asks again and finds whatever survives.
/// The log names the call as a trace of the network does.
pub fn effects_lost(conn: &ConnHandle, xid: u32, why: NfsStatus) {
    let (connection, peer) = (conn.id(), conn.peer());
    tracing::error!(
        status = %why, connection, %peer, xid = format_args!("{xid:#010x}"),
        "effects cannot be made durable; closing the connection"
    );
    conn.close(CloseReason::Asked);
}
