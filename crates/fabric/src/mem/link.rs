//! The two ends of one connection in memory.

use super::domain::Domain;
use crate::{
    Blame, Buffer, Claim, Close, Completion, Counters, Done, Ended, Endpoint, EndpointConfig,
    Fault, Memory, Negotiated, Part, ProviderLimits, READ_PARTS_MAX, Receive, Refused, Remote,
    Work, WorkRefusal, WorkStatus,
};
use bytes::Bytes;
use parking_lot::Mutex;
use std::collections::{BTreeMap, VecDeque};
use std::io;
use std::net::SocketAddr;
use std::os::unix::fs::FileExt;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};

/// What the fabric in memory can do.
pub(super) const LIMITS: ProviderLimits = ProviderLimits {
    private_data_bytes_max: 508,
    send_bytes_max: 16 << 20,
    transfer_bytes_max: 1 << 30,
    depth_max: 65_536,
    exposed_max: 65_536,
    reads_max: 0x3ffe,
    waits_for_receives: false,
    shares_receives: true,
    holds_back: true,
    pads_private_data: false,
    peers_invalidate: true,
    counts_peers_work: true,
    blame: Blame::Rule,
};
/// Keys of one link lie so far apart that those of another are not among them.
const KEY_STEP: u32 = 0x9e37_79b1;
const KEYS_OF_A_LINK: u32 = 1 << 16;

/// Both ends.
#[derive(Debug)]
pub(super) struct Link {
    ends: [End; 2],
    /// Messages that are not admitted end the connection.
    cuts: bool,
    keys: u32,
}

#[derive(Debug)]
struct End {
    config: EndpointConfig,
    receives: VecDeque<Receive>,
    /// Where the others come from.
    claim: Option<Claim>,
    /// Messages that may come beyond what is admitted.
    excused: u32,
    memory: BTreeMap<u32, Memory>,
    queue: VecDeque<(u64, Work, bool)>,
    done: Vec<Completion>,
    closing: bool,
    ended: Option<Ended>,
    waker: Option<Waker>,
    counters: Counters,
    domain: Arc<Domain>,
}

/// Where an end takes its receives from.
#[derive(Debug)]
pub(super) enum Receives {
    Own(Vec<Receive>),
    Shared(Claim),
}

impl Receives {
    pub(super) fn own(&self) -> &[Receive] {
        match self {
            Self::Own(receives) => receives,
            Self::Shared(_) => &[],
        }
    }
}

/// One end, as its owner has it.
#[derive(Debug)]
pub(super) struct MemEndpoint {
    pub(super) link: Arc<Mutex<Link>>,
    pub(super) side: usize,
    pub(super) peer: SocketAddr,
    pub(super) negotiated: Negotiated,
}

impl Link {
    pub(super) fn new(
        number: u32,
        cuts: bool,
        ends: [(EndpointConfig, Receives, Arc<Domain>); 2],
    ) -> Arc<Mutex<Self>> {
        let end = |(config, receives, domain)| {
            let (receives, claim) = match receives {
                Receives::Own(receives) => (receives, None),
                Receives::Shared(claim) => (Vec::new(), Some(claim)),
            };
            End::new(config, receives, claim, domain)
        };
        Arc::new(Mutex::new(Self {
            ends: ends.map(end),
            cuts,
            keys: number.wrapping_mul(KEYS_OF_A_LINK),
        }))
    }

    /// Ends it at both sides.
    pub(super) fn lose(&mut self, kind: io::ErrorKind) {
        let ends = self.ends.iter_mut();
        ends.for_each(|end| end.end(Ended::Lost(kind)));
    }

    /// Whether the next message of this side has to wait until the other admits it.
    fn is_held_back(&self, side: usize) -> bool {
        let peer = &self.ends[1 - side];
        let is_message = matches!(
            self.ends[side].queue.front(),
            Some((_, Work::Send { .. }, _))
        );
        let admitted = peer.claim.as_ref().map(Claim::admitted);
        !self.cuts && is_message && peer.ended.is_none() && admitted == Some(0)
    }

