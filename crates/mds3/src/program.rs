//! NFSv3 as an RPC program: who calls, whether the call was heard before, and when its reply may leave.
//!
//! # Ordering
//! The reply leaves when all that it depends on is durable (rule R7).

use crate::admit::{admit, settle};
use crate::cx::Cx;
use crate::once::{Executed, once};
use crate::ops;
use crate::status::is_fault;

use mds::Mds;
use nfs3::{Nfs3Status, Proc};
use nfs4::ClientId;
use rpc::{AcceptError, ReplyHeader, ReplyVerdict};
use rpc_service::{Call, Program, Replies, Seal};
use server::{EndedRequest, Nfsd};
use std::ops::RangeInclusive;
use std::sync::Arc;
use tokio::time::Instant;
use transport::Message;
use xdr::{Decode, Decoder, Encoder};

/// The client that all callers without sessions are to the file service: none of NFSv4 has this id. It holds nothing.
const CLIENT: ClientId = ClientId { value: 0 };
/// Its owner.
const OWNER: &[u8] = b"NFSv3";

/// The NFS program of version 3 over a metadata server.
pub struct Nfs3 {
    nfsd: Arc<Nfsd<Mds>>,
    replies: Replies,
}

impl Nfs3 {
    /// Serves the files of `nfsd`.
    #[must_use]
    pub fn new(nfsd: Arc<Nfsd<Mds>>) -> Self {
        Self {
            nfsd,
            replies: Replies::default(),
        }
    }

    /// Executes a call: its reply, and the result to keep of it. [`Executed::Lost`] has closed the connection.
    async fn execute(&self, call: &Call<'_>, proc: Proc, actor: fs::Actor) -> Executed {
        let mut cx = Cx {
            mds: self.nfsd.role(),
            conn: call.conn,
            record: call.record,
            actor,
            payload: None,
            charge: None,
        };
        let mut e = Encoder::new();
        Seal::None.begin(&mut e, call.header.xid);
        let header_bytes = e.len();
        let args = call.args.rest();
        if ops::perform(&mut cx, proc, args, &mut e).await.is_err() {
            return Executed::Refused(AcceptError::GarbageArgs);
        }
        if settle(&self.nfsd, call, &cx.actor).await.is_err() {
            return Executed::Lost;
        }
        let kept = Arc::from(&e.as_bytes()[header_bytes..]);
        let payloads = cx.payload.take().into_iter().collect();
        let reply = Message::new(e, payloads).with_charge(cx.charge.take());
        Executed::Done(reply, kept)
    }
}

/// What a trace says of an answer: the status by its name, if there is one, and whether the server failed. A call without an answer
/// failed: its effects are lost, or it takes so long that its retry was not answered either.
fn told(proc: Proc, answer: Option<&Message>) -> (Option<&'static str>, bool) {
    let Some(answer) = answer else {
        return (None, true);
    };
    let mut d = Decoder::new(answer.head());
    match ReplyHeader::decode(&mut d).map(|header| header.verdict) {
        Ok(ReplyVerdict::Success { .. }) if proc == Proc::Null => (None, false),
        Ok(ReplyVerdict::Success { .. }) => match Nfs3Status::decode(&mut d) {
            Ok(status) => (Some(status.name()), is_fault(status)),
            Err(_) => (None, true),
        },
        Ok(ReplyVerdict::Error(why)) => (None, why == AcceptError::SystemErr.into()),
        Err(_) => (None, true),
    }
}

/// Whether a procedure that is done again has another result, or does harm.
const fn is_kept(proc: Proc) -> bool {
    matches!(
        proc,
        Proc::SetAttr
            | Proc::Create
            | Proc::MkDir
            | Proc::Symlink
            | Proc::MkNod
            | Proc::Remove
            | Proc::RmDir
            | Proc::Rename
            | Proc::Link
    )
}

impl Program for Nfs3 {
    fn number(&self) -> u32 {
        nfs3::PROGRAM
    }

    fn versions(&self) -> RangeInclusive<u32> {
        nfs3::VERSION..=nfs3::VERSION
    }

    async fn call<'r>(&'r self, call: Call<'r>) -> Option<Message> {
        let number = call.header.procedure.to_be_bytes();
        let Ok(proc) = Proc::decode(&mut Decoder::new(&number)) else {
            return call.refuse(AcceptError::ProcUnavail);
        };
        let began = Instant::now();
        let steps = self.nfsd.traces().choose();
        let mut actor = match admit(&self.nfsd, &call).await {
            Ok(actor) => actor,
            Err(rejection) => return call.refuse(rejection),
        };
        actor.enter(CLIENT, Arc::from(OWNER));
        let execute = self.execute(&call, proc, actor);
        let answer = match is_kept(proc) {
            true => once(&self.replies, &call, execute).await,
            false => execute.await.answer(&call),
        };
        let latencies = &self.nfsd.counters().nfs3_latencies;
        latencies.ended(proc as usize, call.conn.kind(), began);
        if let Some(steps) = steps {
            let (status, failed) = told(proc, answer.as_ref());
            let request = EndedRequest {
                name: proc.name(),
                version: "3",
                xid: call.header.xid,
                conn: call.conn,
                status,
                failed,
                began,
            };
            self.nfsd.traces().ended(*steps, request);
        }
        answer
    }
}
