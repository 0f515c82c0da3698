//! Persistent sessions (RFC 8881 §2.10.6.5, rule R15): a retry after a restart of the server gets the reply of what was
//! executed before it.
//!
//! What changes anything for good is one transaction of the role's store. With it goes what the COMPOUND had answered
//! so far, this operation's result included, and where the COMPOUND was: [`Keeper::kept`]. After a restart such a
//! session is dead for new requests, but a retry of the last change of a slot continues there. The results are those of
//! then, and operations after them that only look are executed now. So effect and answer are atomic without holding a
//! transaction over a whole COMPOUND, and nothing is written for COMPOUNDs that only look. Results after the last
//! change are added before the reply leaves. Only a server that went down in between, when nobody had seen them, looks
//! again.
//!
//! # Ordering
//! A slot keeps one change, the newest: its client sends a new request only when it has the reply of the one before.
//!
//! # Failure
//! A COMPOUND that went down between two changes ends after the first one with `NFS4ERR_DELAY`. Its client knows what
//! was done and asks for the rest anew.

use crate::actor::Actor;
use crate::compound::Compound;
use crate::kept::{KEPT_RESULTS_BYTES_MAX, Kept, Persist};
use crate::nfsd::Nfsd;
use crate::role::Role;
use crate::tables::reads_names_only;
use nfs4::ops::SequenceArgs;
use nfs4::{NfsStatus, OpNum, OpReader, ReplyWriter};
use state::SlotOf;
use std::sync::atomic::Ordering::Relaxed;
use xdr::{Decoder, OpaqueBuf};

/// More bytes than the result of any operation that is kept.
const KEPT_RESULT_BYTES_MAX: usize = 1024;

impl<A: Actor> Compound<'_, A> {
    /// An operation that changes something begins.
    ///
    /// # Errors
    /// `UnsafeCompound` when what was answered before it cannot be kept: it has bulk data.
    pub(crate) fn begin_change(&mut self, reply: &ReplyWriter<OpNum>) -> Result<(), NfsStatus> {
        let Some(persist) = &mut self.persist else {
            return Ok(());
        };
        let results = reply.results().ok_or(NfsStatus::UnsafeCompound)?;
        if results.len() + KEPT_RESULT_BYTES_MAX > KEPT_RESULTS_BYTES_MAX as usize {
            return Err(NfsStatus::UnsafeCompound);
        }
        persist.results = results.to_vec();
        persist.results_count = reply.count();
        Ok(())
    }

    /// The arguments of the operation in execution are read.
    pub fn args_read(&mut self, ops: &OpReader<'_>) {
        if let Some(persist) = &mut self.persist {
            persist.rest_bytes = u32::try_from(ops.rest().len()).unwrap_or(u32::MAX);
        }
    }

    /// The whole reply, when it is more than was kept with the last change. Results have come after that, or it has
    /// failed although it was begun for good. A retry then gets all as it was.
    fn kept_whole(
        &self,
        reply: &ReplyWriter<OpNum>,
        status: NfsStatus,
    ) -> Option<(SlotOf, Vec<u8>)> {
        let persist = self.persist.as_ref()?;
        let kept_count = persist.kept_count.load(Relaxed);
        let is_kept = kept_count == reply.count() && status.is_ok();
        if kept_count == 0 || is_kept {
            return None;
        }
        let results = reply.results()?;
        if results.len() > KEPT_RESULTS_BYTES_MAX as usize {
            return None;
        }
        let kept = Kept {
            seqid: persist.seqid,
            fingerprint: persist.fingerprint,
            results_count: reply.count(),
            results: OpaqueBuf(results.to_vec()),
            ended: Some(status),
            rest_bytes: 0,
            current_fh: None,
            saved_fh: None,
        };
        Some((persist.slot(), xdr::encode_to_vec(&kept)))
    }
}

impl<R: Role> Nfsd<R> {
    /// Keeps the rest of a reply that tells of a change.
    pub(crate) fn keep_whole(
        &self,
        cx: &mut Compound<'_, R::Actor>,
        reply: &ReplyWriter<OpNum>,
        status: NfsStatus,
    ) {
        let Some((slot, bytes)) = cx.kept_whole(reply, status) else {
            return;
        };
        match self.role().keep(slot, &bytes) {
            Ok(seq) => cx.observe(seq),
            // A retry after a restart will look up anew what follows the change.
            Err(status) => tracing::debug!(%status, "a reply is kept in part"),
        }
    }

    /// A SEQUENCE in a session that this run does not have: of an earlier run, whose slot kept this very request?
    ///
    /// # Errors
    /// `BadSession` for what never was. `DeadSession` for what an earlier run did not keep; `Delay` for what it began and this
    /// one has not ended.
    pub(crate) fn revive(
        &self,
        cx: &mut Compound<'_, R::Actor>,
        args: &SequenceArgs,
        fingerprint: u64,
    ) -> Result<Kept, NfsStatus> {
        let slot = SlotOf {
            session: args.session_id,
            slot: args.slot_id,
        };
        let stored = self.role().kept(slot)?;
        let kept: Kept = match stored {
            Some(bytes) => xdr::decode_all(&bytes).map_err(|error| {
                tracing::error!(%error, "a kept reply makes no sense");
                NfsStatus::DeadSession
            })?,
            None => return Err(NfsStatus::DeadSession),
        };
        if kept.seqid != args.sequence_id || kept.fingerprint != fingerprint {
            return Err(NfsStatus::DeadSession);
        }
        if let Some(file) = &kept.current_fh {
            self.role().is_ended(file)?;
        }
        if kept.ended.is_none() {
            // What is looked up now after the change is kept too: another retry gets the same.
            let persist = Persist::new(args, fingerprint);
            persist.kept_count.store(kept.results_count, Relaxed);
            cx.persist = Some(persist);
        }
        Ok(kept)
    }

    /// Continues a COMPOUND of an earlier run after its last change.
    pub(crate) async fn resume<'r>(
        &'r self,
        cx: &mut Compound<'r, R::Actor>,
        kept: Kept,
        (body, ops_count): (&'r [u8], u32),
        reply: &mut ReplyWriter<OpNum>,
    ) -> NfsStatus {
        reply.append(kept.results_count, &kept.results.0);
        if let Some(status) = kept.ended {
            return status;
        }
        cx.current_fh = kept.current_fh;
        cx.saved_fh = kept.saved_fh;
        let rest = usize::try_from(kept.rest_bytes).unwrap_or(usize::MAX);
        let rest = body.len().checked_sub(rest).map(|at| &body[at..]);
        let left = ops_count.saturating_sub(kept.results_count);
        let mut ops = OpReader::new(Decoder::new(rest.unwrap_or_default()), left);
        while let Some(next) = self.next_op(cx, &mut ops, reply) {
            let op = match next {
                Ok(op) => op,
                Err(status) => return status,
            };
            let status = if reads_names_only(op) {
                self.execute(cx, op, &mut ops, reply).await
            } else {
                reply.error(op, NfsStatus::Delay);
                NfsStatus::Delay
            };
            if !status.is_ok() {
                return status;
            }
        }
        NfsStatus::Ok
    }
}
