//! Goal: sequence ids, replays and confirmation of owners as in RFC 7530 §9.1.7 to §9.1.11.

use super::*;

const CLIENT: ClientId = ClientId { value: 1 };
const STATE: Other = [7; 12];

fn name(kind: OwnerKind, owner: &str) -> OwnerName {
    OwnerName {
        client: CLIENT,
        kind,
        owner: Arc::from(owner.as_bytes()),
    }
}

fn reply(sum: u64) -> Option<OwnerReply> {
    Some(OwnerReply {
        sum,
        result: Some(Arc::from(*b"result")),
        status: NfsStatus::Ok,
        made_current: None,
    })
}

fn run() -> Result<OwnerVerdict, NfsStatus> {
    Ok(OwnerVerdict::Run {
        abandoned: Vec::new(),
    })
}

/// A confirmed owner whose last sequence id is 5.
fn confirmed(o: &mut Owners) -> OwnerName {
    let name = name(OwnerKind::Open, "a");
    assert_eq!(o.begin(&name, (4, 40), true, 0), run());
    o.end(&name, 4, reply(40), OwnerChange::MustConfirm(STATE));
    assert_eq!(o.begin(&name, (5, 50), false, 0), run());
    o.end(&name, 5, reply(50), OwnerChange::Confirmed);
    name
}

#[test]
fn the_next_one_runs_the_last_one_is_replayed_and_others_are_refused() {
    let mut o = Owners::new(OwnerLimits::default());
    let name = confirmed(&mut o);
    for (seqid, sum, opens, want) in [
        (5, 50, false, Ok(OwnerVerdict::Replay(reply(50).unwrap()))),
        (5, 51, false, Err(NfsStatus::BadSeqid)),
        (5, 51, true, Err(NfsStatus::BadSeqid)),
        (4, 40, true, Err(NfsStatus::BadSeqid)),
        (7, 70, true, Err(NfsStatus::BadSeqid)),
        (6, 60, true, run()),
        (6, 60, true, Ok(OwnerVerdict::Busy)),
    ] {
        assert_eq!(o.begin(&name, (seqid, sum), opens, 0), want, "{seqid}");
    }
}

#[test]
fn a_failure_that_does_not_count_leaves_the_sequence_id_good() {
    let mut o = Owners::new(OwnerLimits::default());
    let name = confirmed(&mut o);
    assert_eq!(o.begin(&name, (6, 60), false, 0), run());
    o.end(&name, 6, None, OwnerChange::None);
    assert_eq!(o.begin(&name, (6, 61), false, 0), run());
    // And an owner whose first request does not count never was.
    let other = self::name(OwnerKind::Open, "b");
    assert_eq!(o.begin(&other, (1, 1), true, 0), run());
    o.end(&other, 1, None, OwnerChange::None);
    assert_eq!(o.len(), 1);
}

#[test]
fn an_open_of_an_owner_that_was_never_confirmed_gives_way_to_the_next() {
    let mut o = Owners::new(OwnerLimits::default());
    let name = name(OwnerKind::Open, "a");
    assert_eq!(o.begin(&name, (4, 40), true, 0), run());
    o.end(&name, 4, reply(40), OwnerChange::MustConfirm(STATE));
    assert!(!o.is_confirmed(&name));
    assert_eq!(o.of_state(&STATE), Some(&name));
    // A retry is one all the same.
    let replayed = o.begin(&name, (4, 40), true, 0);
    assert_eq!(replayed, Ok(OwnerVerdict::Replay(reply(40).unwrap())));
    let abandoned = vec![STATE];
    let again = o.begin(&name, (90, 1), true, 0);
    assert_eq!(again, Ok(OwnerVerdict::Run { abandoned }));
    assert_eq!(o.of_state(&STATE), None);
}

