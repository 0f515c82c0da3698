//! Goal: extended attributes over the wire: RFC 8276's operations, ACCESS bits and attribute, their limits, and that what was
//! acknowledged is there after a crash.
//! Method: COMPOUNDs over the memory transport; the crash is a second server over what the store had synced.
#![allow(
    clippy::unwrap_used,
    reason = "a failure here is the failure of a test"
)]

use crate::rig::{Client, Rig, START_S, after_putfh};
use meta::MemStore;
use nfs4::attr::{self, Attrs};
use nfs4::ops::{
    ACCESS_XALIST, ACCESS_XAREAD, ACCESS_XAWRITE, AccessArgs, AccessRes, GetXattrArgs, GetXattrRes,
    ListXattrsArgs, ListXattrsRes, RemoveXattrArgs, RemoveXattrRes, SetAttrArgs, SetAttrRes,
    SetXattrArgs, SetXattrOption, SetXattrRes,
};
use nfs4::{ChangeInfo, Fattr, FileHandle, NfsStatus, OpError, Stateid};
use server::exports::{Atime, ExportRule, Exports, Squash};
use std::sync::Arc;
use std::sync::atomic::AtomicI64;
use std::time::Duration;
use xdr::Opaque;

const ALL: u32 = ACCESS_XAREAD | ACCESS_XAWRITE | ACCESS_XALIST;

fn status(e: OpError) -> NfsStatus {
    e.status().unwrap()
}

async fn set(
    client: &Client,
    fh: &FileHandle,
    name: &str,
    value: &[u8],
    option: SetXattrOption,
) -> Result<ChangeInfo, NfsStatus> {
    let done = client
        .on(fh, |b| {
            b.push(&SetXattrArgs {
                option,
                name: Opaque(name.as_bytes()),
                value: Opaque(value),
            });
        })
        .await;
    let set = after_putfh(&done).take::<SetXattrRes>();
    set.map(|r| r.cinfo).map_err(status)
}

async fn get(client: &Client, fh: &FileHandle, name: &str) -> Result<Vec<u8>, NfsStatus> {
    let done = client
        .on(fh, |b| {
            b.push(&GetXattrArgs {
                name: Opaque(name.as_bytes()),
            });
        })
        .await;
    let got = after_putfh(&done).take::<GetXattrRes<'_>>();
    got.map(|r| r.value.0.to_vec()).map_err(status)
}

async fn list(
    client: &Client,
    fh: &FileHandle,
    cookie: u64,
    maxcount: u32,
) -> Result<(u64, Vec<String>, bool), NfsStatus> {
    let done = client
        .on(fh, |b| {
            b.push(&ListXattrsArgs { cookie, maxcount });
        })
        .await;
    let page = after_putfh(&done)
        .take::<ListXattrsRes<'_>>()
        .map_err(status)?;
    let text = |name: &nfs4::Name<'_>| String::from_utf8(name.0.to_vec()).unwrap();
    let names = page.names.0.iter().map(text).collect();
    Ok((page.cookie, names, page.eof))
}

async fn remove(client: &Client, fh: &FileHandle, name: &str) -> Result<ChangeInfo, NfsStatus> {
    let done = client
        .on(fh, |b| {
            b.push(&RemoveXattrArgs {
                name: Opaque(name.as_bytes()),
            });
        })
        .await;
    let removed = after_putfh(&done).take::<RemoveXattrRes>();
    removed.map(|r| r.cinfo).map_err(status)
}

async fn access(client: &Client, fh: &FileHandle) -> AccessRes {
    let done = client
        .on(fh, |b| {
            b.push(&AccessArgs { access: ALL });
        })
        .await;
    after_putfh(&done).take::<AccessRes>().unwrap()
}

