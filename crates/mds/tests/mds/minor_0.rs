//! Goal: NFSv4.0 (RFC 7530) on the state of NFSv4.1: owners and their sequence ids, kept replies, one state for both, reclaim,
//! callbacks over a connection of the server's. Method: calls by hand, time paused where it counts.
#![allow(
    clippy::unwrap_used,
    reason = "a failure here is the failure of a test"
)]

use crate::rig::Rig;
use crate::rig::delegated::{BOTH, LEASE, READ, User, be_idle, cluster};
use crate::rig::old::{CallbackProgram, IDENT, Old, Opened};
use nfs4::attr;
use nfs4::ops::*;
use nfs4::{Bitmap, LockType, NfsStatus, OpNum, SessionId, StableHow, Stateid};
use ropewalk_mds as mds;
use std::time::Duration;
use xdr::Opaque;

const NONE: u32 = SHARE_DENY_NONE;

async fn status_on(old: &Old<'_>, open: &Opened, args: CloseArgs) -> NfsStatus {
    let done = old
        .on(&open.fh, |b| {
            b.push(&args);
        })
        .await;
    done.status()
}

#[tokio::test]
async fn an_owner_confirms_its_first_open_and_retries_get_what_was_answered() {
    let (rig, _port, _ds) = cluster().await;
    let old = Old::new(&rig, "host").await;
    let first = old.open_answer(("o", 5), "f", (BOTH, NONE), true).await;
    let open = Old::opened(&first).unwrap();
    assert_eq!(
        open.rflags,
        OPEN_RESULT_CONFIRM | OPEN_RESULT_LOCKTYPE_POSIX
    );
    let again = old.open_answer(("o", 5), "f", (BOTH, NONE), true).await;
    assert_eq!(again.body(), first.body(), "the file handle too");
    let close = |seqid, open_stateid| CloseArgs {
        seqid,
        open_stateid,
    };
    let early = status_on(&old, &open, close(6, open.stateid)).await;
    assert_eq!(early, NfsStatus::BadStateid);
    let wrong = old.confirm(&open, 7).await;
    assert_eq!(wrong, Err(NfsStatus::BadSeqid));
    let stateid = old.confirm(&open, 6).await.unwrap();
    assert_eq!(old.confirm(&open, 6).await, Ok(stateid), "a retry");
    // A failure that counts, of share bits that came later.
    let wish = (READ | SHARE_WANT_NO_DELEG, NONE);
    let refused = old.open_answer(("o", 7), "f", wish, false).await;
    assert_eq!(refused.status(), NfsStatus::Inval);
    for (seqid, stateid, want) in [
        (9, stateid, NfsStatus::BadSeqid),
        (8, open.stateid, NfsStatus::OldStateid),
        (9, stateid, NfsStatus::Ok),
        (9, stateid, NfsStatus::Ok),
        (10, stateid, NfsStatus::BadStateid),
    ] {
        let got = status_on(&old, &open, close(seqid, stateid)).await;
        assert_eq!(got, want, "CLOSE {seqid}");
    }
}

#[tokio::test]
async fn a_retry_of_a_call_is_answered_from_what_was_kept() {
    let (rig, _port, _ds) = cluster().await;
    let old = Old::new(&rig, "host").await;
    old.confirmed("o", "f", (READ, NONE)).await;
    let remove = |b: &mut nfs4::CompoundBuilder| {
        b.push(&PutRootFhArgs {});
        b.push(&RemoveArgs {
            target: Opaque(b"f"),
        });
    };
    let first = old.run_as(900, remove).await.unwrap();
    assert_eq!(first.status(), NfsStatus::Ok);
    let again = old.run_as(900, remove).await.unwrap();
    assert_eq!(again.body(), first.body());
    let anew = old.run_as(901, remove).await.unwrap();
    assert_eq!(anew.status(), NfsStatus::NoEnt);
}

