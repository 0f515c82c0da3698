//! Goal: a file is delegated to clients that nobody else's work can hurt. It is called back before that changes (RFC
//! 8881 §10.2, §10.4, §18.6, §18.16, §18.49). Method: clients whose back channels note what they are asked, time
//! paused.
#![allow(
    clippy::unwrap_used,
    reason = "a failure here is the failure of a test"
)]

use crate::rig;
use crate::rig::cluster::{FakeDs, Port};
use crate::rig::delegated::{
    BOTH, Back, CONTENDED, Given, Held, LEASE, READ, User, be_idle, cluster, ended, status,
};
use crate::rig::{Rig, after_putfh};
use nfs4::attr;
use nfs4::cb::{CbRecallAnyArgs, RCA_RDATA_DLG, RCA_WDATA_DLG};
use nfs4::ops::*;
use nfs4::{Bitmap, CompoundReply, FileHandle, IoMode, NfsStatus};
use state::DelegationLimits;
use std::sync::Arc;
use std::time::Duration;
use xdr::Opaque;

#[tokio::test(start_paused = true)]
async fn readers_share_a_file_until_a_writer_comes() {
    let (rig, _port, _ds) = cluster().await;
    let (alice, bob) = (User::new(&rig, "alice").await, User::new(&rig, "bob").await);
    let carol = User::new(&rig, "carol").await;
    let first = alice.open("f", READ).await;
    let second = bob.open("f", READ).await;
    assert!(matches!(first.delegation, Given::Read(_, false)));
    assert!(matches!(second.delegation, Given::Read(_, false)));
    let (opened, (), ()) = tokio::join!(
        carol.try_open("f", BOTH),
        alice.obey(&first),
        bob.obey(&second)
    );
    // No DELAY: both were back in time. The file stays contended.
    assert_eq!(opened.unwrap().delegation, Given::None);
    let counts = rig.nfsd.role().fs().delegation_counts();
    assert_eq!((counts.held, counts.granted, counts.recalled), (0, 2, 2));
}

#[tokio::test(start_paused = true)]
async fn a_writer_that_is_alone_is_delegated_the_file() {
    let (rig, _port, _ds) = cluster().await;
    let (alice, bob) = (User::new(&rig, "alice").await, User::new(&rig, "bob").await);
    let file = alice.open("f", BOTH).await;
    assert!(matches!(file.delegation, Given::Write(_, false)));
    // His own work is no conflict.
    let again = alice.open("f", READ).await;
    assert_eq!(again.delegation, Given::None);
    alice.close(&again).await;
    assert_eq!(alice.recalls(), 0);
    // The recall goes on while the caller is told to wait, and is sent once.
    for _ in 0..3 {
        assert_eq!(bob.try_open("f", READ).await.err(), Some(NfsStatus::Delay));
    }
    assert_eq!(alice.recalls(), 1);
    alice.give_back(&file).await.unwrap();
    let again = bob.try_open("f", READ).await.unwrap();
    assert_eq!(again.delegation, Given::None);
    bob.close(&again).await;
    be_idle(&[&bob], CONTENDED).await;
    let again = bob.try_open("f", READ).await.unwrap();
    assert!(matches!(again.delegation, Given::Read(..)));
}

#[tokio::test(start_paused = true)]
async fn who_names_a_wish_is_told_why_not() {
    let (rig, _port, _ds) = cluster().await;
    let (alice, bob) = (User::new(&rig, "alice").await, User::new(&rig, "bob").await);
    let why = |h: Held| match h.delegation {
        Given::Why(why) => why,
        other => panic!("{other:?}"),
    };
    let opened = alice.open("f", READ | SHARE_WANT_NO_DELEG).await;
    assert_eq!(why(opened), WhyNoDelegation::NotWanted);
    let opened = alice.open("f", READ | SHARE_WANT_CANCEL).await;
    assert_eq!(why(opened), WhyNoDelegation::Cancelled);
    let held = alice.open("f", READ | SHARE_WANT_ANY_DELEG).await;
    assert!(matches!(held.delegation, Given::Read(..)));
    let opened = alice.open("f", BOTH | SHARE_WANT_WRITE_DELEG).await;
    assert_eq!(why(opened), WhyNoDelegation::NotSuppUpgrade);
    let opened = bob.open("f", READ | SHARE_WANT_READ_DELEG).await;
    assert_eq!(
        why(opened),
        WhyNoDelegation::Contention(false),
        "alice writes"
    );
    // Without a back channel nothing could be called back.
    let mute = User {
        client: rig.session("mute").await,
        back: Arc::default(),
    };
    let opened = mute.open("g", READ | SHARE_WANT_ANY_DELEG).await;
    assert_eq!(why(opened), WhyNoDelegation::Resource(false));
}

