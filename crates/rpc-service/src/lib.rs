//! The shell of an RPC service (RFC 5531): headers, programs and versions, refusals, and the seal of replies.
//!
//! A [`Program`] executes calls of one RPC program. [`serve`] reads the header of a record and finds the program. It
//! answers for it what RFC 5531 §9 says of calls that no program can be asked about. A further program, such as MOUNT, is
//! one more entry in the list, and so is a further version of one, such as NFSv3. It shares the connection, its limits and
//! its credits.
//!
//! May call: `rpc`, `transport`. May not call: any program.
#![forbid(unsafe_code)]

mod kept_calls;
mod replies;
mod shares;

pub use kept_calls::Replies;
pub use replies::{ReplyCache, RunningCall, replay};
pub use shares::{CallKey, Heard, ReplyBounds};

use bytes::Bytes;
use rpc::{AcceptError, CallHeader, CallHeaderError, CallRefusal, OpaqueAuth};
use std::future::Future;
use std::ops::RangeInclusive;
use std::sync::Arc;
use transport::{BoxFuture, CloseReason, ConnHandle, Message};
use xdr::{Decoder, Encoder};

/// How replies to a caller are sealed: the verifier of their headers, and later what RPCSEC_GSS does to their bodies
/// (RFC 2203 §5.3.3). It follows from the credential of the call.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Seal {
    /// AUTH_NONE: nothing is proved, and bodies are as they are.
    #[default]
    None,
}

impl Seal {
    /// Begins a reply that reports success.
    pub fn begin(self, e: &mut Encoder, xid: u32) {
        match self {
            Self::None => rpc::begin_success(e, xid, OpaqueAuth::NONE),
        }
    }
}

/// One call, with what it came on.
#[derive(Debug)]
pub struct Call<'r> {
    /// The connection.
    pub conn: &'r ConnHandle,
    /// The whole record.
    pub record: &'r Bytes,
    /// Its header. Program and version are those of the program that gets the call.
    pub header: &'r CallHeader<'r>,
    /// What follows the header.
    pub args: Decoder<'r>,
}

impl Call<'_> {
    /// The reply that refuses this call.
    pub fn refuse(&self, verdict: impl Into<CallRefusal>) -> Option<Message> {
        Some(refusal(self.header.xid, verdict.into()))
    }
}

/// What a program may want to count.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ProgramFault {
    /// A header that RFC 5531 has an answer for: another RPC version, a credential that is none.
    Refused,
    /// A record without a header. Its connection is closed: there is no transaction id to answer.
    Malformed,
}

/// One RPC program.
pub trait Program: Send + Sync + 'static {
    /// Its number.
    fn number(&self) -> u32;

    /// The versions that it has.
    fn versions(&self) -> RangeInclusive<u32>;

    /// Executes a call. `None` sends no reply and does nothing else: a program that wants the connection closed has closed it.
    fn call<'r>(&'r self, call: Call<'r>) -> impl Future<Output = Option<Message>> + Send + 'r;

    /// A record that came to no program. The first program of a service is told.
    fn note(&self, _fault: ProgramFault) {}
}

/// [`Program`] in a form that can stand behind `Arc<dyn DynProgram>`; every program has it.
pub trait DynProgram: Send + Sync + 'static {
    /// See [`Program::number`].
    fn number_of(&self) -> u32;

    /// See [`Program::versions`].
    fn versions_of(&self) -> RangeInclusive<u32>;

    /// See [`Program::call`].
    fn call_boxed<'r>(&'r self, call: Call<'r>) -> BoxFuture<'r, Option<Message>>;
}

impl<P: Program> DynProgram for P {
    fn number_of(&self) -> u32 {
        self.number()
    }

    fn versions_of(&self) -> RangeInclusive<u32> {
        self.versions()
    }

    fn call_boxed<'r>(&'r self, call: Call<'r>) -> BoxFuture<'r, Option<Message>> {
        Box::pin(self.call(call))
    }
}

