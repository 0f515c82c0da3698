//! The slot table and reply cache of a session's fore channel (RFC 8881 §2.10.6.1).
//!
//! Owns: what each slot last executed and the reply it gave, the enforced and the target highest
//! slot. Does not own: the encoding of a reply, which is opaque bytes without transport framing, so
//! that a retry may come over another transport. Entry points: [`SlotTable::sequence`], then
//! [`SlotTable::complete`] for each [`Verdict::New`].
//!
//! Memory: 56 bytes for each slot up to the highest that was used, plus the cached replies, at most slots ×
//! `response_cached_bytes_max`. [`crate::Clients`] bounds what all tables together keep, and says how much room there
//! is. Without room a table keeps the replies of the slots that its client was asked to use, when that client wants it,
//! and no others.

use std::sync::Arc;

/// The arguments of SEQUENCE that concern the slot table (RFC 8881 §18.46.1).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Sequence {
    /// `sa_slotid`.
    pub slot: u32,
    /// `sa_sequenceid`.
    pub seqid: u32,
    /// `sa_highest_slotid`: the highest slot with a request outstanding.
    pub highest_slot: u32,
    /// `sa_cachethis`.
    pub cache_this: bool,
    /// A hash of the request after its RPC header, to tell a retry from another request that reuses
    /// the slot and sequence id.
    pub fingerprint: u64,
}

/// Permission to execute one request. Give it back to [`SlotTable::complete`] whatever happens:
/// until then the slot is busy.
#[derive(Debug, PartialEq, Eq)]
#[must_use = "a slot stays busy until its token is completed"]
pub struct SlotToken {
    slot: u32,
    seqid: u32,
    cache_this: bool,
    /// Room that is kept for the reply.
    reserved_bytes: u32,
}

impl SlotToken {
    /// The slot.
    #[must_use]
    pub fn slot(&self) -> u32 {
        self.slot
    }

    /// Whether the client asked for the reply to be cached: a reply that may not fit must then
    /// become `NFS4ERR_REP_TOO_BIG_TO_CACHE` before its operation runs.
    #[must_use]
    pub fn cache_this(&self) -> bool {
        self.cache_this
    }
}

/// What to do with a request.
#[derive(Debug, PartialEq, Eq)]
pub enum Verdict {
    /// Execute it.
    New(SlotToken),
    /// A retry: send this reply again.
    Replay(Arc<[u8]>),
    /// A retry of an executed request whose reply was not kept: `NFS4ERR_RETRY_UNCACHED_REP` at the
    /// operation after SEQUENCE.
    Uncached,
    /// A retry of a request that still runs: `NFS4ERR_DELAY` (RFC 8881 §2.10.6.2).
    InProgress,
    /// `NFS4ERR_SEQ_MISORDERED`.
    Misordered,
    /// `NFS4ERR_BADSLOT`: beyond those that may be used, or retired.
    BadSlot,
    /// `NFS4ERR_BAD_HIGH_SLOT`.
    BadHighSlot,
    /// `NFS4ERR_SEQ_FALSE_RETRY`: another request under a used slot and sequence id.
    FalseRetry,
}

/// What a slot last did.
///
/// ```text
///            sequence (next seqid)          complete(reply)
///  Unused ───────────────────────► Running ────────────────► Cached ──┐
///    ▲                              ▲  │  complete(none)              │ next seqid
///    │ retired                      │  └──────────────► Uncached ─────┤
///    └──────────────────────────────┴─────────────────────────────────┘
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
enum Last {
    /// Nothing since creation or since the slot was retired; stands for the contrived
    /// SEQ_MISORDERED reply of RFC 8881 §18.36.4.
    Unused,
    Running,
    Uncached,
    Cached(Arc<[u8]>),
}

#[derive(Debug, Clone)]
struct Slot {
    seqid: u32,
    fingerprint: u64,
    last: Last,
    /// The target's generation when the last reply was made: a next request on this slot proves
    /// that the client saw that target.
    reply_generation: u32,
    /// Retired once and lent again: the client may start it at 1 or go on counting.
    regrown: bool,
}

/// A slot that was never used.
const FRESH: Slot = Slot {
    seqid: 0,
    fingerprint: 0,
    last: Last::Unused,
    reply_generation: 0,
    regrown: false,
};

/// Requests of a client that was asked for all its slots but one after which it may use them again.
const REQUESTS_UNTIL_REGROWN: u32 = 16;

/// A target below that of the others, for as long as the client makes few requests.
#[derive(Debug, Clone, Copy)]
struct Shrunk {
    /// What it is without.
    target: u32,
    requests: u32,
}

/// The slots of one fore channel.
#[derive(Debug)]
pub struct SlotTable {
    /// Those up to the highest that was used.
    slots: Vec<Slot>,
    /// Those that were negotiated.
    slots_count: u32,
    shrunk: Option<Shrunk>,
    highest_enforced: u32,
    highest_target: u32,
    target_generation: u32,
    /// The target that was last asked for by CB_RECALL_SLOT.
    recalled_generation: u32,
    running_count: u32,
    cached_bytes: u64,
    reserved_bytes: u64,
    cached_reply_bytes_max: u32,
}

