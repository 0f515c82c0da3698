//! One connection on a device.
//!
//! ```text
//! open ── close(Drain) ──> draining ── nothing is posted ──> leaving ──┐
//!   │                          │                                        │ the peer agreed, or was too slow
//!   └──────────────────────────┴── fault, peer, device, close(Now) ──> ended
//! ```
//! On iWARP work is flushed without a reason before the connection manager says that the peer has closed: that is awaited for
//! a moment ([`VerbsEndpoint::linger`]).
//!
//! Whatever ends it, the queue pair is destroyed first and then everything comes back ([`VerbsEndpoint::tear_down`]).

use crate::cm::{Events, Id};
use crate::device::Trouble;
use crate::limits::LIMITS;
use crate::memory::local_key;
use crate::memory::{Access, Registered};
use crate::queue::Queue;
use crate::sends::Sends;
use crate::shared::{RECEIVE, Share, TooMany};
use crate::sys::{self, Sge, Wc};
use fabric::{
    Buffer, Claim, Close, Completion, Counters, Done, Ended, Endpoint, EndpointConfig, Fault,
    Memory, Negotiated, READ_PARTS_MAX, Receive, Refused, Remote, Work, WorkRefusal, WorkStatus,
};
use std::collections::{BTreeMap, VecDeque};
use std::future::Future;
use std::io;
use std::net::SocketAddr;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;
use tokio::time::{Sleep, sleep};

/// Completions taken at a time.
const TAKEN_TOGETHER: usize = 16;
/// Completions of one poll before the caller gets them.
const POLL_COMPLETIONS_MAX: usize = 64;
/// How long the peer may take to agree that this is the end, and the kernel to say that it has closed.
const LINGER: Duration = Duration::from_secs(5);
/// Most looks at an empty completion queue before the next completion is to be announced: some microseconds on a device.
const LOOKS_MAX: u32 = 64;

/// How far a connection is.
enum Phase {
    Open,
    Draining,
    /// This side has disconnected.
    Leaving,
    Ended(Ended),
}

/// Memory that the peer may touch.
struct Exposed {
    /// Before the memory, so that the peer's access ends before it is handed on.
    _registered: Registered,
    memory: Memory,
}

/// One connection.
pub(crate) struct VerbsEndpoint {
    /// `None` once it has ended.
    queue: Option<Queue>,
    events: Option<Events>,
    phase: Phase,
    config: EndpointConfig,
    negotiated: Negotiated,
    peer: SocketAddr,
    is_iwarp: bool,
    sends: Sends,
    /// Its own, oldest first.
    receives: VecDeque<Receive>,
    /// What it takes from a queue that is shared, where the device has such queues.
    share: Option<Share>,
    /// Where it has none, but is told how many messages are admitted: its own receives come from here.
    claim: Option<Claim>,
    exposed: BTreeMap<u32, Exposed>,
    done: Vec<Completion>,
    /// When the end is no longer waited for, where something says that it has begun.
    late: Option<Pin<Box<Sleep>>>,
    /// What the completions say of the end.
    verdict: Option<Ended>,
    /// The request that failed.
    failed: Option<(u64, Fault)>,
    /// Looks at an empty completion queue that were worth it lately.
    looks: u32,
    counters: Counters,
}

impl VerbsEndpoint {
    pub(crate) fn new(queue: Queue, events: Events, config: EndpointConfig) -> Self {
        let domain = queue.domain();
        let sends = Sends::new(domain.clone(), queue.sizes);
        Self {
            is_iwarp: domain.device().caps.is_iwarp,
            queue: Some(queue),
            events: Some(events),
            phase: Phase::Open,
            config,
            negotiated: Negotiated {
                ird: 0,
                ord: 0,
                // Of the link or of TCP; no fabric of a device leaves the choice to its users.
                crc: true,
                files: false,
            },
            peer: SocketAddr::from(([0, 0, 0, 0], 0)),
            sends,
            receives: VecDeque::new(),
            share: None,
            claim: None,
            exposed: BTreeMap::new(),
            done: Vec::new(),
            late: None,
            verdict: None,
            failed: None,
            looks: 1,
            counters: Counters::default(),
        }
    }

