//! NFSv3 at the simulated metadata server: its programs beside NFSv4, and a look at what they execute.
//!
//! Version 3 and NFSv4.0 have no sessions. A WRITE that a client sent twice is executed twice, and no client learns when the second time was over.
//! [`Watched`] stands before the server and notes each execution, for the checkers that must allow that much and no more.
//!
//! Faults that are built in stand here too: [`InjectedBug::ForgetReplies`] and [`InjectedBug::KeepVerifier`].

use crate::history::History;
use crate::injected_bug::InjectedBug;
use crate::trace::MDS_NAME;
use bytes::{Bytes, BytesMut};
use mds::Mds;
use mds3::{Mount, Nfs3, Nlm, Nsm};
use nfs3::Proc;
use nfs3::procs::WriteArgs;
use nfs4::ops::{PutFhArgs, WriteArgs as WriteArgs4};
use nfs4::{CompoundHeader, OpNum, OpReader};
use rpc::{CallHeader, ReplyHeader, ReplyVerdict};
use rpc_service::DynProgram;
use server::Nfsd;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering::Relaxed};
use tokio::task::JoinSet;
use transport::{BoxFuture, CloseReason, ConnHandle, Connector, DynService, Endpoint, Message};
use xdr::{Decode, Decoder, Encoder};

/// Where the stamp of an AUTH_SYS credential is in a call (RFC 5531 §9, appendix A).
const STAMP: std::ops::Range<usize> = 32..36;
/// Bytes of a write verifier, which WRITE and COMMIT have at their end.
const VERIFIER_BYTES: usize = 8;

/// What the metadata server is told of NFSv3.
#[derive(Clone)]
pub(crate) struct Older {
    pub(crate) history: History,
    pub(crate) bug: Option<InjectedBug>,
    /// Whether hosts lock by NLM.
    pub(crate) nlm: bool,
}

impl Older {
    /// NFSv4 with the programs of version 3 beside it. `tasks` tell hosts of restarts and of locks.
    pub(crate) fn beside(
        &self,
        nfsd: &Arc<Nfsd<Mds>>,
        connector: Arc<dyn Connector>,
        tasks: &mut JoinSet<()>,
    ) -> Arc<dyn DynService> {
        let mut programs: Vec<Arc<dyn DynProgram>> = vec![
            Arc::new(Nfs3::new(Arc::clone(nfsd))),
            Arc::new(Mount::new(Arc::clone(nfsd))),
        ];
        if self.nlm {
            let nlm = Arc::new(Nlm::new(Arc::clone(nfsd), Arc::clone(&connector)));
            programs.push(nlm.clone());
            programs.push(Arc::new(Nsm::new(Arc::clone(nfsd), connector)));
            tasks.spawn(async move { nlm.tell_hosts(MDS_NAME).await });
        }
        Arc::new(Watched {
            service: Arc::new(Arc::clone(nfsd).with_programs(programs)),
            older: self.clone(),
            stamps: AtomicU32::new(0),
        })
    }
}

/// The procedure of a call of NFSv3, and its arguments.
fn procedure(record: &[u8]) -> Option<(Proc, &[u8])> {
    let mut d = Decoder::new(record);
    let header = CallHeader::decode(&mut d).ok()?;
    if (header.program, header.version) != (nfs3::PROGRAM, nfs3::VERSION) {
        return None;
    }
    let number = header.procedure.to_be_bytes();
    let proc = Proc::decode(&mut Decoder::new(&number)).ok()?;
    Some((proc, d.rest()))
}

/// The tag of the data of a WRITE: a client of the simulation marks each cell with it.
fn tag(args: &[u8]) -> Option<u32> {
    let args: WriteArgs<'_> = xdr::decode_all(args).ok()?;
    first_word(args.data.0)
}

fn first_word(data: &[u8]) -> Option<u32> {
    data.first_chunk::<4>().copied().map(u32::from_be_bytes)
}

