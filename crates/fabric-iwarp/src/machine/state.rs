//! The state of a stream, and what it is asked.

use super::gather::Gather;
use super::gather::{to_usize, total};
use super::inbox::{DIRECT_BYTES_MIN, Rx};
use super::outbox::Tx;
use super::parts::{Exposure, Item, Op, ReadOut, Whose};
use super::put_aside::Aside;
use crate::ddp::SegmentHeader;
use crate::keys::Keys;
use crate::mpa::{Agreed, MULPDU_BYTES_MIN, Rtr, ULPDU_BYTES_MAX};
use crate::rdmap::{Culprit, Opcode, ReadRequest, Term, Terminate};
use crate::watch::Owed;
use fabric::{
    Buffer, Claim, Completion, Counters, Done, Ended, EndpointConfig, Fault, Memory, Negotiated,
    Part, READ_PARTS_MAX, Receive, Refused, Remote, Work, WorkRefusal, WorkStatus,
};
use std::collections::VecDeque;

/// How a stream starts.
#[derive(Debug, Clone, Copy)]
pub struct Start {
    /// Depths of the queues; the read depths and CRC are those of `agreed`.
    pub config: EndpointConfig,
    /// What the set-up decided.
    pub agreed: Agreed,
    /// This side connected.
    pub is_initiator: bool,
    /// Largest ULPDU to send.
    pub mulpdu: usize,
    /// Secret and random, for steering tags.
    pub seed: u64,
}

/// Largest Send. (A DDP message has less than 2^32 octets; this bounds what one message can delay.)
pub const SEND_BYTES_MAX: u32 = 16 << 20;
/// Largest Write or Read.
pub const TRANSFER_BYTES_MAX: u32 = 1 << 30;

/// A stream.
#[derive(Debug)]
pub struct Machine {
    pub(super) config: EndpointConfig,
    pub(super) agreed: Agreed,
    is_initiator: bool,
    /// The responder sends nothing before the initiator has (RFC 5044 §7.1.2 rule 4).
    pub(super) may_send: bool,
    closing: bool,
    pub(super) ended: Option<Ended>,
    /// What the peer may name.
    pub(super) keys: Keys<Exposure>,
    /// Of those, memory of the caller.
    exposed: u32,
    /// Of that, what the peer may write much into.
    pub(super) writable: usize,
    pub(super) receives: VecDeque<Receive>,
    /// Where a message finds its receive when there is none of its own.
    pub(super) claim: Option<Claim>,
    /// Messages beyond what was admitted, which stood before an answer that is due.
    pub(super) aside: Aside,
    pub(super) send_queue: VecDeque<Item>,
    /// Requests sent and not answered, in order.
    pub(super) reads: VecDeque<ReadOut>,
    /// Of reads that are under way, in order.
    pub(super) sinks: VecDeque<Buffer>,
    completions: Vec<Completion>,
    pub(super) counters: Counters,
    pub(super) tx: Tx,
    pub(super) rx: Rx,
}

impl Machine {
    /// A stream right after its set-up frames.
    #[must_use]
    pub fn new(start: Start) -> Self {
        let Start { config, agreed, .. } = start;
        let keys_max = to_usize(config.exposed_max) + usize::from(agreed.ord) + 1;
        let mut machine = Self {
            config,
            agreed,
            is_initiator: start.is_initiator,
            may_send: start.is_initiator,
            closing: false,
            ended: None,
            keys: Keys::new(start.seed, keys_max),
            exposed: 0,
            writable: 0,
            receives: VecDeque::new(),
            claim: None,
            aside: Aside::default(),
            send_queue: VecDeque::new(),
            reads: VecDeque::new(),
            sinks: VecDeque::new(),
            completions: Vec::new(),
            counters: Counters::default(),
            tx: Tx::new(start.mulpdu.clamp(MULPDU_BYTES_MIN, ULPDU_BYTES_MAX)),
            rx: Rx::default(),
        };
        if start.is_initiator {
            machine.announce(agreed.rtr);
        }
        machine
    }

