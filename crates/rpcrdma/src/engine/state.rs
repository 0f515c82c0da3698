//! The state of an engine, and what it is asked.

use std::collections::{BTreeMap, VecDeque};

use bytes::Bytes;

use super::credits::{Requester, Responder};
use super::incoming::Incoming;
use super::interface::{CallError, EngineConfig, Event, SendWork};
use super::outgoing::Outgoing;
use crate::chunk::{ReassembleError, RecordPlan};
use crate::counters::{Counters, DiscardReason, FailReason};
use crate::credit_pool::CreditAccount;
use crate::header::CREDITS_AT;
use crate::message::pieces_bytes;
use crate::private_data::PrivateData;

/// Most messages that belong to no call and no credit before the connection fails.
pub const STRAY_MESSAGES_MAX: u32 = 64;

/// What waits to be taken as [`SendWork`]. Headers of Sends get their credits at the last moment.
#[derive(Debug)]
pub(super) enum Queued {
    Call {
        xid: u32,
        header: Vec<u8>,
        stream: Vec<Bytes>,
    },
    Reply {
        header: Vec<u8>,
        stream: Vec<Bytes>,
        invalidate: Option<u32>,
    },
    Other(SendWork),
}

/// The engine of one connection.
#[derive(Debug)]
pub struct Engine {
    pub(super) config: EngineConfig,
    pub(super) ended: bool,
    pub(super) requester: Requester,
    pub(super) responder: Responder,
    /// Calls of ours by XID, at most `credits_requested` and `calls_waiting_max`.
    pub(super) outgoing: BTreeMap<u32, Outgoing>,
    /// Those of them that have no credit yet, in order.
    pub(super) waiting: VecDeque<u32>,
    /// Those of them that were sent and not answered.
    pub(super) unanswered: u32,
    /// Calls of the peer by XID, bounded by its credits.
    pub(super) incoming: BTreeMap<u32, Incoming>,
    /// Those of them that wait until other RDMA Reads are complete, in order.
    pub(super) pulls_waiting: VecDeque<(u32, RecordPlan)>,
    pub(super) read_bytes: u64,
    strays: u32,
    pub(super) work: VecDeque<Queued>,
    pub(super) events: VecDeque<Event>,
    pub(super) counters: Counters,
}

impl Engine {
    /// An engine at the start of a connection.
    #[must_use]
    pub fn new(mut config: EngineConfig) -> Self {
        // The peer knows our sizes only as far as the private data can say them.
        config.own = PrivateData::decode(&config.own.encode());
        Self {
            ended: false,
            requester: Requester::new(config.credits_requested),
            responder: Responder::new(config.grant, config.overrun),
            outgoing: BTreeMap::new(),
            waiting: VecDeque::new(),
            unanswered: 0,
            incoming: BTreeMap::new(),
            pulls_waiting: VecDeque::new(),
            read_bytes: 0,
            strays: 0,
            work: VecDeque::new(),
            events: VecDeque::new(),
            counters: Counters::default(),
            config,
        }
    }

    /// The next thing for this host.
    pub fn next_event(&mut self) -> Option<Event> {
        self.events.pop_front()
    }

    /// The next thing for the send queue. Take it only if there is room for it.
    pub fn next_work(&mut self) -> Option<SendWork> {
        Some(match self.work.pop_front()? {
            Queued::Call {
                xid,
                header,
                stream,
            } => {
                self.sent(xid);
                let credits = self.requester.requested();
                self.send(header, credits, stream, None)
            }
            Queued::Reply {
                header,
                stream,
                invalidate,
            } => {
                let credits = self.responder.answer();
                self.counters.grants_short = self.responder.short();
                self.counters.replies_out += 1;
                self.counters.invalidations_sent += u64::from(invalidate.is_some());
                self.send(header, credits, stream, invalidate)
            }
            Queued::Other(work) => {
                self.count(&work);
                work
            }
        })
    }

    /// Whether [`Engine::next_work`] has something.
    #[must_use]
    pub fn has_work(&self) -> bool {
        !self.work.is_empty()
    }

    /// Receives that must be posted now so that no message of the peer finds none. They are for calls that its credits
    /// allow, and for replies to ours, but for those that are [`Engine::excused`]. 0 once the connection has ended.
    #[must_use]
    pub fn receives(&self) -> u32 {
        if self.ended {
            return 0;
        }
        let calls = u32::try_from(self.responder.expected()).unwrap_or(u32::MAX);
        calls.saturating_add(self.unanswered)
    }

    /// Messages that may come beyond [`Engine::receives`] where grants are lent, without the peer having broken a rule.
    /// They are the overrun, and, where the provider does not hold back, calls that it had begun before it heard of a
    /// lower grant. 0 once the connection has ended.
    #[must_use]
    pub fn excused(&self) -> u32 {
        if self.ended {
            return 0;
        }
        u32::try_from(self.responder.excused()).unwrap_or(u32::MAX)
    }

