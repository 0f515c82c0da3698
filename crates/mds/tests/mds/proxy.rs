//! Goal: clients without layouts read and write the same bytes as clients with them. The write verifier changes when
//! that of any data server does (decision 4, rule R11). Method: a metadata server and real data servers over stores in
//! memory, in one process, time paused.
#![allow(
    clippy::unwrap_used,
    reason = "a failure here is the failure of a test"
)]

use crate::rig;
use crate::rig::Client;
use crate::rig::file::{File, patiently};
use crate::rig::real::{cluster, direct_session, direct_write, pattern, read, try_commit, write};
use nfs4::attr;
use nfs4::layout::LAYOUT_NFSV4_1_FILES;
use nfs4::ops::{GetAttrArgs, GetAttrRes};
use nfs4::{Bitmap, IoMode, MdsThreshold, NfsStatus, StableHow, Thresholds};

#[tokio::test(start_paused = true)]
async fn what_is_written_through_the_mds_is_striped_and_read_back_with_holes_as_zeros() {
    let (rig, _port, servers) = cluster(3).await;
    let alice = rig.session("alice").await;
    let file = File::create(&alice, "f").await;
    let bytes = pattern(40_000);
    let wrote = write(&file, 10_000, StableHow::Unstable, &bytes).await;
    assert_eq!(wrote.count, 40_000);
    assert_eq!(
        patiently(|| try_commit(&file)).await.unwrap(),
        wrote.write_verifier
    );
    assert_eq!(file.try_attrs().await.unwrap().0, 50_000);
    for real in &servers {
        let mut objects = 0;
        real.objects
            .list(&mut |_, _| {
                objects += 1;
                true
            })
            .unwrap();
        assert_eq!(objects, 1, "{} has its share", real.name);
    }
    let (got, eof) = read(&file, 0, 60_000).await;
    assert!(eof);
    assert_eq!(got.len(), 50_000);
    assert!(got[..10_000].iter().all(|b| *b == 0));
    assert_eq!(got[10_000..], bytes);
    let (got, eof) = read(&file, 12_345, 100).await;
    assert_eq!((&got[..], eof), (&bytes[2345..2445], false));

    // A stable write needs no COMMIT, and is no more than was asked for.
    let wrote = write(&file, 0, StableHow::FileSync, &bytes[..10]).await;
    assert_eq!(wrote.committed, StableHow::FileSync);
    let wrote = write(&file, 0, StableHow::Unstable, &bytes[..10]).await;
    assert_eq!(wrote.committed, StableHow::Unstable);

    // What was cut stays cut when the file grows again.
    patiently(|| file.try_truncate(20_000)).await.unwrap();
    patiently(|| file.try_truncate(30_000)).await.unwrap();
    let (got, eof) = read(&file, 15_000, 60_000).await;
    assert!(eof);
    assert_eq!(got.len(), 15_000);
    assert_eq!(got[..5000], bytes[5000..10_000]);
    assert!(got[5000..].iter().all(|b| *b == 0));
    let status = rig.nfsd.role().fs().status();
    assert_eq!(status.proxied_written_bytes, 40_020);
}

#[tokio::test(start_paused = true)]
async fn a_write_beyond_the_limit_is_a_short_one() {
    let (rig, _port, _servers) = cluster(2).await;
    let alice = rig.session("alice").await;
    let file = File::create(&alice, "f").await;
    let limit = 1 << 20;
    // RFC 8881 §18.32.3: the server may write fewer bytes, and the client goes on after them.
    let wrote = write(&file, 0, StableHow::FileSync, &pattern(limit + 3000)).await;
    assert_eq!(wrote.count as usize, limit);
    assert_eq!(file.try_attrs().await.unwrap().0, limit as u64);
}

#[tokio::test(start_paused = true)]
async fn a_data_server_that_restarts_between_write_and_commit_changes_the_verifier() {
    let (rig, port, mut servers) = cluster(2).await;
    let alice = rig.session("alice").await;
    let file = File::create(&alice, "f").await;
    let wrote = write(&file, 0, StableHow::Unstable, &pattern(9000)).await;
    let same = write(&file, 0, StableHow::Unstable, &pattern(9000)).await;
    assert_eq!(same.write_verifier, wrote.write_verifier);
    servers[1].stop().await;
    assert_eq!(try_commit(&file).await, Err(NfsStatus::Delay), "it is away");
    servers[1].start(&rig, &port, 99).await;
    let after = patiently(|| try_commit(&file)).await.unwrap();
    assert_ne!(after, wrote.write_verifier, "the client must write again");
    let again = write(&file, 0, StableHow::Unstable, &pattern(9000)).await;
    assert_eq!(
        patiently(|| try_commit(&file)).await.unwrap(),
        again.write_verifier
    );
}

