//! One RDMA connection as a [`Link`]: the engine's work goes to the provider, its completions come back.
//!
//! # Ordering
//! Replies to calls of ours go up before calls of the peer, since nothing may stand in the way of what frees memory.
//! What has arrived is handed up before the end of the connection is told.

use std::collections::VecDeque;
use std::task::{Context as TaskContext, Poll};

use fabric::{
    Buffer, Close, Completion, Done, Ended, Endpoint, Fault, Stall, WorkRefusal, WorkStatus,
};
use rpcrdma::{Engine, Event, FailReason, Record, SendWork};

use super::calls::Calls;
use super::incoming::Records;
use super::memory::Memory;
use super::metered::Metered;
use super::pieces::remote;
use super::replies::{self, Filled, Replies};
use super::traffic::Carried;
use crate::end::End;
use crate::link::{Link, Pace, Received, StallTimer, Unread};
use crate::{CloseReason, ConnHandle, Counters, Message, TransportLimits};

/// Room in the send queue below which every request is signalled, since only signalled ones free their places.
const SIGNAL_ROOM: usize = 32;

/// Counters of an engine that are added to those of all connections.
const COUNTED: usize = 13;

/// Where messages of the peer go.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Receives {
    /// Into receives that are posted here.
    Own,
    /// Into receives of a queue that is shared; here they are admitted, and others excused.
    Shared,
}

/// An RDMA connection.
pub(crate) struct RdmaLink {
    endpoint: Box<dyn Endpoint>,
    engine: Engine,
    conn: ConnHandle,
    memory: Memory,
    completions: Vec<Completion>,
    receives: Receives,
    /// Posted, or admitted.
    receives_posted: u32,
    /// Sends posted and not complete.
    sends_posted: usize,
    /// Calls of the peer, whole.
    calls_in: VecDeque<Received>,
    /// Replies to ours.
    replies_in: VecDeque<Received>,
    calls: Calls,
    records: Records,
    replies: Replies,
    /// Why there will be no more.
    ended: Option<(CloseReason, String)>,
    shutting_down: bool,
    /// Nothing was asked for since everything was moved.
    is_driven: bool,
    moved: fabric::Counters,
    /// What of the engine's counters is in those of all connections.
    counted: [u64; COUNTED],
    metered: Metered,
    /// `None` while the peer is not waited for.
    watches: Option<Box<Watches>>,
}

/// For how long the peer is waited for.
struct Watches {
    read_stall: StallTimer,
    read_pace: Pace,
    write_stall: StallTimer,
    unread: Unread,
}

impl Watches {
    fn new(limits: &TransportLimits) -> Box<Self> {
        Box::new(Self {
            read_stall: StallTimer::new(limits.read_stall),
            read_pace: Pace::new(limits.read_pace, limits.pace_bytes_per_second),
            write_stall: StallTimer::new(limits.write_stall),
            unread: Unread::new(limits),
        })
    }
}

impl RdmaLink {
    pub(super) fn new(
        endpoint: Box<dyn Endpoint>,
        engine: Engine,
        receives: Receives,
        memory: Memory,
        conn: &ConnHandle,
    ) -> Self {
        Self {
            endpoint,
            completions: Vec::new(),
            receives,
            receives_posted: engine.receives(),
            engine,
            sends_posted: 0,
            calls_in: VecDeque::new(),
            replies_in: VecDeque::new(),
            calls: Calls::new(memory.clone()),
            records: Records::new(memory.clone(), conn),
            replies: Replies::new(memory.clone(), conn),
            memory,
            ended: None,
            shutting_down: false,
            is_driven: false,
            moved: fabric::Counters::default(),
            counted: [0; COUNTED],
            metered: Metered::new(conn),
            watches: None,
            conn: conn.clone(),
        }
    }

    /// Moves everything as far as it goes without waiting.
    fn drive(&mut self, cx: &mut TaskContext<'_>) -> Result<(), End> {
        if self.ended.is_some() {
            return Ok(());
        }
        // The provider will wake this task, as long as nothing more is posted.
        let mut is_polled = false;
        loop {
            while let Poll::Ready(Some(filled)) = self.replies.poll_filled(cx) {
                self.send_filled(filled?);
            }
            let mut moved = self.take_events()?;
            while let Poll::Ready(Some(xid)) = self.records.poll_charged(cx) {
                self.engine.allocated(xid);
            }
            if self.post_work()? {
                (moved, is_polled) = (true, false);
            }
            if !is_polled {
                let polled = self.endpoint.poll_completions(cx, &mut self.completions);
                if let Poll::Ready(Err(ended)) = polled {
                    self.ended = Some(why(ended));
                    self.count();
                    return Ok(());
                }
                is_polled = polled.is_pending();
                moved |= !self.completions.is_empty();
                self.complete()?;
            }
            if !moved {
                break;
            }
        }
        self.rest();
        self.count();
        self.watch(cx)
    }

