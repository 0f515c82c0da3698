//! Goal: opens, locks and stateids as RFC 8881 §8.2, §9 and §18 say, with the limits. Method: tables
//! and scenarios with two clients, then locks against a naive per-byte model.

use nfs4::OTHER_BYTES;
use proptest::prelude::*;

use super::*;

const A: ClientId = ClientId { value: 1 };
const B: ClientId = ClientId { value: 2 };
const FILE: u64 = 9;
const R: u32 = ACCESS_READ;
const W: u32 = ACCESS_WRITE;

fn states() -> FileStates {
    FileStates::new(StateLimits::default(), 1)
}

fn share(access: u32, deny: u32) -> Share {
    Share { access, deny }
}

fn layout_of(mode: IoMode, return_on_close: bool) -> LayoutWanted {
    LayoutWanted {
        mode,
        may_read: false,
        return_on_close,
    }
}

fn open(s: &mut FileStates, client: ClientId, owner: &str, access: u32, deny: u32) -> Stateid {
    s.open(client, owner.as_bytes(), FILE, share(access, deny))
        .unwrap()
        .stateid
}

fn at(stateid: Stateid, seqid: u32) -> Stateid {
    Stateid { seqid, ..stateid }
}

fn range(offset: u64, length: u64) -> LockRange {
    LockRange::new(offset, length).unwrap()
}

fn args(kind: LockKind, offset: u64, length: u64) -> LockArgs {
    LockArgs {
        range: range(offset, length),
        kind,
        blocking: false,
    }
}

fn granted(outcome: Result<LockOutcome, NfsStatus>) -> Stateid {
    match outcome.unwrap() {
        LockOutcome::Granted(stateid) => stateid,
        LockOutcome::Denied(denied) => panic!("{denied:?}"),
    }
}

fn denied(outcome: Result<LockOutcome, NfsStatus>) -> LockDenied {
    match outcome.unwrap() {
        LockOutcome::Denied(denied) => denied,
        LockOutcome::Granted(stateid) => panic!("{stateid:?}"),
    }
}

#[test]
fn shares_conflict_as_the_table_says() {
    for (held, wanted, conflict) in [
        ((R, 0), (R, 0), false),
        ((3, 0), (3, 0), false),
        ((R, DENY_WRITE), (R, 0), false),
        ((R, DENY_WRITE), (W, 0), true),
        ((W, 0), (R, DENY_WRITE), true),
        ((R, 0), (R, DENY_WRITE), false),
        ((R, DENY_READ), (R, 0), true),
        ((R, 3), (3, 3), true),
        ((W, DENY_READ), (W, DENY_READ), false),
    ] {
        let mut s = states();
        open(&mut s, A, "o", held.0, held.1);
        let wanted = share(wanted.0, wanted.1);
        let clients: &[ClientId] = if conflict { &[A] } else { &[] };
        assert_eq!(s.share_conflicts(B, b"o", FILE, wanted), clients);
        let got = s.open(B, b"o", FILE, wanted).map(|o| o.is_new);
        let want = if conflict {
            Err(NfsStatus::ShareDenied)
        } else {
            Ok(true)
        };
        assert_eq!(got, want, "{held:?} {wanted:?}");
        // Another owner of the same client is another owner; another file is another file.
        let got = s.open(A, b"p", FILE, wanted).map(|_| ());
        assert_eq!(got.is_err(), conflict);
        assert!(s.open(B, b"o", 10, wanted).is_ok());
    }
    let mut s = states();
    for bad in [share(0, 0), share(4, 0), share(1, 4)] {
        assert_eq!(s.open(A, b"o", FILE, bad), Err(NfsStatus::Inval));
    }
}

