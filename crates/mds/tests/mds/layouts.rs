//! Goal: layouts are granted over all data servers, signed, committed, returned and recalled. What was fenced is fenced
//! everywhere before it is granted again (rules R1, R3, R5, R6, R10, R12). Method: a metadata server and data servers
//! that remember what they were told, over the memory transport, time paused.
#![allow(
    clippy::unwrap_used,
    reason = "a failure here is the failure of a test"
)]

use crate::rig;
use crate::rig::cluster::{FakeDs, cluster};
use crate::rig::file::{File, Granted, patiently};
use crate::rig::{Client, Rig, after_putfh};
use layout::{ClientTag, DsHandle, Floor, Rights};
use namespace::{Cred, FileId, Op, Time};
use nfs4::attr::Attrs;
use nfs4::cb::CbLayoutRecallArgs;
use nfs4::layout::{
    FileLayoutDsAddr, LAYOUT_NFSV4_1_FILES, LENGTH_TO_EOF, NFL_IO_ADVISE_THRU_MDS,
    NFL_STRIPE_UNIT_MASK,
};
use nfs4::ops::{
    DeviceError, GetDeviceInfoArgs, GetDeviceInfoRes, IoInfo, LayoutErrorArgs, LayoutErrorRes,
    LayoutGetArgs, LayoutGetRes, LayoutStatsArgs, LayoutStatsRes, LayoutUpdate, OpenArgs,
    OpenClaim, OpenHow, OpenRes, SHARE_ACCESS_BOTH, SHARE_WANT_NO_DELEG,
};
use nfs4::{
    Bitmap, CbOpNum, ClientId, DeviceId, IoMode, NfsStatus, OpNum, OpReader, StateOwner, Stateid,
};
use session_client::{CallbackHandler, Session, SessionConfig};
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;
use tracing_mutex::parkinglot::Mutex;
use xdr::Opaque;

fn handle_of(ds: &FakeDs, granted: &Granted, cluster_id: u64) -> DsHandle {
    let ring = ds.hello.as_ref().unwrap().keys.ring().unwrap();
    DsHandle::verify(&granted.body.file_handles.0[0].0, cluster_id, &ring).unwrap()
}

fn marked(rig: &Rig) -> Vec<FileId> {
    let cred = Cred::root();
    let mut op = Op::new(&cred, Time::default());
    let ns = rig.nfsd.role().fs().namespace();
    let marks = ns.rw_out_files(&mut op, FileId(0), 100).unwrap();
    marks.into_iter().map(|(file, _)| file).collect()
}

async fn device(client: &Client, id: DeviceId, maxcount: u32) -> Result<FileLayoutDsAddr, u32> {
    let done = client
        .run(|b| {
            b.push(&GetDeviceInfoArgs {
                device_id: id,
                layout_type: 1,
                maxcount,
                notify_types: Bitmap::EMPTY,
            });
        })
        .await;
    match done
        .results()
        .unwrap()
        .take::<GetDeviceInfoRes<'_>>()
        .unwrap()
    {
        GetDeviceInfoRes::Ok(info) => Ok(xdr::decode_all(info.device_addr.body.0).unwrap()),
        GetDeviceInfoRes::TooSmall { mincount } => Err(mincount),
    }
}

#[tokio::test(start_paused = true)]
async fn a_truncation_that_a_data_servers_disk_refuses_is_an_error_until_it_is_done() {
    let (rig, _port, servers) = cluster(2).await;
    let alice = rig.session("alice").await;
    let file = File::create(&alice, "f").await;
    let granted = file.layout(IoMode::Rw).await;
    file.layout_commit(granted.stateid, 10_000).await.unwrap();
    file.layout_return(granted.stateid).await.unwrap();
    servers[0].told.lock().failing = true;
    for _ in 0..2 {
        let cut = file.try_truncate(10).await;
        assert_eq!(cut, Err(NfsStatus::Io), "DELAY would be for ever");
        tokio::time::sleep(Duration::from_secs(5)).await;
    }
    assert_eq!(file.try_attrs().await.unwrap().0, 10_000);
    servers[0].told.lock().failing = false;
    tokio::time::sleep(Duration::from_secs(5)).await;
    assert_eq!(file.try_attrs().await.unwrap().0, 10);
    patiently(|| file.try_truncate(5)).await.unwrap();
    assert_eq!(file.try_attrs().await.unwrap().0, 5);
}

