//! Tests of locks of hosts among those of NFSv4.

use super::*;
use crate::{
    ACCESS_READ, ACCESS_WRITE, DENY_WRITE, DelegationWanted, LockKind, LockOutcome, NoDelegation,
    Origin, StateLimits, Unblocked,
};
use nfs4::SessionId;

const HOST: ClientId = ClientId { value: 1 };
const OTHER_HOST: ClientId = ClientId { value: 2 };
const CLIENT: ClientId = ClientId { value: 9 };
const FILE: u64 = 5;

fn states() -> FileStates {
    FileStates::new(StateLimits::default(), 1)
}

fn args(first: u64, last: u64, kind: LockKind, blocking: bool) -> LockArgs {
    LockArgs {
        range: LockRange::between(first, last).unwrap(),
        kind,
        blocking,
    }
}

fn all(blocking: bool) -> LockArgs {
    args(0, u64::MAX, LockKind::Write, blocking)
}

fn open(s: &mut FileStates, access: u32) -> nfs4::Stateid {
    let share = Share { access, deny: 0 };
    s.open(CLIENT, b"o", FILE, share).unwrap().stateid
}

fn grants(unblocked: Unblocked) -> Vec<HostGrant> {
    assert_eq!(unblocked.free, []);
    unblocked.granted
}

#[test]
fn a_lock_of_a_host_is_seen_by_an_open_and_the_other_way_round() {
    let mut s = states();
    let stateid = open(&mut s, ACCESS_READ | ACCESS_WRITE);
    assert_eq!(
        s.lock_by_host(HOST, b"p", FILE, all(false)),
        Ok(HostLock::Granted)
    );
    let denied = s
        .lock_by_open(stateid, CLIENT, b"l", FILE, all(false))
        .unwrap();
    assert!(matches!(denied, LockOutcome::Denied(d) if d.client == HOST && d.owner == b"p"));
    assert_eq!(
        s.unlock_by_host(HOST, b"p", FILE, all(false).range),
        Ok(true)
    );
    let granted = s
        .lock_by_open(stateid, CLIENT, b"l", FILE, all(false))
        .unwrap();
    assert!(matches!(granted, LockOutcome::Granted(_)));
    let denied = s.lock_by_host(HOST, b"p", FILE, all(false)).unwrap();
    assert!(matches!(denied, HostLock::Denied(d) if d.client == CLIENT));
}

#[test]
fn a_waiting_host_is_granted_the_lock_that_is_released() {
    let mut s = states();
    s.lock_by_host(HOST, b"p", FILE, all(false)).unwrap();
    let waits = s.lock_by_host(OTHER_HOST, b"q", FILE, all(true)).unwrap();
    assert!(matches!(waits, HostLock::Waits(_)));
    assert_eq!(grants(s.unblocked(FILE)), []);
    s.unlock_by_host(HOST, b"p", FILE, all(false).range)
        .unwrap();
    let granted = grants(s.unblocked(FILE));
    assert_eq!(granted.len(), 1);
    assert_eq!(
        (granted[0].client, &*granted[0].owner),
        (OTHER_HOST, &b"q"[..])
    );
    let denied = s.lock_by_host(HOST, b"p", FILE, all(false)).unwrap();
    assert!(matches!(denied, HostLock::Denied(d) if d.client == OTHER_HOST));
    assert_eq!(grants(s.unblocked(FILE)), []);
}

#[test]
fn requests_are_remembered_for_each_range_once_and_granted_in_order() {
    let mut s = states();
    s.lock_by_host(HOST, b"p", FILE, all(false)).unwrap();
    for first in [0, 10, 0, 5] {
        let wanted = args(first, first, LockKind::Write, true);
        s.lock_by_host(OTHER_HOST, b"q", FILE, wanted).unwrap();
    }
    assert_eq!(s.locks.waiters_count(), 3);
    s.unlock_by_host(HOST, b"p", FILE, all(false).range)
        .unwrap();
    let granted = grants(s.unblocked(FILE));
    // The request for 0 came twice, and kept its place.
    let firsts: Vec<u64> = granted.iter().map(|g| g.range.first).collect();
    assert_eq!((firsts, s.locks.waiters_count()), (vec![0, 10, 5], 0));
}

