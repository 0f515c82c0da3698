//! RDMAP: opcodes, the Read Request, and the Terminate message with every code that we send or know.
//!
//! RFC 5040 §4; the codes of DDP are those of RFC 5041 §7.2, those of MPA are from RFC 5044 §8 and RFC 6581 §8.

use crate::ddp::{
    Place, QUEUE_READ_REQUEST, QUEUE_SEND, QUEUE_TERMINATE, SegmentHeader, UNTAGGED_BYTES,
};
use bytes::BufMut;
use fabric::Fault;

/// Octets of a Read Request (RFC 5040 §4.4).
pub const READ_REQUEST_BYTES: usize = 28;
/// Octets of the largest Terminate: control, segment length, DDP header, Read Request (RFC 5040 §4.8).
pub const TERMINATE_BYTES_MAX: usize = 4 + 2 + UNTAGGED_BYTES + READ_REQUEST_BYTES;

const VERSION: u8 = 0x40;
const OPCODE_MASK: u8 = 0x0f;

/// What a message is (RFC 5040 §4.3).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
pub enum Opcode {
    /// RDMA Write.
    Write = 0,
    /// RDMA Read Request.
    ReadRequest = 1,
    /// RDMA Read Response.
    ReadResponse = 2,
    /// Send.
    Send = 3,
    /// Send with Invalidate.
    SendInvalidate = 4,
    /// Send with Solicited Event.
    SendSolicited = 5,
    /// Send with Solicited Event and Invalidate.
    SendSolicitedInvalidate = 6,
    /// Terminate.
    Terminate = 7,
}

impl Opcode {
    /// The control octet of a message of ours.
    #[must_use]
    pub const fn control(self) -> u8 {
        VERSION | self as u8
    }

    /// What the header announces, once opcode, kind of buffer and queue agree (RFC 5040 Figure 4).
    ///
    /// # Errors
    /// What to terminate with.
    pub fn of(header: &SegmentHeader) -> Result<Self, Term> {
        // Version 0 is that of the RDMA Consortium and as good (RFC 5040 §4.2).
        if header.control & 0xc0 > VERSION {
            return Err(Term::RDMAP_VERSION);
        }
        let opcode = match header.control & OPCODE_MASK {
            0 => Self::Write,
            1 => Self::ReadRequest,
            2 => Self::ReadResponse,
            3 => Self::Send,
            4 => Self::SendInvalidate,
            5 => Self::SendSolicited,
            6 => Self::SendSolicitedInvalidate,
            7 => Self::Terminate,
            _ => return Err(Term::UNEXPECTED_OPCODE),
        };
        match (opcode.queue(), header.place) {
            (None, Place::Tagged { .. }) => Ok(opcode),
            (Some(expected), Place::Untagged { queue, .. }) if queue == expected => Ok(opcode),
            (Some(_), Place::Untagged { queue, .. }) if queue > QUEUE_TERMINATE => {
                Err(Term::INVALID_QUEUE)
            }
            _ => Err(Term::UNEXPECTED_OPCODE),
        }
    }

    const fn queue(self) -> Option<u32> {
        match self {
            Self::Write | Self::ReadResponse => None,
            Self::ReadRequest => Some(QUEUE_READ_REQUEST),
            Self::Terminate => Some(QUEUE_TERMINATE),
            _ => Some(QUEUE_SEND),
        }
    }

    /// Whether the header carries a key to invalidate.
    #[must_use]
    pub const fn invalidates(self) -> bool {
        matches!(self, Self::SendInvalidate | Self::SendSolicitedInvalidate)
    }
}

/// A Read Request (RFC 5040 §4.4).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ReadRequest {
    /// Where the data are to go: steering tag of the requester.
    pub sink_stag: u32,
    /// And tagged offset.
    pub sink_to: u64,
    /// Bytes.
    pub len: u32,
    /// Where they are: steering tag of the responder.
    pub source_stag: u32,
    /// And tagged offset.
    pub source_to: u64,
}

impl ReadRequest {
    /// Reads the message.
    #[must_use]
    pub fn decode(bytes: &[u8; READ_REQUEST_BYTES]) -> Self {
        let word = |at: usize| {
            u32::from_be_bytes([bytes[at], bytes[at + 1], bytes[at + 2], bytes[at + 3]])
        };
        let long = |at: usize| u64::from(word(at)) << 32 | u64::from(word(at + 4));
        Self {
            sink_stag: word(0),
            sink_to: long(4),
            len: word(12),
            source_stag: word(16),
            source_to: long(20),
        }
    }