#[tokio::test(start_paused = true)]
async fn a_layout_covers_all_data_servers_and_its_handle_is_signed_for_its_client() {
    let (rig, _port, servers) = cluster(4).await;
    let alice = rig.session("alice").await;
    let file = File::create(&alice, "f").await;
    let granted = file.layout(IoMode::Rw).await;
    let addr = device(&alice, granted.body.device_id, 4096).await.unwrap();
    assert_eq!(addr.stripe_indices.0, [0, 1, 2, 3]);
    let names: Vec<_> = addr
        .multipath_ds_list
        .0
        .iter()
        .map(|l| l.0[0].uaddr.0.clone())
        .collect();
    assert_eq!(names, [b"ds1", b"ds2", b"ds3", b"ds4"]);
    let too_small = device(&alice, granted.body.device_id, 16)
        .await
        .unwrap_err();
    assert!(
        device(&alice, granted.body.device_id, too_small)
            .await
            .is_ok()
    );

    let cluster_id = rig.nfsd.role().fs().cluster().id();
    let handle = handle_of(&servers[2], &granted, cluster_id);
    assert_eq!(handle.file_id, file.id());
    assert_eq!(handle.rights, Rights::ReadWrite);
    assert_eq!(handle.client, ClientTag::of(cluster_id, b"alice"));
    assert!(handle.epoch >= servers[0].hello.as_ref().unwrap().cluster_floor);
    assert_eq!(granted.body.util.stripe_unit_bytes(), 4096);
    assert!(!granted.body.util.is_dense());
    let reading = file.layout(IoMode::Read).await;
    assert_eq!(
        handle_of(&servers[0], &reading, cluster_id).rights,
        Rights::Read
    );

    // Each data server knows its place in the group, and each place has a handle.
    let ring = servers[0].hello.as_ref().unwrap().keys.ring().unwrap();
    for (place, (ds, fh)) in servers.iter().zip(&granted.body.file_handles.0).enumerate() {
        let rows = ds.told.lock().rows.clone();
        let told: Vec<_> = rows
            .iter()
            .map(|r| (r.place, r.width, r.row.primary))
            .collect();
        let number = u32::try_from(place).unwrap();
        assert_eq!(told.last(), Some(&(number, 4, ds.id)));
        let of_place = DsHandle::verify(&fh.0, cluster_id, &ring)
            .unwrap()
            .place
            .unwrap();
        let row = rows.last().unwrap();
        assert_eq!(usize::from(of_place.place), place);
        assert_eq!((of_place.group, of_place.reign), (row.group, row.row.reign));
        assert_eq!(of_place.unit_log2, 12);
        assert_eq!(
            u32::from(of_place.first_index),
            granted.body.first_stripe_index
        );
    }

    // The next file begins on the next data server.
    let other = File::create(&alice, "g").await.layout(IoMode::Read).await;
    assert_ne!(
        other.body.first_stripe_index,
        granted.body.first_stripe_index
    );
}