#[test]
fn an_owner_upgrades_and_downgrades_by_its_own_opens() {
    let mut s = states();
    let one = open(&mut s, A, "o", R, 0);
    assert_eq!(one.seqid, 1);
    let again = s.open(A, b"o", FILE, share(W, DENY_WRITE)).unwrap();
    assert_eq!((again.stateid, again.is_new), (at(one, 2), false));
    assert_eq!(s.open_count(FILE), 1);
    let io = |s: &FileStates, io| s.check_io(at(one, 0), A, FILE, io);
    assert_eq!(io(&s, Io::Write), Ok(Ground::Open));
    // {R/0, W/deny W}: neither W/0 nor R/deny W nor 3/0 is a union of some of them.
    for bad in [share(W, 0), share(R, DENY_WRITE), share(3, 0), share(0, 0)] {
        assert_eq!(
            s.open_downgrade(at(one, 2), A, FILE, bad),
            Err(NfsStatus::Inval)
        );
    }
    assert_eq!(
        s.open_downgrade(at(one, 2), A, FILE, share(3, DENY_WRITE)),
        Ok(at(one, 3)),
        "the union of all"
    );
    assert_eq!(
        s.open_downgrade(at(one, 3), A, FILE, share(R, 0)),
        Ok(at(one, 4))
    );
    assert_eq!(io(&s, Io::Write), Err(NfsStatus::OpenMode));
    assert_eq!(io(&s, Io::Read), Ok(Ground::Open));
    assert_eq!(
        s.open_downgrade(at(one, 4), A, FILE, share(W, DENY_WRITE)),
        Err(NfsStatus::Inval),
        "no longer in effect"
    );
    assert!(s.open(B, b"o", FILE, share(W, 0)).is_ok());
}

#[test]
fn close_ends_the_open_and_its_locks() {
    let mut s = states();
    let a = open(&mut s, A, "o", 3, 0);
    let b = open(&mut s, B, "o", 3, 0);
    let lock = granted(s.lock_by_open(a, A, b"l", FILE, args(LockKind::Write, 0, 10)));
    assert_eq!(s.counts(), (2, 1, 0));
    let closed = s.close(a, A, FILE).unwrap();
    assert_eq!(
        (closed.last_of_file, closed.unlocked, closed.layout),
        (false, true, None)
    );
    assert_eq!(s.close(a, A, FILE), Err(NfsStatus::BadStateid));
    assert_eq!(
        s.unlock(lock, A, FILE, range(0, 1)),
        Err(NfsStatus::BadStateid)
    );
    assert_eq!(
        s.lock_test(B, b"l", FILE, range(0, 10), LockKind::Write),
        None
    );
    let closed = s.close(b, B, FILE).unwrap();
    assert_eq!((closed.last_of_file, closed.unlocked), (true, false));
    assert_eq!((s.open_count(FILE), s.counts()), (0, (0, 0, 0)));
    assert!(!s.has_state(A) && !s.has_state(B));
}

#[test]
fn opens_are_bounded_by_client_and_in_all() {
    let limits = StateLimits {
        opens: OpenLimits {
            per_client_max: 2,
            total_max: 3,
        },
        ..StateLimits::default()
    };
    let mut s = FileStates::new(limits, 1);
    let delay = Err(NfsStatus::Delay);
    open(&mut s, A, "1", R, 0);
    let two = open(&mut s, A, "2", R, 0);
    assert_eq!(s.open(A, b"3", FILE, share(R, 0)), delay);
    assert!(s.open(A, b"2", FILE, share(W, 0)).is_ok());
    open(&mut s, B, "1", R, 0);
    assert_eq!(s.open(B, b"2", FILE, share(R, 0)), delay);
    s.close(at(two, 2), A, FILE).unwrap();
    assert!(s.open(B, b"2", FILE, share(R, 0)).is_ok());
    let long = vec![0; crate::OWNER_BYTES_MAX + 1];
    assert_eq!(s.open(B, &long, FILE, share(R, 0)), Err(NfsStatus::Inval));
}

