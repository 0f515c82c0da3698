//! Goal: share reservations, exclusive creation, byte-range locks with waiters, TEST_STATEID and FREE_STATEID work over
//! the wire. They do what RFC 8881 §9, §18.16, §18.38, §18.48 and §20.11 say. Method: one metadata server over the
//! memory transport, COMPOUNDs by hand.
#![allow(
    clippy::unwrap_used,
    reason = "a failure here is the failure of a test"
)]

use crate::rig::cluster::{FakeDs, Port};
use crate::rig::file::File;
use crate::rig::{Client, Rig, after_putfh};
use nfs4::attr::Attrs;
use nfs4::cb::CbNotifyLockArgs;
use nfs4::ops::*;
use nfs4::{
    CbOpNum, ClientId, CompoundBuilder, Fattr, FileHandle, LockType, NfsStatus, OpReader,
    StateOwner, Stateid, Verifier,
};
use session_client::CallbackHandler;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;
use tracing_mutex::parkinglot::Mutex;
use xdr::{List, Opaque};

async fn cluster() -> (Rig, Port, FakeDs) {
    let rig = Rig::new().await;
    let port = Port::open(&rig);
    let ds = FakeDs::joined(&rig, &port, 1).await;
    (rig, port, ds)
}

fn owner(name: &'static [u8]) -> StateOwner<'static> {
    StateOwner {
        clientid: ClientId::default(),
        owner: Opaque(name),
    }
}

async fn open(
    client: &Client,
    how: OpenHow<'static>,
    share: (u32, u32),
) -> Result<OpenRes, NfsStatus> {
    let root = client.lookup(&[]).await.unwrap();
    let done = client
        .on(&root, |b| {
            b.push(&OpenArgs {
                seqid: 0,
                share_access: share.0,
                share_deny: share.1,
                owner: owner(b"o"),
                how: how.clone(),
                claim: OpenClaim::Null(Opaque(b"f")),
            });
        })
        .await;
    let mut reply = after_putfh(&done);
    reply.take::<OpenRes>().map_err(|e| e.status().unwrap())
}

fn exclusive(verifier: u8) -> OpenHow<'static> {
    OpenHow::Create(CreateHow::Exclusive41(CreateVerfAttrs {
        verifier: Verifier {
            bytes: [verifier; 8],
        },
        attrs: Fattr::new(&Attrs {
            mode: Some(0o600),
            ..Attrs::default()
        }),
    }))
}

#[tokio::test]
async fn an_exclusive_create_is_repeated_by_its_verifier_only() {
    let (rig, _port, _ds) = cluster().await;
    let (alice, bob) = (rig.session("alice").await, rig.session("bob").await);
    let first = open(&alice, exclusive(1), (SHARE_ACCESS_BOTH, 0)).await;
    assert!(!first.unwrap().attrset.is_empty());
    let again = open(&alice, exclusive(1), (SHARE_ACCESS_BOTH, 0)).await;
    assert!(again.is_ok());
    let other = open(&bob, exclusive(2), (SHARE_ACCESS_BOTH, 0)).await;
    assert_eq!(other.unwrap_err(), NfsStatus::Exist);
}

#[tokio::test]
async fn shares_are_denied_both_ways() {
    let (rig, _port, _ds) = cluster().await;
    let (alice, bob) = (rig.session("alice").await, rig.session("bob").await);
    let find = OpenHow::NoCreate;
    let held = (SHARE_ACCESS_READ, SHARE_DENY_WRITE);
    open(&alice, exclusive(1), held).await.unwrap();
    for (share, status) in [
        // What alice denies, and a denial of what she has.
        ((SHARE_ACCESS_WRITE, 0), Err(NfsStatus::ShareDenied)),
        (
            (SHARE_ACCESS_READ, SHARE_DENY_READ),
            Err(NfsStatus::ShareDenied),
        ),
        ((SHARE_ACCESS_READ, SHARE_DENY_WRITE), Ok(())),
        ((0, 0), Err(NfsStatus::Inval)),
        ((SHARE_ACCESS_READ, 4), Err(NfsStatus::Inval)),
    ] {
        let opened = open(&bob, find.clone(), share).await.map(|_| ());
        assert_eq!(opened, status, "{share:?}");
    }
}

/// What a client was told of.
#[derive(Default)]
struct Told {
    owners: Mutex<Vec<(FileHandle, u64, Vec<u8>)>>,
}

impl CallbackHandler for Told {
    fn callback<'a>(
        &'a self,
        op: CbOpNum,
        args: &'a mut OpReader<'_>,
    ) -> Pin<Box<dyn Future<Output = NfsStatus> + Send + 'a>> {
        assert_eq!(op, CbOpNum::NotifyLock);
        let args: CbNotifyLockArgs<'_> = args.args().unwrap();
        let who = (args.lock_owner.clientid.value, args.lock_owner.owner.0);
        let told = (FileHandle::from(args.fh.0), who.0, who.1.to_vec());
        self.owners.lock().push(told);
        Box::pin(std::future::ready(NfsStatus::Ok))
    }
}

fn lock(open_stateid: Stateid, lock_type: LockType) -> impl Fn(&mut CompoundBuilder) {
    move |b| {
        b.push(&LockArgs {
            lock_type,
            reclaim: false,
            offset: 0,
            length: 10,
            locker: Locker::New(OpenToLockOwner {
                open_seqid: 0,
                open_stateid,
                lock_seqid: 0,
                lock_owner: owner(b"waiter"),
            }),
        });
    }
}