    /// Keeps no room for what may come: most connections are idle.
    fn rest(&mut self) {
        self.completions = Vec::new();
        self.engine.rest();
        self.calls.rest();
        self.records.rest();
        self.replies.rest();
        if !self.has_buffered() {
            self.calls_in = VecDeque::new();
            self.replies_in = VecDeque::new();
        }
    }

    /// Does what the engine asks for; whether it asked for anything.
    fn take_events(&mut self) -> Result<bool, End> {
        let mut any = false;
        while let Some(event) = self.engine.next_event() {
            any = true;
            match event {
                Event::Expose { region, memory } => {
                    let exposed = self.calls.expose(region, memory, &mut *self.endpoint);
                    match exposed {
                        Ok(segment) => self.engine.exposed(region, vec![segment]),
                        // The end of the connection is told soon, and takes its calls along.
                        Err(WorkRefusal::Closed) => {}
                        Err(_) => self.engine.expose_failed(region),
                    }
                }
                Event::Allocate { xid, bytes } => {
                    if self.records.allocate(xid, bytes) {
                        self.engine.allocated(xid);
                    }
                }
                Event::Call { xid, record } => self.called(xid, record),
                Event::Reply { xid, outcome } => self.replied(xid, outcome)?,
                Event::Failed(reason) => {
                    self.endpoint.close(Close::Now);
                    return Err(fail_reason(reason).into());
                }
            }
        }
        Ok(any)
    }

    fn called(&mut self, xid: u32, record: Record) {
        let received = match record {
            Record::Inline(bytes) => Received {
                bytes,
                charge: None,
            },
            Record::Pulled => self.records.take(xid),
        };
        // The engine has not seen what was pulled.
        let is_the_call = rpc::peek(&received.bytes) == Ok((xid, rpc::MessageType::Call));
        if is_the_call {
            Counters::add(&self.conn.context().counters().records_in, 1);
            self.calls_in.push_back(received);
        } else {
            // It was delivered just now, and the connection lives.
            let _ = self.engine.refuse(xid);
        }
    }

    fn replied(
        &mut self,
        xid: u32,
        outcome: Result<rpcrdma::CallReply, rpcrdma::CallError>,
    ) -> Result<(), End> {
        let counters = self.conn.context().counters();
        let put_together = outcome.map(|reply| self.calls.record(xid, reply));
        match put_together {
            Ok(Ok((bytes, copied))) => {
                Counters::add(&counters.records_in, 1);
                Counters::add_some(&counters.rdma_copied_bytes, copied);
                self.replies_in.push_back(Received {
                    bytes,
                    charge: None,
                });
                Ok(())
            }
            Ok(Err(what)) => Err(End::with(CloseReason::RdmaBadReply, what)),
            Err(e) => {
                tracing::debug!(peer = %self.conn.peer(), "call not carried: {e}");
                self.calls.forget(xid);
                self.conn.refuse_call(xid);
                Ok(())
            }
        }
    }

    /// Hands work to the provider while there is room for it; whether there was any.
    fn post_work(&mut self) -> Result<bool, End> {
        // Messages that belong to nothing have taken receives too.
        let mut posted = self.post_receives(self.engine.receives());
        while self.endpoint.send_room() > 0 {
            if let Some((xid, read)) = self.records.next_read() {
                self.post(u64::from(xid), read)?;
            } else if let Some(work) = self.engine.next_work() {
                self.post_one(work)?;
            } else {
                break;
            }
            posted = true;
        }
        if posted {
            self.endpoint.ring();
        }
        Ok(posted)
    }

    fn post_one(&mut self, work: SendWork) -> Result<(), End> {
        match work {
            SendWork::Send {
                data,
                invalidate,
                receives,
            } => {
                self.post_receives(receives);
                self.sends_posted += 1;
                Counters::add(&self.conn.context().counters().records_out, 1);
                self.post(0, fabric::Work::Send { data, invalidate })
            }
            SendWork::Write { data, segment } => {
                let remote = remote(&segment);
                self.post(0, fabric::Work::Write { data, remote })
            }
            SendWork::WriteHeld {
                held,
                offset,
                segment,
            } => {
                let range = replies::range_of(held, offset, segment.length);
                let remote = remote(&segment);
                self.post(0, fabric::Work::WriteFile { range, remote })
            }
            SendWork::Pull { xid, placement } => {
                if self.records.begin(xid, placement) {
                    self.engine.pulled(xid);
                }
                Ok(())
            }
            SendWork::Invalidate { region, handle } => {
                self.calls.invalidating(region, handle);
                let key = handle;
                self.post(u64::from(key), fabric::Work::Invalidate { key })
            }
        }
    }

