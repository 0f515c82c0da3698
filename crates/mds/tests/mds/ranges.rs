//! Goal: SEEK, ALLOCATE, DEALLOCATE, READ_PLUS and IO_ADVISE are right on striped files, whoever wrote them and how.
//! Method: a metadata server and real data servers over stores in memory, in one process, time paused. Stripe units have 4 KiB,
//! objects in memory pages of 64 KiB.
#![allow(
    clippy::unwrap_used,
    reason = "a failure here is the failure of a test"
)]

use crate::rig::after_putfh;
use crate::rig::file::{File, patiently};
use crate::rig::real::{cluster, len, pattern, read, write, write_untold};
use nfs4::ops::{
    CONTENT_DATA, CONTENT_HOLE, DeallocateArgs, DeallocateRes, IoAdviseArgs, IoAdviseRes,
    ReadPlusArgs, ReadPlusContent, ReadPlusRes, SHARE_ACCESS_READ, SeekArgs, SeekRes,
};
use nfs4::{Bitmap, NfsStatus, StableHow, Stateid};

const UNIT: u64 = 4096;
const MIB: u64 = 1 << 20;

macro_rules! ask {
    ($file:expr, $args:expr => $res:ty) => {{
        let file = $file;
        let done = file
            .client
            .on(&file.fh, |b| {
                b.push(&$args);
            })
            .await;
        let mut reply = after_putfh(&done);
        reply.take::<$res>().map_err(|e| e.status().unwrap())
    }};
}

async fn seek(file: &File<'_>, offset: u64, what: u32) -> Result<(bool, u64), NfsStatus> {
    let stateid = file.open;
    let args = SeekArgs {
        stateid,
        offset,
        what,
    };
    ask!(file, args => SeekRes).map(|res| (res.eof, res.offset))
}

async fn data(file: &File<'_>, offset: u64) -> Result<(bool, u64), NfsStatus> {
    patiently(|| seek(file, offset, CONTENT_DATA)).await
}

async fn hole(file: &File<'_>, offset: u64) -> Result<(bool, u64), NfsStatus> {
    patiently(|| seek(file, offset, CONTENT_HOLE)).await
}

async fn try_punch(file: &File<'_>, offset: u64, length: u64) -> Result<(), NfsStatus> {
    let stateid = file.open;
    let args = DeallocateArgs {
        stateid,
        offset,
        length,
    };
    ask!(file, args => DeallocateRes).map(drop)
}

async fn punch(file: &File<'_>, offset: u64, length: u64) -> Result<(), NfsStatus> {
    patiently(|| try_punch(file, offset, length)).await
}

async fn allocate(file: &File<'_>, offset: u64, length: u64) -> Result<(), NfsStatus> {
    patiently(|| file.try_allocate(offset, length)).await
}

#[tokio::test(start_paused = true)]
async fn seek_sees_the_file_and_not_its_objects() {
    let (rig, _port, _servers) = cluster(3).await;
    let alice = rig.session("alice").await;
    let file = File::create(&alice, "f").await;
    assert_eq!(data(&file, 0).await, Err(NfsStatus::NxIo));
    patiently(|| file.try_truncate(10 * MIB)).await.unwrap();
    assert_eq!(
        data(&file, 5).await,
        Ok((true, 10 * MIB)),
        "all of it is a hole"
    );
    assert_eq!(hole(&file, 5).await, Ok((false, 5)));
    // Dense over all three objects, each of which is two thirds holes.
    write(&file, MIB, StableHow::FileSync, &pattern(len(MIB / 2))).await;
    write(&file, 8 * MIB, StableHow::FileSync, b"x").await;
    for at in [0, 5, MIB] {
        assert_eq!(data(&file, at).await, Ok((false, MIB)));
    }
    assert_eq!(hole(&file, 0).await, Ok((false, 0)));
    for at in [MIB, MIB + 1, MIB + 5 * UNIT, MIB + MIB / 2 - 1] {
        assert_eq!(data(&file, at).await, Ok((false, at)));
        assert_eq!(hole(&file, at).await, Ok((false, MIB + MIB / 2)), "{at}");
    }
    assert_eq!(data(&file, MIB + MIB / 2).await, Ok((false, 8 * MIB)));
    assert_eq!(data(&file, 8 * MIB + UNIT).await, Ok((true, 10 * MIB)));
    assert_eq!(data(&file, 10 * MIB).await, Err(NfsStatus::NxIo));
    assert_eq!(hole(&file, u64::MAX).await, Err(NfsStatus::NxIo));
    // The end is a hole.
    patiently(|| file.try_truncate(MIB + 5)).await.unwrap();
    assert_eq!(hole(&file, MIB).await, Ok((true, MIB + 5)));
    assert_eq!(seek(&file, 0, 2).await, Err(NfsStatus::UnionNotSupp));
}

