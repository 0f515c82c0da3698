//! Goal: reads move the access time in the manner of relatime, and nothing else of a file. What is set stands. The
//! store learns of it later. Method: a metadata server and a real data server over the memory transport, time paused, a
//! wall clock that the test moves.
#![allow(
    clippy::unwrap_used,
    reason = "a failure here is the failure of a test"
)]

use crate::rig::cluster::Port;
use crate::rig::file::File;
use crate::rig::{Client, Rig, START_S, real};
use namespace::{Cred, FileId, Op, Time};
use nfs4::attr::{self, Attrs};
use nfs4::ops::{CreateArgs, CreateType, ReadDirArgs, ReadLinkArgs, ReadPlusArgs};
use nfs4::{
    Bitmap, CompoundBuilder, Fattr, FileHandle, IoMode, NfsStatus, NfsTime, SetTime, StableHow,
    Stateid, Verifier,
};
use server::exports::{Atime, ExportRule, Exports, Squash};
use std::sync::Arc;
use std::sync::atomic::AtomicI64;
use std::sync::atomic::Ordering::Relaxed;
use std::time::Duration;

const DAY_S: i64 = 24 * 3600;

/// What GETATTR says: seconds of the access time; change, modification and change of metadata.
async fn times(client: &Client, fh: &FileHandle) -> (i64, (u64, i64, i64)) {
    let wanted = [
        attr::TIME_ACCESS,
        attr::CHANGE,
        attr::TIME_MODIFY,
        attr::TIME_METADATA,
    ];
    let got = client.attrs(fh, &wanted).await.unwrap();
    let others = (
        got.change.unwrap(),
        got.time_modify.unwrap().seconds,
        got.time_metadata.unwrap().seconds,
    );
    (got.time_access.unwrap().seconds, others)
}

/// The access time in the store.
fn stored(rig: &Rig, file: u64) -> i64 {
    let cred = Cred::root();
    let mut op = Op::new(&cred, Time::default());
    let inode = rig
        .nfsd
        .role()
        .fs()
        .namespace()
        .getattr(&mut op, FileId(file));
    inode.unwrap().atime.secs
}

async fn set_atime(client: &Client, fh: &FileHandle, seconds: i64) {
    let attrs = Attrs {
        time_access_set: Some(SetTime::Client(NfsTime {
            seconds,
            nanoseconds: 0,
        })),
        ..Attrs::default()
    };
    let set = client.set_attrs(fh, Stateid::default(), &attrs).await;
    set.unwrap();
}

async fn ask(client: &Client, fh: &FileHandle, build: impl Fn(&mut CompoundBuilder) + Send + Sync) {
    let done = client.on(fh, build).await;
    assert_eq!(done.results().unwrap().status, NfsStatus::Ok);
}

/// The ways to read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Way {
    Read,
    ReadPlus,
    Layout,
    LayoutForWriting,
    ReadDir,
    ReadLink,
}

const ALL: [(Way, bool); 6] = [
    (Way::Read, true),
    (Way::ReadPlus, true),
    (Way::Layout, true),
    (Way::LayoutForWriting, false),
    (Way::ReadDir, true),
    (Way::ReadLink, true),
];

/// Files of each type, two seconds old.
struct Tree<'c> {
    client: &'c Client,
    file: File<'c>,
    dir: FileHandle,
    link: FileHandle,
}

impl<'c> Tree<'c> {
    async fn grow(rig: &Rig, client: &'c Client) -> Self {
        let file = File::create(client, "f").await;
        let _written = real::write(&file, 0, StableHow::FileSync, b"some bytes").await;
        let root = client.lookup(&[]).await.unwrap();
        for (name, object_type) in [
            ("d", CreateType::Dir),
            ("l", CreateType::Lnk(xdr::Opaque(b"x"))),
        ] {
            let make = |b: &mut CompoundBuilder| {
                b.push(&CreateArgs {
                    object_type,
                    name: xdr::Opaque(name.as_bytes()),
                    attrs: Fattr::default(),
                });
            };
            ask(client, &root, make).await;
        }
        rig.clock_s.fetch_add(2, Relaxed);
        Self {
            client,
            file,
            dir: client.lookup(&["d"]).await.unwrap(),
            link: client.lookup(&["l"]).await.unwrap(),
        }
    }

    fn of(&self, way: Way) -> &FileHandle {
        match way {
            Way::ReadDir => &self.dir,
            Way::ReadLink => &self.link,
            _ => &self.file.fh,
        }
    }