async fn lock_of(file: &File<'_>, lock_type: LockType) -> Option<Stateid> {
    let done = file.client.on(&file.fh, lock(file.open, lock_type)).await;
    match after_putfh(&done).take::<LockRes<'_>>().unwrap() {
        LockRes::Ok(granted) => Some(granted.lock_stateid),
        LockRes::Denied(_) => None,
    }
}

#[tokio::test(start_paused = true)]
async fn who_waits_for_a_lock_is_told_when_it_is_free() {
    let (rig, _port, _ds) = cluster().await;
    let told = Arc::new(Told::default());
    let alice = rig.session("alice").await;
    let bob = rig
        .session_of("bob", *b"boot0001", Some(told.clone()))
        .await;
    let opened = open(&alice, exclusive(1), (SHARE_ACCESS_BOTH, 0)).await;
    let promised = opened.unwrap().rflags & OPEN_RESULT_MAY_NOTIFY_LOCK;
    assert_ne!(promised, 0, "RFC 8881 §18.16.4");
    let file = File::create(&alice, "f").await;
    let bobs = File::create(&bob, "f").await;
    let held = lock_of(&file, LockType::Write).await.unwrap();
    // One that only asks is not told, one that would wait is.
    assert_eq!(lock_of(&bobs, LockType::Write).await, None);
    let unlock = async |stateid| {
        let done = alice.on(&file.fh, |b| {
            b.push(&LockUArgs {
                lock_type: LockType::Write,
                seqid: 0,
                lock_stateid: stateid,
                offset: 0,
                length: 10,
            });
        });
        let done = done.await;
        let res = after_putfh(&done).take::<LockURes>().unwrap();
        tokio::time::sleep(Duration::from_secs(1)).await;
        res.lock_stateid
    };
    unlock(held).await;
    assert!(told.owners.lock().is_empty());

    let held = lock_of(&file, LockType::Write).await;
    assert!(held.is_some());
    assert_eq!(lock_of(&bobs, LockType::WriteW).await, None);
    file.close().await;
    tokio::time::sleep(Duration::from_secs(1)).await;
    let client = bob.session.established().unwrap().client.value;
    let expected = (bobs.fh.clone(), client, b"waiter".to_vec());
    assert_eq!(told.owners.lock().clone(), vec![expected]);
    assert!(lock_of(&bobs, LockType::WriteW).await.is_some());
}

#[tokio::test]
async fn a_lock_is_tested_and_an_open_downgraded() {
    let (rig, _port, _ds) = cluster().await;
    let (alice, bob) = (rig.session("alice").await, rig.session("bob").await);
    let file = File::create(&alice, "f").await;
    let bobs = File::create(&bob, "f").await;
    let test = async |file: &File<'_>| {
        let done = file.client.on(&file.fh, |b| {
            b.push(&LockTArgs {
                lock_type: LockType::Read,
                offset: 5,
                length: 1,
                owner: owner(b"waiter"),
            });
        });
        let done = done.await;
        match after_putfh(&done).take::<LockTRes<'_>>().unwrap() {
            LockTRes::Ok => None,
            LockTRes::Denied(by) => Some((by.offset, by.length, by.lock_type)),
        }
    };
    assert_eq!(test(&bobs).await, None);
    lock_of(&file, LockType::Write).await.unwrap();
    assert_eq!(test(&bobs).await, Some((0, 10, LockType::Write)));
    assert_eq!(test(&file).await, None, "one's own is none");

    let downgrade = async |share_access| {
        let done = bob.on(&bobs.fh, |b| {
            b.push(&OpenDowngradeArgs {
                open_stateid: bobs.open,
                seqid: 0,
                share_access,
                share_deny: 0,
            });
        });
        done.await.results().unwrap().status
    };
    // Only to what some OPEN asked for (§18.18.3): this file was opened for both at once.
    assert_eq!(downgrade(SHARE_ACCESS_READ).await, NfsStatus::Inval);
    assert_eq!(downgrade(SHARE_ACCESS_BOTH).await, NfsStatus::Ok);
}

#[tokio::test]
async fn stateids_are_tested_and_freed() {
    let (rig, _port, _ds) = cluster().await;
    let (alice, bob) = (rig.session("alice").await, rig.session("bob").await);
    let file = File::create(&alice, "f").await;
    let held = lock_of(&file, LockType::Write).await.unwrap();
    let old = Stateid { seqid: 99, ..held };
    let asked = [file.open, held, old, Stateid::ANONYMOUS];
    let test = async |client: &Client| {
        let done = client.on(&file.fh, |b| {
            b.push(&TestStateidArgs {
                stateids: List(asked.to_vec()),
            });
        });
        let done = done.await;
        let res = after_putfh(&done).take::<TestStateidRes>().unwrap();
        res.statuses.0
    };
    let bad = NfsStatus::BadStateid;
    let answers = test(&alice).await;
    assert_eq!(answers[..2], [NfsStatus::Ok; 2]);
    assert_eq!(answers[2..], [bad; 2]);
    // Those of others are none (§18.48.3).
    assert_eq!(test(&bob).await, vec![bad; 4]);
    let free = async |stateid| {
        let done = alice.on(&file.fh, |b| {
            b.push(&FreeStateidArgs { stateid });
        });
        done.await.results().unwrap().status
    };
    assert_eq!(free(held).await, NfsStatus::LocksHeld);
    assert_eq!(free(file.open).await, NfsStatus::LocksHeld);
    assert_eq!(free(Stateid::ANONYMOUS).await, bad);
}
