//! What waits to be sent, as frames.

use super::gather::{Gather, Piece};
use crate::crc;
use crate::ddp::{
    Place, QUEUE_READ_REQUEST, QUEUE_TERMINATE, SegmentHeader, TAGGED_BYTES, UNTAGGED_BYTES,
};
use crate::mpa;
use crate::rdmap::{Opcode, READ_REQUEST_BYTES, ReadRequest, TERMINATE_BYTES_MAX, Terminate};
use bytes::{BufMut, Bytes, BytesMut};
use fabric::FileRange;
use std::collections::VecDeque;

/// Frames are made until so many bytes wait to be written: the data of a usual READ, and the reply after them.
const FRAMED_BYTES: u64 = 192 * 1024;
/// Or so many pieces, as many as one write takes with room for the last frame.
const FRAMED_PIECES: usize = 64;
/// Headers and trailers are cut from allocations of this size.
const SMALL_CHUNK_BYTES: usize = 4096;
/// The most that one frame adds to them, unless its payload is small as well.
const SMALL_ROOM_BYTES: usize = 2 + 18 + TERMINATE_BYTES_MAX + 7;
/// Payload up to this size is copied after its header: cheaper than a piece of its own.
const SMALL_PIECE_BYTES: usize = 256;
/// Large tagged segments end where a page does, if their message begins with one.
const PAGE_BYTES: u64 = 4096;

/// What is to be written next.
#[derive(Debug)]
pub struct Outgoing<'a> {
    /// So many pieces in memory first.
    pub pieces: usize,
    /// After them, bytes of a file, and something after these.
    pub file: Option<&'a FileRange>,
}

/// Outgoing bytes and what becomes of them.
#[derive(Debug)]
pub(super) struct Tx {
    mulpdu: usize,
    pub(super) out: VecDeque<Piece>,
    /// Follows `out`: small things that were not cut off yet.
    small: BytesMut,
    pub(super) made: u64,
    pub(super) sent: u64,
    /// Ends of the frames that are not all sent, and of the one before.
    frame_ends: VecDeque<u64>,
    last_end_sent: u64,
    frames_sent: u64,
    payload_bytes: u64,
    copied_bytes: u64,
    /// Items at the head of the send queue of which everything was framed.
    pub(super) framed_items: usize,
    pub(super) responses: VecDeque<Response>,
    /// Ends of the responses that were framed and not all sent.
    pub(super) response_ends: VecDeque<u64>,
    pub(super) message: Message,
    pub(super) responded_last: bool,
    pub(super) msn_send: u32,
    msn_read_request: u32,
}

/// The message that is under way.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Message {
    None,
    Work,
    Response,
}

#[derive(Debug)]
pub(super) struct Response {
    pub(super) stag: u32,
    pub(super) to: u64,
    pub(super) data: Gather,
}

impl Tx {
    pub(super) fn new(mulpdu: usize) -> Self {
        Self {
            mulpdu,
            out: VecDeque::new(),
            small: BytesMut::new(),
            made: 0,
            sent: 0,
            frame_ends: VecDeque::new(),
            last_end_sent: 0,
            frames_sent: 0,
            payload_bytes: 0,
            copied_bytes: 0,
            framed_items: 0,
            responses: VecDeque::new(),
            response_ends: VecDeque::new(),
            message: Message::None,
            responded_last: false,
            msn_send: 0,
            msn_read_request: 0,
        }
    }

    /// Payload framed so far, and of that, copied.
    pub(super) fn payload_bytes(&self) -> (u64, u64) {
        (self.payload_bytes, self.copied_bytes)
    }

    /// Octets written so far.
    pub(super) fn sent(&self) -> u64 {
        self.sent
    }

    /// Whether nothing waits to be sent.
    pub(super) fn is_idle(&self) -> bool {
        self.made == self.sent && self.responses.is_empty()
    }

    /// Gives back room for what is all sent.
    pub(super) fn rest(&mut self) {
        self.out = VecDeque::new();
        self.small = BytesMut::new();
        self.frame_ends = VecDeque::new();
        self.responses = VecDeque::new();
        self.response_ends = VecDeque::new();
    }

