//! Ways of callbacks to a client, and the tries that they share.
//!
//! How a call gets to its client is the matter of a [`CallbackPath`]. NFSv4.1 has the back channels of the client's sessions
//! (`back_channel`). NFSv4.0 has a connection that the server makes (`dialed`), without slots. Both try again in
//! the same way.
//!
//! # Ordering
//! Callbacks of one client may run at the same time.
//!
//! # Failure
//! A broken connection leaves the call in doubt. It is sent again until [`CALLBACK_MS_MAX`] has passed. What remains is for the
//! caller: a recall that cannot be delivered ends in revocation.

use bytes::Bytes;
use nfs4::{CbCompoundBuilder, CbCompoundReply, NfsStatus, OpError};
use rpc::{AuthSys, CallStart, OpaqueAuth};
use state::CallbackSecurity;
use std::time::Duration;
use tokio::time::Instant;
use transport::{ConnHandle, Message};
use xdr::Encoder;

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

/// Appends the operation of a callback after `CB_SEQUENCE`.
pub type BuildCallback<'a> = &'a (dyn Fn(&mut CbCompoundBuilder) + Send + Sync);
/// Reads the result of the operation after `CB_SEQUENCE`.
pub type TakeResult<T> = fn(&mut CbCompoundReply<'_>) -> Result<T, OpError>;

/// A way to a client.
pub trait CallbackPath: Sync {
    /// What a call holds over all its tries, such as a slot.
    type Call: Send;

    /// Begins a try: takes a connection, another one than `silent` if there is a choice, and encodes the call. Continues `held`
    /// if there is one. `None` when there is no way just now.
    fn begin_try(
        &self,
        held: &mut Option<Self::Call>,
        silent: Option<u64>,
        build: BuildCallback<'_>,
    ) -> Option<Try<Self::Call>>;

    /// Whether there will be no way again: the client is gone.
    fn is_gone(&self) -> bool;

    /// No answer came: the client may have executed the call.
    fn note_silence(&self, call: &mut Self::Call);

    /// Reads an answer; `take` reads the result of the operation.
    fn take_answer<T>(
        &self,
        call: Self::Call,
        record: &Bytes,
        take: TakeResult<T>,
    ) -> Taken<Self::Call, T>;
}

/// One try.
#[derive(Debug)]
pub struct Try<C> {
    /// What it holds.
    pub call: C,
    /// Where it goes.
    pub conn: ConnHandle,
    /// Its bytes; the transport fills in the transaction id.
    pub message: Message,
}

/// What becomes of a callback after an answer.
#[derive(Debug)]
pub enum Taken<C, T> {
    /// It has ended.
    Ended(Result<T, CallbackError>),
    /// It is tried again, with what it still holds.
    Again(CallbackError, Option<C>),
}

/// A callback over `path`, from its first try to its end. It begins within `begin_ms`. What is in doubt is tried again until
/// [`CALLBACK_MS_MAX`].
///
/// # Errors
/// [`CallbackError`].
pub async fn deliver<P: CallbackPath, T: Send>(
    path: &P,
    begin_ms: u64,
    build: BuildCallback<'_>,
    take: TakeResult<T>,
) -> Result<T, CallbackError> {
    let start = Instant::now();
    let begin_until = start + Duration::from_millis(begin_ms);
    let retry_until = start + Duration::from_millis(CALLBACK_MS_MAX);
    let mut held = None;
    let mut silent = None;
    let mut error = CallbackError::NoBackChannel;
    while Instant::now() < held.as_ref().map_or(begin_until, |_| retry_until) {
        let Some(attempt) = path.begin_try(&mut held, silent, build) else {
            if path.is_gone() {
                return Err(CallbackError::NoBackChannel);
            }
            tokio::time::sleep(Duration::from_millis(RETRY_PAUSE_MS)).await;
            continue;
        };
        let mut call = attempt.call;
        let try_for = Duration::from_millis(TRY_MS);
        match attempt.conn.call(attempt.message, try_for).await {
            Ok(record) => match path.take_answer(call, &record, take) {
                Taken::Ended(result) => return result,
                Taken::Again(e, again) => (error, held) = (e, again),
            },
            Err(_) => {
                error = CallbackError::Lost;
                silent = Some(attempt.conn.id());
                path.note_silence(&mut call);
                held = Some(call);
            }
        }
        tokio::time::sleep(Duration::from_millis(RETRY_PAUSE_MS)).await;
    }
    Err(error)
}

/// Begins a `CB_COMPOUND` of the client's program.
#[must_use]
pub fn begin_cb_compound(
    program: u32,
    minor_version: u32,
    security: &CallbackSecurity,
) -> CbCompoundBuilder {
    CbCompoundBuilder::new(begin_call(program, security), b"", minor_version)
}

/// The RPC header of a `CB_COMPOUND`.
pub(crate) fn begin_call(program: u32, security: &CallbackSecurity) -> Encoder {
    let body = match security {
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
        program,
        version: CB_VERSION,
        procedure: CB_PROC_COMPOUND,
        credential,
        verifier: OpaqueAuth::NONE,
    };
    xdr::Encode::encode(&start, &mut e);
    e
}

/// The result of an operation, for its caller.
pub(crate) fn taken<T>(
    reply: &mut CbCompoundReply<'_>,
    take: TakeResult<T>,
) -> Result<T, CallbackError> {
    take(reply).map_err(|e| match e {
        OpError::Status { status, .. } => CallbackError::Status(status),
        _ => CallbackError::Malformed,
    })
}

/// For operations whose result is their status.
///
/// # Errors
/// [`OpError`] of the operation, or of the whole.
pub fn status_only(reply: &mut CbCompoundReply<'_>) -> Result<(), OpError> {
    let (op, status) = match reply.next_result()? {
        Some(result) => (Some(result.op), result.status),
        None => (None, reply.status),
    };
    let failed = |status| OpError::Status { op, status };
    status.ok().map_err(failed)
}
