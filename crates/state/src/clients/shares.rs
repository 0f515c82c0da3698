//! How many slots each session may use, when there are many sessions (RFC 8881 §2.10.6.1, §18.46).
//!
//! All sessions have the same share of [`super::ClientLimits::slots_total_max`], rounded down to a power of two so that
//! it changes rarely. Clients hear of it as `sr_target_highest_slotid` of their next SEQUENCE, of which an idle one
//! sends some in each lease. The slot table enforces it once the client has shown that it saw it. One that has sent
//! nothing for a while is asked by CB_RECALL_SLOT ([`Clients::slot_recalls`]). What was negotiated is never exceeded.

use std::collections::BTreeSet;

use nfs4::{ClientId, SessionId};

use super::table::Clients;
use crate::{SLOTS_PER_SESSION_MAX, Session};

/// How long a client has sent nothing when it is asked for slots.
const IDLE_MS: u64 = 5_000;
/// Most sessions that are asked in one pass.
const RECALLS_MAX: usize = 16;

/// Slots that a session is to be asked for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SlotRecall {
    /// Whose.
    pub client: ClientId,
    /// The session, over which it is to be asked.
    pub session: SessionId,
    /// The highest slot that it is to keep.
    pub target_highest_slot: u32,
}

impl Clients {
    /// Sessions of idle clients that hold more slots than they should, each once for each change of its share. To be called about
    /// once a second.
    pub fn slot_recalls(&mut self, now_ms: u64) -> Vec<SlotRecall> {
        if self.slots_share == SLOTS_PER_SESSION_MAX {
            return Vec::new();
        }
        let clients = &self.clients;
        let is_idle = |id| {
            let sent_ms = clients.get(&id).map(|c| c.renewed_ms);
            sent_ms.is_some_and(|sent_ms| now_ms >= sent_ms.saturating_add(IDLE_MS))
        };
        let recall = |session: &mut Box<Session>| {
            let reached = is_idle(session.client()) && session.has_back_channel();
            let target = reached.then(|| session.slots.recall()).flatten();
            target.map(|target_highest_slot| SlotRecall {
                client: session.client(),
                session: session.id(),
                target_highest_slot,
            })
        };
        let recalls = self.sessions.values_mut().filter_map(recall);
        recalls.take(RECALLS_MAX).collect()
    }

    /// Sessions over these connections, to be asked for all their slots but one. They have made no requests for a
    /// while, and the transport lacks credits that the connections hold. They get the slots back as soon as they make
    /// requests.
    pub fn shrink_sessions(&mut self, connections: &BTreeSet<u64>) -> Vec<SlotRecall> {
        let over = connections.iter().flat_map(|id| self.bindings.of(*id));
        let over: BTreeSet<SessionId> = over.collect();
        let mut recalls = Vec::new();
        for id in over {
            let Some(session) = self.sessions.get_mut(&id) else {
                continue;
            };
            let recall = SlotRecall {
                target_highest_slot: session.slots.shrink(),
                client: session.client(),
                session: id,
            };
            if session.has_back_channel() {
                recalls.push(recall);
            }
        }
        recalls
    }

    fn fair_share(&self) -> u32 {
        let sessions_count = u32::try_from(self.sessions.len()).unwrap_or(u32::MAX);
        let share = self.limits.slots_total_max / sessions_count.max(1);
        let power = share.checked_ilog2().map_or(1, |log| 1 << log);
        power.min(SLOTS_PER_SESSION_MAX)
    }

    /// Brings every session to its current share, if that has changed.
    pub(super) fn share_slots(&mut self) {
        let share = self.fair_share();
        if share == self.slots_share {
            return;
        }
        self.slots_share = share;
        for session in self.sessions.values_mut() {
            session.slots.set_target(share - 1);
        }
    }