    async fn read(&self, way: Way) {
        let file = &self.file;
        match way {
            Way::Read => {
                assert_eq!(real::bytes_of(file, 0, 10).await, b"some bytes");
            }
            Way::ReadPlus => {
                let args = ReadPlusArgs {
                    stateid: file.open,
                    offset: 0,
                    count: 10,
                };
                let read = |b: &mut CompoundBuilder| {
                    b.push(&args);
                };
                ask(self.client, &file.fh, read).await;
            }
            Way::Layout | Way::LayoutForWriting => {
                let iomode = match way {
                    Way::Layout => IoMode::Read,
                    _ => IoMode::Rw,
                };
                let granted = file.layout(iomode).await;
                file.layout_return(granted.stateid).await.unwrap();
            }
            Way::ReadDir => {
                let read = |b: &mut CompoundBuilder| {
                    b.push(&ReadDirArgs {
                        cookie: 0,
                        cookie_verifier: Verifier::default(),
                        dircount: 8192,
                        maxcount: 8192,
                        attr_request: Bitmap::of(&[attr::FILEID]),
                    });
                };
                ask(self.client, &self.dir, read).await;
            }
            Way::ReadLink => {
                let read = |b: &mut CompoundBuilder| {
                    b.push(&ReadLinkArgs {});
                };
                ask(self.client, &self.link, read).await;
            }
        }
    }
}

#[tokio::test(start_paused = true)]
async fn reads_of_every_kind_move_the_access_time_once() {
    for (way, moves) in ALL {
        let (rig, _port, _servers) = real::cluster(1).await;
        let client = rig.session("alice").await;
        let tree = Tree::grow(&rig, &client).await;
        let fh = tree.of(way).clone();
        let (new, others) = times(&client, &fh).await;
        tree.read(way).await;
        let first = if moves { START_S + 2 } else { new };
        assert_eq!(times(&client, &fh).await, (first, others), "{way:?}");
        // Not again, until a day has passed.
        rig.clock_s.fetch_add(5, Relaxed);
        tree.read(way).await;
        tokio::time::sleep(Duration::from_secs(2)).await;
        tree.read(way).await;
        assert_eq!(times(&client, &fh).await, (first, others), "{way:?}");
        rig.clock_s.fetch_add(DAY_S, Relaxed);
        tokio::time::sleep(Duration::from_secs(2)).await;
        tree.read(way).await;
        let later = if moves { START_S + 7 + DAY_S } else { new };
        assert_eq!(times(&client, &fh).await, (later, others), "{way:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn what_is_set_stands_and_a_tick_stores_what_was_read() {
    let (rig, _port, _servers) = real::cluster(1).await;
    let client = rig.session("alice").await;
    let tree = Tree::grow(&rig, &client).await;
    let (fh, id) = (&tree.file.fh, tree.file.id());
    let (new, _) = times(&client, fh).await;
    tree.read(Way::Read).await;
    assert_eq!(
        (times(&client, fh).await.0, stored(&rig, id)),
        (START_S + 2, new)
    );
    tokio::time::sleep(Duration::from_secs(2)).await;
    assert_eq!(stored(&rig, id), START_S + 2);
    // Set to a time, to the very time before a read, and read again.
    set_atime(&client, fh, 77).await;
    assert_eq!(times(&client, fh).await.0, 77);
    tree.read(Way::Read).await;
    assert_eq!(times(&client, fh).await.0, START_S + 2);
    set_atime(&client, fh, 77).await;
    assert_eq!(times(&client, fh).await.0, 77);
    tokio::time::sleep(Duration::from_secs(2)).await;
    assert_eq!((times(&client, fh).await.0, stored(&rig, id)), (77, 77));
}

#[tokio::test(start_paused = true)]
async fn an_export_can_leave_access_times_alone() {
    let store = {
        let (rig, _port, _servers) = real::cluster(1).await;
        let client = rig.session("alice").await;
        let _tree = Tree::grow(&rig, &client).await;
        Arc::clone(&rig.store)
    };
    for (read_write, atime, moves) in [
        (true, Atime::Off, false),
        (false, Atime::Relatime, false),
        (true, Atime::Relatime, true),
    ] {
        let rule = ExportRule {
            clients: "127.0.0.0/8".parse().unwrap(),
            read_write,
            squash: Squash::None,
            anonymous_uid: 99,
            anonymous_gid: 99,
            atime,
        };
        let clock_s = Arc::new(AtomicI64::new(START_S + 100));
        let rig = Rig::exporting(Arc::clone(&store), clock_s, Exports::new(vec![rule])).await;
        let _port = Port::open(&rig);
        let client = rig.session("alice").await;
        let link = client.lookup(&["l"]).await.unwrap();
        let before = times(&client, &link).await.0;
        let read = |b: &mut CompoundBuilder| {
            b.push(&ReadLinkArgs {});
        };
        ask(&client, &link, read).await;
        let moved = times(&client, &link).await.0 != before;
        assert_eq!(moved, moves, "{atime:?}, rw {read_write}");
    }
}
