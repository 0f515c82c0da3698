//! Work requests, what they own, and the completions that give it back.

use crate::Buffer;
use bytes::Bytes;
use std::any::Any;
use std::fmt;
use std::fs::File;
use std::sync::Arc;

/// Names memory that the peer exposes, and a part of it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Remote {
    /// The key: on iWARP the steering tag, on InfiniBand the rkey.
    pub key: u32,
    /// First byte, as the one who exposed it counts.
    pub offset: u64,
    /// Bytes.
    pub len: u32,
}

impl Remote {
    /// `len` bytes from the `start`th on; `None` when they are not all inside.
    #[must_use]
    pub fn part(self, start: u32, len: u32) -> Option<Self> {
        let end = start.checked_add(len)?;
        let offset = self.offset.checked_add(u64::from(start))?;
        (end <= self.len).then_some(Self {
            key: self.key,
            offset,
            len,
        })
    }
}

/// Most parts of one [`Work::Read`], each of which a provider asks for on its own.
pub const READ_PARTS_MAX: usize = 128;

/// Memory of the peer and where it goes in a buffer of ours.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Part {
    /// First byte of the buffer that is written; it must hold `remote.len` bytes from there on.
    pub at: usize,
    /// Where from.
    pub remote: Remote,
}

impl Part {
    /// Whether a buffer of `sink_bytes` holds it.
    #[must_use]
    pub fn fits(&self, sink_bytes: usize) -> bool {
        let len = usize::try_from(self.remote.len).ok();
        let end = len.and_then(|len| self.at.checked_add(len));
        end.is_some_and(|end| end <= sink_bytes)
    }
}

/// Bytes of a file.
#[derive(Clone)]
pub struct FileRange {
    /// The file, open for reading.
    pub file: Arc<File>,
    /// First byte.
    pub offset: u64,
    /// Bytes; the file must hold them until they have left.
    pub len: u32,
    /// Whatever keeps them there, dropped when the last of them has left or the connection is gone.
    pub hold: Arc<dyn Any + Send + Sync>,
}

impl fmt::Debug for FileRange {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("FileRange")
            .field("file", &self.file)
            .field("offset", &self.offset)
            .field("len", &self.len)
            .finish_non_exhaustive()
    }
}

/// What an endpoint is asked to do.
#[derive(Debug)]
pub enum Work {
    /// A message into the buffer that the peer posted first.
    Send {
        /// The message, gathered from these pieces.
        data: Vec<Bytes>,
        /// A key of the peer that ends with this message (remote invalidation).
        invalidate: Option<u32>,
    },
    /// Bytes into memory of the peer, who is not told; a later [`Work::Send`] does that.
    Write {
        /// The bytes, gathered from these pieces.
        data: Vec<Bytes>,
        /// Where to; at least as long as the data.
        remote: Remote,
    },
    /// As [`Work::Write`], out of a file and without a copy in this process. Bytes that are overwritten meanwhile may
    /// be sent as they were or as they are. Only where [`Negotiated::files`](crate::Negotiated::files) says so.
    WriteFile {
        /// The bytes.
        range: FileRange,
        /// Where to; at least as long.
        remote: Remote,
    },
    /// Bytes of the peer's memory into a buffer of ours. Always completes, signalled or not: once, when all
    /// parts are in their place.
    Read {
        /// Where to; what lies between the parts stays as it is.
        sink: Buffer,
        /// What goes where, at most [`READ_PARTS_MAX`]; none complete in their turn.
        parts: Vec<Part>,
    },
    /// Takes back memory that was exposed. Always completes, signalled or not.
    Invalidate {
        /// The key of it.
        key: u32,
    },
}

/// Memory that a peer may touch. What it may do follows from what it is.
#[derive(Debug)]
pub enum Memory {
    /// The peer may read these bytes.
    Bytes(Bytes),
    /// The peer may write the bytes that count.
    Buffer(Buffer),
}

impl Memory {
    /// Bytes of it.
    #[must_use]
    pub fn len(&self) -> usize {
        match self {
            Self::Bytes(bytes) => bytes.len(),
            Self::Buffer(buffer) => buffer.len(),
        }
    }

