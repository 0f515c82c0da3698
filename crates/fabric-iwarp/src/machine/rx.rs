//! The incoming half of a stream: frames cut from bytes, each segment checked before any of it is placed.
//!
//! A frame's CRC comes after its payload, so payload is placed before it is known to be whole. That is sound
//! because nothing is delivered before the CRC was right, and a frame that fails it ends the stream: what it
//! may have damaged is still exposed, still being read, or a receive, and comes back as flushed.

use super::ahead::Ahead;
use super::spare;
use super::{Exposure, Machine, to_usize};
use crate::crc;
use crate::ddp::{Place, QUEUE_READ_REQUEST, QUEUE_SEND, SegmentHeader, TAGGED_BYTES};
use crate::keys::Keys;
use crate::mpa;
use crate::rdmap::{Opcode, READ_REQUEST_BYTES, ReadRequest, TERMINATE_BYTES_MAX, Term, Terminate};
use bytes::Bytes;
use fabric::{Buffer, Done, Memory, Receive, WorkStatus};
use std::collections::VecDeque;

/// Bytes read at a time while no large payload is due: few at first, more while many small segments arrive.
pub(super) const INBOX_BYTES_MIN: usize = 4 * 1024;
const INBOX_BYTES_MAX: usize = 64 * 1024;
/// Payload still due from which on it is read straight into its place.
pub(super) const DIRECT_BYTES_MIN: usize = 2 * 1024;
/// A segment of a control message has no more payload.
const CONTROL_BYTES_MAX: usize = TERMINATE_BYTES_MAX;

/// Incoming bytes and the segment that is under way.
#[derive(Debug, Default)]
pub(super) struct Rx {
    /// From the first byte on; larger than [`INBOX_BYTES_MIN`] only while bytes arrive.
    pub(super) inbox: Vec<u8>,
    start: usize,
    pub(super) end: usize,
    /// How often the inbox was too small for what came.
    doublings: u32,
    pub(super) segment: Option<Segment>,
    /// What the bytes that are read now should be, unless all go into the inbox.
    pub(super) ahead: Option<Box<Ahead>>,
    /// Of control messages.
    pub(super) control: ControlBuffer,
    /// A message has come for which there is no receive in the shared queue.
    is_blocked: bool,
    /// The Send that is under way.
    send: Option<SendIn>,
    msn_send: u32,
    msn_read_request: u32,
    /// Frames that came whole.
    frames: u64,
    /// Of those, segments of answers to reads.
    answers: u64,
}

#[derive(Debug)]
pub(super) struct ControlBuffer([u8; CONTROL_BYTES_MAX]);

impl Default for ControlBuffer {
    fn default() -> Self {
        Self([0; CONTROL_BYTES_MAX])
    }
}

#[derive(Debug, Clone, Copy)]
pub(super) struct Segment {
    pub(super) header: SegmentHeader,
    opcode: Opcode,
    pub(super) ulpdu_bytes: usize,
    pub(super) payload_bytes: usize,
    placed: usize,
    pub(super) place: Target,
    crc: u32,
}

/// Memory that a segment goes into, checked.
#[derive(Debug, Clone, Copy)]
pub(super) enum Target {
    /// There is no payload.
    Nothing,
    /// Exposed memory from an offset on.
    Exposed(u32, usize),
    /// The oldest sink from an offset on.
    Sink(usize),
    /// The oldest receive from an offset on.
    Receive(usize),
    Control,
}

#[derive(Debug, Clone, Copy)]
struct SendIn {
    opcode: Opcode,
    bytes: usize,
}

impl Rx {
    pub(super) fn is_between_frames(&self) -> bool {
        self.segment.is_none() && self.start == self.end
    }

    pub(super) fn is_blocked(&self) -> bool {
        self.is_blocked
    }

    pub(super) fn unblock(&mut self) {
        self.is_blocked = false;
    }

    pub(super) fn frames(&self) -> u64 {
        self.frames
    }

    pub(super) fn answers(&self) -> u64 {
        self.answers
    }

    /// Whether a segment into this memory is under way.
    pub(super) fn is_placing_into(&self, key: u32) -> bool {
        let place = self.segment.map(|segment| segment.place);
        matches!(place, Some(Target::Exposed(target, _)) if target == key)
    }

    /// Forgets the segment that is under way.
    pub(super) fn stop(&mut self) {
        self.segment = None;
        self.is_blocked = false;
    }