    /// Brings a new session to the share.
    pub(super) fn limit_slots(&mut self, id: SessionId) {
        if let Some(session) = self.sessions.get_mut(&id) {
            session.slots.set_target(self.slots_share - 1);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::{call, mount, table_with};
    use super::super::*;
    use crate::{BindRequest, BoundDirection};
    use nfs4::SessionId;
    use std::collections::BTreeSet;

    fn targets(t: &Clients, sessions: &[SessionId]) -> Vec<(u32, u32)> {
        let of = |id: &SessionId| {
            let slots = &t.session(*id).unwrap().slots;
            (slots.highest_target(), slots.highest_enforced())
        };
        sessions.iter().map(of).collect()
    }

    #[test]
    fn slots_shrink_as_sessions_come_and_grow_as_they_go() {
        let mut t = table_with(|limits| limits.slots_total_max = 16);
        let (_, a) = mount(&mut t, "a", 1, 0);
        let (_, b) = mount(&mut t, "b", 1, 0);
        // Eight were negotiated, and that is what two have.
        let both = [a.session, b.session];
        assert_eq!(targets(&t, &both), [(7, 7), (7, 7)]);
        call(&mut t, a.session, 1, 0);
        let (_, c) = mount(&mut t, "c", 1, 0);
        let all = [a.session, b.session, c.session];
        // A third of 16, rounded down. Enforced once the client has shown that it saw it.
        assert_eq!(targets(&t, &all), [(3, 7), (3, 7), (3, 7)]);
        call(&mut t, a.session, 2, 0);
        call(&mut t, a.session, 3, 0);
        assert_eq!(targets(&t, &all[..1]), [(3, 3)]);
        t.destroy_session(c.session, 1, 0).unwrap();
        let _none = t.expire(0, |_| true);
        assert_eq!(targets(&t, &both), [(7, 7), (7, 7)]);
    }

    #[test]
    fn only_idle_sessions_with_a_back_channel_are_asked_for_slots() {
        let mut t = table_with(|limits| limits.slots_total_max = 8);
        let (a, first) = mount(&mut t, "a", 1, 0);
        assert_eq!(t.slot_recalls(60_000), [], "there is enough for one");
        let (_, second) = mount(&mut t, "b", 1, 5_000);
        let ids = [first.session, second.session];
        for id in ids {
            let bound = t.bind(id, 7, BindRequest::Back, true);
            assert_eq!(bound, Ok(BoundDirection::Back));
        }
        assert_eq!(t.slot_recalls(4_999), []);
        let asked = SlotRecall {
            client: a,
            session: first.session,
            target_highest_slot: 3,
        };
        assert_eq!(t.slot_recalls(6_000), [asked]);
        assert_eq!(t.slot_recalls(6_000), [], "once");
        let later: Vec<_> = t.slot_recalls(10_000).iter().map(|r| r.session).collect();
        assert_eq!(later, [second.session]);
    }

    #[test]
    fn sessions_over_connections_that_lack_credits_shrink_until_they_make_requests() {
        let mut t = table_with(|_| {});
        let (a, first) = mount(&mut t, "a", 1, 0);
        let (_, second) = mount(&mut t, "b", 2, 0);
        let ids = [first.session, second.session];
        for (id, connection) in [(ids[0], 7), (ids[1], 8)] {
            t.bind(id, connection, BindRequest::Back, true).unwrap();
        }
        let asked = SlotRecall {
            client: a,
            session: ids[0],
            target_highest_slot: 0,
        };
        for _ in 0..2 {
            assert_eq!(t.shrink_sessions(&BTreeSet::from([7, 99])), [asked]);
        }
        assert_eq!(targets(&t, &ids), [(0, 7), (7, 7)]);
        // Half as many as give the slots back: the client shows that it saw the target.
        for seqid in 1..=8 {
            call(&mut t, ids[0], seqid, 0);
        }
        assert_eq!(targets(&t, &ids[..1]), [(0, 0)]);
        for seqid in 9..=16 {
            call(&mut t, ids[0], seqid, 0);
        }
        assert_eq!(targets(&t, &ids), [(7, 7), (7, 7)]);
    }

    #[test]
    fn every_session_keeps_a_slot() {
        let mut t = table_with(|limits| limits.slots_total_max = 1);
        let (_, a) = mount(&mut t, "a", 1, 0);
        let (_, b) = mount(&mut t, "b", 1, 0);
        assert_eq!(targets(&t, &[a.session, b.session]), [(0, 7), (0, 7)]);
        call(&mut t, b.session, 1, 0);
    }
}
