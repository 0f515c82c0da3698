//! Goal: an administrator sees what is held, from both sides, and no more than was asked for.
use super::*;
use crate::{
    ACCESS_READ, ACCESS_WRITE, DelegationWanted, InTheWay, IoMode, LayoutWanted, LockArgs, Origin,
    StateLimits,
};

const A: ClientId = ClientId { value: 1 };
const B: ClientId = ClientId { value: 2 };
const FILE: u64 = 70;

fn all(client: ClientId, states: &FileStates) -> Vec<HeldWhat> {
    let kinds = [
        HeldKind::Opens,
        HeldKind::Locks,
        HeldKind::Delegations,
        HeldKind::Layouts,
    ];
    let held = kinds.map(|kind| states.held_by_client(client, kind, 10));
    held.concat().into_iter().map(|held| held.what).collect()
}

fn range(offset: u64, length: u64) -> LockRange {
    LockRange::new(offset, length).unwrap()
}

fn lock(offset: u64, kind: LockKind) -> LockArgs {
    LockArgs {
        range: range(offset, 10),
        kind,
        blocking: true,
    }
}

#[test]
fn what_is_held_is_seen_from_client_and_file_and_is_bounded() {
    let mut states = FileStates::new(StateLimits::default(), 1);
    let share = Share {
        access: ACCESS_READ | ACCESS_WRITE,
        deny: 0,
    };
    let open = states.open(A, b"o", FILE, share).unwrap().stateid;
    for offset in [0, 20, 40] {
        let args = lock(offset, LockKind::Write);
        states.lock_by_open(open, A, b"l", FILE, args).unwrap();
    }
    let wanted = LayoutWanted {
        mode: IoMode::ReadWrite,
        may_read: true,
        return_on_close: false,
    };
    states.layout_get(open, A, FILE, wanted).unwrap();
    let theirs = states.open(B, b"o", FILE, share).unwrap().stateid;
    let args = lock(5, LockKind::Read);
    let _denied = states.lock_by_open(theirs, B, b"m", FILE, args).unwrap();
    let held = all(A, &states);
    let expected = [
        HeldWhat::Open(share),
        HeldWhat::Lock(range(0, 10), LockKind::Write),
        HeldWhat::Lock(range(20, 10), LockKind::Write),
        HeldWhat::Lock(range(40, 10), LockKind::Write),
        HeldWhat::Layout(true, None),
    ];
    assert_eq!(held, expected);
    let counts = states.held_counts(A);
    assert_eq!((counts.opens, counts.ranges, counts.layouts), (1, 3, 1));
    assert_eq!(states.held_by_client(A, HeldKind::Locks, 2).len(), 2);
    assert_eq!(states.held_of_file(FILE, HeldKind::Locks, 2).len(), 2);
    assert_eq!(states.held_of_file(FILE, HeldKind::Opens, 10).len(), 2);
    let waits = states.held_of_file(FILE, HeldKind::Waits, 10);
    assert_eq!(waits.len(), 1);
    assert_eq!((waits[0].client, &waits[0].owner[..]), (B, &b"m"[..]));
    assert_eq!(all(ClientId { value: 3 }, &states), []);
    assert!(states.held_of_file(71, HeldKind::Layouts, 10).is_empty());
}

#[test]
fn recalls_of_a_client_are_found_with_their_deadlines() {
    let mut states = FileStates::new(StateLimits::default(), 1);
    for client in [A, B] {
        let wanted = DelegationWanted {
            client,
            file: FILE,
            access: ACCESS_READ,
            origin: Origin::UNKNOWN,
            change: 0,
            has_times: false,
        };
        states.offer_delegation(&wanted, 0).unwrap();
    }
    assert_eq!(states.recalled_of_client(A, 10), []);
    let _both = (states.delegations).begin_recall(FILE, InTheWay::All, None, (50, 100));
    let recalled = states.recalled_of_client(A, 10);
    let what: Vec<_> = recalled
        .iter()
        .map(|held| (held.client, held.what))
        .collect();
    let kind = DelegationKind::Read;
    assert_eq!(what, [(A, HeldWhat::Delegation(kind, Some(150)))]);
}
