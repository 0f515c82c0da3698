//! What has arrived and is not yet done with.

use super::parts::Exposure;
use super::read_ahead::Ahead;
use super::spare::{self, INBOX_BYTES_MIN};
use crate::crc;
use crate::ddp::{Place, QUEUE_READ_REQUEST, SegmentHeader};
use crate::keys::Keys;
use crate::rdmap::{Opcode, TERMINATE_BYTES_MAX, Term};
use fabric::{Buffer, Memory, Receive};
use std::collections::VecDeque;

/// Bytes read at a time while no large payload is due: few at first, more while many small segments arrive.
const INBOX_BYTES_MAX: usize = 64 * 1024;
/// Payload still due from which on it is read straight into its place.
pub(super) const DIRECT_BYTES_MIN: usize = 2 * 1024;
/// A segment of a control message has no more payload.
pub(super) const CONTROL_BYTES_MAX: usize = TERMINATE_BYTES_MAX;

/// Incoming bytes and the segment that is under way.
#[derive(Debug, Default)]
pub(super) struct Rx {
    /// From the first byte on; larger than [`INBOX_BYTES_MIN`] only while bytes arrive.
    pub(super) inbox: Vec<u8>,
    pub(super) start: usize,
    pub(super) end: usize,
    /// How often the inbox was too small for what came.
    pub(super) doublings: u32,
    pub(super) segment: Option<Segment>,
    /// What the bytes that are read now should be, unless all go into the inbox.
    pub(super) ahead: Option<Box<Ahead>>,
    /// Of control messages.
    pub(super) control: ControlBuffer,
    /// A message has come for which there is no receive in the shared queue.
    pub(super) is_blocked: bool,
    /// The Send that is under way.
    pub(super) send: Option<SendIn>,
    pub(super) msn_send: u32,
    pub(super) msn_read_request: u32,
    /// Frames that came whole.
    pub(super) frames: u64,
    /// Of those, segments of answers to reads.
    pub(super) answers: u64,
}

#[derive(Debug)]
pub(super) struct ControlBuffer(pub(super) [u8; CONTROL_BYTES_MAX]);

impl Default for ControlBuffer {
    fn default() -> Self {
        Self([0; CONTROL_BYTES_MAX])
    }
}

#[derive(Debug, Clone, Copy)]
pub(super) struct Segment {
    pub(super) header: SegmentHeader,
    pub(super) opcode: Opcode,
    pub(super) ulpdu_bytes: usize,
    pub(super) payload_bytes: usize,
    pub(super) placed: usize,
    pub(super) place: Target,
    pub(super) crc: u32,
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
pub(super) struct SendIn {
    pub(super) opcode: Opcode,
    pub(super) bytes: usize,
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

pub(super) fn admit_control(
    header: &SegmentHeader,
    mo: u32,
    len: usize,
    max: usize,
) -> Result<Target, Term> {
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

    /// Where the rest of the payload goes, and `more` bytes after it. The memory was checked when the segment began.
    /// Nobody takes it back before the segment's end: receives and sinks are held, and invalidations of exposed memory
    /// wait.
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