    /// Appends the message.
    pub fn encode(&self, out: &mut impl BufMut) {
        out.put_u32(self.sink_stag);
        out.put_u64(self.sink_to);
        out.put_u32(self.len);
        out.put_u32(self.source_stag);
        out.put_u64(self.source_to);
    }
}

/// Layer, type and code of an error (RFC 5040 Figure 9).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Term {
    /// 0 RDMAP, 1 DDP, 2 MPA.
    pub layer: u8,
    /// Error type within the layer, 4 bits.
    pub kind: u8,
    /// Error code within the type.
    pub code: u8,
}

macro_rules! terms {
    ($($(#[$doc:meta])* $name:ident = $layer:literal / $kind:literal / $code:literal => $fault:ident;)+) => {
        impl Term {
            $($(#[$doc])* pub const $name: Self = Self { layer: $layer, kind: $kind, code: $code };)+

            /// All codes that have a name here.
            pub const ALL: &[(&'static str, Self, Fault)] =
                &[$((stringify!($name), Self::$name, Fault::$fault),)+];
        }
    };
}

terms! {
    /// Something of our own broke (RDMAP).
    LOCAL_CATASTROPHIC = 0 / 0 / 0 => Protocol;
    /// A Read Request for memory that is not exposed.
    READ_INVALID_STAG = 0 / 1 / 0x00 => BadKey;
    /// A Read Request beyond the memory.
    READ_BOUNDS = 0 / 1 / 0x01 => OutOfBounds;
    /// A Read Request for memory that may only be written, or a Write into what may only be read.
    ACCESS_RIGHTS = 0 / 1 / 0x02 => WrongRights;
    /// A steering tag of another stream (only received: our tables are per stream).
    READ_FOREIGN_STAG = 0 / 1 / 0x03 => BadKey;
    /// A Read Request whose end wraps.
    READ_TO_WRAP = 0 / 1 / 0x04 => OutOfBounds;
    /// A Send that invalidates what is not exposed.
    CANNOT_INVALIDATE = 0 / 1 / 0x09 => CannotInvalidate;
    /// Another version of RDMAP.
    RDMAP_VERSION = 0 / 2 / 0x05 => Protocol;
    /// An opcode that does not fit here.
    UNEXPECTED_OPCODE = 0 / 2 / 0x06 => Protocol;
    /// The stream is broken.
    STREAM_CATASTROPHIC = 0 / 2 / 0x07 => Protocol;
    /// A message of a form that has no code of its own.
    UNSPECIFIED = 0 / 2 / 0xff => Protocol;
    /// A frame that holds no segment (DDP).
    DDP_CATASTROPHIC = 1 / 0 / 0x00 => Protocol;
    /// A tagged segment for memory that is not exposed.
    INVALID_STAG = 1 / 1 / 0x00 => BadKey;
    /// A tagged segment beyond the memory.
    BOUNDS = 1 / 1 / 0x01 => OutOfBounds;
    /// A steering tag of another stream (only received).
    FOREIGN_STAG = 1 / 1 / 0x02 => BadKey;
    /// A tagged segment whose end wraps.
    TO_WRAP = 1 / 1 / 0x03 => OutOfBounds;
    /// Another version of DDP in a tagged segment.
    TAGGED_VERSION = 1 / 1 / 0x04 => Protocol;
    /// A queue that does not exist.
    INVALID_QUEUE = 1 / 2 / 0x01 => Protocol;
    /// A message without a buffer, or a Read Request above the agreed depth.
    NO_BUFFER = 1 / 2 / 0x02 => NoReceive;
    /// A message out of sequence.
    MSN_RANGE = 1 / 2 / 0x03 => Protocol;
    /// A segment that does not continue its message.
    INVALID_MO = 1 / 2 / 0x04 => Protocol;
    /// A message longer than its buffer.
    TOO_LONG = 1 / 2 / 0x05 => ReceiveTooSmall;
    /// Another version of DDP in an untagged segment.
    UNTAGGED_VERSION = 1 / 2 / 0x06 => Protocol;
    /// A frame whose CRC is wrong (MPA).
    CRC = 2 / 0 / 0x02 => Damaged;
    /// Marker and length disagree (only received).
    MARKER = 2 / 0 / 0x03 => Protocol;
    /// Something of our own broke during set-up.
    MPA_CATASTROPHIC = 2 / 0 / 0x05 => Protocol;
    /// The responder wants more reads than this side serves.
    INSUFFICIENT_IRD = 2 / 0 / 0x06 => TooManyReads;
    /// The responder takes no RTR indication that this side can send.
    NO_MATCHING_RTR = 2 / 0 / 0x07 => Protocol;
}

impl Term {
    /// The fault, in the words of all fabrics.
    #[must_use]
    pub fn fault(self) -> Fault {
        // The code of a local catastrophic error says nothing (RFC 5040 Figure 9).
        Self::ALL
            .iter()
            .find(|(_, term, _)| *term == self)
            .map_or(Fault::Protocol, |(_, _, fault)| *fault)
    }
}

/// What a Terminate says beside its code: the segment that was wrong.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Culprit {
    /// Octets of the segment, header included.
    pub segment_bytes: u16,
    /// Its header.
    pub header: SegmentHeader,
    /// The Read Request in it, if it was one.
    pub read: Option<ReadRequest>,
}

const HAS_SEGMENT_LENGTH: u8 = 0x80;
const HAS_DDP_HEADER: u8 = 0x40;
const HAS_RDMAP_HEADER: u8 = 0x20;

/// A Terminate message (RFC 5040 §4.8).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Terminate {
    /// Why.
    pub term: Term,
    /// What, if a segment is to blame.
    pub culprit: Option<Culprit>,
}

impl Terminate {
    /// The fault, in the words of all fabrics. Without a place in its queue a Read Request is one too many.
    #[must_use]
    pub fn fault(&self) -> Fault {
        let queue = self.culprit.map(|culprit| culprit.header.place);
        match (self.term, queue) {
            (
                Term::NO_BUFFER,
                Some(Place::Untagged {
                    queue: QUEUE_READ_REQUEST,
                    ..
                }),
            ) => Fault::TooManyReads,
            (term, _) => term.fault(),
        }
    }

    /// Appends the message. Which headers it includes follows from the layer (RFC 5040 Figure 10).
    pub fn encode(&self, out: &mut impl BufMut) {
        let Term { layer, kind, code } = self.term;
        let culprit = self
            .culprit
            .filter(|_| layer == 1 || layer == 0 && kind != 0);
        let read = culprit
            .and_then(|c| c.read)
            .filter(|_| layer == 0 && kind == 1);
        let mut includes = 0;
        if culprit.is_some() {
            includes |= HAS_SEGMENT_LENGTH | HAS_DDP_HEADER;
        }
        if read.is_some() {
            includes |= HAS_RDMAP_HEADER;
        }
        out.put_slice(&[layer << 4 | kind & 0x0f, code, includes, 0]);
        if let Some(culprit) = culprit {
            out.put_u16(culprit.segment_bytes);
            culprit.header.encode(out);
        }
        if let Some(read) = read {
            read.encode(out);
        }
    }

    /// Reads a message. Included headers that are cut off or wrong are left out: the code is what counts.
    ///
    /// # Errors
    /// What it is when it has no code.
    pub fn decode(bytes: &[u8]) -> Result<Self, Term> {
        let Some((control, rest)) = bytes.split_first_chunk::<4>() else {
            return Err(Term::UNSPECIFIED);
        };
        let term = Term {
            layer: control[0] >> 4,
            kind: control[0] & 0x0f,
            code: control[1],
        };
        let includes = control[2];
        let culprit = (includes & HAS_DDP_HEADER != 0)
            .then(|| Self::culprit(rest, includes))
            .flatten();
        Ok(Self { term, culprit })
    }

    fn culprit(bytes: &[u8], includes: u8) -> Option<Culprit> {
        let (len, bytes) = bytes.split_first_chunk::<2>()?;
        let (header, used) = SegmentHeader::decode(bytes).ok().flatten()?;
        let read = (includes & HAS_RDMAP_HEADER != 0)
            .then(|| bytes[used..].first_chunk().map(ReadRequest::decode))
            .flatten();
        Some(Culprit {
            segment_bytes: u16::from_be_bytes(*len),
            header,
            read,
        })
    }
}