#[tokio::test(start_paused = true)]
async fn one_that_does_not_come_back_is_revoked_after_a_lease() {
    let (rig, _port, _ds) = cluster().await;
    let (alice, bob) = (User::new(&rig, "alice").await, User::new(&rig, "bob").await);
    let file = alice.open("f", BOTH).await;
    let users = [&alice];
    let idle = be_idle(&users, LEASE + Duration::from_secs(5));
    let (opened, ()) = tokio::join!(bob.open("f", BOTH), idle);
    assert!(alice.recalls() > 1, "asked again");
    assert_eq!(alice.give_back(&file).await, Err(NfsStatus::DelegRevoked));
    const REVOKED: u32 = SEQ_STATUS_RECALLABLE_STATE_REVOKED;
    assert_eq!(
        alice.client.session.renew().await.unwrap() & REVOKED,
        REVOKED
    );
    // She gets no other before she has taken note.
    assert_eq!(alice.open("g", READ).await.delegation, Given::None);
    let free = FreeStateidArgs {
        stateid: file.delegation.stateid(),
    };
    let freed = alice.client.run(|b| {
        b.push(&free);
    });
    ended(&freed.await).unwrap();
    assert_eq!(alice.client.session.renew().await.unwrap() & REVOKED, 0);
    assert!(matches!(
        alice.open("h", READ).await.delegation,
        Given::Read(..)
    ));
    bob.close(&opened).await;
}

#[tokio::test(start_paused = true)]
async fn a_client_that_was_away_loses_what_others_wanted_and_no_more() {
    let (rig, _port, _ds) = cluster().await;
    let (alice, bob) = (User::new(&rig, "alice").await, User::new(&rig, "bob").await);
    let (wanted, other) = (alice.open("f", BOTH).await, alice.open("g", BOTH).await);
    be_idle(&[&bob], LEASE).await;
    assert!(bob.try_open("f", BOTH).await.is_ok(), "at once");
    assert_eq!(alice.recalls(), 0);
    const REVOKED: u32 = SEQ_STATUS_RECALLABLE_STATE_REVOKED;
    let flags = alice.client.session.renew().await.unwrap();
    assert_eq!(flags & REVOKED, REVOKED);
    assert_eq!(alice.give_back(&wanted).await, Err(NfsStatus::DelegRevoked));
    assert_eq!(alice.give_back(&other).await, Ok(()));
    alice.close(&wanted).await;
    alice.close(&other).await;
}

#[tokio::test(start_paused = true)]
async fn a_session_that_replaces_another_is_told_of_the_recall_again() {
    let (rig, _port, _ds) = cluster().await;
    let (alice, bob) = (User::new(&rig, "alice").await, User::new(&rig, "bob").await);
    let file = alice.open("f", BOTH).await;
    assert_eq!(bob.try_open("f", READ).await.err(), Some(NfsStatus::Delay));
    assert_eq!(alice.recalls(), 1);
    // The client is the same, and so is what it holds; what it was told went with the session.
    let back = Arc::new(Back::default());
    let client = rig.stranger("alice", *b"boot0001", Some(back.clone()));
    client.session.establish().await.unwrap();
    alice.client.session.abandon();
    let alice = User { client, back };
    let (opened, ()) = tokio::join!(bob.open("f", READ), alice.obey(&file));
    assert_eq!(opened.delegation, Given::None);
    assert_eq!(rig.nfsd.role().fs().delegation_counts().revoked, 0);
}

