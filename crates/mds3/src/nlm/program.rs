//! NLM as an RPC program: who calls, which procedure, and when its answer may leave.
//!
//! # Ordering
//! The answer leaves when all that it depends on is durable (rule R7). A `_MSG` is answered at once; its result follows as a call to
//! the host.

use super::cx::{Cx, Later};
use super::host::HostName;
use super::host_calls::{HostCalls, Procedure};
use super::{cancel, free_all, granted, lock, restart, share, test, unlock};
use crate::admit::{admit, settle};
use crate::once::{Executed, once};

use mds::Mds;
use nlm::{Netobj, Nlm4Res, Nlm4ShareRes, Nlm4Stats, NlmCall, NlmProc, PROGRAM, VERSION};
use rpc::AcceptError;
use rpc_service::{Call, Program, Replies, ReplyBounds, Seal};
use server::Nfsd;
use std::ops::RangeInclusive;
use std::sync::Arc;
use tokio::sync::Semaphore;
use transport::{Connector, Message};
use xdr::{Decode, Decoder, Encode, Encoder};

/// Most results of messages that are on their way to hosts.
const RESULTS_MAX: usize = 256;

/// What is kept of calls: locks are asked for less often than files are changed.
fn reply_bounds() -> ReplyBounds {
    ReplyBounds {
        bytes_max: 32 << 20,
        client_bytes_max: 8 << 20,
        ..ReplyBounds::default()
    }
}

/// The NLM program over a metadata server.
pub struct Nlm {
    nfsd: Arc<Nfsd<Mds>>,
    replies: Replies,
    calls: Arc<HostCalls>,
    results: Arc<Semaphore>,
}

impl Nlm {
    /// Locks files of `nfsd`. `connector` reaches hosts that wait for locks.
    #[must_use]
    pub fn new(nfsd: Arc<Nfsd<Mds>>, connector: Arc<dyn Connector>) -> Self {
        Self {
            nfsd,
            replies: Replies::new(reply_bounds()),
            calls: Arc::new(HostCalls::new(connector)),
            results: Arc::new(Semaphore::new(RESULTS_MAX)),
        }
    }

    /// Tells hosts of the restart of the server, and from then on of locks that they have waited for. `name` is what hosts may
    /// know this server by; they know its address too. Runs until it is dropped.
    pub async fn tell_hosts(&self, name: &str) {
        let fs = self.nfsd.role().fs();
        let name: Arc<[u8]> = Arc::from(name.as_bytes());
        restart::notify_all(Arc::clone(fs), Arc::clone(&self.calls), name).await;
        granted::tell_all(Arc::clone(fs), Arc::clone(&self.calls)).await;
    }

    async fn execute(&self, call: &Call<'_>, args: &NlmCall<'_>, actor: fs::Actor) -> Executed {
        let mut cx = Cx {
            mds: self.nfsd.role(),
            call,
            actor,
        };
        let mut result = Encoder::new();
        if perform(&mut cx, args, &mut result).await.is_err() {
            return Executed::Later;
        }
        if settle(&self.nfsd, call, &cx.actor).await.is_err() {
            return Executed::Lost;
        }
        let mut e = Encoder::new();
        Seal::None.begin(&mut e, call.header.xid);
        match (args.proc().answered_by(), caller_name(args)) {
            (Some(answer), Some(name)) => {
                let host = HostName::of(call.conn, name);
                self.send_result(host, answer, result.into_bytes());
                Executed::Done(e.into(), Arc::from([]))
            }
            _ => {
                e.raw(result.as_bytes());
                Executed::Done(e.into(), Arc::from(result.as_bytes()))
            }
        }
    }

    /// Sends the result of a message, once. One that is lost is asked for again by its host.
    fn send_result(&self, host: HostName, answer: NlmProc, result: Vec<u8>) {
        let Ok(place) = Arc::clone(&self.results).try_acquire_owned() else {
            return;
        };
        let calls = Arc::clone(&self.calls);
        let procedure = Procedure {
            program: PROGRAM,
            version: VERSION,
            procedure: answer as u32,
        };
        tokio::spawn(async move {
            if let Err(error) = calls.call(&host, procedure, &result).await {
                tracing::debug!(?error, %host, "the result of a message");
            }
            drop(place);
        });
    }
}

/// Executes a procedure and writes its result.
async fn perform(cx: &mut Cx<'_>, args: &NlmCall<'_>, e: &mut Encoder) -> Result<(), Later> {
    match args {
        NlmCall::Test(args) | NlmCall::TestMsg(args) => test::test(cx, args, e).await?,
        NlmCall::Lock(args) | NlmCall::LockMsg(args) | NlmCall::NmLock(args) => {
            res(args.cookie, lock::lock(cx, args).await?, e);
        }
        NlmCall::Cancel(args) | NlmCall::CancelMsg(args) => {
            res(args.cookie, cancel::cancel(cx, args)?, e);
        }
        NlmCall::Unlock(args) | NlmCall::UnlockMsg(args) => {
            res(args.cookie, unlock::unlock(cx, args)?, e);
        }
        NlmCall::Share(args) => share_res(args.cookie, share::share(cx, args).await?, e),
        NlmCall::Unshare(args) => share_res(args.cookie, share::unshare(cx, args)?, e),
        NlmCall::FreeAll(args) => free_all::free_all(cx, args).await,
        // No lock of ours waits at another server.
        NlmCall::Granted(args) => res(args.cookie, Nlm4Stats::Denied, e),
        NlmCall::Null
        | NlmCall::GrantedMsg(_)
        | NlmCall::TestRes(_)
        | NlmCall::LockRes(_)
        | NlmCall::CancelRes(_)
        | NlmCall::UnlockRes(_)
        | NlmCall::GrantedRes(_) => {}
    }
    Ok(())
}

fn res(cookie: Netobj<'_>, stat: Nlm4Stats, e: &mut Encoder) {
    Nlm4Res { cookie, stat }.encode(e);
}

fn share_res(cookie: Netobj<'_>, stat: Nlm4Stats, e: &mut Encoder) {
    Nlm4ShareRes {
        cookie,
        stat,
        sequence: 0,
    }
    .encode(e);
}

/// The host that a message says it comes from.
fn caller_name<'a>(args: &NlmCall<'a>) -> Option<&'a [u8]> {
    let lock = match args {
        NlmCall::TestMsg(args) => &args.alock,
        NlmCall::LockMsg(args) => &args.alock,
        NlmCall::CancelMsg(args) => &args.alock,
        NlmCall::UnlockMsg(args) => &args.alock,
        _ => return None,
    };
    Some(lock.caller_name.0)
}

impl Program for Nlm {
    fn number(&self) -> u32 {
        PROGRAM
    }

    fn versions(&self) -> RangeInclusive<u32> {
        VERSION..=VERSION
    }

    async fn call<'r>(&'r self, call: Call<'r>) -> Option<Message> {
        let number = call.header.procedure.to_be_bytes();
        let Ok(proc) = NlmProc::decode(&mut Decoder::new(&number)) else {
            return call.refuse(AcceptError::ProcUnavail);
        };
        let Ok(args) = NlmCall::decode(proc, call.args.rest()) else {
            return call.refuse(AcceptError::GarbageArgs);
        };
        let actor = match admit(&self.nfsd, &call).await {
            Ok(actor) => actor,
            Err(rejection) => return call.refuse(rejection),
        };
        once(&self.replies, &call, self.execute(&call, &args, actor)).await
    }
}
