//! Calls that must not be done twice: their retries get the first answer.

use rpc::AcceptError;
use rpc_service::{Call, CallKey, Heard, Replies, RunningCall, Seal, replay};
use std::future::Future;
use std::sync::Arc;
use transport::Message;
use xxhash_rust::xxh3::xxh3_64;

/// What became of a call.
pub(crate) enum Executed {
    /// Its reply, and its result.
    Done(Message, Arc<[u8]>),
    Refused(AcceptError),
    /// It did nothing, and has no answer yet: the client asks again, and it is executed then.
    Later,
    /// It has no answer, and nobody knows how far it came.
    Lost,
}

impl Executed {
    /// The answer to the call.
    pub(crate) fn answer(self, call: &Call<'_>) -> Option<Message> {
        match self {
            Self::Done(reply, _) => Some(reply),
            Self::Refused(why) => call.refuse(why),
            Self::Later | Self::Lost => None,
        }
    }
}

/// Executes a call, unless `replies` has heard it before.
pub(crate) async fn once(
    replies: &Replies,
    call: &Call<'_>,
    execute: impl Future<Output = Executed>,
) -> Option<Message> {
    let key = CallKey {
        client: call.conn.peer().socket().map(|peer| peer.ip()),
        xid: call.header.xid,
        sum: xxh3_64(call.record),
    };
    match replies.hear_out(key).await {
        None => {}
        // It takes long, or has to wait long. Its client sends it again.
        Some(Heard::Running | Heard::Full) => return None,
        Some(Heard::Done(Some(result))) => {
            return Some(replay(Seal::None, call.header.xid, &result));
        }
        Some(Heard::Done(None)) => return call.refuse(AcceptError::SystemErr),
    }
    let running = RunningCall::new(replies, key);
    let executed = execute.await;
    match &executed {
        Executed::Done(_, result) => {
            running.complete(Some(Arc::clone(result)));
        }
        Executed::Refused(_) => {
            running.complete(None);
        }
        Executed::Later => running.forget(),
        Executed::Lost => {}
    }
    executed.answer(call)
}