#[tokio::test(start_paused = true)]
async fn a_data_server_that_moved_or_started_again_is_another_device_for_new_layouts() {
    let (rig, port, mut servers) = cluster(2).await;
    let alice = rig.session("alice").await;
    let file = File::create(&alice, "f").await;
    let old = file.layout(IoMode::Read).await.body.device_id;
    let where_is = async |client, id| -> Vec<Vec<u8>> {
        let addr = device(client, id, 4096).await.unwrap();
        let lists = addr.multipath_ds_list.0;
        lists.iter().map(|l| l.0[0].uaddr.0.to_vec()).collect()
    };
    servers[0].go_away().await;
    servers[0].say_hello(&rig, &port).await.unwrap();
    let same = file.layout(IoMode::Read).await.body.device_id;
    assert_eq!(same, old, "it only connected again");

    servers[0].go_away().await;
    servers[0].store.counter += 1;
    servers[0].boot_nonce = [77; 16];
    servers[0].say_hello(&rig, &port).await.unwrap();
    let restarted = file.layout(IoMode::Read).await.body.device_id;
    assert_ne!(restarted, old, "clients may have been refused meanwhile");
    let there = where_is(&alice, restarted).await;
    assert_eq!(there, where_is(&alice, old).await, "no address has changed");

    servers[0].go_away().await;
    servers[0].uaddr = "elsewhere".into();
    servers[0].say_hello(&rig, &port).await.unwrap();
    let new = file.layout(IoMode::Read).await.body.device_id;
    assert_ne!(new, restarted, "clients keep what they know of a device");
    let here = [b"elsewhere".to_vec(), b"ds2".to_vec()];
    assert_eq!(where_is(&alice, new).await, here);
    assert_eq!(
        where_is(&alice, old).await,
        here,
        "for layouts that are out"
    );

    // Also over a restart.
    let store = Arc::clone(&rig.store);
    for ds in &mut servers {
        ds.go_away().await;
    }
    drop((rig, port));
    let rig = Rig::over(store).await;
    let bob = rig.session("bob").await;
    assert_eq!(where_is(&bob, new).await, here);
    assert_eq!(where_is(&bob, old).await, here);
}

#[tokio::test(start_paused = true)]
async fn a_writer_is_marked_until_it_returns_and_commits_never_shrink() {
    let (rig, _port, _servers) = cluster(2).await;
    let alice = rig.session("alice").await;
    let file = File::create(&alice, "f").await;
    file.layout(IoMode::Read).await;
    assert!(marked(&rig).is_empty(), "a reader leaves no mark");
    let granted = file.layout(IoMode::Rw).await;
    assert_eq!(marked(&rig), [FileId(file.id())]);

    file.layout_commit(granted.stateid, 9000).await.unwrap();
    let (size, change) = file.try_attrs().await.unwrap();
    assert_eq!(size, 9000);
    file.layout_commit(granted.stateid, 100).await.unwrap();
    let (size, later) = file.try_attrs().await.unwrap();
    assert_eq!(size, 9000);
    assert!(
        later > change,
        "an overwrite is seen by the change attribute"
    );

    assert_eq!(file.layout_return(granted.stateid).await, Ok(None));
    assert!(marked(&rig).is_empty());
    let late = file.layout_commit(granted.stateid, 20_000).await;
    assert_eq!(late, Err(NfsStatus::BadLayout));

    // CLOSE gives back as well.
    file.layout(IoMode::Rw).await;
    assert_eq!(marked(&rig).len(), 1);
    file.close().await;
    assert!(marked(&rig).is_empty());
}

#[tokio::test(start_paused = true)]
async fn a_client_that_is_gone_is_fenced_everywhere_before_others_write() {
    let (rig, _port, servers) = cluster(2).await;
    let (alice, bob) = (rig.session("alice").await, rig.session("bob").await);
    let file = File::create(&alice, "f").await;
    let alices = file.layout(IoMode::Rw).await;
    let bobs = File::create(&bob, "f").await;
    // Alice wrote to data servers and told nobody. Her successor takes her place.
    servers[0].told.lock().sizes.insert(file.id(), 4096);
    servers[1].told.lock().sizes.insert(file.id(), 8192);
    servers[1].told.lock().mute = true;
    let _again = rig.session_of("alice", *b"boot0002", None).await;

    assert_eq!(bobs.try_attrs().await, Err(NfsStatus::Delay));
    assert_eq!(
        bobs.try_layout(IoMode::Rw).await.unwrap_err(),
        NfsStatus::LayoutTryLater
    );
    tokio::time::sleep(Duration::from_secs(2)).await;
    assert_eq!(
        bobs.try_layout(IoMode::Rw).await.unwrap_err(),
        NfsStatus::LayoutTryLater
    );
    servers[1].told.lock().mute = false;
    let granted = bobs.layout(IoMode::Rw).await;

    let cluster_id = rig.nfsd.role().fs().cluster().id();
    let tag = ClientTag::of(cluster_id, b"alice");
    let old = handle_of(&servers[0], &alices, cluster_id);
    for ds in &servers {
        let told = ds.told.lock();
        let fenced = told.fences.iter().any(|f| {
            matches!(f, Floor::Client { file_id, client, epoch, .. }
                if *file_id == file.id() && *client == tag && *epoch > old.epoch)
        });
        assert!(fenced, "{} was told", ds.name);
    }
    assert!(handle_of(&servers[0], &granted, cluster_id).epoch > old.epoch);
    assert_eq!(bobs.try_attrs().await.unwrap().0, 8192);
    assert_eq!(marked(&rig), [FileId(file.id())], "for bob now");
}