#[tokio::test]
async fn what_came_with_later_minor_versions_is_unknown() {
    let (rig, _port, _ds) = cluster().await;
    let old = Old::new(&rig, "host").await;
    let sequence = SequenceArgs {
        session_id: SessionId { bytes: [0; 16] },
        sequence_id: 1,
        slot_id: 0,
        highest_slot_id: 0,
        cache_this: false,
    };
    let done = old
        .run(|b| {
            b.push(&sequence);
        })
        .await;
    assert_eq!(done.status(), NfsStatus::OpIllegal);
    let asked = GetAttrArgs {
        attr_request: Bitmap::of(&[attr::SUPPORTED_ATTRS, attr::FS_LAYOUT_TYPES]),
    };
    let done = old
        .run(|b| {
            b.push(&PutRootFhArgs {});
            b.push(&asked);
        })
        .await;
    let mut reply = done.reply();
    reply.take::<PutRootFhRes>().unwrap();
    let got: GetAttrRes<'_> = reply.take().unwrap();
    assert_eq!(got.attributes.mask, Bitmap::of(&[attr::SUPPORTED_ATTRS]));
    let supported = got.attributes.attrs().unwrap().supported_attrs.unwrap();
    assert!(supported.iter().all(|bit| bit <= attr::MOUNTED_ON_FILEID));
    // And the other way round.
    let new = rig.session("alice").await;
    let done = new
        .run(|b| {
            b.push(&RenewArgs { clientid: old.id });
        })
        .await;
    let result = done.results().unwrap().next_result().unwrap().unwrap();
    assert_eq!(
        (result.op, result.status),
        (OpNum::Renew as u32, NfsStatus::NotSupp)
    );
}

#[tokio::test]
async fn every_operation_of_the_protocol_is_there_and_no_other() {
    let (rig, _port, _ds) = cluster().await;
    let old = Old::new(&rig, "host").await;
    for op in OpNum::ALL.iter().copied() {
        let done = old
            .run(|b| {
                b.push(&PutRootFhArgs {});
                crate::notsupp::push(b, op);
            })
            .await;
        let status = done.status();
        let is_of_0 = op as u32 <= OpNum::ReleaseLockOwner as u32;
        let is_unknown = status == NfsStatus::OpIllegal;
        assert_eq!(is_unknown, !is_of_0, "{op:?}: {status}");
        let lacks = matches!(op, OpNum::DelegPurge | OpNum::OpenAttr);
        assert_eq!(status == NfsStatus::NotSupp, lacks, "{op:?}: {status}");
    }
}

#[tokio::test]
async fn both_protocols_have_one_state() {
    let (rig, _port, _ds) = cluster().await;
    let old = Old::new(&rig, "host").await;
    let open = old.confirmed("o", "f", (BOTH, SHARE_DENY_WRITE)).await;
    let user = User::new(&rig, "alice").await;
    let denied = user.try_open("f", BOTH).await.err();
    assert_eq!(denied, Some(NfsStatus::ShareDenied));
    // So does its own open of before, as NFSv4.0 wants it.
    let own = old.open_answer(("o", 3), "f", (BOTH, NONE), false).await;
    assert_eq!(own.status(), NfsStatus::ShareDenied);
    let close = CloseArgs {
        seqid: 4,
        open_stateid: open.stateid,
    };
    assert_eq!(status_on(&old, &open, close).await, NfsStatus::Ok);
    let held = user.try_open("f", BOTH).await.unwrap();
    // A stateid of the other protocol is none here.
    let write = WriteArgs {
        stateid: held.open,
        offset: 0,
        stable: StableHow::FileSync,
        data: Opaque(b"x"),
    };
    let done = old
        .on(&open.fh, |b| {
            b.push(&write);
        })
        .await;
    assert_eq!(done.status(), NfsStatus::BadStateid);
}

#[tokio::test]
async fn lock_owners_have_sequence_ids_and_are_released() {
    let (rig, _port, _ds) = cluster().await;
    let old = Old::new(&rig, "host").await;
    let open = old.confirmed("o", "f", (BOTH, NONE)).await;
    let lock = old.lock(&open, (3, 100), "l").await.unwrap();
    let again = old.lock(&open, (3, 100), "l").await;
    assert_eq!(again, Ok(lock), "a retry");
    let twice = old.lock(&open, (4, 101), "l").await;
    assert_eq!(twice, Err(NfsStatus::BadSeqid));
    let other = old.lock(&open, (4, 1), "other").await;
    assert_eq!(other, Err(NfsStatus::Denied));
    let release = ReleaseLockOwnerArgs {
        owner: old.owner("l"),
    };
    let held = old
        .run(|b| {
            b.push(&release);
        })
        .await;
    assert_eq!(held.status(), NfsStatus::LocksHeld);
    let unlock = |seqid| LockUArgs {
        lock_type: LockType::Write,
        seqid,
        lock_stateid: lock,
        offset: 0,
        length: u64::MAX,
    };
    for (seqid, want) in [(102, NfsStatus::BadSeqid), (101, NfsStatus::Ok)] {
        let done = old
            .on(&open.fh, |b| {
                b.push(&unlock(seqid));
            })
            .await;
        assert_eq!(done.status(), want);
    }
    let free = old
        .run(|b| {
            b.push(&release);
        })
        .await;
    assert_eq!(free.status(), NfsStatus::Ok);
    let gone = old
        .on(&open.fh, |b| {
            b.push(&unlock(102));
        })
        .await;
    assert_eq!(gone.status(), NfsStatus::BadStateid);
}

