//! Calls of ours: what they offer to the peer, and how they end.
//!
//! ```text
//!   Waiting --credit--> Exposing --all exposed--> Queued --taken--> Sent --reply--> Done
//!                          |                        |                                ^
//!                          +---- not exposed -------+---------- cancelled -----------+
//! ```
//! A call leaves the table when it is done and nothing of it is exposed. One that was cancelled after
//! it was sent gives its memory back at once, but keeps its credit until the reply comes.

use super::interface::{
    CallError, CallRefused, CallReply, Event, Exposure, RegionId, ReplyRoom, SendWork,
};
use super::outgoing::{Outgoing, Phase, Region};
use super::plan::{Role, regions};
use super::state::{Engine, Queued};
use crate::header::{Body, Header, Segment, encode_header};
use crate::message::Message;
use bytes::Bytes;

impl Engine {
    /// Sends a call, now or when there is a credit. [`Event::Reply`] follows, unless it is cancelled.
    ///
    /// # Errors
    /// [`CallRefused`]; nothing was changed.
    pub fn call(&mut self, message: Message, room: &ReplyRoom) -> Result<(), CallRefused> {
        if self.ended {
            return Err(CallRefused::Ended);
        }
        let xid = message.xid();
        if self.outgoing.contains_key(&xid) {
            return Err(CallRefused::DuplicateXid);
        }
        if self.waiting.len() >= self.config.calls_waiting_max {
            return Err(CallRefused::Full);
        }
        let call = Outgoing {
            plan: self.plan(&message, room)?,
            message,
            regions: Vec::new(),
            phase: Phase::Waiting,
            wanted: true,
            invalidations: 0,
            sent_behind: 0,
            outcome: None,
        };
        self.outgoing.insert(xid, call);
        self.waiting.push_back(xid);
        self.start_waiting();
        if self.waiting.back() == Some(&xid) {
            self.counters.credit_stalls += 1;
        }
        Ok(())
    }

    /// Nobody waits for the reply any more. Its memory may be used again once each
    /// [`SendWork::Invalidate`] for it is complete; a peer that then still touches it loses the connection.
    pub fn cancel(&mut self, xid: u32) {
        let Some(call) = self.outgoing.get_mut(&xid) else {
            return;
        };
        call.wanted = false;
        match call.phase {
            _ if self.ended => {}
            Phase::Waiting => {
                self.outgoing.remove(&xid);
                self.waiting.retain(|waiting| *waiting != xid);
            }
            Phase::Queued => {
                self.work
                    .retain(|work| !matches!(work, Queued::Call { xid: x, .. } if *x == xid));
                self.done(xid, Err(CallError::Lost));
            }
            Phase::Sent => self.release(xid),
            // Ends as soon as its regions are known, or has ended.
            Phase::Exposing { .. } | Phase::Done => {}
        }
    }

    /// A region is exposed as these segments: at most `region_segments_max`, together as long as the
    /// region.
    ///
    /// # Panics
    /// When the region was not asked for, or the segments are not as said.
    pub fn exposed(&mut self, region: RegionId, segments: Vec<Segment>) {
        if self.ended {
            return;
        }
        assert!(
            segments.len() <= self.config.region_segments_max,
            "a region has at most region_segments_max segments"
        );
        let region_bytes = self.region(region).bytes;
        assert_eq!(
            crate::chunk::segments_bytes(&segments),
            u64::from(region_bytes),
            "the segments are as long as the region"
        );
        let found = self.region(region);
        for segment in &segments {
            if !found.live.contains(&segment.handle) {
                found.live.push(segment.handle);
            }
        }
        found.segments = segments;
        self.region_answered(region.xid);
    }

    /// A region could not be exposed.
    ///
    /// # Panics
    /// When the region was not asked for.
    pub fn expose_failed(&mut self, region: RegionId) {
        if self.ended {
            return;
        }
        self.region(region).segments.clear();
        let call = self.outgoing.get_mut(&region.xid);
        call.expect("found above").outcome = Some(Err(CallError::NotExposed));
        self.region_answered(region.xid);
    }

    /// A [`SendWork::Invalidate`] is complete.
    ///
    /// # Panics
    /// When none was asked for.
    pub fn invalidated(&mut self, region: RegionId) {
        if self.ended {
            return;
        }
        let call = self.outgoing.get_mut(&region.xid);
        let call = call.expect("a call stays until its memory is its own again");
        call.invalidations -= 1;
        self.settle(region.xid);
    }