    /// The identifier, while the connection is being made.
    pub(crate) fn id(&self) -> io::Result<&Id> {
        let queue = self.queue.as_ref().ok_or(io::ErrorKind::NotConnected)?;
        Ok(queue.id())
    }

    pub(crate) fn events(&self) -> io::Result<&Events> {
        Ok(self.events.as_ref().ok_or(io::ErrorKind::NotConnected)?)
    }

    /// Takes receives from a queue that is shared, or as many of its own as the claim has admitted. `false` when they cannot be posted.
    pub(crate) fn share(&mut self, share: Option<Share>, claim: Claim) -> bool {
        self.share = share;
        if self.share.is_some() {
            // The device has them in hand.
            return true;
        }
        let claim = self.claim.insert(claim);
        let taken: Vec<_> = std::iter::from_fn(|| claim.take()).collect();
        let mut taken = taken.into_iter();
        taken.all(|buffer| self.post_receive(0, buffer).is_ok())
    }

    /// The connection is made.
    pub(crate) fn begin(&mut self, ird: u8, ord: u8) {
        if let Some(queue) = self.queue.as_ref().filter(|_| !self.is_iwarp) {
            queue.hurry_peer();
        }
        self.negotiated.ird = ird.into();
        self.negotiated.ord = ord.into();
        if let Some(peer) = self.queue.as_ref().and_then(|queue| queue.id().peer()) {
            self.peer = peer;
        }
    }

    fn is_closed(&self) -> bool {
        !matches!(self.phase, Phase::Open)
    }

    /// Cuts and posts work, and hands back what needed no request.
    fn start(&mut self) {
        let Some(queue) = &mut self.queue else {
            return;
        };
        let exposed = &mut self.exposed;
        if let Err(e) = self.sends.start(queue, |key| take_back(exposed, key)) {
            tracing::warn!(peer = %self.peer, "work cannot be posted: {e}");
            return self.tear_down(Ended::Lost(e.kind()));
        }
        self.hand_back();
    }

    fn hand_back(&mut self) {
        self.counters.registrations += self.sends.take_registrations();
        while let Some(completed) = self.sends.complete() {
            self.counters.sent_bytes += completed.sent_bytes;
            self.counters.received_bytes += completed.received_bytes;
            self.done.extend(completed.completion);
        }
    }

    /// Takes all completions that are there; how many.
    fn reap(&mut self) -> usize {
        let mut taken = 0;
        let mut room = [Wc::default(); TAKEN_TOGETHER];
        loop {
            let Some(queue) = &mut self.queue else {
                return taken;
            };
            let count = match queue.poll(&mut room) {
                Ok(count) => count,
                Err(e) => {
                    self.verdict.get_or_insert(Ended::Lost(e.kind()));
                    break;
                }
            };
            room[..count].iter().for_each(|wc| self.completed(wc));
            taken += count;
            if count < TAKEN_TOGETHER {
                break;
            }
        }
        self.hand_back();
        if let Some(verdict) = self.verdict {
            self.tear_down(verdict);
        }
        taken
    }

    fn completed(&mut self, wc: &Wc) {
        if wc.status != sys::WC_SUCCESS {
            return self.failed(wc);
        }
        if wc.wr_id & RECEIVE == 0 {
            return self.sends.completed(wc.wr_id);
        }
        let Some(Receive { id, mut buffer }) = self.receive_of(wc) else {
            return;
        };
        let len = usize::try_from(wc.byte_len).unwrap_or(usize::MAX);
        buffer.set_len(len.min(buffer.len()));
        self.counters.received_bytes += u64::from(wc.byte_len);
        let done = Done::Receive {
            buffer,
            invalidated: None,
        };
        self.done.push(Completion {
            id,
            status: WorkStatus::Ok,
            done,
        });
    }

