//! Goal: every verdict of RFC 8881 §18.46.3 and §2.10.6.1, and exactly-once execution under a
//! network that loses, repeats and reorders. Method: tables, then a two-party model.

use super::*;
use proptest::prelude::*;

/// Nobody else keeps replies.
const ROOM: u64 = u64::MAX;

fn request(slot: u32, seqid: u32) -> Sequence {
    Sequence {
        slot,
        seqid,
        highest_slot: slot,
        cache_this: true,
        fingerprint: u64::from(seqid),
    }
}

fn reply(text: &str) -> Option<Arc<[u8]>> {
    Some(Arc::from(text.as_bytes()))
}

fn run(table: &mut SlotTable, slot: u32, seqid: u32) {
    match table.sequence(&request(slot, seqid), ROOM) {
        Verdict::New(token) => {
            table.complete(token, reply("r"), ROOM);
        }
        other => panic!("slot {slot} seqid {seqid}: {other:?}"),
    }
}

#[test]
fn a_fresh_slot_takes_only_seqid_one() {
    let mut table = SlotTable::new(2, 100);
    for seqid in [0, 2, 3, u32::MAX] {
        assert_eq!(
            table.sequence(&request(0, seqid), ROOM),
            Verdict::Misordered
        );
    }
    run(&mut table, 0, 1);
    assert_eq!(
        table.sequence(&request(1, 2), ROOM),
        Verdict::Misordered,
        "slots are apart"
    );
}

#[test]
fn retries_are_told_apart() {
    let mut table = SlotTable::new(1, 100);
    let Verdict::New(token) = table.sequence(&request(0, 1), ROOM) else {
        panic!()
    };
    assert_eq!(table.sequence(&request(0, 1), ROOM), Verdict::InProgress);
    assert_eq!(
        table.sequence(&request(0, 2), ROOM),
        Verdict::Misordered,
        "the slot is busy"
    );
    assert_eq!(table.running_count(), 1);
    assert!(table.complete(token, reply("one"), ROOM));
    assert_eq!(table.running_count(), 0);
    assert_eq!(
        table.sequence(&request(0, 1), ROOM),
        Verdict::Replay(Arc::from(&b"one"[..]))
    );
    let other = Sequence {
        fingerprint: 77,
        ..request(0, 1)
    };
    assert_eq!(table.sequence(&other, ROOM), Verdict::FalseRetry);
    let Verdict::New(token) = table.sequence(&request(0, 2), ROOM) else {
        panic!()
    };
    assert!(!table.complete(token, None, ROOM));
    assert_eq!(table.sequence(&request(0, 2), ROOM), Verdict::Uncached);
    assert_eq!(table.sequence(&request(0, 1), ROOM), Verdict::Misordered);
}

#[test]
fn sequence_ids_wrap_through_zero() {
    let mut table = SlotTable::new(1, 100);
    table.slots.push(Slot {
        seqid: u32::MAX - 1,
        last: Last::Uncached,
        ..FRESH
    });
    run(&mut table, 0, u32::MAX);
    run(&mut table, 0, 0);
    run(&mut table, 0, 1);
    assert_eq!(
        table.sequence(&request(0, u32::MAX), ROOM),
        Verdict::Misordered
    );
}

#[test]
fn slots_beyond_the_table_are_refused() {
    let mut table = SlotTable::new(4, 100);
    assert_eq!(table.sequence(&request(4, 1), ROOM), Verdict::BadSlot);
    assert_eq!(
        table.sequence(&request(u32::MAX, 1), ROOM),
        Verdict::BadSlot
    );
    let high = Sequence {
        highest_slot: 4,
        ..request(0, 1)
    };
    assert_eq!(table.sequence(&high, ROOM), Verdict::BadHighSlot);
    run(&mut table, 0, 1);
    assert_eq!(SlotTable::new(0, 0).highest_enforced(), 0);
    assert_eq!(
        SlotTable::new(u32::MAX, 0).highest_enforced(),
        crate::SLOTS_PER_SESSION_MAX - 1
    );
}

