//! Goal: the cases of SETCLIENTID and SETCLIENTID_CONFIRM (RFC 7530 §16.33.5, §16.34.5), leases, and the end of a reclaim.

use super::*;
use crate::{CallbackSecurity, Grace};
use nfs4::{ClientId, NfsStatus, Verifier};

const LEASE_MS: u64 = 1000;

fn table(grace: Grace) -> Clients {
    let limits = ClientLimits {
        lease_ms: LEASE_MS,
        ..ClientLimits::default()
    };
    Clients::new(limits, 3, grace)
}

fn who(name: &str) -> Principal {
    Principal(name.into())
}

fn target(ident: u32) -> CallbackTarget {
    CallbackTarget {
        program: 0x4000_0000,
        ident,
        netid: b"tcp".to_vec(),
        uaddr: b"192.0.2.1.8.1".to_vec(),
        address: None,
        security: CallbackSecurity::None,
    }
}

/// Random numbers of a test are its own.
fn set_as(
    t: &mut Clients,
    (verifier, principal): (u8, &str),
    random: u64,
    has_state: bool,
) -> SetClientId {
    let args = SetClientIdRequest {
        id: b"host",
        verifier: Verifier {
            bytes: [verifier; 8],
        },
        principal: &who(principal),
        callback: target(u32::try_from(random).unwrap()),
        random,
    };
    t.set_client_id(args, 0, |_| has_state).unwrap()
}

fn set(t: &mut Clients, verifier: u8, random: u64) -> (ClientId, Verifier) {
    match set_as(t, (verifier, "root"), random, false) {
        SetClientId::Set(id, confirm) => (id, confirm),
        SetClientId::InUse(..) => panic!("it is in use"),
    }
}

fn confirm_as(
    t: &mut Clients,
    (id, confirm): (ClientId, Verifier),
    principal: &str,
) -> Result<ClientIdConfirmed, NfsStatus> {
    t.set_client_id_confirm(id, confirm, &who(principal), 0, |_| false)
}

fn confirmed(t: &mut Clients, verifier: u8, random: u64) -> ClientId {
    let set = set(t, verifier, random);
    assert!(confirm_as(t, set, "root").unwrap().is_news);
    set.0
}

#[test]
fn a_new_name_is_confirmed_once_and_again_by_a_retry() {
    let mut t = table(Grace::none());
    let one = set(&mut t, 1, 10);
    assert_eq!(
        t.begin_minor_0(one.0, 0),
        Err(NfsStatus::StaleClientId),
        "before it is confirmed"
    );
    let stale = Err(NfsStatus::StaleClientId);
    let wrong = Verifier { bytes: [9; 8] };
    assert_eq!(confirm_as(&mut t, (one.0, wrong), "root"), stale);
    let other = confirm_as(&mut t, one, "eve");
    assert_eq!(other, Err(NfsStatus::ClidInUse));
    assert!(confirm_as(&mut t, one, "root").unwrap().is_news);
    assert!(!confirm_as(&mut t, one, "root").unwrap().is_news);
    assert!(t.begin_minor_0(one.0, 0).is_ok());
    assert!(t.is_minor_0(one.0));
}

#[test]
fn an_unconfirmed_record_is_replaced() {
    let mut t = table(Grace::none());
    let one = set(&mut t, 1, 10);
    let two = set(&mut t, 1, 11);
    assert_ne!(one.0, two.0);
    let stale = Err(NfsStatus::StaleClientId);
    assert_eq!(confirm_as(&mut t, one, "root"), stale);
    assert!(confirm_as(&mut t, two, "root").is_ok());
}

#[test]
fn the_same_incarnation_moves_its_callback_and_keeps_its_state() {
    let mut t = table(Grace::none());
    let id = confirmed(&mut t, 1, 10);
    let again = set(&mut t, 1, 11);
    assert_eq!(again.0, id);
    assert_eq!(t.callback_target(id).unwrap().1.ident, 10, "not yet");
    let done = confirm_as(&mut t, again, "root").unwrap();
    assert!(done.is_news && done.removed.is_empty());
    let (version, callback) = t.callback_target(id).unwrap();
    assert_eq!((version, callback.ident), (again.1, 11));
}

#[test]
fn a_new_incarnation_ends_the_old_one_when_it_is_confirmed() {
    let mut t = table(Grace::none());
    let old = confirmed(&mut t, 1, 10);
    let new = set(&mut t, 2, 11);
    assert_ne!(new.0, old);
    assert!(t.begin_minor_0(old, 0).is_ok(), "until then it lives");
    let done = confirm_as(&mut t, new, "root").unwrap();
    assert_eq!(done.removed[0].client, old);
    assert_eq!(t.begin_minor_0(old, 0), Err(NfsStatus::StaleClientId));
}

#[test]
fn another_principal_gets_the_name_only_where_nothing_is_held() {
    let mut t = table(Grace::none());
    let old = confirmed(&mut t, 1, 10);
    let refused = set_as(&mut t, (2, "eve"), 11, true);
    let netid = b"tcp".to_vec();
    let uaddr = b"192.0.2.1.8.1".to_vec();
    assert_eq!(refused, SetClientId::InUse(netid, uaddr));
    let SetClientId::Set(id, confirm) = set_as(&mut t, (2, "eve"), 12, false) else {
        panic!("nothing is held");
    };
    let done = confirm_as(&mut t, (id, confirm), "eve").unwrap();
    assert_eq!(done.removed[0].client, old);
}

