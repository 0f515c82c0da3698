//! Goal: hidden, system, archive and time_backup (RFC 8881 §5.8.2) are what their owner set, wherever attributes can be
//! set and asked for. They outlive the server. A file that was written to is archived no more. Method: COMPOUNDs by
//! hand; what is written goes to a data server over a store in memory.
#![allow(
    clippy::unwrap_used,
    reason = "a failure here is the failure of a test"
)]

use crate::rig::delegated::{self, User};
use crate::rig::file::{File, patiently};
use crate::rig::real::{cluster, write};
use crate::rig::{Client, Rig, after_putfh};
use nfs4::attr::{self, Attrs};
use nfs4::ops::{
    CreateArgs, CreateHow, CreateRes, CreateType, CreateVerfAttrs, GetAttrArgs, GetAttrRes,
    GetFhArgs, GetFhRes, NVerifyArgs, NVerifyRes, OpenArgs, OpenClaim, OpenHow, OpenRes,
    ReadDirArgs, ReadDirRes, SHARE_ACCESS_BOTH, SHARE_WANT_NO_DELEG, VerifyArgs, VerifyRes,
};
use nfs4::{
    Bitmap, ClientId, Fattr, FileHandle, NfsStatus, NfsTime, StableHow, StateOwner, Stateid,
    Verifier,
};
use std::sync::Arc;
use xdr::Opaque;

const MARKS: Bitmap = Bitmap::of(&[attr::ARCHIVE, attr::HIDDEN, attr::SYSTEM, attr::TIME_BACKUP]);

/// Archive, hidden, system, and the seconds of time_backup.
type Marks = (bool, bool, bool, i64);

const NONE: Marks = (false, false, false, 0);
const ALL: Marks = (true, true, true, 777);

fn marks((archive, hidden, system, backup): Marks) -> Attrs {
    Attrs {
        archive: Some(archive),
        hidden: Some(hidden),
        system: Some(system),
        time_backup: Some(NfsTime {
            seconds: backup,
            nanoseconds: 0,
        }),
        ..Attrs::default()
    }
}

async fn seen(client: &Client, fh: &FileHandle) -> Marks {
    let done = client
        .on(fh, |b| {
            b.push(&GetAttrArgs {
                attr_request: MARKS,
            });
        })
        .await;
    let got = after_putfh(&done).take::<GetAttrRes<'_>>().unwrap();
    let got = got.attributes.attrs().unwrap();
    assert_eq!(got.present(), MARKS);
    (
        got.archive.unwrap(),
        got.hidden.unwrap(),
        got.system.unwrap(),
        got.time_backup.unwrap().seconds,
    )
}

async fn set(client: &Client, fh: &FileHandle, attrs: &Attrs) -> NfsStatus {
    match client.set_attrs(fh, Stateid::default(), attrs).await {
        Ok(set) => {
            assert_eq!(set, Fattr::new(attrs).mask);
            NfsStatus::Ok
        }
        Err(status) => status,
    }
}

/// Whether VERIFY finds the file as given; NVERIFY is to say the contrary.
async fn verify(client: &Client, fh: &FileHandle, attrs: &Attrs) -> bool {
    let attrs = Fattr::new(attrs);
    let done = client.on(fh, |b| {
        b.push(&VerifyArgs {
            attrs: attrs.clone(),
        });
    });
    let same = after_putfh(&done.await).take::<VerifyRes>();
    let done = client.on(fh, |b| {
        b.push(&NVerifyArgs {
            attrs: attrs.clone(),
        });
    });
    let differs = after_putfh(&done.await).take::<NVerifyRes>();
    let refused = |e: nfs4::OpError| e.status().unwrap();
    match (same.map_err(refused), differs.map_err(refused)) {
        (Ok(_), Err(NfsStatus::Same)) => true,
        (Err(NfsStatus::NotSame), Ok(_)) => false,
        other => panic!("{other:?}"),
    }
}

