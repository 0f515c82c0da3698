//! The outgoing half of a stream: which message is next, and frames as pieces of bytes.
//!
//! Frames are made while few bytes wait to be written, so that a Read Response never stands behind much that
//! was framed before it.

use super::{Exposure, Machine, Op, ReadOut, Whose};
use crate::crc;
use crate::ddp::{
    Place, QUEUE_READ_REQUEST, QUEUE_SEND, QUEUE_TERMINATE, SegmentHeader, TAGGED_BYTES,
    UNTAGGED_BYTES,
};
use crate::mpa;
use crate::rdmap::{Opcode, READ_REQUEST_BYTES, ReadRequest, TERMINATE_BYTES_MAX, Terminate};
use bytes::{BufMut, Bytes, BytesMut};
use fabric::FileRange;
use std::collections::VecDeque;
use std::io::IoSlice;
use std::os::unix::fs::FileExt;

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

/// Bytes on their way out.
#[derive(Debug)]
enum Piece {
    Bytes(Bytes),
    File(FileRange),
}

impl Piece {
    fn len(&self) -> usize {
        match self {
            Self::Bytes(bytes) => bytes.len(),
            Self::File(range) => super::to_usize(range.len),
        }
    }

    /// Takes the first `count` bytes off, which it has.
    fn split_to(&mut self, count: usize) -> Self {
        match self {
            Self::Bytes(bytes) => Self::Bytes(bytes.split_to(count)),
            Self::File(range) => {
                let mut head = range.clone();
                head.len = u32::try_from(count).expect("a part of it");
                range.offset += u64::from(head.len);
                range.len -= head.len;
                Self::File(head)
            }
        }
    }
}

/// Pieces that are sent one after the other.
#[derive(Debug)]
pub(super) struct Gather {
    pieces: VecDeque<Piece>,
    left: u64,
    taken: u64,
}

impl Gather {
    pub(super) fn new(pieces: Vec<Bytes>) -> Self {
        Self {
            left: super::total(&pieces),
            pieces: pieces.into_iter().map(Piece::Bytes).collect(),
            taken: 0,
        }
    }

    pub(super) fn of_file(range: FileRange) -> Self {
        Self {
            left: range.len.into(),
            pieces: VecDeque::from([Piece::File(range)]),
            taken: 0,
        }
    }

    /// The next bytes, at most `max` and out of one piece.
    fn take(&mut self, max: usize) -> Option<Piece> {
        loop {
            let head = self.pieces.front_mut()?;
            if head.len() > max {
                return (max > 0).then(|| head.split_to(max));
            }
            let whole = self.pieces.pop_front()?;
            if whole.len() > 0 {
                return Some(whole);
            }
        }
    }
}

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
    out: VecDeque<Piece>,
    /// Follows `out`: small things that were not cut off yet.
    small: BytesMut,
    made: u64,
    sent: u64,
    /// Ends of the frames that are not all sent, and of the one before.
    frame_ends: VecDeque<u64>,
    last_end_sent: u64,
    frames_sent: u64,
    payload_bytes: u64,
    copied_bytes: u64,
    /// Items at the head of the send queue of which everything was framed.
    framed_items: usize,
    responses: VecDeque<Response>,
    /// Ends of the responses that were framed and not all sent.
    response_ends: VecDeque<u64>,
    message: Message,
    responded_last: bool,
    msn_send: u32,
    msn_read_request: u32,
}

/// The message that is under way.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Message {
    None,
    Work,
    Response,
}