    fn post(&mut self, id: u64, work: fabric::Work) -> Result<(), End> {
        let signalled =
            matches!(work, fabric::Work::Send { .. }) || self.endpoint.send_room() <= SIGNAL_ROOM;
        match self.endpoint.post(id, work, signalled) {
            Ok(()) => Ok(()),
            // The end is about to be reported.
            Err(refused) if refused.why == WorkRefusal::Closed => Ok(()),
            Err(refused) => Err(End::with(CloseReason::RdmaProtocol, refused.why)),
        }
    }

    /// Posts or admits receives until there are so many; whether any was missing.
    fn post_receives(&mut self, wanted: u32) -> bool {
        let before = self.receives_posted;
        if self.receives == Receives::Shared {
            if before < wanted {
                // None once it is closed: the end is about to be reported.
                self.receives_posted += self.endpoint.admit(wanted - before);
            } else {
                self.receives_posted -= self.endpoint.retract(before - wanted);
            }
            self.endpoint.excuse(self.engine.excused());
            return self.receives_posted > before;
        }
        while self.receives_posted < wanted {
            let receive = self.memory.receive();
            if self.endpoint.post_receive(0, receive).is_err() {
                // Closed: the end is about to be reported.
                break;
            }
            self.receives_posted += 1;
        }
        self.receives_posted > before
    }

    fn complete(&mut self) -> Result<(), End> {
        let mut completions = std::mem::take(&mut self.completions);
        for Completion { id, status, done } in completions.drain(..) {
            if status != WorkStatus::Ok {
                // The end of the connection follows.
                continue;
            }
            match done {
                Done::Send => self.sends_posted -= 1,
                Done::Write | Done::Exposed { .. } => {}
                Done::Read { sink } => {
                    let xid = u32::try_from(id).expect("reads have the XID of their call");
                    if self.records.read(xid, sink) {
                        self.engine.pulled(xid);
                    }
                }
                Done::Invalidate { memory } => {
                    let key = u32::try_from(id).expect("invalidations have their key");
                    if let Some(region) = self.calls.access_ended(key, memory) {
                        self.engine.invalidated(region);
                    }
                }
                Done::Receive {
                    buffer,
                    invalidated,
                } => self.received(buffer, invalidated),
            }
        }
        self.completions = completions;
        Ok(())
    }

    fn received(&mut self, buffer: Buffer, invalidated: Option<(u32, fabric::Memory)>) {
        // It may have been excused only.
        self.receives_posted = self.receives_posted.saturating_sub(1);
        let key = invalidated.map(|(key, memory)| {
            self.calls.access_ended(key, Some(memory));
            key
        });
        let len = buffer.len();
        self.engine.received(&buffer.freeze(0..len), key);
    }

    fn send_filled(&mut self, filled: Filled) {
        match filled {
            // Without its call there is nobody to tell; a reply without room was answered with an error.
            Filled::Reply(message) => drop(self.engine.reply(&message)),
            Filled::Call(message, room) => {
                let xid = message.xid();
                let chunks = rpcrdma::ReplyRoom {
                    reply_bytes_max: room.map_or(0, |room| room.reply_bytes_max),
                    write_chunks: room
                        .map(|room| room.result_bytes_max)
                        .filter(|bytes| *bytes > 0)
                        .into_iter()
                        .collect(),
                };
                match self.engine.call(message, &chunks) {
                    Ok(()) => self.calls.insert(xid, room),
                    Err(e) => {
                        tracing::debug!(peer = %self.conn.peer(), "call not sent: {e}");
                        self.conn.refuse_call(xid);
                    }
                }
            }
        }
    }

    fn unsent(&self) -> bool {
        self.sends_posted > 0 || self.engine.has_work() || self.replies.is_waiting()
    }

