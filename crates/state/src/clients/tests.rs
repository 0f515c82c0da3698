//! Goal: the cases of RFC 8881 §18.35.4 and §18.36.4, leases, courtesy and the two edge conditions
//! of §8.4.3. Method: small scenarios on a table with a 100 ms lease.

use std::collections::BTreeSet;

use nfs4::{ClientId, NfsStatus, SessionId, Verifier};

use super::connection_index::Bindings;
use super::*;
use crate::{CallbackSecurity, ChannelAttrs, Grace, GraceEnd, Sequence, Verdict, status_flags};

mod replies;
mod tables;

fn limits() -> ClientLimits {
    ClientLimits {
        clients_max: 3,
        unconfirmed_clients_max: 2,
        sessions_per_client_max: 2,
        lease_ms: 100,
        courtesy_ms: 1000,
        courtesy_clients_max: 2,
        ..ClientLimits::default()
    }
}

fn table() -> Clients {
    table_with(|_| {})
}

pub(super) fn table_with(change: impl FnOnce(&mut ClientLimits)) -> Clients {
    let mut limits = limits();
    change(&mut limits);
    Clients::new(limits, 7, Grace::none())
}

fn verifier(n: u8) -> Verifier {
    Verifier { bytes: [n; 8] }
}

fn who(name: &str) -> Principal {
    Principal(name.as_bytes().to_vec())
}

pub(super) fn exchange(
    t: &mut Clients,
    owner: &str,
    v: u8,
    principal: &str,
    update: bool,
    now_ms: u64,
    stateful: &[ClientId],
) -> Result<Exchanged, NfsStatus> {
    t.exchange_id(
        &ExchangeArgs {
            owner: owner.as_bytes(),
            verifier: verifier(v),
            principal: &who(principal),
            update,
            bind_enforced: false,
        },
        now_ms,
        |c| stateful.contains(&c),
    )
}

fn attrs() -> ChannelAttrs {
    ChannelAttrs {
        header_pad_bytes: 0,
        request_bytes_max: 65_536,
        response_bytes_max: 65_536,
        response_cached_bytes_max: 2048,
        operations_max: 16,
        requests_max: 8,
        rdma_ird: None,
    }
}

pub(super) fn create(
    t: &mut Clients,
    client: ClientId,
    seqid: u32,
    principal: &str,
    now_ms: u64,
) -> Result<CreateSession, NfsStatus> {
    create_over(t, 1, client, seqid, principal, now_ms)
}

fn create_over(
    t: &mut Clients,
    connection: u64,
    client: ClientId,
    seqid: u32,
    principal: &str,
    now_ms: u64,
) -> Result<CreateSession, NfsStatus> {
    t.create_session(
        CreateSessionArgs {
            client,
            seqid,
            principal: &who(principal),
            fore: attrs(),
            back: attrs(),
            back_channel: true,
            persistent: false,
            callback_program: 0x4000_0000,
            callback_security: CallbackSecurity::None,
            connection,
            random: 99,
            refused: None,
        },
        now_ms,
        |_| true,
    )
}

/// EXCHANGE_ID and CREATE_SESSION.
pub(super) fn mount(
    t: &mut Clients,
    owner: &str,
    v: u8,
    now_ms: u64,
) -> (ClientId, SessionCreated) {
    let x = exchange(t, owner, v, "p", false, now_ms, &[]).unwrap();
    match create(t, x.client, x.create_seqid, "p", now_ms).unwrap() {
        CreateSession::New { created, .. } => (x.client, created),
        CreateSession::Replay(_) => panic!("not a retry"),
    }
}

fn sequence(t: &mut Clients, session: SessionId, seqid: u32, now_ms: u64) -> Sequenced {
    let request = Sequence {
        slot: 0,
        seqid,
        highest_slot: 0,
        cache_this: false,
        fingerprint: 0,
    };
    t.sequence(session, 1, &request, now_ms, false).unwrap()
}

/// A whole request.
pub(super) fn call(t: &mut Clients, session: SessionId, seqid: u32, now_ms: u64) -> u32 {
    let done = sequence(t, session, seqid, now_ms);
    let Verdict::New(token) = done.verdict else {
        panic!("{done:?}")
    };
    t.complete(session, token, None);
    done.status_flags
}

