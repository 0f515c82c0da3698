//! Goal: what the table keeps beside its clients and sessions is what a walk over them would find. Method: random requests of a few
//! clients over a few connections, and that walk after each.

use super::*;
use crate::BindRequest;
use proptest::prelude::*;
use std::sync::Arc;

const OWNERS: [&str; 5] = ["a", "b", "c", "d", "e"];

/// What happens: which of these, to which client or session, over which connection, how much later.
type Event = (u8, usize, u64, u64);

fn event() -> impl Strategy<Value = Event> {
    (0..15_u8, 0..64_usize, 1..5_u64, 0..40_u64)
}

fn nth<T: Copy>(mut all: impl Iterator<Item = T>, count: usize, n: usize) -> Option<T> {
    all.nth(n % count.max(1))
}

/// What comes of it is told elsewhere: here anything may be refused.
fn step(t: &mut Clients, (action, n, connection, _): Event, now_ms: u64) {
    let client = nth(t.clients.keys().copied(), t.clients.len(), n);
    let session = nth(t.sessions.keys().copied(), t.sessions.len(), n);
    let has_state = |id: ClientId| id.value.is_multiple_of(2);
    match (action, client, session) {
        (0..=2, ..) => {
            let owner = OWNERS[n % OWNERS.len()];
            let principal = if n < 48 { "p" } else { "q" };
            let stateful = [ClientId { value: 7 << 32 | 2 }];
            let verifier = u8::from(n % 3 == 0);
            let _ = exchange(t, owner, verifier, principal, false, now_ms, &stateful);
        }
        (3..=5, Some(id), _) => {
            let seqid = t.clients[&id].create_seqid.wrapping_add(1);
            let _ = create_over(t, connection, id, seqid, "p", now_ms);
        }
        (6, Some(id), _) => {
            let _ = t.destroy_client(id, has_state);
        }
        (7, Some(id), _) if n < 8 => {
            let _ = t.revoke(id);
        }
        (8, ..) if n < 16 => {
            let _ = t.expire(now_ms, has_state);
        }
        (9, _, Some(id)) => {
            let _ = t.destroy_session(id, connection, 0);
        }
        (10, _, Some(id)) => {
            let request = [BindRequest::Fore, BindRequest::BackOrBoth][n % 2];
            let _ = t.bind(id, connection, request, true);
        }
        (11..=13, _, Some(id)) => {
            let request = Sequence {
                slot: u32::try_from(n % 8).unwrap(),
                seqid: 1 + u32::try_from(now_ms % 3).unwrap(),
                highest_slot: 0,
                cache_this: action != 11,
                fingerprint: 0,
            };
            let done = t.sequence(id, connection, &request, now_ms, false);
            let verdict = done.map(|done| done.verdict);
            // Some never end.
            if let Ok(Verdict::New(token)) = verdict
                && n % 7 > 0
            {
                t.complete(id, token, Some(Arc::from(vec![0; n * 16])));
            }
        }
        (14, ..) => {
            let bound = t.sessions.values();
            let bound = bound.filter(|s| s.direction(connection).is_some());
            let bound: Vec<SessionId> = bound.map(|s| s.id()).collect();
            assert_eq!(t.connection_closed(connection), bound);
        }
        _ => {}
    }
}

fn walk(t: &Clients) {
    let unconfirmed = t.clients.iter().filter(|(_, c)| !c.confirmed);
    let unconfirmed: BTreeSet<ClientId> = unconfirmed.map(|(id, _)| *id).collect();
    assert_eq!(t.unconfirmed, unconfirmed);
    assert!(unconfirmed.len() <= t.limits.unconfirmed_clients_max);
    assert_eq!(t.confirmed_count(), t.confirmed().count());
    let mut bindings = Bindings::default();
    for session in t.sessions.values() {
        session
            .connections()
            .for_each(|connection| bindings.add(connection, session.id()));
    }
    assert_eq!(t.bindings, bindings);
    let held = t.sessions.values().map(|s| s.slots.held_bytes());
    assert_eq!(t.reply_cache_bytes(), held.sum::<u64>());
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 256, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn what_is_kept_beside_the_clients_is_what_a_walk_finds(
        events in prop::collection::vec(event(), 1..120)
    ) {
        let mut t = table_with(|limits| limits.reply_cache_bytes_max = 4096);
        let mut now_ms = 0;
        for event in events {
            now_ms += event.3;
            step(&mut t, event, now_ms);
            walk(&t);
        }
    }
}
