//! Callbacks: `CB_COMPOUND` with `CB_SEQUENCE` on a connection of the client (RFC 8881 §2.10.3.1, §20.9).
//!
//! # Ownership
//! A callback holds a slot of the session's back channel until it is answered. Its bytes are built anew for each try
//! from the same closure, so that a retry under the same sequence id is the same call.
//!
//! # Ordering
//! Callbacks of one client may run at the same time, in different slots.
//!
//! # Failure
//! A broken connection leaves the call in doubt: it is sent again on another connection of the session
//! until [`CALLBACK_MS_MAX`] has passed. After that the slot's sequence id is unknown and the slot leaves service; when all
//! have, SEQUENCE says BACKCHANNEL_FAULT and the client makes a new session. What remains is for the caller: a recall
//! that cannot be delivered ends in revocation.

use crate::ClientTable;
use bytes::Bytes;
use nfs4::cb::{CbSequenceArgs, CbSequenceRes, ReferringCall, ReferringCallList};
use nfs4::{CbCompoundBuilder, CbCompoundReply, ClientId, NfsStatus, OpError, SessionId};
use rpc::{AuthSys, CallStart, OpaqueAuth, ReplyHeader, ReplyVerdict};
use state::{CallbackOutcome, CallbackSecurity, CallbackSlot, Origin, Session};
use std::sync::Arc;
use std::time::Duration;
use tokio::time::Instant;
use transport::{ConnHandle, Message};
use xdr::{Decode, Decoder, Encoder};

/// How long one try waits for its reply.
const TRY_MS: u64 = 5_000;
/// How long a callback is tried in all, give or take one try.
pub const CALLBACK_MS_MAX: u64 = 15_000;
/// Pause before another try.
const RETRY_PAUSE_MS: u64 = 100;
/// The version of the program in the XDR of RFC 5662 §2. The text of RFC 8881 §18.36.3 says 4, which clients do not insist on.
pub(crate) const CB_VERSION: u32 = 1;
const CB_PROC_COMPOUND: u32 = 1;

/// Why a callback has no result.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CallbackError {
    /// The client has no session with a usable back channel, or all its slots were busy for too long.
    NoBackChannel,
    /// It did not answer, or its connections broke.
    Lost,
    /// `CB_SEQUENCE` or the operation failed with this status.
    Status(NfsStatus),
    /// Its reply made no sense.
    Malformed,
}

/// A slot of a back channel, held for one callback over all its tries.
struct Held<'a> {
    table: &'a ClientTable,
    session: SessionId,
    slot: CallbackSlot,
    /// A try ended without an answer, so the client may have executed the call.
    in_doubt: bool,
    ended: bool,
}

impl Held<'_> {
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

impl Drop for Held<'_> {
    /// Given up: nobody knows the slot's sequence id any more.
    fn drop(&mut self) {
        if !self.ended {
            self.release(CallbackOutcome::Fault);
        }
    }
}

/// What a try needs, taken out of the table.
struct Try {
    conn: ConnHandle,
    program: u32,
    minor_version: u32,
    security: CallbackSecurity,
}

/// Whom a callback goes to.
pub(crate) struct About {
    pub(crate) client: ClientId,
    /// Over this session, or over any of the client's.
    pub(crate) only: Option<SessionId>,
    pub(crate) origin: Option<Origin>,
    /// How long it may take to begin. What is in doubt is retried until [`CALLBACK_MS_MAX`].
    pub(crate) begin_ms: u64,
}