#[test]
fn case_1_a_new_owner_gets_an_unconfirmed_client() {
    let mut t = table();
    let x = exchange(&mut t, "a", 1, "p", false, 0, &[]).unwrap();
    assert_eq!(x.client.value, 7 << 32 | 1);
    assert_eq!((x.create_seqid, x.confirmed, x.removed), (1, false, None));
    let y = exchange(&mut t, "b", 1, "p", false, 0, &[]).unwrap();
    assert_ne!(x.client, y.client);
}

#[test]
fn case_2_a_repeat_returns_the_confirmed_client() {
    let mut t = table();
    let (id, created) = mount(&mut t, "a", 1, 0);
    let x = exchange(&mut t, "a", 1, "p", false, 0, &[id]).unwrap();
    assert_eq!((x.client, x.confirmed, x.create_seqid), (id, true, 2));
    assert!(t.session(created.session).is_some());
}

#[test]
fn case_3_a_collision_yields_only_without_live_state() {
    let mut t = table();
    let (id, created) = mount(&mut t, "a", 1, 0);
    for v in [1, 2] {
        assert_eq!(
            exchange(&mut t, "a", v, "q", false, 100, &[id]),
            Err(NfsStatus::ClidInUse)
        );
    }
    assert!(t.session(created.session).is_some());
    // The lease is over.
    let x = exchange(&mut t, "a", 2, "q", false, 101, &[id]).unwrap();
    assert_eq!(x.removed.unwrap().client, id);
    assert!(t.session(created.session).is_none());

    let mut t = table();
    let (id, _) = mount(&mut t, "a", 1, 0);
    let x = exchange(&mut t, "a", 1, "q", false, 0, &[]).unwrap();
    assert_eq!(
        x.removed.unwrap().client,
        id,
        "no state, so it yields at once"
    );
}

#[test]
fn case_4_an_unconfirmed_record_is_replaced() {
    let mut t = table();
    let x = exchange(&mut t, "a", 1, "p", false, 0, &[]).unwrap();
    let y = exchange(&mut t, "a", 2, "q", false, 0, &[]).unwrap();
    assert_ne!(x.client, y.client);
    assert_eq!(t.clients_count(), 1);
    assert_eq!(
        create(&mut t, x.client, 1, "p", 0),
        Err(NfsStatus::StaleClientId)
    );
}

#[test]
fn case_5_a_restart_keeps_the_old_client_until_confirmed() {
    let mut t = table();
    let (old, created) = mount(&mut t, "a", 1, 0);
    let x = exchange(&mut t, "a", 2, "p", false, 0, &[old]).unwrap();
    assert!(!x.confirmed);
    assert!(t.session(created.session).is_some());
    // Yet another try before it is confirmed.
    let y = exchange(&mut t, "a", 3, "p", false, 0, &[old]).unwrap();
    assert_eq!(t.clients_count(), 2);
    let CreateSession::New { removed, .. } = create(&mut t, y.client, 1, "p", 0).unwrap() else {
        panic!()
    };
    assert_eq!(removed.len(), 1);
    assert_eq!(
        (removed[0].client, &removed[0].sessions[..]),
        (old, &[created.session][..])
    );
    assert_eq!(t.clients_count(), 1);
    let again = exchange(&mut t, "a", 3, "p", false, 0, &[]).unwrap();
    assert_eq!((again.client, again.confirmed), (y.client, true));
}

#[test]
fn cases_6_to_9_an_update_changes_no_record() {
    let mut t = table();
    assert_eq!(
        exchange(&mut t, "a", 1, "p", true, 0, &[]),
        Err(NfsStatus::NoEnt)
    );
    let x = exchange(&mut t, "a", 1, "p", false, 0, &[]).unwrap();
    assert_eq!(
        exchange(&mut t, "a", 1, "p", true, 0, &[]),
        Err(NfsStatus::NoEnt)
    );
    create(&mut t, x.client, 1, "p", 0).unwrap();
    for (v, principal, want) in [
        (1, "p", Ok(x.client)),
        (2, "p", Err(NfsStatus::NotSame)),
        (2, "q", Err(NfsStatus::NotSame)),
        (1, "q", Err(NfsStatus::Perm)),
    ] {
        let got = exchange(&mut t, "a", v, principal, true, 0, &[x.client]);
        assert_eq!(got.map(|x| x.client), want);
    }
    assert_eq!(t.clients_count(), 1);
}