#[derive(Debug)]
struct Response {
    stag: u32,
    to: u64,
    data: Gather,
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
    fn segment(
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

    fn cut_small(&mut self) {
        if !self.small.is_empty() {
            let piece = self.small.split().freeze();
            self.out.push_back(Piece::Bytes(piece));
        }
    }

    fn has_room(&self) -> bool {
        self.made - self.sent < FRAMED_BYTES && self.out.len() < FRAMED_PIECES
    }

    /// Largest payload of an untagged segment.
    fn untagged_max(&self) -> u64 {
        (self.mulpdu - UNTAGGED_BYTES) as u64
    }

    /// Largest payload of a tagged segment.
    fn tagged_max(&self) -> u64 {
        let max = (self.mulpdu - TAGGED_BYTES) as u64;
        let pages = max - max % PAGE_BYTES;
        if pages > 0 { pages } else { max }
    }

    fn wrote(&mut self, mut count: usize) {
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

fn tagged(opcode: Opcode, stag: u32, to: u64, last: bool) -> SegmentHeader {
    SegmentHeader {
        last,
        control: opcode.control(),
        place: Place::Tagged { stag, to },
    }
}

fn untagged(
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

impl Machine {
    /// Whether anything is to be written.
    pub fn has_outgoing(&mut self) -> bool {
        self.frame_more();
        self.tx.made > self.tx.sent
    }

    /// What is to be written next. Follow with [`Machine::wrote`].
    pub fn outgoing<'a>(&'a mut self, slices: &mut [IoSlice<'a>]) -> Outgoing<'a> {
        self.frame_more();
        self.tx.cut_small();
        let mut pieces = 0;
        for piece in &self.tx.out {
            let file = match (piece, slices.get_mut(pieces)) {
                (Piece::Bytes(bytes), Some(slice)) => {
                    *slice = IoSlice::new(bytes);
                    pieces += 1;
                    continue;
                }
                (Piece::Bytes(_), None) => None,
                (Piece::File(range), _) => Some(range),
            };
            return Outgoing { pieces, file };
        }
        Outgoing { pieces, file: None }
    }

    /// So many octets of what was outgoing are written.
    pub fn wrote(&mut self, count: usize) {
        self.tx.wrote(count);
        if self.ended.is_none() {
            self.settle();
        }
    }

    /// Takes what is left to be written once the stream has ended, copied: it holds no memory of anybody. Nothing if the
    /// frame under way cannot be completed.
    #[must_use]
    pub fn last_words(&mut self) -> Vec<u8> {
        self.tx.cut_small();
        let mut words = Vec::new();
        for piece in std::mem::take(&mut self.tx.out) {
            let start = words.len();
            match &piece {
                Piece::Bytes(bytes) => words.extend_from_slice(bytes),
                Piece::File(range) => {
                    words.resize(start + piece.len(), 0);
                    let read = range.file.read_exact_at(&mut words[start..], range.offset);
                    if read.is_err() {
                        return Vec::new();
                    }
                }
            }
        }
        words
    }

    /// Frames what there is room for.
    fn frame_more(&mut self) {
        while self.ended.is_none() && self.tx.has_room() && self.frame_one() {}
        if self.ended.is_none() {
            self.settle();
        }
    }

    /// Whether there was something to frame.
    fn frame_one(&mut self) -> bool {
        let respond = match self.tx.message {
            Message::Work => false,
            Message::Response => true,
            Message::None => {
                let waiting = !self.tx.responses.is_empty();
                waiting && !(self.tx.responded_last && self.work_is_ready())
            }
        };
        if respond {
            self.frame_response();
            return true;
        }
        let ready = self.work_is_ready();
        if ready {
            self.frame_work();
        }
        ready
    }

    /// Whether the next work can start or go on: a read waits while too many are outstanding, and what is
    /// after it with it (RFC 5040 §5.5 rule 13, §6.1).
    fn work_is_ready(&self) -> bool {
        match self.send_queue.get(self.tx.framed_items) {
            None => false,
            Some(item) => match item.op {
                Op::Invalidate { .. } => true,
                Op::Read { .. } if self.reads.len() >= usize::from(self.agreed.ord) => false,
                _ => self.may_send,
            },
        }
    }

    fn frame_response(&mut self) {
        let crc = self.agreed.crc;
        let Some(mut response) = self.tx.responses.pop_front() else {
            return;
        };
        let max = self.tx.tagged_max();
        let len = response.data.left.min(max);
        let last = len == response.data.left;
        let to = response.to.wrapping_add(response.data.taken);
        let header = tagged(Opcode::ReadResponse, response.stag, to, last);
        let tx = &mut self.tx;
        tx.segment(&header, &mut response.data, bounded(len), crc);
        if last {
            tx.response_ends.push_back(tx.made);
            tx.message = Message::None;
            tx.responded_last = true;
        } else {
            tx.responses.push_front(response);
            tx.message = Message::Response;
        }
    }

    fn frame_work(&mut self) {
        let crc = self.agreed.crc;
        let tx = &mut self.tx;
        let begins = tx.message != Message::Work;
        let Some(item) = self.send_queue.get_mut(tx.framed_items) else {
            return;
        };
        let last = match &mut item.op {
            Op::Send { data, invalidate } => {
                if begins {
                    tx.msn_send = tx.msn_send.wrapping_add(1);
                }
                let len = data.left.min(tx.untagged_max());
                let last = len == data.left;
                let opcode = Self::opcode_for(*invalidate);
                let (key, msn) = (invalidate.unwrap_or(0), tx.msn_send);
                let header = untagged(opcode, key, QUEUE_SEND, msn, data.taken, last);
                tx.segment(&header, data, bounded(len), crc);
                last
            }
            Op::Write { data, remote } => {
                let len = data.left.min(tx.tagged_max());
                let last = len == data.left;
                let to = remote.offset.wrapping_add(data.taken);
                let header = tagged(Opcode::Write, remote.key, to, last);
                tx.segment(&header, data, bounded(len), crc);
                last
            }
            Op::Read { .. } => return self.frame_read(),
            Op::Invalidate { .. } => true,
        };
        if last {
            item.end = Some(tx.made);
            tx.framed_items += 1;
            tx.message = Message::None;
            tx.responded_last = false;
        } else {
            tx.message = Message::Work;
        }
    }

    /// One Read Request of the read that is next.
    fn frame_read(&mut self) {
        let index = self.tx.framed_items;
        let Op::Read { sink, parts, .. } = &mut self.send_queue[index].op else {
            unreachable!("only reads are framed here");
        };
        let Some(part) = parts.pop_front() else {
            return self.framed_read(index, self.tx.made);
        };
        let is_last = parts.is_empty();
        self.sinks.extend(sink.take());
        let Ok(stag) = self.keys.insert(Exposure::Sink) else {
            unreachable!("there is a key for each read that may be outstanding");
        };
        let end = self.send_read_request(ReadOut {
            stag,
            part,
            placed: 0,
            whose: Whose::Work { is_last },
        });
        if is_last {
            self.framed_read(index, end);
        }
    }

    /// All of a read was asked for.
    fn framed_read(&mut self, index: usize, end: u64) {
        self.send_queue[index].end = Some(end);
        self.tx.framed_items += 1;
        self.tx.responded_last = false;
    }
}

/// A segment's payload is below the largest ULPDU.
fn bounded(len: u64) -> usize {
    usize::try_from(len).expect("a segment is bounded by the MULPDU")
}