    /// What a message has come into.
    fn receive_of(&mut self, wc: &Wc) -> Option<Receive> {
        let Some(share) = &mut self.share else {
            return self.receives.pop_front();
        };
        match share.came(wc.wr_id) {
            Ok(buffer) => buffer.map(|buffer| Receive { id: 0, buffer }),
            Err(TooMany) => {
                self.verdict.get_or_insert(Ended::Faulted(Fault::NoReceive));
                None
            }
        }
    }

    /// The first failure says what ended the connection.
    fn failed(&mut self, wc: &Wc) {
        if let Some(share) = self.share.as_ref().filter(|_| wc.wr_id & RECEIVE != 0) {
            share.lost(wc.wr_id);
        }
        if self.verdict.is_some() || matches!(self.phase, Phase::Leaving) {
            return;
        }
        let is_receive = wc.wr_id & RECEIVE != 0;
        let ended = match wc.status {
            // Neither side has said why. iWARP flushes also when the peer has closed, and says so afterwards. Elsewhere
            // it is the answer of this side to what the peer must not do.
            sys::WC_WR_FLUSH_ERR if self.is_iwarp => {
                self.late.get_or_insert_with(|| Box::pin(sleep(LINGER)));
                return;
            }
            sys::WC_WR_FLUSH_ERR => self.flushed(),
            // rdma_rxe has the second for it.
            sys::WC_LOC_LEN_ERR | sys::WC_LOC_QP_OP_ERR if is_receive => {
                Ended::Faulted(Fault::ReceiveTooSmall)
            }
            sys::WC_REM_INV_REQ_ERR if is_receive => Ended::Faulted(Fault::CannotInvalidate),
            sys::WC_REM_ACCESS_ERR if !is_receive => Ended::Accused(Fault::WrongRights),
            sys::WC_REM_INV_REQ_ERR | sys::WC_REM_OP_ERR if !is_receive => {
                Ended::Accused(Fault::Protocol)
            }
            sys::WC_RETRY_EXC_ERR | sys::WC_RNR_RETRY_EXC_ERR => {
                Ended::Lost(io::ErrorKind::TimedOut)
            }
            status => {
                tracing::warn!(peer = %self.peer, status, vendor = wc.vendor_err, "a request failed");
                Ended::Lost(io::ErrorKind::Other)
            }
        };
        if !is_receive {
            if !self.is_iwarp {
                self.sends.completed(wc.wr_id - 1);
            }
            if let Ended::Accused(fault) = ended {
                self.failed = Some((wc.wr_id, fault));
            }
        }
        self.verdict = Some(ended);
    }

    /// The queue pair went into its error state by itself.
    fn flushed(&self) -> Ended {
        match self.queue.as_ref().and_then(|q| q.notice().heard()) {
            Some(Trouble::Down) => Ended::Lost(io::ErrorKind::NetworkDown),
            Some(trouble) => Ended::Faulted(trouble.fault()),
            None => Ended::Faulted(Fault::Protocol),
        }
    }

    /// Looks at all that is no completion; whether anything happened.
    fn watch(&mut self, cx: &mut Context<'_>) -> bool {
        let (Some(queue), Some(events)) = (&self.queue, &self.events) else {
            return false;
        };
        match queue.notice().look(cx) {
            Some(Trouble::Down) => {
                self.tear_down(Ended::Lost(io::ErrorKind::NetworkDown));
                return true;
            }
            // Receives that are shared are not flushed: nothing else may ever say it.
            Some(trouble) if self.share.is_some() => {
                self.reap();
                self.tear_down(Ended::Faulted(trouble.fault()));
                return true;
            }
            // Its completions follow.
            Some(Trouble::BadAccess | Trouble::BadRequest) | None => {}
        }
        match events.poll_next(cx) {
            Poll::Ready(Ok(event)) => self.heard(event.kind),
            Poll::Ready(Err(e)) => self.tear_down(Ended::Lost(e.kind())),
            Poll::Pending => return self.linger(cx),
        }
        true
    }