#[test]
fn owners_and_principals_are_bounded() {
    let mut t = table();
    let long = "x".repeat(OWNER_BYTES_MAX + 1);
    for (owner, principal) in [("", "p"), (long.as_str(), "p"), ("a", long.as_str())] {
        assert_eq!(
            exchange(&mut t, owner, 1, principal, false, 0, &[]),
            Err(NfsStatus::Inval)
        );
    }
    assert!(exchange(&mut t, &long[1..], 1, "p", false, 0, &[]).is_ok());
}

#[test]
fn the_oldest_unconfirmed_client_gives_way() {
    let mut t = table();
    let first = exchange(&mut t, "a", 1, "p", false, 0, &[]).unwrap();
    let second = exchange(&mut t, "b", 1, "p", false, 0, &[]).unwrap();
    exchange(&mut t, "c", 1, "p", false, 0, &[]).unwrap();
    assert_eq!(t.clients_count(), 2);
    assert_eq!(
        create(&mut t, first.client, 1, "p", 0),
        Err(NfsStatus::StaleClientId)
    );
    assert!(create(&mut t, second.client, 1, "p", 0).is_ok());
}

#[test]
fn create_session_replays_its_only_slot() {
    let mut t = table();
    let x = exchange(&mut t, "a", 1, "p", false, 0, &[]).unwrap();
    for seqid in [0, 2, u32::MAX] {
        assert_eq!(
            create(&mut t, x.client, seqid, "p", 0),
            Err(NfsStatus::SeqMisordered)
        );
    }
    assert_eq!(
        create(&mut t, x.client, 1, "q", 0),
        Err(NfsStatus::ClidInUse)
    );
    let CreateSession::New { created, .. } = create(&mut t, x.client, 1, "p", 0).unwrap() else {
        panic!()
    };
    assert_eq!(
        create(&mut t, x.client, 1, "p", 0),
        Ok(CreateSession::Replay(created))
    );
    assert_eq!(t.sessions_count(), 1);
    assert_eq!(created.session.bytes[..4], 7_u32.to_be_bytes());
    assert!(created.back_channel);
    assert_eq!(
        create(&mut t, x.client, 3, "p", 0),
        Err(NfsStatus::SeqMisordered)
    );
    let CreateSession::New {
        created: second, ..
    } = create(&mut t, x.client, 2, "p", 0).unwrap()
    else {
        panic!()
    };
    assert_ne!(second.session, created.session);
    // The limit is a failure of its own, and a retry gets it again, until there is room.
    for _ in 0..2 {
        assert_eq!(create(&mut t, x.client, 3, "p", 0), Err(NfsStatus::NoSpc));
    }
    t.destroy_session(created.session, 1, 0).unwrap();
    // Only the confirmation asks who it is (RFC 8881 §18.36.4).
    let third = create(&mut t, x.client, 3, "q", 0);
    assert!(matches!(third, Ok(CreateSession::New { .. })), "{third:?}");
}

#[test]
fn a_refusal_leaves_the_sequence_id_and_the_next_one_good() {
    let mut t = table();
    let x = exchange(&mut t, "a", 1, "p", false, 0, &[]).unwrap();
    let args = CreateSessionArgs {
        client: x.client,
        seqid: 1,
        principal: &who("p"),
        fore: attrs(),
        back: attrs(),
        back_channel: true,
        persistent: false,
        callback_program: 0,
        callback_security: CallbackSecurity::None,
        connection: 1,
        random: 0,
        refused: Some(NfsStatus::NoEnt),
    };
    for _ in 0..2 {
        assert_eq!(
            t.create_session(args.clone(), 0, |_| true),
            Err(NfsStatus::NoEnt)
        );
    }
    let mut next = table();
    let y = exchange(&mut next, "a", 1, "p", false, 0, &[]).unwrap();
    let refused = CreateSessionArgs {
        client: y.client,
        ..args
    };
    assert!(next.create_session(refused, 0, |_| true).is_err());
    assert!(create(&mut next, y.client, 2, "p", 0).is_ok());
    assert!(create(&mut t, x.client, 1, "p", 0).is_ok());
}

