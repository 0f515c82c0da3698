//! Goal: share modes, delegations and layouts hold between clients of NFSv3, 4.0, 4.1 and 4.2, in every pair.
//! Method: the rig of the metadata server's own tests, with a data server in memory and programs of NFSv3 beside it.

#![allow(clippy::unwrap_used, reason = "a test fails by it")]

// The rig is that of another crate, which names its crate so.
extern crate mds as ropewalk_mds;

mod peers;
#[path = "../../../mds/tests/mds/rig/mod.rs"]
mod rig;

use nfs3::procs::*;
use nfs3::{DirOpArgs, Sattr3};
use nfs4::ops::{
    SHARE_ACCESS_BOTH, SHARE_ACCESS_READ, SHARE_ACCESS_WRITE, SHARE_DENY_BOTH, SHARE_DENY_NONE,
    SHARE_DENY_READ, SHARE_DENY_WRITE,
};
use nfs4::{FileHandle, IoMode, StableHow};
use nlm::{Nlm4Lock, Nlm4LockArgs, Nlm4Res, Nlm4Stats, NlmProc};
use peers::{Ended, NAME, New, Peer, Version, Work, World, pairs};
use rig::file::File;
use rig::real::{direct_session, direct_write};
use xdr::{Opaque, decode_all};

const READ: u32 = SHARE_ACCESS_READ;
const WRITE: u32 = SHARE_ACCESS_WRITE;
const BOTH: u32 = SHARE_ACCESS_BOTH;

/// What an open is for, and what it denies.
type Share = (u32, u32);

/// What one has, what the other wants, and whether it is denied.
const SHARES: [(Share, Share, bool); 7] = [
    ((READ, SHARE_DENY_NONE), (BOTH, SHARE_DENY_NONE), false),
    ((READ, SHARE_DENY_WRITE), (READ, SHARE_DENY_NONE), false),
    ((READ, SHARE_DENY_WRITE), (WRITE, SHARE_DENY_NONE), true),
    ((READ, SHARE_DENY_WRITE), (READ, SHARE_DENY_WRITE), false),
    // A denial of what the first one has.
    ((READ, SHARE_DENY_NONE), (BOTH, SHARE_DENY_READ), true),
    ((WRITE, SHARE_DENY_READ), (WRITE, SHARE_DENY_NONE), false),
    ((BOTH, SHARE_DENY_BOTH), (READ, SHARE_DENY_NONE), true),
];

