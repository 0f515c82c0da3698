//! Messages of RPC in one direction of a connection of TCP (RFC 5531 §11), of which only the beginnings are kept.
//!
//! What comes again is left out. After a gap a stream waits for a segment that begins as a message does, since a client and a server
//! that wait for each other begin one with a message. Memory is bounded by [`HEAD_BYTES`] for each stream.

use super::pcap::Segment;

/// So much of a message is kept: the header of a call and its first operations.
pub(super) const HEAD_BYTES: usize = 2048;
/// Longest message of NFS that is believed.
const MESSAGE_BYTES_MAX: u32 = 8 << 20;
/// The bit of a record mark that says that its fragment is the last.
const LAST_FRAGMENT: u32 = 1 << 31;
const MARK_BYTES: usize = 4;
/// A mark, a transaction id, and the direction: 0 or 1.
const BEGINNING_BYTES: usize = 12;

/// A message, or its beginning.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Message {
    /// Its first bytes, at most [`HEAD_BYTES`].
    pub(super) head: Vec<u8>,
    /// When its first and its last byte were seen, nanoseconds since 1970.
    pub(super) first_ns: u64,
    pub(super) last_ns: u64,
}

/// One direction of a connection.
#[derive(Debug, Default)]
pub(super) struct Stream {
    /// The number of the next byte; none until a beginning was seen.
    next: Option<u32>,
    mark: Vec<u8>,
    /// Bytes of the fragment that are still to come.
    left: usize,
    is_last: bool,
    head: Vec<u8>,
    first_ns: Option<u64>,
    /// How often bytes were missing.
    pub(super) gaps: u64,
}

impl Stream {
    /// Takes a segment and hands out the messages that end in it.
    pub(super) fn feed(
        &mut self,
        segment: &Segment<'_>,
        at_ns: u64,
        mut each: impl FnMut(Message),
    ) {
        if segment.is_syn {
            let gaps = self.gaps;
            *self = Self {
                next: Some(segment.sequence.wrapping_add(1)),
                gaps,
                ..Self::default()
            };
            return;
        }
        let Some(payload) = self.fresh(segment) else {
            return;
        };
        let length = u32::try_from(payload.len()).unwrap_or(u32::MAX);
        self.next = self.next.map(|next| next.wrapping_add(length));
        self.read(payload, at_ns, &mut each);
    }

    /// What of a segment is new.
    fn fresh<'a>(&mut self, segment: &Segment<'a>) -> Option<&'a [u8]> {
        let payload = segment.payload;
        if payload.is_empty() {
            return None;
        }
        let ahead = self.next.map(|next| segment.sequence.wrapping_sub(next));
        match ahead.map(u32::cast_signed) {
            Some(0) => Some(payload),
            // Sent again, in whole or in part.
            Some(ahead) if ahead < 0 => {
                let known = usize::try_from(ahead.unsigned_abs()).unwrap_or(usize::MAX);
                payload.get(known..).filter(|new| !new.is_empty())
            }
            lost => {
                self.gaps += u64::from(lost.is_some());
                *self = Self {
                    next: begins_message(payload).then_some(segment.sequence),
                    gaps: self.gaps,
                    ..Self::default()
                };
                self.next.map(|_| payload)
            }
        }
    }

    fn read(&mut self, mut bytes: &[u8], at_ns: u64, each: &mut impl FnMut(Message)) {
        while let Some(byte) = bytes.first() {
            if self.left == 0 {
                self.first_ns.get_or_insert(at_ns);
                self.mark.push(*byte);
                bytes = &bytes[1..];
                let Ok(mark) = <[u8; MARK_BYTES]>::try_from(&self.mark[..]) else {
                    continue;
                };
                let mark = u32::from_be_bytes(mark);
                self.mark.clear();
                self.is_last = mark & LAST_FRAGMENT != 0;
                self.left = usize::try_from(mark & !LAST_FRAGMENT).unwrap_or(usize::MAX);
            } else {
                let (now, rest) = bytes.split_at(bytes.len().min(self.left));
                let room = HEAD_BYTES - self.head.len();
                self.head.extend(&now[..now.len().min(room)]);
                self.left -= now.len();
                bytes = rest;
            }
            if self.left == 0 && self.is_last && self.mark.is_empty() {
                self.is_last = false;
                each(Message {
                    head: std::mem::take(&mut self.head),
                    first_ns: self.first_ns.take().unwrap_or(at_ns),
                    last_ns: at_ns,
                });
            }
        }
    }
}

