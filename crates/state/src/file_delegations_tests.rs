//! Goal: delegations as RFC 8881 §10.4 says. Method: scenarios with two clients, then random steps against the one rule
//! that matters. Nobody has a delegation that another client's open, delegation or layout contradicts.

use proptest::prelude::*;

use super::*;
use crate::delegations::DelegationLimits;
use crate::file_states::{Ground, Io, LayoutWanted, StateLimits};
use crate::layouts::IoMode;

const A: ClientId = ClientId { value: 1 };
const B: ClientId = ClientId { value: 2 };
const FILE: u64 = 9;
const R: u32 = ACCESS_READ;
const W: u32 = ACCESS_WRITE;
const COOL_MS: u64 = 1_000;
const LEASE_MS: u64 = 90_000;

fn states() -> FileStates {
    limited(100, 100)
}

fn limited(per_client_max: usize, total_max: usize) -> FileStates {
    let limits = StateLimits {
        delegations: DelegationLimits {
            per_client_max,
            total_max,
            contended_ms: COOL_MS,
        },
        ..StateLimits::default()
    };
    FileStates::new(limits, 1)
}

fn open_file(s: &mut FileStates, client: ClientId, file: u64, access: u32) -> Stateid {
    let share = Share { access, deny: 0 };
    s.open(client, b"o", file, share).unwrap().stateid
}

fn open(s: &mut FileStates, client: ClientId, access: u32) -> Stateid {
    open_file(s, client, FILE, access)
}

fn wanted(client: ClientId, file: u64, access: u32) -> DelegationWanted {
    DelegationWanted {
        client,
        file,
        access,
        origin: Origin::default(),
        change: 7,
        has_times: false,
    }
}

fn offer(
    s: &mut FileStates,
    client: ClientId,
    access: u32,
) -> Result<(Stateid, DelegationKind), NoDelegation> {
    let granted = s.offer_delegation(&wanted(client, FILE, access), 0)?;
    Ok((granted.stateid, granted.kind))
}

fn layout(s: &mut FileStates, stateid: Stateid, client: ClientId, mode: IoMode) -> Stateid {
    let want = LayoutWanted {
        mode,
        may_read: true,
        return_on_close: true,
    };
    s.layout_get(stateid, client, FILE, want).unwrap()
}

#[test]
fn only_a_writer_that_was_granted_it_says_what_the_times_are() {
    let mut s = states();
    let asks = |access| DelegationWanted {
        has_times: true,
        ..wanted(A, FILE, access)
    };
    open(&mut s, A, R);
    let reader = s.offer_delegation(&asks(R), 0).unwrap();
    assert!(!reader.has_times);
    let refused = s.check_delegated_times(reader.stateid, A, FILE);
    assert_eq!(refused, Err(NfsStatus::Inval));

    let mut s = states();
    let opened = open(&mut s, A, R | W);
    let writer = s.offer_delegation(&asks(R | W), 0).unwrap();
    assert!(writer.has_times && s.delegations.write_holder(FILE).unwrap().has_times);
    assert_eq!(s.check_delegated_times(writer.stateid, A, FILE), Ok(()));
    for (stateid, client) in [(opened, A), (writer.stateid, B)] {
        let refused = s.check_delegated_times(stateid, client, FILE);
        assert_eq!(refused, Err(NfsStatus::BadStateid));
    }
}

#[test]
fn readers_share_and_a_writer_is_alone() {
    let mut s = states();
    open(&mut s, A, R);
    assert_eq!(offer(&mut s, A, R).unwrap().1, DelegationKind::Read);
    open(&mut s, B, R);
    assert_eq!(offer(&mut s, B, R).unwrap().1, DelegationKind::Read);

    let mut s = states();
    open(&mut s, A, R | W);
    assert_eq!(offer(&mut s, A, R | W).unwrap().1, DelegationKind::Write);

    let mut s = states();
    open(&mut s, A, R);
    open(&mut s, B, W);
    assert_eq!(offer(&mut s, B, W), Err(NoDelegation::Contention));
    assert_eq!(offer(&mut s, A, R), Err(NoDelegation::Contention));
}