#[tokio::test(start_paused = true)]
async fn what_a_client_left_is_found_out_at_once_for_others_that_wait() {
    let (rig, _port, servers) = cluster(2).await;
    let bob = rig.session("bob").await;
    let mut alice = rig.session("alice").await;
    for (life, name) in [(1, "f"), (2, "g")] {
        let file = File::create(&alice, name).await;
        file.layout(IoMode::Rw).await;
        let bobs = File::create(&bob, name).await;
        servers[1].told.lock().sizes.insert(file.id(), 8192);
        alice = rig.session_of("alice", [life; 8], None).await;
        let began = tokio::time::Instant::now();
        if life == 1 {
            assert_eq!(bobs.try_attrs().await.unwrap().0, 8192);
        } else {
            bobs.try_layout(IoMode::Rw).await.unwrap();
        }
        let waited = began.elapsed();
        assert!(waited < Duration::from_millis(100), "{name}: {waited:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn machines_of_one_name_get_no_layouts_while_they_end_each_others_sessions() {
    let (rig, _port, _servers) = cluster(2).await;
    let bob = rig.session("bob").await;
    for (life, refused) in [
        (1, None),
        (2, None),
        (1, Some(NfsStatus::LayoutUnavailable)),
    ] {
        let alice = rig.session_of("alice", [life; 8], None).await;
        let alices = File::create(&alice, "f").await;
        assert_eq!(alices.try_layout(IoMode::Rw).await.err(), refused, "{life}");
    }
    File::create(&bob, "f").await.layout(IoMode::Rw).await;
}

#[tokio::test(start_paused = true)]
async fn a_data_server_that_cannot_be_told_holds_grants_up_until_its_lease_ends() {
    let (rig, port, mut servers) = cluster(2).await;
    let (alice, bob) = (rig.session("alice").await, rig.session("bob").await);
    let file = File::create(&alice, "f").await;
    file.layout(IoMode::Read).await;
    let bobs = File::create(&bob, "f").await;
    servers[1].go_away().await;
    let _again = rig.session_of("alice", *b"boot0002", None).await;
    let told_before = servers[1].told.lock().floors.len();
    // chmod takes rights away, so it has to wait for the one that is away.
    let narrow = Attrs {
        mode: Some(0o600),
        ..Attrs::default()
    };
    let started = tokio::time::Instant::now();
    patiently(|| bobs.try_set(&narrow)).await.unwrap();
    let waited = started.elapsed();
    assert!(
        waited >= Duration::from_millis(1500),
        "the lease was not waited for: {waited:?}"
    );
    assert_eq!(
        bobs.try_layout(IoMode::Read).await.unwrap_err(),
        NfsStatus::LayoutTryLater
    );

    servers[1].say_hello(&rig, &port).await.unwrap();
    {
        let told = servers[1].told.lock();
        let missed = &told.floors[told_before..];
        assert!(matches!(missed[0], Floor::Cluster { .. }));
        assert!(missed.iter().any(|f| matches!(f, Floor::Client { .. })));
        assert!(missed.iter().any(|f| matches!(f, Floor::File { .. })));
    }
    bobs.layout(IoMode::Read).await;
    assert_eq!(rig.nfsd.role().fs().cluster().status().fences_pending, 0);
}

#[tokio::test(start_paused = true)]
async fn taking_access_away_fences_the_file_for_all() {
    let (rig, _port, servers) = cluster(2).await;
    let alice = rig.session("alice").await;
    let file = File::create(&alice, "f").await;
    let granted = file.layout(IoMode::Rw).await;
    let cluster_id = rig.nfsd.role().fs().cluster().id();
    let old = handle_of(&servers[0], &granted, cluster_id).epoch;
    file.try_set(&Attrs {
        mode: Some(0o400),
        ..Attrs::default()
    })
    .await
    .unwrap();
    for ds in &servers {
        let told = ds.told.lock();
        let fenced = told.fences.iter().any(
            |f| matches!(f, Floor::File { file_id, epoch, .. } if *file_id == file.id() && *epoch > old),
        );
        assert!(fenced);
    }
    let again = file.layout(IoMode::Rw).await;
    assert!(handle_of(&servers[0], &again, cluster_id).epoch > old);
}

#[tokio::test(start_paused = true)]
async fn only_layouts_of_the_second_minor_version_say_where_advice_goes() {
    let (rig, _port, _servers) = cluster(1).await;
    for (minor_version, flags) in [(1, 0), (2, NFL_IO_ADVISE_THRU_MDS)] {
        let owner = format!("minor {minor_version}");
        let model = rig.stranger(&owner, *b"boot0001", None);
        let config = SessionConfig {
            minor_version,
            ..model.session.config().clone()
        };
        let client = Client {
            session: Session::new(Arc::new(rig.connector(&owner)), config),
            caller: model.caller,
        };
        client.session.establish().await.unwrap();
        client.reclaim_complete().await;
        let file = File::create(&client, &owner).await;
        let util = file.layout(IoMode::Rw).await.body.util;
        assert_eq!(util.0 & !NFL_STRIPE_UNIT_MASK, flags, "{minor_version}");
        assert_eq!(util.stripe_unit_bytes(), 4096);
    }
}

#[tokio::test(start_paused = true)]
async fn an_open_brings_its_layout_along_by_the_current_stateid() {
    let (rig, _port, servers) = cluster(2).await;
    let alice = rig.session("alice").await;
    let old = File::create(&alice, "old").await;
    let root = alice.lookup(&[]).await.unwrap();
    let layout_get = LayoutGetArgs {
        signal_layout_avail: false,
        layout_type: LAYOUT_NFSV4_1_FILES,
        iomode: IoMode::Rw,
        offset: 0,
        length: LENGTH_TO_EOF,
        minlength: 4096,
        stateid: Stateid::CURRENT,
        maxcount: 4096,
    };
    let done = alice.on(&root, |b| {
        b.push(&OpenArgs {
            seqid: 0,
            share_access: SHARE_ACCESS_BOTH | SHARE_WANT_NO_DELEG,
            share_deny: 0,
            owner: StateOwner {
                clientid: ClientId::default(),
                owner: Opaque(b"owner"),
            },
            how: OpenHow::NoCreate,
            claim: OpenClaim::Null(Opaque(b"old")),
        });
        b.push(&layout_get);
    });
    let done = done.await;
    let mut reply = after_putfh(&done);
    let open = reply.take::<OpenRes>().unwrap().stateid;
    let LayoutGetRes::Ok(granted) = reply.take::<LayoutGetRes<'_>>().unwrap() else {
        panic!("there is no layout");
    };
    assert_ne!(granted.stateid.other, open.other);
    let layout = Granted {
        stateid: granted.stateid,
        body: xdr::decode_all(granted.layouts.0[0].body.0).unwrap(),
    };
    let handle = handle_of(&servers[0], &layout, rig.nfsd.role().fs().cluster().id());
    assert_eq!(
        (handle.file_id, handle.rights),
        (old.id(), Rights::ReadWrite)
    );
    assert_eq!(marked(&rig), [FileId(old.id())]);
    old.layout_commit(layout.stateid, 10).await.unwrap();
    // Without an operation before it that leaves a stateid there is none.
    let done = alice.on(&old.fh, |b| {
        b.push(&layout_get);
    });
    let done = done.await;
    let refused = after_putfh(&done).take::<LayoutGetRes<'_>>().err().unwrap();
    assert_eq!(refused.status(), Some(NfsStatus::BadStateid));
}

/// Notes recalls, and answers them as told.
struct Recalls {
    seen: Mutex<Vec<nfs4::Stateid>>,
    answer: NfsStatus,
}

impl CallbackHandler for Recalls {
    fn callback<'a>(
        &'a self,
        op: CbOpNum,
        args: &'a mut OpReader<'_>,
    ) -> Pin<Box<dyn Future<Output = NfsStatus> + Send + 'a>> {
        assert_eq!(op, CbOpNum::LayoutRecall);
        let args: CbLayoutRecallArgs<'_> = args.args().unwrap();
        if let nfs4::cb::LayoutRecall::File(file) = args.what {
            self.seen.lock().push(file.stateid);
        }
        Box::pin(std::future::ready(self.answer))
    }
}

