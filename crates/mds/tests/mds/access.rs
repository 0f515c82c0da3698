//! Goal: nobody reads or changes what permissions and exports keep from him, by whatever way (decision 8).
//! Method: COMPOUNDs over the memory transport, by users of one client; time paused.
#![allow(
    clippy::unwrap_used,
    reason = "a failure here is the failure of a test"
)]

use crate::rig::cluster::{FakeDs, Port};
use crate::rig::file::{File, patiently};
use crate::rig::{Client, Rig, START_S, after_putfh};
use layout::{DsHandle, Rights};
use meta::{MemStore, MetaStore};
use nfs4::attr::{self, Attrs};
use nfs4::ops::{
    CreateArgs, CreateRes, CreateType, GetAttrArgs, GetAttrRes, ReadArgs, ReadRes, RemoveArgs,
    RemoveRes, SHARE_ACCESS_READ, SHARE_ACCESS_WRITE,
};
use nfs4::{Bitmap, Fattr, IoMode, NfsStatus};
use server::exports::{Atime, ExportRule, Exports, Squash};
use std::sync::Arc;
use std::sync::atomic::AtomicI64;
use std::sync::atomic::Ordering::Relaxed;
use xdr::Opaque;

/// READ of nothing: the permission is checked all the same.
async fn try_read(file: &File<'_>) -> Result<(), NfsStatus> {
    let stateid = file.open;
    let read = || async {
        let done = file
            .client
            .on(&file.fh, |b| {
                b.push(&ReadArgs {
                    stateid,
                    offset: 0,
                    count: 0,
                });
            })
            .await;
        let result = after_putfh(&done).take::<ReadRes<'_>>().map(drop);
        result.map_err(|e| e.status().unwrap())
    };
    patiently(read).await
}

/// LAYOUTGET, and what the handle allows.
async fn rights(
    rig: &Rig,
    ds: &FakeDs,
    file: &File<'_>,
    iomode: IoMode,
) -> Result<Rights, NfsStatus> {
    let granted = patiently(|| file.try_layout(iomode)).await?;
    let cluster_id = rig.nfsd.role().fs().cluster().id();
    let handle = DsHandle::verify(&granted.body.file_handles.0[0].0, cluster_id, &ds.ring());
    Ok(handle.unwrap().rights)
}

/// Another run over a store, with one export rule for this machine.
async fn exporting(store: Arc<dyn MetaStore>, read_write: bool, squash: Squash) -> (Rig, Port) {
    let rule = ExportRule {
        clients: "127.0.0.0/8".parse().unwrap(),
        read_write,
        squash,
        anonymous_uid: 4242,
        anonymous_gid: 4343,
        atime: Atime::Relatime,
    };
    let clock_s = Arc::new(AtomicI64::new(START_S));
    let rig = Rig::exporting(store, clock_s, Exports::new(vec![rule])).await;
    let port = Port::open(&rig);
    (rig, port)
}

/// A store with file `f` in a root where everybody may make files.
async fn open_root() -> Arc<dyn MetaStore> {
    let rig = Rig::new().await;
    let port = Port::open(&rig);
    let _ds = FakeDs::joined(&rig, &port, 1).await;
    let root = rig.session("admin").await;
    let file = File::create(&root, "f").await;
    let dir = File {
        client: &root,
        name: String::new(),
        fh: root.lookup(&[]).await.unwrap(),
        open: file.open,
    };
    dir.try_set(&open_mode()).await.unwrap();
    Arc::clone(&rig.store)
}

/// Mode 0777.
fn open_mode() -> Attrs {
    Attrs {
        mode: Some(0o777),
        ..Attrs::default()
    }
}

/// CREATE of a directory in the root, and whose it is.
async fn mkdir(client: &Client, name: &str) -> Result<(String, String), NfsStatus> {
    let root = client.lookup(&[]).await.unwrap();
    let attrs = Fattr::new(&Attrs {
        mode: Some(0o755),
        ..Attrs::default()
    });
    let owners = Bitmap::of(&[attr::OWNER, attr::OWNER_GROUP]);
    let done = client
        .on(&root, |b| {
            b.push(&CreateArgs {
                object_type: CreateType::Dir,
                name: Opaque(name.as_bytes()),
                attrs: attrs.clone(),
            });
            b.push(&GetAttrArgs {
                attr_request: owners,
            });
        })
        .await;
    let mut reply = after_putfh(&done);
    reply.take::<CreateRes>().map_err(|e| e.status().unwrap())?;
    let attrs = reply.take::<GetAttrRes<'_>>().unwrap().attributes.attrs();
    let attrs = attrs.unwrap();
    let text = |owner: nfs4::Owner| String::from_utf8(owner.0).unwrap();
    Ok((text(attrs.owner.unwrap()), text(attrs.owner_group.unwrap())))
}