#[tokio::test(start_paused = true)]
async fn seek_knows_what_is_written_under_a_layout_and_not_yet_told() {
    let (rig, _port, _servers) = cluster(1).await;
    let alice = rig.session("alice").await;
    let file = File::create(&alice, "f").await;
    write_untold(&rig, &file, pattern(5000)).await;
    assert_eq!(file.try_attrs().await.unwrap().0, 0);
    assert_eq!(data(&file, 17).await, Ok((false, 17)));
    assert_eq!(hole(&file, 17).await, Ok((true, 5000)));
    assert_eq!(data(&file, 5000).await, Err(NfsStatus::NxIo));
}

#[tokio::test(start_paused = true)]
async fn a_deallocated_range_is_zeros_and_all_else_stays() {
    let (rig, port, mut servers) = cluster(3).await;
    let alice = rig.session("alice").await;
    let file = File::create(&alice, "f").await;
    let mut model = pattern(len(MIB));
    write(&file, 0, StableHow::FileSync, &model).await;
    let (size, change) = file.try_attrs().await.unwrap();
    let (start, end) = (200_001, 700_003);
    punch(&file, start, end - start).await.unwrap();
    model[len(start)..len(end)].fill(0);
    let (after, changed) = file.try_attrs().await.unwrap();
    assert!(after == size && changed > change);
    assert!(read(&file, 0, 2 << 20).await == (model.clone(), true));
    // Pages that are holes as a whole, in all three objects.
    let (_, at) = hole(&file, 0).await.unwrap();
    assert!((start..=4 * 65_536).contains(&at), "{at}");
    let (_, at) = data(&file, 300_000).await.unwrap();
    assert!((10 * 65_536..=end).contains(&at), "{at}");
    // Beyond the end, and far beyond.
    punch(&file, 900_000, u64::MAX - 900_000).await.unwrap();
    model[900_000..].fill(0);
    assert!(read(&file, 0, 2 << 20).await == (model.clone(), true));
    for (offset, length) in [(5, 0), (u64::MAX, 5)] {
        assert_eq!(punch(&file, offset, length).await, Err(NfsStatus::Inval));
    }
    // A data server that is away delays it, and nothing is said to be done.
    servers[1].stop().await;
    assert_eq!(try_punch(&file, 0, 5).await, Err(NfsStatus::Delay));
    assert_eq!(seek(&file, 0, CONTENT_HOLE).await, Err(NfsStatus::Delay));
    servers[1].start(&rig, &port, 99).await;
    punch(&file, 0, 5).await.unwrap();
    model[..5].fill(0);
    assert!(read(&file, 0, 2 << 20).await == (model, true));
}

#[tokio::test(start_paused = true)]
async fn allocate_takes_storage_and_grows_the_file() {
    let (rig, _port, servers) = cluster(2).await;
    let alice = rig.session("alice").await;
    let file = File::create(&alice, "f").await;
    write(&file, 0, StableHow::FileSync, b"here").await;
    let allocated = || -> u64 {
        let mut sum = 0;
        for real in &servers {
            let mut visit = |_, stat: objects::ObjectStat| {
                sum += stat.allocated_bytes;
                true
            };
            real.objects.list(&mut visit).unwrap();
        }
        sum
    };
    allocate(&file, 0, 4 * MIB).await.unwrap();
    assert_eq!(file.try_attrs().await.unwrap().0, 4 * MIB);
    // Pages of 64 KiB end where the last stripe in them does.
    assert!(
        allocated() >= 4 * MIB && allocated() <= 8 * MIB,
        "{}",
        allocated()
    );
    let (bytes, eof) = read(&file, 0, 1 << 20).await;
    assert!(!eof && bytes[..4] == *b"here" && bytes[4..].iter().all(|b| *b == 0));
    // Inside the file its size stays.
    allocate(&file, 5, 10).await.unwrap();
    assert_eq!(file.try_attrs().await.unwrap().0, 4 * MIB);
    // What cannot be had leaves the file as it is.
    assert_eq!(allocate(&file, 0, 1 << 50).await, Err(NfsStatus::NoSpc));
    assert_eq!(
        allocate(&file, 1 << 62, 1 << 62).await,
        Err(NfsStatus::FBig)
    );
    assert_eq!(allocate(&file, 0, 0).await, Err(NfsStatus::Inval));
    assert_eq!(file.try_attrs().await.unwrap().0, 4 * MIB);
    // A cut gives back what lies after it, though no object has a byte there.
    patiently(|| file.try_truncate(4)).await.unwrap();
    assert!(allocated() <= 128 * 1024, "{}", allocated());
    let full = File::create(&alice, "full").await;
    allocate(&full, 0, 510 * MIB).await.unwrap();
    assert_eq!(allocate(&file, 0, 600 * MIB).await, Err(NfsStatus::NoSpc));
    write(&full, 500 * MIB, StableHow::FileSync, b"reserved").await;
}