    /// Does all work of one side.
    fn run(&mut self, side: usize) {
        while !self.is_held_back(side) {
            let Some((id, work, signalled)) = self.ends[side].queue.pop_front() else {
                break;
            };
            let moved = match work {
                Work::Send { data, invalidate } => {
                    let sent = self.send(side, &data, invalidate);
                    sent.map(|()| signalled.then_some(Done::Send))
                        .map_err(|fault| (fault, Done::Send))
                }
                Work::Write { data, remote } => {
                    let written = self.write(side, &data, remote);
                    written
                        .map(|()| signalled.then_some(Done::Write))
                        .map_err(|fault| (fault, Done::Write))
                }
                Work::WriteFile { range, remote } => {
                    let mut bytes = vec![0; to_usize(range.len)];
                    if let Err(e) = range.file.read_exact_at(&mut bytes, range.offset) {
                        let ended = match e.kind() {
                            io::ErrorKind::UnexpectedEof => Ended::FileShort,
                            kind => Ended::Lost(kind),
                        };
                        self.ends[side].complete(id, WorkStatus::Flushed, Done::Write);
                        self.ends[side].end(ended);
                        self.ends[1 - side].end(Ended::PeerClosed);
                        continue;
                    }
                    let written = self.write(side, &[bytes.into()], remote);
                    written
                        .map(|()| signalled.then_some(Done::Write))
                        .map_err(|fault| (fault, Done::Write))
                }
                Work::Read { mut sink, parts } => {
                    let mut parts = parts.into_iter();
                    match parts.try_for_each(|part| self.read(side, &mut sink, part)) {
                        Ok(()) => Ok(Some(Done::Read { sink })),
                        Err(fault) => Err((fault, Done::Read { sink })),
                    }
                }
                Work::Invalidate { key } => {
                    let memory = self.ends[side].memory.remove(&key);
                    Ok(Some(Done::Invalidate { memory }))
                }
            };
            match moved {
                Ok(Some(done)) => self.ends[side].complete(id, WorkStatus::Ok, done),
                Ok(None) => {}
                Err((fault, done)) => {
                    self.ends[side].complete(id, WorkStatus::Failed(fault), done);
                    self.ends[side].end(Ended::Accused(fault));
                    self.ends[1 - side].end(Ended::Faulted(fault));
                }
            }
        }
        if self.ends[side].closing && self.ends[side].queue.is_empty() {
            self.ends[side].end(Ended::Closed);
            self.ends[1 - side].end(Ended::PeerClosed);
        }
    }

    fn send(&mut self, side: usize, data: &[Bytes], invalidate: Option<u32>) -> Result<(), Fault> {
        let len = total(data);
        let peer = &mut self.ends[1 - side];
        if let Some(buffer) = peer.shared_receive() {
            peer.uses(&buffer);
            peer.receives.push_back(Receive { id: 0, buffer });
        }
        let room = peer.receives.front().ok_or(Fault::NoReceive)?.buffer.len();
        if len > room {
            return Err(Fault::ReceiveTooSmall);
        }
        let invalidated = match invalidate {
            Some(key) => {
                let memory = peer.memory.remove(&key).ok_or(Fault::CannotInvalidate)?;
                Some((key, memory))
            }
            None => None,
        };
        let Receive { id, mut buffer } = peer.receives.pop_front().ok_or(Fault::NoReceive)?;
        fill(&mut buffer, data);
        buffer.set_len(len);
        let done = Done::Receive {
            buffer,
            invalidated,
        };
        peer.complete(id, WorkStatus::Ok, done);
        self.count(side, len);
        Ok(())
    }

    fn write(&mut self, side: usize, data: &[Bytes], remote: Remote) -> Result<(), Fault> {
        let len = total(data);
        if len == 0 {
            return Ok(());
        }
        match self.ends[1 - side].memory.get_mut(&remote.key) {
            Some(Memory::Buffer(buffer)) => {
                let start = inside(remote.offset, len, buffer.len())?;
                fill(&mut buffer[start..], data);
            }
            Some(Memory::Bytes(_)) => return Err(Fault::WrongRights),
            None => return Err(Fault::BadKey),
        }
        self.count(side, len);
        Ok(())
    }

    fn read(&mut self, side: usize, sink: &mut Buffer, part: Part) -> Result<(), Fault> {
        let Part { at, remote } = part;
        let len = to_usize(remote.len);
        if len == 0 {
            return Ok(());
        }
        match self.ends[1 - side].memory.get(&remote.key) {
            Some(Memory::Bytes(bytes)) => {
                let start = inside(remote.offset, len, bytes.len())?;
                sink[at..at + len].copy_from_slice(&bytes[start..start + len]);
            }
            Some(Memory::Buffer(_)) => return Err(Fault::WrongRights),
            None => return Err(Fault::BadKey),
        }
        self.count(1 - side, len);
        Ok(())
    }

    /// Payload went from one side to the other: one copy, which stands for the network.
    fn count(&mut self, from: usize, len: usize) {
        self.ends[from].counters.sent_bytes += len as u64;
        self.ends[1 - from].counters.received_bytes += len as u64;
    }
}

