//! Goal: nobody reads or changes what permissions and exports keep from him, by whatever way (design D8).
//! Method: COMPOUNDs over the memory transport, by users of one client; time paused.
#![allow(
    clippy::unwrap_used,
    reason = "a failure here is the failure of a test"
)]

mod rig;

use layout::{DsHandle, Rights};
use nfs4::attr::Attrs;
use nfs4::ops::{ReadArgs, ReadRes, SHARE_ACCESS_READ, SHARE_ACCESS_WRITE};
use nfs4::{IoMode, NfsStatus};
use rig::cluster::{FakeDs, Port};
use rig::file::{File, patiently};
use rig::{Rig, after_putfh};

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
    let cluster_id = rig.nfsd.role().cluster_id();
    let handle = DsHandle::verify(&granted.body.file_handles.0[0].0, cluster_id, &ds.ring());
    Ok(handle.unwrap().rights)
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