#[tokio::test(start_paused = true)]
async fn what_was_held_is_reclaimed_after_a_restart_and_nothing_new_is_granted_before() {
    let (rig, _port, _ds) = cluster().await;
    let old = Old::new(&rig, "host").await;
    let open = old.confirmed("o", "f", (BOTH, NONE)).await;
    let store = rig.store.clone();
    let rig = Rig::over(store).await;
    let mut again = Old::stranger(&rig, "host").await;
    again.id = old.id;
    assert_eq!(again.renew().await, NfsStatus::StaleClientId);
    let read = ReadArgs {
        stateid: open.stateid,
        offset: 0,
        count: 1,
    };
    let done = again
        .on(&open.fh, |b| {
            b.push(&read);
        })
        .await;
    assert_eq!(done.status(), NfsStatus::StaleStateid);
    again.id = again.set_client_id("host", *b"boot0001").await;
    let anew = again.open_answer(("o", 1), "g", (BOTH, NONE), true).await;
    assert_eq!(anew.status(), NfsStatus::Grace);
    let reclaim = OpenArgs {
        seqid: 1,
        share_access: BOTH,
        share_deny: NONE,
        owner: again.owner("p"),
        how: OpenHow::NoCreate,
        claim: OpenClaim::Previous(DelegationType::None),
    };
    let done = again
        .on(&open.fh, |b| {
            b.push(&reclaim);
        })
        .await;
    let mut reply = done.reply();
    reply.take::<PutFhRes>().unwrap();
    let res: OpenRes = reply.take().unwrap();
    assert_eq!(res.rflags, OPEN_RESULT_LOCKTYPE_POSIX, "nobody confirms it");
    let close = CloseArgs {
        seqid: 2,
        open_stateid: res.stateid,
    };
    assert_eq!(status_on(&again, &open, close).await, NfsStatus::Ok);
}

/// A file that the client is delegated for writing.
async fn delegated(old: &Old<'_>) -> (Opened, Stateid) {
    let open = old.confirmed("o", "f", (BOTH, NONE)).await;
    assert_eq!(open.delegation, Delegation::None, "before it is confirmed");
    tokio::time::sleep(Duration::from_millis(50)).await;
    let answer = old.open_answer(("o", 3), "f", (BOTH, NONE), false).await;
    let open = Old::opened(&answer).unwrap();
    match &open.delegation {
        Delegation::Write(write) => (open.clone(), write.stateid),
        other => panic!("{other:?}"),
    }
}

#[tokio::test(start_paused = true)]
async fn a_delegation_is_recalled_over_a_connection_of_the_server() {
    let (rig, _port, _ds) = cluster().await;
    let (program, _shutdown) = CallbackProgram::open(&rig);
    let old = Old::new(&rig, "host").await;
    let (open, delegation) = delegated(&old).await;
    assert_eq!(old.renew().await, NfsStatus::Ok);
    let user = User::new(&rig, "alice").await;
    let waits = user.try_open("f", READ).await.err();
    assert_eq!(waits, Some(NfsStatus::Delay));
    assert_eq!(*program.recalled.lock(), vec![delegation]);
    assert_eq!(*program.idents.lock(), vec![IDENT]);
    let back = DelegReturnArgs {
        stateid: delegation,
    };
    let done = old
        .on(&open.fh, |b| {
            b.push(&back);
        })
        .await;
    assert_eq!(done.status(), NfsStatus::Ok);
    assert!(user.try_open("f", READ).await.is_ok());
}

#[tokio::test(start_paused = true)]
async fn who_holds_a_delegation_is_asked_for_the_size_by_others_and_not_by_itself() {
    let (rig, _port, _ds) = cluster().await;
    let (program, _shutdown) = CallbackProgram::open(&rig);
    let old = Old::new(&rig, "host").await;
    let (open, delegation) = delegated(&old).await;
    let user = User::new(&rig, "alice").await;
    let asked = GetAttrArgs {
        attr_request: Bitmap::of(&[attr::SIZE]),
    };
    let read = ReadArgs {
        stateid: delegation,
        offset: 0,
        count: 1,
    };
    let own = old
        .on(&open.fh, |b| {
            b.push(&read);
            b.push(&asked);
        })
        .await;
    assert_eq!(own.status(), NfsStatus::Ok);
    assert!(program.idents.lock().is_empty());
    let before = user.client.attrs(&open.fh, &[attr::CHANGE]).await.unwrap();
    *program.known.lock() = (before.change.unwrap() + 1, 4711);
    let seen = user.client.attrs(&open.fh, &[attr::SIZE]).await.unwrap();
    assert_eq!(seen.size, Some(4711));
    assert!(program.recalled.lock().is_empty());
}