    /// The connection manager says something.
    fn heard(&mut self, event: i32) {
        match event {
            sys::CM_DISCONNECTED => {
                // Messages that came before, and what else the completions know.
                self.reap();
                let ended = match (&self.phase, &self.queue) {
                    (Phase::Ended(_), _) => return,
                    (Phase::Leaving, _) => Ended::Closed,
                    (_, Some(queue)) if !self.is_iwarp && queue.is_in_error() => self.flushed(),
                    _ => Ended::PeerClosed,
                };
                self.tear_down(ended);
            }
            sys::CM_DEVICE_REMOVAL => self.tear_down(Ended::Lost(io::ErrorKind::NetworkDown)),
            _ => {}
        }
    }

    /// Whether the word that this is the end was waited for too long.
    fn linger(&mut self, cx: &mut Context<'_>) -> bool {
        let late = self.late.as_mut();
        let is_late = late.is_some_and(|late| late.as_mut().poll(cx).is_ready());
        if is_late {
            self.tear_down(match self.phase {
                Phase::Leaving => Ended::Closed,
                _ => Ended::Lost(io::ErrorKind::ConnectionAborted),
            });
        }
        is_late
    }

    /// Disconnects once everything that was posted is complete.
    fn leave(&mut self) {
        if matches!(self.phase, Phase::Draining)
            && self.sends.len() == 0
            && let Some(queue) = &self.queue
        {
            queue.id().disconnect();
            self.phase = Phase::Leaving;
            self.late = Some(Box::pin(sleep(LINGER)));
        }
    }

    /// Ends the connection: nobody else touches any memory any more, and all of it comes back.
    fn tear_down(&mut self, ended: Ended) {
        let Some(queue) = self.queue.take() else {
            return;
        };
        self.phase = Phase::Ended(ended);
        queue.id().disconnect();
        let share = self.share.take();
        let id = queue.into_id(|wc| {
            if let Some(share) = share.as_ref().filter(|_| wc.wr_id & RECEIVE != 0) {
                share.lost(wc.wr_id);
            }
        });
        self.claim = None;
        let is_heard = matches!(ended, Ended::PeerClosed | Ended::Lost(_));
        if let Some(events) = self.events.take().filter(|_| !is_heard) {
            see_out(id, events);
        }
        let exposed = &mut self.exposed;
        let take = |key| take_back(exposed, key);
        self.sends.flush(self.failed, take, &mut self.done);
        for Receive { id, buffer } in self.receives.drain(..) {
            let invalidated = None;
            let done = Done::Receive {
                buffer,
                invalidated,
            };
            self.done.push(flushed(id, done));
        }
        while let Some((key, exposed)) = self.exposed.pop_first() {
            let memory = exposed.end();
            self.done
                .push(flushed(key.into(), Done::Exposed { memory }));
        }
    }

    fn objection(&self, work: &Work) -> Option<WorkRefusal> {
        let fits = match work {
            _ if self.is_closed() => return Some(WorkRefusal::Closed),
            Work::Send { data, .. } => total(data) <= u64::from(LIMITS.send_bytes_max),
            Work::Write { data, remote } => {
                total(data) <= u64::from(remote.len.min(LIMITS.transfer_bytes_max))
            }
            Work::WriteFile { .. } => return Some(WorkRefusal::NoFiles),
            Work::Read { .. } if self.negotiated.ord == 0 => return Some(WorkRefusal::NoReads),
            Work::Read { sink, parts } => {
                let fits = |part: &fabric::Part| {
                    part.remote.len <= LIMITS.transfer_bytes_max && part.fits(sink.len())
                };
                parts.len() <= READ_PARTS_MAX && parts.iter().all(fits)
            }
            Work::Invalidate { key } if !self.exposed.contains_key(key) => {
                return Some(WorkRefusal::BadKey);
            }
            Work::Invalidate { .. } => true,
        };
        if !fits {
            Some(WorkRefusal::TooLong)
        } else {
            (self.send_room() == 0).then_some(WorkRefusal::Full)
        }
    }