    /// Moves what is in the inbox to its beginning: less than a header or a trailer, and what was moved there from
    /// elsewhere.
    pub(super) fn make_room(&mut self) {
        self.inbox.copy_within(self.start..self.end, 0);
        self.end -= self.start;
        self.start = 0;
        let bytes = INBOX_BYTES_MIN << self.doublings;
        if self.inbox.is_empty() {
            self.inbox = spare::take();
        }
        if self.inbox.len() != bytes && self.end < bytes {
            self.inbox.resize(bytes, 0);
            self.inbox.shrink_to_fit();
        }
    }

    /// Adds bytes to what is in the inbox.
    pub(super) fn append(&mut self, bytes: &[u8]) {
        self.inbox.truncate(self.end);
        self.inbox.extend_from_slice(bytes);
        self.end = self.inbox.len();
    }

    /// The inbox was full: it is larger from now on, unless what comes has its own place.
    pub(super) fn was_too_small(&mut self) {
        let due = self.segment.map_or(0, |segment| segment.due());
        let larger = INBOX_BYTES_MIN << (self.doublings + 1);
        if due < DIRECT_BYTES_MIN && larger <= INBOX_BYTES_MAX {
            self.doublings += 1;
        }
    }
}

impl Machine {
    /// Gives back room in which nothing is: nothing is expected soon.
    pub fn rest(&mut self) {
        if self.rx.start == self.rx.end {
            (self.rx.start, self.rx.end) = (0, 0);
            spare::give(std::mem::take(&mut self.rx.inbox));
            self.rx.doublings = 0;
        }
        if self.tx.is_idle() {
            self.tx.rest();
        }
        if self.send_queue.is_empty() {
            self.send_queue = VecDeque::new();
        }
        if self.receives.is_empty() {
            self.receives = VecDeque::new();
        }
    }

    /// Goes as far as what is in the inbox lasts.
    pub(super) fn advance_all(&mut self) {
        while self.ended.is_none() && self.advance() {}
    }

    /// One step with what is in the inbox; whether there may be another.
    fn advance(&mut self) -> bool {
        match self.rx.segment {
            None => self.begin_segment(),
            Some(segment) if segment.due() > 0 => self.place_from_inbox(),
            Some(segment) => self.end_segment(segment),
        }
    }

    fn begin_segment(&mut self) -> bool {
        let bytes = &self.rx.inbox[self.rx.start..self.rx.end];
        let Some((len, rest)) = bytes.split_first_chunk::<2>() else {
            return false;
        };
        let ulpdu_bytes = usize::from(u16::from_be_bytes(*len));
        if ulpdu_bytes < TAGGED_BYTES {
            self.fault(Term::DDP_CATASTROPHIC, None, None);
            return false;
        }
        let (header, header_bytes) = match SegmentHeader::decode(rest) {
            Ok(None) => return false,
            Ok(Some(decoded)) => decoded,
            Err(term) => {
                self.fault(term, None, None);
                return false;
            }
        };
        let Some(payload_bytes) = ulpdu_bytes.checked_sub(header_bytes) else {
            self.fault(Term::DDP_CATASTROPHIC, None, None);
            return false;
        };
        match self.finds_receive(&header) {
            Ok(true) => {}
            Ok(false) => {
                self.rx.is_blocked = true;
                return false;
            }
            Err(term) => {
                self.fault(term, Some((header, ulpdu_bytes)), None);
                return false;
            }
        }
        let admitted = Opcode::of(&header)
            .and_then(|opcode| Ok((opcode, self.place_of(&header, opcode, payload_bytes)?)));
        let (opcode, place) = match admitted {
            Ok(admitted) => admitted,
            Err(term) => {
                self.fault(term, Some((header, ulpdu_bytes)), None);
                return false;
            }
        };
        let mut segment = Segment {
            header,
            opcode,
            ulpdu_bytes,
            payload_bytes,
            placed: 0,
            place,
            crc: 0,
        };
        let used = 2 + header_bytes;
        if self.agreed.crc {
            let start = self.rx.start;
            segment.crc = crc::append(0, &self.rx.inbox[start..start + used]);
        }
        self.rx.start += used;
        self.rx.segment = Some(segment);
        true
    }