#[tokio::test(start_paused = true)]
async fn read_plus_tells_holes_and_reads_the_same_bytes() {
    let (rig, _port, _servers) = cluster(3).await;
    let alice = rig.session("alice").await;
    let file = File::create(&alice, "f").await;
    let bytes = pattern(10_000);
    write(&file, 100_000, StableHow::FileSync, &bytes).await;
    patiently(|| file.try_truncate(300_000)).await.unwrap();
    let plus = async |offset: u64, count: u32| {
        let stateid = file.open;
        let args = ReadPlusArgs {
            stateid,
            offset,
            count,
        };
        let done = file
            .client
            .on(&file.fh, |b| {
                b.push(&args);
            })
            .await;
        let mut reply = after_putfh(&done);
        let res = reply
            .take::<ReadPlusRes<'_>>()
            .map_err(|e| e.status().unwrap())?;
        let (mut out, mut kinds) = (Vec::new(), String::new());
        for content in &res.contents.0 {
            match content {
                ReadPlusContent::Data(data) => {
                    assert_eq!(data.offset, offset + out.len() as u64);
                    out.extend_from_slice(data.data.0);
                    kinds.push('d');
                }
                ReadPlusContent::Hole(hole) => {
                    assert_eq!(hole.offset, offset + out.len() as u64);
                    out.resize(out.len() + len(hole.length), 0);
                    kinds.push('h');
                }
            }
        }
        Ok::<_, NfsStatus>((res.eof, kinds, out))
    };
    for (offset, count, expected) in [
        (0, 1 << 20, "hdh"),
        (105_000, 1000, "d"),
        (290_000, 99_999, "h"),
    ] {
        let (eof, kinds, out) = patiently(|| plus(offset, count)).await.unwrap();
        assert_eq!(kinds, expected);
        assert_eq!((out, eof), read(&file, offset, count).await);
    }
    let end = patiently(|| plus(300_000, 9)).await.unwrap();
    assert_eq!(end, (true, String::new(), Vec::new()));
}

#[tokio::test(start_paused = true)]
async fn who_may_not_write_may_not_change_ranges() {
    let (rig, _port, _servers) = cluster(1).await;
    let alice = rig.session("alice").await;
    let file = File::create(&alice, "f").await;
    write(&file, 0, StableHow::FileSync, b"bytes").await;
    let reader = File::open(&alice, "f", SHARE_ACCESS_READ).await.unwrap();
    assert_eq!(punch(&reader, 0, 5).await, Err(NfsStatus::OpenMode));
    assert_eq!(allocate(&reader, 0, 5).await, Err(NfsStatus::OpenMode));
    assert_eq!(data(&reader, 0).await, Ok((false, 0)));
    let unknown = File {
        open: Stateid {
            seqid: 1,
            other: [9; 12],
        },
        name: "f".into(),
        fh: file.fh.clone(),
        client: &alice,
    };
    assert_eq!(punch(&unknown, 0, 5).await, Err(NfsStatus::BadStateid));
    assert_eq!(data(&unknown, 0).await, Err(NfsStatus::BadStateid));
    let root = alice.lookup(&[]).await.unwrap();
    let dir = File {
        open: file.open,
        name: String::new(),
        fh: root,
        client: &alice,
    };
    assert_eq!(punch(&dir, 0, 5).await, Err(NfsStatus::WrongType));
    assert_eq!(allocate(&dir, 0, 5).await, Err(NfsStatus::WrongType));
    assert_eq!(data(&dir, 0).await, Err(NfsStatus::IsDir));
    assert_eq!(read(&file, 0, 9).await.0, b"bytes");
    // Advice is taken, and nothing made of it.
    let args = IoAdviseArgs {
        stateid: file.open,
        offset: 0,
        count: 0,
        hints: Bitmap::of(&[4]),
    };
    let advised = ask!(&file, args => IoAdviseRes).unwrap();
    assert_eq!(advised.hints, Bitmap::EMPTY);
}