    /// Hands a buffer to the device.
    fn give(&mut self, buffer: &mut Buffer) -> io::Result<()> {
        let queue = self.queue.as_mut().ok_or(io::ErrorKind::NotConnected)?;
        let addr = buffer.as_mut_ptr().expose_provenance();
        let length = u32::try_from(buffer.len()).map_err(|_| io::ErrorKind::InvalidInput)?;
        let lkey = local_key(queue.domain(), addr, length)?;
        let addr = addr as u64;
        // SAFETY: the caller keeps the buffer, untouched, until its completion or the end of the queue pair.
        unsafe { queue.post_receive(RECEIVE, Sge { addr, length, lkey }) }
    }

    /// Waits a little for the next completion where that was worth it lately; whether there was one.
    fn look_again(&mut self) -> bool {
        for _ in 0..self.looks {
            std::hint::spin_loop();
            if self.reap() > 0 {
                self.looks = (self.looks * 2).min(LOOKS_MAX);
                return true;
            }
        }
        self.looks = (self.looks / 2).max(1);
        false
    }
}

impl Exposed {
    /// Ends the peer's access.
    fn end(self) -> Memory {
        drop(self._registered);
        self.memory
    }
}

fn take_back(exposed: &mut BTreeMap<u32, Exposed>, key: u32) -> Option<Memory> {
    exposed.remove(&key).map(Exposed::end)
}

fn flushed(id: u64, done: Done) -> Completion {
    let status = WorkStatus::Flushed;
    Completion { id, status, done }
}

fn total(data: &[bytes::Bytes]) -> u64 {
    data.iter().map(|piece| piece.len() as u64).sum()
}

/// Keeps an identifier until the peer has heard that this was the end: destroying it stops the attempts to say so.
fn see_out(id: Id, events: Events) {
    let Ok(runtime) = tokio::runtime::Handle::try_current() else {
        return;
    };
    runtime.spawn(tokio::time::timeout(LINGER, async move {
        while let Ok(event) = events.next().await {
            if event.kind == sys::CM_DISCONNECTED {
                break;
            }
        }
        drop((events, id));
    }));
}

impl Endpoint for VerbsEndpoint {
    fn post(&mut self, id: u64, work: Work, signalled: bool) -> Result<(), Refused<Work>> {
        if let Some(why) = self.objection(&work) {
            return Err(Refused { why, back: work });
        }
        self.sends.push(id, work, signalled);
        Ok(())
    }

    fn post_receive(&mut self, id: u64, mut buffer: Buffer) -> Result<(), Refused<Buffer>> {
        let depth = usize::try_from(self.config.receive_depth).unwrap_or(usize::MAX);
        let why = if self.is_closed() {
            WorkRefusal::Closed
        } else if self.receives.len() >= depth {
            WorkRefusal::Full
        } else if let Err(e) = self.give(&mut buffer) {
            tracing::warn!(peer = %self.peer, "a receive cannot be posted: {e}");
            self.verdict.get_or_insert(Ended::Lost(e.kind()));
            WorkRefusal::Closed
        } else {
            self.receives.push_back(Receive { id, buffer });
            return Ok(());
        };
        Err(Refused { why, back: buffer })
    }

    fn admit(&mut self, messages: u32) -> u32 {
        if let Some(share) = &mut self.share {
            return share.admit(messages);
        }
        let mut count = 0;
        while count < messages {
            let Some(claim) = &mut self.claim else { break };
            claim.admit(1);
            let Some(buffer) = claim.take() else { break };
            if self.post_receive(0, buffer).is_err() {
                break;
            }
            count += 1;
        }
        count
    }

    fn retract(&mut self, messages: u32) -> u32 {
        let share = self.share.as_mut();
        share.map_or(0, |share| share.retract(messages))
    }

    fn excuse(&mut self, messages: u32) {
        if let Some(share) = &mut self.share {
            share.excuse(messages);
        }
    }

