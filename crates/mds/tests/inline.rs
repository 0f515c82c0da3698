//! Goal: the bytes of a small file lie in the metadata store, and no client can tell but by the time it takes. A file that
//! outgrows it goes to data servers without an error, and nothing of a failed attempt comes back. All that holds of placed
//! files holds.
//! Method: the tests of other programs that read and write once more, since [`rig::inline_max_bytes`] is not 0 in this program,
//! and some of its own. Stripe units have 4 KiB.
#![allow(
    clippy::unwrap_used,
    reason = "a failure here is the failure of a test"
)]
#![allow(
    clippy::duplicate_mod,
    reason = "each test program brings the rig along"
)]

#[path = "mds/copy.rs"]
mod copy;
#[path = "mds/names.rs"]
mod names;
#[path = "mds/persist.rs"]
mod persist;
#[path = "mds/ranges.rs"]
mod ranges;
#[path = "mds/recalls.rs"]
mod recalls;
#[path = "mds/rig/mod.rs"]
mod rig;

use crate::rig::cluster::Port;
use crate::rig::file::{File, patiently};
use crate::rig::real::{Real, bytes_of, cluster, pattern, read, try_commit, try_write, write};
use crate::rig::{Client, Rig, after_putfh};
use fs::removals_waiting;
use namespace::{Cred, FileId, InlineTotals, LayoutPolicy, Op, Time};
use nfs4::layout::{LAYOUT_NFSV4_1_FILES, LENGTH_TO_EOF};
use nfs4::ops::{
    CloneArgs, CloneRes, LayoutGetArgs, LayoutGetRes, OpenArgs, OpenClaim, OpenHow, OpenRes,
    SHARE_ACCESS_BOTH, SHARE_ACCESS_READ, SHARE_WANT_NO_DELEG,
};
use nfs4::{ClientId, IoMode, NfsStatus, StableHow, StateOwner, Stateid, attr};
use std::sync::Arc;
use std::time::Duration;
use xdr::Opaque;

const LIMIT: usize = 20_000;

fn totals(rig: &Rig) -> (u64, u64) {
    let ns = rig.nfsd.role().fs().namespace();
    let report = ns.check().unwrap();
    assert_eq!(report.problems, Vec::<String>::new());
    let InlineTotals { files, bytes } = ns.statistics().inline;
    (files, bytes)
}

fn is_inline(rig: &Rig, file: &File<'_>) -> bool {
    let cred = Cred::root();
    let mut op = Op::new(&cred, Time::default());
    let ns = rig.nfsd.role().fs().namespace();
    ns.getattr(&mut op, FileId(file.id())).unwrap().is_inline()
}

fn objects(servers: &[Real]) -> usize {
    let mut objects = 0;
    for real in servers {
        let mut visit = |_, _| {
            objects += 1;
            true
        };
        real.objects.list(&mut visit).unwrap();
    }
    objects
}

async fn truncate(file: &File<'_>, size: usize) {
    let size = size as u64;
    patiently(|| file.try_truncate(size)).await.unwrap();
}

async fn all_of(file: &File<'_>) -> Vec<u8> {
    bytes_of(file, 0, usize::MAX).await
}