#[test]
fn io_is_checked_by_any_stateid() {
    let mut s = states();
    let reader = open(&mut s, A, "r", R, 0);
    let writer = open(&mut s, A, "w", W, 0);
    let lock = granted(s.lock_by_open(writer, A, b"l", FILE, args(LockKind::Write, 0, 1)));
    let layout = s.layout_get(reader, A, FILE, layout_of(IoMode::Read, false));
    let unknown = Stateid {
        seqid: 1,
        other: [7; OTHER_BYTES],
    };
    let bad = Err(NfsStatus::BadStateid);
    let (opened, permitted) = (Ok(Ground::Open), Ok(Ground::Permission));
    for (stateid, client, file, read, write) in [
        (reader, A, FILE, opened, Err(NfsStatus::OpenMode)),
        (at(reader, 0), A, FILE, opened, Err(NfsStatus::OpenMode)),
        (at(reader, 2), A, FILE, bad, bad),
        (writer, A, FILE, permitted, opened),
        (lock, A, FILE, permitted, opened),
        (lock, B, FILE, bad, bad),
        (reader, B, FILE, bad, bad),
        (reader, A, 10, bad, bad),
        (unknown, A, FILE, bad, bad),
        (layout.unwrap(), A, FILE, bad, bad),
        (Stateid::ANONYMOUS, B, FILE, permitted, permitted),
        (Stateid::READ_BYPASS, B, FILE, permitted, permitted),
        (Stateid::CURRENT, A, FILE, bad, bad),
        (Stateid::INVALID, A, FILE, bad, bad),
    ] {
        assert_eq!(
            s.check_io(stateid, client, file, Io::Read),
            read,
            "{stateid:?}"
        );
        assert_eq!(
            s.check_io(stateid, client, file, Io::Write),
            write,
            "{stateid:?}"
        );
    }
    open(&mut s, A, "r", R, 0);
    assert_eq!(
        s.check_io(reader, A, FILE, Io::Read),
        Err(NfsStatus::OldStateid)
    );
}

#[test]
fn special_stateids_respect_deny_modes() {
    let (ok, locked) = (Ok(Ground::Permission), Err(NfsStatus::Locked));
    for (deny, anonymous_read, bypass_read, write) in [
        (0, ok, ok, ok),
        (DENY_READ, locked, ok, ok),
        (DENY_WRITE, ok, ok, locked),
        (3, locked, ok, locked),
    ] {
        let mut s = states();
        open(&mut s, A, "o", 3, deny);
        let io = |stateid, io| s.check_io(stateid, B, FILE, io);
        assert_eq!(io(Stateid::ANONYMOUS, Io::Read), anonymous_read);
        assert_eq!(io(Stateid::READ_BYPASS, Io::Read), bypass_read);
        assert_eq!(io(Stateid::ANONYMOUS, Io::Write), write);
        assert_eq!(io(Stateid::READ_BYPASS, Io::Write), write);
    }
}

#[test]
fn who_opened_to_write_alone_reads_by_permission_and_against_no_deny_mode() {
    let mut s = states();
    let w = open(&mut s, A, "w", W, 0);
    let get = |s: &mut FileStates, mode, may_read| {
        let want = LayoutWanted {
            may_read,
            ..layout_of(mode, true)
        };
        s.layout_get(w, A, FILE, want)
    };
    assert_eq!(
        get(&mut s, IoMode::Read, false),
        Err(NfsStatus::Access),
        "any layout lets its client read"
    );
    assert_eq!(
        get(&mut s, IoMode::ReadWrite, false),
        Err(NfsStatus::LayoutUnavailable)
    );
    let layout = get(&mut s, IoMode::ReadWrite, true).unwrap();
    assert_eq!(
        s.layout_get(layout, A, FILE, layout_of(IoMode::Read, true)),
        Err(NfsStatus::Access),
        "nor by a layout stateid"
    );
    let r = open(&mut s, A, "r", R, 0);
    assert!(
        s.layout_get(r, A, FILE, layout_of(IoMode::Read, true))
            .is_ok(),
        "the open was allowed to"
    );
    s.close(r, A, FILE).unwrap();
    open(&mut s, B, "deny", W, DENY_READ);
    assert_eq!(
        s.check_io(w, A, FILE, Io::Read),
        Err(NfsStatus::Locked),
        "RFC 8881 §9.1.2: deny modes hold all the same"
    );
    assert_eq!(get(&mut s, IoMode::Read, true), Err(NfsStatus::Locked));
    assert_eq!(
        get(&mut s, IoMode::ReadWrite, true),
        Err(NfsStatus::LayoutUnavailable)
    );
}