#[tokio::test(start_paused = true)]
async fn a_read_only_export_answers_rofs_to_every_change_and_reads() {
    let (rig, _port) = exporting(open_root().await, false, Squash::None).await;
    let alice = rig.session("alice").await;
    let root = alice.lookup(&[]).await.unwrap();
    let file = File::open(&alice, "f", SHARE_ACCESS_READ).await.unwrap();
    assert!(file.try_attrs().await.is_ok());
    let rofs = Some(NfsStatus::RoFs);
    let made = patiently(|| File::try_open(&alice, &root, "new")).await;
    assert_eq!(made.err(), rofs, "OPEN that creates");
    let writing = File::open(&alice, "f", SHARE_ACCESS_WRITE).await;
    assert_eq!(writing.err(), rofs, "OPEN for writing");
    assert_eq!(mkdir(&alice, "d").await.err(), rofs, "CREATE");
    assert_eq!(file.try_set(&open_mode()).await.err(), rofs, "SETATTR");
    assert_eq!(
        file.try_layout(IoMode::Rw).await.err(),
        rofs,
        "LAYOUTGET for writing"
    );
    let removed = alice
        .on(&root, |b| {
            b.push(&RemoveArgs {
                target: Opaque(b"f"),
            });
        })
        .await;
    let removed = after_putfh(&removed).take::<RemoveRes>().unwrap_err();
    assert_eq!(removed.status(), rofs, "REMOVE");
    assert!(alice.lookup(&["f"]).await.is_ok());
}

#[tokio::test(start_paused = true)]
async fn a_network_that_no_rule_holds_is_refused_and_counted() {
    let rule = ExportRule {
        clients: "10.0.0.0/8".parse().unwrap(),
        read_write: true,
        squash: Squash::None,
        anonymous_uid: 1,
        anonymous_gid: 1,
        atime: Atime::Relatime,
    };
    let clock_s = Arc::new(AtomicI64::new(START_S));
    let exports = Exports::new(vec![rule]);
    let rig = Rig::exporting(Arc::new(MemStore::new()), clock_s, exports).await;
    let stranger = rig.stranger("stranger", *b"boot0001", None);
    assert!(stranger.session.establish().await.is_err());
    assert_eq!(rig.nfsd.clients().lock().clients_count(), 0);
    let counters = rig.nfsd.counters();
    assert_eq!(counters.compounds.load(Relaxed), 0, "nothing was executed");
    assert!(counters.refused.load(Relaxed) > 0);
}

#[tokio::test(start_paused = true)]
async fn root_is_squashed_by_default_and_all_are_when_asked() {
    let owner = |uid: &str, gid: &str| Ok((uid.to_owned(), gid.to_owned()));
    let store = open_root().await;
    for (squash, of_root, of_user) in [
        (
            Squash::default(),
            owner("4242", "4343"),
            owner("1000", "1000"),
        ),
        (Squash::All, owner("4242", "4343"), owner("4242", "4343")),
        (Squash::None, owner("0", "0"), owner("1000", "1000")),
    ] {
        let (rig, _port) = exporting(Arc::clone(&store), true, squash).await;
        let root = rig.session("alice").await;
        let user = root.user(1000);
        assert_eq!(mkdir(&root, &format!("r{squash:?}")).await, of_root);
        assert_eq!(mkdir(&user, &format!("u{squash:?}")).await, of_user);
        let file = File::open(&root, "f", SHARE_ACCESS_READ).await.unwrap();
        let chmod = file.try_set(&open_mode()).await;
        let is_root = squash == Squash::None;
        assert_eq!(chmod.is_ok(), is_root, "{squash:?}: {chmod:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn who_may_only_write_reads_neither_through_the_mds_nor_by_a_layout() {
    let rig = Rig::new().await;
    let port = Port::open(&rig);
    let ds = FakeDs::joined(&rig, &port, 1).await;
    let root = rig.session("alice").await;
    let file = File::create(&root, "f").await;
    let mode = |mode| Attrs {
        mode: Some(mode),
        ..Attrs::default()
    };
    let (write_only, open_to_all) = (mode(0o622), mode(0o666));
    patiently(|| file.try_set(&write_only)).await.unwrap();
    let stranger = root.user(1000);
    let refused = File::open(&stranger, "f", SHARE_ACCESS_READ).await;
    assert_eq!(refused.err(), Some(NfsStatus::Access));
    let writing = File::open(&stranger, "f", SHARE_ACCESS_WRITE)
        .await
        .unwrap();
    assert_eq!(try_read(&writing).await, Err(NfsStatus::Access));
    let by_writing = |iomode| rights(&rig, &ds, &writing, iomode);
    assert_eq!(by_writing(IoMode::Read).await, Err(NfsStatus::Access));
    assert_eq!(
        by_writing(IoMode::Rw).await,
        Err(NfsStatus::LayoutUnavailable),
        "a handle for writing reads as well"
    );

    // With the permission to read, an open for writing does for both (RFC 8881 §9.1.2).
    patiently(|| file.try_set(&open_to_all)).await.unwrap();
    assert_eq!(try_read(&writing).await, Ok(()));
    assert_eq!(by_writing(IoMode::Rw).await, Ok(Rights::ReadWrite));

    // And who opened to read gets nothing that writes.
    let reading = File::open(&stranger, "f", SHARE_ACCESS_READ).await.unwrap();
    let by_reading = |iomode| rights(&rig, &ds, &reading, iomode);
    assert_eq!(by_reading(IoMode::Rw).await, Err(NfsStatus::OpenMode));
    assert_eq!(by_reading(IoMode::Read).await, Ok(Rights::Read));
}