#[tokio::test(start_paused = true)]
async fn no_data_server_has_any_of_a_small_file_and_none_is_needed() {
    // The first data server has not joined.
    let rig = Rig::new().await;
    let alice = rig.session("alice").await;
    let file = File::create(&alice, "f").await;
    let bytes = pattern(3000);
    // More than is asked for, so that COMMIT has nothing to do.
    let wrote = write(&file, 10, StableHow::Unstable, &bytes).await;
    assert_eq!((wrote.count, wrote.committed), (3000, StableHow::FileSync));
    assert_eq!(try_commit(&file).await, Ok(wrote.write_verifier));
    assert_eq!(file.try_attrs().await.unwrap().0, 3010);
    let used = alice.attrs(&file.fh, &[attr::SPACE_USED]).await.unwrap();
    assert_eq!((used.space_used, totals(&rig)), (Some(3010), (1, 3010)));
    // df counts them as used: a data server has none of them.
    let asked = [attr::SPACE_TOTAL, attr::SPACE_FREE, attr::QUOTA_USED];
    let df = alice.attrs(&file.fh, &asked).await.unwrap();
    let disks = rig.nfsd.role().fs().cluster().space();
    assert_eq!(df.space_total.unwrap(), disks.total_bytes + 3010);
    assert_eq!(df.space_free.unwrap(), disks.unused_bytes);
    let of_disks = disks.total_bytes - disks.unused_bytes;
    assert_eq!(df.quota_used.unwrap(), of_disks + 3010);
    assert_eq!(read(&file, 8, 4).await, (vec![0, 0, 0, 1], false));
    assert_eq!(read(&file, 3000, 99).await, (bytes[2990..].to_vec(), true));
    assert_eq!(read(&file, 3010, 1).await, (vec![], true));
    truncate(&file, 20).await;
    truncate(&file, 30).await;
    let mut model = vec![0; 30];
    model[10..20].copy_from_slice(&bytes[..10]);
    assert_eq!(
        (all_of(&file).await, totals(&rig)),
        (model.clone(), (1, 20))
    );
    // As after a restart, and unlinked while it is open.
    let again = Rig::over(Arc::clone(&rig.store)).await;
    let _ticks = Port::open(&again);
    let bob = again.session("bob").await;
    let found = File::open(&bob, "f", SHARE_ACCESS_BOTH).await.unwrap();
    assert_eq!(all_of(&found).await, model);
    found.remove().await;
    assert_eq!((all_of(&found).await, totals(&again)), (model, (1, 20)));
    found.close().await;
    assert_eq!(
        (totals(&again), removals_waiting(again.nfsd.role().fs())),
        ((0, 0), 0)
    );
}

#[tokio::test(start_paused = true)]
async fn a_file_that_outgrows_its_limit_goes_to_data_servers_with_whoever_has_it_open() {
    let (rig, _port, servers) = cluster(3).await;
    let (alice, bob) = (rig.session("alice").await, rig.session("bob").await);
    let file = File::create(&alice, "f").await;
    let reader = File::open(&bob, "f", SHARE_ACCESS_READ).await.unwrap();
    let mut model = pattern(LIMIT);
    write(&file, 0, StableHow::FileSync, &model).await;
    assert!(is_inline(&rig, &file), "as long as its limit");
    let change = file.try_attrs().await.unwrap().1;
    // An append of one byte, while others read.
    let append = async {
        // At once: nobody is told to ask again.
        try_write(&file, LIMIT as u64, StableHow::Unstable, b"z")
            .await
            .unwrap()
    };
    let reads = async {
        for _ in 0..20 {
            let (got, _) = read(&reader, 5, 100).await;
            assert_eq!(got, model[5..105]);
            tokio::task::yield_now().await;
        }
    };
    let (wrote, ()) = tokio::join!(append, reads);
    assert_eq!(wrote.committed, StableHow::Unstable);
    model.push(b'z');
    assert_eq!(
        (all_of(&reader).await == model, totals(&rig)),
        (true, (0, 0))
    );
    assert_eq!(
        file.try_attrs().await.unwrap(),
        (model.len() as u64, change + 1)
    );
    assert_eq!(objects(&servers), 3);
    // It stays there when it is small again, and its objects go with it.
    truncate(&file, 10).await;
    assert!(!is_inline(&rig, &file));
    assert_eq!(all_of(&reader).await, model[..10]);
    file.remove().await;
    file.close().await;
    reader.close().await;
    tokio::time::sleep(Duration::from_secs(5)).await;
    assert_eq!((objects(&servers), totals(&rig)), (0, (0, 0)));
}

/// The largest file of the tree of the root directory.
fn file_bytes_max(rig: &Rig) -> u64 {
    let fs = rig.nfsd.role().fs();
    let cred = Cred::root();
    let mut op = Op::new(&cred, Time::default());
    let root = fs.namespace().getattr(&mut op, FileId::ROOT).unwrap();
    fs.file_bytes_max(&root)
}

#[tokio::test(start_paused = true)]
async fn sizes_and_writes_far_beyond_the_limit_get_a_place_or_change_nothing() {
    let (rig, _port, _servers) = cluster(2).await;
    let alice = rig.session("alice").await;
    let file = File::create(&alice, "f").await;
    write(&file, 0, StableHow::FileSync, b"abc").await;
    let far = file_bytes_max(&rig) - 1;
    for (at, bytes) in [(u64::MAX >> 1, &b"x"[..]), (far + 1, b"x"), (far, b"xx")] {
        let refused = try_write(&file, at, StableHow::FileSync, bytes).await;
        assert_eq!(refused.err(), Some(NfsStatus::FBig), "{at}");
    }
    assert_eq!(file.try_truncate(far + 2).await, Err(NfsStatus::FBig));
    assert!(is_inline(&rig, &file));
    write(&file, far, StableHow::FileSync, b"x").await;
    assert_eq!(file.try_attrs().await.unwrap().0, far + 1);
    assert_eq!(read(&file, 0, 5).await.0, b"abc\0\0");
    assert_eq!(read(&file, far - 1, 5).await, (b"\0x".to_vec(), true));
    // A size of its own.
    let other = File::create(&alice, "g").await;
    write(&other, 0, StableHow::FileSync, b"abc").await;
    truncate(&other, 1 << 30).await;
    assert!(!is_inline(&rig, &other));
    assert_eq!(read(&other, 0, 5).await.0, b"abc\0\0");
}