    /// Grants are lent from now on: at most [`EngineConfig::grant`], as many as the peer makes use of and the pool has. To be said
    /// before the connection begins. The overrun gets no receives: the provider holds back what goes beyond [`Engine::receives`], or
    /// it does not, and lets through what is [`Engine::excused`].
    #[must_use]
    pub fn lending(mut self, account: CreditAccount, holds_back: bool) -> Self {
        self.responder.lend(account, holds_back);
        self
    }

    /// Sets the credits that the next replies grant: 1 to [`CREDITS_MAX`]. What older grants allow stays
    /// allowed until enough replies have left, or the peer has shown that it goes by a newer one; see [`Engine::receives`].
    pub fn set_grant(&mut self, grant: u32) {
        self.responder.set_grant(grant);
    }

    /// Calls of ours that may be outstanding now, and that are.
    #[must_use]
    pub fn credits(&self) -> (u32, u32) {
        (self.requester.limit(), self.requester.in_use())
    }

    /// Calls that the peer may have outstanding: those that came and have no reply, and those that it may still send.
    #[must_use]
    pub fn calls_allowed(&self) -> u32 {
        self.responder.outstanding()
    }

    /// Gives back room for what is not there: nothing is expected soon.
    pub fn rest(&mut self) {
        if self.work.is_empty() && self.events.is_empty() {
            self.work = VecDeque::new();
            self.events = VecDeque::new();
        }
        // Empty maps keep a node.
        if self.incoming.is_empty() {
            self.incoming = BTreeMap::new();
        }
        if self.outgoing.is_empty() {
            self.outgoing = BTreeMap::new();
        }
    }

    /// Calls of the peer that have no reply yet.
    #[must_use]
    pub fn calls_in_progress(&self) -> usize {
        self.incoming.len()
    }

    /// Calls of ours that have no reply yet, those without a credit included.
    #[must_use]
    pub fn calls_outstanding(&self) -> usize {
        self.outgoing.len()
    }

    /// What was counted so far.
    #[must_use]
    pub const fn counters(&self) -> &Counters {
        &self.counters
    }

    /// [`crate::reassemble`], counted.
    ///
    /// # Errors
    /// [`ReassembleError`].
    pub fn reassemble(
        &mut self,
        reduced: &[u8],
        chunks: &[&[u8]],
        locate: impl FnMut(&[u8], usize) -> Option<usize>,
    ) -> Result<Vec<u8>, ReassembleError> {
        let record = crate::chunk::reassemble(reduced, chunks, locate)?;
        let bytes = chunks.iter().map(|c| c.len() as u64).sum::<u64>();
        self.counters.payload_reassembled_bytes += bytes;
        Ok(record)
    }

    /// The connection is gone: every call of ours ends with [`CallError::Lost`], every call of the peer
    /// is forgotten.
    pub fn lost(&mut self) {
        self.end();
        self.waiting.clear();
        for (xid, call) in std::mem::take(&mut self.outgoing) {
            if call.is_wanted() {
                let outcome = Err(CallError::Lost);
                self.events.push_back(Event::Reply { xid, outcome });
            }
        }
    }

    pub(super) fn fail(&mut self, reason: FailReason) {
        self.end();
        self.events.push_back(Event::Failed(reason));
    }

    fn end(&mut self) {
        self.ended = true;
        self.work.clear();
        self.incoming.clear();
        self.pulls_waiting.clear();
        // What asks for more is void; what tells of the past stays.
        self.events
            .retain(|event| matches!(event, Event::Reply { .. } | Event::Failed(_)));
    }

    pub(super) fn discard(&mut self, reason: DiscardReason) {
        self.counters.discarded(reason);
        self.strays += 1;
        if self.strays > STRAY_MESSAGES_MAX {
            self.fail(FailReason::StrayMessages);
        }
    }

    /// Most bytes of a Send of ours.
    pub(super) fn send_bytes_max(&self) -> usize {
        self.config
            .own
            .send_bytes
            .min(self.config.peer.receive_bytes) as usize
    }

    /// Most bytes of a Send of the peer.
    #[must_use]
    pub fn receive_bytes_max(&self) -> u32 {
        let EngineConfig { own, peer, .. } = &self.config;
        own.receive_bytes.min(peer.send_bytes)
    }

    fn send(
        &mut self,
        mut header: Vec<u8>,
        credits: u32,
        stream: Vec<Bytes>,
        invalidate: Option<u32>,
    ) -> SendWork {
        header[CREDITS_AT..CREDITS_AT + 4].copy_from_slice(&credits.to_be_bytes());
        let mut data = Vec::with_capacity(stream.len() + 1);
        data.push(Bytes::from(header));
        data.extend(stream);
        self.counters.sends += 1;
        self.counters.inline_bytes_out += pieces_bytes(&data);
        SendWork::Send {
            data,
            invalidate,
            receives: self.receives(),
        }
    }

    fn count(&mut self, work: &SendWork) {
        match work {
            SendWork::Send { .. } => {}
            SendWork::Write { .. } | SendWork::WriteHeld { .. } => self.counters.writes += 1,
            SendWork::Pull { placement, .. } => self.counters.reads += placement.pulls.len() as u64,
            SendWork::Invalidate { .. } => self.counters.invalidations_local += 1,
        }
    }
}