    fn expose(&mut self, memory: Memory) -> Result<Remote, Refused<Memory>> {
        let most = usize::try_from(self.config.exposed_max).unwrap_or(usize::MAX);
        let len = u32::try_from(memory.len()).ok();
        let why = match (&self.queue, len.filter(|l| *l <= LIMITS.transfer_bytes_max)) {
            _ if self.is_closed() => WorkRefusal::Closed,
            (None, _) => WorkRefusal::Closed,
            (_, None) => WorkRefusal::TooLong,
            _ if self.exposed.len() >= most => WorkRefusal::Full,
            (Some(queue), Some(len)) => match expose(queue, memory, len) {
                Ok((remote, exposed)) => {
                    self.exposed.insert(remote.key, exposed);
                    self.counters.exposures += 1;
                    return Ok(remote);
                }
                Err((e, back)) => {
                    tracing::warn!(peer = %self.peer, "memory cannot be exposed: {e}");
                    let why = WorkRefusal::Full;
                    return Err(Refused { why, back });
                }
            },
        };
        Err(Refused { why, back: memory })
    }

    fn ring(&mut self) {
        self.start();
    }

    fn poll_completions(
        &mut self,
        cx: &mut Context<'_>,
        completions: &mut Vec<Completion>,
    ) -> Poll<Result<(), Ended>> {
        let ended = loop {
            self.start();
            let taken = self.reap();
            self.leave();
            if let Phase::Ended(ended) = self.phase {
                break Some(ended);
            }
            if self.done.len() >= POLL_COMPLETIONS_MAX {
                break None;
            }
            if taken > 0 || self.watch(cx) {
                continue;
            }
            // Whoever waits with something in hand need not look again.
            if !self.done.is_empty() {
                break None;
            }
            if self.look_again() {
                continue;
            }
            let Some(queue) = &mut self.queue else {
                continue;
            };
            match queue.poll_announced(cx) {
                Poll::Ready(Ok(())) => {}
                Poll::Ready(Err(e)) => self.tear_down(Ended::Lost(e.kind())),
                Poll::Pending => return Poll::Pending,
            }
        };
        let any = !self.done.is_empty();
        completions.append(&mut self.done);
        match ended {
            Some(ended) if !any => Poll::Ready(Err(ended)),
            _ => Poll::Ready(Ok(())),
        }
    }

    fn close(&mut self, how: Close) {
        match how {
            Close::Drain if matches!(self.phase, Phase::Open) => self.phase = Phase::Draining,
            Close::Drain => {}
            Close::Now => self.tear_down(Ended::Closed),
        }
    }

    fn send_room(&self) -> usize {
        let depth = usize::try_from(self.config.send_depth).unwrap_or(usize::MAX);
        depth.saturating_sub(self.sends.len())
    }

    fn peer(&self) -> SocketAddr {
        self.peer
    }

    fn negotiated(&self) -> Negotiated {
        self.negotiated
    }

    fn counters(&self) -> Counters {
        Counters {
            copied_bytes: self.sends.copied_bytes(),
            exposures: self.counters.exposures + self.sends.sinks(),
            ..self.counters
        }
    }
}

impl Drop for VerbsEndpoint {
    fn drop(&mut self) {
        self.tear_down(Ended::Closed);
    }
}

/// What stands for memory without bytes.
static NOTHING: u8 = 0;

/// Lets the peer touch memory.
fn expose(
    queue: &Queue,
    mut memory: Memory,
    len: u32,
) -> Result<(Remote, Exposed), (io::Error, Memory)> {
    let (start, access) = match &mut memory {
        _ if len == 0 => ((&raw const NOTHING).expose_provenance(), Access::RemoteRead),
        Memory::Bytes(bytes) => (bytes.as_ptr().expose_provenance(), Access::RemoteRead),
        Memory::Buffer(buffer) => (buffer.as_mut_ptr().expose_provenance(), Access::RemoteWrite),
    };
    let bytes = usize::try_from(len).unwrap_or(usize::MAX).max(1);
    match queue.domain().register(start, bytes, access) {
        Ok(registered) => {
            let remote = Remote {
                key: registered.remote_key(),
                offset: start as u64,
                len,
            };
            let exposed = Exposed {
                _registered: registered,
                memory,
            };
            Ok((remote, exposed))
        }
        Err(e) => Err((e, memory)),
    }
}