#[tokio::test(start_paused = true)]
async fn a_delegation_that_is_not_returned_is_revoked_and_returning_it_acknowledges_that() {
    let (rig, _port, _ds) = cluster().await;
    let (program, _shutdown) = CallbackProgram::open(&rig);
    let old = Old::new(&rig, "host").await;
    let (open, delegation) = delegated(&old).await;
    let user = User::new(&rig, "alice").await;
    let waits = user.try_open("f", READ).await.err();
    assert_eq!(waits, Some(NfsStatus::Delay));
    for _ in 0..LEASE.as_secs() {
        be_idle(&[&user], Duration::from_secs(1)).await;
        assert_eq!(old.renew().await, NfsStatus::Ok);
        mds::Mds::tick(&rig.nfsd).await;
    }
    assert!(!program.recalled.lock().is_empty());
    assert!(user.try_open("f", READ).await.is_ok());
    let read = ReadArgs {
        stateid: delegation,
        offset: 0,
        count: 1,
    };
    let done = old
        .on(&open.fh, |b| {
            b.push(&read);
        })
        .await;
    assert_eq!(done.status(), NfsStatus::BadStateid);
    let back = DelegReturnArgs {
        stateid: delegation,
    };
    for want in [NfsStatus::Ok, NfsStatus::BadStateid] {
        let done = old
            .on(&open.fh, |b| {
                b.push(&back);
            })
            .await;
        assert_eq!(done.status(), want);
    }
}

#[tokio::test(start_paused = true)]
async fn a_client_whose_delegation_was_taken_with_its_lease_hears_that_nothing_is_left() {
    let (rig, _port, _ds) = cluster().await;
    let (_program, _shutdown) = CallbackProgram::open(&rig);
    let old = Old::new(&rig, "host").await;
    delegated(&old).await;
    let user = User::new(&rig, "alice").await;
    be_idle(&[&user], LEASE + Duration::from_secs(1)).await;
    assert!(user.try_open("f", READ).await.is_ok());
    // It would go by the delegation, and be told Ok for ever.
    assert_eq!(old.renew().await, NfsStatus::Expired);
}

#[tokio::test(start_paused = true)]
async fn a_client_that_was_silent_from_a_recall_to_its_end_hears_that_nothing_is_left() {
    let (rig, _port, _ds) = cluster().await;
    let (_program, _shutdown) = CallbackProgram::open(&rig);
    let old = Old::new(&rig, "host").await;
    delegated(&old).await;
    let user = User::new(&rig, "alice").await;
    let waits = user.try_open("f", READ).await.err();
    assert_eq!(waits, Some(NfsStatus::Delay));
    be_idle(&[&user], LEASE + Duration::from_secs(1)).await;
    // Nobody asks for the file in this moment: time alone takes the delegation.
    mds::Mds::tick(&rig.nfsd).await;
    be_idle(&[&user], Duration::from_secs(1)).await;
    assert_eq!(old.renew().await, NfsStatus::Expired);
}

#[tokio::test(start_paused = true)]
async fn without_a_way_to_the_client_nothing_is_delegated() {
    let (rig, _port, _ds) = cluster().await;
    let old = Old::new(&rig, "host").await;
    let open = old.confirmed("o", "f", (BOTH, NONE)).await;
    tokio::time::sleep(Duration::from_millis(50)).await;
    let answer = old.open_answer(("o", 3), "f", (BOTH, NONE), false).await;
    let again = Old::opened(&answer).unwrap();
    assert_eq!(again.delegation, Delegation::None);
    assert_eq!(again.fh, open.fh);
}

#[tokio::test(start_paused = true)]
async fn renew_tells_a_holder_that_its_callbacks_do_not_arrive() {
    let (rig, _port, _ds) = cluster().await;
    let (_program, shutdown) = CallbackProgram::open(&rig);
    let old = Old::new(&rig, "host").await;
    let (open, delegation) = delegated(&old).await;
    shutdown.trigger();
    tokio::time::sleep(Duration::from_secs(20)).await;
    assert_eq!(old.renew().await, NfsStatus::CbPathDown);
    let back = DelegReturnArgs {
        stateid: delegation,
    };
    let done = old
        .on(&open.fh, |b| {
            b.push(&back);
        })
        .await;
    assert_eq!(done.status(), NfsStatus::Ok);
    assert_eq!(old.renew().await, NfsStatus::Ok);
}
