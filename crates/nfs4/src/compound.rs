//! Framing of COMPOUND and `CB_COMPOUND` (RFC 8881 §16.2, §20.2): headers, the walk over operations, and both
//! forms of reply.
//!
//! The crate owns counts and numbers; what an operation does is the server's. A request is read with a header and an
//! [`OpReader`], and answered with a [`ReplyWriter`]. A client writes it with a [`Builder`] and reads the answer with a
//! [`Reply`]. The same types serve the fore channel (`OpNum`) and the back channel (`CbOpNum`).

use std::marker::PhantomData;

use xdr::{Decode, DecodeError, Decoder, Encode, Encoder, Mark, Opaque};

use crate::{CbOpNum, NfsStatus, OpNum, ReplyBytes};

/// Longest tag in bytes. The RFC sets no limit; clients use at most a few dozen bytes.
pub const TAG_BYTES_MAX: u32 = 1024;
/// Most operations of one COMPOUND. Linux asks for 8 and less per session, other clients for up to 64.
pub const OPS_MAX: u32 = 128;

/// An operation number of one of the two programs.
pub trait OpNumber: Copy + Eq + std::fmt::Debug {
    /// The number that answers an undefined one.
    const ILLEGAL: Self;

    /// The wire value.
    fn to_wire(self) -> u32;

    /// The operation of a wire value.
    fn from_wire(value: u32) -> Option<Self>;

    /// Writes the body that the result union prescribes for `status` when the operation has nothing
    /// to say in it. Most failures have no body.
    fn encode_error_body(self, status: NfsStatus, e: &mut Encoder);

    /// Adds what the result of this operation may take to the estimate of a reply.
    fn add_reply_bytes(self, args: &[u8], to: &mut ReplyBytes);
}

impl OpNumber for OpNum {
    const ILLEGAL: Self = Self::Illegal;

    fn to_wire(self) -> u32 {
        self as u32
    }

    fn from_wire(value: u32) -> Option<Self> {
        Self::from_u32(value)
    }

    fn encode_error_body(self, status: NfsStatus, e: &mut Encoder) {
        match (self, status) {
            // `attrsset` follows whatever the status (RFC 8881 §18.30.2).
            (Self::SetAttr, _) => e.u32(0),
            (Self::LayoutGet, NfsStatus::LayoutTryLater) => e.bool(false),
            (Self::GetDeviceInfo, NfsStatus::TooSmall) => e.u32(0),
            (Self::Lock | Self::LockT, NfsStatus::Denied) => {
                e.u64(0);
                e.u64(u64::MAX);
                crate::LockType::Write.encode(e);
                e.u64(0);
                e.opaque(&[]);
            }
            // No `netid`, no address (RFC 7530 §16.33.3).
            (Self::SetClientId, NfsStatus::ClidInUse) => {
                e.opaque(&[]);
                e.opaque(&[]);
            }
            // `cr_consecutive` and `cr_synchronous` (RFC 7862 §15.2.2).
            (Self::Copy, NfsStatus::OffloadNoReqs) => {
                e.bool(true);
                e.bool(true);
            }
            _ => {}
        }
    }

    fn add_reply_bytes(self, args: &[u8], to: &mut ReplyBytes) {
        to.add(self, args);
    }
}

impl OpNumber for CbOpNum {
    const ILLEGAL: Self = Self::Illegal;

    fn to_wire(self) -> u32 {
        self as u32
    }

    fn from_wire(value: u32) -> Option<Self> {
        Self::from_u32(value)
    }

    fn encode_error_body(self, _: NfsStatus, _: &mut Encoder) {}

    /// Replies to callbacks are small.
    fn add_reply_bytes(self, _: &[u8], _: &mut ReplyBytes) {}
}

/// Arguments of one operation.
pub trait OpArgs: Encode {
    /// Which program.
    type Num: OpNumber;
    /// Which operation.
    const OP: Self::Num;
}

