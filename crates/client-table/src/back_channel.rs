//! The back channels of a client's sessions as a path for callbacks: `CB_COMPOUND` with `CB_SEQUENCE` on a connection of the
//! client (RFC 8881 §2.10.3.1, §20.9).
//!
//! # Ownership
//! A callback holds a slot of the session's back channel until it is answered. Its bytes are built anew for each try
//! from the same closure, so that a retry under the same sequence id is the same call.
//!
//! # Ordering
//! Callbacks of one client run at the same time in different slots.
//!
//! # Failure
//! A call in doubt is sent again on another connection of its session. When it is given up, the slot's sequence id is unknown and
//! the slot leaves service. When all have, SEQUENCE says BACKCHANNEL_FAULT and the client makes a new session.

use crate::ClientTable;
use crate::callback_path::{
    BuildCallback, CallbackError, CallbackPath, TakeResult, Taken, Try, begin_cb_compound, taken,
};
use bytes::Bytes;
use nfs4::cb::{CbSequenceArgs, CbSequenceRes, ReferringCall, ReferringCallList};
use nfs4::{CbCompoundBuilder, CbCompoundReply, ClientId, NfsStatus, SessionId};
use rpc::{ReplyHeader, ReplyVerdict};
use state::{CallbackOutcome, CallbackSlot, Origin, Session};
use transport::{ConnHandle, Message};
use xdr::{Decode, Decoder};

/// A slot of a back channel, held for one callback over all its tries.
pub(crate) struct HeldSlot<'a> {
    table: &'a ClientTable,
    session: SessionId,
    slot: CallbackSlot,
    /// A try ended without an answer, so the client may have executed the call.
    in_doubt: bool,
    ended: bool,
}

impl HeldSlot<'_> {
    fn end(mut self, outcome: CallbackOutcome) {
        self.release(outcome);
    }

    fn release(&mut self, outcome: CallbackOutcome) {
        self.ended = true;
        if let Some(session) = self.table.lock().session_mut(self.session) {
            session.back_channel.release(self.slot.slot, outcome);
        }
    }
}

impl Drop for HeldSlot<'_> {
    /// Given up: nobody knows the slot's sequence id any more.
    fn drop(&mut self) {
        if !self.ended {
            self.release(CallbackOutcome::Fault);
        }
    }
}

/// The back channels of one client.
pub(crate) struct SessionPath<'a> {
    table: &'a ClientTable,
    client: ClientId,
    /// Over this session, or over any of the client's.
    only: Option<SessionId>,
    /// The request whose reply grants what the callback is about, unless the client has that reply.
    origin: Option<Origin>,
}

impl<'a> SessionPath<'a> {
    /// Over any session.
    pub(crate) fn any(table: &'a ClientTable, client: ClientId) -> Self {
        Self {
            table,
            client,
            only: None,
            origin: None,
        }
    }

    /// Over one session.
    pub(crate) fn only(table: &'a ClientTable, client: ClientId, session: SessionId) -> Self {
        Self {
            only: Some(session),
            ..Self::any(table, client)
        }
    }

    /// About what the reply to `origin` has granted, or is about to.
    pub(crate) fn about(self, origin: Option<Origin>) -> Self {
        let origin = origin.filter(|origin| !self.table.reply_was_received(origin));
        Self { origin, ..self }
    }
}

/// What a reply means.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Answer<T> {
    /// `CB_SEQUENCE` succeeded.
    Executed {
        result: Result<T, CallbackError>,
        /// `csr_target_highest_slotid`.
        target_highest_slot: u32,
    },
    /// The client looked at the call and did not touch the slot.
    NotExecuted(CallbackError),
    /// The client contradicts our sequence ids, or its bytes are wrong.
    Fault,
}

impl ClientTable {
    /// Whether the client has the reply to this request of its, or can never have it any more. Never of
    /// [`Origin::UNKNOWN`].
    #[must_use]
    pub fn reply_was_received(&self, origin: &Origin) -> bool {
        if *origin == Origin::UNKNOWN {
            return false;
        }
        let clients = self.lock();
        let session = clients.session(origin.session);
        session.is_none_or(|s| s.slots().has_moved_on(origin.slot, origin.seqid))
    }

    /// Whether a callback to the client has a way to go just now.
    #[must_use]
    pub fn can_call_back(&self, client: ClientId) -> bool {
        let clients = self.lock();
        if clients.is_minor_0(client) {
            drop(clients);
            return self.can_dial(client);
        }
        let mut sessions = clients.sessions_of(client).iter();
        sessions.any(|id| {
            clients.session(*id).is_some_and(|session| {
                session.has_back_channel()
                    && !session.back_channel.is_faulty()
                    && self.live_connection(session, None).is_some()
            })
        })
    }

    fn live_connection(&self, session: &Session, silent: Option<u64>) -> Option<ConnHandle> {
        let connections = self.connections.lock();
        let live = |c| connections.get(&c).filter(|conn| !conn.is_closed());
        let mut found = session.back_connections().filter_map(live);
        let first = found.next()?;
        let other = (Some(first.id()) == silent).then(|| found.next()).flatten();
        Some(other.unwrap_or(first).clone())
    }
}

impl<'a> CallbackPath for SessionPath<'a> {
    type Call = HeldSlot<'a>;

