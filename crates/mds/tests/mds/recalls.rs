//! Goal: whatever a client does to a file that another one holds calls the delegation back first (RFC 8881 §10.4, §20.2), whichever
//! operation it is. Method: clients whose back channels note what they are asked, time paused.
#![allow(
    clippy::unwrap_used,
    reason = "a failure here is the failure of a test"
)]

use crate::rig;
use crate::rig::delegated::{BOTH, CONTENDED, Given, READ, User, be_idle, cluster, ended};
use crate::rig::file::{File, patiently};
use nfs4::attr::Attrs;
use nfs4::ops::*;
use nfs4::{ClientId, Fattr, FileHandle, NfsStatus, StableHow, StateOwner, Stateid};
use xdr::Opaque;

/// One operation of bob's on alice's file.
type Work = fn(&mut nfs4::CompoundBuilder, &FileHandle, &FileHandle);

/// By the name of the file that is worked on.
const WORKS: [(&str, Work); 8] = [
    ("setattr", |b, _, file| {
        at(b, file);
        b.push(&SetAttrArgs {
            stateid: Stateid::ANONYMOUS,
            attrs: Fattr::new(&Attrs {
                mode: Some(0o600),
                ..Attrs::default()
            }),
        });
    }),
    ("link", |b, root, file| {
        at(b, file);
        b.push(&SaveFhArgs {});
        at(b, root);
        b.push(&LinkArgs {
            new_name: Opaque(b"linked"),
        });
    }),
    ("rename", |b, root, _| {
        at(b, root);
        b.push(&SaveFhArgs {});
        b.push(&RenameArgs {
            old_name: Opaque(b"rename"),
            new_name: Opaque(b"renamed"),
        });
    }),
    ("replaced", |b, root, _| {
        at(b, root);
        b.push(&SaveFhArgs {});
        b.push(&RenameArgs {
            old_name: Opaque(b"other"),
            new_name: Opaque(b"replaced"),
        });
    }),
    ("remove", |b, root, _| {
        at(b, root);
        b.push(&RemoveArgs {
            target: Opaque(b"remove"),
        });
    }),
    ("read", |b, _, file| {
        at(b, file);
        b.push(&ReadArgs {
            stateid: Stateid::ANONYMOUS,
            offset: 0,
            count: 1,
        });
    }),
    ("write", |b, _, file| {
        at(b, file);
        b.push(&WriteArgs {
            stateid: Stateid::ANONYMOUS,
            offset: 0,
            stable: StableHow::FileSync,
            data: Opaque(b""),
        });
    }),
    ("lockt", |b, _, file| {
        at(b, file);
        b.push(&LockTArgs {
            lock_type: nfs4::LockType::Write,
            offset: 0,
            length: 1,
            owner: StateOwner {
                clientid: ClientId::default(),
                owner: Opaque(b"locker"),
            },
        });
    }),
];

#[tokio::test(start_paused = true)]
async fn what_others_do_to_a_file_calls_it_back() {
    let (rig, _port, _ds) = cluster().await;
    let (alice, bob) = (User::new(&rig, "alice").await, User::new(&rig, "bob").await);
    let root = bob.client.lookup(&[]).await.unwrap();
    let other = bob.open("other", READ | SHARE_WANT_NO_DELEG).await;
    bob.close(&other).await;
    for (name, work) in WORKS {
        is_called_back(&alice, &bob, name, work).await;
    }
    // The holder himself does all that without being asked.
    let own = alice.open("own", BOTH).await;
    let done = alice.client.run(|b| WORKS[0].1(b, &root, &own.fh)).await;
    assert_eq!((ended(&done), alice.recalls()), (Ok(()), 1));
}

/// Bob's work on the file of this name calls alice's delegation back, and is done when it is back.
async fn is_called_back(alice: &User, bob: &User, name: &str, work: Work) {
    alice.back.recalled.lock().clear();
    let root = bob.client.lookup(&[]).await.unwrap();
    let file = alice.open(name, BOTH).await;
    let run = async || {
        let done = bob.client.run(|b| work(b, &root, &file.fh)).await;
        ended(&done)
    };
    assert_eq!(run().await, Err(NfsStatus::Delay), "{name}");
    assert_eq!(alice.recalls(), 1, "{name}");
    alice.give_back(&file).await.unwrap();
    assert_eq!(patiently(run).await, Ok(()), "{name}");
}