#[test]
fn a_failed_first_session_confirms_nobody() {
    let mut t = table();
    let (old, _) = mount(&mut t, "a", 1, 0);
    let x = exchange(&mut t, "a", 2, "p", false, 0, &[old]).unwrap();
    let args = CreateSessionArgs {
        client: x.client,
        seqid: 1,
        principal: &who("p"),
        fore: ChannelAttrs {
            request_bytes_max: 1,
            ..attrs()
        },
        back: attrs(),
        back_channel: true,
        persistent: false,
        callback_program: 0,
        callback_security: CallbackSecurity::None,
        connection: 1,
        random: 0,
        refused: None,
    };
    assert_eq!(
        t.create_session(args, 0, |_| true),
        Err(NfsStatus::TooSmall)
    );
    assert_eq!(t.confirmed().collect::<Vec<_>>(), [old]);
    assert!(create(&mut t, x.client, 2, "p", 0).is_ok());
    assert_eq!(t.confirmed().collect::<Vec<_>>(), [x.client]);
}

#[test]
fn confirmed_clients_are_bounded_and_the_lapsed_give_way() {
    let mut t = table();
    let (a, _) = mount(&mut t, "a", 1, 0);
    mount(&mut t, "b", 1, 50);
    mount(&mut t, "c", 1, 50);
    let x = exchange(&mut t, "d", 1, "p", false, 60, &[]).unwrap();
    assert_eq!(create(&mut t, x.client, 1, "p", 60), Err(NfsStatus::Delay));
    // DELAY does not use up the sequence id, and a restart of a known client needs no room.
    mount(&mut t, "b", 2, 60);
    let CreateSession::New { removed, .. } = create(&mut t, x.client, 1, "p", 120).unwrap() else {
        panic!()
    };
    assert_eq!(removed.iter().map(|r| r.client).collect::<Vec<_>>(), [a]);
}

#[test]
fn destroying_sessions_and_clients() {
    let mut t = table();
    let (id, created) = mount(&mut t, "a", 1, 0);
    let none = |_| false;
    assert_eq!(t.destroy_client(id, none), Err(NfsStatus::ClientIdBusy));
    assert_eq!(
        t.destroy_session(SessionId::default(), 1, 0),
        Err(NfsStatus::BadSession)
    );
    let Verdict::New(token) = sequence(&mut t, created.session, 1, 0).verdict else {
        panic!()
    };
    assert_eq!(
        t.destroy_session(created.session, 1, 0),
        Err(NfsStatus::Delay)
    );
    let session = t.session_mut(created.session).unwrap();
    session.back_channel.acquire().unwrap();
    assert_eq!(
        t.destroy_session(created.session, 1, 1),
        Err(NfsStatus::BackChanBusy)
    );
    assert_eq!(
        t.destroy_session(created.session, 2, 1),
        Err(NfsStatus::ConnNotBoundToSession)
    );
    t.connection_closed(1);
    assert_eq!(t.destroy_session(created.session, 2, 1), Ok(()));
    assert!(!t.complete(created.session, token, None));
    assert_eq!(t.destroy_client(id, |_| true), Err(NfsStatus::ClientIdBusy));
    assert_eq!(t.destroy_client(id, none).unwrap().client, id);
    assert_eq!(t.destroy_client(id, none), Err(NfsStatus::StaleClientId));
    assert_eq!((t.clients_count(), t.sessions_count()), (0, 0));
}