    fn begin_try(
        &self,
        held: &mut Option<HeldSlot<'a>>,
        silent: Option<u64>,
        build: BuildCallback<'_>,
    ) -> Option<Try<HeldSlot<'a>>> {
        let mut clients = self.table.lock();
        let candidates = match held.as_ref() {
            // A call in doubt is retried over its own session while that lives (RFC 8881 §2.10.6.2).
            Some(call) if clients.session(call.session).is_some() => vec![call.session],
            Some(_) => {
                // Giving the slot back takes the table's lock.
                drop(clients);
                *held = None;
                return None;
            }
            None => match self.only {
                Some(session) => vec![session],
                None => clients.sessions_of(self.client).to_vec(),
            },
        };
        for id in candidates {
            let Some(session) = clients.session_mut(id) else {
                continue;
            };
            let Some(conn) = self.table.live_connection(session, silent) else {
                continue;
            };
            let call = match held.take() {
                Some(call) => call,
                None => match session.back_channel.acquire() {
                    None => continue,
                    Some(slot) => HeldSlot {
                        table: self.table,
                        session: id,
                        slot,
                        in_doubt: false,
                        ended: false,
                    },
                },
            };
            let (program, minor_version) = (session.callback_program, session.minor_version);
            let security = session.callback_security.clone();
            // What the caller builds is built without the table's lock.
            drop(clients);
            let compound = begin_cb_compound(program, minor_version, &security);
            return Some(Try {
                message: finish_call(compound, &call, self.origin, build),
                call,
                conn,
            });
        }
        None
    }

    fn is_gone(&self) -> bool {
        self.table.lock().owner(self.client).is_none()
    }

    fn note_silence(&self, call: &mut HeldSlot<'a>) {
        call.in_doubt = true;
    }

    fn take_answer<T>(
        &self,
        call: HeldSlot<'a>,
        record: &Bytes,
        take: TakeResult<T>,
    ) -> Taken<HeldSlot<'a>, T> {
        match judge(record, &call, take) {
            Answer::Executed {
                result,
                target_highest_slot,
            } => {
                if let Some(session) = self.table.lock().session_mut(call.session) {
                    session.back_channel.set_target(target_highest_slot);
                }
                call.end(CallbackOutcome::Answered);
                match result {
                    Err(
                        e @ CallbackError::Status(NfsStatus::Delay | NfsStatus::RetryUncachedRep),
                    ) => Taken::Again(e, None),
                    result => Taken::Ended(result),
                }
            }
            Answer::NotExecuted(e) => {
                // A client whose CREATE_SESSION is just being answered does not know its session yet.
                let passes = matches!(
                    e,
                    CallbackError::Status(NfsStatus::Delay | NfsStatus::BadSession)
                );
                match (passes, call.in_doubt) {
                    // DELAY to a retry: the first try is still running. The slot stays ours.
                    (true, true) => return Taken::Again(e, Some(call)),
                    (_, false) => call.end(CallbackOutcome::NotExecuted),
                    (false, true) => call.end(CallbackOutcome::Fault),
                }
                if passes {
                    Taken::Again(e, None)
                } else {
                    Taken::Ended(Err(e))
                }
            }
            Answer::Fault => {
                call.end(CallbackOutcome::Fault);
                Taken::Ended(Err(CallbackError::Malformed))
            }
        }
    }
}

fn finish_call(
    mut compound: CbCompoundBuilder,
    call: &HeldSlot<'_>,
    origin: Option<Origin>,
    build: BuildCallback<'_>,
) -> Message {
    compound.push(&CbSequenceArgs {
        session_id: call.session,
        sequence_id: call.slot.seqid,
        slot_id: call.slot.slot,
        highest_slot_id: call.slot.highest_slot,
        cache_this: false,
        referring_call_lists: xdr::List(origin.map(referring).into_iter().collect()),
    });
    build(&mut compound);
    compound.finish().into()
}

fn referring(origin: Origin) -> ReferringCallList {
    ReferringCallList {
        session_id: origin.session,
        calls: xdr::List(vec![ReferringCall {
            sequence_id: origin.seqid,
            slot_id: origin.slot,
        }]),
    }
}

fn judge<T>(record: &Bytes, call: &HeldSlot<'_>, take: TakeResult<T>) -> Answer<T> {
    let mut d = Decoder::new(record);
    let Ok(header) = ReplyHeader::decode(&mut d) else {
        return Answer::Fault;
    };
    if !matches!(header.verdict, ReplyVerdict::Success { .. }) {
        return Answer::NotExecuted(CallbackError::Malformed);
    }
    let Ok(mut reply) = CbCompoundReply::new(d) else {
        return Answer::Fault;
    };
    let res = match reply.take::<CbSequenceRes>() {
        Ok(res) => res,
        Err(e) => {
            return match e.status() {
                Some(NfsStatus::SeqMisordered | NfsStatus::BadSlot) | None => Answer::Fault,
                Some(status) => Answer::NotExecuted(CallbackError::Status(status)),
            };
        }
    };
    let ours = (call.session, call.slot.slot, call.slot.seqid);
    if (res.session_id, res.slot_id, res.sequence_id) != ours {
        return Answer::Fault;
    }
    let result = taken(&mut reply, take);
    Answer::Executed {
        result,
        target_highest_slot: res.target_highest_slot_id,
    }
}