#[tokio::test(start_paused = true)]
async fn a_client_that_has_many_is_asked_for_some_back() {
    let rig = Rig::delegating(DelegationLimits {
        per_client_max: 8,
        ..DelegationLimits::default()
    })
    .await;
    let port = Port::open(&rig);
    let _ds = FakeDs::joined(&rig, &port, 1).await;
    let alice = User::new(&rig, "alice").await;
    let mut held = Vec::new();
    for number in 0..7 {
        assert!(alice.back.may_keep.lock().is_empty(), "{number}");
        held.push(alice.open(&format!("f{number}"), READ).await);
        assert!(matches!(held[number].delegation, Given::Read(..)));
        be_idle(&[&alice], Duration::from_secs(2)).await;
    }
    let asked = CbRecallAnyArgs {
        objects_to_keep: 4,
        type_mask: Bitmap::of(&[RCA_RDATA_DLG, RCA_WDATA_DLG]),
    };
    assert_eq!(*alice.back.may_keep.lock(), [asked]);
    held.push(alice.open("f7", READ).await);
    let one_too_many = alice.open("f8", READ | SHARE_WANT_ANY_DELEG).await;
    let why = WhyNoDelegation::Resource(false);
    assert_eq!(one_too_many.delegation, Given::Why(why));
    // Asked again as long as there are too many, but not all the time.
    be_idle(&[&alice], Duration::from_secs(35)).await;
    assert_eq!(*alice.back.may_keep.lock(), [asked, asked]);
    for file in &held[..4] {
        alice.give_back(file).await.unwrap();
    }
    be_idle(&[&alice], Duration::from_secs(60)).await;
    assert_eq!(alice.back.may_keep.lock().len(), 2);
    assert_eq!(alice.recalls(), 0, "which ones was left to the client");
}

#[tokio::test(start_paused = true)]
async fn what_open_takes_can_be_asked() {
    let rig = Rig::new().await;
    let alice = User::new(&rig, "alice").await;
    let root = alice.client.lookup(&[]).await.unwrap();
    let done = alice.client.on(&root, |b| {
        b.push(&GetAttrArgs {
            attr_request: Bitmap::of(&[attr::OPEN_ARGUMENTS]),
        });
    });
    let done = done.await;
    let got = after_putfh(&done).take::<GetAttrRes<'_>>().unwrap();
    let takes = got.attributes.attrs().unwrap().open_arguments.unwrap();
    // Any, none, cancel, times, either (RFC 9754 §3); neither CLAIM_DELEGATE_PREV nor CLAIM_DELEG_PREV_FH.
    assert_eq!(takes.share_access_want, Bitmap::of(&[3, 4, 5, 20, 21]));
    assert_eq!(takes.open_claim, Bitmap::of(&[0, 1, 2, 4, 5]));
}

#[tokio::test(start_paused = true)]
async fn a_client_that_knows_of_none_has_none() {
    let (rig, _port, _ds) = cluster().await;
    let back = Back {
        unknown: true,
        ..Back::default()
    };
    let alice = User::with(&rig, "alice", back).await;
    let bob = User::new(&rig, "bob").await;
    let file = alice.open("f", BOTH).await;
    // The next request in the slot shows that the reply which granted it was received.
    alice.client.session.renew().await.unwrap();
    assert!(bob.try_open("f", BOTH).await.is_ok());
    assert_eq!(alice.give_back(&file).await, Err(NfsStatus::BadStateid));
    assert_eq!(rig.nfsd.role().fs().delegation_counts().revoked, 0);
}

#[tokio::test(start_paused = true)]
async fn opens_that_were_made_under_it_are_told_before_it_goes_back() {
    let (rig, _port, _ds) = cluster().await;
    let (alice, bob) = (User::new(&rig, "alice").await, User::new(&rig, "bob").await);
    let root = alice.client.lookup(&[]).await.unwrap();
    let file = alice.open("f", BOTH).await;
    let stateid = file.delegation.stateid();
    alice.close(&file).await;
    let cur = async |user: &User, claim| {
        let fh = match claim {
            OpenClaim::DelegCurFh(_) => &file.fh,
            _ => &root,
        };
        user.open_by(fh, BOTH, OpenHow::NoCreate, claim).await
    };
    let by_name = OpenClaim::DelegateCur(ClaimDelegateCur {
        stateid,
        name: Opaque(b"f"),
    });
    let stolen = cur(&bob, OpenClaim::DelegCurFh(stateid)).await;
    assert_eq!(stolen.err(), Some(NfsStatus::BadStateid));
    assert_eq!(bob.try_open("f", READ).await.err(), Some(NfsStatus::Delay));
    for claim in [OpenClaim::DelegCurFh(stateid), by_name] {
        assert_eq!(cur(&alice, claim).await.unwrap().delegation, Given::None);
    }
    alice.give_back(&file).await.unwrap();
    assert!(bob.try_open("f", READ).await.is_ok());
    let late = cur(&alice, OpenClaim::DelegCurFh(stateid)).await;
    assert_eq!(late.err(), Some(NfsStatus::BadStateid));
}

