//! Where bytes are read to: payload into its place, the payload of segments that should follow too, all else into the inbox.
//!
//! A message of several segments goes on where it stopped, in segments of the same size until the last one. So all of
//! it can be read at once, each payload into its place and what stands between two of them into the inbox. What a
//! header then says is checked before any of that counts. Bytes that turn out to be something else are moved to the
//! inbox and taken from there.
//!
//! Nobody knows how long a Write will be, so what follows it may get into the memory after it, never into bytes that were
//! written. Where that is not allowed ([`fabric::EndpointConfig::exposed_is_scratch`]) Writes are read segment by segment.

use super::gather::to_usize;
use super::inbox::{DIRECT_BYTES_MIN, Segment, Target};
use super::parts::Exposure;
use super::read_ahead::{Ahead, Room, SEGMENTS_MAX, TAGGED_HEAD_BYTES, gap_bytes, trailer_bytes};
use super::spare::INBOX_BYTES_MIN;
use super::state::Machine;
use crate::ddp::{Place, SegmentHeader, TAGGED_BYTES};
use fabric::Memory;

impl Machine {
    /// Where the next bytes belong. Follow with [`Machine::read`].
    pub fn room(&mut self) -> Room<'_> {
        self.rx.make_room();
        let direct = self
            .rx
            .segment
            .filter(|segment| self.rx.end == 0 && segment.due() >= DIRECT_BYTES_MIN);
        self.rx.ahead = direct.map(|segment| Box::new(self.look_ahead(&segment)));
        let wanted = self.wanted_bytes();
        let rx = &mut self.rx;
        let mut room = Room::new();
        let (Some(segment), Some(ahead)) = (direct, &rx.ahead) else {
            room.push(&mut rx.inbox[rx.end..][..wanted]);
            return room;
        };
        let (keys, sinks) = (&mut self.keys, &mut self.sinks);
        let more = ahead.sizes().iter().sum();
        let place = segment.place(keys, sinks, &mut self.receives, &mut rx.control, more);
        let (first, mut place) = place.split_at_mut(segment.due());
        let mut inbox = &mut rx.inbox[..];
        room.push(first);
        let mut gap = gap_bytes(segment.ulpdu_bytes);
        for size in ahead.sizes() {
            let (between, behind) = inbox.split_at_mut(gap);
            let (next, after) = place.split_at_mut(*size);
            room.push(between);
            room.push(next);
            (inbox, place) = (behind, after);
            gap = gap_bytes(TAGGED_BYTES + size);
        }
        room.push(&mut inbox[..ahead.tail]);
        room
    }

    /// Whether the peer may send payload that has a place of its own soon, for more than `besides` requests.
    fn expects_bulk(&self, besides: usize) -> bool {
        self.reads.len() + self.writable > besides
    }

    /// How much to read into the inbox. While bulk is due no more than what cannot belong to it.
    fn wanted_bytes(&self) -> usize {
        let rx = &self.rx;
        let room = rx.inbox.len() - rx.end;
        if !self.expects_bulk(0) {
            return room;
        }
        let frame_bytes = match (rx.segment, rx.inbox[..rx.end].split_first_chunk::<2>()) {
            (Some(segment), _) => segment.due() + trailer_bytes(segment.ulpdu_bytes),
            // More than a tagged header is there: it is no bulk.
            (None, Some((len, rest))) if rest.len() >= TAGGED_BYTES => {
                let ulpdu_bytes = usize::from(u16::from_be_bytes(*len));
                2 + ulpdu_bytes + trailer_bytes(ulpdu_bytes)
            }
            (None, _) => 0,
        };
        let wanted = frame_bytes + TAGGED_HEAD_BYTES;
        wanted.saturating_sub(rx.end).clamp(1, room)
    }

    fn look_ahead(&self, segment: &Segment) -> Ahead {
        let mut ahead = Ahead::default();
        let mut rest = if segment.header.last {
            0
        } else {
            self.rest_of_place(segment)
        };
        let (mut gaps, mut ulpdu_bytes) = (0, segment.ulpdu_bytes);
        while rest > 0 && ahead.count < SEGMENTS_MAX {
            let size = rest.min(segment.payload_bytes);
            ahead.sizes[ahead.count] = size;
            ahead.count += 1;
            rest -= size;
            gaps += gap_bytes(ulpdu_bytes);
            ulpdu_bytes = TAGGED_BYTES + size;
        }
        let is_whole = segment.header.last || ahead.count > 0 && rest == 0;
        let has_place = matches!(segment.place, Target::Sink(_) | Target::Exposed(..));
        let tail = if is_whole && !self.expects_bulk(has_place.into()) {
            INBOX_BYTES_MIN
        } else {
            trailer_bytes(ulpdu_bytes) + 2 + segment.header.len_bytes()
        };
        ahead.tail = tail.min(self.rx.inbox.len() - gaps);
        ahead
    }

    /// Bytes after those of a segment where its message may go on.
    fn rest_of_place(&self, segment: &Segment) -> usize {
        match segment.place {
            Target::Sink(offset) => self.reads.front().map_or(0, |read| {
                let end = read.part.at + to_usize(read.part.remote.len);
                end - offset - segment.payload_bytes
            }),
            Target::Exposed(key, offset) if self.config.exposed_is_scratch => {
                match self.keys.get(key) {
                    // What was written before must stay.
                    Some(Exposure::Memory(Memory::Buffer(buffer), written_end)) => {
                        let end = offset + segment.payload_bytes;
                        if end < *written_end {
                            0
                        } else {
                            buffer.len() - end
                        }
                    }
                    _ => 0,
                }
            }
            _ => 0,
        }
    }

    /// So many bytes were read into what [`Machine::room`] offered, in its order.
    pub fn read(&mut self, count: usize) {
        let Some(ahead) = self.rx.ahead.take() else {
            self.rx.end += count;
            let was_full = self.rx.end == self.rx.inbox.len();
            self.advance_all();
            if was_full {
                self.rx.was_too_small();
            }
            return;
        };
        let left = self.read_ahead(count, &ahead);
        self.rx.end += left;
        self.advance_all();
    }

    /// Takes what was read beside the inbox. Returns what was read into it after that.
    fn read_ahead(&mut self, mut count: usize, ahead: &Ahead) -> usize {
        count -= self.place(count);
        for (index, size) in ahead.sizes().iter().enumerate() {
            let Some(before) = self.rx.segment else {
                return 0;
            };
            let gap = count.min(gap_bytes(before.ulpdu_bytes));
            self.rx.end += gap;
            count -= gap;
            if count == 0 {
                return 0;
            }
            let payload_bytes = self.continues(&before);
            let right = payload_bytes.min(*size).min(count);
            let spilled = if payload_bytes == *size {
                Vec::new()
            } else {
                self.spilled(&before, &ahead.sizes()[index..], right, count)
            };
            self.advance_all();
            if self.ended.is_some() {
                return 0;
            }
            if payload_bytes != *size {
                if right > 0 {
                    self.place(right);
                }
                self.rx.append(&spilled);
                self.counters.copied_bytes += spilled.len() as u64;
                return 0;
            }
            count -= self.place(count);
        }
        count
    }

    /// At most so many bytes of the segment are in their place. Returns how many.
    fn place(&mut self, count: usize) -> usize {
        let Some(segment) = &mut self.rx.segment else {
            return 0;
        };
        let count = count.min(segment.due());
        let (keys, sinks) = (&mut self.keys, &mut self.sinks);
        let place = segment.place(keys, sinks, &mut self.receives, &mut self.rx.control, 0);
        segment.placed(&place[..count], self.agreed.crc);
        count
    }

    /// Payload of the segment whose header stands at the end of the inbox, if it goes on where the one before it ended; else 0.
    fn continues(&self, before: &Segment) -> usize {
        let head = &self.rx.inbox[self.rx.end - TAGGED_HEAD_BYTES..self.rx.end];
        let (len, head) = head.split_at(2);
        let ulpdu_bytes = usize::from(u16::from_be_bytes([len[0], len[1]]));
        let (Ok(Some((header, _))), Place::Tagged { stag, to }) =
            (SegmentHeader::decode(head), before.header.place)
        else {
            return 0;
        };
        let next = Place::Tagged {
            stag,
            to: to.wrapping_add(before.payload_bytes as u64),
        };
        if header.place == next && header.control == before.header.control {
            ulpdu_bytes.saturating_sub(TAGGED_BYTES)
        } else {
            0
        }
    }

    /// What was read after the end of the inbox, in the order of the stream: the first `right` bytes in the places of
    /// these sizes.
    fn spilled(
        &mut self,
        before: &Segment,
        sizes: &[usize],
        right: usize,
        count: usize,
    ) -> Vec<u8> {
        let rx = &mut self.rx;
        let (keys, sinks) = (&mut self.keys, &mut self.sinks);
        let more = sizes.iter().sum();
        let place = before.place(keys, sinks, &mut self.receives, &mut rx.control, more);
        let (mut place, mut inbox) = (&place[..], &rx.inbox[rx.end..]);
        let (mut left, mut out) = (count, Vec::with_capacity(count));
        for (index, size) in sizes.iter().enumerate() {
            let here = left.min(*size);
            out.extend_from_slice(&place[..here]);
            place = &place[*size..];
            left -= here;
            let is_last = index + 1 == sizes.len();
            let gap = if is_last {
                left
            } else {
                left.min(gap_bytes(TAGGED_BYTES + size))
            };
            out.extend_from_slice(&inbox[..gap]);
            inbox = &inbox[gap..];
            left -= gap;
        }
        out.drain(..right);
        out
    }
}
