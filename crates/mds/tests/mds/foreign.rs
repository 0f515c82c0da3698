//! Goal: a tree on NFSv3 servers of others is a file system of its own, with flexible files layouts. Its files are read and written
//! through the metadata server and by clients that use the layouts, and both see the same. Method: servers in memory; a client
//! calls them with what its layout says.
#![allow(
    clippy::unwrap_used,
    reason = "a failure here is the failure of a test"
)]

use crate::far::fake::{Fake, Seen};
use crate::far::*;
use crate::names::mkdir;
use crate::placement::set_policy;
use crate::rig::file::{File, patiently};
use crate::rig::real::{
    Real, after_from_to, bytes_of, fill, from_to, read, try_commit, try_read, try_write, write,
};
use crate::rig::{Client, Rig, after_putfh};
use nfs3::Proc;
use nfs4::attr;
use nfs4::flex_files::FlexDeviceAddr;
use nfs4::layout::{LAYOUT_FLEX_FILES, LAYOUT_NFSV4_1_FILES};
use nfs4::ops::{
    AllocateArgs, AllocateRes, CONTENT_DATA, CONTENT_HOLE, CloneArgs, CloneRes, CopyArgs, CopyRes,
    DeallocateArgs, DeallocateRes, GetDeviceInfoArgs, GetDeviceInfoRes, LinkArgs, LinkRes,
    RenameArgs, RenameRes, SaveFhArgs, SeekArgs, SeekRes,
};
use nfs4::{Bitmap, DeviceId, FileHandle, IoMode, NfsStatus, StableHow};
use std::sync::Arc;
use xdr::Opaque;

async fn tree_of(client: &Client, fh: &FileHandle) -> (u64, u64, Vec<u32>) {
    let wanted = [attr::FSID, attr::FS_LAYOUT_TYPES];
    let got = client.attrs(fh, &wanted).await.unwrap();
    let fsid = got.fsid.unwrap();
    (fsid.major, fsid.minor, got.fs_layout_types.unwrap().0)
}

#[tokio::test(start_paused = true)]
async fn a_foreign_tree_is_a_file_system_of_its_own() {
    let (rig, _port, _far) = far_cluster(1, "").await;
    let alice = rig.session("alice").await;
    let root = alice.lookup(&[]).await.unwrap();
    let top = alice.lookup(&["far"]).await.unwrap();
    let below = mkdir(&alice, &top, "below").await.unwrap();
    let own = mkdir(&alice, &root, "own").await.unwrap();
    let file = file_in(&alice, &["far", "below"], "f").await;
    let of_own = tree_of(&alice, &root).await;
    assert_eq!(of_own.2, [LAYOUT_NFSV4_1_FILES]);
    assert_eq!(tree_of(&alice, &own).await, of_own);
    let of_far = tree_of(&alice, &top).await;
    assert_eq!(of_far.2, [LAYOUT_FLEX_FILES]);
    assert_ne!((of_far.0, of_far.1), (of_own.0, of_own.1));
    assert_eq!(tree_of(&alice, &below).await, of_far);
    assert_eq!(tree_of(&alice, &file.fh).await, of_far);

    for (from, name, to, status) in [
        (&below, "f", &own, Err(NfsStatus::XDev)),
        (&root, "own", &top, Err(NfsStatus::XDev)),
        (&below, "f", &top, Ok(())),
    ] {
        assert_eq!(renamed(&alice, (from, name), to).await, status, "{name}");
    }
    assert_eq!(linked(&alice, &file, &own).await, Err(NfsStatus::XDev));
    assert_eq!(linked(&alice, &file, &below).await, Ok(()));
}

async fn renamed(
    client: &Client,
    (from, name): (&FileHandle, &str),
    to: &FileHandle,
) -> Result<(), NfsStatus> {
    let done = client.on(from, |b| {
        b.push(&SaveFhArgs {});
        b.push(&nfs4::ops::PutFhArgs {
            object: Opaque(&to.0),
        });
        b.push(&RenameArgs {
            old_name: Opaque(name.as_bytes()),
            new_name: Opaque(b"renamed"),
        });
    });
    let done = done.await;
    let renamed = after_from_to(&done).take::<RenameRes>();
    renamed.map(drop).map_err(|e| e.status().unwrap())
}