impl SlotTable {
    /// A table of `slots_count` slots (at least one) that keeps replies up to
    /// `cached_reply_bytes_max` bytes.
    #[must_use]
    pub fn new(slots_count: u32, cached_reply_bytes_max: u32) -> Self {
        let slots_count = slots_count.clamp(1, crate::SLOTS_PER_SESSION_MAX);
        Self {
            slots: Vec::new(),
            slots_count,
            shrunk: None,
            highest_enforced: slots_count - 1,
            highest_target: slots_count - 1,
            target_generation: 0,
            recalled_generation: 0,
            running_count: 0,
            cached_bytes: 0,
            reserved_bytes: 0,
            cached_reply_bytes_max,
        }
    }

    /// Judges a request. An answer other than `New` changes nothing (RFC 8881 §2.10.6.1.2), with one exception.
    ///
    /// `room_bytes` is what may still be kept in all tables. A client may want a reply kept for which there is no room, on a slot above
    /// the target. It gets `BadSlot`, and the slot is retired. By the next sequence id the client had acknowledged the earlier reply
    /// (§2.10.6.1, on requesters that are intransigent).
    pub fn sequence(&mut self, request: &Sequence, room_bytes: u64) -> Verdict {
        if request.slot > self.highest_enforced {
            return Verdict::BadSlot;
        }
        if self.slots.len() <= request.slot as usize {
            let more = request.slot as usize + 1 - self.slots.len();
            self.slots.reserve_exact(more);
            self.slots.resize(self.slots.len() + more, FRESH);
        }
        let slot = &self.slots[request.slot as usize];
        if request.seqid == slot.seqid && slot.last != Last::Unused {
            return Self::judge_retry(slot, request.fingerprint);
        }
        let next = request.seqid == slot.seqid.wrapping_add(1);
        let restarted = slot.regrown && slot.last == Last::Unused && request.seqid == 1;
        if !(next || restarted) || slot.last == Last::Running {
            return Verdict::Misordered;
        }
        if request.highest_slot > self.highest_enforced {
            return Verdict::BadHighSlot;
        }
        let is_owed = request.slot <= self.highest_target;
        if request.cache_this && !is_owed && u64::from(self.cached_reply_bytes_max) > room_bytes {
            self.retire(request.slot as usize);
            return Verdict::BadSlot;
        }
        let saw_target = slot.last != Last::Unused
            && !slot.regrown
            && slot.reply_generation == self.target_generation;
        let reserved_bytes = self.start(request);
        if saw_target && request.highest_slot <= self.highest_target {
            self.retire_above_target();
        }
        Verdict::New(SlotToken {
            slot: request.slot,
            seqid: request.seqid,
            cache_this: request.cache_this,
            reserved_bytes,
        })
    }

    fn judge_retry(slot: &Slot, fingerprint: u64) -> Verdict {
        if slot.fingerprint != fingerprint {
            return Verdict::FalseRetry;
        }
        match &slot.last {
            Last::Unused => Verdict::Misordered,
            Last::Running => Verdict::InProgress,
            Last::Uncached => Verdict::Uncached,
            Last::Cached(reply) => Verdict::Replay(Arc::clone(reply)),
        }
    }

    /// Takes the slot. Returns the room that is reserved for the reply.
    fn start(&mut self, request: &Sequence) -> u32 {
        let slot = &mut self.slots[request.slot as usize];
        if let Last::Cached(reply) = &slot.last {
            self.cached_bytes -= reply.len() as u64;
        }
        slot.seqid = request.seqid;
        slot.fingerprint = request.fingerprint;
        slot.last = Last::Running;
        slot.regrown = false;
        self.running_count += 1;
        if let Some(shrunk) = &mut self.shrunk {
            shrunk.requests += 1;
            if shrunk.requests == REQUESTS_UNTIL_REGROWN {
                let target = shrunk.target;
                self.shrunk = None;
                self.set_target(target);
            }
        }
        let wanted = u32::from(request.cache_this) * self.cached_reply_bytes_max;
        self.reserved_bytes += u64::from(wanted);
        wanted
    }