#[test]
fn sequence_renews_the_lease_unless_it_fails() {
    let mut t = table();
    let (id, created) = mount(&mut t, "a", 1, 0);
    call(&mut t, created.session, 1, 90);
    assert!(!t.lapsed(id, 190));
    assert!(t.lapsed(id, 191));
    // Misordered: no renewal. A retry: renewal.
    assert_eq!(
        sequence(&mut t, created.session, 9, 150).verdict,
        Verdict::Misordered
    );
    assert!(t.lapsed(id, 191));
    assert_eq!(
        sequence(&mut t, created.session, 1, 150).verdict,
        Verdict::Uncached
    );
    assert!(!t.lapsed(id, 191));
    let request = Sequence {
        slot: 0,
        seqid: 2,
        highest_slot: 0,
        cache_this: false,
        fingerprint: 0,
    };
    let revoked = t.sequence(created.session, 1, &request, 240, true).unwrap();
    let Verdict::New(token) = revoked.verdict else {
        panic!()
    };
    assert!(!t.lapsed(id, 10_000), "a running request holds the lease");
    t.complete(created.session, token, None);
    assert!(t.lapsed(id, 251));
    assert_eq!(
        t.sequence(SessionId::default(), 1, &request, 0, false),
        Err(NfsStatus::BadSession)
    );
}

#[test]
fn a_lapsed_client_with_state_is_kept_within_limits() {
    let mut t = table();
    let (a, s) = mount(&mut t, "a", 1, 0);
    let (b, _) = mount(&mut t, "b", 1, 1);
    let (c, _) = mount(&mut t, "c", 1, 2);
    exchange(&mut t, "u", 1, "p", false, 0, &[]).unwrap();
    let ids = |r: Vec<RemovedClient>| r.into_iter().map(|r| r.client).collect::<Vec<_>>();
    assert_eq!(ids(t.expire(100, |_| false)), []);
    // Three lapsed, two may stay: the longest lapsed goes. The unconfirmed one goes without notice.
    assert_eq!(ids(t.expire(103, |_| true)), [a]);
    assert_eq!(t.clients_count(), 2);
    assert!(t.session(s.session).is_none());
    // Without state there is nothing to be kind about.
    assert_eq!(ids(t.expire(103, |x| x == c)), [b]);
    assert_eq!(ids(t.expire(1102, |_| true)), []);
    assert_eq!(ids(t.expire(1103, |_| true)), [c]);
}

#[test]
fn a_lapsed_client_comes_back_or_is_revoked() {
    let mut t = table();
    let (a, s) = mount(&mut t, "a", 1, 0);
    assert!(t.lapsed(a, 500));
    call(&mut t, s.session, 1, 500);
    assert!(!t.lapsed(a, 500));
    t.record_stored(a, false, 1);
    let gone = t.revoke(a).unwrap();
    assert_eq!((gone.client, gone.recorded), (a, true));
    assert_eq!(t.revoke(a), None);
    assert!(t.lapsed(a, 0), "nobody is lapsed");
    assert_eq!(create(&mut t, a, 2, "p", 0), Err(NfsStatus::StaleClientId));
}

#[test]
fn the_callback_path_shows_in_the_flags() {
    let mut t = table();
    let (id, one) = mount(&mut t, "a", 1, 0);
    create_over(&mut t, 2, id, 2, "p", 0).unwrap();
    let two = t.sessions_of(id)[1];
    assert_eq!(t.connection_closed(2), [two]);
    assert_eq!(t.sequence_flags(one.session), 0);
    assert_eq!(t.sequence_flags(two), status_flags::CB_PATH_DOWN_SESSION);
    assert_eq!(t.connection_closed(1), [one.session]);
    assert_eq!(
        call(&mut t, one.session, 1, 0),
        status_flags::CB_PATH_DOWN_SESSION | status_flags::CB_PATH_DOWN
    );

    let quiet = ClientLimits {
        callbacks: false,
        ..limits()
    };
    let mut t = Clients::new(quiet, 7, Grace::none());
    let (_, created) = mount(&mut t, "a", 1, 0);
    assert!(!created.back_channel);
    // The client's own number comes back (RFC 8881 §18.36.3); nothing is ever sent.
    assert_eq!(created.back.requests_max, attrs().requests_max);
    assert_eq!(call(&mut t, created.session, 1, 0), 0);
}

fn record(owner: &str, v: u8) -> ClientRecord {
    ClientRecord {
        client: ClientId { value: 6 << 32 | 1 },
        owner: owner.as_bytes().to_vec(),
        verifier: verifier(v),
        principal: who("p"),
        lost_delegations: false,
        holds_nothing: false,
    }
}

