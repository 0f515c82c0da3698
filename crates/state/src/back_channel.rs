//! The slots of the back channel, with the server as the caller (RFC 8881 §2.10.6.3, §20.9).
//!
//! Owns sequence ids and which slots are busy. Does not own the calls: their sender keeps the bytes until the answer. A call
//! whose connection broke must be sent again under the same slot and sequence id, over the same session. Sequence ids survive
//! a change of connection; only a new session starts them anew.

/// Where to send a callback: the arguments of CB_SEQUENCE.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CallbackSlot {
    /// `csa_slotid`.
    pub slot: u32,
    /// `csa_sequenceid`.
    pub seqid: u32,
    /// `csa_highest_slotid`: the highest busy slot.
    pub highest_slot: u32,
}

/// How a callback ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CallbackOutcome {
    /// CB_SEQUENCE succeeded (whatever the later operations said): the sequence id is used up.
    Answered,
    /// CB_SEQUENCE failed without touching the slot, or the call was never sent: the sequence id is
    /// free for another call.
    NotExecuted,
    /// The connection broke before a reply: nobody knows. The slot waits for a retry.
    Lost,
    /// The client contradicts our sequence ids: the slot is of no more use.
    Fault,
}

/// ```text
///            acquire             release(Answered | NotExecuted)
///   Idle ──────────────► Busy ──────────────────────────────► Idle
///                       │    ▲  release(Lost)
///                       │    └──── retry ◄──── Lost
///                       └─ release(Fault) ──► Faulty
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum State {
    Idle,
    Busy,
    Lost,
    Faulty,
}

#[derive(Debug, Clone, Copy)]
struct Slot {
    /// Of the call under way, or of the next one when idle.
    seqid: u32,
    state: State,
}

/// The caller's slot table of one session.
#[derive(Debug)]
pub struct BackChannel {
    slots: Vec<Slot>,
    /// The client's own limit, which it may lower with each CB_SEQUENCE reply.
    highest_target: u32,
}

impl BackChannel {
    /// `slots_count` slots, possibly none; the first call of each has sequence id 1.
    #[must_use]
    pub fn new(slots_count: u32) -> Self {
        let slots_count = slots_count.min(crate::SLOTS_PER_SESSION_MAX);
        Self {
            slots: vec![
                Slot {
                    seqid: 1,
                    state: State::Idle
                };
                slots_count as usize
            ],
            highest_target: slots_count.saturating_sub(1),
        }
    }

    /// Takes the lowest free slot, or `None` when as many callbacks run as the client allows.
    pub fn acquire(&mut self) -> Option<CallbackSlot> {
        let limit = self.highest_target as usize + 1;
        let index = self
            .slots
            .iter()
            .take(limit)
            .position(|s| s.state == State::Idle)?;
        self.slots[index].state = State::Busy;
        Some(self.describe(index))
    }

    /// Takes the next call to be retried: send the same call again with these arguments.
    pub fn retry(&mut self) -> Option<CallbackSlot> {
        let index = self.slots.iter().position(|s| s.state == State::Lost)?;
        self.slots[index].state = State::Busy;
        Some(self.describe(index))
    }

    /// Takes the call of `slot` to be retried, if it was lost.
    pub fn retry_slot(&mut self, slot: u32) -> Option<CallbackSlot> {
        let entry = self.slots.get_mut(slot as usize)?;
        if entry.state != State::Lost {
            return None;
        }
        entry.state = State::Busy;
        Some(self.describe(slot as usize))
    }

    /// Ends the call on `slot`. A slot that is not busy is left alone: its reply came twice.
    pub fn release(&mut self, slot: u32, outcome: CallbackOutcome) {
        let Some(entry) = self.slots.get_mut(slot as usize) else {
            return;
        };
        if entry.state != State::Busy {
            return;
        }
        entry.state = match outcome {
            CallbackOutcome::Answered => {
                entry.seqid = entry.seqid.wrapping_add(1);
                State::Idle
            }
            CallbackOutcome::NotExecuted => State::Idle,
            CallbackOutcome::Lost => State::Lost,
            CallbackOutcome::Fault => State::Faulty,
        };
    }