#[tokio::test(start_paused = true)]
async fn a_truncation_recalls_other_writers_and_refuses_their_late_commits() {
    let (rig, _port, servers) = cluster(2).await;
    let recalls = Arc::new(Recalls {
        seen: Mutex::default(),
        answer: NfsStatus::Ok,
    });
    let alice = rig
        .session_of("alice", *b"boot0001", Some(recalls.clone()))
        .await;
    let bob = rig.session("bob").await;
    let file = File::create(&alice, "f").await;
    let granted = file.layout(IoMode::Rw).await;
    file.layout_commit(granted.stateid, 10_000).await.unwrap();
    for ds in &servers {
        ds.told.lock().sizes.insert(file.id(), 10_000);
    }
    let bobs = File::create(&bob, "f").await;
    let bobs_layout = bobs.layout(IoMode::Rw).await;
    assert_eq!(
        bobs.try_truncate(10).await,
        Err(NfsStatus::Delay),
        "alice has not returned"
    );
    let recalled = recalls.seen.lock().clone();
    assert_eq!(recalled.len(), 1);
    assert_eq!(bobs.try_attrs().await.unwrap().0, 10_000);
    file.layout_return(recalled[0]).await.unwrap();
    patiently(|| bobs.try_truncate(10)).await.unwrap();

    assert_eq!(bobs.try_attrs().await.unwrap().0, 10);
    let old = handle_of(&servers[0], &granted, rig.nfsd.role().fs().cluster().id()).epoch;
    for ds in &servers {
        let told = ds.told.lock();
        assert_eq!(told.sizes[&file.id()], 10);
        assert!(
            told.set_sizes[0].floor > old,
            "old handles are below the cut's floor"
        );
    }
    // His own layout was not waited for, and is worth nothing now.
    let late = bobs.layout_commit(bobs_layout.stateid, 5000).await;
    assert_eq!(late, Err(NfsStatus::BadLayout));
    let fresh = bobs.layout(IoMode::Rw).await;
    bobs.layout_commit(fresh.stateid, 5000).await.unwrap();
    assert_eq!(bobs.try_attrs().await.unwrap().0, 5000);
}

