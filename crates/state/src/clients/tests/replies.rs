//! Goal: clients that use all slots they were ever given, and want each reply kept, hold no more replies together than
//! one limit and the share of each. Nothing is executed twice over it. A client that keeps to its share notices
//! nothing. Method: many such clients beside one that obeys, on a table with small limits.

use super::*;
use std::sync::Arc;

/// As `attrs` negotiates them.
const SLOTS: u32 = 8;
const REPLY_BYTES: u64 = 2048;
const GREEDY: u32 = 100;
/// A tenth of what they could hold.
const LIMIT_BYTES: u64 = 80 * REPLY_BYTES;

fn crowd() -> (Clients, Vec<SessionId>, SessionId) {
    let mut t = table_with(|limits| {
        limits.clients_max = 1000;
        limits.slots_total_max = GREEDY;
        limits.reply_cache_bytes_max = LIMIT_BYTES;
    });
    let greedy = (0..GREEDY).map(|n| mount(&mut t, &format!("greedy {n}"), 1, 0).1.session);
    let greedy = greedy.collect();
    let (_, obedient) = mount(&mut t, "obedient", 1, 0);
    (t, greedy, obedient.session)
}

/// A request that wants its reply, of the largest size, kept.
fn ask(t: &mut Clients, session: SessionId, slot: u32, seqid: u32) -> Sequenced {
    let request = Sequence {
        slot,
        seqid,
        highest_slot: SLOTS - 1,
        cache_this: true,
        fingerprint: u64::from(seqid),
    };
    t.sequence(session, 1, &request, 0, false).unwrap()
}

fn reply(seqid: u32) -> Arc<[u8]> {
    Arc::from(vec![u8::try_from(seqid).unwrap(); 2048])
}

/// Whether it was executed.
fn run(t: &mut Clients, session: SessionId, slot: u32, seqid: u32) -> bool {
    match ask(t, session, slot, seqid).verdict {
        Verdict::New(token) => {
            assert!(t.complete(session, token, Some(reply(seqid))), "it is owed");
            true
        }
        Verdict::BadSlot => false,
        other => panic!("{other:?}"),
    }
}

#[test]
fn replies_of_clients_that_ignore_their_share_are_bounded_in_all() {
    let (mut t, greedy, obedient) = crowd();
    let shares = (u64::from(GREEDY) + 1) * REPLY_BYTES;
    let mut next = std::collections::BTreeMap::new();
    for round in 1..=3 {
        for session in &greedy {
            for slot in 0..SLOTS {
                let seqid = next.entry((*session, slot)).or_insert(1);
                if run(&mut t, *session, slot, *seqid) {
                    *seqid += 1;
                } else {
                    assert_ne!(slot, 0, "the share is served");
                }
                assert!(t.reply_cache_bytes() <= LIMIT_BYTES + shares);
            }
        }
        assert!(run(&mut t, obedient, 0, round), "it knows of no trouble");
    }
    // What is kept is told again, whoever it belongs to; what was refused was not executed.
    for session in greedy.iter().chain([&obedient]) {
        let last = next.get(&(*session, 0)).map_or(3, |seqid| seqid - 1);
        let again = ask(&mut t, *session, 0, last).verdict;
        assert_eq!(again, Verdict::Replay(reply(last)));
    }
    let held = t.reply_cache_bytes();
    for session in &greedy {
        let _ = t.destroy_session(*session, 1, 0);
    }
    assert_eq!(t.reply_cache_bytes(), REPLY_BYTES, "of {held}");
}

#[test]
fn without_room_a_slot_above_the_share_is_retired_and_its_retry_is_not() {
    let (mut t, greedy, _) = crowd();
    let [first, others @ ..] = &greedy[..] else {
        panic!()
    };
    assert!(run(&mut t, *first, 5, 1));
    for session in others {
        for slot in 0..SLOTS {
            run(&mut t, *session, slot, 1);
        }
    }
    // A retry is told what it was told, and the reply says how many slots are left.
    let again = ask(&mut t, *first, 5, 1);
    assert_eq!(again.verdict, Verdict::Replay(reply(1)));
    assert_eq!((again.highest_slot, again.target_highest_slot), (0, 0));
    let before = t.reply_cache_bytes();
    assert!(
        !run(&mut t, *first, 5, 2),
        "the next one says that it is there"
    );
    assert_eq!(t.reply_cache_bytes(), before - REPLY_BYTES);
    // It may still be used by requests whose replies need not be kept, which go on counting.
    let request = Sequence {
        slot: 5,
        seqid: 2,
        highest_slot: 5,
        cache_this: false,
        fingerprint: 2,
    };
    let done = t.sequence(*first, 1, &request, 0, false).unwrap();
    let Verdict::New(token) = done.verdict else {
        panic!("{done:?}")
    };
    assert!(!t.complete(*first, token, Some(reply(2))));
    let again = t.sequence(*first, 1, &request, 0, false).unwrap();
    assert_eq!(again.verdict, Verdict::Uncached);
}

#[test]
fn room_is_taken_when_a_request_begins() {
    let (mut t, greedy, _) = crowd();
    let tokens: Vec<_> = greedy
        .iter()
        .map(|session| (*session, ask(&mut t, *session, 3, 1).verdict))
        .collect();
    let (running, refused): (Vec<_>, Vec<_>) = tokens
        .into_iter()
        .partition(|(_, verdict)| matches!(verdict, Verdict::New(_)));
    assert_eq!((running.len(), refused.len()), (80, 20));
    for (session, verdict) in running {
        let Verdict::New(token) = verdict else {
            unreachable!()
        };
        assert!(t.complete(session, token, Some(Arc::from(&b"short"[..]))));
    }
    assert_eq!(
        t.reply_cache_bytes(),
        80 * 5,
        "what is not needed is free again"
    );
}