#[test]
fn the_layout_of_another_client_stands_against_it() {
    let mut s = states();
    let opened = open(&mut s, A, R | W);
    layout(&mut s, opened, A, IoMode::ReadWrite);
    // It goes on after the open while a delegation would keep it; here it is made to stay by not being "on close".
    let mut other = states();
    let opened = open(&mut other, A, R | W);
    let want = LayoutWanted {
        mode: IoMode::ReadWrite,
        may_read: true,
        return_on_close: false,
    };
    other.layout_get(opened, A, FILE, want).unwrap();
    let _closed = other.close(opened, A, FILE).unwrap();
    open(&mut other, B, R);
    assert_eq!(offer(&mut other, B, R), Err(NoDelegation::Contention));
    // One's own is no hindrance.
    assert_eq!(offer(&mut s, A, R | W).unwrap().1, DelegationKind::Write);
}

#[test]
fn a_client_has_one_delegation_of_a_file() {
    let mut s = states();
    open(&mut s, A, R);
    let (read, _) = offer(&mut s, A, R).unwrap();
    assert_eq!(offer(&mut s, A, R), Err(NoDelegation::NoDowngrade));
    assert_eq!(offer(&mut s, A, R | W), Err(NoDelegation::NoUpgrade));
    let _back = s.return_delegation(read, A, FILE).unwrap();
    assert_eq!(
        s.return_delegation(read, A, FILE),
        Err(NfsStatus::BadStateid)
    );
}

#[test]
fn an_open_meets_what_it_cannot_bear() {
    let share = |access, deny| Share { access, deny };
    for (share, truncates, want) in [
        (share(R, 0), false, InTheWay::Writers),
        (share(R, crate::DENY_WRITE), false, InTheWay::Writers),
        (share(R, DENY_READ), false, InTheWay::All),
        (share(R, 0), true, InTheWay::All),
        (share(W, 0), false, InTheWay::All),
    ] {
        assert_eq!(FileStates::in_the_way_of_open(share, truncates), want);
    }
    let mut s = states();
    open(&mut s, A, R);
    offer(&mut s, A, R).unwrap();
    let d = &s.delegations;
    assert!(d.conflicts(FILE, InTheWay::Writers, None).is_empty());
    assert_eq!(d.conflicts(FILE, InTheWay::All, None), [A]);
    assert!(d.conflicts(FILE, InTheWay::All, Some(A)).is_empty());
}

#[test]
fn a_recall_is_sent_once_and_keeps_new_ones_away_for_a_while() {
    let mut s = states();
    let opened = open(&mut s, A, R | W);
    let (stateid, _) = offer(&mut s, A, R | W).unwrap();
    let d = &mut s.delegations;
    let sent = d.begin_recall(FILE, InTheWay::All, Some(B), (0, LEASE_MS));
    assert_eq!(sent.len(), 1);
    assert_eq!((sent[0].client, sent[0].stateid), (A, stateid));
    let again = d.begin_recall(FILE, InTheWay::All, Some(B), (5, LEASE_MS));
    assert!(again.is_empty());
    assert!(d.overdue(LEASE_MS - 1).is_empty());
    assert_eq!(d.overdue(LEASE_MS), sent);
    let _back = s.return_delegation(stateid, A, FILE).unwrap();
    assert!(s.delegations.overdue(LEASE_MS).is_empty());
    let _closed = s.close(opened, A, FILE).unwrap();
    open(&mut s, B, R);
    let want = wanted(B, FILE, R);
    let soon = s.offer_delegation(&want, COOL_MS - 1);
    assert_eq!(soon, Err(NoDelegation::Contention));
    assert!(s.offer_delegation(&want, COOL_MS).is_ok());
}

#[test]
fn a_file_that_is_held_gets_none() {
    let mut s = states();
    open(&mut s, A, R);
    s.delegations.hold(FILE);
    s.delegations.hold(FILE);
    s.delegations.release(FILE);
    assert_eq!(offer(&mut s, A, R), Err(NoDelegation::Contention));
    s.delegations.release(FILE);
    assert!(offer(&mut s, A, R).is_ok());
}

