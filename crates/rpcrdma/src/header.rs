//! The transport header (RFC 8166 §4): what stands before, or instead of, the RPC message in a Send.
//!
//! Chunk lists come from a peer: each list and chunk has a named limit, and a length buys no memory. The engine decides
//! what may be answered to a header that cannot be used. [`HeaderFault`] tells such headers apart here, with the four
//! fixed fields when they could be read.

use xdr::{Decode, DecodeError, DecodeErrorKind, Decoder, Encode, Encoder, xdr_struct};

/// `rdma_vers` of this protocol.
pub const VERSION: u32 = 1;
/// Most read segments in one header, over all read chunks. RFC 8267 §6.4.2 asks for 32: two chunks
/// of sixteen.
pub const READ_SEGMENTS_MAX: u32 = 128;
/// Most write chunks in one header. RFC 8267 §6.4.2 asks for one.
pub const WRITE_CHUNKS_MAX: u32 = 16;
/// Most segments in a write chunk or a reply chunk. RFC 8267 §6.4.2 asks for sixteen.
pub const CHUNK_SEGMENTS_MAX: u32 = 64;

/// Bytes of the four fixed fields.
pub(crate) const FIXED_BYTES: usize = 16;
/// Bytes of a header without chunks.
pub const HEADER_BYTES_MIN: usize = FIXED_BYTES + 12;
/// Bytes of an RDMA_ERROR that says ERR_CHUNK: the one valid header that is shorter than
/// [`HEADER_BYTES_MIN`].
const ERR_CHUNK_BYTES: usize = FIXED_BYTES + 4;
const SEGMENT_BYTES: usize = 16;
/// Where `rdma_credit` stands.
pub(crate) const CREDITS_AT: usize = 8;

const RDMA_MSG: u32 = 0;
const RDMA_NOMSG: u32 = 1;
const RDMA_MSGP: u32 = 2;
const RDMA_DONE: u32 = 3;
const RDMA_ERROR: u32 = 4;
const ERR_VERS: u32 = 1;
const ERR_CHUNK: u32 = 2;

xdr_struct! {
    /// One contiguous piece of registered memory of a peer (RFC 8166 §3.4.3).
    #[derive(Copy, Default)]
    pub struct Segment {
        /// Steering tag.
        pub handle: u32,
        /// Bytes.
        pub length: u32,
        /// Where the piece begins, as the peer's provider counts.
        pub offset: u64,
    }

    /// A segment of a read chunk (RFC 8166 §3.4.5).
    #[derive(Copy)]
    pub struct ReadSegment {
        /// Where in the unreduced payload stream the chunk belongs; all segments of a chunk say the same.
        pub position: u32,
        /// The memory to read.
        pub target: Segment,
    }
}

/// The segments of a write chunk or of the reply chunk, in the order in which they are filled.
pub type WriteChunk = Vec<Segment>;

/// The three chunk lists of a message (RFC 8166 §4.3).
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ChunkLists {
    /// The read list.
    pub reads: Vec<ReadSegment>,
    /// The write list. A chunk without segments is an empty write chunk (§3.4.6).
    pub writes: Vec<WriteChunk>,
    /// The reply chunk.
    pub reply: Option<WriteChunk>,
}

impl ChunkLists {
    /// Whether no list is present.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.reads.is_empty() && self.writes.is_empty() && self.reply.is_none()
    }

    /// Bytes of a header with these lists.
    #[must_use]
    pub fn header_bytes(&self) -> usize {
        let chunk = |c: &WriteChunk| chunk_bytes(c.len());
        HEADER_BYTES_MIN
            + self.reads.len() * READ_SEGMENT_ITEM_BYTES
            + self.writes.iter().map(chunk).sum::<usize>()
            // The word that says whether a reply chunk follows is part of the smallest header.
            + self.reply.as_ref().map_or(0, |c| chunk(c) - 4)
    }
}