    /// Whether a frame of its own would stand between two messages and leave at once.
    pub(super) fn is_between_messages(&self) -> bool {
        self.made == self.sent && self.message == Message::None
    }

    /// Frames that the network has taken, if others wait for it.
    pub(super) fn frames_taken_while_others_wait(&self) -> Option<u64> {
        (self.made > self.sent).then_some(self.frames_sent)
    }

    /// An item left the head of the send queue.
    pub(super) fn popped(&mut self) {
        self.framed_items = self.framed_items.saturating_sub(1);
    }

    /// Responses that are queued or not all sent: what counts against the inbound read depth.
    pub(super) fn responses_outstanding(&self) -> usize {
        self.responses.len() + self.response_ends.len()
    }

    pub(super) fn respond(&mut self, stag: u32, to: u64, data: Bytes) {
        let data = Gather::new(vec![data]);
        self.responses.push_back(Response { stag, to, data });
    }

    /// Nothing more is framed, and frames of which nothing was sent are dropped.
    pub(super) fn stop(&mut self) {
        self.responses.clear();
        self.message = Message::None;
        self.cut_small();
        let begun = self.sent > self.last_end_sent;
        let keep = match self.frame_ends.front() {
            Some(end) if begun => end - self.sent,
            _ => 0,
        };
        let mut kept = 0;
        let mut out = VecDeque::new();
        for mut piece in self.out.drain(..) {
            let room = usize::try_from(keep - kept).unwrap_or(usize::MAX);
            let piece = piece.split_to(room.min(piece.len()));
            kept += piece.len() as u64;
            if piece.len() > 0 {
                out.push_back(piece);
            }
        }
        self.out = out;
        self.made = self.sent + kept;
        self.frame_ends.clear();
    }

    /// Appends the last frame of all.
    pub(super) fn terminate(&mut self, terminate: &Terminate, crc: bool) {
        let mut payload = BytesMut::with_capacity(TERMINATE_BYTES_MAX);
        terminate.encode(&mut payload);
        let header = untagged(Opcode::Terminate, 0, QUEUE_TERMINATE, 1, 0, true);
        self.control(&header, payload.freeze(), crc);
    }

    /// Appends the RTR indication that is a Write (RFC 6581 §9.2).
    pub(super) fn empty_write(&mut self, crc: bool) {
        let header = tagged(Opcode::Write, 0, 0, true);
        self.control(&header, Bytes::new(), crc);
    }

    /// Appends a Read Request; returns where it ends.
    pub(super) fn read_request(&mut self, request: &ReadRequest, crc: bool) -> u64 {
        self.msn_read_request = self.msn_read_request.wrapping_add(1);
        let (op, msn) = (Opcode::ReadRequest, self.msn_read_request);
        let header = untagged(op, 0, QUEUE_READ_REQUEST, msn, 0, true);
        let mut payload = BytesMut::with_capacity(READ_REQUEST_BYTES);
        request.encode(&mut payload);
        self.control(&header, payload.freeze(), crc)
    }

    fn control(&mut self, header: &SegmentHeader, payload: Bytes, crc: bool) -> u64 {
        let frame = self.begin(header, payload.len(), crc);
        self.small.extend_from_slice(&payload);
        self.finish(frame)
    }

    /// Appends one segment of a message: its header and the next `payload_bytes` of its data.
    pub(super) fn segment(
        &mut self,
        header: &SegmentHeader,
        data: &mut Gather,
        payload_bytes: usize,
        crc: bool,
    ) {
        let mut frame = self.begin(header, payload_bytes, crc);
        let mut left = payload_bytes;
        while let Some(piece) = data.take(left) {
            left -= piece.len();
            match piece {
                Piece::Bytes(bytes) if bytes.len() <= SMALL_PIECE_BYTES => {
                    if matches!(header.place, Place::Tagged { .. }) {
                        self.copied_bytes += bytes.len() as u64;
                    }
                    self.small.extend_from_slice(&bytes);
                    continue;
                }
                _ => {}
            }
            frame.sum(&self.small[frame.start..]);
            self.cut_small();
            frame.start = 0;
            match &piece {
                Piece::Bytes(bytes) => frame.sum(bytes),
                Piece::File(_) => assert!(frame.crc.is_none(), "nobody sums a file"),
            }
            self.out.push_back(piece);
        }
        data.taken += payload_bytes as u64;
        data.left -= payload_bytes as u64;
        self.payload_bytes += payload_bytes as u64;
        self.finish(frame);
    }