#[test]
fn locks_conflict_across_owners_and_report_the_lowest() {
    let mut s = states();
    let a = open(&mut s, A, "o", 3, 0);
    let b = open(&mut s, B, "o", 3, 0);
    let lock = granted(s.lock_by_open(a, A, b"l", FILE, args(LockKind::Write, 10, 10)));
    assert_eq!(lock.seqid, 1);
    assert_eq!(
        granted(s.lock_by_owner(lock, A, FILE, args(LockKind::Read, 30, u64::MAX))),
        at(lock, 2)
    );
    let d = denied(s.lock_by_open(b, B, b"l", FILE, args(LockKind::Write, 0, 100)));
    assert_eq!((d.range.offset(), d.range.length()), (10, 10));
    assert_eq!(
        (d.kind, d.client, d.owner.as_slice()),
        (LockKind::Write, A, &b"l"[..])
    );
    assert_eq!(s.counts().1, 1, "a denied owner leaves no state");
    let test = |s: &FileStates, kind, offset, length| {
        s.lock_test(B, b"l", FILE, range(offset, length), kind)
            .map(|d| d.range.offset())
    };
    assert_eq!(test(&s, LockKind::Read, 0, u64::MAX), Some(10));
    assert_eq!(test(&s, LockKind::Read, 30, 5), None);
    assert_eq!(test(&s, LockKind::Write, u64::MAX, u64::MAX), Some(30));
    assert_eq!(test(&s, LockKind::Write, 20, 10), None);
    // The owner itself, also by its open again; its other stateids see the same owner.
    assert_eq!(
        s.lock_test(A, b"l", FILE, range(0, u64::MAX), LockKind::Write),
        None
    );
    assert_eq!(
        granted(s.lock_by_open(a, A, b"l", FILE, args(LockKind::Read, 10, 10))),
        at(lock, 3)
    );
    granted(s.lock_by_open(b, B, b"l", FILE, args(LockKind::Read, 0, 100)));
    // An upgrade in the face of another reader is denied and changes nothing.
    denied(s.lock_by_owner(at(lock, 3), A, FILE, args(LockKind::Write, 10, 1)));
    assert_eq!(
        s.unlock(at(lock, 3), A, FILE, range(0, u64::MAX)),
        Ok(at(lock, 4))
    );
    assert_eq!(
        s.unlock(at(lock, 3), A, FILE, range(0, 1)),
        Err(NfsStatus::OldStateid)
    );
}

#[test]
fn a_lock_needs_an_open_that_allows_it() {
    let mut s = states();
    let r = open(&mut s, A, "r", R, 0);
    let w = open(&mut s, A, "w", W, 0);
    let mode = Err(NfsStatus::OpenMode);
    assert_eq!(
        s.lock_by_open(r, A, b"l", FILE, args(LockKind::Write, 0, 1)),
        mode
    );
    assert_eq!(
        s.lock_by_open(w, A, b"l", FILE, args(LockKind::Read, 0, 1)),
        mode
    );
    let lock = granted(s.lock_by_open(r, A, b"l", FILE, args(LockKind::Read, 0, 1)));
    assert_eq!(
        s.lock_by_owner(lock, A, FILE, args(LockKind::Write, 0, 1)),
        mode
    );
    let bad = Err(NfsStatus::BadStateid);
    // A lock's stateid where an open's is due, and the other way round.
    assert_eq!(
        s.lock_by_open(lock, A, b"l", FILE, args(LockKind::Read, 0, 1)),
        bad
    );
    assert_eq!(s.lock_by_owner(r, A, FILE, args(LockKind::Read, 0, 1)), bad);
    assert_eq!(s.close(lock, A, FILE), Err(NfsStatus::BadStateid));
}