#[test]
fn the_cache_is_bounded_in_bytes() {
    let mut table = SlotTable::new(2, 4);
    let Verdict::New(token) = table.sequence(&request(0, 1), ROOM) else {
        panic!()
    };
    assert!(!table.complete(token, reply("12345"), ROOM));
    assert_eq!(table.cached_bytes(), 0);
    let Verdict::New(token) = table.sequence(&request(0, 2), ROOM) else {
        panic!()
    };
    assert!(table.complete(token, reply("1234"), ROOM));
    run(&mut table, 1, 1);
    assert_eq!(table.cached_bytes(), 5);
    run(&mut table, 0, 3);
    assert_eq!(
        table.cached_bytes(),
        2,
        "the old reply went with its successor"
    );
}

#[test]
fn above_the_target_only_what_was_asked_for_is_kept() {
    let mut table = SlotTable::new(2, 100);
    table.set_target(0);
    for (slot, cache_this, is_kept) in [(0, false, true), (1, false, false), (1, true, true)] {
        let seqid = table.slots.get(slot as usize).map_or(0, |s| s.seqid) + 1;
        let verdict = table.sequence(
            &Sequence {
                cache_this,
                highest_slot: 1,
                ..request(slot, seqid)
            },
            ROOM,
        );
        let Verdict::New(token) = verdict else {
            panic!("slot {slot}: {verdict:?}")
        };
        assert_eq!(
            table.complete(token, reply("r"), ROOM),
            is_kept,
            "{slot} {cache_this}"
        );
    }
    assert_eq!(table.cached_bytes(), 2);
}

#[test]
fn a_lower_target_is_enforced_after_the_client_saw_it() {
    let mut table = SlotTable::new(8, 100);
    run(&mut table, 0, 1);
    run(&mut table, 7, 1);
    table.set_target(1);
    assert_eq!((table.highest_enforced(), table.highest_target()), (7, 1));
    // Sent before the client saw the new target: accepted, and its reply carries the target.
    run(&mut table, 7, 2);
    // Slot 0's last reply is older than the target, so this proves nothing.
    run(&mut table, 0, 2);
    assert_eq!(table.highest_enforced(), 7);
    // Now it does, but slot 7 is still outstanding at the client.
    let Verdict::New(token) = table.sequence(
        &Sequence {
            highest_slot: 7,
            ..request(0, 3)
        },
        ROOM,
    ) else {
        panic!()
    };
    table.complete(token, None, ROOM);
    assert_eq!(table.highest_enforced(), 7);
    run(&mut table, 0, 4);
    assert_eq!(table.highest_enforced(), 1);
    assert_eq!(table.sequence(&request(7, 3), ROOM), Verdict::BadSlot);
    assert_eq!(
        table.sequence(
            &Sequence {
                highest_slot: 2,
                ..request(1, 1)
            },
            ROOM
        ),
        Verdict::BadHighSlot
    );
    // Lent again: the client may count on, or start anew.
    table.set_target(7);
    assert_eq!(table.highest_enforced(), 7);
    assert_eq!(table.sequence(&request(7, 2), ROOM), Verdict::Misordered);
    run(&mut table, 7, 1);
    run(&mut table, 7, 2);
}

#[test]
fn a_slot_that_runs_is_not_retired_whatever_the_client_says() {
    let mut table = SlotTable::new(4, 100);
    run(&mut table, 0, 1);
    table.set_target(0);
    run(&mut table, 0, 2);
    let Verdict::New(token) = table.sequence(&request(3, 1), ROOM) else {
        panic!()
    };
    // It claims that nothing is outstanding above slot 0.
    run(&mut table, 0, 3);
    assert_eq!(table.highest_enforced(), 3);
    table.complete(token, None, ROOM);
    assert_eq!(table.sequence(&request(3, 1), ROOM), Verdict::Uncached);
    run(&mut table, 0, 4);
    assert_eq!(table.highest_enforced(), 0);
}