    /// Accepts work; see [`fabric::Endpoint::post`].
    ///
    /// # Errors
    /// The work, when it was not accepted.
    pub fn post(&mut self, id: u64, work: Work, signalled: bool) -> Result<(), Refused<Work>> {
        if let Some(why) = self.objection(&work) {
            return Err(Refused { why, back: work });
        }
        let op = match work {
            Work::Send { data, invalidate } => Op::Send {
                data: Gather::new(data),
                invalidate,
            },
            Work::Write { data, remote } => Op::Write {
                data: Gather::new(data),
                remote,
            },
            Work::WriteFile { range, remote } => Op::Write {
                data: Gather::of_file(range),
                remote,
            },
            Work::Read { sink, parts } => Op::Read {
                sink: Some(sink),
                parts: parts.into(),
            },
            Work::Invalidate { key } => Op::Invalidate { key },
        };
        self.send_queue.push_back(Item {
            id,
            signalled,
            op,
            end: None,
        });
        // A read must not wait behind what is held back.
        if self.rx.is_blocked() && self.awaits_answers() {
            self.go_on();
        }
        Ok(())
    }

    fn objection(&self, work: &Work) -> Option<WorkRefusal> {
        if self.closing || self.ended.is_some() {
            return Some(WorkRefusal::Closed);
        }
        let too_long = match work {
            Work::Send { data, .. } => total(data) > u64::from(SEND_BYTES_MAX),
            Work::Write { data, remote } => is_too_long(total(data), remote),
            Work::WriteFile { .. } if !self.sends_files() => return Some(WorkRefusal::NoFiles),
            Work::WriteFile { range, remote } => is_too_long(range.len.into(), remote),
            Work::Read { .. } if self.agreed.ord == 0 => return Some(WorkRefusal::NoReads),
            Work::Read { sink, parts } => {
                let fits =
                    |part: &Part| part.remote.len <= TRANSFER_BYTES_MAX && part.fits(sink.len());
                parts.len() > READ_PARTS_MAX || !parts.iter().all(fits)
            }
            Work::Invalidate { key } => match self.keys.get(*key) {
                Some(Exposure::Memory(..)) => false,
                _ => return Some(WorkRefusal::BadKey),
            },
        };
        if too_long {
            Some(WorkRefusal::TooLong)
        } else {
            (self.send_room() == 0).then_some(WorkRefusal::Full)
        }
    }

    /// A checksum has to be made of what is sent, so that has to be read.
    fn sends_files(&self) -> bool {
        !self.agreed.crc
    }

    /// Accepts a receive; see [`fabric::Endpoint::post_receive`].
    ///
    /// # Errors
    /// The buffer, when it was not accepted.
    pub fn post_receive(&mut self, id: u64, buffer: Buffer) -> Result<(), Refused<Buffer>> {
        let why = if self.closing || self.ended.is_some() {
            WorkRefusal::Closed
        } else if self.receives.len() >= to_usize(self.config.receive_depth) {
            WorkRefusal::Full
        } else {
            self.receives.push_back(Receive { id, buffer });
            return Ok(());
        };
        Err(Refused { why, back: buffer })
    }

    /// Messages take their receives from a queue that is shared; see [`fabric::Incoming::accept_sharing`]. To be said before
    /// the first of them.
    pub fn share(&mut self, claim: Claim) {
        self.claim = Some(claim);
    }

    /// Admits messages to a shared queue, and goes on with what waited for that; see [`fabric::Endpoint::admit`].
    pub fn admit(&mut self, messages: u32) -> u32 {
        let count = self.claim.as_mut().map_or(0, |claim| claim.admit(messages));
        if count > 0 {
            self.admit_aside();
            self.go_on();
        }
        count
    }

    /// Looks again at what waited.
    fn go_on(&mut self) {
        self.rx.unblock();
        self.advance_all();
    }

    /// Whether nothing is to be read until more messages are admitted, or a read is posted.
    #[must_use]
    pub fn is_held_back(&self) -> bool {
        self.ended.is_none() && self.rx.is_blocked()
    }

