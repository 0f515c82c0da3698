//! What a persistent session keeps of a request: the newest change of a slot, and how it is made.

use nfs4::ops::SequenceArgs;
use nfs4::{FileHandle, NfsStatus, OpBody, OpNum, SessionId};
use state::SlotOf;
use std::sync::atomic::{AtomicU32, Ordering::Relaxed};
use xdr::{Encoder, OpaqueBuf};

/// Most bytes of results that are kept. Those before a change are of small operations.
pub const KEPT_RESULTS_BYTES_MAX: u32 = 64 * 1024;

xdr::xdr_struct! {
    /// The newest change that a slot made.
    pub(crate) struct Kept {
        /// `sa_sequenceid` of the COMPOUND.
        pub(crate) seqid: u32,
        /// Tells a retry from another request.
        pub(crate) fingerprint: u64,
        /// Operations executed, SEQUENCE and the change included.
        pub(crate) results_count: u32,
        /// Their results.
        pub(crate) results: OpaqueBuf<KEPT_RESULTS_BYTES_MAX>,
        /// How the COMPOUND ended; `None` while it went on.
        pub(crate) ended: Option<NfsStatus>,
        /// Bytes of the request after them.
        pub(crate) rest_bytes: u32,
        /// Current file handle after them.
        pub(crate) current_fh: Option<FileHandle>,
        /// Saved file handle after them.
        pub(crate) saved_fh: Option<FileHandle>,
    }
}

/// The slot of a COMPOUND in a persistent session, and how far it has come.
#[derive(Debug)]
pub(crate) struct Persist {
    pub(crate) session: SessionId,
    pub(crate) slot: u32,
    pub(crate) seqid: u32,
    pub(crate) fingerprint: u64,
    pub(crate) results_count: u32,
    pub(crate) results: Vec<u8>,
    pub(crate) rest_bytes: u32,
    /// Results in what was kept last; 0 when nothing was.
    pub(crate) kept_count: AtomicU32,
}

impl Persist {
    pub(crate) fn new(args: &SequenceArgs, fingerprint: u64) -> Self {
        Self {
            session: args.session_id,
            slot: args.slot_id,
            seqid: args.sequence_id,
            fingerprint,
            results_count: 0,
            results: Vec::new(),
            rest_bytes: 0,
            kept_count: AtomicU32::new(0),
        }
    }

    pub(crate) fn slot(&self) -> SlotOf {
        SlotOf {
            session: self.session,
            slot: self.slot,
        }
    }
}

/// Makes of a result what is kept with its effect.
#[derive(Debug, Clone, Copy)]
pub struct Keeper<'a> {
    pub(crate) persist: Option<&'a Persist>,
    pub(crate) current_fh: Option<&'a FileHandle>,
    pub(crate) saved_fh: Option<&'a FileHandle>,
}

impl Keeper<'_> {
    /// What is to be made durable in the transaction of the operation in execution, for a retry after a restart. `res`
    /// is its result, and `made` the handle that it will make current. `None` when the session is not persistent.
    pub fn kept<B>(&self, res: &B, made: Option<FileHandle>) -> Option<(SlotOf, Vec<u8>)>
    where
        B: OpBody<Num = OpNum>,
    {
        let persist = self.persist?;
        let mut e = Encoder::with_buffer(persist.results.clone());
        e.u32(B::OP as u32);
        e.u32(res.status() as u32);
        res.encode(&mut e);
        let results_count = persist.results_count + 1;
        persist.kept_count.store(results_count, Relaxed);
        let kept = Kept {
            seqid: persist.seqid,
            fingerprint: persist.fingerprint,
            results_count,
            results: OpaqueBuf(e.into_bytes()),
            ended: None,
            rest_bytes: persist.rest_bytes,
            current_fh: made.or_else(|| self.current_fh.cloned()),
            saved_fh: self.saved_fh.cloned(),
        };
        Some((persist.slot(), xdr::encode_to_vec(&kept)))
    }
}