/// As [`WORKS`], what only NFSv4.2 has, or few clients do.
const LATER_WORKS: [(&str, Work); 6] = [
    ("allocate", |b, _, file| {
        at(b, file);
        b.push(&AllocateArgs {
            stateid: Stateid::ANONYMOUS,
            offset: 0,
            length: 10,
        });
    }),
    ("deallocate", |b, _, file| {
        at(b, file);
        b.push(&DeallocateArgs {
            stateid: Stateid::ANONYMOUS,
            offset: 0,
            length: 10,
        });
    }),
    ("copied to", |b, root, file| {
        at(b, root);
        b.push(&LookupArgs {
            name: Opaque(b"other"),
        });
        b.push(&SaveFhArgs {});
        at(b, file);
        b.push(&copy());
    }),
    ("copied from", |b, root, file| {
        at(b, file);
        b.push(&SaveFhArgs {});
        at(b, root);
        b.push(&LookupArgs {
            name: Opaque(b"other"),
        });
        b.push(&copy());
    }),
    ("xattr", |b, _, file| {
        at(b, file);
        b.push(&SetXattrArgs {
            option: SetXattrOption::Either,
            name: Opaque(b"colour"),
            value: Opaque(b"red"),
        });
    }),
    ("acl", |b, _, file| {
        at(b, file);
        b.push(&SetAttrArgs {
            stateid: Stateid::ANONYMOUS,
            attrs: Fattr::new(&Attrs {
                acl: Some(xdr::List(vec![])),
                ..Attrs::default()
            }),
        });
    }),
];

#[tokio::test(start_paused = true)]
async fn so_does_what_only_later_clients_do() {
    let (rig, _port, _servers) = rig::real::cluster(2).await;
    let (alice, bob) = (User::new(&rig, "alice").await, User::new(&rig, "bob").await);
    let other = bob.open("other", READ | SHARE_WANT_NO_DELEG).await;
    bob.close(&other).await;
    for (name, work) in LATER_WORKS {
        is_called_back(&alice, &bob, name, work).await;
    }
    be_idle(&[&alice, &bob], CONTENDED).await;
    is_called_back(&alice, &bob, "xattr", |b, _, file| {
        at(b, file);
        b.push(&RemoveXattrArgs {
            name: Opaque(b"colour"),
        });
    })
    .await;
}

/// All of the saved file over the current one, before the answer.
fn copy() -> CopyArgs {
    CopyArgs {
        src_stateid: Stateid::ANONYMOUS,
        dst_stateid: Stateid::ANONYMOUS,
        src_offset: 0,
        dst_offset: 0,
        count: 0,
        consecutive: true,
        synchronous: true,
        source_servers: Vec::new().into(),
    }
}

fn at(b: &mut nfs4::CompoundBuilder, fh: &FileHandle) {
    b.push(&PutFhArgs {
        object: Opaque(&fh.0),
    });
}

#[tokio::test(start_paused = true)]
async fn a_copy_that_goes_on_keeps_delegations_off_its_destination() {
    let (rig, port, mut servers) = rig::real::cluster(2).await;
    let (alice, bob) = (User::new(&rig, "alice").await, User::new(&rig, "bob").await);
    let src = alice.open("src", BOTH | SHARE_WANT_NO_DELEG).await;
    let dst = alice.open("dst", BOTH | SHARE_WANT_NO_DELEG).await;
    let file = File {
        client: &alice.client,
        name: "src".into(),
        fh: src.fh.clone(),
        open: src.open,
    };
    patiently(|| file.try_truncate(17 << 20)).await.unwrap();
    servers[1].stop().await;
    let begun = alice.client.run(|b| {
        at(b, &src.fh);
        b.push(&SaveFhArgs {});
        at(b, &dst.fh);
        b.push(&CopyArgs {
            src_stateid: src.open,
            dst_stateid: dst.open,
            synchronous: false,
            ..copy()
        });
    });
    ended(&begun.await).unwrap();
    alice.close(&src).await;
    alice.close(&dst).await;
    let wish = READ | SHARE_WANT_ANY_DELEG;
    let opened = bob.open("dst", wish).await;
    let why = WhyNoDelegation::Contention(false);
    assert_eq!(opened.delegation, Given::Why(why));
    bob.close(&opened).await;
    servers[1].start(&rig, &port, 99).await;
    be_idle(&[&alice, &bob], CONTENDED).await;
    let opened = bob.open("dst", wish).await;
    assert!(matches!(opened.delegation, Given::Read(..)));
}