/// LAYOUTGET with the stateid of the OPEN before it, as Linux sends it.
async fn layout_with_open(client: &Client, name: &str) -> Result<(), NfsStatus> {
    let root = client.lookup(&[]).await.unwrap();
    let done = client.on(&root, |b| {
        b.push(&OpenArgs {
            seqid: 0,
            share_access: SHARE_ACCESS_BOTH | SHARE_WANT_NO_DELEG,
            share_deny: 0,
            owner: StateOwner {
                clientid: ClientId::default(),
                owner: Opaque(b"rides"),
            },
            how: OpenHow::NoCreate,
            claim: OpenClaim::Null(Opaque(name.as_bytes())),
        });
        b.push(&LayoutGetArgs {
            signal_layout_avail: false,
            layout_type: LAYOUT_NFSV4_1_FILES,
            iomode: IoMode::Rw,
            offset: 0,
            length: LENGTH_TO_EOF,
            minlength: 4096,
            stateid: Stateid::CURRENT,
            maxcount: 4096,
        });
    });
    let done = done.await;
    let mut reply = after_putfh(&done);
    reply.take::<OpenRes>().unwrap();
    match reply.take::<LayoutGetRes<'_>>() {
        Ok(LayoutGetRes::Ok(_)) => Ok(()),
        Ok(LayoutGetRes::TryLater { .. }) => Err(NfsStatus::LayoutTryLater),
        Err(error) => Err(error.status().unwrap()),
    }
}

#[tokio::test(start_paused = true)]
async fn a_layout_is_for_placed_files_and_who_wants_to_write_by_one_gets_the_file_placed() {
    let (rig, _port, servers) = cluster(2).await;
    let alice = rig.session("alice").await;
    let file = File::create(&alice, "f").await;
    let model = pattern(9000);
    write(&file, 0, StableHow::FileSync, &model).await;
    let with_open = layout_with_open(&alice, "f").await;
    assert_eq!(with_open, Err(NfsStatus::LayoutTryLater));
    let to_read = file.try_layout(IoMode::Read).await;
    assert_eq!(to_read.err(), Some(NfsStatus::LayoutUnavailable));
    // Who may not write does not have it placed.
    let reader = File::open(&alice, "f", SHARE_ACCESS_READ).await.unwrap();
    assert!(reader.try_layout(IoMode::Rw).await.is_err() || !is_inline(&rig, &file));
    let granted = file.layout(IoMode::Rw).await;
    assert_eq!((is_inline(&rig, &file), objects(&servers)), (false, 2));
    assert!(all_of(&file).await == model);
    file.layout_return(granted.stateid).await.unwrap();
    assert_eq!(layout_with_open(&alice, "f").await, Ok(()));
    assert!(file.try_layout(IoMode::Read).await.is_ok());
}

#[tokio::test(start_paused = true)]
async fn nothing_of_a_failed_attempt_comes_back_and_a_removal_takes_it_away() {
    let (rig, port, mut servers) = cluster(2).await;
    let alice = rig.session("alice").await;
    let (file, other) = (
        File::create(&alice, "f").await,
        File::create(&alice, "g").await,
    );
    let old = pattern(16_384);
    for file in [&file, &other] {
        write(file, 0, StableHow::FileSync, &old).await;
        assert!(is_inline(&rig, file));
    }
    // One of the two data servers takes its part, the other answers nothing.
    servers[1].deafen();
    for file in [&file, &other] {
        // The server tries longer than this client waits.
        let grown = try_write(file, 30_000, StableHow::FileSync, b"x");
        assert!(
            tokio::time::timeout(Duration::from_secs(4), grown)
                .await
                .is_err()
        );
        tokio::time::sleep(Duration::from_secs(30)).await;
        assert!(is_inline(&rig, file));
        assert!(all_of(file).await == old, "whole until it has a place");
    }
    assert_eq!(objects(&servers), 2);
    // Meanwhile it becomes short.
    truncate(&file, 100).await;
    other.remove().await;
    other.close().await;
    servers[1].stop().await;
    servers[1].start(&rig, &port, 99).await;
    write(&file, 30_000, StableHow::FileSync, b"x").await;
    let mut model = old[..100].to_vec();
    model.resize(30_000, 0);
    model.push(b'x');
    assert!(all_of(&file).await == model, "zeros after the cut");
    assert_eq!(totals(&rig), (0, 0));
    tokio::time::sleep(Duration::from_secs(5)).await;
    assert_eq!(removals_waiting(rig.nfsd.role().fs()), 0);
    assert_eq!(objects(&servers), 2, "those of one file");
}