#[test]
fn ranges_are_bounded_and_an_unused_state_is_not_left_behind() {
    let limits = StateLimits {
        locks: LockLimits {
            ranges_per_owner_max: 3,
            ranges_per_file_max: 4,
            states_per_client_max: 2,
            ..LockLimits::default()
        },
        ..StateLimits::default()
    };
    let mut s = FileStates::new(limits, 1);
    let a = open(&mut s, A, "o", 3, 0);
    let delay = Err(NfsStatus::Delay);
    let lock = granted(s.lock_by_open(a, A, b"1", FILE, args(LockKind::Read, 0, 10)));
    let lock = granted(s.lock_by_owner(lock, A, FILE, args(LockKind::Read, 20, 10)));
    assert_eq!(
        s.lock_by_owner(lock, A, FILE, args(LockKind::Read, 40, 10)),
        delay
    );
    granted(s.lock_by_open(a, A, b"2", FILE, args(LockKind::Read, 0, 10)));
    assert_eq!(
        s.lock_by_open(a, A, b"3", FILE, args(LockKind::Read, 0, 10)),
        delay
    );
    assert_eq!(s.counts().1, 2);
    let lock = s.unlock(lock, A, FILE, range(5, 1)).unwrap();
    assert_eq!(s.unlock(lock, A, FILE, range(7, 1)), Err(NfsStatus::Delay));
    let b = open(&mut s, B, "o", 3, 0);
    assert_eq!(
        s.lock_by_open(b, B, b"1", FILE, args(LockKind::Read, 0, 1)),
        delay,
        "the file is full"
    );
    assert_eq!(s.counts().1, 2, "and the new owner is gone again");
    // Room again, by an unlock and by a close.
    s.unlock(lock, A, FILE, range(0, u64::MAX)).unwrap();
    let one = granted(s.lock_by_open(b, B, b"1", FILE, args(LockKind::Read, 0, 5)));
    granted(s.lock_by_open(b, B, b"2", FILE, args(LockKind::Read, 0, 1)));
    assert_eq!(
        s.lock_by_open(b, B, b"2", FILE, args(LockKind::Read, 9, 1)),
        delay
    );
    s.close(a, A, FILE).unwrap();
    let wide = granted(s.lock_by_open(b, B, b"2", FILE, args(LockKind::Read, 9, 5)));
    // Three on the file; one split fills it, another is refused, to whomever.
    let wide = s.unlock(wide, B, FILE, range(11, 1)).unwrap();
    assert_eq!(
        s.unlock(wide, B, FILE, range(12, 1)).map(|s| s.seqid),
        Ok(4),
        "no split"
    );
    assert_eq!(s.unlock(one, B, FILE, range(2, 1)), Err(NfsStatus::Delay));
    assert!(s.unlock(one, B, FILE, range(0, 3)).is_ok());
}

#[test]
fn a_client_and_all_of_them_are_bounded_over_many_files() {
    let limits = StateLimits {
        locks: LockLimits {
            ranges_per_client_max: 4,
            ranges_total_max: 6,
            states_total_max: 4,
            ..LockLimits::default()
        },
        ..StateLimits::default()
    };
    let mut s = FileStates::new(limits, 1);
    let delay = Err(NfsStatus::Delay);
    let a = open(&mut s, A, "o", 3, 0);
    let first = granted(s.lock_by_open(a, A, b"1", FILE, args(LockKind::Read, 0, 1)));
    granted(s.lock_by_open(a, A, b"2", FILE, args(LockKind::Read, 0, 1)));
    let third = granted(s.lock_by_open(a, A, b"3", FILE, args(LockKind::Read, 0, 9)));
    assert_eq!(
        s.lock_by_open(a, A, b"4", FILE, args(LockKind::Read, 0, 1)),
        delay,
        "the client has three, and one more may add two"
    );
    assert_eq!(s.counts().1, 3, "and the new state is gone again");
    let third = s.unlock(third, A, FILE, range(4, 1)).unwrap();
    let refused = s.unlock(third, A, FILE, range(1, 1));
    assert_eq!(refused, Err(NfsStatus::Delay));
    let b = open(&mut s, B, "o", 3, 0);
    let of_b = granted(s.lock_by_open(b, B, b"1", FILE, args(LockKind::Read, 0, 1)));
    assert_eq!(
        s.lock_by_owner(of_b, B, FILE, args(LockKind::Read, 5, 1)),
        delay,
        "five of six in all"
    );
    s.unlock(third, A, FILE, range(0, 9)).unwrap();
    let of_b = granted(s.lock_by_owner(of_b, B, FILE, args(LockKind::Read, 5, 1)));
    assert_eq!(
        s.lock_by_open(b, B, b"2", FILE, args(LockKind::Read, 0, 1)),
        delay,
        "four states in all"
    );
    s.unlock(first, A, FILE, range(0, 1)).unwrap();
    s.close(a, A, FILE).unwrap();
    granted(s.lock_by_owner(of_b, B, FILE, args(LockKind::Read, 9, 1)));
    s.close(b, B, FILE).unwrap();
    let a = open(&mut s, A, "o", 3, 0);
    for owner in [b"1", b"2", b"3"] {
        granted(s.lock_by_open(a, A, owner, FILE, args(LockKind::Read, 0, 1)));
    }
}