/// Result body of one operation, as a server writes it.
pub trait OpBody: Encode {
    /// Which program.
    type Num: OpNumber;
    /// Which operation.
    const OP: Self::Num;

    /// The status that goes before this body.
    fn status(&self) -> NfsStatus {
        NfsStatus::Ok
    }
}

/// Result body of one operation, as a client reads it.
pub trait OpRes<'a>: OpBody + Sized {
    /// Reads the body that follows `status`; `None` when that status has none.
    ///
    /// # Errors
    /// The body is malformed.
    fn decode_res(status: NfsStatus, d: &mut Decoder<'a>) -> Result<Option<Self>, DecodeError>;
}

xdr::xdr_struct! {
    /// What goes before the operations of `COMPOUND4args`. `ops_count` is as sent: see [`CompoundHeader::has_too_many_ops`].
    #[derive(Copy)]
    pub struct CompoundHeader<'a> {
        /// Echoed in the reply.
        pub tag: Opaque<'a, TAG_BYTES_MAX>,
        /// 0, 1 or 2 here.
        pub minorversion: u32,
        /// Operations that follow.
        pub ops_count: u32,
    }

    /// What goes before the operations of `CB_COMPOUND4args`.
    #[derive(Copy)]
    pub struct CbCompoundHeader<'a> {
        /// Echoed in the reply.
        pub tag: Opaque<'a, TAG_BYTES_MAX>,
        /// That of the session's fore channel.
        pub minorversion: u32,
        /// Unused in NFSv4.1: zero (RFC 8881 §20.2.3).
        pub callback_ident: u32,
        /// Operations that follow.
        pub ops_count: u32,
    }
}

impl CompoundHeader<'_> {
    /// Whether to answer `NFS4ERR_TOO_MANY_OPS`; [`OpReader`] stops at [`OPS_MAX`] in any case.
    #[must_use]
    pub const fn has_too_many_ops(&self) -> bool {
        self.ops_count > OPS_MAX
    }
}

impl CbCompoundHeader<'_> {
    /// Whether to answer `NFS4ERR_TOO_MANY_OPS`; [`OpReader`] stops at [`OPS_MAX`] in any case.
    #[must_use]
    pub const fn has_too_many_ops(&self) -> bool {
        self.ops_count > OPS_MAX
    }
}

/// Walks over the operations of a request. After each number the caller decodes the arguments, or
/// stops: the arguments of an unknown operation have no known length.
#[derive(Debug, Clone)]
pub struct OpReader<'a> {
    d: Decoder<'a>,
    left: u32,
}

impl<'a> OpReader<'a> {
    /// Starts after a header that announced `ops_count` operations; reads at most [`OPS_MAX`].
    #[must_use]
    pub fn new(d: Decoder<'a>, ops_count: u32) -> Self {
        Self {
            d,
            left: ops_count.min(OPS_MAX),
        }
    }

    /// Operations not yet read.
    #[must_use]
    pub const fn left(&self) -> u32 {
        self.left
    }

    /// The number of the next operation, known or not; `None` after the last.
    pub fn next_op(&mut self) -> Option<Result<u32, DecodeError>> {
        self.left = self.left.checked_sub(1)?;
        Some(self.d.u32())
    }

    /// Decodes the arguments of the operation just read.
    ///
    /// # Errors
    /// The arguments are malformed: `NFS4ERR_BADXDR`.
    pub fn args<T: Decode<'a>>(&mut self) -> Result<T, DecodeError> {
        T::decode(&mut self.d)
    }

    /// The decoder, at the arguments of the operation just read.
    pub fn decoder(&mut self) -> &mut Decoder<'a> {
        &mut self.d
    }

    /// What was not read yet of the request.
    #[must_use]
    pub fn rest(&self) -> &'a [u8] {
        self.d.rest()
    }
}

/// A result in the making: where its status goes, and where to cut back to.
#[derive(Debug, Clone, Copy)]
#[must_use = "a result that was begun must be ended or abandoned"]
pub struct OpMark {
    start: Mark,
    status: Mark,
}