async fn mkdir(client: &Client, name: &str, attrs: &Attrs) -> FileHandle {
    let root = client.lookup(&[]).await.unwrap();
    let attrs = Fattr::new(attrs);
    let done = client
        .on(&root, |b| {
            b.push(&CreateArgs {
                object_type: CreateType::Dir,
                name: Opaque(name.as_bytes()),
                attrs: attrs.clone(),
            });
            b.push(&GetFhArgs {});
        })
        .await;
    let mut reply = after_putfh(&done);
    let made = reply.take::<CreateRes>().unwrap();
    assert_eq!(made.attrset, attrs.mask);
    FileHandle::from(reply.take::<GetFhRes<'_>>().unwrap().object.0)
}

async fn open(client: &Client, name: &str, how: CreateHow<'_>) -> FileHandle {
    let root = client.lookup(&[]).await.unwrap();
    let done = client
        .on(&root, |b| {
            b.push(&OpenArgs {
                seqid: 0,
                share_access: SHARE_ACCESS_BOTH | SHARE_WANT_NO_DELEG,
                share_deny: 0,
                owner: StateOwner {
                    clientid: ClientId::default(),
                    owner: Opaque(b"owner"),
                },
                how: OpenHow::Create(how.clone()),
                claim: OpenClaim::Null(Opaque(name.as_bytes())),
            });
            b.push(&GetFhArgs {});
        })
        .await;
    let mut reply = after_putfh(&done);
    let opened = reply.take::<OpenRes>().unwrap();
    assert!(MARKS.difference(&opened.attrset).is_empty());
    FileHandle::from(reply.take::<GetFhRes<'_>>().unwrap().object.0)
}

#[tokio::test(start_paused = true)]
async fn marks_can_be_set_wherever_attributes_can_and_outlive_the_server() {
    let (rig, port, mut servers) = cluster(1).await;
    let alice = rig.session("alice").await;
    let root = alice.lookup(&[]).await.unwrap();
    assert_eq!(seen(&alice, &root).await, NONE, "nobody said anything");

    let dir = mkdir(&alice, "dir", &marks(ALL)).await;
    let guarded = open(
        &alice,
        "guarded",
        CreateHow::Guarded(Fattr::new(&marks(ALL))),
    )
    .await;
    let exclusive = CreateHow::Exclusive41(CreateVerfAttrs {
        verifier: Verifier { bytes: [7; 8] },
        attrs: Fattr::new(&marks(ALL)),
    });
    let exclusive = open(&alice, "exclusive", exclusive).await;
    for fh in [&dir, &guarded, &exclusive] {
        assert_eq!(seen(&alice, fh).await, ALL);
        assert!(verify(&alice, fh, &marks(ALL)).await);
        assert!(!verify(&alice, fh, &marks((true, true, true, 778))).await);
    }
    // One at a time: the others stay.
    let shown = Attrs {
        hidden: Some(false),
        ..Attrs::default()
    };
    assert_eq!(set(&alice, &guarded, &shown).await, NfsStatus::Ok);
    assert_eq!(seen(&alice, &guarded).await, (true, false, true, 777));
    let bob = alice.user(9);
    assert_eq!(set(&bob, &guarded, &shown).await, NfsStatus::Perm);
    let beyond = Attrs {
        time_backup: Some(NfsTime {
            seconds: 0,
            nanoseconds: 1_000_000_000,
        }),
        ..Attrs::default()
    };
    assert_eq!(set(&alice, &guarded, &beyond).await, NfsStatus::Inval);

    let store = Arc::clone(&rig.store);
    servers[0].stop().await;
    drop((rig, port));
    let rig = Rig::over(store).await;
    let alice = rig.session("alice").await;
    let done = alice
        .on(&root, |b| {
            b.push(&ReadDirArgs {
                cookie: 0,
                cookie_verifier: Verifier::default(),
                dircount: 4096,
                maxcount: 8192,
                attr_request: MARKS,
            });
        })
        .await;
    let mut reply = after_putfh(&done);
    let page = reply.take::<ReadDirRes<'_>>().unwrap();
    assert_eq!(page.entries.len(), 3);
    for entry in &page.entries {
        let hidden = entry.name.0 != b"guarded";
        let expected = marks((true, hidden, true, 777));
        assert_eq!(entry.attrs.attrs().unwrap(), expected);
    }
}

#[tokio::test(start_paused = true)]
async fn a_file_that_was_written_to_or_cut_is_archived_no_more() {
    let (rig, _port, _servers) = cluster(1).await;
    let alice = rig.session("alice").await;
    let file = File::create(&alice, "file").await;
    let archived = Attrs {
        archive: Some(true),
        ..Attrs::default()
    };
    let is_archived = async || seen(&alice, &file.fh).await.0;
    assert_eq!(set(&alice, &file.fh, &archived).await, NfsStatus::Ok);
    assert!(is_archived().await);
    // The clock of these tests stands: it is not the time that tells.
    write(&file, 0, StableHow::FileSync, b"written").await;
    assert!(!is_archived().await);

    file.try_set(&archived).await.unwrap();
    patiently(|| file.try_truncate(3)).await.unwrap();
    assert!(!is_archived().await);

    file.try_set(&archived).await.unwrap();
    let layout = file.layout(nfs4::IoMode::Rw).await;
    assert!(is_archived().await);
    file.layout_commit(layout.stateid, 3).await.unwrap();
    assert!(!is_archived().await);
    // Who cuts a file and says that this is what was archived is believed.
    let cut = Attrs {
        size: Some(1),
        ..archived
    };
    patiently(|| file.try_set(&cut)).await.unwrap();
    assert!(is_archived().await);
}

#[tokio::test(start_paused = true)]
async fn a_file_that_its_holder_has_modified_is_archived_no_more() {
    let (rig, _port, _ds) = delegated::cluster().await;
    let (alice, bob) = (User::new(&rig, "alice").await, User::new(&rig, "bob").await);
    let file = alice.open("f", delegated::BOTH).await;
    // The change attribute that it was granted with: the holder has modified nothing since.
    let known = alice.attrs(&file.fh).await.unwrap();
    let archived = Attrs {
        archive: Some(true),
        ..Attrs::default()
    };
    let done = set(&alice.client, &file.fh, &archived).await;
    assert_eq!(done, NfsStatus::Ok);
    *alice.back.known.lock() = Some(known);
    assert!(seen(&bob.client, &file.fh).await.0);
    *alice.back.known.lock() = Some((known.0 + 1, known.1));
    assert!(!seen(&bob.client, &file.fh).await.0);
    assert_eq!(alice.recalls(), 0);
}
