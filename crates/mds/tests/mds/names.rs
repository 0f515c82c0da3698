//! Goal: names, attributes, opens and locks work over the wire, from the encoder of a client to the store.
//! Method: one metadata server over the memory transport, COMPOUNDs by hand.
#![allow(
    clippy::unwrap_used,
    reason = "a failure here is the failure of a test"
)]

use crate::rig::cluster::{FakeDs, Port};
use crate::rig::{Client, Rig, after_putfh};
use nfs4::attr::{self, Attrs};
use nfs4::ops::{
    AccessArgs, AccessRes, CloseArgs, CloseRes, CreateArgs, CreateHow, CreateRes, CreateType,
    GetAttrArgs, GetAttrRes, GetFhArgs, GetFhRes, LockArgs, LockRes, Locker, OpenArgs, OpenClaim,
    OpenHow, OpenRes, OpenToLockOwner, ReadDirArgs, ReadDirRes, RemoveArgs, RemoveRes,
    SHARE_ACCESS_BOTH, SetAttrArgs, SetAttrRes,
};
use nfs4::{
    Bitmap, ClientId, Fattr, FileHandle, FileType, LockType, NfsStatus, StateOwner, Stateid,
    Verifier,
};
use xdr::Opaque;

pub(crate) async fn mkdir(
    client: &Client,
    dir: &FileHandle,
    name: &str,
) -> Result<FileHandle, nfs4::OpError> {
    let attrs = Fattr::new(&Attrs {
        mode: Some(0o755),
        ..Attrs::default()
    });
    let done = client
        .on(dir, |b| {
            b.push(&CreateArgs {
                object_type: CreateType::Dir,
                name: Opaque(name.as_bytes()),
                attrs: attrs.clone(),
            });
            b.push(&GetFhArgs {});
        })
        .await;
    let mut reply = after_putfh(&done);
    let created = reply.take::<CreateRes>()?;
    assert!(created.cinfo.after > created.cinfo.before);
    Ok(FileHandle::from(reply.take::<GetFhRes<'_>>()?.object.0))
}

async fn open(
    client: &Client,
    dir: &FileHandle,
    name: &str,
    how: u8,
    deny: u32,
) -> Result<(Stateid, FileHandle), nfs4::OpError> {
    let attrs = Fattr::new(&Attrs {
        mode: Some(0o644),
        ..Attrs::default()
    });
    let done = client
        .on(dir, |b| {
            b.push(&OpenArgs {
                seqid: 0,
                share_access: SHARE_ACCESS_BOTH,
                share_deny: deny,
                owner: StateOwner {
                    clientid: ClientId::default(),
                    owner: Opaque(b"owner"),
                },
                how: match how {
                    0 => OpenHow::NoCreate,
                    1 => OpenHow::Create(CreateHow::Unchecked(attrs.clone())),
                    _ => OpenHow::Create(CreateHow::Guarded(attrs.clone())),
                },
                claim: OpenClaim::Null(Opaque(name.as_bytes())),
            });
            b.push(&GetFhArgs {});
        })
        .await;
    let mut reply = after_putfh(&done);
    let opened = reply.take::<OpenRes>()?;
    Ok((
        opened.stateid,
        FileHandle::from(reply.take::<GetFhRes<'_>>()?.object.0),
    ))
}

#[tokio::test]
async fn directories_are_made_found_listed_and_removed() {
    let rig = Rig::new().await;
    let client = rig.session("alice").await;
    let root = client.lookup(&[]).await.unwrap();
    for name in ["b", "a", "c"] {
        mkdir(&client, &root, name).await.unwrap();
    }
    let again = mkdir(&client, &root, "a").await.unwrap_err();
    assert_eq!(again.status(), Some(NfsStatus::Exist));
    let missing = client.lookup(&["nope"]).await.unwrap_err();
    assert_eq!(missing.status(), Some(NfsStatus::NoEnt));

    let done = client
        .on(&root, |b| {
            b.push(&ReadDirArgs {
                cookie: 0,
                cookie_verifier: Verifier::default(),
                dircount: 4096,
                maxcount: 8192,
                attr_request: Bitmap::of(&[attr::TYPE, attr::FILEID]),
            });
        })
        .await;
    let mut reply = after_putfh(&done);
    let page = reply.take::<ReadDirRes<'_>>().unwrap();
    let mut names: Vec<&[u8]> = page.entries.iter().map(|e| e.name.0).collect();
    names.sort_unstable();
    assert_eq!(names, [b"a", b"b", b"c"]);
    assert!(page.eof);
    for entry in &page.entries {
        assert_eq!(entry.attrs.attrs().unwrap().file_type, Some(FileType::Dir));
    }

    let done = client.on(&root, |b| {
        b.push(&RemoveArgs {
            target: Opaque(b"b"),
        });
    });
    after_putfh(&done.await).take::<RemoveRes>().unwrap();
    assert_eq!(
        client.lookup(&["b"]).await.unwrap_err().status(),
        Some(NfsStatus::NoEnt)
    );
}

/// READDIR of the root by `client`: the attributes of each entry.
async fn listed(client: &Client, root: &FileHandle, wanted: Bitmap) -> Vec<Attrs> {
    let done = client
        .on(root, |b| {
            b.push(&ReadDirArgs {
                cookie: 0,
                cookie_verifier: Verifier::default(),
                dircount: 4096,
                maxcount: 8192,
                attr_request: wanted,
            });
        })
        .await;
    let mut reply = after_putfh(&done);
    let page = reply.take::<ReadDirRes<'_>>().unwrap();
    let attrs = page.entries.iter().map(|entry| {
        assert_eq!(entry.attrs.mask, wanted);
        entry.attrs.attrs().unwrap()
    });
    attrs.collect()
}

#[tokio::test]
async fn what_an_entry_says_itself_is_that_of_its_file_and_needs_no_right_to_search() {
    let rig = Rig::new().await;
    let port = Port::open(&rig);
    let _ds = FakeDs::joined(&rig, &port, 1).await;
    let client = rig.session("alice").await;
    let root = client.lookup(&[]).await.unwrap();
    mkdir(&client, &root, "d").await.unwrap();
    open(&client, &root, "f", 2, 0).await.unwrap();
    let of_entry = [
        attr::TYPE,
        attr::RDATTR_ERROR,
        attr::FILEID,
        attr::MOUNTED_ON_FILEID,
    ];
    let names_only = listed(&client, &root, Bitmap::of(&of_entry)).await;
    let [a, b, c, d] = of_entry;
    let with_inodes = listed(&client, &root, Bitmap::of(&[a, b, c, d, attr::NUMLINKS])).await;
    assert_eq!(names_only.len(), 2);
    for (short, full) in names_only.iter().zip(with_inodes) {
        let full = Attrs {
            numlinks: None,
            ..full
        };
        assert_eq!(*short, full);
        assert_eq!(short.rdattr_error, Some(NfsStatus::Ok));
    }

    let readable = Fattr::new(&Attrs {
        mode: Some(0o744),
        ..Attrs::default()
    });
    let done = client.on(&root, |b| {
        b.push(&SetAttrArgs {
            stateid: Stateid::default(),
            attrs: readable.clone(),
        });
    });
    after_putfh(&done.await).take::<SetAttrRes>().unwrap();
    let stranger = client.user(1000);
    assert_eq!(
        listed(&stranger, &root, Bitmap::of(&of_entry)).await,
        names_only
    );
}

#[tokio::test]
async fn a_file_is_created_opened_locked_and_closed() {
    let rig = Rig::new().await;
    let port = Port::open(&rig);
    let _ds = FakeDs::joined(&rig, &port, 1).await;
    let (alice, bob) = (rig.session("alice").await, rig.session("bob").await);
    let root = alice.lookup(&[]).await.unwrap();
    let (stateid, file) = open(&alice, &root, "f", 2, 0).await.unwrap();
    let guarded = open(&bob, &root, "f", 2, 0).await.unwrap_err();
    assert_eq!(guarded.status(), Some(NfsStatus::Exist));
    let denied = open(&bob, &root, "f", 0, 2).await.unwrap_err();
    assert_eq!(denied.status(), Some(NfsStatus::ShareDenied));
    let (bobs, _) = open(&bob, &root, "f", 1, 0).await.unwrap();

    let lock = |stateid: Stateid| {
        move |b: &mut nfs4::CompoundBuilder| {
            b.push(&LockArgs {
                lock_type: LockType::Write,
                reclaim: false,
                offset: 10,
                length: 10,
                locker: Locker::New(OpenToLockOwner {
                    open_seqid: 0,
                    open_stateid: stateid,
                    lock_seqid: 0,
                    lock_owner: StateOwner {
                        clientid: ClientId::default(),
                        owner: Opaque(b"l"),
                    },
                }),
            });
        }
    };
    let done = alice.on(&file, lock(stateid)).await;
    assert!(matches!(
        after_putfh(&done).take::<LockRes<'_>>().unwrap(),
        LockRes::Ok(_)
    ));
    let done = bob.on(&file, lock(bobs)).await;
    let mut reply = after_putfh(&done);
    let LockRes::Denied(by) = reply.take::<LockRes<'_>>().unwrap() else {
        panic!("granted")
    };
    assert_eq!((by.offset, by.length), (10, 10));

    let done = alice.on(&file, |b| {
        b.push(&CloseArgs {
            seqid: 0,
            open_stateid: stateid,
        });
    });
    after_putfh(&done.await).take::<CloseRes>().unwrap();
    let done = bob.on(&file, lock(bobs)).await;
    assert!(matches!(
        after_putfh(&done).take::<LockRes<'_>>().unwrap(),
        LockRes::Ok(_)
    ));
}

#[tokio::test]
async fn attributes_of_the_root_are_complete() {
    let rig = Rig::new().await;
    let client = rig.session("alice").await;
    let root = client.lookup(&[]).await.unwrap();
    let done = client
        .on(&root, |b| {
            b.push(&GetAttrArgs {
                attr_request: attr::KNOWN.difference(&attr::WRITE_ONLY),
            });
            b.push(&AccessArgs { access: 0x3f });
        })
        .await;
    let mut reply = after_putfh(&done);
    let attrs = reply
        .take::<GetAttrRes<'_>>()
        .unwrap()
        .attributes
        .attrs()
        .unwrap();
    assert_eq!(attrs.file_type, Some(FileType::Dir));
    assert_eq!(attrs.numlinks, Some(2));
    assert_eq!(attrs.lease_time_s, Some(30));
    let supported = attrs.supported_attrs.unwrap();
    // Whatever is named as supported and readable is answered.
    let answered = attrs.present();
    let readable = supported.difference(&attr::WRITE_ONLY);
    assert!(
        readable.difference(&answered).is_empty(),
        "{:?}",
        readable.difference(&answered).iter().collect::<Vec<_>>()
    );
    assert_eq!(reply.take::<AccessRes>().unwrap().access, 0x1f);
}

#[tokio::test(start_paused = true)]
async fn every_attribute_that_is_called_supported_has_a_value_and_the_creation_time_can_be_set() {
    let rig = Rig::new().await;
    let me = rig.session("alice").await;
    let root = me.lookup(&[]).await.unwrap();
    let ask = |mask: Bitmap| {
        let (me, root) = (&me, &root);
        async move {
            let done = me
                .on(root, |b| {
                    b.push(&GetAttrArgs { attr_request: mask });
                })
                .await;
            let got = after_putfh(&done).take::<GetAttrRes<'_>>().unwrap();
            got.attributes.attrs().unwrap()
        }
    };
    let supported = ask(Bitmap::of(&[attr::SUPPORTED_ATTRS])).await;
    let supported = supported.supported_attrs.unwrap();
    let readable = supported.difference(&attr::WRITE_ONLY);
    assert_eq!(ask(readable).await.present(), readable);
    // All that RFC 8881 §5.6 requires.
    let required = [0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 19, 75];
    let missing = Bitmap::of(&required).difference(&supported);
    assert!(missing.is_empty(), "{missing:?}");

    let born = nfs4::NfsTime {
        seconds: 77,
        nanoseconds: 5,
    };
    let fattr = Fattr::new(&Attrs {
        time_create: Some(born),
        ..Attrs::default()
    });
    let done = me
        .on(&root, |b| {
            b.push(&SetAttrArgs {
                stateid: Stateid::default(),
                attrs: fattr.clone(),
            });
        })
        .await;
    let set = after_putfh(&done).take::<SetAttrRes>().unwrap();
    assert_eq!((set.status, set.attrsset), (NfsStatus::Ok, fattr.mask));
    let got = ask(Bitmap::of(&[attr::TIME_CREATE])).await;
    assert_eq!(got.time_create, Some(born));
}