/// Writes a COMPOUND or `CB_COMPOUND` reply after whatever the encoder holds already (the RPC header).
#[derive(Debug)]
pub struct ReplyWriter<N> {
    e: Encoder,
    status: Mark,
    count_at: Mark,
    count: u32,
    /// Bytes in front of the first result.
    results_at: usize,
    num: PhantomData<N>,
}

impl<N: OpNumber> ReplyWriter<N> {
    /// Begins a reply that echoes `tag`.
    #[must_use]
    pub fn new(mut e: Encoder, tag: &[u8]) -> Self {
        let status = e.reserve_u32();
        e.opaque(tag);
        let count_at = e.reserve_u32();
        Self {
            results_at: e.len(),
            e,
            status,
            count_at,
            count: 0,
            num: PhantomData,
        }
    }

    /// The bytes of the results written so far; `None` when payloads belong between them.
    #[must_use]
    pub fn results(&self) -> Option<&[u8]> {
        self.e
            .spans()
            .is_empty()
            .then(|| &self.e.as_bytes()[self.results_at..])
    }

    /// Appends results as [`ReplyWriter::results`] gave them.
    pub fn append(&mut self, count: u32, results: &[u8]) {
        self.e.raw(results);
        self.count += count;
    }

    /// Results written so far.
    #[must_use]
    pub const fn count(&self) -> u32 {
        self.count
    }

    /// The encoder, for the size so far and for bodies written by hand.
    pub fn encoder(&mut self) -> &mut Encoder {
        &mut self.e
    }

    /// Bytes on the wire so far, with whatever the encoder held before.
    #[must_use]
    pub fn wire_len(&self) -> usize {
        self.e.wire_len()
    }

    /// Begins a result; write its body to [`ReplyWriter::encoder`], then end it.
    pub fn begin_op(&mut self, op: N) -> OpMark {
        let start = self.e.mark();
        self.e.u32(op.to_wire());
        let status = self.e.reserve_u32();
        self.count += 1;
        OpMark { start, status }
    }

    /// Ends a result whose body was written.
    pub fn end_op(&mut self, mark: OpMark, status: NfsStatus) {
        self.e.patch_u32(mark.status, status as u32);
    }

    /// Takes back a result, whether ended or not: the reply grew too big. Only the newest one.
    pub fn abandon_op(&mut self, mark: OpMark) {
        self.e.truncate(mark.start);
        self.count -= 1;
    }

    /// The current place between results, to come back to with [`ReplyWriter::rewind`].
    pub fn checkpoint(&self) -> OpMark {
        let here = self.e.mark();
        OpMark {
            start: here,
            status: here,
        }
    }

    /// Takes back the newest result, written since `mark` was made by [`ReplyWriter::checkpoint`].
    pub fn rewind(&mut self, mark: OpMark) {
        self.abandon_op(mark);
    }

    /// Writes a whole result; its status is the one that its body goes with.
    pub fn result<R: OpBody<Num = N>>(&mut self, res: &R) -> OpMark {
        let mark = self.begin_op(R::OP);
        res.encode(&mut self.e);
        self.end_op(mark, res.status());
        mark
    }

    /// Writes a failure that has no data of its own, with the empty body where its union wants one.
    pub fn error(&mut self, op: N, status: NfsStatus) {
        let mark = self.begin_op(op);
        op.encode_error_body(status, &mut self.e);
        self.end_op(mark, status);
    }

    /// Answers an undefined operation number (RFC 8881 §18.52).
    pub fn illegal(&mut self) {
        self.error(N::ILLEGAL, NfsStatus::OpIllegal);
    }

    /// Fills in the status of the whole and the count.
    #[must_use]
    pub fn finish(mut self, status: NfsStatus) -> Encoder {
        self.e.patch_u32(self.status, status as u32);
        self.e.patch_u32(self.count_at, self.count);
        self.e
    }
}