/// A disk that syncs what is written a millisecond later.
fn syncing(store: MemStore) -> Arc<MemStore> {
    let store = Arc::new(store);
    let disk = Arc::clone(&store);
    tokio::spawn(async move {
        loop {
            disk.sync();
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
    });
    store
}

async fn attrs(client: &Client, fh: &FileHandle) -> Attrs {
    let wanted = [attr::CHANGE, attr::XATTR_SUPPORT];
    client.attrs(fh, &wanted).await.unwrap()
}

#[tokio::test(start_paused = true)]
async fn they_are_set_read_listed_and_removed_with_the_change_attribute_around_each() {
    use SetXattrOption::{Create, Either, Replace};
    let rig = Rig::new().await;
    let me = rig.session("alice").await;
    let dir = me.lookup(&[]).await.unwrap();
    let before = attrs(&me, &dir).await;
    assert_eq!(before.xattr_support, Some(true));
    assert_eq!(get(&me, &dir, "a").await, Err(NfsStatus::NoXattr));
    let exists = set(&me, &dir, "a", b"1", Replace).await;
    assert_eq!(exists, Err(NfsStatus::NoXattr));
    let made = set(&me, &dir, "a", b"1", Create).await.unwrap();
    assert!(made.atomic && Some(made.before) == before.change);
    assert_eq!(attrs(&me, &dir).await.change, Some(made.after));
    let again = set(&me, &dir, "a", b"2", Create).await;
    assert_eq!(again, Err(NfsStatus::Exist));
    assert_eq!(get(&me, &dir, "a").await.unwrap(), b"1");
    let big = vec![7; 1 << 16];
    set(&me, &dir, "bcde", &big, Either).await.unwrap();
    assert_eq!(get(&me, &dir, "bcde").await.unwrap(), big);
    let too_big = vec![7; (1 << 16) + 1];
    let refused = set(&me, &dir, "c", &too_big, Either).await;
    assert_eq!(refused, Err(NfsStatus::Xattr2Big));

    let (cookie, first, eof) = list(&me, &dir, 0, 16 + 8).await.unwrap();
    assert_eq!((first.len(), eof), (1, false));
    let (_, second, eof) = list(&me, &dir, cookie, 4096).await.unwrap();
    assert_eq!((second.len(), eof), (1, true));
    let mut names = [first, second].concat();
    names.sort();
    assert_eq!(names, ["a", "bcde"]);
    for small in [0, 15, 16 + 7] {
        assert_eq!(list(&me, &dir, 0, small).await, Err(NfsStatus::TooSmall));
    }
    let removed = remove(&me, &dir, "a").await.unwrap();
    assert_eq!(attrs(&me, &dir).await.change, Some(removed.after));
    assert_eq!(remove(&me, &dir, "a").await, Err(NfsStatus::NoXattr));
}

#[tokio::test(start_paused = true)]
async fn access_answers_what_the_operations_then_do() {
    use SetXattrOption::Either;
    let rig = Rig::new().await;
    let me = rig.session("alice").await;
    let dir = me.lookup(&[]).await.unwrap();
    set(&me, &dir, "a", b"1", Either).await.unwrap();
    let stranger = me.user(1000);
    for (mode, bits) in [
        (0o755, ACCESS_XAREAD | ACCESS_XALIST),
        (0o702, ACCESS_XAWRITE),
        (0o777, ALL),
        (0o700, 0),
    ] {
        let fattr = Fattr::new(&Attrs {
            mode: Some(mode),
            ..Attrs::default()
        });
        let done = me
            .on(&dir, |b| {
                b.push(&SetAttrArgs {
                    stateid: Stateid::default(),
                    attrs: fattr.clone(),
                });
            })
            .await;
        after_putfh(&done).take::<SetAttrRes>().unwrap();
        let answer = access(&stranger, &dir).await;
        assert_eq!((answer.supported, answer.access), (ALL, bits), "{mode:o}");
        let may = |bit| {
            if bits & bit != 0 {
                Ok(())
            } else {
                Err(NfsStatus::Access)
            }
        };
        let read = get(&stranger, &dir, "a").await.map(drop);
        assert_eq!(read, may(ACCESS_XAREAD), "{mode:o}");
        let listed = list(&stranger, &dir, 0, 4096).await.map(drop);
        assert_eq!(listed, may(ACCESS_XALIST), "{mode:o}");
        let written = set(&stranger, &dir, "a", &[1], Either).await.map(drop);
        assert_eq!(written, may(ACCESS_XAWRITE), "{mode:o}");
    }
}

#[tokio::test(start_paused = true)]
async fn what_was_acknowledged_is_there_after_a_crash_and_a_read_only_export_changes_nothing() {
    let store = syncing(MemStore::manual());
    let rig = Rig::over(store.clone()).await;
    let me = rig.session("alice").await;
    let dir = me.lookup(&[]).await.unwrap();
    set(&me, &dir, "a", b"kept", SetXattrOption::Either)
        .await
        .unwrap();
    let store = syncing(store.after_crash());
    let rule = ExportRule {
        clients: "127.0.0.0/8".parse().unwrap(),
        read_write: false,
        squash: Squash::None,
        anonymous_uid: 1,
        anonymous_gid: 1,
        atime: Atime::Relatime,
    };
    let clock_s = Arc::new(AtomicI64::new(START_S));
    let rig = Rig::exporting(store, clock_s, Exports::new(vec![rule])).await;
    let me = rig.session("alice").await;
    assert_eq!(get(&me, &dir, "a").await.unwrap(), b"kept");
    let refused = set(&me, &dir, "a", b"2", SetXattrOption::Either).await;
    assert_eq!(refused, Err(NfsStatus::RoFs));
    assert_eq!(remove(&me, &dir, "a").await, Err(NfsStatus::RoFs));
    assert_eq!(
        access(&me, &dir).await.access,
        ACCESS_XAREAD | ACCESS_XALIST
    );
}
