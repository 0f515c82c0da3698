//! Goal: a client whose lease is over keeps what nobody else wants. What somebody wants is taken, and the client hears
//! of it (RFC 8881 §8.3, §8.4.3). Method: one metadata server over the memory transport, time paused; its table of
//! clients is gone through as the server does.
#![allow(
    clippy::unwrap_used,
    reason = "a failure here is the failure of a test"
)]

use crate::rig::cluster::{FakeDs, Port};
use crate::rig::file::File;
use crate::rig::{Client, Rig, after_putfh};
use nfs4::ops::*;
use nfs4::{ClientId, LockType, NfsStatus, StateOwner, Stateid};
use session_client::SessionError;
use std::sync::atomic::Ordering::Relaxed;
use std::time::Duration;
use xdr::Opaque;

/// Two leases of the rig's.
const AWAY: Duration = Duration::from_secs(60);
/// SEQ4_STATUS_ flags that state was revoked: EXPIRED_ALL, EXPIRED_SOME, ADMIN, RECALLABLE.
const REVOKED: u32 = 0x8 | 0x10 | 0x20 | 0x40;

async fn lock(file: &File<'_>) -> Option<Stateid> {
    let done = file.client.on(&file.fh, |b| {
        b.push(&LockArgs {
            lock_type: LockType::Write,
            reclaim: false,
            offset: 0,
            length: 10,
            locker: Locker::New(OpenToLockOwner {
                open_seqid: 0,
                open_stateid: file.open,
                lock_seqid: 0,
                lock_owner: StateOwner {
                    clientid: ClientId::default(),
                    owner: Opaque(b"locker"),
                },
            }),
        });
    });
    match after_putfh(&done.await).take::<LockRes<'_>>().unwrap() {
        LockRes::Ok(granted) => Some(granted.lock_stateid),
        LockRes::Denied(_) => None,
    }
}

/// What the server says of stateids.
async fn test(client: &Client, stateids: &[Stateid]) -> Vec<NfsStatus> {
    let done = client.run(|b| {
        b.push(&TestStateidArgs {
            stateids: xdr::List(stateids.to_vec()),
        });
    });
    let done = done.await;
    let tested = done.results().unwrap().take::<TestStateidRes>().unwrap();
    tested.statuses.0
}

/// Two clients, and files of the first, who is then away: with a lock on the first file.
struct Away {
    rig: Rig,
    _port: Port,
    _ds: FakeDs,
    alice: Client,
    bob: Client,
}

impl Away {
    async fn new() -> Self {
        let rig = Rig::new().await;
        let port = Port::open(&rig);
        let ds = FakeDs::joined(&rig, &port, 1).await;
        let (alice, bob) = (rig.session("alice").await, rig.session("bob").await);
        Self {
            rig,
            _port: port,
            _ds: ds,
            alice,
            bob,
        }
    }

    /// Time in which the second client alone is heard of.
    async fn pass(&self) {
        for _ in 0..AWAY.as_secs() {
            tokio::time::sleep(Duration::from_secs(1)).await;
            self.bob.session.renew().await.unwrap();
            self.rig.nfsd.expire().await;
        }
    }
}

#[tokio::test(start_paused = true)]
async fn what_nobody_wants_is_kept_beyond_the_lease() {
    let away = Away::new().await;
    let file = File::create(&away.alice, "f").await;
    let held = lock(&file).await.unwrap();
    let bobs = File::create(&away.bob, "f").await;
    assert_eq!(lock(&bobs).await, None, "within the lease it is hers");
    away.pass().await;
    assert_eq!(away.alice.session.renew().await.unwrap() & REVOKED, 0);
    let stateids = [file.open, held];
    assert_eq!(test(&away.alice, &stateids).await, [NfsStatus::Ok; 2]);
    assert_eq!(lock(&bobs).await, None, "it is hers again");
    file.close().await;
    assert!(lock(&bobs).await.is_some());
}

#[tokio::test(start_paused = true)]
async fn what_another_wants_is_taken_once_the_lease_is_over() {
    let away = Away::new().await;
    let file = File::create(&away.alice, "f").await;
    let held = lock(&file).await.unwrap();
    let bobs = File::create(&away.bob, "f").await;
    away.pass().await;
    assert!(lock(&bobs).await.is_some(), "at once, without asking her");
    // Nothing of her is left, and she hears of it by her next request (NFS4ERR_BADSESSION).
    let renewed = away.alice.session.renew().await;
    assert!(matches!(renewed, Err(SessionError::Lost)), "{renewed:?}");
    let again = away.rig.session("alice").await;
    let told = test(&again, &[file.open, held]).await;
    assert_eq!(told, [NfsStatus::BadStateid; 2]);
    assert!(lock(&bobs).await.is_some(), "and it is not hers again");
}

#[tokio::test(start_paused = true)]
async fn an_evicted_client_loses_all_at_once_and_begins_anew() {
    let away = Away::new().await;
    let file = File::create(&away.alice, "f").await;
    let held = lock(&file).await.unwrap();
    let bobs = File::create(&away.bob, "f").await;
    assert_eq!(lock(&bobs).await, None, "it is hers");
    let clients = away.rig.nfsd.clients();
    let page = clients.page(None);
    let alice = page.iter().find(|c| c.view.owner == b"alice").unwrap();
    let fs = away.rig.nfsd.role().fs();
    let evicted = fs::evict(fs, alice.view.id).await.unwrap();
    assert_eq!((evicted.held.opens, evicted.held.ranges), (1, 1));
    assert!(lock(&bobs).await.is_some(), "within her lease");
    let renewed = away.alice.session.renew().await;
    assert!(matches!(renewed, Err(SessionError::Lost)), "{renewed:?}");
    let again = away.rig.session("alice").await;
    let told = test(&again, &[file.open, held]).await;
    assert_eq!(told, [NfsStatus::BadStateid; 2]);
    assert_eq!(fs::evict(fs, alice.view.id).await, None);
}

/// A new incarnation ends the one before it, and a server cannot say which of two machines is meant. It can say that there are two.
#[tokio::test(start_paused = true)]
async fn two_clients_of_one_name_are_told_of() {
    let rig = Rig::new().await;
    let clashes = || rig.nfsd.counters().name_clashes.load(Relaxed);
    // A machine that starts again.
    let _first = rig.session_of("host", *b"boot0001", None).await;
    let _second = rig.session_of("host", *b"boot0002", None).await;
    assert_eq!((clashes(), rig.nfsd.clients().name_clashes()), (0, vec![]));
    // The first one is there all the same, and then the second.
    let _first = rig.session_of("host", *b"boot0001", None).await;
    let _second = rig.session_of("host", *b"boot0002", None).await;
    assert_eq!(clashes(), 2);
    let told = rig.nfsd.clients().name_clashes();
    assert_eq!(told.len(), 1);
    assert_eq!(told[0].owner, b"host");
    tokio::time::sleep(Duration::from_secs(600)).await;
    assert_eq!(rig.nfsd.clients().name_clashes(), []);
}