    /// Whether there are none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

/// A buffer for one message of the peer.
#[derive(Debug)]
pub struct Receive {
    /// Comes back in the completion.
    pub id: u64,
    /// Takes a message of up to its length.
    pub buffer: Buffer,
}

/// Why a request was not accepted. The connection goes on.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum WorkRefusal {
    /// The queue or table is full; completions make room.
    Full,
    /// The connection is closing or has ended.
    Closed,
    /// More bytes or parts than the provider takes, than the target holds, or than the sink has room for.
    TooLong,
    /// The peer serves no reads: the agreed read depth is 0.
    NoReads,
    /// This connection sends nothing straight out of files.
    NoFiles,
    /// This endpoint exposes nothing under that key (any more).
    BadKey,
}

impl fmt::Display for WorkRefusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Full => "the queue is full",
            Self::Closed => "the connection is closed",
            Self::TooLong => "too many bytes",
            Self::NoReads => "the peer serves no reads",
            Self::NoFiles => "nothing is sent straight out of files",
            Self::BadKey => "no memory is exposed under this key",
        })
    }
}

/// What was not accepted comes back whole.
#[derive(Debug)]
pub struct Refused<T> {
    /// Why.
    pub why: WorkRefusal,
    /// What was offered.
    pub back: T,
}

/// How a request ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum WorkStatus {
    /// Done. For a Send or a Write: it will not be sent again; the peer may not have it yet.
    Ok,
    /// Not known to be done: the connection ended before.
    Flushed,
    /// This request is what ended the connection.
    Failed(Fault),
}

/// What a completion gives back.
#[derive(Debug)]
pub enum Done {
    /// A [`Work::Send`]; its data were dropped.
    Send,
    /// A [`Work::Write`] or [`Work::WriteFile`]; its data were dropped.
    Write,
    /// A [`Work::Read`]; unless the status is Ok any bytes of its parts may have changed.
    Read {
        /// As posted, with the bytes read.
        sink: Buffer,
    },
    /// A [`Work::Invalidate`]: the peer can no longer touch this memory.
    Invalidate {
        /// `None` when the peer was quicker: a receive has handed it back already.
        memory: Option<Memory>,
    },
    /// A message of the peer, or a receive that none has filled.
    Receive {
        /// As posted; its length is that of the message.
        buffer: Buffer,
        /// Memory that the peer gave back with this message, and the key it had.
        invalidated: Option<(u32, Memory)>,
    },
    /// Memory that was still exposed when the connection ended. The id is its key.
    Exposed {
        /// As exposed; what may be written has any content.
        memory: Memory,
    },
}

/// The end of one request.
#[derive(Debug)]
pub struct Completion {
    /// As posted.
    pub id: u64,
    /// How.
    pub status: WorkStatus,
    /// What comes back.
    pub done: Done,
}

/// What one side did wrong, in words that all fabrics share. Counted by those who close.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Fault {
    /// A key that names nothing on this connection: stale, foreign or made up.
    BadKey,
    /// Bytes outside the memory that the key names.
    OutOfBounds,
    /// Writing what may only be read, or reading what may only be written.
    WrongRights,
    /// A message without a receive posted for it.
    NoReceive,
    /// A message longer than the receive posted for it.
    ReceiveTooSmall,
    /// More outstanding reads than were agreed.
    TooManyReads,
    /// An invalidation of what is not exposed, or is still being read.
    CannotInvalidate,
    /// Bytes were damaged on their way (CRC).
    Damaged,
    /// Anything else that the protocol forbids.
    Protocol,
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::BadKey => "unknown key",
            Self::OutOfBounds => "outside the exposed memory",
            Self::WrongRights => "access not allowed",
            Self::NoReceive => "a message without a receive posted",
            Self::ReceiveTooSmall => "a message longer than its receive",
            Self::TooManyReads => "more outstanding reads than agreed",
            Self::CannotInvalidate => "a key that cannot be invalidated",
            Self::Damaged => "damaged bytes",
            Self::Protocol => "protocol violation",
        })
    }
}

#[cfg(test)]
mod tests {
    //! Arithmetic of parts.
    use super::*;

    #[test]
    fn parts_stay_inside() {
        let whole = Remote {
            key: 7,
            offset: 100,
            len: 10,
        };
        let part = whole.part(4, 6).unwrap();
        assert_eq!((part.key, part.offset, part.len), (7, 104, 6));
        assert_eq!(whole.part(10, 0).map(|p| p.len), Some(0));
        assert_eq!(whole.part(4, 7), None);
        assert_eq!(whole.part(u32::MAX, 2), None);
        let high = Remote {
            offset: u64::MAX,
            ..whole
        };
        assert_eq!(high.part(1, 1), None);
    }
}