#[test]
fn a_target_never_exceeds_the_negotiated_slots() {
    let mut table = SlotTable::new(4, 100);
    table.set_target(1000);
    assert_eq!((table.highest_target(), table.highest_enforced()), (3, 3));
}

/// What the network does with the next message, or a change of target.
#[derive(Debug, Clone)]
enum Event {
    /// The client on this slot sends a new request, if it has none outstanding.
    Send(u32),
    /// The client on this slot repeats its outstanding request.
    Resend(u32),
    /// Deliver the n-th request in flight; with `true` keep a copy in flight.
    Deliver(usize, bool),
    /// Drop the n-th request in flight.
    DropRequest(usize),
    /// The server finishes the n-th running request.
    Finish(usize, bool),
    /// Deliver the n-th reply in flight.
    Reply(usize),
    /// Drop the n-th reply in flight.
    DropReply(usize),
}

fn event() -> impl Strategy<Value = Event> {
    prop_oneof![
        3 => (0..3_u32).prop_map(Event::Send),
        2 => (0..3_u32).prop_map(Event::Resend),
        5 => (any::<usize>(), any::<bool>()).prop_map(|(n, copy)| Event::Deliver(n, copy)),
        1 => any::<usize>().prop_map(Event::DropRequest),
        4 => (any::<usize>(), any::<bool>()).prop_map(|(n, keep)| Event::Finish(n, keep)),
        4 => any::<usize>().prop_map(Event::Reply),
        1 => any::<usize>().prop_map(Event::DropReply),
    ]
}

/// Slot, sequence id, and the body if it was cached.
type Answer = (u32, u32, Option<Arc<[u8]>>);

/// One client with three slots, one server, and a network with no manners.
struct Net {
    table: SlotTable,
    requests: Vec<Sequence>,
    replies: Vec<Answer>,
    running: Vec<SlotToken>,
    /// Per slot: sequence id, and whether it is outstanding.
    client: Vec<(u32, bool)>,
    executed: std::collections::BTreeMap<(u32, u32), u32>,
}

impl Net {
    fn new() -> Self {
        Self {
            table: SlotTable::new(3, 64),
            requests: Vec::new(),
            replies: Vec::new(),
            running: Vec::new(),
            client: vec![(0, false); 3],
            executed: std::collections::BTreeMap::new(),
        }
    }

    fn send(&mut self, slot: u32) {
        let (seqid, _) = self.client[slot as usize];
        let highest = (0..3).rev().find(|s| self.client[*s as usize].1);
        self.requests.push(Sequence {
            highest_slot: highest.unwrap_or(slot).max(slot),
            ..request(slot, seqid)
        });
    }

    fn deliver(&mut self, request: &Sequence) {
        let key = (request.slot, request.seqid);
        match self.table.sequence(request, ROOM) {
            Verdict::New(token) => {
                *self.executed.entry(key).or_default() += 1;
                self.running.push(token);
            }
            Verdict::Replay(reply) => self.replies.push((key.0, key.1, Some(reply))),
            Verdict::Uncached => self.replies.push((key.0, key.1, None)),
            Verdict::InProgress | Verdict::Misordered => {}
            other => panic!("{request:?}: {other:?}"),
        }
    }