    /// Whether a message that begins here has a receive, which it takes from the shared queue if need be. One that was not
    /// admitted waits, or is put aside where it must not.
    fn finds_receive(&mut self, header: &SegmentHeader) -> Result<bool, Term> {
        let is_message = matches!(
            header.place,
            Place::Untagged {
                queue: QUEUE_SEND,
                ..
            }
        );
        let Some(claim) = self.claim.as_mut().filter(|_| is_message) else {
            return Ok(true);
        };
        if !self.receives.is_empty() {
            return Ok(true);
        }
        let buffer = match claim.take() {
            Some(buffer) => buffer,
            None if !self.awaits_answers() => return Ok(false),
            None => self.begin_aside().ok_or(Term::NO_BUFFER)?,
        };
        self.receives.push_back(Receive { id: 0, buffer });
        Ok(true)
    }

    fn place_from_inbox(&mut self) -> bool {
        let Rx {
            inbox,
            start,
            end,
            segment: Some(segment),
            control,
            ..
        } = &mut self.rx
        else {
            return false;
        };
        let count = segment.due().min(*end - *start);
        let bytes = &inbox[*start..*start + count];
        let (keys, sinks) = (&mut self.keys, &mut self.sinks);
        let place = segment.place(keys, sinks, &mut self.receives, control, 0);
        place[..count].copy_from_slice(bytes);
        segment.placed(bytes, self.agreed.crc);
        if matches!(segment.place, Target::Sink(_) | Target::Exposed(..)) {
            self.counters.copied_bytes += count as u64;
        }
        *start += count;
        count > 0
    }

    fn end_segment(&mut self, mut segment: Segment) -> bool {
        let pad = mpa::pad_bytes(segment.ulpdu_bytes);
        let bytes = &self.rx.inbox[self.rx.start..self.rx.end];
        let Some((padding, crc)) = bytes.get(..pad + 4).map(|bytes| bytes.split_at(pad)) else {
            return false;
        };
        if self.agreed.crc {
            segment.crc = crc::append(segment.crc, padding);
            if crc != segment.crc.to_le_bytes() {
                self.fault(Term::CRC, None, None);
                return false;
            }
        }
        self.rx.start += pad + 4;
        self.rx.segment = None;
        self.rx.frames += 1;
        self.may_send = true;
        if let Err((term, read)) = self.deliver(&segment) {
            self.fault(term, Some((segment.header, segment.ulpdu_bytes)), read);
        }
        true
    }

    /// Checks where a segment would go (RFC 5041 §7.1).
    fn place_of(&self, header: &SegmentHeader, opcode: Opcode, len: usize) -> Result<Target, Term> {
        match (opcode, header.place) {
            (Opcode::Write, Place::Tagged { stag, to }) => self.admit_write(stag, to, len),
            (Opcode::ReadResponse, Place::Tagged { stag, to }) => {
                self.admit_response(stag, to, len)
            }
            (Opcode::ReadRequest, Place::Untagged { msn, mo, .. }) => {
                if msn != self.rx.msn_read_request.wrapping_add(1) {
                    return Err(Term::MSN_RANGE);
                }
                if self.tx.responses_outstanding() >= usize::from(self.agreed.ird) {
                    return Err(Term::NO_BUFFER);
                }
                admit_control(header, mo, len, READ_REQUEST_BYTES)
            }
            (Opcode::Terminate, Place::Untagged { msn, mo, .. }) => {
                if msn != 1 {
                    return Err(Term::MSN_RANGE);
                }
                admit_control(header, mo, len, CONTROL_BYTES_MAX)
            }
            (_, Place::Untagged { msn, mo, .. }) => self.admit_send(opcode, msn, mo, len),
            (_, Place::Tagged { .. }) => Err(Term::UNEXPECTED_OPCODE),
        }
    }

    fn admit_write(&self, stag: u32, to: u64, len: usize) -> Result<Target, Term> {
        if len == 0 {
            // Nothing of it is looked at (RFC 5041 §5.2).
            return Ok(Target::Nothing);
        }
        let buffer = match self.keys.get(stag) {
            Some(Exposure::Memory(Memory::Buffer(buffer), _)) => buffer,
            Some(_) => return Err(Term::ACCESS_RIGHTS),
            None => return Err(Term::INVALID_STAG),
        };
        let end = to.checked_add(len as u64).ok_or(Term::TO_WRAP)?;
        if end > buffer.len() as u64 {
            return Err(Term::BOUNDS);
        }
        let offset = usize::try_from(to).map_err(|_| Term::BOUNDS)?;
        Ok(Target::Exposed(stag, offset))
    }