/// Whether a call is a COMPOUND of NFSv4.0, and the tag of the WRITE after its PUTFH.
fn minor_0(record: &[u8]) -> Option<Option<u32>> {
    let mut d = Decoder::new(record);
    let header = CallHeader::decode(&mut d).ok()?;
    if (header.program, header.procedure) != (nfs4::PROGRAM, 1) {
        return None;
    }
    let compound = CompoundHeader::decode(&mut d).ok()?;
    (compound.minorversion == 0).then(|| write_0(OpReader::new(d, compound.ops_count)))
}

fn write_0(mut ops: OpReader<'_>) -> Option<u32> {
    let put = ops.next_op()?.ok()?;
    (put == OpNum::PutFh as u32).then_some(())?;
    ops.args::<PutFhArgs<'_>>().ok()?;
    let write = ops.next_op()?.ok()?;
    (write == OpNum::Write as u32).then_some(())?;
    first_word(ops.args::<WriteArgs4<'_>>().ok()?.data.0)
}

/// The server, and what it is called for.
struct Watched {
    service: Arc<dyn DynService>,
    older: Older,
    stamps: AtomicU32,
}

impl Watched {
    /// With the fault, no call is the one that was heard before.
    fn record(&self, record: Bytes) -> Bytes {
        if self.older.bug != Some(InjectedBug::ForgetReplies) || record.len() < STAMP.end {
            return record;
        }
        let mut other = BytesMut::from(&*record);
        let stamp = self.stamps.fetch_add(1, Relaxed);
        other[STAMP].copy_from_slice(&stamp.to_be_bytes());
        other.freeze()
    }

    /// With the fault, there is one verifier for ever.
    fn reply(&self, proc: Proc, reply: Message) -> Message {
        let has_verifier = matches!(proc, Proc::Write | Proc::Commit);
        if self.older.bug != Some(InjectedBug::KeepVerifier) || !has_verifier {
            return reply;
        }
        let Ok(mut bytes) = reply.flatten() else {
            return reply;
        };
        let mut d = Decoder::new(&bytes);
        let is_done = ReplyHeader::decode(&mut d)
            .is_ok_and(|header| matches!(header.verdict, ReplyVerdict::Success { .. }))
            && d.u32() == Ok(0);
        if is_done {
            let at = bytes.len() - VERIFIER_BYTES;
            bytes[at..].fill(0);
        }
        let mut e = Encoder::new();
        e.raw(&bytes);
        e.into()
    }

    async fn perform(&self, conn: &ConnHandle, record: Bytes) -> Option<Message> {
        let (proc, tag) = match (procedure(&record), minor_0(&record)) {
            (Some((proc, args)), _) => (Some(proc), tag(args).filter(|_| proc == Proc::Write)),
            (None, Some(tag)) => (None, tag),
            (None, None) => return self.service.call_boxed(conn, record).await,
        };
        let begun = tag.map(|tag| (tag, self.older.history.write_begins(tag)));
        // One that is dropped here goes on until nobody knows when: until the server loses its power.
        let reply = self.service.call_boxed(conn, self.record(record)).await;
        if let Some((tag, at)) = begun {
            self.older.history.write_ends(tag, at);
        }
        match proc {
            Some(proc) => reply.map(|reply| self.reply(proc, reply)),
            None => reply,
        }
    }
}

impl DynService for Watched {
    fn call_boxed<'a>(
        &'a self,
        conn: &'a ConnHandle,
        record: Bytes,
    ) -> BoxFuture<'a, Option<Message>> {
        Box::pin(self.perform(conn, record))
    }

    fn admits_peer(&self, peer: &Endpoint) -> bool {
        self.service.admits_peer(peer)
    }

    fn on_connected(&self, conn: &ConnHandle) {
        self.service.on_connected(conn);
    }

    fn on_disconnected(&self, conn: &ConnHandle, reason: CloseReason) {
        self.service.on_disconnected(conn, reason);
    }

    fn on_credits_short(&self, conn: &ConnHandle) {
        self.service.on_credits_short(conn);
    }
}
