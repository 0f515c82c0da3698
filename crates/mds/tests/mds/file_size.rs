//! Goal: no file grows beyond what its data servers' file systems hold. Clients learn that limit before they write
//! (MAXFILESIZE, RFC 8881 §5.8.2.11). They get FBIG before anything is changed. Method: a metadata server and data
//! servers that say what they hold, over the memory transport, time paused.
#![allow(
    clippy::unwrap_used,
    reason = "a failure here is the failure of a test"
)]

use crate::rig::cluster::cluster;
use crate::rig::file::File;
use crate::rig::{Client, real};
use nfs4::attr;
use nfs4::ops::{CopyArgs, CopyRes};
use nfs4::{NfsStatus, StableHow};
use std::time::Duration;

/// What the smallest data server holds.
const MAX: u64 = (16 << 40) - 4096;

async fn maxfilesize(client: &Client) -> u64 {
    let root = client.lookup(&[]).await.unwrap();
    let got = client.attrs(&root, &[attr::MAXFILESIZE]).await.unwrap();
    got.maxfilesize.unwrap()
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
        let wrote = real::try_write(&file, beyond, StableHow::FileSync, b"xy").await;
        assert_eq!(wrote.map(drop), Err(NfsStatus::FBig), "WRITE {beyond}");
        let allocated = file.try_allocate(beyond, 2).await;
        assert!(
            matches!(allocated, Err(NfsStatus::FBig | NfsStatus::Inval)),
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
    ::cluster::expel(rig.nfsd.role().fs().cluster(), 2, "lost")
        .await
        .unwrap();
    assert_eq!(maxfilesize(&client).await, i64::MAX as u64);
}