    /// Starts calls while there are credits.
    pub(super) fn start_waiting(&mut self) {
        while !self.waiting.is_empty() && self.requester.take() {
            let xid = self.waiting.pop_front().expect("one waits");
            self.start(xid);
        }
    }

    fn start(&mut self, xid: u32) {
        let call = self.outgoing.get_mut(&xid).expect("a waiting call exists");
        let regions = regions(&call.message, &call.plan);
        call.phase = Phase::Exposing {
            missing: regions.len(),
        };
        for (index, (role, memory)) in (0..).zip(regions) {
            let bytes = match &memory {
                Exposure::Source(pieces) => pieces.iter().map(Bytes::len).sum(),
                Exposure::Sink { bytes } => *bytes as usize,
            };
            call.regions.push(Region {
                role,
                bytes: u32::try_from(bytes).expect("a record is below 2^32 bytes"),
                segments: Vec::new(),
                live: Vec::new(),
            });
            let region = RegionId { xid, index };
            self.events.push_back(Event::Expose { region, memory });
        }
        self.send_if_exposed(xid);
    }

    fn region(&mut self, region: RegionId) -> &mut Region {
        let call = self.outgoing.get_mut(&region.xid);
        let call = call.expect("a call stays until its regions are known");
        &mut call.regions[region.index as usize]
    }

    fn region_answered(&mut self, xid: u32) {
        let call = self.outgoing.get_mut(&xid).expect("found by the caller");
        let Phase::Exposing { missing } = &mut call.phase else {
            panic!("a region was exposed twice");
        };
        *missing -= 1;
        self.send_if_exposed(xid);
    }

    fn send_if_exposed(&mut self, xid: u32) {
        let call = self.outgoing.get_mut(&xid).expect("found by the caller");
        if call.phase != (Phase::Exposing { missing: 0 }) {
            return;
        }
        if !call.wanted || call.outcome.is_some() {
            self.done(xid, Err(CallError::NotExposed));
            return;
        }
        call.phase = Phase::Queued;
        let lists = call.lists();
        let mut stream = Vec::new();
        let body = if call.plan.long {
            Body::NoMsg(lists)
        } else {
            let reduced = |i: usize| call.plan.reduced.contains(&i);
            call.message.stream(reduced, &mut stream);
            Body::Msg(lists)
        };
        let header = encode_header(&Header {
            xid,
            credits: 0,
            body,
        });
        self.work.push_back(Queued::Call {
            xid,
            header,
            stream,
        });
    }

    /// The Send of a call was taken.
    pub(super) fn sent(&mut self, xid: u32) {
        let call = self.outgoing.get_mut(&xid).expect("a queued call exists");
        call.phase = Phase::Sent;
        call.sent_behind = self.responder.answered();
        self.unanswered += 1;
        self.counters.calls_out += 1;
        for region in &call.regions {
            if matches!(region.role, Role::Read { .. }) {
                self.counters.read_chunks_out += 1;
                self.counters.read_chunk_bytes_out += u64::from(region.bytes);
            }
        }
        if !call.plan.long {
            let reduced = |i: usize| call.plan.reduced.contains(&i);
            self.counters.payload_inline_bytes_out += call.message.kept_payload_bytes(reduced);
        }
    }

    /// Nothing more happens to a call but that its memory becomes its own again. Its credit is free.
    pub(super) fn done(&mut self, xid: u32, outcome: Result<CallReply, CallError>) {
        let call = self.outgoing.get_mut(&xid).expect("found by the caller");
        if call.phase == Phase::Sent {
            self.unanswered -= 1;
        }
        call.phase = Phase::Done;
        call.outcome.get_or_insert(outcome);
        self.requester.give_back();
        self.release(xid);
        self.settle(xid);
        self.start_waiting();
    }

    /// Asks for the end of the peer's access to what is left of a call's memory.
    fn release(&mut self, xid: u32) {
        let call = self.outgoing.get_mut(&xid).expect("found by the caller");
        for (index, region) in (0..).zip(&mut call.regions) {
            for handle in std::mem::take(&mut region.live) {
                let region = RegionId { xid, index };
                let work = SendWork::Invalidate { region, handle };
                self.work.push_back(Queued::Other(work));
                call.invalidations += 1;
            }
        }
    }

    fn settle(&mut self, xid: u32) {
        let call = self.outgoing.get(&xid).expect("found by the caller");
        if call.phase != Phase::Done || call.invalidations > 0 {
            return;
        }
        let call = self.outgoing.remove(&xid).expect("found above");
        if call.wanted {
            let outcome = call.outcome.expect("a call is done with an outcome");
            self.events.push_back(Event::Reply { xid, outcome });
        }
    }
}