impl End {
    fn new(
        config: EndpointConfig,
        receives: Vec<Receive>,
        claim: Option<Claim>,
        domain: Arc<Domain>,
    ) -> Self {
        let mut end = Self {
            config,
            receives: VecDeque::new(),
            claim,
            excused: 0,
            memory: BTreeMap::new(),
            queue: VecDeque::new(),
            done: Vec::new(),
            closing: false,
            ended: None,
            waker: None,
            counters: Counters::default(),
            domain,
        };
        for receive in receives {
            end.uses(&receive.buffer);
            end.receives.push_back(receive);
        }
        end
    }

    /// A transfer of this end uses these bytes, which a device would have to have registered.
    fn uses(&mut self, bytes: &[u8]) {
        self.counters.registrations += u64::from(self.domain.uses(bytes));
    }

    fn uses_all(&mut self, work: &Work) {
        match work {
            Work::Send { data, .. } | Work::Write { data, .. } => {
                data.iter().for_each(|piece| self.uses(piece));
            }
            Work::Read { sink, .. } => self.uses(sink),
            Work::WriteFile { .. } | Work::Invalidate { .. } => {}
        }
    }

    fn complete(&mut self, id: u64, status: WorkStatus, done: Done) {
        self.done.push(Completion { id, status, done });
        if let Some(waker) = self.waker.take() {
            waker.wake();
        }
    }

    /// What a message goes into that comes by way of a shared queue.
    fn shared_receive(&mut self) -> Option<Buffer> {
        let claim = self.claim.as_mut()?;
        if let Some(buffer) = claim.take() {
            return Some(buffer);
        }
        self.excused = self.excused.checked_sub(1)?;
        claim.queue().receive()
    }

    /// Hands everything back.
    fn end(&mut self, ended: Ended) {
        if self.ended.is_some() {
            return;
        }
        self.ended = Some(ended);
        self.claim = None;
        for (id, work, _) in std::mem::take(&mut self.queue) {
            let done = match work {
                Work::Send { .. } => Done::Send,
                Work::Write { .. } | Work::WriteFile { .. } => Done::Write,
                Work::Read { sink, .. } => Done::Read { sink },
                Work::Invalidate { key } => Done::Invalidate {
                    memory: self.memory.remove(&key),
                },
            };
            self.complete(id, WorkStatus::Flushed, done);
        }
        for Receive { id, buffer } in std::mem::take(&mut self.receives) {
            let invalidated = None;
            let done = Done::Receive {
                buffer,
                invalidated,
            };
            self.complete(id, WorkStatus::Flushed, done);
        }
        for (key, memory) in std::mem::take(&mut self.memory) {
            self.complete(key.into(), WorkStatus::Flushed, Done::Exposed { memory });
        }
        if let Some(waker) = self.waker.take() {
            waker.wake();
        }
    }

    fn is_closed(&self) -> bool {
        self.closing || self.ended.is_some()
    }

    fn objection(&self, work: &Work, negotiated: Negotiated) -> Option<WorkRefusal> {
        let fits = match work {
            _ if self.is_closed() => return Some(WorkRefusal::Closed),
            Work::Send { data, .. } => total(data) <= to_usize(LIMITS.send_bytes_max),
            Work::Write { data, remote } => {
                total(data) <= to_usize(remote.len.min(LIMITS.transfer_bytes_max))
            }
            Work::WriteFile { .. } if !negotiated.files => return Some(WorkRefusal::NoFiles),
            Work::WriteFile { range, remote } => {
                range.len <= remote.len.min(LIMITS.transfer_bytes_max)
            }
            Work::Read { .. } if negotiated.ord == 0 => return Some(WorkRefusal::NoReads),
            Work::Read { sink, parts } => {
                let fits = |part: &Part| {
                    part.remote.len <= LIMITS.transfer_bytes_max && part.fits(sink.len())
                };
                parts.len() <= READ_PARTS_MAX && parts.iter().all(fits)
            }
            Work::Invalidate { key } if !self.memory.contains_key(key) => {
                return Some(WorkRefusal::BadKey);
            }
            Work::Invalidate { .. } => true,
        };
        if !fits {
            Some(WorkRefusal::TooLong)
        } else {
            (self.room() == 0).then_some(WorkRefusal::Full)
        }
    }

    fn room(&self) -> usize {
        to_usize(self.config.send_depth).saturating_sub(self.queue.len())
    }
}

/// The first byte, when all of them are inside.
fn inside(offset: u64, len: usize, whole: usize) -> Result<usize, Fault> {
    let start = usize::try_from(offset).map_err(|_| Fault::OutOfBounds)?;
    let end = start.checked_add(len).filter(|end| *end <= whole);
    end.map(|_| start).ok_or(Fault::OutOfBounds)
}