async fn linked(client: &Client, file: &File<'_>, dir: &FileHandle) -> Result<(), NfsStatus> {
    let done = client.on(&file.fh, |b| {
        b.push(&SaveFhArgs {});
        b.push(&nfs4::ops::PutFhArgs {
            object: Opaque(&dir.0),
        });
        b.push(&LinkArgs {
            new_name: Opaque(b"linked"),
        });
    });
    let done = done.await;
    let linked = after_from_to(&done).take::<LinkRes>();
    linked.map(drop).map_err(|e| e.status().unwrap())
}

#[tokio::test(start_paused = true)]
async fn only_an_empty_directory_becomes_the_top_of_a_foreign_tree() {
    let (rig, _port, _far) = far_cluster(2, "").await;
    let alice = rig.session("alice").await;
    let root = alice.lookup(&[]).await.unwrap();
    let full = mkdir(&alice, &root, "full").await.unwrap();
    mkdir(&alice, &full, "below").await.unwrap();
    let refused = set_policy(&alice, &full, "servers=nfs3").await;
    assert_eq!(refused, Err(NfsStatus::NotEmpty));
    let empty = mkdir(&alice, &root, "empty").await.unwrap();
    let refused = set_policy(&alice, &empty, "servers=nfs3 copies=3").await;
    assert_eq!(refused, Err(NfsStatus::Inval));
    set_policy(&alice, &empty, "servers=nfs3 copies=2")
        .await
        .unwrap();
}

#[tokio::test(start_paused = true)]
async fn an_open_that_creates_calls_no_server_once_the_pool_is_filled() {
    let (rig, _port, far) = far_cluster(2, "copies=2").await;
    let alice = rig.session("alice").await;
    let first = far_file(&alice, "first").await;
    pass(3).await;
    for fake in &far.fakes {
        assert!(fake.files().len() >= 4, "the pool is filled");
    }
    let calls = || {
        // LOOKUPs are the pulse's, too.
        let of = |fake: &Arc<Fake>| [Proc::Create, Proc::SetAttr].map(|proc| fake.calls(proc));
        far.fakes.iter().map(of).collect::<Vec<_>>()
    };
    // Both groups of two servers have a pool by then.
    far_file(&alice, "second").await;
    pass(3).await;
    let before = calls();
    let dir = alice.lookup(&["far"]).await.unwrap();
    let (open, fh) = File::try_open(&alice, &dir, "third").await.unwrap();
    assert_eq!(calls(), before);
    let third = File {
        client: &alice,
        name: "third".into(),
        fh,
        open,
    };
    assert_ne!(
        inode(&rig, &third).data().file.0,
        third.id(),
        "it has taken objects"
    );
    // The layout finds them with the right ids: no call either.
    let layout = try_far_layout(&third, IoMode::Rw).await.unwrap();
    let data = bytes(100, 1);
    layout.write((&rig, &far), 0, &data).await.unwrap();
    third.layout_commit(layout.stateid, 100).await.unwrap();
    assert_eq!(read(&third, 0, 200).await, (data, true));
    assert_eq!(read(&first, 0, 200).await, (Vec::new(), true));
}

#[tokio::test(start_paused = true)]
async fn bytes_through_this_server_lie_on_all_stripes_of_all_mirrors() {
    let (rig, _port, far) = far_cluster(4, "stripe_count=2 copies=2").await;
    let alice = rig.session("alice").await;
    let file = far_file(&alice, "f").await;
    let mut model = bytes(5 * UNIT + 100, 1);
    let wrote = write(&file, 0, StableHow::Unstable, &model).await;
    assert_eq!(wrote.count as usize, model.len());
    let verifier = patiently(|| try_commit(&file)).await.unwrap();
    assert_eq!(verifier, wrote.write_verifier);
    let over = bytes(3000, 9);
    write(&file, 3000, StableHow::FileSync, &over).await;
    model[3000..6000].copy_from_slice(&over);
    assert_eq!(bytes_of(&file, 0, usize::MAX).await, model);
    assert_eq!(file.try_attrs().await.unwrap().0, model.len() as u64);
    far.whole(&rig, &file, &model).await;
    // A restart of one server between WRITE and COMMIT shows in the verifier.
    let wrote = write(&file, 0, StableHow::Unstable, &model[..10]).await;
    far.fakes[Far::index(&rig, &file, 1, 1)].restart();
    let verifier = patiently(|| try_commit(&file)).await.unwrap();
    assert_ne!(verifier, wrote.write_verifier);
    // A hole is zeros.
    write(&file, 100_000, StableHow::Unstable, b"end").await;
    model.resize(100_000, 0);
    model.extend(b"end");
    assert_eq!(bytes_of(&file, 0, usize::MAX).await, model);
}

