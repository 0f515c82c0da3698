//! RDMAP: opcodes, the Read Request, and the Terminate message (RFC 5040 §4).

use crate::ddp::{
    Place, QUEUE_READ_REQUEST, QUEUE_SEND, QUEUE_TERMINATE, SegmentHeader, UNTAGGED_BYTES,
};
pub use crate::term::Term;
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