    fn begin(&mut self, header: &SegmentHeader, payload_bytes: usize, crc: bool) -> Frame {
        let ulpdu_bytes = header.len_bytes() + payload_bytes;
        let len = u16::try_from(ulpdu_bytes).expect("a segment is at most the MULPDU");
        if self.small.capacity() - self.small.len() < SMALL_ROOM_BYTES {
            self.cut_small();
            self.small.reserve(SMALL_CHUNK_BYTES);
        }
        let start = self.small.len();
        self.small.put_u16(len);
        header.encode(&mut self.small);
        Frame {
            ulpdu_bytes,
            crc: crc.then_some(0),
            start,
        }
    }

    /// Padding and CRC; returns where the frame ends.
    fn finish(&mut self, mut frame: Frame) -> u64 {
        let pad = mpa::pad_bytes(frame.ulpdu_bytes);
        self.small.put_bytes(0, pad);
        frame.sum(&self.small[frame.start..]);
        // The CRC is sent as iSCSI does: its low octet first (RFC 5044 §4.4).
        self.small.put_u32_le(frame.crc.unwrap_or(0));
        self.made += (2 + frame.ulpdu_bytes + pad + 4) as u64;
        self.frame_ends.push_back(self.made);
        self.made
    }

    pub(super) fn cut_small(&mut self) {
        if !self.small.is_empty() {
            let piece = self.small.split().freeze();
            self.out.push_back(Piece::Bytes(piece));
        }
    }

    pub(super) fn has_room(&self) -> bool {
        self.made - self.sent < FRAMED_BYTES && self.out.len() < FRAMED_PIECES
    }

    /// Largest payload of an untagged segment.
    pub(super) fn untagged_max(&self) -> u64 {
        (self.mulpdu - UNTAGGED_BYTES) as u64
    }

    /// Largest payload of a tagged segment.
    pub(super) fn tagged_max(&self) -> u64 {
        let max = (self.mulpdu - TAGGED_BYTES) as u64;
        let pages = max - max % PAGE_BYTES;
        if pages > 0 { pages } else { max }
    }

    pub(super) fn wrote(&mut self, mut count: usize) {
        self.sent += count as u64;
        while let Some(head) = self.out.front_mut() {
            if head.len() > count {
                drop(head.split_to(count));
                break;
            }
            count -= head.len();
            self.out.pop_front();
        }
        while let Some(end) = self.frame_ends.front().filter(|end| **end <= self.sent) {
            self.last_end_sent = *end;
            self.frames_sent += 1;
            self.frame_ends.pop_front();
        }
        let left = self.response_ends.iter().filter(|end| **end > self.sent);
        let gone = self.response_ends.len() - left.count();
        self.response_ends.drain(..gone);
    }
}

/// A frame that is being made.
struct Frame {
    ulpdu_bytes: usize,
    crc: Option<u32>,
    /// What lies from here on in the small things is not in the sum yet.
    start: usize,
}

impl Frame {
    fn sum(&mut self, bytes: &[u8]) {
        if let Some(crc) = &mut self.crc {
            *crc = crc::append(*crc, bytes);
        }
    }
}

pub(super) fn tagged(opcode: Opcode, stag: u32, to: u64, last: bool) -> SegmentHeader {
    SegmentHeader {
        last,
        control: opcode.control(),
        place: Place::Tagged { stag, to },
    }
}

pub(super) fn untagged(
    opcode: Opcode,
    invalidate: u32,
    queue: u32,
    msn: u32,
    mo: u64,
    last: bool,
) -> SegmentHeader {
    SegmentHeader {
        last,
        control: opcode.control(),
        place: Place::Untagged {
            invalidate,
            queue,
            msn,
            mo: u32::try_from(mo).expect("a message is bounded"),
        },
    }
}

/// A segment's payload is below the largest ULPDU.
pub(super) fn bounded(len: u64) -> usize {
    usize::try_from(len).expect("a segment is bounded by the MULPDU")
}