async fn device(client: &Client, device_id: DeviceId, kind: u32) -> Result<Vec<u8>, NfsStatus> {
    let done = client
        .run(|b| {
            b.push(&GetDeviceInfoArgs {
                device_id,
                layout_type: kind,
                maxcount: 4096,
                notify_types: Bitmap::default(),
            });
        })
        .await;
    let mut reply = done.results().unwrap();
    match reply
        .take::<GetDeviceInfoRes<'_>>()
        .map_err(|e| e.status().unwrap())?
    {
        GetDeviceInfoRes::Ok(info) => Ok(info.device_addr.body.0.to_vec()),
        GetDeviceInfoRes::TooSmall { .. } => Err(NfsStatus::TooSmall),
    }
}

#[tokio::test(start_paused = true)]
async fn a_layout_names_objects_ids_and_devices_and_the_client_uses_them() {
    let (rig, _port, far) = far_cluster(4, "stripe_count=2 copies=2").await;
    let alice = rig.session("alice").await;
    let file = far_file(&alice, "f").await;
    let kind = file.try_layout(IoMode::Rw).await;
    assert_eq!(kind.unwrap_err(), NfsStatus::LayoutUnavailable);
    let rw = far_layout(&file, IoMode::Rw).await;
    assert_eq!(rw.body.stripe_unit_bytes, UNIT as u64);
    assert_eq!((rw.body.mirrors.0.len(), rw.body.stripe_count()), (2, 2));
    let mut efficiency: Vec<u32> = (0..2).map(|m| rw.server(m, 0).efficiency).collect();
    efficiency.sort_unstable();
    assert_eq!(efficiency, [0, 1], "readers prefer one");
    let objects = far.objects(&rig, &file);
    for (mirror, stripe) in [(0, 0), (0, 1), (1, 0), (1, 1)] {
        let Seen { fh, owner, .. } = objects[mirror][stripe].clone().unwrap();
        assert_eq!(fh, rw.fh(mirror, stripe));
        let (uid, gid) = rw.ids(mirror, stripe);
        assert_eq!(owner, (uid, gid, 0o640));
        let device_id = rw.server(mirror, stripe).device_id;
        let body = device(&alice, device_id, LAYOUT_FLEX_FILES).await.unwrap();
        let told: FlexDeviceAddr = xdr::decode_all(&body).unwrap();
        let index = rw.index(&rig, mirror, stripe);
        assert_eq!(
            told.net_addrs.0[0].uaddr.0,
            format!("far{index}").as_bytes()
        );
        let version = &told.versions.0[0];
        assert_eq!((version.version, version.tightly_coupled), (3, false));
        assert_eq!(version.wsize_bytes, 1 << 20);
        let wrong = device(&alice, device_id, LAYOUT_NFSV4_1_FILES).await;
        assert_eq!(wrong.unwrap_err(), NfsStatus::NoEnt);
    }
    let nobodys = DeviceId { bytes: [7; 16] };
    let unknown = device(&alice, nobodys, LAYOUT_FLEX_FILES).await;
    assert_eq!(unknown.unwrap_err(), NfsStatus::NoEnt);

    let data = bytes(5 * UNIT + 7, 3);
    rw.write((&rig, &far), 0, &data).await.unwrap();
    file.layout_commit(rw.stateid, data.len() as u64)
        .await
        .unwrap();
    assert_eq!(file.try_attrs().await.unwrap().0, data.len() as u64);
    assert_eq!(bytes_of(&file, 0, usize::MAX).await, data);
    give_back(&file, rw.stateid, b"").await.unwrap();

    let bob = rig.session("bob").await;
    let bobs = far_file(&bob, "f").await;
    let ro = far_layout(&bobs, IoMode::Read).await;
    assert_eq!(ro.ids(0, 0), (foreign::READER_UID, rw.ids(0, 0).1));
    let got = ro.read_at((&rig, &far), (1, 1), (UNIT as u64, 10)).await;
    assert_eq!(got.unwrap(), data[UNIT..UNIT + 10]);
    let refused = ro.write_at((&rig, &far), (1, 1), 0, b"x").await;
    assert!(refused.is_err(), "a layout for reading does not write");
}