#[test]
fn a_grant_that_is_refused_is_taken_back_unless_the_owner_has_asked_since() {
    for asks in [false, true] {
        let mut s = states();
        s.lock_by_host(HOST, b"p", FILE, all(false)).unwrap();
        s.lock_by_host(OTHER_HOST, b"q", FILE, all(true)).unwrap();
        s.unlock_by_host(HOST, b"p", FILE, all(false).range)
            .unwrap();
        let granted = grants(s.unblocked(FILE));
        if asks {
            let again = s.lock_by_host(OTHER_HOST, b"q", FILE, all(true));
            assert_eq!(again, Ok(HostLock::Granted));
        }
        assert_eq!(s.grant_refused(granted[0].id), !asks);
        assert_eq!(s.has_state(OTHER_HOST), asks);
    }
}

#[test]
fn a_cancelled_request_is_not_granted() {
    let mut s = states();
    s.lock_by_host(HOST, b"p", FILE, all(false)).unwrap();
    s.lock_by_host(OTHER_HOST, b"q", FILE, all(true)).unwrap();
    assert!(s.cancel_by_host(OTHER_HOST, b"q", FILE, all(true)));
    assert!(!s.cancel_by_host(OTHER_HOST, b"q", FILE, all(true)));
    s.unlock_by_host(HOST, b"p", FILE, all(false).range)
        .unwrap();
    assert_eq!(grants(s.unblocked(FILE)), []);
    assert!(!s.has_host_locks(FILE));
}

#[test]
fn a_host_that_is_gone_leaves_nothing() {
    let mut s = states();
    s.lock_by_host(HOST, b"p", FILE, all(false)).unwrap();
    s.lock_by_host(OTHER_HOST, b"q", FILE, all(true)).unwrap();
    let share = Share {
        access: 0,
        deny: DENY_WRITE,
    };
    s.share_by_host(HOST, b"p", FILE, share).unwrap();
    let gone = s.remove_client(HOST);
    assert_eq!(gone.unlocked_files, [FILE]);
    assert_eq!(gone.closed_files, [FILE]);
    assert!(!s.has_state(HOST));
    assert_eq!(grants(s.unblocked(FILE)).len(), 1);
}

#[test]
fn a_share_without_access_denies_and_is_replaced_by_the_next() {
    let mut s = states();
    let none = Share {
        access: 0,
        deny: DENY_WRITE,
    };
    s.share_by_host(HOST, b"p", FILE, none).unwrap();
    let writes = Share {
        access: ACCESS_WRITE,
        deny: 0,
    };
    let denied = s.open(CLIENT, b"o", FILE, writes);
    assert_eq!(denied.unwrap_err(), NfsStatus::ShareDenied);
    s.share_by_host(HOST, b"p", FILE, writes).unwrap();
    s.open(CLIENT, b"o", FILE, writes).unwrap();
    let denied = s.share_by_host(HOST, b"p", FILE, none);
    assert_eq!(denied, Err(NfsStatus::ShareDenied));
    assert!(!s.unshare_by_host(HOST, b"p", FILE));
}

#[test]
fn no_delegation_is_granted_where_a_host_locks_or_waits() {
    let wanted = DelegationWanted {
        client: CLIENT,
        file: FILE,
        access: ACCESS_READ,
        origin: Origin {
            session: SessionId { bytes: [0; 16] },
            slot: 0,
            seqid: 1,
        },
        change: 1,
        has_times: false,
    };
    let mut s = states();
    open(&mut s, ACCESS_READ);
    s.lock_by_host(HOST, b"p", FILE, all(false)).unwrap();
    assert_eq!(
        s.offer_delegation(&wanted, 0),
        Err(NoDelegation::Contention)
    );
    s.unlock_by_host(HOST, b"p", FILE, all(false).range)
        .unwrap();
    assert!(s.offer_delegation(&wanted, 0).is_ok());
}

#[test]
fn waiting_requests_are_bounded() {
    let mut limits = StateLimits::default();
    limits.locks.waiters_per_file_max = 1;
    let mut s = FileStates::new(limits, 1);
    s.lock_by_host(HOST, b"p", FILE, all(false)).unwrap();
    s.lock_by_host(OTHER_HOST, b"q", FILE, all(true)).unwrap();
    let one_more = s.lock_by_host(OTHER_HOST, b"r", FILE, all(true));
    assert_eq!(one_more, Err(NfsStatus::Resource));
}