/// Appends the operation of a callback after `CB_SEQUENCE`.
pub type BuildCallback<'a> = &'a (dyn Fn(&mut CbCompoundBuilder) + Send + Sync);
/// Reads the result of the operation after `CB_SEQUENCE`.
pub type TakeResult<T> = fn(&mut CbCompoundReply<'_>) -> Result<T, OpError>;

/// What becomes of a callback after an answer.
enum Taken<'a, T> {
    Ended(Result<T, CallbackError>),
    /// To be tried again, with what it still holds.
    Again(CallbackError, Option<Held<'a>>),
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
    /// Sends one operation to a client and reads its status. `build` appends the operation after `CB_SEQUENCE`; it may
    /// be called again for a retry and must then append the same. The operation must bear to be executed twice: a client
    /// that kept no reply of a lost call is called once more.
    ///
    /// # Errors
    /// [`CallbackError`].
    pub async fn callback(
        &self,
        client: ClientId,
        build: BuildCallback<'_>,
    ) -> Result<(), CallbackError> {
        self.callback_about(client, None, build, status_only).await
    }

    /// As [`ClientTable::callback`], about what the reply to `origin` has granted, or is about to: a client that has not seen that
    /// reply can tell (RFC 8881 §2.10.6.3). `take` reads the result.
    ///
    /// # Errors
    /// [`CallbackError`].
    pub async fn callback_about<T: Send>(
        &self,
        client: ClientId,
        origin: Option<Origin>,
        build: BuildCallback<'_>,
        take: TakeResult<T>,
    ) -> Result<T, CallbackError> {
        let about = About {
            client,
            only: None,
            origin,
            begin_ms: CALLBACK_MS_MAX,
        };
        self.deliver(about, build, take).await
    }

    /// As [`ClientTable::callback_about`], for a caller that waits no longer than `wait_ms`. Only the waiting ends then: what was sent by that
    /// time goes on until it is answered, since a slot whose call is given up is of no more use. Nothing is begun later.
    ///
    /// # Errors
    /// [`CallbackError`]; `Lost` when no answer came in time.
    pub async fn callback_within<T: Send + 'static>(
        self: &Arc<Self>,
        client: ClientId,
        wait_ms: u64,
        build: impl Fn(&mut CbCompoundBuilder) + Send + Sync + 'static,
        take: TakeResult<T>,
    ) -> Result<T, CallbackError> {
        let table = Arc::clone(self);
        let about = About {
            client,
            only: None,
            origin: None,
            begin_ms: wait_ms.min(CALLBACK_MS_MAX),
        };
        let call = tokio::spawn(async move { table.deliver(about, &build, take).await });
        let answer = tokio::time::timeout(Duration::from_millis(wait_ms), call).await;
        match answer {
            Ok(Ok(result)) => result,
            Ok(Err(_)) | Err(_) => Err(CallbackError::Lost),
        }
    }

    /// A callback from its first try to its end.
    pub(crate) async fn deliver<T: Send>(
        &self,
        about: About,
        build: BuildCallback<'_>,
        take: TakeResult<T>,
    ) -> Result<T, CallbackError> {
        let origin = about.origin;
        let origin = origin.filter(|origin| !self.reply_was_received(origin));
        let start = Instant::now();
        let begin_until = start + Duration::from_millis(about.begin_ms);
        let retry_until = start + Duration::from_millis(CALLBACK_MS_MAX);
        let mut held: Option<Held<'_>> = None;
        let mut silent = None;
        let mut error = CallbackError::NoBackChannel;
        while Instant::now() < held.as_ref().map_or(begin_until, |_| retry_until) {
            let Some((mut call, attempt)) = self.begin_try(&about, &mut held, silent) else {
                if self.lock().owner(about.client).is_none() {
                    return Err(CallbackError::NoBackChannel);
                }
                tokio::time::sleep(Duration::from_millis(RETRY_PAUSE_MS)).await;
                continue;
            };
            let message = call_message(&call, &attempt, origin, build);
            let try_for = Duration::from_millis(TRY_MS);
            match attempt.conn.call(message, try_for).await {
                Ok(record) => {
                    let answer = judge(&record, &call, take);
                    match self.take_answer(call, answer) {
                        Taken::Ended(result) => return result,
                        Taken::Again(e, again) => (error, held) = (e, again),
                    }
                }
                Err(_) => {
                    error = CallbackError::Lost;
                    silent = Some(attempt.conn.id());
                    call.in_doubt = true;
                    held = Some(call);
                }
            }
            tokio::time::sleep(Duration::from_millis(RETRY_PAUSE_MS)).await;
        }
        Err(error)
    }

    /// Whether the client has the reply to this request of its, or can never have it any more.
    #[must_use]
    pub fn reply_was_received(&self, origin: &Origin) -> bool {
        let clients = self.lock();
        let session = clients.session(origin.session);
        session.is_none_or(|s| s.slots().has_moved_on(origin.slot, origin.seqid))
    }

    /// Whether a callback to the client has a way to go just now.
    #[must_use]
    pub fn can_call_back(&self, client: ClientId) -> bool {
        let clients = self.lock();
        let mut sessions = clients.sessions_of(client).iter();
        sessions.any(|id| {
            clients.session(*id).is_some_and(|session| {
                session.has_back_channel()
                    && !session.back_channel.is_faulty()
                    && self.live_connection(session, None).is_some()
            })
        })
    }

    /// What an answer means for the slot and for the caller.
    fn take_answer<'a, T>(&self, call: Held<'a>, answer: Answer<T>) -> Taken<'a, T> {
        match answer {
            Answer::Executed {
                result,
                target_highest_slot,
            } => {
                if let Some(session) = self.lock().session_mut(call.session) {
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

    /// Takes a slot, unless one is held, and a connection, another one than `silent` if there is a choice.
    fn begin_try<'a>(
        &'a self,
        about: &About,
        held: &mut Option<Held<'a>>,
        silent: Option<u64>,
    ) -> Option<(Held<'a>, Try)> {
        let mut clients = self.lock();
        let candidates = match held.as_ref() {
            // A call in doubt is retried over its own session while that lives (RFC 8881 §2.10.6.2).
            Some(call) if clients.session(call.session).is_some() => vec![call.session],
            Some(_) => {
                // Giving the slot back takes the table's lock.
                drop(clients);
                *held = None;
                return None;
            }
            None => match about.only {
                Some(session) => vec![session],
                None => clients.sessions_of(about.client).to_vec(),
            },
        };
        for id in candidates {
            let Some(session) = clients.session_mut(id) else {
                continue;
            };
            let Some(conn) = self.live_connection(session, silent) else {
                continue;
            };
            let call = match held.take() {
                Some(call) => call,
                None => match session.back_channel.acquire() {
                    None => continue,
                    Some(slot) => Held {
                        table: self,
                        session: id,
                        slot,
                        in_doubt: false,
                        ended: false,
                    },
                },
            };
            let attempt = Try {
                conn,
                program: session.callback_program,
                minor_version: session.minor_version,
                security: session.callback_security.clone(),
            };
            return Some((call, attempt));
        }
        None
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

fn call_message(
    call: &Held<'_>,
    attempt: &Try,
    origin: Option<Origin>,
    build: BuildCallback<'_>,
) -> Message {
    let body = match &attempt.security {
        CallbackSecurity::None => None,
        CallbackSecurity::Sys {
            machine,
            uid,
            gid,
            gids,
        } => Some(
            AuthSys {
                stamp: 0,
                machine: machine.clone(),
                uid: *uid,
                gid: *gid,
                gids: gids.clone(),
            }
            .to_body(),
        ),
    };
    let credential = match &body {
        None => OpaqueAuth::NONE,
        Some(body) => OpaqueAuth {
            flavor: rpc::flavor::AUTH_SYS,
            body,
        },
    };
    let mut e = Encoder::new();
    let start = CallStart {
        xid: 0,
        program: attempt.program,
        version: CB_VERSION,
        procedure: CB_PROC_COMPOUND,
        credential,
        verifier: OpaqueAuth::NONE,
    };
    xdr::Encode::encode(&start, &mut e);
    let mut builder = CbCompoundBuilder::new(e, b"", attempt.minor_version);
    builder.push(&CbSequenceArgs {
        session_id: call.session,
        sequence_id: call.slot.seqid,
        slot_id: call.slot.slot,
        highest_slot_id: call.slot.highest_slot,
        cache_this: false,
        referring_call_lists: xdr::List(origin.map(referring).into_iter().collect()),
    });
    build(&mut builder);
    builder.finish().into()
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

/// For operations whose result is their status.
pub(crate) fn status_only(reply: &mut CbCompoundReply<'_>) -> Result<(), OpError> {
    let (op, status) = match reply.next_result()? {
        Some(result) => (Some(result.op), result.status),
        None => (None, reply.status),
    };
    let failed = |status| OpError::Status { op, status };
    status.ok().map_err(failed)
}

fn judge<T>(record: &Bytes, call: &Held<'_>, take: TakeResult<T>) -> Answer<T> {
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
    let result = take(&mut reply).map_err(|e| match e {
        OpError::Status { status, .. } => CallbackError::Status(status),
        _ => CallbackError::Malformed,
    });
    Answer::Executed {
        result,
        target_highest_slot: res.target_highest_slot_id,
    }
}