    /// Takes the client's `csr_target_highest_slotid`.
    pub fn set_target(&mut self, highest: u32) {
        let last = u32::try_from(self.slots.len().saturating_sub(1)).unwrap_or(u32::MAX);
        self.highest_target = highest.min(last);
    }

    /// Callbacks under way, those that wait for a retry included.
    #[must_use]
    pub fn outstanding_count(&self) -> usize {
        self.slots
            .iter()
            .filter(|s| matches!(s.state, State::Busy | State::Lost))
            .count()
    }

    /// Whether a callback waits for a connection to be retried on.
    #[must_use]
    pub fn has_lost(&self) -> bool {
        self.slots.iter().any(|s| s.state == State::Lost)
    }

    /// Whether no slot works any more (`SEQ4_STATUS_BACKCHANNEL_FAULT`).
    #[must_use]
    pub fn is_faulty(&self) -> bool {
        !self.slots.is_empty() && self.slots.iter().all(|s| s.state == State::Faulty)
    }

    fn describe(&self, index: usize) -> CallbackSlot {
        let highest = self
            .slots
            .iter()
            .rposition(|s| s.state == State::Busy)
            .unwrap_or(index);
        CallbackSlot {
            slot: u32::try_from(index).unwrap_or(u32::MAX),
            seqid: self.slots[index].seqid,
            highest_slot: u32::try_from(highest).unwrap_or(u32::MAX),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn slots_count_up_and_run_out() {
        let mut back = BackChannel::new(2);
        let a = back.acquire().unwrap();
        let b = back.acquire().unwrap();
        assert_eq!((a.slot, a.seqid, a.highest_slot), (0, 1, 0));
        assert_eq!((b.slot, b.seqid, b.highest_slot), (1, 1, 1));
        assert_eq!(back.acquire(), None);
        back.release(0, CallbackOutcome::Answered);
        let c = back.acquire().unwrap();
        assert_eq!((c.slot, c.seqid, c.highest_slot), (0, 2, 1));
        back.release(0, CallbackOutcome::NotExecuted);
        assert_eq!(back.acquire().unwrap().seqid, 2);
        assert_eq!(BackChannel::new(0).acquire(), None);
    }

    #[test]
    fn a_lost_call_is_retried_under_its_own_sequence_id() {
        let mut back = BackChannel::new(1);
        back.acquire().unwrap();
        back.release(0, CallbackOutcome::Lost);
        assert!(back.has_lost());
        assert_eq!(back.outstanding_count(), 1);
        assert_eq!(back.acquire(), None);
        let again = back.retry().unwrap();
        assert_eq!((again.slot, again.seqid), (0, 1));
        assert_eq!(back.retry(), None);
        back.release(0, CallbackOutcome::Answered);
        // A second reply to the same call changes nothing.
        back.release(0, CallbackOutcome::Answered);
        assert_eq!(back.acquire().unwrap().seqid, 2);
    }

    #[test]
    fn faulty_slots_leave_service() {
        let mut back = BackChannel::new(2);
        back.acquire().unwrap();
        back.release(0, CallbackOutcome::Fault);
        assert!(!back.is_faulty());
        assert_eq!(back.acquire().unwrap().slot, 1);
        back.release(1, CallbackOutcome::Fault);
        assert!(back.is_faulty());
        assert_eq!(back.acquire(), None);
    }

    #[test]
    fn the_clients_target_bounds_us() {
        let mut back = BackChannel::new(4);
        back.set_target(0);
        back.acquire().unwrap();
        assert_eq!(back.acquire(), None);
        back.set_target(99);
        assert_eq!(back.acquire().unwrap().slot, 1);
    }
}