    fn admit_response(&self, stag: u32, to: u64, len: usize) -> Result<Target, Term> {
        let read = self.reads.front().ok_or(Term::UNEXPECTED_OPCODE)?;
        if len == 0 {
            return Ok(Target::Nothing);
        }
        if stag != read.stag {
            return Err(Term::INVALID_STAG);
        }
        to.checked_add(len as u64).ok_or(Term::TO_WRAP)?;
        let placed = to_usize(read.placed);
        let offset = read.part.at + placed;
        if to != offset as u64 || placed + len > to_usize(read.part.remote.len) {
            return Err(Term::BOUNDS);
        }
        Ok(Target::Sink(offset))
    }

    fn admit_send(&self, opcode: Opcode, msn: u32, mo: u32, len: usize) -> Result<Target, Term> {
        if msn != self.rx.msn_send.wrapping_add(1) {
            return Err(Term::MSN_RANGE);
        }
        let receive = self.receives.front().ok_or(Term::NO_BUFFER)?;
        let placed = match self.rx.send {
            Some(send) if send.opcode != opcode => return Err(Term::UNEXPECTED_OPCODE),
            Some(send) => send.bytes,
            None => 0,
        };
        let offset = to_usize(mo);
        if offset != placed {
            return Err(Term::INVALID_MO);
        }
        if offset + len > receive.buffer.len() {
            return Err(Term::TOO_LONG);
        }
        Ok(if len == 0 {
            Target::Nothing
        } else {
            Target::Receive(offset)
        })
    }

    /// A segment is in its place and whole.
    fn deliver(&mut self, segment: &Segment) -> Result<(), (Term, Option<ReadRequest>)> {
        let (last, payload) = (segment.header.last, segment.payload_bytes);
        match segment.opcode {
            Opcode::Write => {
                self.counters.received_bytes += payload as u64;
                self.wrote_into(segment);
                // An invalidation may have waited for the end of this segment.
                self.settle();
            }
            Opcode::ReadResponse => return self.deliver_response(last, payload),
            Opcode::ReadRequest => {
                self.rx.msn_read_request = self.rx.msn_read_request.wrapping_add(1);
                let bytes = self.rx.control.0.first_chunk().expect("it is large enough");
                let request = ReadRequest::decode(bytes);
                return self.answer(&request).map_err(|term| (term, Some(request)));
            }
            Opcode::Terminate => match Terminate::decode(&self.rx.control.0[..payload]) {
                Ok(terminate) => self.accused(terminate),
                Err(term) => return Err((term, None)),
            },
            opcode => {
                return self
                    .deliver_send(segment, opcode)
                    .map_err(|term| (term, None));
            }
        }
        Ok(())
    }

    /// Notes how far exposed memory was written.
    fn wrote_into(&mut self, segment: &Segment) {
        if let Target::Exposed(key, offset) = segment.place
            && let Some(Exposure::Memory(_, written_end)) = self.keys.get_mut(key)
        {
            *written_end = (*written_end).max(offset + segment.payload_bytes);
        }
    }

    fn deliver_response(
        &mut self,
        last: bool,
        payload: usize,
    ) -> Result<(), (Term, Option<ReadRequest>)> {
        let Some(read) = self.reads.front_mut() else {
            return Err((Term::UNEXPECTED_OPCODE, None));
        };
        self.counters.received_bytes += payload as u64;
        self.rx.answers += 1;
        read.placed += u32::try_from(payload).expect("a segment has 16 bits of length");
        if !last {
            return Ok(());
        }
        if read.placed != read.part.remote.len {
            return Err((Term::UNSPECIFIED, None));
        }
        if let Some(read) = self.reads.pop_front() {
            self.read_answered(&read);
        }
        self.settle();
        Ok(())
    }

    /// Queues the response to a Read Request (RFC 5040 §7.2). What it reads is shared, so it stays as it is even
    /// when the key ends before all of it has left.
    fn answer(&mut self, request: &ReadRequest) -> Result<(), Term> {
        let data = if request.len == 0 {
            // Nothing of the source is looked at (RFC 5040 §5.2.1).
            Bytes::new()
        } else {
            let bytes = match self.keys.get(request.source_stag) {
                Some(Exposure::Memory(Memory::Bytes(bytes), _)) => bytes,
                Some(_) => return Err(Term::ACCESS_RIGHTS),
                None => return Err(Term::READ_INVALID_STAG),
            };
            let (start, len) = (request.source_to, u64::from(request.len));
            let end = start.checked_add(len).ok_or(Term::READ_TO_WRAP)?;
            let range = usize::try_from(start).ok().zip(usize::try_from(end).ok());
            match range {
                Some((start, end)) if end <= bytes.len() => bytes.slice(start..end),
                _ => return Err(Term::READ_BOUNDS),
            }
        };
        self.tx.respond(request.sink_stag, request.sink_to, data);
        Ok(())
    }