/// Bytes that one more read segment adds to a header.
pub(crate) const READ_SEGMENT_ITEM_BYTES: usize = 8 + SEGMENT_BYTES;

/// Bytes that a write chunk adds to a header.
pub(crate) const fn chunk_bytes(segments: usize) -> usize {
    8 + segments * SEGMENT_BYTES
}

/// Why a peer could not process a message (RFC 8166 §4.5).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RdmaError {
    /// ERR_VERS: it speaks only these versions.
    Version {
        /// Lowest version.
        low: u32,
        /// Highest version.
        high: u32,
    },
    /// ERR_CHUNK: the header or its chunks are of no use to it.
    Chunk,
}

/// What a message is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Body {
    /// RDMA_MSG: the payload stream follows in the same Send.
    Msg(ChunkLists),
    /// RDMA_NOMSG: the payload stream is in a chunk.
    NoMsg(ChunkLists),
    /// RDMA_ERROR.
    Error(RdmaError),
}

/// A transport header of version 1.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Header {
    /// XID of the RPC message.
    pub xid: u32,
    /// Credits requested by a call, or granted by a reply.
    pub credits: u32,
    /// The rest.
    pub body: Body,
}

/// The fields that every version keeps in place (RFC 8166 §4.2).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FixedFields {
    /// `rdma_xid`.
    pub xid: u32,
    /// `rdma_vers`.
    pub version: u32,
    /// `rdma_credit`.
    pub credits: u32,
    /// `rdma_proc`.
    pub procedure: u32,
}

impl FixedFields {
    /// Whether the procedure is RDMA_ERROR, which must never be answered.
    #[must_use]
    pub const fn is_error(&self) -> bool {
        self.procedure == RDMA_ERROR
    }
}

/// Why a header cannot be used.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum HeaderFault {
    /// Shorter than any header: not even the XID can be trusted (RFC 8166 §4.5).
    Short,
    /// Another version than 1.
    Version(FixedFields),
    /// RDMA_DONE, which is discarded (RFC 8166 §4.6.2).
    Done(FixedFields),
    /// RDMA_MSGP, which is answered with ERR_CHUNK (RFC 8166 §4.6.1).
    Padded(FixedFields),
    /// The rest is not what the protocol defines, or above a limit of ours.
    Malformed(FixedFields, DecodeError),
}

impl Header {
    /// Reads a header; also says at which byte the payload stream begins.
    ///
    /// # Errors
    /// [`HeaderFault`].
    pub fn decode(bytes: &[u8]) -> Result<(Self, usize), HeaderFault> {
        let mut d = Decoder::new(bytes);
        let fixed = fixed(&mut d).map_err(|_| HeaderFault::Short)?;
        let bytes_min = if fixed.is_error() {
            ERR_CHUNK_BYTES
        } else {
            HEADER_BYTES_MIN
        };
        if bytes.len() < bytes_min {
            return Err(HeaderFault::Short);
        }
        if fixed.version != VERSION {
            return Err(HeaderFault::Version(fixed));
        }
        let body = match fixed.procedure {
            RDMA_MSG => lists(&mut d).map(Body::Msg),
            RDMA_NOMSG => lists(&mut d).map(Body::NoMsg),
            RDMA_MSGP => return Err(HeaderFault::Padded(fixed)),
            RDMA_DONE => return Err(HeaderFault::Done(fixed)),
            RDMA_ERROR => error(&mut d).map(Body::Error),
            unknown => Err(DecodeError {
                kind: DecodeErrorKind::BadDiscriminant(unknown),
                offset: FIXED_BYTES - 4,
            }),
        };
        let header = Self {
            xid: fixed.xid,
            credits: fixed.credits,
            body: body.map_err(|e| HeaderFault::Malformed(fixed, e))?,
        };
        Ok((header, d.position()))
    }
}