#[test]
fn a_closed_state_is_known_until_the_owner_goes_on() {
    let mut o = Owners::new(OwnerLimits::default());
    let name = confirmed(&mut o);
    assert_eq!(o.begin(&name, (6, 60), false, 0), run());
    o.end(&name, 6, reply(60), OwnerChange::Closed(STATE));
    assert_eq!(o.of_state(&STATE), Some(&name));
    assert!(o.states_of(&name).is_empty());
    assert_eq!(o.begin(&name, (7, 70), true, 0), run());
    o.end(&name, 7, reply(70), OwnerChange::Has([8; 12]));
    assert_eq!(o.of_state(&STATE), None);
}

#[test]
fn idle_owners_without_state_go_and_others_stay() {
    let mut o = Owners::new(OwnerLimits::default());
    let idle_ms = OwnerLimits::default().idle_ms;
    confirmed(&mut o);
    let none = Vec::new();
    assert_eq!(o.expire(idle_ms, |_| true, |_| true), none);
    assert_eq!(o.len(), 1, "it has an open");
    assert_eq!(o.expire(idle_ms - 1, |_| true, |_| false), none);
    assert_eq!(o.len(), 1, "it may be asked again");
    assert_eq!(o.expire(idle_ms, |_| true, |_| false), none);
    assert!(o.is_empty() && o.by_state.is_empty() && o.per_client.is_empty());
    let name = name(OwnerKind::Open, "never confirmed");
    assert_eq!(o.begin(&name, (4, 40), true, 0), run());
    o.end(&name, 4, reply(40), OwnerChange::MustConfirm(STATE));
    let late = o.expire(idle_ms, |_| true, |_| true);
    assert_eq!(late, vec![(CLIENT, STATE)]);
    confirmed(&mut o);
    assert_eq!(o.expire(0, |_| false, |_| false), none);
    assert!(o.of_state(&STATE).is_some(), "to say that it is gone");
    assert_eq!(o.expire(idle_ms, |_| false, |_| false), none);
    assert!(o.is_empty(), "their client is gone");
}

#[test]
fn owners_are_bounded_and_idle_ones_make_room() {
    let limits = OwnerLimits {
        per_client_max: 1,
        ..OwnerLimits::default()
    };
    let mut o = Owners::new(limits);
    let first = confirmed(&mut o);
    let second = name(OwnerKind::Open, "b");
    let refused = o.begin(&second, (1, 1), true, 0);
    assert_eq!(refused, Err(NfsStatus::Resource));
    assert_eq!(o.begin(&first, (6, 60), false, 0), run());
    o.end(&first, 6, reply(60), OwnerChange::Closed(STATE));
    assert_eq!(o.begin(&second, (1, 1), true, 0), run());
    assert_eq!(o.len(), 1);
}

#[test]
fn a_long_reply_is_not_kept() {
    let mut o = Owners::new(OwnerLimits::default());
    let name = confirmed(&mut o);
    assert_eq!(o.begin(&name, (6, 60), false, 0), run());
    let long = OwnerReply {
        result: Some(Arc::from(vec![0; OWNER_REPLY_BYTES_MAX + 1])),
        ..reply(60).unwrap()
    };
    o.end(&name, 6, Some(long), OwnerChange::None);
    let Ok(OwnerVerdict::Replay(again)) = o.begin(&name, (6, 60), false, 0) else {
        panic!("a retry");
    };
    assert_eq!(again.result, None);
}

#[test]
fn a_lock_owner_that_holds_nothing_begins_anew() {
    let mut o = Owners::new(OwnerLimits::default());
    let lock = name(OwnerKind::Lock, "l");
    assert_eq!(o.begin(&lock, (0, 1), false, 0), run());
    o.end(&lock, 0, reply(1), OwnerChange::None);
    assert_eq!(
        o.begin(&lock, (0, 1), false, 0),
        Ok(OwnerVerdict::Replay(reply(1).unwrap()))
    );
    assert_eq!(o.begin(&lock, (0, 2), false, 0), run());
    o.end(&lock, 0, reply(2), OwnerChange::Has(STATE));
    assert_eq!(o.begin(&lock, (0, 3), false, 0), Err(NfsStatus::BadSeqid));
}
