//! Goal: no file grows beyond what its data servers' file systems hold, and clients learn that limit before they write
//! (MAXFILESIZE, RFC 8881 §5.8.2.11; FBIG before anything is changed).
//! Method: a metadata server and data servers that say what they hold, over the memory transport, time paused.
#![allow(
    clippy::unwrap_used,
    reason = "a failure here is the failure of a test"
)]

mod rig;

use nfs4::attr;
use nfs4::ops::{
    AllocateArgs, AllocateRes, CopyArgs, CopyRes, GetAttrArgs, GetAttrRes, WriteArgs, WriteRes,
};
use nfs4::{Bitmap, NfsStatus, StableHow};
use rig::cluster::cluster;
use rig::file::File;
use rig::{Client, after_putfh, real};
use std::time::Duration;
use xdr::Opaque;

/// What the smallest data server holds.
const MAX: u64 = (16 << 40) - 4096;

async fn maxfilesize(client: &Client) -> u64 {
    let root = client.lookup(&[]).await.unwrap();
    let attr_request = Bitmap::of(&[attr::MAXFILESIZE]);
    let done = client
        .on(&root, |b| {
            b.push(&GetAttrArgs { attr_request });
        })
        .await;
    let mut reply = after_putfh(&done);
    let got = reply.take::<GetAttrRes<'_>>().unwrap();
    got.attributes.attrs().unwrap().maxfilesize.unwrap()
}

async fn write(file: &File<'_>, offset: u64) -> NfsStatus {
    let done = file
        .client
        .on(&file.fh, |b| {
            b.push(&WriteArgs {
                stateid: file.open,
                offset,
                stable: StableHow::FileSync,
                data: Opaque(b"xy"),
            });
        })
        .await;
    let result = after_putfh(&done).take::<WriteRes>().map(drop);
    result.map_or_else(|e| e.status().unwrap(), |()| NfsStatus::Ok)
}

async fn allocate(file: &File<'_>, offset: u64) -> NfsStatus {
    let done = file
        .client
        .on(&file.fh, |b| {
            b.push(&AllocateArgs {
                stateid: file.open,
                offset,
                length: 2,
            });
        })
        .await;
    let result = after_putfh(&done).take::<AllocateRes>().map(drop);
    result.map_or_else(|e| e.status().unwrap(), |()| NfsStatus::Ok)
}

async fn copy(from: &File<'_>, to: &File<'_>, offset: u64) -> NfsStatus {
    let args = CopyArgs {
        src_stateid: from.open,
        dst_stateid: to.open,
        src_offset: 0,
        dst_offset: offset,
        count: 2,
        consecutive: true,
        synchronous: true,
        source_servers: xdr::List(vec![]),
    };
    let done = real::from_to(from, to, &args).await;
    let result = real::after_from_to(&done).take::<CopyRes>().map(drop);
    result.map_or_else(|e| e.status().unwrap(), |()| NfsStatus::Ok)
}

#[tokio::test(start_paused = true)]
async fn the_smallest_data_server_says_how_large_files_can_be() {
    let (rig, _port, servers) = cluster(2).await;
    let client = rig.session("alice").await;
    assert_eq!(maxfilesize(&client).await, i64::MAX as u64);
    servers[1].told.lock().object_bytes_max = Some(MAX);
    tokio::time::sleep(Duration::from_secs(3)).await;
    assert_eq!(maxfilesize(&client).await, MAX);
    let file = File::create(&client, "f").await;
    let source = File::create(&client, "source").await;
    source.try_truncate(2).await.unwrap();
    for beyond in [MAX - 1, MAX, 1 << 62, u64::MAX - 1] {
        assert_eq!(
            write(&file, beyond).await,
            NfsStatus::FBig,
            "WRITE {beyond}"
        );
        let allocated = allocate(&file, beyond).await;
        assert!(
            matches!(allocated, NfsStatus::FBig | NfsStatus::Inval),
            "ALLOCATE {beyond}: {allocated:?}"
        );
        let copied = copy(&source, &file, beyond).await;
        assert_eq!(copied, NfsStatus::FBig, "COPY {beyond}");
        let set = file.try_truncate(beyond.saturating_add(2)).await;
        assert_eq!(set, Err(NfsStatus::FBig), "SETATTR {beyond}");
    }
    assert_eq!(file.try_attrs().await.unwrap().0, 0, "nothing has changed");
    file.try_truncate(MAX).await.unwrap();
    // It is gone for good: what is left holds more.
    ropewalk_mds::data::expel(&rig.nfsd, 2, "lost")
        .await
        .unwrap();
    assert_eq!(maxfilesize(&client).await, i64::MAX as u64);
}