/// Writes a request after whatever the encoder holds already.
#[derive(Debug)]
pub struct Builder<N> {
    e: Encoder,
    count_at: Mark,
    count: u32,
    reply_bytes: ReplyBytes,
    num: PhantomData<N>,
}

/// Writes a COMPOUND request.
pub type CompoundBuilder = Builder<OpNum>;
/// Writes a `CB_COMPOUND` request.
pub type CbCompoundBuilder = Builder<CbOpNum>;

impl Builder<OpNum> {
    /// Begins a COMPOUND.
    #[must_use]
    pub fn new(mut e: Encoder, tag: &[u8], minorversion: u32) -> Self {
        e.opaque(tag);
        e.u32(minorversion);
        Self::after_header(e, tag)
    }
}

impl Builder<CbOpNum> {
    /// Begins a `CB_COMPOUND`; its `callback_ident` is zero.
    #[must_use]
    pub fn new(mut e: Encoder, tag: &[u8], minorversion: u32) -> Self {
        e.opaque(tag);
        e.u32(minorversion);
        e.u32(0);
        Self::after_header(e, tag)
    }

    /// Begins a `CB_COMPOUND` of NFSv4.0, which tells its client by `callback_ident` (RFC 7530 §16.33.4).
    #[must_use]
    pub fn minor_0(mut e: Encoder, tag: &[u8], callback_ident: u32) -> Self {
        e.opaque(tag);
        e.u32(0);
        e.u32(callback_ident);
        Self::after_header(e, tag)
    }
}

impl<N: OpNumber> Builder<N> {
    fn after_header(mut e: Encoder, tag: &[u8]) -> Self {
        let count_at = e.reserve_u32();
        Self {
            e,
            count_at,
            count: 0,
            reply_bytes: ReplyBytes::new(tag),
            num: PhantomData,
        }
    }

    /// Appends one operation.
    ///
    /// # Panics
    /// Beyond [`OPS_MAX`] operations: a bug of the caller.
    pub fn push<A: OpArgs<Num = N>>(&mut self, args: &A) -> &mut Self {
        assert!(self.count < OPS_MAX, "a COMPOUND has too many operations");
        self.e.u32(A::OP.to_wire());
        let start = self.e.len();
        args.encode(&mut self.e);
        A::OP.add_reply_bytes(&self.e.as_bytes()[start..], &mut self.reply_bytes);
        self.count += 1;
        self
    }

    /// Most bytes of the reply to what was appended so far.
    #[must_use]
    pub const fn reply_bytes(&self) -> ReplyBytes {
        self.reply_bytes
    }

    /// Operations so far.
    #[must_use]
    pub const fn count(&self) -> u32 {
        self.count
    }

    /// Fills in the count.
    #[must_use]
    pub fn finish(mut self) -> Encoder {
        self.e.patch_u32(self.count_at, self.count);
        self.e
    }
}

/// The number and status of one result.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct OpResult {
    /// As sent by the server.
    pub op: u32,
    /// How the operation ended.
    pub status: NfsStatus,
}

/// Why a client did not get the result that it asked for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum OpError {
    /// The server answered with a failure that has no body.
    Status {
        /// The operation that failed; `None` when the COMPOUND failed before any.
        op: Option<u32>,
        /// How.
        status: NfsStatus,
    },
    /// The server's bytes are wrong.
    Decode(DecodeError),
    /// The server answered another operation than the one sent.
    WrongOp {
        /// The operation that was sent.
        want: u32,
        /// The one answered; `None` when results are missing.
        got: Option<u32>,
    },
}

impl OpError {
    /// The server's status, if it answered one.
    #[must_use]
    pub const fn status(&self) -> Option<NfsStatus> {
        match self {
            Self::Status { status, .. } => Some(*status),
            _ => None,
        }
    }
}