/// Whose call a record is.
pub enum Whose<'p> {
    /// The first program's.
    First,
    /// That of one of the others.
    Other(&'p dyn DynProgram),
}

impl std::fmt::Debug for Whose<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::First => f.write_str("First"),
            Self::Other(program) => write!(f, "Other({})", program.number_of()),
        }
    }
}

/// Serves one record: a call of `first`, or of one of `more`.
pub async fn serve<P: Program>(
    first: &P,
    more: &[Arc<dyn DynProgram>],
    conn: &ConnHandle,
    record: &Bytes,
) -> Option<Message> {
    let mut args = Decoder::new(record);
    let (header, whose) = match open(first, more, conn, &mut args) {
        Ok(opened) => opened,
        Err(answer) => return answer,
    };
    let call = Call {
        conn,
        record,
        header: &header,
        args,
    };
    match whose {
        Whose::First => first.call(call).await,
        Whose::Other(program) => program.call_boxed(call).await,
    }
}

/// Reads the header of a call and finds its program: what [`serve`] does before it waits. For a service whose every call
/// counts: one future less stands between the transport and the program.
///
/// # Errors
/// The answer to a call that no program can be asked about.
#[inline]
pub fn open<'r, 'p, P: Program>(
    first: &P,
    more: &'p [Arc<dyn DynProgram>],
    conn: &ConnHandle,
    args: &mut Decoder<'r>,
) -> Result<(CallHeader<'r>, Whose<'p>), Option<Message>> {
    let header = match CallHeader::decode(args) {
        Ok(header) => header,
        Err(error) => return Err(undecodable(first, conn, error)),
    };
    match whose(first, more, &header) {
        Ok(whose) => Ok((header, whose)),
        Err(error) => Err(Some(refusal(header.xid, error.into()))),
    }
}

#[cold]
fn undecodable<P: Program>(
    first: &P,
    conn: &ConnHandle,
    error: CallHeaderError,
) -> Option<Message> {
    match error {
        CallHeaderError::Refused { xid, verdict } => {
            first.note(ProgramFault::Refused);
            Some(refusal(xid, verdict))
        }
        CallHeaderError::Malformed(error) => {
            first.note(ProgramFault::Malformed);
            conn.close_with(CloseReason::MalformedMessage, error);
            None
        }
    }
}

#[inline]
fn whose<'p, P: Program>(
    first: &P,
    more: &'p [Arc<dyn DynProgram>],
    header: &CallHeader<'_>,
) -> Result<Whose<'p>, AcceptError> {
    if header.program == first.number() && first.versions().contains(&header.version) {
        return Ok(Whose::First);
    }
    let is_it = |p: &&Arc<dyn DynProgram>| {
        p.number_of() == header.program && p.versions_of().contains(&header.version)
    };
    match more.iter().find(is_it) {
        Some(other) => Ok(Whose::Other(&**other)),
        None => Err(unknown(first, more, header.program)),
    }
}

/// Why nobody has a call: no entry of the list has its program, or none has its version. One program may have an entry for
/// each of its versions.
#[cold]
fn unknown<P: Program>(first: &P, more: &[Arc<dyn DynProgram>], program: u32) -> AcceptError {
    let own = (first.number(), first.versions());
    let others = more.iter().map(|p| (p.number_of(), p.versions_of()));
    let of_program = std::iter::once(own).chain(others);
    let versions = of_program.filter(|(number, _)| *number == program);
    let known = versions.map(|(_, versions)| versions.into_inner());
    let merged = known.reduce(|a, b| (a.0.min(b.0), a.1.max(b.1)));
    match merged {
        Some((low, high)) => AcceptError::ProgMismatch { low, high },
        None => AcceptError::ProgUnavail,
    }
}

/// A reply that refuses a call.
#[must_use]
pub fn refusal(xid: u32, verdict: CallRefusal) -> Message {
    let mut e = Encoder::new();
    rpc::encode_error(&mut e, xid, verdict);
    e.into()
}