#[tokio::test(start_paused = true)]
async fn a_client_with_a_layout_writes_to_the_data_server_until_it_is_fenced() {
    let (rig, _port, _servers) = cluster(1).await;
    let alice = rig.session("alice").await;
    let file = File::create(&alice, "f").await;
    let granted = file.layout(IoMode::Rw).await;
    let direct = direct_session(&rig, &alice, "alice", "ds1").await;
    let handle = granted.body.file_handles.0[0].clone();
    let bytes = bytes::Bytes::from(pattern(5000));
    let put = |stable| direct_write(&direct, &alice.caller, &handle, file.open, stable, &bytes);
    assert_eq!(
        put(StableHow::Unstable).await.unwrap().committed,
        StableHow::Unstable
    );
    assert_eq!(
        file.try_attrs().await.unwrap().0,
        0,
        "nobody has told the metadata server"
    );
    file.layout_commit(granted.stateid, 5000).await.unwrap();
    let (got, eof) = read(&file, 0, 10_000).await;
    assert!(eof);
    assert_eq!(got, bytes);
    // A LAYOUTCOMMIT from before his own cut does not bring back what it cut off; what he writes after it counts.
    patiently(|| file.try_truncate(10)).await.unwrap();
    file.layout_commit(granted.stateid, 5000).await.unwrap();
    assert_eq!(file.try_attrs().await.unwrap().0, 10);
    put(StableHow::Unstable).await.unwrap();
    file.layout_commit(granted.stateid, 5000).await.unwrap();
    assert_eq!(file.try_attrs().await.unwrap().0, 5000);
    // His own cut leaves his layout alone, and FILE_SYNC tells the metadata server by itself (R2).
    patiently(|| file.try_truncate(10)).await.unwrap();
    assert_eq!(
        put(StableHow::FileSync).await.unwrap().committed,
        StableHow::FileSync
    );
    assert_eq!(file.try_attrs().await.unwrap().0, 5000);
    // Somebody else's cut fences it, since he answers no recall.
    let bob = rig.session("bob").await;
    let bobs = File::create(&bob, "f").await;
    patiently(|| bobs.try_truncate(10)).await.unwrap();
    assert_eq!(
        put(StableHow::FileSync).await,
        Err(NfsStatus::PnfsNoLayout),
        "fenced by the cut"
    );
    let fresh = file.layout(IoMode::Rw).await.body.file_handles.0[0].clone();
    let stable = StableHow::FileSync;
    let wrote = direct_write(&direct, &alice.caller, &fresh, file.open, stable, &bytes).await;
    assert_eq!(wrote.unwrap().committed, StableHow::FileSync);
    assert_eq!(file.try_attrs().await.unwrap().0, 5000);
}

async fn threshold(client: &Client, fh: &nfs4::FileHandle) -> Option<MdsThreshold> {
    let want = Bitmap::of(&[attr::MDSTHRESHOLD, attr::SUPPORTED_ATTRS]);
    let done = client
        .on(fh, |b| {
            b.push(&GetAttrArgs { attr_request: want });
        })
        .await;
    let res = rig::after_putfh(&done).take::<GetAttrRes<'_>>().unwrap();
    let attrs = res.attributes.attrs().unwrap();
    let supported = attrs.supported_attrs.unwrap();
    assert!(supported.contains(attr::MDSTHRESHOLD));
    attrs.mdsthreshold
}

#[tokio::test(start_paused = true)]
async fn a_file_tells_below_which_size_it_is_to_be_written_through_the_mds() {
    let (rig, _port, _servers) = cluster(1).await;
    let alice = rig.session("alice").await;
    let file = File::create(&alice, "f").await;
    let told = threshold(&alice, &file.fh).await.unwrap();
    let expected = Thresholds {
        write_file_bytes: Some(rig::MDS_THRESHOLD_BYTES),
        write_io_bytes: Some(rig::MDS_THRESHOLD_BYTES),
        ..Thresholds::default()
    };
    assert_eq!(told.items.0.len(), 1);
    assert_eq!(Thresholds::of(&told, LAYOUT_NFSV4_1_FILES), Ok(expected));
    let root = alice.lookup(&[]).await.unwrap();
    let of_directory = threshold(&alice, &root).await.unwrap();
    assert!(of_directory.items.0.is_empty());
}

#[tokio::test(start_paused = true)]
async fn what_one_client_writes_through_the_mds_and_another_by_a_layout_is_all_there() {
    let (rig, _port, _servers) = cluster(2).await;
    let alice = rig.session("alice").await;
    let bob = rig.session("bob").await;
    let file = File::create(&alice, "f").await;
    let granted = file.layout(IoMode::Rw).await;
    let holder = format!("ds{}", granted.body.first_stripe_index + 1);
    let direct = direct_session(&rig, &alice, "alice", &holder).await;
    let handle = granted.body.file_handles.0[0].clone();
    let first = bytes::Bytes::from(pattern(1000));
    let unstable = StableHow::Unstable;
    let mine = direct_write(&direct, &alice.caller, &handle, file.open, unstable, &first);
    mine.await.unwrap();
    // His bytes lie after hers, on both data servers.
    let bobs = File::create(&bob, "f").await;
    let second = pattern(6000);
    let wrote = write(&bobs, 1000, StableHow::FileSync, &second).await;
    assert_eq!(wrote.committed, StableHow::FileSync);
    assert_eq!(bobs.try_attrs().await.unwrap().0, 7000);
    file.layout_commit(granted.stateid, 1000).await.unwrap();
    assert_eq!(file.try_attrs().await.unwrap().0, 7000, "it never shrinks");
    let (got, eof) = read(&file, 0, 10_000).await;
    assert!(eof);
    assert_eq!((&got[..1000], &got[1000..]), (&first[..], &second[..]));
}