    /// Adds what the provider has counted since, and returns the bytes that were sent and received.
    fn count_moved(&mut self) -> (usize, usize) {
        let now = self.endpoint.counters();
        let before = std::mem::replace(&mut self.moved, now);
        let (sent, received) = (
            delta(now.sent_bytes, before.sent_bytes),
            delta(now.received_bytes, before.received_bytes),
        );
        let counters = self.conn.context().counters();
        for (counter, n) in [
            (&counters.bytes_out, sent),
            (&counters.bytes_in, received),
            (
                &counters.rdma_copied_bytes,
                delta(now.copied_bytes, before.copied_bytes),
            ),
            (
                &counters.rdma_registrations,
                delta(now.registrations, before.registrations),
            ),
            (
                &counters.rdma_exposures,
                delta(now.exposures, before.exposures),
            ),
        ] {
            Counters::add_some(counter, n);
        }
        (sent, received)
    }

    /// Everything waits for the peer now: whether it has for too long.
    fn watch(&mut self, cx: &mut TaskContext<'_>) -> Result<(), End> {
        let (sent, received) = self.count_moved();
        if self.sends_posted == 0 && !self.records.is_reading() {
            self.watches = None;
            return Ok(());
        }
        let limits = self.conn.context().limits();
        let watches = self.watches.get_or_insert_with(|| Watches::new(limits));
        if sent > 0 {
            watches.write_stall.progress();
            watches.unread.moved(sent);
        }
        if received > 0 {
            watches.read_stall.progress();
            watches.read_pace.moved(received);
        }
        if self.records.is_reading() {
            if watches.read_stall.poll_stalled(cx) {
                return Err(CloseReason::ReadStalled.into());
            }
            if watches.read_pace.poll_slow(cx) && self.records.is_wanted() {
                return Err(CloseReason::ReadSlow.into());
            }
        } else {
            watches.read_stall.disarm();
            watches.read_pace.disarm();
        }
        if self.sends_posted == 0 {
            watches.write_stall.disarm();
            watches.unread.none();
        } else {
            if watches.write_stall.poll_stalled(cx) {
                return Err(CloseReason::WriteStalled.into());
            }
            let (uncharged, charged) = self.replies.held();
            let polled = watches.unread.poll(cx, &self.conn, uncharged, charged);
            if let Poll::Ready(end) = polled {
                return Err(end);
            }
        }
        Ok(())
    }

    /// Adds what the engine has counted since.
    fn count(&mut self) {
        let counted = self.engine.counters();
        let carried = Carried::new(counted, &self.endpoint.counters());
        self.metered.set(carried);
        let now = sums(counted);
        if now == self.counted {
            return;
        }
        let c = self.conn.context().counters();
        let counters = [
            &c.rdma_inline_bytes_in,
            &c.rdma_inline_bytes_out,
            &c.rdma_read_chunk_bytes_in,
            &c.rdma_read_chunk_bytes_out,
            &c.rdma_write_chunk_bytes_in,
            &c.rdma_write_chunk_bytes_out,
            &c.rdma_reply_chunk_bytes_in,
            &c.rdma_reply_chunk_bytes_out,
            &c.rdma_credit_stalls,
            &c.rdma_credits_short,
            &c.rdma_read_stalls,
            &c.rdma_calls_refused,
            &c.rdma_discarded,
        ];
        for (at, counter) in counters.into_iter().enumerate() {
            Counters::add_some(counter, delta(now[at], self.counted[at]));
        }
        self.counted = now;
    }

    /// The end, once everything before it was handed up.
    fn end(&self) -> Option<End> {
        let (reason, detail) = self.ended.as_ref()?;
        (!self.has_buffered()).then(|| End::with(*reason, detail))
    }
}

impl Link for RdmaLink {
    fn poll_recv(&mut self, cx: &mut TaskContext<'_>) -> Poll<Result<Received, End>> {
        // A flush just before has moved everything, and will be woken.
        if !self.has_buffered() && !std::mem::take(&mut self.is_driven) {
            self.drive(cx)?;
        }
        let arrived = self.replies_in.pop_front();
        match arrived.or_else(|| self.calls_in.pop_front()) {
            Some(received) => Poll::Ready(Ok(received)),
            None => self
                .end()
                .map_or(Poll::Pending, |end| Poll::Ready(Err(end))),
        }
    }

    fn has_buffered(&self) -> bool {
        !self.replies_in.is_empty() || !self.calls_in.is_empty()
    }

    fn is_busy(&self) -> bool {
        // Calls whose records are fetched, or wait for memory or for others, are in progress.
        self.engine.calls_in_progress() > 0
            || self.unsent()
            || self.has_buffered()
            || self.endpoint.is_receiving()
    }

    fn arrived_bytes(&self) -> u64 {
        self.endpoint.counters().received_bytes
    }

    fn busy_poll(&mut self) -> bool {
        false
    }