    /// Lets the peer touch memory; see [`fabric::Endpoint::expose`].
    ///
    /// # Errors
    /// The memory, when it was not accepted.
    pub fn expose(&mut self, memory: Memory) -> Result<Remote, Refused<Memory>> {
        if self.closing || self.ended.is_some() {
            let why = WorkRefusal::Closed;
            return Err(Refused { why, back: memory });
        }
        let Some(len) = u32::try_from(memory.len())
            .ok()
            .filter(|len| *len <= TRANSFER_BYTES_MAX)
        else {
            let why = WorkRefusal::TooLong;
            return Err(Refused { why, back: memory });
        };
        if self.exposed >= self.config.exposed_max {
            let why = WorkRefusal::Full;
            return Err(Refused { why, back: memory });
        }
        let writable = usize::from(is_bulk(&memory));
        let Ok(key) = self.keys.insert(Exposure::Memory(memory, 0)) else {
            unreachable!("there is a key for all that may be exposed");
        };
        self.exposed += 1;
        self.counters.exposures += 1;
        self.writable += writable;
        Ok(Remote {
            key,
            offset: 0,
            len,
        })
    }

    /// Places left in the send queue.
    #[must_use]
    pub fn send_room(&self) -> usize {
        to_usize(self.config.send_depth).saturating_sub(self.send_queue.len())
    }

    /// No new work; the stream ends as closed once what was posted is complete and sent.
    pub fn close_after_work(&mut self) {
        self.closing = true;
        self.end_if_drained();
    }

    /// Ends the stream now, for a reason outside of the protocol.
    pub fn end(&mut self, ended: Ended) {
        self.flush(ended, None);
    }

    /// The peer will send no more bytes.
    pub fn end_of_stream(&mut self) {
        let ended = if self.rx.is_between_frames() {
            Ended::PeerClosed
        } else {
            Ended::Lost(std::io::ErrorKind::UnexpectedEof)
        };
        self.flush(ended, None);
    }

    /// Tells the peer why there will be nothing, in the place of the first message (RFC 6581 §8).
    pub fn terminate(&mut self, term: Term) {
        let culprit = None;
        self.fault_as(Terminate { term, culprit }, term.fault());
    }

    /// Why the stream is no more. Outgoing bytes may be left: a Terminate message.
    #[must_use]
    pub fn ended(&self) -> Option<Ended> {
        self.ended
    }

    /// What has completed since the last call, after what is in `out`.
    pub fn take_completions(&mut self, out: &mut Vec<Completion>) {
        if out.is_empty() {
            *out = std::mem::take(&mut self.completions);
        } else {
            out.append(&mut self.completions);
        }
    }

    /// Completions that wait to be taken.
    #[must_use]
    pub fn completions_waiting(&self) -> usize {
        self.completions.len()
    }

    /// What the peer keeps this side waiting for.
    #[must_use]
    pub fn owed(&self) -> Owed {
        if self.ended.is_some() {
            return Owed::default();
        }
        // What waits here is not late.
        let has_begun = !self.rx.is_between_frames() && !self.rx.is_blocked();
        Owed {
            frame: has_begun.then_some(self.rx.frames()),
            answer: (!self.reads.is_empty()).then_some(self.rx.answers()),
            room: self.tx.frames_taken_while_others_wait(),
        }
    }

    /// Whether this side has announced that it is ready, and nothing came yet.
    #[must_use]
    pub fn is_peer_silent(&self) -> bool {
        let announced = self.is_initiator && self.agreed.rtr != Rtr::None;
        announced && self.ended.is_none() && self.rx.frames() == 0 && self.rx.is_between_frames()
    }

    /// Sends a Write of nothing, which changes nothing, unless something else is on its way.
    pub fn nudge(&mut self) {
        if self.ended.is_none() && self.tx.is_between_messages() {
            self.tx.empty_write(self.agreed.crc);
        }
    }

    /// What both sides agreed on.
    #[must_use]
    pub fn negotiated(&self) -> Negotiated {
        Negotiated {
            ird: self.agreed.ird.into(),
            ord: self.agreed.ord.into(),
            crc: self.agreed.crc,
            files: self.sends_files(),
        }
    }