#[tokio::test(start_paused = true)]
async fn an_older_linux_gets_one_stripe_and_no_layout_of_more() {
    let (rig, _port, _far) = far_cluster(4, "stripe_count=2 copies=2").await;
    let (old, new) = (rig.session("old").await, rig.session("new").await);
    let clients = rig.nfsd.role().fs().clients();
    for (client, name) in [(&old, "Linux 6.1.0-18-amd64 #1"), (&new, "Linux 6.18.2 #1")] {
        let id = client.session.established().unwrap().client;
        clients.note_implementation(id, name.as_bytes());
    }
    let shape = |layout: FarLayout| (layout.body.mirrors.0.len(), layout.body.stripe_count());
    let olds = far_file(&old, "old").await;
    assert_eq!(shape(far_layout(&olds, IoMode::Rw).await), (2, 1));
    let news = far_file(&new, "new").await;
    assert_eq!(shape(far_layout(&news, IoMode::Rw).await), (2, 2));
    let seen = far_file(&old, "new").await;
    let refused = try_far_layout(&seen, IoMode::Read).await.unwrap_err();
    assert_eq!(refused, NfsStatus::LayoutUnavailable);
    write(&seen, 0, StableHow::FileSync, b"through").await;
    assert_eq!(read(&news, 0, 10).await.0, b"through");
}

async fn with_own_server(rig: &Rig, port: &crate::rig::cluster::Port) -> Real {
    let mut real = Real::new(1);
    real.start(rig, port, 1).await;
    real
}

#[tokio::test(start_paused = true)]
async fn copies_go_between_trees_both_ways() {
    let (rig, port, far) = far_cluster(2, "stripe_count=1 copies=2").await;
    let _own = with_own_server(&rig, &port).await;
    let alice = rig.session("alice").await;
    for len in [300, 3_000_000] {
        let theirs = far_file(&alice, &format!("far{len}")).await;
        let own = File::create(&alice, &format!("own{len}")).await;
        let back = far_file(&alice, &format!("back{len}")).await;
        let data = bytes(len, 5);
        fill(&theirs, 0, &data).await;
        for (src, dst) in [(&theirs, &own), (&own, &back)] {
            let args = CopyArgs {
                src_stateid: src.open,
                dst_stateid: dst.open,
                src_offset: 0,
                dst_offset: 0,
                count: 0,
                consecutive: true,
                synchronous: true,
                source_servers: xdr::List(Vec::new()),
            };
            let copied = patiently(|| async {
                let done = from_to(src, dst, &args).await;
                let copied = after_from_to(&done).take::<CopyRes>();
                copied.map(drop).map_err(|e| e.status().unwrap())
            });
            copied.await.unwrap();
            assert!(bytes_of(dst, 0, usize::MAX).await == data);
        }
        far.whole(&rig, &back, &data).await;
    }
}

#[tokio::test(start_paused = true)]
async fn what_nfsv3_has_no_words_for_is_not_supported_and_all_is_data() {
    let (rig, _port, _far) = far_cluster(1, "").await;
    let alice = rig.session("alice").await;
    let (f, g) = (far_file(&alice, "f").await, far_file(&alice, "g").await);
    write(&f, 10_000, StableHow::Unstable, b"end").await;
    write(&g, 0, StableHow::Unstable, b"g").await;
    let (offset, length, stateid) = (0, 4096, f.open);
    let done = alice.on(&f.fh, |b| {
        b.push(&AllocateArgs {
            stateid,
            offset,
            length,
        });
    });
    let done = done.await;
    let refused = after_putfh(&done).take::<AllocateRes>().err().unwrap();
    assert_eq!(refused.status(), Some(NfsStatus::NotSupp));
    let done = alice.on(&f.fh, |b| {
        b.push(&DeallocateArgs {
            stateid,
            offset,
            length,
        });
    });
    let done = done.await;
    let refused = after_putfh(&done).take::<DeallocateRes>().err().unwrap();
    assert_eq!(refused.status(), Some(NfsStatus::NotSupp));
    let clone = CloneArgs {
        src_stateid: f.open,
        dst_stateid: g.open,
        src_offset: 0,
        dst_offset: 0,
        count: 0,
    };
    let done = from_to(&f, &g, &clone).await;
    let refused = after_from_to(&done).take::<CloneRes>().err().unwrap();
    assert_eq!(refused.status(), Some(NfsStatus::NotSupp));
    for (what, at) in [(CONTENT_DATA, 5), (CONTENT_HOLE, 10_003)] {
        let done = alice.on(&f.fh, |b| {
            b.push(&SeekArgs {
                stateid,
                offset: 5,
                what,
            });
        });
        let done = done.await;
        let sought = after_putfh(&done).take::<SeekRes>().unwrap();
        assert_eq!(sought.offset, at);
    }
    assert_eq!(read(&g, 0, 10).await.0, b"g");
}

