//! CB_NULL (RFC 8881 §19.1), which a server may send to see that there is a path to the client.
//!
//! A client that made a session with a back channel is called on it once. A path that does not work is then in the log before a
//! recall needs it. Nothing else follows: the first callback shows what a path is worth.

use crate::ClientTable;
use crate::callback_path::CB_VERSION;
use rpc::{CallStart, OpaqueAuth, ReplyHeader, ReplyVerdict};
use std::sync::Arc;
use std::time::Duration;
use transport::{ConnHandle, Message};
use xdr::{Decode, Decoder, Encode, Encoder};

const CB_PROC_NULL: u32 = 0;
/// How long an answer is waited for.
const PROBE_MS: u64 = 5_000;

impl ClientTable {
    /// Calls the client's program behind the back of the request that made the session.
    pub fn probe(&self, conn: ConnHandle, program: u32) {
        let Ok(place) = Arc::clone(&self.probes).try_acquire_owned() else {
            return;
        };
        tokio::spawn(async move {
            let answer = conn.call(null_call(program), Duration::from_millis(PROBE_MS));
            let peer = conn.peer();
            match answer.await {
                Err(error) => tracing::debug!(?peer, ?error, "CB_NULL was not answered"),
                Ok(record) => {
                    let header = ReplyHeader::decode(&mut Decoder::new(&record));
                    if !header.is_ok_and(|h| matches!(h.verdict, ReplyVerdict::Success { .. })) {
                        tracing::warn!(?peer, program, "the callback program refuses CB_NULL");
                    }
                }
            }
            drop(place);
        });
    }
}

/// Whether the client's program answers on a connection.
pub(crate) async fn answers(conn: &ConnHandle, program: u32, limit: Duration) -> bool {
    let record = conn.call(null_call(program), limit).await;
    record.is_ok_and(|record| {
        let header = ReplyHeader::decode(&mut Decoder::new(&record));
        header.is_ok_and(|h| matches!(h.verdict, ReplyVerdict::Success { .. }))
    })
}

/// The transport fills in the transaction id.
fn null_call(program: u32) -> Message {
    let mut e = Encoder::new();
    let start = CallStart {
        xid: 0,
        program,
        version: CB_VERSION,
        procedure: CB_PROC_NULL,
        credential: OpaqueAuth::NONE,
        verifier: OpaqueAuth::NONE,
    };
    start.encode(&mut e);
    e.into()
}