    fn step(&mut self, event: Event) {
        match event {
            Event::Send(slot) if !self.client[slot as usize].1 => {
                let entry = &mut self.client[slot as usize];
                *entry = (entry.0.wrapping_add(1), true);
                self.send(slot);
            }
            Event::Resend(slot) if self.client[slot as usize].1 => self.send(slot),
            Event::Deliver(n, copy) if !self.requests.is_empty() => {
                let index = n % self.requests.len();
                let request = self.requests[index];
                if !copy {
                    self.requests.remove(index);
                }
                self.deliver(&request);
            }
            Event::DropRequest(n) if !self.requests.is_empty() => {
                self.requests.remove(n % self.requests.len());
            }
            Event::Finish(n, keep) if !self.running.is_empty() => {
                let token = self.running.remove(n % self.running.len());
                let (slot, seqid) = (token.slot, token.seqid);
                let body =
                    keep.then(|| Arc::from([slot.to_be_bytes(), seqid.to_be_bytes()].concat()));
                self.table.complete(token, body.clone(), ROOM);
                self.replies.push((slot, seqid, body));
            }
            Event::Reply(n) if !self.replies.is_empty() => {
                let (slot, seqid, body) = self.replies.remove(n % self.replies.len());
                if let Some(body) = body {
                    let want = [slot.to_be_bytes(), seqid.to_be_bytes()].concat();
                    assert_eq!(&body[..], &want[..], "a reply of another request");
                }
                let entry = &mut self.client[slot as usize];
                if *entry == (seqid, true) {
                    entry.1 = false;
                    assert_eq!(self.executed.get(&(slot, seqid)), Some(&1));
                }
            }
            Event::DropReply(n) if !self.replies.is_empty() => {
                self.replies.remove(n % self.replies.len());
            }
            _ => {}
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 256, failure_persistence: None, ..ProptestConfig::default() })]

    /// Whatever is lost, repeated or reordered, no request runs twice, every answered request ran
    /// once, and every reply is the request's own.
    #[test]
    fn requests_run_exactly_once(events in prop::collection::vec(event(), 1..300)) {
        let mut net = Net::new();
        for event in events {
            net.step(event);
            prop_assert!(net.executed.values().all(|count| *count == 1));
            prop_assert_eq!(net.table.running_count() as usize, net.running.len());
        }
    }

    /// Against a per-slot model: the verdict for any request follows from what the slot last saw.
    #[test]
    fn verdicts_follow_the_model(
        steps in prop::collection::vec((0..5_u32, 0..6_u32, 0..2_u64, any::<bool>()), 1..200)
    ) {
        let mut table = SlotTable::new(3, 64);
        let mut model: Vec<(u32, Option<(u64, bool)>)> = vec![(0, None); 3];
        for (slot, seqid, fingerprint, keep) in steps {
            let verdict = table.sequence(&Sequence {
                slot, seqid, highest_slot: slot.min(2), cache_this: keep, fingerprint,
            }, ROOM);
            let Some(entry) = model.get_mut(slot as usize) else {
                prop_assert_eq!(verdict, Verdict::BadSlot);
                continue;
            };
            match (seqid == entry.0, entry.1) {
                (true, Some((print, _))) if print != fingerprint =>
                    prop_assert_eq!(verdict, Verdict::FalseRetry),
                (true, Some((_, true))) => prop_assert!(matches!(verdict, Verdict::Replay(_))),
                (true, Some((_, false))) => prop_assert_eq!(verdict, Verdict::Uncached),
                _ if seqid == entry.0 + 1 => {
                    let Verdict::New(token) = verdict else { panic!("{verdict:?}") };
                    table.complete(token, keep.then(|| Arc::from(&b"x"[..])), ROOM);
                    *entry = (seqid, Some((fingerprint, keep)));
                }
                _ => prop_assert_eq!(verdict, Verdict::Misordered),
            }
        }
    }
}

#[test]
fn a_recall_is_made_once_for_a_target_and_enforces_nothing_by_itself() {
    let mut table = SlotTable::new(8, 100);
    assert_eq!(table.recall(), None);
    run(&mut table, 0, 1);
    table.set_target(3);
    assert_eq!((table.recall(), table.recall()), (Some(3), None));
    // This request may have been sent before the recall came; its reply tells of the target.
    run(&mut table, 0, 2);
    assert_eq!(table.highest_enforced(), 7);
    table.set_target(2);
    assert_eq!(table.recall(), Some(2));
    run(&mut table, 0, 3);
    run(&mut table, 0, 4);
    assert_eq!(table.highest_enforced(), 2);
    table.set_target(3);
    assert_eq!(table.recall(), None, "it may use no more than that");
}