impl From<DecodeError> for OpError {
    fn from(e: DecodeError) -> Self {
        Self::Decode(e)
    }
}

impl std::fmt::Display for OpError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Status {
                op: Some(op),
                status,
            } => write!(f, "operation {op}: {status}"),
            Self::Status { op: None, status } => write!(f, "{status}"),
            Self::Decode(e) => write!(f, "malformed reply: {e}"),
            Self::WrongOp { want, got } => write!(f, "asked operation {want}, answered {got:?}"),
        }
    }
}

impl std::error::Error for OpError {}

/// Reads a reply, result by result. A failed result is the last one (RFC 8881 §2.10.6.4, §16.2.3).
#[derive(Debug, Clone)]
pub struct Reply<'a, N> {
    /// How the whole ended: the status of the last operation that was evaluated.
    pub status: NfsStatus,
    /// The tag of the request.
    pub tag: Opaque<'a, TAG_BYTES_MAX>,
    d: Decoder<'a>,
    left: u32,
    num: PhantomData<N>,
}

/// Reads a COMPOUND reply.
pub type CompoundReply<'a> = Reply<'a, OpNum>;
/// Reads a `CB_COMPOUND` reply.
pub type CbCompoundReply<'a> = Reply<'a, CbOpNum>;

impl<'a, N: OpNumber> Reply<'a, N> {
    /// Reads what goes before the results.
    ///
    /// # Errors
    /// The header is malformed or announces more than [`OPS_MAX`] results.
    pub fn new(mut d: Decoder<'a>) -> Result<Self, DecodeError> {
        let status = NfsStatus::decode(&mut d)?;
        let tag = Opaque::decode(&mut d)?;
        let offset = d.position();
        let left = d.u32()?;
        if left > OPS_MAX {
            return Err(DecodeError {
                kind: xdr::DecodeErrorKind::TooLong {
                    len: left,
                    limit: OPS_MAX,
                },
                offset,
            });
        }
        Ok(Self {
            status,
            tag,
            d,
            left,
            num: PhantomData,
        })
    }

    /// Results not yet read.
    #[must_use]
    pub const fn left(&self) -> u32 {
        self.left
    }

    /// The number and status of the next result; `None` after the last. The caller decodes the body.
    ///
    /// # Errors
    /// The result is malformed.
    pub fn next_result(&mut self) -> Result<Option<OpResult>, DecodeError> {
        let Some(left) = self.left.checked_sub(1) else {
            return Ok(None);
        };
        self.left = left;
        let op = self.d.u32()?;
        let status = NfsStatus::decode(&mut self.d)?;
        if !status.is_ok() {
            self.left = 0;
        }
        Ok(Some(OpResult { op, status }))
    }

    /// The decoder, at the body of the result just read.
    pub fn decoder(&mut self) -> &mut Decoder<'a> {
        &mut self.d
    }

    /// Reads the next result, which must be that of `R`'s operation. A failure with a body (a denied
    /// lock, say) is a value of `R`.
    ///
    /// # Errors
    /// [`OpError`]: the server failed it, answered something else, or sent wrong bytes.
    pub fn take<R: OpRes<'a, Num = N>>(&mut self) -> Result<R, OpError> {
        let want = R::OP.to_wire();
        let Some(result) = self.next_result()? else {
            return Err(if self.status.is_ok() {
                OpError::WrongOp { want, got: None }
            } else {
                OpError::Status {
                    op: None,
                    status: self.status,
                }
            });
        };
        let failed = OpError::Status {
            op: Some(result.op),
            status: result.status,
        };
        if result.op != want {
            // A server that does not know the operation answers ILLEGAL in its place.
            let illegal = result.op == N::ILLEGAL.to_wire() && !result.status.is_ok();
            return Err(if illegal {
                failed
            } else {
                OpError::WrongOp {
                    want,
                    got: Some(result.op),
                }
            });
        }
        R::decode_res(result.status, &mut self.d)?.ok_or(failed)
    }
}