#[test]
fn the_two_protocols_do_not_share_names_or_operations() {
    let mut t = table(Grace::none());
    let id = confirmed(&mut t, 1, 10);
    let nobody = who("");
    let exchange = |owner| ExchangeArgs {
        owner,
        verifier: Verifier { bytes: [1; 8] },
        principal: &nobody,
        update: false,
        bind_enforced: false,
    };
    let owner = t.owner(id).unwrap().to_vec();
    let taken = t.exchange_id(&exchange(&owner), 0, |_| false);
    assert_eq!(taken, Err(NfsStatus::Inval));
    let other = t.exchange_id(&exchange(b"host"), 0, |_| false).unwrap();
    assert_ne!(other.client, id);
    let begun = t.begin_minor_0(other.client, 0);
    assert_eq!(begun, Err(NfsStatus::StaleClientId));
    let destroyed = t.destroy_client(id, |_| false);
    assert_eq!(destroyed, Err(NfsStatus::StaleClientId));
}

#[test]
fn a_request_renews_the_lease_and_holds_it_while_it_runs() {
    let mut t = table(Grace::none());
    let id = confirmed(&mut t, 1, 10);
    assert!(t.lapsed(id, LEASE_MS + 1));
    t.begin_minor_0(id, LEASE_MS).unwrap();
    assert!(!t.lapsed(id, 9 * LEASE_MS));
    t.end_minor_0(id);
    assert!(t.lapsed(id, 9 * LEASE_MS) && !t.lapsed(id, 2 * LEASE_MS));
    let gone = t.expire(9 * LEASE_MS, |_| false);
    assert_eq!(gone[0].client, id);
    assert_eq!(t.begin_minor_0(id, 0), Err(NfsStatus::Expired));
}

/// A table after a restart, where this client had something.
fn restarted() -> (Clients, ClientId) {
    let record = ClientRecord {
        client: ClientId { value: 1 },
        owner: [OWNER_PREFIX, b"host"].concat(),
        verifier: Verifier { bytes: [1; 8] },
        principal: who("root"),
        lost_delegations: false,
        holds_nothing: false,
    };
    let mut t = table(Grace::begin([record], 0, LEASE_MS));
    let id = confirmed(&mut t, 1, 10);
    (t, id)
}

fn end_grace(t: &mut Clients) {
    assert!(t.poll_grace(LEASE_MS).is_some());
}

#[test]
fn a_client_of_before_reclaims_in_grace_and_loses_its_record_at_its_end() {
    let (mut t, id) = restarted();
    assert_eq!(t.check_grace(id, true), Ok(()));
    assert_eq!(t.check_grace(id, false), Err(NfsStatus::Grace));
    assert!(t.record_needed(id, true).is_some());
    end_grace(&mut t);
    assert!(t.drops_record(id), "it may have more to reclaim");
    t.grace_finished();
    assert_eq!(t.check_grace(id, true), Err(NfsStatus::NoGrace));
    assert!(t.record_needed(id, true).is_none());
    // New state is what it takes when it is through.
    assert_eq!(t.check_grace(id, false), Ok(()));
    assert_eq!(t.takes_state(id, LEASE_MS), None);
    assert!(t.record_needed(id, true).is_some());
}

#[test]
fn renewals_for_a_lease_after_grace_end_a_reclaim_too() {
    let (mut t, id) = restarted();
    assert!(t.reclaims_over(0).is_empty());
    end_grace(&mut t);
    assert!(t.drops_record(id));
    t.grace_finished();
    assert!(t.reclaims_over(LEASE_MS).is_empty());
    t.begin_minor_0(id, 2 * LEASE_MS).unwrap();
    assert!(t.reclaims_over(2 * LEASE_MS).is_empty(), "too early");
    t.begin_minor_0(id, 2 * LEASE_MS + 1).unwrap();
    assert_eq!(t.reclaims_over(2 * LEASE_MS + 1), vec![id]);
    assert!(t.reclaims_over(2 * LEASE_MS + 1).is_empty());
    assert!(t.record_needed(id, false).is_some());
}

#[test]
fn a_newcomer_in_grace_has_nothing_to_reclaim() {
    let (mut t, _) = restarted();
    let args = SetClientIdRequest {
        id: b"other",
        verifier: Verifier { bytes: [1; 8] },
        principal: &who("root"),
        callback: target(1),
        random: 99,
    };
    let Ok(SetClientId::Set(id, confirm)) = t.set_client_id(args, 0, |_| false) else {
        panic!("nobody has the name");
    };
    confirm_as(&mut t, (id, confirm), "root").unwrap();
    assert_eq!(t.check_grace(id, true), Err(NfsStatus::NoGrace));
    assert_eq!(t.check_grace(id, false), Err(NfsStatus::Grace));
    end_grace(&mut t);
    assert!(!t.drops_record(id));
}