/// Whether these bytes look like the beginning of a message in one fragment.
fn begins_message(payload: &[u8]) -> bool {
    let word = |at: usize| -> Option<u32> {
        Some(u32::from_be_bytes(
            payload.get(at..at + 4)?.try_into().ok()?,
        ))
    };
    let length = word(0).map(|mark| mark.wrapping_sub(LAST_FRAGMENT));
    payload.len() >= BEGINNING_BYTES
        && length.is_some_and(|length| (8..=MESSAGE_BYTES_MAX).contains(&length))
        && word(8).is_some_and(|direction| direction <= 1)
}

#[cfg(test)]
mod tests {
    //! Goal: messages are found however the stream is cut, and again after a gap.
    use super::*;
    use std::net::{Ipv4Addr, SocketAddrV4};

    fn segment(sequence: u32, payload: &[u8]) -> Segment<'_> {
        let at = SocketAddrV4::new(Ipv4Addr::LOCALHOST, 1);
        Segment {
            from: at,
            to: at,
            sequence,
            is_syn: false,
            payload,
        }
    }

    /// A call of so many bytes with this id, in fragments of at most so many.
    fn message(xid: u32, length: usize, fragment: usize) -> Vec<u8> {
        let mut body = [xid.to_be_bytes(), [0; 4]].concat();
        body.resize(length, 7);
        let mut bytes = Vec::new();
        let pieces: Vec<&[u8]> = body.chunks(fragment).collect();
        for (number, piece) in pieces.iter().enumerate() {
            let last = if number + 1 == pieces.len() {
                LAST_FRAGMENT
            } else {
                0
            };
            bytes.extend((u32::try_from(piece.len()).unwrap() | last).to_be_bytes());
            bytes.extend(*piece);
        }
        bytes
    }

    fn begun(sequence: u32) -> Stream {
        let mut stream = Stream::default();
        let syn = Segment {
            is_syn: true,
            ..segment(sequence.wrapping_sub(1), b"")
        };
        stream.feed(&syn, 0, |_| panic!("there is no message"));
        stream
    }

    fn xid(message: &Message) -> u32 {
        u32::from_be_bytes(message.head[..4].try_into().unwrap())
    }

    #[test]
    fn messages_are_found_however_the_stream_is_cut() {
        let bytes = [
            message(1, 5000, 10_000),
            message(2, 8, 3),
            message(3, 20, 20),
        ]
        .concat();
        for size in [1, 2, 3, 5, 7, 100, 4096, 10_000] {
            // Numbers pass their end on the way.
            let start = u32::MAX - 100;
            let mut stream = begun(start);
            let mut found = Vec::new();
            for (number, piece) in bytes.chunks(size).enumerate() {
                let at = start.wrapping_add(u32::try_from(number * size).unwrap());
                let time = number as u64;
                stream.feed(&segment(at, piece), time, |m| found.push(m));
                stream.feed(&segment(at, piece), time, |_| panic!("it comes again"));
            }
            assert_eq!(
                found.iter().map(xid).collect::<Vec<_>>(),
                [1, 2, 3],
                "{size}"
            );
            assert_eq!(found[0].head.len(), HEAD_BYTES);
            assert_eq!((found[1].head.len(), found[2].head.len()), (8, 20));
            assert_eq!(found[0].first_ns, 0);
            assert_eq!(found[0].last_ns, (5003 / size) as u64);
            assert_eq!(stream.gaps, 0);
        }
    }

    #[test]
    fn after_a_gap_it_goes_on_with_the_next_beginning() {
        let mut stream = begun(100);
        let mut found = Vec::new();
        stream.feed(&segment(100, &message(1, 50, 50)[..20]), 1, |m| {
            found.push(m);
        });
        // 34 bytes are missing, and what comes is in the middle of a message.
        stream.feed(&segment(200, &[9; 30]), 2, |m| found.push(m));
        stream.feed(&segment(230, &[9; 30]), 3, |m| found.push(m));
        let next = message(2, 50, 50);
        stream.feed(&segment(300, &next), 4, |m| found.push(m));
        // Half of it is known.
        let again = [&next[27..], &message(3, 9, 9)].concat();
        stream.feed(&segment(327, &again), 5, |m| found.push(m));
        assert_eq!(found.iter().map(xid).collect::<Vec<_>>(), [2, 3]);
        assert_eq!(stream.gaps, 1);
        for end in 0..BEGINNING_BYTES {
            assert!(!begins_message(&next[..end]));
        }
    }
}