    fn deliver_send(&mut self, segment: &Segment, opcode: Opcode) -> Result<(), Term> {
        let before = self.rx.send.take().map_or(0, |send| send.bytes);
        let bytes = before + segment.payload_bytes;
        self.counters.received_bytes += segment.payload_bytes as u64;
        if !segment.header.last {
            self.rx.send = Some(SendIn { opcode, bytes });
            return Ok(());
        }
        self.rx.msn_send = self.rx.msn_send.wrapping_add(1);
        let invalidate = match segment.header.place {
            Place::Untagged { invalidate, .. } if opcode.invalidates() => Some(invalidate),
            _ => None,
        };
        if self.aside.is_under_way() {
            self.put_aside(bytes, invalidate, (segment.header, segment.ulpdu_bytes));
            self.admit_aside();
            return Ok(());
        }
        self.deliver_message(bytes, invalidate)
    }

    /// Hands over the message in the oldest receive.
    pub(super) fn deliver_message(
        &mut self,
        bytes: usize,
        invalidate: Option<u32>,
    ) -> Result<(), Term> {
        let mut invalidated = None;
        if let Some(key) = invalidate {
            let memory = self.withdraw(key);
            invalidated = Some((key, memory.ok_or(Term::CANNOT_INVALIDATE)?));
        }
        let Some(Receive { id, mut buffer }) = self.receives.pop_front() else {
            return Err(Term::NO_BUFFER);
        };
        buffer.set_len(bytes);
        let done = Done::Receive {
            buffer,
            invalidated,
        };
        self.complete(id, WorkStatus::Ok, done);
        Ok(())
    }
}

fn admit_control(header: &SegmentHeader, mo: u32, len: usize, max: usize) -> Result<Target, Term> {
    let is_request = matches!(
        header.place,
        Place::Untagged {
            queue: QUEUE_READ_REQUEST,
            ..
        }
    );
    if mo != 0 {
        Err(Term::INVALID_MO)
    } else if len > max {
        Err(Term::TOO_LONG)
    } else if !header.last || is_request && len != max {
        Err(Term::UNSPECIFIED)
    } else {
        Ok(Target::Control)
    }
}

impl Segment {
    /// Payload that has not arrived.
    pub(super) fn due(&self) -> usize {
        self.payload_bytes - self.placed
    }

    /// Where the rest of the payload goes, and `more` bytes after it: memory that was checked when the segment began, and
    /// that nobody takes back before its end: receives and sinks by themselves, exposed memory because invalidations wait.
    pub(super) fn place<'a>(
        &self,
        keys: &'a mut Keys<Exposure>,
        sinks: &'a mut VecDeque<Buffer>,
        receives: &'a mut VecDeque<Receive>,
        control: &'a mut ControlBuffer,
        more: usize,
    ) -> &'a mut [u8] {
        let (bytes, offset): (&mut [u8], usize) = match self.place {
            Target::Nothing => return &mut [],
            Target::Exposed(key, offset) => match keys.get_mut(key) {
                Some(Exposure::Memory(Memory::Buffer(buffer), _)) => (buffer, offset),
                _ => unreachable!("exposed memory stays until its segment is whole"),
            },
            Target::Sink(offset) => match sinks.front_mut() {
                Some(sink) => (sink, offset),
                None => unreachable!("a sink stays until it was filled"),
            },
            Target::Receive(offset) => match receives.front_mut() {
                Some(receive) => (&mut receive.buffer, offset),
                None => unreachable!("a receive stays until it was filled"),
            },
            Target::Control => (&mut control.0, 0),
        };
        &mut bytes[offset + self.placed..offset + self.payload_bytes + more]
    }

    /// These bytes are in their place.
    pub(super) fn placed(&mut self, bytes: &[u8], crc: bool) {
        self.placed += bytes.len();
        if crc {
            self.crc = crc::append(self.crc, bytes);
        }
    }
}