#[test]
fn a_revoked_one_is_remembered_until_it_is_freed() {
    let mut s = states();
    open(&mut s, A, R);
    let (stateid, _) = offer(&mut s, A, R).unwrap();
    assert_eq!(s.test_stateid(stateid, A), NfsStatus::Ok);
    assert_eq!(s.test_stateid(stateid, B), NfsStatus::BadStateid);
    assert_eq!(s.free_stateid(stateid, A), Err(NfsStatus::LocksHeld));
    let ended = s.revoke_delegation(&stateid.other).unwrap();
    assert_eq!((ended.client, ended.last_of_file), (A, false));
    assert_eq!(
        s.revoked_flags(A),
        crate::status_flags::RECALLABLE_STATE_REVOKED
    );
    assert_eq!(offer(&mut s, A, R), Err(NoDelegation::Resource));
    let revoked = NfsStatus::DelegRevoked;
    assert_eq!(s.test_stateid(stateid, A), revoked);
    assert_eq!(s.check_io(stateid, A, FILE, Io::Read), Err(revoked));
    assert_eq!(s.return_delegation(stateid, A, FILE), Err(revoked));
    assert_eq!(s.free_stateid(stateid, A), Ok(()));
    assert_eq!(s.revoked_flags(A), 0);
}

#[test]
fn io_under_a_delegation() {
    let mut s = states();
    let opened = open(&mut s, A, W);
    let (stateid, _) = offer(&mut s, A, W).unwrap();
    let io = |s: &FileStates, io| s.check_io(stateid, A, FILE, io);
    assert_eq!(io(&s, Io::Write), Ok(Ground::Open));
    // It was opened for writing alone: reading rests on the permission.
    assert_eq!(io(&s, Io::Read), Ok(Ground::Permission));
    assert_eq!(
        s.check_io(stateid, B, FILE, Io::Write),
        Err(NfsStatus::BadStateid)
    );
    let _closed = s.close(opened, A, FILE).unwrap();
    assert_eq!(io(&s, Io::Write), Ok(Ground::Permission));

    let mut s = states();
    open(&mut s, A, R);
    let (stateid, _) = offer(&mut s, A, R).unwrap();
    assert_eq!(
        s.check_io(stateid, A, FILE, Io::Write),
        Err(NfsStatus::OpenMode)
    );
    assert_eq!(s.check_io(stateid, A, FILE, Io::Read), Ok(Ground::Open));
}

#[test]
fn a_layout_goes_with_the_last_of_opens_and_delegation() {
    let mut s = states();
    let opened = open(&mut s, A, R | W);
    let (stateid, _) = offer(&mut s, A, R | W).unwrap();
    let held = layout(&mut s, stateid, A, IoMode::ReadWrite);
    let closed = s.close(opened, A, FILE).unwrap();
    assert_eq!((closed.layout, closed.last_of_file), (None, false));
    // Both go on: the client may open the file without asking.
    layout(&mut s, held, A, IoMode::ReadWrite);
    let ended = s.return_delegation(stateid, A, FILE).unwrap();
    assert!(ended.layout.is_some_and(|l| l.rw) && ended.last_of_file);
    assert!(!s.has_state(A));
}

#[test]
fn a_client_that_is_gone_leaves_none() {
    let mut s = states();
    let opened = open(&mut s, A, R);
    offer(&mut s, A, R).unwrap();
    let _closed = s.close(opened, A, FILE).unwrap();
    assert!(s.has_state(A));
    assert_eq!(s.remove_client(A).closed_files, [FILE]);
    assert!(!s.has_state(A) && s.delegations.is_empty());
}

#[test]
fn reclaims_get_what_they_had_unless_another_came_first() {
    let mut s = states();
    open(&mut s, A, R);
    let want = wanted(A, FILE, R);
    let first = s
        .reclaim_delegation(&want, DelegationKind::Write)
        .unwrap()
        .stateid;
    let again = s
        .reclaim_delegation(&want, DelegationKind::Write)
        .unwrap()
        .stateid;
    assert_eq!(first, again);
    assert_eq!(
        s.check_delegation(first, A, FILE),
        Ok(DelegationKind::Write)
    );
    open(&mut s, B, R);
    for kind in [DelegationKind::Read, DelegationKind::Write] {
        let refused = s.reclaim_delegation(&wanted(B, FILE, R), kind);
        assert_eq!(refused, Err(NfsStatus::ReclaimConflict));
    }
}