fn restarted(records: Vec<ClientRecord>) -> Clients {
    Clients::new(limits(), 7, Grace::begin(records, 0, 200))
}

#[test]
fn without_records_there_is_no_grace_but_reclaim_complete_is_due() {
    let mut t = restarted(vec![]);
    assert!(!t.in_grace());
    let (a, s) = mount(&mut t, "a", 1, 0);
    assert_eq!(call(&mut t, s.session, 1, 0), 0);
    assert_eq!(t.check_grace(a, false), Err(NfsStatus::Grace));
    assert_eq!(t.check_grace(a, true), Err(NfsStatus::NoGrace));
    assert_eq!(t.check_grace_names(), Ok(()));
    assert_eq!(t.reclaim_complete(a, 0), Ok(()));
    assert_eq!(t.reclaim_complete(a, 0), Err(NfsStatus::CompleteAlready));
    assert_eq!(t.check_grace(a, false), Ok(()));
    assert_eq!(
        t.reclaim_complete(ClientId::default(), 0),
        Err(NfsStatus::StaleClientId)
    );
}

#[test]
fn recorded_clients_reclaim_and_end_the_grace_period() {
    let mut t = restarted(vec![record("a", 1), record("b", 1)]);
    let (a, s) = mount(&mut t, "a", 1, 0);
    let (b, _) = mount(&mut t, "b", 1, 0);
    let (c, _) = mount(&mut t, "c", 1, 0);
    assert_eq!(
        call(&mut t, s.session, 1, 0),
        status_flags::RESTART_RECLAIM_NEEDED
    );
    assert_eq!(t.check_grace(a, true), Ok(()));
    assert_eq!(t.check_grace(a, false), Err(NfsStatus::Grace));
    assert_eq!(t.check_grace_names(), Err(NfsStatus::Grace));
    assert_eq!(t.check_grace(c, true), Err(NfsStatus::NoGrace));
    assert_eq!(t.check_grace_io(true), Err(NfsStatus::Grace));
    assert_eq!(t.check_grace_io(false), Ok(()));
    t.reclaim_complete(a, 0).unwrap();
    t.reclaim_complete(c, 0).unwrap();
    assert_eq!(call(&mut t, s.session, 2, 0), 0);
    assert_eq!(t.check_grace(a, true), Err(NfsStatus::NoGrace));
    assert_eq!(t.check_grace(c, false), Err(NfsStatus::Grace));
    assert_eq!(t.poll_grace(10), None);
    t.reclaim_complete(b, 0).unwrap();
    assert_eq!(t.poll_grace(10), Some(GraceEnd::AllComplete));
    assert_eq!(
        t.check_grace(a, false),
        Err(NfsStatus::Grace),
        "until the records are cleaned up"
    );
    assert_eq!(t.poll_grace(10), None);
    t.grace_finished();
    assert_eq!(t.check_grace(a, false), Ok(()));
    assert_eq!(t.check_grace_io(true), Ok(()));
}

#[test]
fn who_lost_a_delegation_reclaims_none() {
    let lost = ClientRecord {
        lost_delegations: true,
        ..record("a", 1)
    };
    let mut t = restarted(vec![lost, record("b", 1)]);
    let (a, _) = mount(&mut t, "a", 1, 0);
    let (b, _) = mount(&mut t, "b", 1, 0);
    assert_eq!(t.check_grace(a, true), Ok(()));
    assert!(!t.may_reclaim_delegations(a) && t.may_reclaim_delegations(b));
}

#[test]
fn only_the_recorded_incarnation_reclaims() {
    let mut t = restarted(vec![record("a", 1)]);
    // A stranger under the same name neither reclaims nor ends the wait.
    let x = exchange(&mut t, "a", 9, "q", false, 0, &[]).unwrap();
    create(&mut t, x.client, 1, "q", 0).unwrap();
    assert_eq!(t.check_grace(x.client, true), Err(NfsStatus::NoGrace));
    assert_eq!(t.poll_grace(0), None);
    // A new incarnation has lost everything, so nobody waits for the old.
    let (a, _) = mount(&mut t, "a", 2, 0);
    assert_eq!(t.check_grace(a, true), Err(NfsStatus::NoGrace));
    assert_eq!(t.poll_grace(0), Some(GraceEnd::AllComplete));
}

