//! The incoming half of a stream: frames cut from bytes, each segment checked before any of it is placed.
//!
//! A frame's CRC comes after its payload, so payload is placed before it is known to be whole. That is sound because
//! nothing is delivered before the CRC was right, and a frame that fails it ends the stream. What it may have damaged
//! is still exposed, still being read, or a receive, and comes back as flushed.

use super::gather::to_usize;
use super::inbox::admit_control;
use super::inbox::{CONTROL_BYTES_MAX, Rx, Segment, SendIn, Target};
use super::parts::Exposure;
use super::spare;
use super::state::Machine;
use crate::crc;
use crate::ddp::{Place, QUEUE_SEND, SegmentHeader, TAGGED_BYTES};
use crate::mpa;
use crate::rdmap::{Opcode, READ_REQUEST_BYTES, ReadRequest, Term, Terminate};
use bytes::Bytes;
use fabric::{Done, Memory, Receive, WorkStatus};
use std::collections::VecDeque;

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