#[tokio::test(start_paused = true)]
async fn a_recalled_writer_commits_and_returns_and_the_truncation_goes_on_at_once() {
    let (rig, _port, _servers) = cluster(2).await;
    let recalls = Arc::new(Recalls {
        seen: Mutex::default(),
        answer: NfsStatus::Ok,
    });
    let alice = rig
        .session_of("alice", *b"boot0001", Some(recalls.clone()))
        .await;
    let bob = rig.session("bob").await;
    let file = File::create(&alice, "f").await;
    file.layout(IoMode::Rw).await;
    let bobs = File::create(&bob, "f").await;
    let started = tokio::time::Instant::now();
    let writer = async {
        let stateid = loop {
            if let Some(stateid) = recalls.seen.lock().first().copied() {
                break stateid;
            }
            tokio::time::sleep(Duration::from_millis(1)).await;
        };
        // As Linux does: no LAYOUTRETURN before what was written is told.
        file.layout_commit(stateid, 9000).await.unwrap();
        assert_eq!(bobs.try_attrs().await.unwrap().0, 9000);
        file.layout_return(stateid).await.unwrap();
    };
    let (cut, ()) = tokio::join!(bobs.try_truncate(10), writer);
    assert_eq!(cut, Ok(()), "asked once");
    let waited = started.elapsed();
    assert!(waited < Duration::from_secs(1), "{waited:?}");
    assert_eq!(bobs.try_attrs().await.unwrap().0, 10);
}

