//! Goal: a restart waits for who held something and for nobody else, and nobody who holds something is recorded as
//! holding nothing.

use super::*;

fn idle(owner: &str) -> ClientRecord {
    ClientRecord {
        holds_nothing: true,
        ..record(owner, 1)
    }
}

#[test]
fn where_nobody_held_anything_the_grace_period_is_over_when_it_is_asked() {
    let mut t = restarted(vec![idle("a"), idle("b")]);
    let end = GraceEnd::HoldersComplete { missing_count: 2 };
    assert_eq!(t.poll_grace(0), Some(end));
}

#[test]
fn clients_that_held_nothing_are_waited_for_while_others_reclaim() {
    let mut t = Clients::new(
        limits(),
        7,
        Grace::begin([record("a", 1), idle("b"), idle("c")], 0, 90_000),
    );
    let (a, _) = mount(&mut t, "a", 1, 3_000);
    t.reclaim_complete(a, 3_000).unwrap();
    assert_eq!(t.poll_grace(3_999), None);
    // Who held nothing may say that he has come back, and may try to reclaim while the period lasts.
    let (b, _) = mount(&mut t, "b", 1, 3_500);
    assert_eq!(t.check_grace(b, true), Ok(()));
    t.reclaim_complete(b, 3_500).unwrap();
    assert_eq!(t.poll_grace(4_499), None);
    let end = GraceEnd::HoldersComplete { missing_count: 1 };
    assert_eq!(t.poll_grace(4_500), Some(end));
    t.grace_finished();
    let (c, _) = mount(&mut t, "c", 1, 5_000);
    assert_eq!(t.check_grace(c, true), Err(NfsStatus::NoGrace));
}

#[test]
fn of_two_records_of_a_client_the_newer_counts() {
    let earlier = record("a", 1);
    let later = ClientRecord {
        client: ClientId { value: 7 << 32 | 1 },
        ..earlier.clone()
    };
    let mut t = restarted(vec![idle("a"), later.clone()]);
    assert_eq!(t.poll_grace(0), None, "it took something since");
    let later = ClientRecord {
        holds_nothing: true,
        ..later
    };
    let mut t = restarted(vec![earlier, later]);
    assert!(t.poll_grace(0).is_some(), "it had reclaimed nothing");
}

#[test]
fn a_record_says_that_a_client_holds_something_before_it_takes_it() {
    let mut t = table();
    let (a, _) = mount(&mut t, "a", 1, 0);
    assert_eq!(t.takes_state(a, 0), None);
    t.reclaim_complete(a, 0).unwrap();
    assert!(t.record_needed(a, false).unwrap().holds_nothing);
    t.record_stored(a, true, 1);
    assert_eq!(t.record_needed(a, false), None);
    assert!(!t.record_needed(a, true).unwrap().holds_nothing);
    assert_eq!(t.takes_state(a, 0), None);
    t.record_stored(a, false, 5);
    assert_eq!(t.takes_state(a, 10), Some(5));
    // What RECLAIM_COMPLETE wrote meanwhile takes nothing back.
    t.record_stored(a, true, 6);
    assert_eq!(t.takes_state(a, 10), Some(5));
}

#[test]
fn only_a_client_without_state_and_requests_is_recorded_as_holding_nothing() {
    let mut t = table();
    let (a, s) = mount(&mut t, "a", 1, 0);
    t.record_stored(a, false, 1);
    t.takes_state(a, 1_000);
    assert!(t.may_be_idle(3_000, 2_000).is_empty(), "it still reclaims");
    assert!(!t.turns_idle(a, |_| false));
    t.reclaim_complete(a, 0).unwrap();
    assert!(t.may_be_idle(2_999, 2_000).is_empty());
    assert_eq!(t.may_be_idle(3_000, 2_000), [a]);
    assert!(!t.turns_idle(a, |_| true));

    // A request that runs may be about to take something.
    let request = Sequence {
        slot: 0,
        seqid: 1,
        highest_slot: 0,
        cache_this: false,
        fingerprint: 0,
    };
    let begun = t.sequence(s.session, 1, &request, 0, false).unwrap();
    let Verdict::New(token) = begun.verdict else {
        panic!()
    };
    assert!(!t.turns_idle(a, |_| false));
    t.complete(s.session, token, None);
    assert!(t.turns_idle(a, |_| false));
    assert!(t.turns_idle(a, |_| false), "a transaction may run again");
    assert!(t.may_be_idle(9_000, 2_000).is_empty());
    assert_eq!(t.takes_state(a, 9_000), None);
    assert!(t.record_needed(a, true).is_some());
}
