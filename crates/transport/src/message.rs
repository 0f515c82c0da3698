//! An outgoing message: an XDR buffer, and payloads that are inserted at its spans while sending.
//!
//! # Ownership
//! A payload's guard is held until its last byte was handed to the socket (rule R16). With sendfile the kernel may then
//! still refer to pages of the file. A later overwrite can show in bytes that are not yet on the wire, as with any
//! server that sends from the page cache.
//!
//! # Failure
//! A file that turns out shorter than promised cannot be repaired once the header has left: the
//! connection is closed and the reason counted.

use std::any::Any;
use std::fs::File;
use std::os::unix::fs::FileExt;
use std::sync::Arc;

use bytes::Bytes;
use xdr::{Encoder, PayloadSpan, padding};

use crate::Charge;

/// Bulk bytes of a message.
#[derive(Debug)]
pub enum Payload {
    /// Bytes in memory.
    Bytes(Bytes),
    /// Bytes in memory, in pieces that follow each other.
    Pieces(Vec<Bytes>),
    /// A range of a file, sent from the page cache where the transport can.
    File(FilePayload),
}

/// A range of a file and whatever keeps it valid.
pub struct FilePayload {
    /// The file, open for reading.
    pub file: Arc<File>,
    /// First byte of the range.
    pub offset: u64,
    /// Bytes in the range. All must exist when the message is sent.
    pub len: u32,
    /// Dropped when the range has been handed to the socket, or the connection is gone.
    pub guard: Box<dyn Any + Send + Sync>,
}

impl std::fmt::Debug for FilePayload {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("FilePayload")
            .field("file", &self.file)
            .field("offset", &self.offset)
            .field("len", &self.len)
            .finish_non_exhaustive()
    }
}

impl Payload {
    /// Bytes of payload, without padding.
    #[must_use]
    pub fn len(&self) -> usize {
        match self {
            Self::Bytes(b) => b.len(),
            Self::Pieces(pieces) => pieces.iter().map(Bytes::len).sum(),
            Self::File(f) => f.len as usize,
        }
    }

    /// Whether there are none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Bytes of it that lie in a file.
    pub(crate) const fn file_bytes(&self) -> u32 {
        match self {
            Self::File(file) => file.len,
            Self::Bytes(_) | Self::Pieces(_) => 0,
        }
    }
}

/// Room that a caller makes for a reply where the transport has results placed straight into its memory (RDMA). Other
/// transports do not look at it. A call without it gets a reply of some kilobytes at most there.
#[derive(Debug, Clone, Copy)]
pub struct ReplyRoom {
    /// Most bytes of the reply, those of its bulk result not counted.
    pub reply_bytes_max: u32,
    /// Most bytes of its bulk result; 0 when it has none.
    pub result_bytes_max: u32,
    /// Where the bulk result belongs: given the reply without these bytes and their padding, the offset right after
    /// their count. `None` when it has no such result.
    pub locate: fn(&[u8]) -> Option<usize>,
}

impl ReplyRoom {
    /// For a reply without a bulk result.
    #[must_use]
    pub const fn plain(reply_bytes_max: u32) -> Self {
        Self {
            reply_bytes_max,
            result_bytes_max: 0,
            locate: |_| None,
        }
    }
}

/// An outgoing call or reply: one record on the wire.
#[derive(Debug)]
pub struct Message {
    head: Vec<u8>,
    spans: Vec<PayloadSpan>,
    payloads: Vec<Payload>,
    /// For payloads in memory, until the last byte was sent.
    charge: Option<Charge>,
    /// Of a call.
    reply_room: Option<ReplyRoom>,
}