#[test]
fn denied_blocking_locks_are_told_when_free() {
    let limits = StateLimits {
        locks: LockLimits {
            waiters_per_file_max: 2,
            ..LockLimits::default()
        },
        ..StateLimits::default()
    };
    let mut s = FileStates::new(limits, 1);
    let a = open(&mut s, A, "o", 3, 0);
    let b = open(&mut s, B, "o", 3, 0);
    let lock = granted(s.lock_by_open(a, A, b"l", FILE, args(LockKind::Write, 0, 20)));
    let wait = |offset| LockArgs {
        blocking: true,
        ..args(LockKind::Write, offset, 5)
    };
    denied(s.lock_by_open(b, B, b"0", FILE, args(LockKind::Write, 0, 5)));
    denied(s.lock_by_open(b, B, b"1", FILE, wait(0)));
    denied(s.lock_by_open(b, B, b"1", FILE, wait(0)));
    denied(s.lock_by_open(b, B, b"2", FILE, wait(10)));
    denied(s.lock_by_open(b, B, b"3", FILE, wait(10)));
    assert_eq!(s.locks.waiters_count(), 2);
    assert_eq!(s.unblocked(FILE).free, []);
    let lock = s.unlock(lock, A, FILE, range(0, 10)).unwrap();
    assert_eq!(s.unblocked(FILE).free, [(B, b"1".to_vec())]);
    assert_eq!(s.unblocked(FILE).free, []);
    granted(s.lock_by_open(b, B, b"1", FILE, wait(0)));
    s.unlock(lock, A, FILE, range(0, u64::MAX)).unwrap();
    // Got it before being told: no need to tell.
    granted(s.lock_by_open(b, B, b"2", FILE, wait(10)));
    assert_eq!(
        (s.unblocked(FILE).free, s.locks.waiters_count()),
        (vec![], 0)
    );
}

#[test]
fn stateids_are_tested_and_freed() {
    let mut s = states();
    let a = open(&mut s, A, "o", 3, 0);
    let lock = granted(s.lock_by_open(a, A, b"l", FILE, args(LockKind::Write, 0, 20)));
    let layout = s
        .layout_get(a, A, FILE, layout_of(IoMode::Read, false))
        .unwrap();
    for (stateid, client, status) in [
        (a, A, NfsStatus::Ok),
        (lock, A, NfsStatus::Ok),
        (layout, A, NfsStatus::Ok),
        (at(a, 0), A, NfsStatus::Ok),
        (at(a, 2), A, NfsStatus::BadStateid),
        (a, B, NfsStatus::BadStateid),
        (Stateid::ANONYMOUS, A, NfsStatus::BadStateid),
        (Stateid::CURRENT, A, NfsStatus::BadStateid),
    ] {
        assert_eq!(s.test_stateid(stateid, client), status, "{stateid:?}");
    }
    for held in [a, lock, layout] {
        assert_eq!(s.free_stateid(held, A), Err(NfsStatus::LocksHeld));
    }
    let lock = s.unlock(lock, A, FILE, range(0, u64::MAX)).unwrap();
    assert_eq!(s.free_stateid(lock, B), Err(NfsStatus::BadStateid));
    assert_eq!(s.free_stateid(at(lock, 1), A), Err(NfsStatus::OldStateid));
    assert_eq!(s.free_stateid(lock, A), Ok(()));
    assert_eq!(s.free_stateid(lock, A), Err(NfsStatus::BadStateid));
}