    /// Payload moved so far.
    #[must_use]
    pub fn counters(&self) -> Counters {
        let (sent_bytes, copied_bytes) = self.tx.payload_bytes();
        Counters {
            sent_bytes,
            copied_bytes: self.counters.copied_bytes + copied_bytes,
            ..self.counters
        }
    }

    pub(super) fn complete(&mut self, id: u64, status: WorkStatus, done: Done) {
        self.completions.push(Completion { id, status, done });
    }

    /// Hands over what is complete at the head of the send queue.
    pub(super) fn settle(&mut self) {
        while let Some(item) = self.send_queue.front() {
            let sent = item.end.is_some_and(|end| end <= self.tx.sent());
            let complete = match item.op {
                Op::Send { .. } | Op::Write { .. } => sent,
                Op::Read { ref sink, .. } => sink.is_some() && item.end.is_some(),
                // Whatever stands before it is complete: nothing of ours can name the key any more.
                Op::Invalidate { key } => item.end.is_some() && !self.rx.is_placing_into(key),
            };
            if !complete {
                break;
            }
            let Some(item) = self.send_queue.pop_front() else {
                break;
            };
            self.tx.popped();
            let done = match item.op {
                Op::Send { .. } if item.signalled => Done::Send,
                Op::Write { .. } if item.signalled => Done::Write,
                Op::Send { .. } | Op::Write { .. } => continue,
                Op::Read { sink, .. } => Done::Read {
                    sink: sink.expect("a read that was answered has its sink"),
                },
                Op::Invalidate { key } => Done::Invalidate {
                    memory: self.withdraw(key),
                },
            };
            self.complete(item.id, WorkStatus::Ok, done);
        }
        self.end_if_drained();
    }

    fn end_if_drained(&mut self) {
        if self.closing && self.send_queue.is_empty() && self.tx.is_idle() {
            self.flush(Ended::Closed, None);
        }
    }

    /// Ends the peer's access to what is exposed under `key`.
    pub(super) fn withdraw(&mut self, key: u32) -> Option<Memory> {
        match self.keys.get(key) {
            Some(Exposure::Memory(..)) => match self.keys.remove(key) {
                Some(Exposure::Memory(memory, _)) => {
                    self.exposed -= 1;
                    self.writable -= usize::from(is_bulk(&memory));
                    Some(memory)
                }
                _ => unreachable!("it was there"),
            },
            _ => None,
        }
    }

    /// Ends the stream because of what the peer sent in this segment.
    pub(super) fn fault(
        &mut self,
        term: Term,
        header: Option<(SegmentHeader, usize)>,
        read: Option<ReadRequest>,
    ) {
        let culprit = header.map(|(header, segment_bytes)| Culprit {
            segment_bytes: u16::try_from(segment_bytes).unwrap_or(u16::MAX),
            header,
            read,
        });
        let terminate = Terminate { term, culprit };
        self.fault_as(terminate, terminate.fault());
    }

    fn fault_as(&mut self, terminate: Terminate, fault: Fault) {
        if self.ended.is_none() {
            self.flush(Ended::Faulted(fault), None);
            self.tx.terminate(&terminate, self.agreed.crc);
        }
    }

    /// The peer says that we did something.
    pub(super) fn accused(&mut self, terminate: Terminate) {
        let fault = terminate.fault();
        let blamed = terminate
            .culprit
            .and_then(|culprit| culprit.read)
            .is_some_and(|read| {
                let head = self.reads.front();
                head.is_some_and(|head| head.stag == read.sink_stag)
            });
        self.flush(Ended::Accused(fault), blamed.then_some(fault));
    }