    /// Ends the request of `token`. A reply of at most the negotiated size is kept for retries. The slot is "executed,
    /// not cached" after `None` and after a longer reply. A reply that the client did not ask to keep is dropped in two
    /// cases. Its slot should no longer be used, or all tables are full. Returns whether the reply is kept.
    ///
    /// # Panics
    /// When the token is of another table: a bug of the caller.
    pub fn complete(
        &mut self,
        token: SlotToken,
        reply: Option<Arc<[u8]>>,
        room_bytes: u64,
    ) -> bool {
        let slot = &mut self.slots[token.slot as usize];
        assert!(
            slot.last == Last::Running,
            "a token is completed once, by its own table"
        );
        assert!(
            slot.seqid == token.seqid,
            "a running slot keeps its sequence id"
        );
        slot.reply_generation = self.target_generation;
        self.running_count -= 1;
        self.reserved_bytes -= u64::from(token.reserved_bytes);
        let fits = |reply: &[u8]| reply.len() as u64 <= room_bytes;
        let is_free = |reply: &[u8]| token.slot <= self.highest_target && fits(reply);
        match reply {
            Some(reply)
                if (token.cache_this || is_free(&reply))
                    && reply.len() as u64 <= u64::from(self.cached_reply_bytes_max) =>
            {
                self.cached_bytes += reply.len() as u64;
                slot.last = Last::Cached(reply);
                true
            }
            _ => {
                slot.last = Last::Uncached;
                false
            }
        }
    }

    /// `sr_highest_slotid`: the highest slot that the next request may use.
    #[must_use]
    pub fn highest_enforced(&self) -> u32 {
        self.highest_enforced
    }

    /// `sr_target_highest_slotid`: the highest slot that we would like to see used.
    #[must_use]
    pub fn highest_target(&self) -> u32 {
        self.highest_target
    }

    /// Wants the client to use slots up to `highest` (within those negotiated). A raise holds at
    /// once. A lower value is enforced only when the client has shown that it saw it and that it
    /// has nothing outstanding above (RFC 8881 §2.10.6.1).
    pub fn set_target(&mut self, highest: u32) {
        let highest = highest.min(self.slots_count - 1);
        if let Some(shrunk) = &mut self.shrunk {
            shrunk.target = highest;
            return;
        }
        self.aim(highest);
    }

    fn aim(&mut self, highest: u32) {
        if highest == self.highest_target {
            return;
        }
        self.highest_target = highest;
        self.target_generation = self.target_generation.wrapping_add(1);
        self.highest_enforced = self.highest_enforced.max(highest);
    }

    /// Wants the client to use one slot until it makes requests again: what it may use counts beyond the session, and others lack it.
    /// Returns the target to ask for by CB_RECALL_SLOT.
    pub fn shrink(&mut self) -> u32 {
        let target = self.highest_target;
        let shrunk = self.shrunk.get_or_insert(Shrunk {
            target,
            requests: 0,
        });
        shrunk.requests = 0;
        self.aim(0);
        0
    }

    /// The target to ask for by CB_RECALL_SLOT, when the client may use more slots and was not asked for this target
    /// yet. The client's answer to it enforces nothing. A request that it sent before may still be on its way, and
    /// would speak of less than is outstanding by then. The SEQUENCE that it sends on it (RFC 8881 §20.8.3) is answered
    /// with the target.
    pub fn recall(&mut self) -> Option<u32> {
        let wanted = self.highest_enforced > self.highest_target
            && self.recalled_generation != self.target_generation;
        wanted.then(|| {
            self.recalled_generation = self.target_generation;
            self.highest_target
        })
    }

    /// Forgets the slots above the target. The client has received their replies: the highest slot
    /// of its request says that nothing above is outstanding, retries included.
    fn retire_above_target(&mut self) {
        let highest_running = self
            .slots
            .iter()
            .rposition(|s| s.last == Last::Running)
            .and_then(|i| u32::try_from(i).ok())
            .unwrap_or(0);
        let keep = self.highest_target.max(highest_running);
        for slot in keep as usize + 1..self.slots.len() {
            self.retire(slot);
        }
        self.highest_enforced = self.highest_enforced.min(keep);
    }

    /// Forgets what a slot did, which its client needs no more.
    fn retire(&mut self, slot: usize) {
        let slot = &mut self.slots[slot];
        if let Last::Cached(reply) = &slot.last {
            self.cached_bytes -= reply.len() as u64;
        }
        slot.last = Last::Unused;
        slot.regrown = true;
    }

    /// Whether the client has used the slot again since the request with this sequence id, or the slot is retired. The
    /// client then has the reply, or does not wait for it any more.
    #[must_use]
    pub fn has_moved_on(&self, slot: u32, seqid: u32) -> bool {
        self.slots
            .get(slot as usize)
            .is_none_or(|s| s.seqid != seqid || s.last == Last::Unused)
    }

    /// Requests that run now.
    #[must_use]
    pub fn running_count(&self) -> u32 {
        self.running_count
    }

    /// Bytes of replies held.
    #[must_use]
    pub fn cached_bytes(&self) -> u64 {
        self.cached_bytes
    }

    /// Bytes of replies held, and of those that are to be held when the requests that run now end.
    #[must_use]
    pub fn held_bytes(&self) -> u64 {
        self.cached_bytes + self.reserved_bytes
    }
}

#[cfg(test)]
#[path = "slots_tests.rs"]
mod tests;