fn total(data: &[Bytes]) -> usize {
    data.iter().map(Bytes::len).sum()
}

fn fill(mut place: &mut [u8], data: &[Bytes]) {
    for piece in data {
        let (head, rest) = place.split_at_mut(piece.len());
        head.copy_from_slice(piece);
        place = rest;
    }
}

fn to_usize(n: u32) -> usize {
    usize::try_from(n).expect("usize has 32 bits at least")
}

impl Endpoint for MemEndpoint {
    fn post(&mut self, id: u64, work: Work, signalled: bool) -> Result<(), Refused<Work>> {
        let end = &mut self.link.lock().ends[self.side];
        if let Some(why) = end.objection(&work, self.negotiated) {
            return Err(Refused { why, back: work });
        }
        end.uses_all(&work);
        end.queue.push_back((id, work, signalled));
        Ok(())
    }

    fn post_receive(&mut self, id: u64, buffer: Buffer) -> Result<(), Refused<Buffer>> {
        let end = &mut self.link.lock().ends[self.side];
        let why = if end.is_closed() {
            WorkRefusal::Closed
        } else if end.receives.len() >= to_usize(end.config.receive_depth) {
            WorkRefusal::Full
        } else {
            end.uses(&buffer);
            end.receives.push_back(Receive { id, buffer });
            return Ok(());
        };
        Err(Refused { why, back: buffer })
    }

    fn admit(&mut self, messages: u32) -> u32 {
        let mut link = self.link.lock();
        let claim = link.ends[self.side].claim.as_mut();
        let count = claim.map_or(0, |claim| claim.admit(messages));
        link.run(1 - self.side);
        count
    }

    fn retract(&mut self, messages: u32) -> u32 {
        let mut link = self.link.lock();
        let cuts = link.cuts;
        let claim = link.ends[self.side].claim.as_mut().filter(|_| cuts);
        claim.map_or(0, |claim| claim.retract(messages))
    }

    fn excuse(&mut self, messages: u32) {
        self.link.lock().ends[self.side].excused = messages;
    }

    fn expose(&mut self, memory: Memory) -> Result<Remote, Refused<Memory>> {
        let mut link = self.link.lock();
        let key = link.keys.wrapping_add(1).wrapping_mul(KEY_STEP);
        let end = &mut link.ends[self.side];
        let len = u32::try_from(memory.len()).ok();
        let why = match len.filter(|len| *len <= LIMITS.transfer_bytes_max) {
            _ if end.is_closed() => WorkRefusal::Closed,
            None => WorkRefusal::TooLong,
            Some(_) if end.memory.len() >= to_usize(end.config.exposed_max) => WorkRefusal::Full,
            Some(len) => {
                end.memory.insert(key, memory);
                end.counters.exposures += 1;
                link.keys = link.keys.wrapping_add(1);
                return Ok(Remote {
                    key,
                    offset: 0,
                    len,
                });
            }
        };
        Err(Refused { why, back: memory })
    }

    fn ring(&mut self) {
        self.link.lock().run(self.side);
    }

    fn poll_completions(
        &mut self,
        cx: &mut Context<'_>,
        completions: &mut Vec<Completion>,
    ) -> Poll<Result<(), Ended>> {
        let mut link = self.link.lock();
        link.run(self.side);
        let end = &mut link.ends[self.side];
        if !end.done.is_empty() {
            completions.append(&mut end.done);
            return Poll::Ready(Ok(()));
        }
        if let Some(ended) = end.ended {
            return Poll::Ready(Err(ended));
        }
        end.waker = Some(cx.waker().clone());
        Poll::Pending
    }

    fn close(&mut self, how: Close) {
        let mut link = self.link.lock();
        link.ends[self.side].closing = true;
        if how == Close::Now {
            link.ends[self.side].end(Ended::Closed);
            link.ends[1 - self.side].end(Ended::PeerClosed);
        }
    }

    fn send_room(&self) -> usize {
        self.link.lock().ends[self.side].room()
    }

    fn peer(&self) -> SocketAddr {
        self.peer
    }

    fn negotiated(&self) -> Negotiated {
        self.negotiated
    }

    fn counters(&self) -> Counters {
        self.link.lock().ends[self.side].counters
    }
}

impl Drop for MemEndpoint {
    fn drop(&mut self) {
        self.close(Close::Now);
        // What came back is dropped with it, once the lock is free.
        let done = std::mem::take(&mut self.link.lock().ends[self.side].done);
        drop(done);
    }
}
