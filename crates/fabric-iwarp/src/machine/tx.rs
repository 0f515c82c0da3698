//! The outgoing half of a stream: which message is next, and frames as pieces of bytes.
//!
//! Frames are made while few bytes wait to be written, so that a Read Response never stands behind much that
//! was framed before it.

use super::gather::Piece;
use super::outbox::Message;
use super::outbox::{Outgoing, bounded, tagged, untagged};
use super::parts::{Exposure, Op, ReadOut, Whose};
use super::state::Machine;
use crate::ddp::QUEUE_SEND;
use crate::rdmap::Opcode;
use std::io::IoSlice;
use std::os::unix::fs::FileExt;

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

    /// Whether the next work can start or go on. A read waits while too many are outstanding, and what is after it
    /// waits too (RFC 5040 §5.5 rule 13, §6.1).
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