#[tokio::test(start_paused = true)]
async fn a_deny_mode_of_one_version_stands_against_opens_of_the_other() {
    for (one, other) in pairs() {
        let world = World::new().await;
        let fh = world.file().await;
        let a = Peer::new(&world, one, "a").await;
        let b = Peer::new(&world, other, "b").await;
        for (has, wants, is_denied) in SHARES {
            let what = format!("{one:?} has {has:?}, {other:?} wants {wants:?}");
            let held = a.open(&fh, has).await.expect("nobody else has it");
            let opened = b.open(&fh, wants).await;
            assert_eq!(opened.is_none(), is_denied, "{what}");
            if let Some(opened) = opened {
                b.close(&fh, opened).await;
            }
            a.close(&fh, held).await;
            let opened = b.open(&fh, wants).await.expect(&what);
            b.close(&fh, opened).await;
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_deny_mode_of_one_version_stands_against_reads_and_writes_of_the_other() {
    for (one, other) in pairs() {
        let world = World::new().await;
        let fh = world.file().await;
        let a = Peer::new(&world, one, "a").await;
        let b = Peer::new(&world, other, "b").await;
        // NFSv3 has no word for it but that.
        let refused = Ended::Refused(match other {
            Version::V3 => "NFS3ERR_ACCES",
            _ => "NFS4ERR_LOCKED",
        });
        for (deny, reads, writes) in [
            (SHARE_DENY_NONE, true, true),
            (SHARE_DENY_READ, false, true),
            (SHARE_DENY_WRITE, true, false),
            (SHARE_DENY_BOTH, false, false),
        ] {
            let held = a.open(&fh, (BOTH, deny)).await.unwrap();
            let what = format!("{one:?} denies {deny}, {other:?}");
            for (work, may) in [
                (Work::Read, reads),
                (Work::Write(b"x"), writes),
                (Work::Cut, writes),
            ] {
                let wanted = if may { Ended::Done } else { refused.clone() };
                assert_eq!(b.work(&fh, work).await, wanted, "{what} {work:?}");
            }
            a.close(&fh, held).await;
            assert_eq!(b.work(&fh, Work::Write(b"x")).await, Ended::Done, "{what}");
        }
    }
}

/// The first try does not block, and the next one succeeds once the delegation is back.
#[tokio::test(start_paused = true)]
async fn a_delegation_of_one_version_is_recalled_for_the_other() {
    for (one, other) in pairs().filter(|(one, _)| *one != Version::V3) {
        for (access, work, is_in_the_way) in [
            (BOTH, Work::Read, true),
            (BOTH, Work::Write(b"new"), true),
            (BOTH, Work::Cut, true),
            (READ, Work::Read, false),
            (READ, Work::Write(b"new"), true),
            (READ, Work::Cut, true),
        ] {
            let what = format!("{one:?} has {access}, {other:?} does {work:?}");
            let world = World::new().await;
            let fh = world.file().await;
            let a = Peer::new(&world, one, "a").await;
            let b = Peer::new(&world, other, "b").await;
            let held = a.delegated(access).await;
            if is_in_the_way {
                assert_eq!(b.work(&fh, work).await, Ended::Later, "{what}");
                assert_eq!(a.recalls(), 1, "{what}");
                a.give_back(&fh, held).await;
            }
            assert_eq!(b.work(&fh, work).await, Ended::Done, "{what}");
            assert_eq!(a.recalls(), usize::from(is_in_the_way), "{what}");
        }
    }
}

/// A client of NFSv3 with a file that somebody else is delegated.
async fn three_beside_a_holder(world: &World) -> (FileHandle, Peer<'_>, Peer<'_>) {
    let fh = world.file().await;
    let holder = Peer::new(world, Version::V42, "holder").await;
    let three = Peer::new(world, Version::V3, "three").await;
    (fh, holder, three)
}

/// Each procedure that may change the file, and what names are changed by.
#[tokio::test(start_paused = true)]
async fn every_change_by_nfs3_is_jukebox_while_a_delegation_is_recalled_and_done_afterwards() {
    for procedure in 0..8 {
        let world = World::new().await;
        let (fh, holder, peer) = three_beside_a_holder(&world).await;
        let Peer::Three(three) = &peer else {
            panic!("it is one of NFSv3");
        };
        let root = holder_root(&holder).await;
        let at = |name: &'static str| DirOpArgs {
            dir: Opaque(&root.0),
            name: Opaque(name.as_bytes()),
        };
        let change = async || match procedure {
            0 => peer.work(&fh, Work::Read).await,
            1 => peer.work(&fh, Work::Write(b"new")).await,
            2 => peer.work(&fh, Work::Cut).await,
            3 => {
                let new_attributes = Sattr3 {
                    mode: Some(0o600),
                    ..Sattr3::default()
                };
                let set = SetAttrArgs {
                    object: Opaque(&fh.0),
                    new_attributes,
                    guard: None,
                };
                three.ended(&set).await
            }
            4 => {
                let attributes = Sattr3 {
                    size: Some(0),
                    ..Sattr3::default()
                };
                let create = CreateArgs {
                    place: at(NAME),
                    how: CreateHow::Unchecked(attributes),
                };
                three.ended(&create).await
            }
            5 => {
                let (from, to) = (at(NAME), at("renamed"));
                three.ended(&RenameArgs { from, to }).await
            }
            6 => {
                let (file, link) = (Opaque(&fh.0[..]), at("link"));
                three.ended(&LinkArgs { file, link }).await
            }
            _ => three.ended(&RemoveArgs { object: at(NAME) }).await,
        };
        let held = holder.delegated(BOTH).await;
        assert_eq!(change().await, Ended::Later, "{procedure}");
        assert_eq!(holder.recalls(), 1, "{procedure}");
        // It is asked for again, and recalled no second time.
        assert_eq!(change().await, Ended::Later, "{procedure}");
        holder.give_back(&fh, held).await;
        assert_eq!(change().await, Ended::Done, "{procedure}");
    }
}

async fn holder_root(holder: &Peer<'_>) -> FileHandle {
    match holder {
        Peer::New(New { client, .. }) => client.lookup(&[]).await.unwrap(),
        _ => panic!("it is one of NFSv4.2"),
    }
}

#[tokio::test(start_paused = true)]
async fn a_lock_by_nlm_has_no_answer_while_a_delegation_is_recalled_and_is_granted_afterwards() {
    let world = World::new().await;
    let (fh, holder, peer) = three_beside_a_holder(&world).await;
    let Peer::Three(three) = &peer else {
        panic!("it is one of NFSv3");
    };
    let lock = Nlm4LockArgs {
        cookie: Opaque(b"c"),
        block: false,
        exclusive: true,
        alock: Nlm4Lock {
            caller_name: Opaque(b"three"),
            fh: Opaque(&fh.0),
            oh: Opaque(b"7@three"),
            svid: 7,
            l_offset: 0,
            l_len: 0,
        },
        reclaim: false,
        state: 3,
    };
    let held = holder.delegated(BOTH).await;
    assert_eq!(three.nlm(NlmProc::Lock, &lock).await, None);
    assert_eq!(holder.recalls(), 1);
    holder.give_back(&fh, held).await;
    let body = three.nlm(NlmProc::Lock, &lock).await.unwrap();
    let granted: Nlm4Res<'_> = decode_all(&body).unwrap();
    assert_eq!(granted.stat, Nlm4Stats::Granted);
}

#[tokio::test(start_paused = true)]
async fn what_one_version_writes_by_a_layout_the_other_reads_and_changes() {
    for (one, other) in pairs().filter(|(one, _)| matches!(one, Version::V41 | Version::V42)) {
        let what = format!("{one:?} by a layout, {other:?}");
        let world = World::new().await;
        let fh = world.file().await;
        let a = Peer::new(&world, one, "a").await;
        let b = Peer::new(&world, other, "b").await;
        let Peer::New(new) = &a else {
            panic!("it has sessions");
        };
        let file = File::create(&new.client, NAME).await;
        let layout = file.layout(IoMode::Rw).await;
        let direct = direct_session(&world.rig, &new.client, "a", "ds1").await;
        let handle = layout.body.file_handles.0[0].clone();
        let bytes = bytes::Bytes::from_static(b"written by a layout");
        let caller = &new.client.caller;
        let written = direct_write(
            &direct,
            caller,
            &handle,
            file.open,
            StableHow::FileSync,
            &bytes,
        );
        written.await.unwrap();
        file.layout_commit(layout.stateid, bytes.len() as u64)
            .await
            .unwrap();
        assert_eq!(b.bytes(&fh).await, bytes, "{what}");

        // The holder sees by the change attribute that what it has in its cache is old.
        let (_, before) = file.try_attrs().await.unwrap();
        assert_eq!(
            b.work(&fh, Work::Write(b"changed")).await,
            Ended::Done,
            "{what}"
        );
        let (size, after) = file.try_attrs().await.unwrap();
        assert!(after > before, "{what}");
        assert_eq!(size, bytes.len() as u64);
        assert_eq!(a.bytes(&fh).await, b"changed by a layout", "{what}");

        // A cut waits for the layout.
        assert_eq!(b.work(&fh, Work::Cut).await, Ended::Later, "{what}");
        assert!(a.recalls() > 0, "{what}");
        file.layout_return(layout.stateid).await.unwrap();
        assert_eq!(b.work(&fh, Work::Cut).await, Ended::Done, "{what}");
        assert_eq!(a.bytes(&fh).await, b"", "{what}");
    }
}