impl Message {
    /// A message of an encoder and one payload for each of its spans, in order.
    ///
    /// # Panics
    /// When payloads and spans differ in number or length.
    #[must_use]
    pub fn new(encoder: Encoder, payloads: Vec<Payload>) -> Self {
        let (head, spans) = encoder.into_parts();
        assert_eq!(spans.len(), payloads.len(), "one payload for each span");
        for (span, payload) in spans.iter().zip(&payloads) {
            assert_eq!(
                span.len as usize,
                payload.len(),
                "a payload is as long as its span"
            );
        }
        Self {
            head,
            spans,
            payloads,
            charge: None,
            reply_room: None,
        }
    }

    /// Ties the message's share of the send budget to it.
    #[must_use]
    pub fn with_charge(mut self, charge: Option<Charge>) -> Self {
        self.charge = charge;
        self
    }

    /// Says how large the reply to this call may get.
    #[must_use]
    pub const fn with_reply_room(mut self, room: ReplyRoom) -> Self {
        self.reply_room = Some(room);
        self
    }

    pub(crate) const fn reply_room(&self) -> Option<ReplyRoom> {
        self.reply_room
    }

    pub(crate) const fn take_charge(&mut self) -> Option<Charge> {
        self.charge.take()
    }

    /// A message without payloads.
    #[must_use]
    pub const fn from_bytes(head: Vec<u8>) -> Self {
        Self {
            head,
            spans: Vec::new(),
            payloads: Vec::new(),
            charge: None,
            reply_room: None,
        }
    }

    /// The XDR bytes, payloads not included.
    #[must_use]
    pub fn head(&self) -> &[u8] {
        &self.head
    }

    pub(crate) fn head_mut(&mut self) -> &mut [u8] {
        &mut self.head
    }

    /// Where the payloads belong.
    #[must_use]
    pub fn spans(&self) -> &[PayloadSpan] {
        &self.spans
    }

    /// The payloads, in the order of [`Message::spans`].
    #[must_use]
    pub fn payloads(&self) -> &[Payload] {
        &self.payloads
    }

    /// Gives up the buffer, the spans and the payloads.
    #[must_use]
    pub fn into_parts(self) -> (Vec<u8>, Vec<PayloadSpan>, Vec<Payload>) {
        (self.head, self.spans, self.payloads)
    }

    /// Bytes that it keeps in memory.
    pub(crate) fn memory_bytes(&self) -> usize {
        let in_memory = |p: &Payload| match p {
            Payload::Bytes(_) | Payload::Pieces(_) => p.len(),
            Payload::File(_) => 0,
        };
        self.head.len() + self.payloads.iter().map(in_memory).sum::<usize>()
    }

    /// Bytes of the record on the wire, its mark not counted.
    #[must_use]
    pub fn wire_len(&self) -> usize {
        let padded = |s: &PayloadSpan| s.len as usize + padding(s.len as usize);
        self.head.len() + self.spans.iter().map(padded).sum::<usize>()
    }

    /// The record in one buffer; payloads are copied and files are read (blocking).
    ///
    /// # Errors
    /// When a file cannot be read or is shorter than promised (`UnexpectedEof`).
    pub fn flatten(&self) -> std::io::Result<Vec<u8>> {
        let mut out = Vec::with_capacity(self.wire_len());
        let mut at = 0;
        for (span, payload) in self.spans.iter().zip(&self.payloads) {
            out.extend_from_slice(&self.head[at..span.at]);
            at = span.at;
            match payload {
                Payload::Bytes(b) => out.extend_from_slice(b),
                Payload::Pieces(pieces) => pieces.iter().for_each(|b| out.extend_from_slice(b)),
                Payload::File(f) => {
                    let start = out.len();
                    out.resize(start + f.len as usize, 0);
                    f.file.read_exact_at(&mut out[start..], f.offset)?;
                }
            }
            out.extend_from_slice(&[0; 3][..padding(payload.len())]);
        }
        out.extend_from_slice(&self.head[at..]);
        Ok(out)
    }
}

impl From<Encoder> for Message {
    /// # Panics
    /// When the encoder recorded payload spans.
    fn from(encoder: Encoder) -> Self {
        Self::new(encoder, Vec::new())
    }
}