async fn clone(src: &File<'_>, dst: &File<'_>, (from, to, count): (u64, u64, u64)) {
    let args = CloneArgs {
        src_stateid: src.open,
        dst_stateid: dst.open,
        src_offset: from,
        dst_offset: to,
        count,
    };
    let try_clone = || async {
        let done = rig::real::from_to(src, dst, &args).await;
        let mut reply = rig::real::after_from_to(&done);
        let cloned = reply.take::<CloneRes>();
        cloned.map(drop).map_err(|e| e.status().unwrap())
    };
    patiently(try_clone).await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn a_clone_is_right_whichever_of_the_files_are_inline() {
    let (rig, _port, _servers) = cluster(1).await;
    let alice = rig.session("alice").await;
    let (small, large) = (pattern(5000), pattern(50_000));
    let create = async |name: &str, bytes: &[u8]| {
        let file = File::create(&alice, name).await;
        if !bytes.is_empty() {
            write(&file, 0, StableHow::FileSync, bytes).await;
        }
        file
    };
    for (n, (src, dst, at)) in [
        (&small[..], &b""[..], 0),
        (&small, b"", 4096),
        (&small, &[9; 12_000], 4096),
        (&small, &[9; 60_000], 8192),
        (&small, b"", 40_960),
        (&large, b"", 0),
        (&large, &[9; 12_000], 0),
    ]
    .into_iter()
    .enumerate()
    {
        let from = create(&format!("from{n}"), src).await;
        let to = create(&format!("to{n}"), dst).await;
        clone(&from, &to, (0, at as u64, 0)).await;
        let mut model = dst.to_vec();
        let (end, block_end) = (at + src.len(), (at + src.len()).next_multiple_of(4096));
        model.resize(model.len().max(end), 0);
        model[at..end].copy_from_slice(src);
        // The rest of the last block (RFC 7862 §15.13.3).
        let rest = end..block_end.min(model.len());
        model[rest].fill(0);
        assert!(all_of(&to).await == model, "{n}");
        assert_eq!(
            is_inline(&rig, &to),
            model.len() <= LIMIT && src.len() <= LIMIT,
            "{n}"
        );
        assert!(all_of(&from).await == src, "{n}");
    }
    totals(&rig);
}

#[tokio::test(start_paused = true)]
async fn a_directory_has_a_limit_of_its_own_which_its_files_keep() {
    let (rig, _port, _servers) = cluster(2).await;
    let alice = rig.session("alice").await;
    let ns = || rig.nfsd.role().fs().namespace();
    let set = |inline_max_bytes, stripe_count| {
        let policy = LayoutPolicy {
            stripe_count,
            inline_max_bytes,
            ..LayoutPolicy::default()
        };
        let cred = Cred::root();
        let mut op = Op::new(&cred, Time::default());
        ns().set_layout_policy(&mut op, FileId::ROOT, Some(policy), None)
            .unwrap();
    };
    set(Some(100), 1);
    let small = File::create(&alice, "small").await;
    set(Some(0), 0);
    let placed = File::create(&alice, "placed").await;
    assert_eq!(
        (is_inline(&rig, &small), is_inline(&rig, &placed)),
        (true, false)
    );
    write(&small, 0, StableHow::FileSync, &[1; 100]).await;
    assert!(is_inline(&rig, &small));
    write(&small, 0, StableHow::FileSync, &[1; 101]).await;
    assert!(!is_inline(&rig, &small));
    let layout = small.layout(IoMode::Rw).await;
    assert_eq!(
        layout.body.file_handles.0.len(),
        1,
        "one data server, as was said then"
    );
}