#[tokio::test(start_paused = true)]
async fn an_inline_file_grows_onto_foreign_servers() {
    let (rig, _port, far) = far_cluster(2, "copies=2 inline_max=10000").await;
    let alice = rig.session("alice").await;
    let file = far_file(&alice, "f").await;
    let mut model = bytes(5000, 1);
    write(&file, 0, StableHow::Unstable, &model).await;
    assert!(inode(&rig, &file).is_inline());
    assert_eq!(far.files_with_bytes(), 0);
    let more = bytes(9000, 2);
    write(&file, 5000, StableHow::Unstable, &more).await;
    model.extend(&more);
    assert!(!inode(&rig, &file).is_inline());
    assert_eq!(bytes_of(&file, 0, usize::MAX).await, model);
    far.whole(&rig, &file, &model).await;
    // And by LAYOUTGET for writing.
    let other = far_file(&alice, "g").await;
    write(&other, 0, StableHow::Unstable, &model[..100]).await;
    let layout = far_layout(&other, IoMode::Rw).await;
    let read = layout.read_at((&rig, &far), (0, 0), (0, 200)).await;
    assert_eq!(read.unwrap(), model[..100]);
}

#[tokio::test(start_paused = true)]
async fn a_removed_file_leaves_no_object_also_at_a_server_that_was_down() {
    let (rig, _port, far) = far_cluster(2, "copies=2").await;
    let alice = rig.session("alice").await;
    let (f, g) = (far_file(&alice, "f").await, far_file(&alice, "g").await);
    for file in [&f, &g] {
        write(file, 0, StableHow::FileSync, &bytes(5000, 1)).await;
        file.close().await;
    }
    assert_eq!(far.files_with_bytes(), 4);
    remove(&alice, &["far"], "f").await.unwrap();
    pass(3).await;
    assert_eq!(far.files_with_bytes(), 2);
    far.kill(0);
    remove(&alice, &["far"], "g").await.unwrap();
    pass(10).await;
    assert_eq!(far.files_with_bytes(), 1);
    assert_eq!(fs::removals_waiting(rig.nfsd.role().fs()), 1);
    far.start(0);
    pass(10).await;
    assert_eq!(far.files_with_bytes(), 0);
    assert_eq!(fs::removals_waiting(rig.nfsd.role().fs()), 0);
}

#[tokio::test(start_paused = true)]
async fn a_file_without_a_good_mirror_that_answers_waits_and_shows_nothing_wrong() {
    let (rig, _port, far) = far_cluster(2, "copies=2").await;
    let alice = rig.session("alice").await;
    let file = far_file(&alice, "f").await;
    let data = bytes(5000, 1);
    write(&file, 0, StableHow::FileSync, &data).await;
    far.kill(0);
    far.kill(1);
    for _ in 0..3 {
        assert_eq!(try_read(&file, 0, 10).await, Err(NfsStatus::Delay));
        let wrote = try_write(&file, 0, StableHow::FileSync, b"new").await;
        assert_eq!(wrote.err(), Some(NfsStatus::Delay));
        let refused = try_far_layout(&file, IoMode::Rw).await.unwrap_err();
        assert_eq!(refused, NfsStatus::LayoutTryLater);
        pass(5).await;
    }
    far.start(0);
    far.start(1);
    assert_eq!(
        patiently(|| try_read(&file, 10, 10)).await.unwrap().0,
        data[10..20]
    );
    assert_eq!(inode(&rig, &file).bad_mirrors(), 0);
    write(&file, 0, StableHow::FileSync, &data).await;
    far.whole(&rig, &file, &data).await;
}
