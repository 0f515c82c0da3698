//! Chunks: what a list of segments of a peer means for a payload stream (RFC 8166 §3.4).
//!
//! [`place`] turns an inline stream and the read chunks of a call into a plan for one contiguous record. The plan says
//! which bytes are copied where, and which RDMA Read lands where. Padding after a chunk is part of the plan, whether or
//! not the peer left it out of the chunk (§3.4.5.2). [`fill`] spreads bytes over the segments of a write chunk.

use bytes::Bytes;

use crate::header::{ReadSegment, Segment};
use crate::message::pad;

/// Lowest position of a read chunk other than zero. The fixed part of a call header (RFC 5531 §9) is
/// not DDP-eligible, and direction and XID must be found without the chunk.
pub const READ_POSITION_MIN: u32 = 40;

/// The read segments of one position.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ReadChunk {
    /// Where in the unreduced payload stream it belongs.
    pub position: u32,
    /// Its memory, in order.
    pub segments: Vec<Segment>,
}

impl ReadChunk {
    /// Bytes in all segments.
    #[must_use]
    pub fn bytes(&self) -> u64 {
        segments_bytes(&self.segments)
    }
}

/// Bytes in all of `segments`.
#[must_use]
pub fn segments_bytes(segments: &[Segment]) -> u64 {
    segments.iter().map(|s| u64::from(s.length)).sum()
}

/// Groups a read list by position, in the order of the stream. Segments of a chunk keep the order of
/// the list (RFC 8166 §3.4.5).
#[must_use]
pub fn read_chunks(list: &[ReadSegment]) -> Vec<ReadChunk> {
    let mut chunks: Vec<ReadChunk> = Vec::new();
    for segment in list {
        match chunks.binary_search_by_key(&segment.position, |c| c.position) {
            Ok(at) => chunks[at].segments.push(segment.target),
            Err(at) => chunks.insert(
                at,
                ReadChunk {
                    position: segment.position,
                    segments: vec![segment.target],
                },
            ),
        }
    }
    chunks
}

/// Bytes that stand in a record outside of its RDMA Reads.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Piece {
    /// Offset in the record.
    pub at: u32,
    /// The bytes.
    pub bytes: Bytes,
}

/// An RDMA Read into a record.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Pull {
    /// Offset in the record.
    pub at: u32,
    /// Where the peer keeps the bytes.
    pub segment: Segment,
}

/// How a record comes together. Pieces and pulls cover each of its bytes once.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RecordPlan {
    /// Bytes of the whole record.
    pub bytes: u32,
    /// What is copied into it.
    pub pieces: Vec<Piece>,
    /// What is read into it.
    pub pulls: Vec<Pull>,
}

impl RecordPlan {
    /// Bytes that are read.
    #[must_use]
    pub fn pulled_bytes(&self) -> u64 {
        self.pulls.iter().map(|p| u64::from(p.segment.length)).sum()
    }
}

/// Why the chunks of a call make no record.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ChunkError {
    /// RDMA_NOMSG without a position-zero chunk that can hold a call, or RDMA_MSG with one: there is
    /// no payload stream, or two.
    NoStream,
    /// A position that is no multiple of four or lies in the fixed part of the call.
    BadPosition(u32),
    /// Two chunks overlap, or one begins after the end of the stream.
    Misplaced(u32),
    /// The record is longer than allowed.
    TooLong(u64),
}

impl std::fmt::Display for ChunkError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::NoStream => write!(f, "no payload stream, or two"),
            Self::BadPosition(p) => write!(f, "read chunk at position {p}"),
            Self::Misplaced(p) => write!(f, "read chunk at {p} overlaps or lies behind the end"),
            Self::TooLong(n) => write!(f, "record of {n} bytes"),
        }
    }
}

impl std::error::Error for ChunkError {}

/// Plans the record of a call from its inline stream (none with RDMA_NOMSG) and its read chunks, as
/// [`read_chunks`] gives them.
///
/// # Errors
/// [`ChunkError`].
pub fn place(
    inline: Option<&Bytes>,
    chunks: &[ReadChunk],
    record_bytes_max: u32,
) -> Result<RecordPlan, ChunkError> {
    let (stream, chunks) = match (inline, chunks.split_first()) {
        (Some(_), Some((first, _))) if first.position == 0 => return Err(ChunkError::NoStream),
        (Some(inline), _) => (Stream::Inline(inline.clone()), chunks),
        (None, Some((first, rest)))
            if first.position == 0 && first.bytes() >= u64::from(READ_POSITION_MIN) =>
        {
            (Stream::Remote(first.segments.clone()), rest)
        }
        (None, _) => return Err(ChunkError::NoStream),
    };
    let padded = |c: &ReadChunk| c.bytes().next_multiple_of(4);
    let total = stream.bytes() + chunks.iter().map(padded).sum::<u64>();
    let bytes = u32::try_from(total)
        .ok()
        .filter(|bytes| *bytes <= record_bytes_max)
        .ok_or(ChunkError::TooLong(total))?;
    let mut plan = Planner {
        stream,
        at: 0,
        placement: RecordPlan {
            bytes,
            pieces: Vec::new(),
            pulls: Vec::new(),
        },
    };
    for chunk in chunks {
        plan.chunk(chunk)?;
    }
    plan.stream_rest();
    Ok(plan.placement)
}

/// The reduced payload stream.
enum Stream {
    Inline(Bytes),
    Remote(Vec<Segment>),
}