#[tokio::test(start_paused = true)]
async fn the_holder_is_asked_for_size_and_change() {
    let (rig, _port, _ds) = cluster().await;
    let (alice, bob) = (User::new(&rig, "alice").await, User::new(&rig, "bob").await);
    let file = alice.open("f", BOTH).await;
    let before = alice.attrs(&file.fh).await.unwrap();
    let change = before.0;
    *alice.back.known.lock() = Some(before);
    assert_eq!(bob.attrs(&file.fh).await.unwrap(), before, "not modified");
    *alice.back.known.lock() = Some((change + 1, 777));
    let first = bob.attrs(&file.fh).await.unwrap();
    assert_eq!(first.1, 777);
    assert!(first.0 > change);
    // It has to be taken for modified again each time (RFC 8881 §10.4.3).
    let second = bob.attrs(&file.fh).await.unwrap();
    assert!(second.0 > first.0);
    assert_eq!(alice.recalls(), 0);
    // The holder's own question is answered from what this server has.
    assert_eq!(alice.attrs(&file.fh).await.unwrap().1, 0);
    // One that does not say has it recalled.
    *alice.back.known.lock() = None;
    assert_eq!(bob.attrs(&file.fh).await.err(), Some(NfsStatus::Delay));
    alice.obey(&file).await;
    let last = bob.attrs(&file.fh).await.unwrap();
    assert_eq!(last, (second.0, 0));
}

#[tokio::test(start_paused = true)]
async fn after_a_restart_it_is_reclaimed_unless_it_was_revoked() {
    let (rig, _port, mut ds) = cluster().await;
    let (alice, bob) = (User::new(&rig, "alice").await, User::new(&rig, "bob").await);
    let kept = alice.open("kept", BOTH).await;
    let lost = bob.open("lost", BOTH).await;
    let users = [&bob, &alice];
    let idle = be_idle(&users, LEASE + Duration::from_secs(5));
    let (opened, ()) = tokio::join!(alice.open("lost", READ), idle);
    assert_eq!(opened.delegation, Given::None);
    let store = Arc::clone(&rig.store);
    ds.go_away().await;
    drop(rig);

    let rig = Rig::over(store).await;
    let again = async |name: &str| {
        let back = Arc::new(Back::default());
        let client = rig.stranger(name, *b"boot0001", Some(back.clone()));
        client.session.establish().await.unwrap();
        User { client, back }
    };
    let (alice, bob) = (again("alice").await, again("bob").await);
    let claim = |kind| OpenClaim::Previous(kind);
    let write = DelegationType::Write;
    let reclaim = async |user: &User, fh, kind| {
        let how = OpenHow::NoCreate;
        user.open_by(fh, BOTH, how, claim(kind)).await
    };
    let held = reclaim(&alice, &kept.fh, write).await.unwrap();
    assert!(matches!(held.delegation, Given::Write(_, false)));
    let refused = reclaim(&bob, &lost.fh, write).await.err();
    assert_eq!(refused, Some(NfsStatus::ReclaimBad));
    let plain = reclaim(&bob, &lost.fh, DelegationType::None).await.unwrap();
    assert_eq!(plain.delegation, Given::None);
    // An open under it may be reclaimed with it.
    let cur = OpenClaim::DelegCurFh(held.delegation.stateid());
    let cur = alice.open_by(&kept.fh, READ, OpenHow::NoCreate, cur).await;
    assert!(cur.is_ok());
    for user in [&alice, &bob] {
        let done = user.client.run(|b| {
            b.push(&ReclaimCompleteArgs { one_fs: false });
        });
        ended(&done.await).unwrap();
    }
    let (opened, ()) = tokio::join!(bob.open("kept", READ), alice.obey(&held));
    assert_eq!(opened.delegation, Given::None);
}