#[test]
fn revoked_state_stays_known_until_freed() {
    for (cause, status, flag) in [
        (RevokeCause::ExpiredAll, NfsStatus::Expired, 0x8),
        (RevokeCause::ExpiredSome, NfsStatus::Expired, 0x10),
        (RevokeCause::Admin, NfsStatus::AdminRevoked, 0x20),
        (RevokeCause::Recall, NfsStatus::DelegRevoked, 0x40),
    ] {
        let mut s = states();
        let a = open(&mut s, A, "o", 3, 0);
        let lock = granted(s.lock_by_open(a, A, b"l", FILE, args(LockKind::Write, 0, 20)));
        assert_eq!(s.revoked_flags(A), 0);
        assert_eq!(s.revoke_state(&a.other, cause), Some(FILE));
        assert_eq!(s.revoke_state(&a.other, cause), None);
        assert_eq!(s.revoked_flags(A), flag);
        for gone in [a, lock] {
            assert_eq!(s.test_stateid(gone, A), status);
            assert_eq!(s.check_io(gone, A, FILE, Io::Read), Err(status));
        }
        assert_eq!(s.close(a, A, FILE), Err(status));
        assert_eq!(s.unlock(lock, A, FILE, range(0, 1)), Err(status));
        assert_eq!(
            s.layout_get(a, A, FILE, layout_of(IoMode::Read, false)),
            Err(status)
        );
        assert_eq!(s.free_stateid(a, A), Ok(()));
        assert_eq!(s.revoked_flags(A), flag);
        assert_eq!(s.free_stateid(lock, A), Ok(()));
        assert_eq!(s.revoked_flags(A), 0);
        assert_eq!(s.test_stateid(a, A), NfsStatus::BadStateid);
        assert_eq!(s.open_count(FILE), 0);
    }
}

#[test]
fn layouts_are_got_by_opens_that_allow_them() {
    let mut s = states();
    let r = open(&mut s, A, "r", R, 0);
    assert_eq!(
        s.layout_get(r, A, FILE, layout_of(IoMode::ReadWrite, false)),
        Err(NfsStatus::OpenMode)
    );
    let layout = s
        .layout_get(r, A, FILE, layout_of(IoMode::Read, true))
        .unwrap();
    assert_eq!(
        s.layout_get(layout, A, FILE, layout_of(IoMode::ReadWrite, true)),
        Err(NfsStatus::OpenMode)
    );
    let w = open(&mut s, A, "w", W, 0);
    assert!(
        s.layout_get(layout, A, FILE, layout_of(IoMode::ReadWrite, true))
            .is_ok()
    );
    for special in [Stateid::ANONYMOUS, Stateid::READ_BYPASS, Stateid::CURRENT] {
        assert_eq!(
            s.layout_get(special, A, FILE, layout_of(IoMode::Read, true)),
            Err(NfsStatus::BadStateid)
        );
    }
    assert_eq!(
        s.close(r, A, FILE).unwrap().layout,
        None,
        "one open is left"
    );
    let returned = s.close(w, A, FILE).unwrap().layout.unwrap();
    assert!(returned.rw && returned.stateid.is_none());
}

#[test]
fn a_removed_client_leaves_nothing() {
    let mut s = states();
    let a = open(&mut s, A, "o", 3, 0);
    let b = open(&mut s, B, "o", 3, 0);
    s.open(A, b"o", 5, share(R, 0)).unwrap();
    granted(s.lock_by_open(a, A, b"l", FILE, args(LockKind::Write, 0, 20)));
    let wait = LockArgs {
        blocking: true,
        ..args(LockKind::Read, 0, 5)
    };
    denied(s.lock_by_open(b, B, b"w", FILE, wait));
    s.layout_get(a, A, FILE, layout_of(IoMode::ReadWrite, false))
        .unwrap();
    let gone = s.remove_client(A);
    assert_eq!(gone.closed_files, [5]);
    assert_eq!(gone.unlocked_files, [FILE]);
    assert_eq!(
        gone.layouts.iter().map(|l| l.file).collect::<Vec<_>>(),
        [FILE]
    );
    assert!(!s.has_state(A));
    assert_eq!(s.unblocked(FILE).free, [(B, b"w".to_vec())]);
    assert_eq!(s.counts(), (1, 0, 0));
    assert_eq!(s.remove_client(A), ClientGone::default());
    let last = s.remove_client(B);
    assert_eq!(last.closed_files, [FILE]);
}