impl Encode for Header {
    fn encode(&self, e: &mut Encoder) {
        e.u32(self.xid);
        e.u32(VERSION);
        e.u32(self.credits);
        match &self.body {
            Body::Msg(lists) => {
                e.u32(RDMA_MSG);
                encode_lists(lists, e);
            }
            Body::NoMsg(lists) => {
                e.u32(RDMA_NOMSG);
                encode_lists(lists, e);
            }
            Body::Error(error) => {
                e.u32(RDMA_ERROR);
                encode_error(*error, e);
            }
        }
    }
}

/// A header in one allocation.
pub(crate) fn encode_header(header: &Header) -> Vec<u8> {
    let bytes = match &header.body {
        Body::Msg(lists) | Body::NoMsg(lists) => lists.header_bytes(),
        Body::Error(_) => HEADER_BYTES_MIN,
    };
    let mut e = Encoder::with_buffer(Vec::with_capacity(bytes));
    header.encode(&mut e);
    e.into_bytes()
}

/// An RDMA_ERROR that answers a header of any version: it repeats the version of that header
/// (RFC 8166 §4.5).
#[must_use]
pub fn encode_error_reply(to: FixedFields, credits: u32, error: RdmaError) -> Vec<u8> {
    let mut e = Encoder::new();
    e.u32(to.xid);
    e.u32(to.version);
    e.u32(credits);
    e.u32(RDMA_ERROR);
    encode_error(error, &mut e);
    e.into_bytes()
}

fn fixed(d: &mut Decoder<'_>) -> Result<FixedFields, DecodeError> {
    Ok(FixedFields {
        xid: d.u32()?,
        version: d.u32()?,
        credits: d.u32()?,
        procedure: d.u32()?,
    })
}

fn lists(d: &mut Decoder<'_>) -> Result<ChunkLists, DecodeError> {
    Ok(ChunkLists {
        reads: linked(d, READ_SEGMENTS_MAX, ReadSegment::decode)?,
        writes: linked(d, WRITE_CHUNKS_MAX, |d| d.list(CHUNK_SEGMENTS_MAX))?,
        reply: if d.bool()? {
            Some(d.list(CHUNK_SEGMENTS_MAX)?)
        } else {
            None
        },
    })
}

/// A list in which a word before each item says that it follows (RFC 8166 §4.7).
fn linked<'a, T>(
    d: &mut Decoder<'a>,
    limit: u32,
    item: impl Fn(&mut Decoder<'a>) -> Result<T, DecodeError>,
) -> Result<Vec<T>, DecodeError> {
    let mut out = Vec::new();
    let mut len = 0;
    loop {
        let offset = d.position();
        if !d.bool()? {
            return Ok(out);
        }
        len += 1;
        if len > limit {
            return Err(DecodeError {
                kind: DecodeErrorKind::TooLong { len, limit },
                offset,
            });
        }
        out.push(item(d)?);
    }
}

fn error(d: &mut Decoder<'_>) -> Result<RdmaError, DecodeError> {
    let offset = d.position();
    match d.u32()? {
        ERR_VERS => Ok(RdmaError::Version {
            low: d.u32()?,
            high: d.u32()?,
        }),
        ERR_CHUNK => Ok(RdmaError::Chunk),
        unknown => Err(DecodeError {
            kind: DecodeErrorKind::BadDiscriminant(unknown),
            offset,
        }),
    }
}

fn encode_lists(lists: &ChunkLists, e: &mut Encoder) {
    for read in &lists.reads {
        e.bool(true);
        read.encode(e);
    }
    e.bool(false);
    for write in &lists.writes {
        e.bool(true);
        e.list(write);
    }
    e.bool(false);
    e.bool(lists.reply.is_some());
    if let Some(reply) = &lists.reply {
        e.list(reply);
    }
}

fn encode_error(error: RdmaError, e: &mut Encoder) {
    match error {
        RdmaError::Version { low, high } => {
            e.u32(ERR_VERS);
            e.u32(low);
            e.u32(high);
        }
        RdmaError::Chunk => e.u32(ERR_CHUNK),
    }
}