#[tokio::test(start_paused = true)]
async fn an_unlinked_file_lives_as_long_as_it_is_delegated() {
    let (rig, _port, _ds) = cluster().await;
    let alice = User::new(&rig, "alice").await;
    let root = alice.client.lookup(&[]).await.unwrap();
    let file = alice.open("f", BOTH).await;
    alice.close(&file).await;
    let done = alice.client.on(&root, |b| {
        b.push(&RemoveArgs {
            target: Opaque(b"f"),
        });
    });
    ended(&done.await).unwrap();
    assert!(alice.attrs(&file.fh).await.is_ok());
    alice.give_back(&file).await.unwrap();
    assert_eq!(alice.attrs(&file.fh).await.err(), Some(NfsStatus::Stale));
}

#[tokio::test(start_paused = true)]
async fn a_layout_is_had_by_it_and_goes_with_it() {
    let (rig, _port, _ds) = cluster().await;
    let alice = User::new(&rig, "alice").await;
    let file = alice.open("f", BOTH).await;
    alice.close(&file).await;
    let by = rig::file::File {
        client: &alice.client,
        name: "f".into(),
        fh: file.fh.clone(),
        open: file.delegation.stateid(),
    };
    by.layout(IoMode::Rw).await;
    assert_eq!(rig.nfsd.role().fs().state().counts().2, 1);
    alice.give_back(&file).await.unwrap();
    assert_eq!(
        rig.nfsd.role().fs().state().counts().2,
        0,
        "return on close"
    );
    assert_eq!(
        by.try_layout(IoMode::Rw).await.err(),
        Some(NfsStatus::BadStateid)
    );
}

fn wanted(mut reply: CompoundReply<'_>) -> Result<Given, NfsStatus> {
    let res = reply.take::<WantDelegationRes>().map_err(|e| status(&e))?;
    Ok(Given::of(res.delegation))
}

#[tokio::test(start_paused = true)]
async fn one_can_be_had_without_an_open_and_none_of_a_directory() {
    let (rig, _port, _ds) = cluster().await;
    let (alice, bob) = (User::new(&rig, "alice").await, User::new(&rig, "bob").await);
    let root = alice.client.lookup(&[]).await.unwrap();
    let file = bob.open("f", BOTH | SHARE_WANT_NO_DELEG).await;
    let want = async |fh: &FileHandle, want, claim| {
        let args = WantDelegationArgs { want, claim };
        let done = alice.client.on(fh, |b| {
            b.push(&args);
        });
        wanted(after_putfh(&done.await))
    };
    let any = SHARE_WANT_ANY_DELEG;
    let contended = Given::Why(WhyNoDelegation::Contention(false));
    assert_eq!(want(&file.fh, any, DelegClaim::Fh).await, Ok(contended));
    bob.close(&file).await;
    let got = want(&file.fh, any, DelegClaim::Fh).await.unwrap();
    assert!(matches!(got, Given::Read(..)));
    let dir = want(&root, any, DelegClaim::Fh).await;
    assert_eq!(dir, Ok(Given::Why(WhyNoDelegation::IsDir)));
    let prev = want(&file.fh, any, DelegClaim::DelegPrevFh).await;
    assert_eq!(prev, Err(NfsStatus::NotSupp));
    let late = DelegClaim::Previous(DelegationType::Read);
    assert_eq!(want(&file.fh, any, late).await, Err(NfsStatus::NoGrace));

    let done = alice.client.on(&root, |b| {
        b.push(&GetDirDelegationArgs {
            signal_deleg_avail: false,
            notification_types: Bitmap::EMPTY,
            child_attr_delay: nfs4::NfsTime::default(),
            dir_attr_delay: nfs4::NfsTime::default(),
            child_attributes: Bitmap::EMPTY,
            dir_attributes: Bitmap::EMPTY,
        });
    });
    let done = done.await;
    let res = after_putfh(&done).take::<GetDirDelegationRes>().unwrap();
    assert_eq!(res, GetDirDelegationRes::Unavail(false));
}