impl Stream {
    fn bytes(&self) -> u64 {
        match self {
            Self::Inline(bytes) => bytes.len() as u64,
            Self::Remote(segments) => segments_bytes(segments),
        }
    }
}

struct Planner {
    /// What is left of the stream.
    stream: Stream,
    /// How much of the record is planned. At most the record's length, which was checked.
    at: u32,
    placement: RecordPlan,
}

impl Planner {
    fn chunk(&mut self, chunk: &ReadChunk) -> Result<(), ChunkError> {
        let position = chunk.position;
        if !position.is_multiple_of(4) || position < READ_POSITION_MIN {
            return Err(ChunkError::BadPosition(position));
        }
        let before = position.checked_sub(self.at);
        let before = before.filter(|n| u64::from(*n) <= self.stream.bytes());
        self.take_stream(before.ok_or(ChunkError::Misplaced(position))?);
        for segment in &chunk.segments {
            self.pull(*segment);
        }
        let padding = pad(self.at as usize);
        self.piece(padding);
        Ok(())
    }

    fn stream_rest(&mut self) {
        let rest = u32::try_from(self.stream.bytes());
        self.take_stream(rest.expect("the length of the record was checked"));
    }

    fn take_stream(&mut self, mut wanted: u32) {
        match &mut self.stream {
            Stream::Inline(bytes) => {
                let piece = bytes.split_to(wanted as usize);
                self.piece(piece);
            }
            Stream::Remote(segments) => {
                let mut pulls = Vec::new();
                while wanted > 0 {
                    let segment = &mut segments[0];
                    let taken = wanted.min(segment.length);
                    pulls.push(Segment {
                        length: taken,
                        ..*segment
                    });
                    wanted -= taken;
                    segment.length -= taken;
                    segment.offset = segment.offset.wrapping_add(u64::from(taken));
                    if segment.length == 0 {
                        segments.remove(0);
                    }
                }
                pulls.into_iter().for_each(|segment| self.pull(segment));
            }
        }
    }

    fn piece(&mut self, bytes: Bytes) {
        let len = u32::try_from(bytes.len()).expect("the length of the record was checked");
        if len > 0 {
            self.placement.pieces.push(Piece { at: self.at, bytes });
            self.at += len;
        }
    }

    fn pull(&mut self, segment: Segment) {
        if segment.length > 0 {
            self.placement.pulls.push(Pull {
                at: self.at,
                segment,
            });
            self.at += segment.length;
        }
    }
}

/// The segments of a write chunk or reply chunk once `bytes` are in it: filled in order, the rest
/// empty (RFC 8166 §3.4.6). `None` if it is too short.
#[must_use]
pub fn fill(chunk: &[Segment], bytes: u64) -> Option<Vec<Segment>> {
    let mut rest = bytes;
    let filled = chunk
        .iter()
        .map(|segment| {
            let taken = u64::from(segment.length).min(rest);
            rest -= taken;
            Segment {
                length: u32::try_from(taken).expect("at most the segment's length"),
                ..*segment
            }
        })
        .collect();
    (rest == 0).then_some(filled)
}

/// Why a reduced message cannot be put together again.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ReassembleError {
    /// The upper-layer binding finds no place for a chunk, or one outside of the stream or before
    /// that of the chunk before.
    NoPlace {
        /// Index of the chunk.
        chunk: usize,
    },
    /// The count before the place is not the length of the chunk (RFC 8166 §3.4.4.1).
    CountDiffers {
        /// Index of the chunk.
        chunk: usize,
        /// The count.
        count: u32,
    },
}

impl std::fmt::Display for ReassembleError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::NoPlace { chunk } => write!(f, "no place for chunk {chunk}"),
            Self::CountDiffers { chunk, count } => {
                write!(
                    f,
                    "chunk {chunk} is not of {count} bytes, as its count says"
                )
            }
        }
    }
}

impl std::error::Error for ReassembleError {}

/// Puts the items of returned write chunks back into a reduced reply, for consumers that want one
/// contiguous record. Copies.
///
/// `locate` belongs to the upper-layer binding. Given the reduced stream and the index of a chunk, it tells the offset
/// *in the reduced stream* at which the opaque's bytes are missing. That is right after their count. It is not asked
/// for unused chunks.
///
/// # Errors
/// [`ReassembleError`].
pub fn reassemble(
    reduced: &[u8],
    chunks: &[&[u8]],
    mut locate: impl FnMut(&[u8], usize) -> Option<usize>,
) -> Result<Vec<u8>, ReassembleError> {
    let padded = |c: &&[u8]| c.len().next_multiple_of(4);
    let mut out = Vec::with_capacity(reduced.len() + chunks.iter().map(padded).sum::<usize>());
    let mut taken = 0;
    for (chunk, bytes) in chunks.iter().enumerate().filter(|(_, b)| !b.is_empty()) {
        let at = locate(reduced, chunk).filter(|at| *at >= taken.max(4));
        let at = at.ok_or(ReassembleError::NoPlace { chunk })?;
        let count = reduced.get(at - 4..at).and_then(|w| w.try_into().ok());
        let count = u32::from_be_bytes(count.ok_or(ReassembleError::NoPlace { chunk })?);
        if count as usize != bytes.len() {
            return Err(ReassembleError::CountDiffers { chunk, count });
        }
        out.extend_from_slice(&reduced[taken..at]);
        out.extend_from_slice(bytes);
        out.extend_from_slice(&pad(bytes.len()));
        taken = at;
    }
    out.extend_from_slice(&reduced[taken..]);
    Ok(out)
}