    /// Hands everything back. `failed` is what the oldest outstanding read did.
    fn flush(&mut self, ended: Ended, failed: Option<Fault>) {
        if self.ended.is_some() {
            return;
        }
        self.ended = Some(ended);
        self.tx.stop();
        self.rx.stop();
        let mut read_status = failed.map_or(WorkStatus::Flushed, WorkStatus::Failed);
        for item in std::mem::take(&mut self.send_queue) {
            let mut status = WorkStatus::Flushed;
            let done = match item.op {
                Op::Send { .. } => Done::Send,
                Op::Write { .. } => Done::Write,
                Op::Read { sink, .. } => {
                    if sink.is_none() {
                        status = std::mem::replace(&mut read_status, WorkStatus::Flushed);
                    }
                    let sink = sink.or_else(|| self.sinks.pop_front());
                    Done::Read {
                        sink: sink.expect("each read under way has its sink"),
                    }
                }
                Op::Invalidate { key } => Done::Invalidate {
                    memory: self.withdraw(key),
                },
            };
            self.complete(item.id, status, done);
        }
        self.flush_receives(ended);
        self.claim = None;
        self.aside = Aside::default();
        for (key, exposure) in self.keys.drain() {
            if let Exposure::Memory(memory, _) = exposure {
                let done = Done::Exposed { memory };
                self.complete(key.into(), WorkStatus::Flushed, done);
            }
        }
        self.reads.clear();
    }

    fn flush_receives(&mut self, ended: Ended) {
        let mut status = match ended {
            Ended::Faulted(fault @ (Fault::ReceiveTooSmall | Fault::CannotInvalidate)) => {
                WorkStatus::Failed(fault)
            }
            _ => WorkStatus::Flushed,
        };
        for Receive { id, buffer } in std::mem::take(&mut self.receives) {
            let invalidated = None;
            let done = Done::Receive {
                buffer,
                invalidated,
            };
            self.complete(id, status, done);
            status = WorkStatus::Flushed;
        }
    }
}

/// Whether much may be written into it, so that it is worth to be read straight into its place.
fn is_bulk(memory: &Memory) -> bool {
    matches!(memory, Memory::Buffer(buffer) if buffer.len() >= DIRECT_BYTES_MIN)
}

/// Whether a Write of so many bytes goes beyond its place.
fn is_too_long(bytes: u64, remote: &Remote) -> bool {
    let max = u64::from(TRANSFER_BYTES_MAX.min(remote.len));
    bytes > max || remote.offset.checked_add(max).is_none()
}

impl Machine {
    /// The RTR indication, as the first message (RFC 6581 §9.2).
    fn announce(&mut self, rtr: Rtr) {
        match rtr {
            Rtr::None => {}
            Rtr::Write => self.tx.empty_write(self.agreed.crc),
            Rtr::Read => {
                let Ok(stag) = self.keys.insert(Exposure::Sink) else {
                    unreachable!("the first key is free");
                };
                let remote = Remote {
                    key: 0,
                    offset: 0,
                    len: 0,
                };
                self.send_read_request(ReadOut {
                    stag,
                    part: Part { at: 0, remote },
                    placed: 0,
                    whose: Whose::Rtr,
                });
            }
        }
    }

    pub(super) fn send_read_request(&mut self, read: ReadOut) -> u64 {
        let request = ReadRequest {
            sink_stag: read.stag,
            sink_to: read.part.at as u64,
            len: read.part.remote.len,
            source_stag: read.part.remote.key,
            source_to: read.part.remote.offset,
        };
        self.reads.push_back(read);
        self.tx.read_request(&request, self.agreed.crc)
    }

    /// The oldest Read Request was answered.
    pub(super) fn read_answered(&mut self, read: &ReadOut) {
        self.keys.remove(read.stag);
        if read.whose != (Whose::Work { is_last: true }) {
            return;
        }
        let mut items = self.send_queue.iter_mut();
        let item = items.find(|item| matches!(item.op, Op::Read { sink: None, .. }));
        let item = item.expect("a read under way is in the queue");
        item.op = Op::Read {
            sink: self.sinks.pop_front(),
            parts: VecDeque::new(),
        };
    }

    pub(super) fn opcode_for(invalidate: Option<u32>) -> Opcode {
        if invalidate.is_some() {
            Opcode::SendInvalidate
        } else {
            Opcode::Send
        }
    }
}