mod records;

/// First edge of §8.4.3: the lease ends, another takes the lock, the server restarts.
#[test]
fn a_client_that_expired_before_the_restart_has_no_record_left() {
    let mut t = table();
    let (a, _) = mount(&mut t, "a", 1, 0);
    t.reclaim_complete(a, 0).unwrap();
    let mut disk = BTreeSet::new();
    disk.insert(t.record_needed(a, true).unwrap().client);
    t.record_stored(a, false, 1);
    assert_eq!(t.record_needed(a, true), None);
    for gone in t.expire(10_000, |_| true) {
        assert!(gone.recorded);
        disk.remove(&gone.client);
    }
    assert!(disk.is_empty());
}

#[test]
fn the_grace_period_goes_on_while_reclaims_come_up_to_twice_its_length() {
    let mut t = restarted(vec![record("a", 1)]);
    let (a, _) = mount(&mut t, "a", 1, 0);
    assert_eq!(t.check_grace(a, true), Ok(()));
    t.reclaimed(199);
    assert_eq!(t.poll_grace(200), None);
    assert_eq!(t.poll_grace(399), None);
    t.reclaimed(399);
    let end = GraceEnd::Deadline { missing_count: 1 };
    assert_eq!(t.poll_grace(400), Some(end));
    t.reclaimed(400);
    assert_eq!(t.check_grace(a, true), Err(NfsStatus::NoGrace));
}

/// Second edge of §8.4.3: a partial reclaim, the grace period ends, another takes the rest, the
/// server restarts again.
#[test]
fn a_client_that_did_not_finish_its_reclaim_loses_its_record() {
    let mut t = restarted(vec![record("a", 1), record("b", 1)]);
    let (a, s) = mount(&mut t, "a", 1, 0);
    let (b, _) = mount(&mut t, "b", 1, 0);
    for id in [a, b] {
        assert!(t.record_needed(id, true).is_some());
        t.record_stored(id, false, 1);
    }
    t.reclaim_complete(b, 0).unwrap();
    assert_eq!(t.poll_grace(199), None);
    assert_eq!(
        t.poll_grace(200),
        Some(GraceEnd::Deadline { missing_count: 1 })
    );
    let earlier = record("a", 1).client;
    assert_eq!(
        [earlier, a, b].map(|id| t.drops_record(id)),
        [true, true, false]
    );
    assert_eq!(t.check_grace(a, true), Err(NfsStatus::NoGrace));
    t.grace_finished();
    assert_eq!(t.check_grace(a, true), Err(NfsStatus::NoGrace));
    assert_eq!(t.check_grace(a, false), Err(NfsStatus::Grace));
    assert_eq!(call(&mut t, s.session, 1, 200), 0);
    assert_eq!(
        t.record_needed(a, true),
        None,
        "not before RECLAIM_COMPLETE"
    );
    t.reclaim_complete(a, 0).unwrap();
    assert_eq!(t.record_needed(a, true).unwrap().client, a);
    assert_eq!(t.record_needed(b, true), None);
}

#[test]
fn a_record_deleted_at_the_end_of_grace_is_written_again() {
    let mut t = restarted(vec![record("a", 1)]);
    let (a, _) = mount(&mut t, "a", 1, 0);
    t.record_stored(a, false, 1);
    assert!(t.poll_grace(200).is_some());
    assert!(t.drops_record(a));
    // RECLAIM_COMPLETE comes between the look at the records and the end.
    t.reclaim_complete(a, 0).unwrap();
    assert!(t.record_needed(a, false).is_some());
    t.grace_finished();

    // A reclaim that was under way when the period ended leaves no record behind.
    let mut t = restarted(vec![record("a", 1)]);
    let (a, _) = mount(&mut t, "a", 1, 0);
    assert!(t.record_needed(a, true).is_some());
    assert!(t.poll_grace(200).is_some());
    assert_eq!(t.record_needed(a, true), None);
}