#[test]
fn a_removed_client_waits_for_nothing_and_has_nothing_revoked() {
    let mut s = states();
    let a = open(&mut s, A, "o", 3, 0);
    let b = open(&mut s, B, "o", 3, 0);
    granted(s.lock_by_open(a, A, b"l", FILE, args(LockKind::Write, 0, 20)));
    let wait = LockArgs {
        blocking: true,
        ..args(LockKind::Read, 0, 5)
    };
    denied(s.lock_by_open(b, B, b"w", FILE, wait));
    s.revoke_state(&b.other, RevokeCause::Admin);
    assert_ne!(s.revoked_flags(B), 0);
    s.remove_client(B);
    assert_eq!(s.revoked_flags(B), 0);
    s.close(a, A, FILE).unwrap();
    assert_eq!(
        (s.unblocked(FILE).free, s.locks.waiters_count()),
        (vec![], 0)
    );
}

const BYTES: u64 = 16;

fn index(byte: u64) -> usize {
    usize::try_from(byte.min(BYTES)).unwrap()
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 256, failure_persistence: None, ..ProptestConfig::default() })]

    /// Three owners of two clients lock, test and unlock at random; who gets what equals a map from
    /// byte to holders.
    #[test]
    fn locks_equal_a_byte_map(
        steps in prop::collection::vec((0..3_usize, 0..BYTES, 1..BYTES, 0..3_u8), 1..80)
    ) {
        let mut s = states();
        let owners: [(ClientId, &[u8]); 3] = [(A, b"x"), (A, b"y"), (B, b"x")];
        let opens = [open(&mut s, A, "o", 3, 0), open(&mut s, B, "o", 3, 0)];
        // model[owner][byte]; bytes beyond the map count as the last one.
        let mut model = vec![vec![None; index(BYTES)]; 3];
        let mut held: Vec<Option<Stateid>> = vec![None; 3];
        for (who, offset, length, action) in steps {
            let (client, owner) = owners[who];
            let to_end = offset + length >= BYTES;
            let span = range(offset, if to_end { u64::MAX } else { length });
            let bytes = index(offset)..index(offset + length);
            if action == 2 {
                if let Some(stateid) = held[who] {
                    held[who] = Some(s.unlock(stateid, client, FILE, span).unwrap());
                    model[who][bytes].fill(None);
                }
                continue;
            }
            let kind = if action == 0 { LockKind::Read } else { LockKind::Write };
            let conflict = (0..3).filter(|o| *o != who).any(|o| {
                model[o][bytes.clone()].iter().flatten()
                    .any(|k| *k == LockKind::Write || kind == LockKind::Write)
            });
            let probe = s.lock_test(client, owner, FILE, span, kind);
            prop_assert_eq!(probe.is_some(), conflict);
            let args = LockArgs { range: span, kind, blocking: false };
            let outcome = match held[who] {
                Some(stateid) => s.lock_by_owner(stateid, client, FILE, args),
                None => {
                    let open = opens[usize::from(client == B)];
                    s.lock_by_open(open, client, owner, FILE, args)
                }
            };
            match outcome.unwrap() {
                LockOutcome::Granted(stateid) => {
                    prop_assert!(!conflict);
                    held[who] = Some(stateid);
                    model[who][bytes].fill(Some(kind));
                }
                LockOutcome::Denied(d) => {
                    prop_assert!(conflict);
                    prop_assert_eq!(Some(d), probe);
                }
            }
        }
    }
}