#[test]
fn a_full_table_asks_for_some_back() {
    let mut s = limited(8, 16);
    for file in 0..8 {
        open_file(&mut s, A, file, R);
        s.offer_delegation(&wanted(A, file, R), 0).unwrap();
    }
    open_file(&mut s, A, 8, R);
    let full = s.offer_delegation(&wanted(A, 8, R), 0);
    assert_eq!(full, Err(NoDelegation::Resource));
    let asked = s.delegations.crowded(0);
    assert_eq!(asked, [RecallAny { client: A, keep: 4 }]);
    assert!(s.delegations.crowded(1).is_empty(), "not again at once");
    for file in 10..16 {
        open_file(&mut s, B, file, R);
        s.offer_delegation(&wanted(B, file, R), 0).unwrap();
    }
    let asked = s.delegations.crowded(100_000);
    let keep = |client| RecallAny { client, keep: 4 };
    assert_eq!(asked, [keep(A), keep(B)]);
}

use crate::RecallAny;

#[derive(Debug, Clone, Copy)]
enum Step {
    Open { writes: bool },
    Close,
    Return,
    Layout,
}

fn step() -> impl Strategy<Value = (bool, Step)> {
    let what = prop_oneof![
        any::<bool>().prop_map(|writes| Step::Open { writes }),
        Just(Step::Close),
        Just(Step::Return),
        Just(Step::Layout),
    ];
    (any::<bool>(), what)
}

proptest! {
    #[test]
    fn no_two_clients_contradict_each_other(steps in prop::collection::vec(step(), 1..40)) {
        let mut s = states();
        let mut opens: [Option<(Stateid, u32)>; 2] = [None; 2];
        let mut held: [Option<(Stateid, DelegationKind)>; 2] = [None; 2];
        for (second, step) in steps {
            let (me, client) = if second { (1, B) } else { (0, A) };
            match step {
                Step::Open { writes } => {
                    let access = if writes { R | W } else { R };
                    let share = Share { access, deny: 0 };
                    let against = FileStates::in_the_way_of_open(share, false);
                    if !s.delegations.conflicts(FILE, against, Some(client)).is_empty() {
                        continue;
                    }
                    let before = opens[me].map_or(0, |(_, a)| a);
                    opens[me] = Some((open(&mut s, client, access), access | before));
                    if let Ok(granted) = offer(&mut s, client, access) {
                        held[me] = Some(granted);
                    }
                }
                Step::Close => {
                    if let Some((stateid, _)) = opens[me].take() {
                        let _closed = s.close(stateid, client, FILE).unwrap();
                    }
                }
                Step::Return => {
                    if let Some((stateid, _)) = held[me].take() {
                        let _back = s.return_delegation(stateid, client, FILE).unwrap();
                    }
                }
                Step::Layout => {
                    let by = held[me].map(|(h, _)| h).or(opens[me].map(|(o, _)| o));
                    if let Some(by) = by {
                        let want = LayoutWanted {
                            mode: IoMode::ReadWrite,
                            may_read: true,
                            return_on_close: true,
                        };
                        let _maybe = s.layout_get(by, client, FILE, want);
                    }
                }
            }
            for (mine, theirs) in [(0, 1), (1, 0)] {
                let Some((_, kind)) = held[mine] else { continue };
                let open = opens[theirs].map_or(0, |(_, access)| access);
                let other = held[theirs].map(|(_, kind)| kind);
                prop_assert_ne!(other, Some(DelegationKind::Write));
                prop_assert_eq!(open & W, 0);
                if kind == DelegationKind::Write {
                    prop_assert_eq!((open, other), (0, None));
                }
                let them = if theirs == 0 { A } else { B };
                prop_assert!(!s.layouts.rw_holders(FILE).contains(&them));
            }
        }
    }
}
