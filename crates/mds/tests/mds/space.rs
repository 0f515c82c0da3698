//! Goal: what a file takes up is told as the data servers have allocated it, holes as holes. It is told right after the
//! last close, and soon while the file is open. Listings never ask a data server. Method: real data servers over stores
//! in memory, and ones that remember what they were asked.
#![allow(
    clippy::unwrap_used,
    reason = "a failure here is the failure of a test"
)]

use crate::rig;
use crate::rig::file::{File, patiently};
use crate::rig::real::{cluster, try_write};
use crate::rig::{Client, after_putfh};
use nfs4::ops::{DeallocateArgs, DeallocateRes, GetAttrArgs, GetAttrRes, ReadDirArgs};
use nfs4::{Bitmap, IoMode, StableHow, Verifier, attr};
use std::time::Duration;

const MIB: u64 = 1 << 20;
/// Pages of the stores in memory.
const PAGE: u64 = 65_536;

async fn write(file: &File<'_>, offset: u64, bytes: &[u8]) {
    patiently(|| try_write(file, offset, StableHow::FileSync, bytes))
        .await
        .unwrap();
}

async fn space_used(client: &Client, file: &File<'_>) -> u64 {
    let attr_request = Bitmap::of(&[attr::SPACE_USED]);
    let done = client.on(&file.fh, |b| {
        b.push(&GetAttrArgs { attr_request });
    });
    let done = done.await;
    let mut reply = after_putfh(&done);
    let res = reply.take::<GetAttrRes<'_>>().unwrap();
    res.attributes.attrs().unwrap().space_used.unwrap()
}

#[tokio::test(start_paused = true)]
async fn holes_take_up_nothing_right_behind_the_last_close() {
    let (rig, _port, _servers) = cluster(2).await;
    let (alice, bob) = (rig.session("alice").await, rig.session("bob").await);
    let file = File::create(&alice, "f").await;
    write(&file, 100 * MIB, b"the end").await;
    assert!(
        space_used(&alice, &file).await > 100 * MIB,
        "while it is open it is as long as it may be"
    );
    file.close().await;
    assert_eq!(space_used(&bob, &file).await, 7);

    // While it is open the number comes soon.
    let file = File::create(&alice, "f").await;
    write(&file, 0, &vec![7; 128 * 1024]).await;
    tokio::time::sleep(Duration::from_secs(2)).await;
    let dense = space_used(&bob, &file).await;
    assert!((3 * PAGE..=5 * PAGE).contains(&dense), "{dense}");
    let (_, change) = file.try_attrs().await.unwrap();
    tokio::time::sleep(Duration::from_secs(10)).await;
    assert_eq!(file.try_attrs().await.unwrap().1, change, "no change of it");

    let punched = alice.on(&file.fh, |b| {
        b.push(&DeallocateArgs {
            stateid: file.open,
            offset: 0,
            length: 101 * MIB,
        });
    });
    let punched = punched.await;
    after_putfh(&punched).take::<DeallocateRes>().unwrap();
    tokio::time::sleep(Duration::from_secs(2)).await;
    assert_eq!(space_used(&bob, &file).await, 0);
    write(&file, 0, &vec![7; 64 * 1024]).await;
    patiently(|| file.try_truncate(0)).await.unwrap();
    tokio::time::sleep(Duration::from_secs(2)).await;
    assert_eq!(space_used(&bob, &file).await, 0);
}

#[tokio::test(start_paused = true)]
async fn a_file_that_a_data_server_has_too_is_measured_when_that_is_back() {
    let (rig, port, mut servers) = cluster(2).await;
    let alice = rig.session("alice").await;
    let file = File::create(&alice, "f").await;
    let number = file.layout(IoMode::Read).await.body.first_stripe_index as usize;
    servers[1 - number].stop().await;
    write(&file, 100 * MIB, b"the end").await;
    file.close().await;
    assert!(space_used(&alice, &file).await > 100 * MIB);
    servers[1 - number].start(&rig, &port, 99).await;
    tokio::time::sleep(Duration::from_secs(4)).await;
    assert_eq!(space_used(&alice, &file).await, 7);
}

#[tokio::test(start_paused = true)]
async fn listings_ask_no_data_server() {
    let (rig, _port, servers) = rig::cluster::cluster(1).await;
    let alice = rig.session("alice").await;
    let file = File::create(&alice, "f").await;
    servers[0].told.lock().sizes.insert(file.id(), 4096);
    tokio::time::sleep(Duration::from_secs(5)).await;
    let before = servers[0].told.lock().stats_count;
    servers[0].wrote(file.id(), 50_000).await.unwrap();
    file.close().await;
    let root = alice.lookup(&[]).await.unwrap();
    let listed = alice.on(&root, |b| {
        b.push(&ReadDirArgs {
            cookie: 0,
            cookie_verifier: Verifier::default(),
            dircount: 4096,
            maxcount: 4096,
            attr_request: Bitmap::of(&[attr::SPACE_USED, attr::SIZE]),
        });
    });
    assert!(listed.await.results().unwrap().status.is_ok());
    assert_eq!(servers[0].told.lock().stats_count, before);
    assert_eq!(space_used(&alice, &file).await, 4096);
    assert_eq!(servers[0].told.lock().stats_count, before + 1);
    assert_eq!(space_used(&alice, &file).await, 4096);
    assert_eq!(
        servers[0].told.lock().stats_count,
        before + 1,
        "it is known"
    );
}

#[tokio::test(start_paused = true)]
async fn stable_writes_tell_what_they_take_and_nobody_is_asked() {
    let (rig, _port, servers) = rig::cluster::cluster(1).await;
    let alice = rig.session("alice").await;
    let file = File::create(&alice, "f").await;
    tokio::time::sleep(Duration::from_secs(5)).await;
    let asked = || servers[0].told.lock().stats_count;
    let before = asked();
    let told = servers[0].wrote_taking(file.id(), 5000, Some(8192)).await;
    told.unwrap();
    file.close().await;
    assert_eq!(space_used(&alice, &file).await, 8192);
    // Into storage that is there.
    let told = servers[0].wrote_taking(file.id(), 7000, Some(0)).await;
    told.unwrap();
    assert_eq!((space_used(&alice, &file).await, asked()), (8192, before));
    // Once there is a doubt it is measured, and again if it is written to right after that.
    servers[0].told.lock().sizes.insert(file.id(), 12_288);
    servers[0].wrote(file.id(), 9000).await.unwrap();
    assert_eq!(space_used(&alice, &file).await, 12_288);
    assert_eq!(asked(), before + 1);
    let told = servers[0].wrote_taking(file.id(), 9500, Some(4096)).await;
    told.unwrap();
    assert_eq!(space_used(&alice, &file).await, 12_288, "not counted twice");
    assert_eq!(asked(), before + 2);
    tokio::time::sleep(Duration::from_secs(5)).await;
    let before = asked();
    let told = servers[0].wrote_taking(file.id(), 9999, Some(4096)).await;
    told.unwrap();
    assert_eq!(space_used(&alice, &file).await, 16_384);
    assert_eq!(asked(), before);
}