#[tokio::test(start_paused = true)]
async fn a_writer_that_does_not_return_is_fenced_and_loses_its_layout() {
    let (rig, _port, servers) = cluster(1).await;
    let recalls = Arc::new(Recalls {
        seen: Mutex::default(),
        answer: NfsStatus::Ok,
    });
    let alice = rig.session_of("alice", *b"boot0001", Some(recalls)).await;
    let bob = rig.session("bob").await;
    let file = File::create(&alice, "f").await;
    let granted = file.layout(IoMode::Rw).await;
    file.layout_commit(granted.stateid, 100).await.unwrap();
    servers[0].told.lock().sizes.insert(file.id(), 700);
    let bobs = File::create(&bob, "f").await;
    let keep_alive = async {
        loop {
            tokio::time::sleep(Duration::from_secs(10)).await;
            alice.session.renew().await.unwrap();
        }
    };
    tokio::select! {
        _ = keep_alive => unreachable!(),
        done = patiently(|| bobs.try_truncate(10)) => done.unwrap(),
    }
    assert_eq!(bobs.try_attrs().await.unwrap().0, 10);
    let tag = ClientTag::of(rig.nfsd.role().fs().cluster().id(), b"alice");
    let fences = servers[0].told.lock().fences.clone();
    assert!(
        fences
            .iter()
            .any(|f| matches!(f, Floor::Client { client, .. } if *client == tag))
    );
    assert!(
        servers[0].told.lock().stats_count > 0,
        "what she wrote was found out"
    );
    let late = file.layout_commit(granted.stateid, 5000).await;
    assert_eq!(late, Err(NfsStatus::BadLayout));
    assert!(marked(&rig).is_empty());
}

/// LAYOUTSTATS of 12,288 bytes that were read.
pub(crate) async fn stats(
    file: &File<'_>,
    stateid: Stateid,
    device_id: DeviceId,
) -> Result<(), NfsStatus> {
    let moved = IoInfo {
        count: 3,
        bytes: 12_288,
    };
    let done = file
        .client
        .on(&file.fh, |b| {
            b.push(&LayoutStatsArgs {
                offset: 0,
                length: u64::MAX,
                stateid,
                read: moved,
                write: IoInfo::default(),
                device_id,
                layout_update: LayoutUpdate {
                    layout_type: 1,
                    body: xdr::Opaque(b""),
                },
            });
        })
        .await;
    let res = rig::after_putfh(&done).take::<LayoutStatsRes>();
    res.map(drop).map_err(|e| e.status().unwrap())
}

async fn failed(file: &File<'_>, stateid: Stateid, device_id: DeviceId) -> Result<(), NfsStatus> {
    let done = file
        .client
        .on(&file.fh, |b| {
            let error = DeviceError {
                device_id,
                status: NfsStatus::Io as u32,
                opnum: OpNum::Write as u32,
            };
            b.push(&LayoutErrorArgs {
                offset: 0,
                length: u64::MAX,
                stateid,
                errors: xdr::List(vec![error]),
            });
        })
        .await;
    let res = rig::after_putfh(&done).take::<LayoutErrorRes>();
    res.map(drop).map_err(|e| e.status().unwrap())
}

#[tokio::test(start_paused = true)]
async fn what_a_client_tells_of_its_layout_is_taken_and_takes_nothing_from_it() {
    let (rig, _port, _servers) = cluster(2).await;
    let alice = rig.session("alice").await;
    let file = File::create(&alice, "f").await;
    let granted = file.layout(IoMode::Rw).await;
    let device_id = granted.body.device_id;
    assert_eq!(stats(&file, granted.stateid, device_id).await, Ok(()));
    assert_eq!(failed(&file, granted.stateid, device_id).await, Ok(()));
    // The layout is as good as before, also where the client had trouble.
    file.layout_commit(granted.stateid, 5000).await.unwrap();
    assert_eq!(file.try_attrs().await.unwrap().0, 5000);

    // What comes after the layout's return is as harmless.
    file.layout_return(granted.stateid).await.unwrap();
    assert_eq!(stats(&file, granted.stateid, device_id).await, Ok(()));
    assert_eq!(failed(&file, granted.stateid, device_id).await, Ok(()));
    let root = File {
        open: file.open,
        name: String::new(),
        fh: alice.lookup(&[]).await.unwrap(),
        client: &alice,
    };
    let wrong = stats(&root, granted.stateid, device_id).await;
    assert!(matches!(
        wrong,
        Err(NfsStatus::IsDir | NfsStatus::WrongType)
    ));
}