    fn queue(&mut self, message: Message) {
        self.is_driven = false;
        if let Some(filled) = self.replies.call(message) {
            self.send_filled(filled);
        }
    }

    fn queue_reply(&mut self, message: Message) {
        self.is_driven = false;
        let files_max = match rpc::peek(message.head()) {
            Ok((xid, _)) if self.endpoint.negotiated().files => self.engine.result_room(xid),
            _ => 0,
        };
        if let Some(filled) = self.replies.reply(message, files_max) {
            self.send_filled(filled);
        }
    }

    fn unanswered(&mut self, xid: u32) {
        self.is_driven = false;
        // A call without an answer would keep its credit for ever.
        let _ = self.engine.refuse(xid);
    }

    fn queued_reply_bytes(&self) -> usize {
        self.replies.bytes()
    }

    fn queued(&self) -> usize {
        self.replies.count()
    }

    fn poll_flush(&mut self, cx: &mut TaskContext<'_>) -> Poll<Result<(), End>> {
        self.drive(cx)?;
        self.is_driven = true;
        match self.end() {
            Some(end) => Poll::Ready(Err(end)),
            None if self.ended.is_none() && self.unsent() => Poll::Pending,
            None => Poll::Ready(Ok(())),
        }
    }

    fn poll_shutdown(&mut self, cx: &mut TaskContext<'_>) -> Poll<()> {
        if !self.shutting_down {
            self.shutting_down = true;
            self.endpoint.close(Close::Drain);
        }
        loop {
            let polled = self.endpoint.poll_completions(cx, &mut self.completions);
            self.completions.clear();
            match polled {
                Poll::Ready(Ok(())) => {}
                Poll::Ready(Err(_)) => return Poll::Ready(()),
                Poll::Pending => return Poll::Pending,
            }
        }
    }
}

/// What is counted of all connections together, in the order of [`RdmaLink::count`].
fn sums(c: &rpcrdma::Counters) -> [u64; COUNTED] {
    let refused = rpcrdma::RefuseReason::ALL.iter();
    let discarded = rpcrdma::DiscardReason::ALL.iter();
    [
        c.inline_bytes_in,
        c.inline_bytes_out,
        c.read_chunk_bytes_in,
        c.read_chunk_bytes_out,
        c.write_chunk_bytes_in,
        c.write_chunk_bytes_out,
        c.reply_chunk_bytes_in,
        c.reply_chunk_bytes_out,
        c.credit_stalls,
        c.grants_short,
        c.read_stalls,
        refused.map(|reason| c.refused_for(*reason)).sum(),
        discarded.map(|reason| c.discarded_for(*reason)).sum(),
    ]
}

fn delta(now: u64, then: u64) -> usize {
    usize::try_from(now - then).unwrap_or(usize::MAX)
}

fn why(ended: Ended) -> (CloseReason, String) {
    let reason = match ended {
        Ended::Closed => CloseReason::Asked,
        Ended::PeerClosed => CloseReason::PeerClosed,
        Ended::Lost(_) => CloseReason::Io,
        Ended::FileShort => CloseReason::FileShort,
        Ended::Stalled(Stall::MidFrame) => CloseReason::ReadStalled,
        Ended::Stalled(Stall::Unread) => CloseReason::WriteStalled,
        Ended::Stalled(Stall::Unanswered) => CloseReason::RdmaUnanswered,
        Ended::Accused(_) => CloseReason::RdmaAccessRefused,
        Ended::Faulted(fault) => match fault {
            Fault::BadKey => CloseReason::RdmaBadKey,
            Fault::OutOfBounds => CloseReason::RdmaOutOfBounds,
            Fault::WrongRights => CloseReason::RdmaWrongRights,
            Fault::NoReceive => CloseReason::RdmaNoReceive,
            Fault::ReceiveTooSmall => CloseReason::RdmaReceiveTooSmall,
            Fault::TooManyReads => CloseReason::RdmaTooManyReads,
            Fault::CannotInvalidate => CloseReason::RdmaCannotInvalidate,
            Fault::Damaged => CloseReason::RdmaDamaged,
            Fault::Protocol => CloseReason::RdmaProtocol,
        },
    };
    (reason, ended.to_string())
}

const fn fail_reason(reason: FailReason) -> CloseReason {
    match reason {
        FailReason::CreditFlood => CloseReason::RdmaCreditFlood,
        FailReason::DuplicateXid => CloseReason::RdmaDuplicateXid,
        FailReason::ForeignInvalidation => CloseReason::RdmaForeignInvalidation,
        FailReason::StrayMessages => CloseReason::RdmaStrayMessages,
    }
}
