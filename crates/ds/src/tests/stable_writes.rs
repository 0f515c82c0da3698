//! Goal: a small stable write is durable with its record alone, and no record is applied over anything newer (R19, R20).
//! Method: stores that become durable by hand; after a crash a data server over what it left.

use super::control_calls::Failing;
use super::*;
use objects::{ObjectError, ObjectId};
use std::sync::atomic::Ordering::SeqCst;

/// Syncs the log all the time, and the index as long as it may; ends with the handle.
struct Syncing(tokio::task::JoinHandle<()>);

impl Drop for Syncing {
    fn drop(&mut self) {
        self.0.abort();
    }
}

fn syncing(stores: &Stores, index_too: bool) -> Syncing {
    let (index, log) = (stores.index.clone(), stores.redo.clone().unwrap());
    Syncing(tokio::spawn(async move {
        loop {
            log.sync();
            if index_too {
                index.sync();
            }
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
    }))
}

/// Joins, so that the index knows its cluster after a crash too.
async fn ready(stores: &Stores) -> World {
    let _all = syncing(stores, true);
    World::over(stores).await
}

fn fh(epoch: u32) -> Vec<u8> {
    Grant::to(b"a").epoch(epoch).fh()
}

async fn bytes(world: &World, epoch: u32) -> Vec<u8> {
    world.mds.state.lock().sizes = [(FILE, 1 << 20)].into();
    let client = world.client(b"a").await;
    let (_, mut bytes) = client.read(&fh(epoch), 0, 1000).await.unwrap();
    bytes.truncate(bytes.iter().rposition(|b| *b != 0).map_or(0, |at| at + 1));
    bytes
}

pub(super) const ID: ObjectId = ObjectId {
    file_id: FILE,
    generation: 1,
    place: 0,
};

#[tokio::test]
async fn a_small_stable_write_waits_for_its_record_alone() {
    let stores = Stores::logged();
    let world = ready(&stores).await;
    let client = world.client(b"a").await;
    let _log_alone = syncing(&stores, false);
    for (offset, stable) in [(0, StableHow::DataSync), (2, StableHow::FileSync)] {
        let wrote = client.write(&fh(1), offset, b"abc", stable).await.unwrap();
        assert_eq!(wrote.committed, stable);
    }
    assert_eq!(world.ds().status().wrote_reports, 1, "as without a log");
    drop(world);
    // Neither object nor index has any of it, where the crash has not kept it by chance.
    let is_lost = |left: &Stores| left.objects.stat(ID).is_err();
    let left = (0..).map(|seed| stores.after_crash(seed)).find(is_lost);
    let left = left.unwrap();
    let world = ready(&left).await;
    assert_eq!(bytes(&world, 1).await, b"ababc");
    // Twice is once.
    drop(world);
    let world = ready(&left.after_crash(2)).await;
    assert_eq!(bytes(&world, 1).await, b"ababc");
}

#[tokio::test]
async fn a_record_is_not_applied_over_newer_committed_bytes() {
    let stores = Stores::logged();
    let world = ready(&stores).await;
    let client = world.client(b"a").await;
    let _all = syncing(&stores, true);
    let fh = fh(1);
    let write = |data: &'static [u8], stable| client.write(&fh, 0, data, stable);
    write(b"old", StableHow::FileSync).await.unwrap();
    write(b"new", StableHow::Unstable).await.unwrap();
    client.commit(&fh).await.unwrap();
    let left = stores.after_crash(1);
    assert_eq!(redo::contract::numbers(&**left.redo.as_ref().unwrap()), [1]);
    assert_eq!(bytes(&ready(&left).await, 1).await, b"new");
    // A record that comes after the COMMIT is applied.
    write(b"end", StableHow::FileSync).await.unwrap();
    assert_eq!(bytes(&ready(&stores.after_crash(2)).await, 1).await, b"end");
}

#[tokio::test]
async fn records_of_a_removed_object_do_not_bring_it_back() {
    let stores = Stores::logged();
    let world = ready(&stores).await;
    let client = world.client(b"a").await;
    let _all = syncing(&stores, true);
    client
        .write(&fh(1), 0, b"abc", StableHow::FileSync)
        .await
        .unwrap();
    let items = vec![control::RemoveItem {
        places: 1,
        file_id: FILE,
        generation: 2,
        floor: Epoch::new(BOOT, 2),
        through_key: 2,
    }];
    let items = items.into();
    let removed = world.mds.call(&control::RemoveObjectsArgs { items }).await;
    assert_eq!(removed.unwrap().0, [Status::Ok]);
    let left = stores.after_crash(1);
    let world = ready(&left).await;
    assert!(matches!(left.objects.stat(ID), Err(ObjectError::NotFound)));
    // When the log has no record of it any more, the index needs none either.
    let _all = syncing(&left, true);
    world.ds().tick().await;
    world.ds().tick().await;
    assert!(world.ds().index.removed_records().is_empty());
}

#[tokio::test]
async fn records_from_before_a_cut_do_not_make_the_object_long_again() {
    let stores = Stores::logged();
    let world = ready(&stores).await;
    let client = world.client(b"a").await;
    let _all = syncing(&stores, true);
    client
        .write(&fh(1), 0, b"abcdef", StableHow::FileSync)
        .await
        .unwrap();
    let object = control::ObjectRef {
        group: 0,
        file_id: FILE,
        generation: 1,
        place: 0,
    };
    world.cut(object, 2, 2).await;
    let left = stores.after_crash(1);
    assert_eq!(bytes(&ready(&left).await, 2).await, b"ab");
}

#[tokio::test]
async fn a_record_does_not_hide_that_its_object_is_lost() {
    let stores = Stores::logged();
    let world = ready(&stores).await;
    let client = world.client(b"a").await;
    let _all = syncing(&stores, true);
    client
        .write(&fh(1), 0, &[7; 100], StableHow::Unstable)
        .await
        .unwrap();
    client.commit(&fh(1)).await.unwrap();
    client
        .write(&fh(1), 0, b"abc", StableHow::FileSync)
        .await
        .unwrap();
    let left = stores.after_crash(1);
    left.objects.remove(ID).unwrap();
    let world = ready(&left).await;
    let client = world.client(b"a").await;
    assert_eq!(client.read(&fh(1), 0, 3).await, Err(NfsStatus::Io));
    assert!(matches!(left.objects.stat(ID), Err(ObjectError::NotFound)));
}

#[tokio::test]
async fn without_room_in_the_log_a_stable_write_syncs_its_object() {
    let stores = Stores::logged();
    let world = ready(&stores).await;
    let client = world.client(b"a").await;
    let _all = syncing(&stores, true);
    let data = vec![3; 65_536];
    for n in 0..20 {
        client
            .write(&fh(1), n * 65_536, &data, StableHow::FileSync)
            .await
            .unwrap();
    }
    // The write that found no room has made the object durable, and the tick gives the room back.
    let fill = world.ds().redo.fill();
    assert!(fill.used_bytes > fill.capacity_bytes / 2);
    world.ds().tick().await;
    world.ds().tick().await;
    assert_eq!(world.ds().redo.fill().used_bytes, 0);
    let left = stores.after_crash(1);
    assert_eq!(left.objects.stat(ID).unwrap().size_bytes, 20 * 65_536);
}

#[tokio::test]
async fn a_write_above_the_limit_has_no_record() {
    let stores = Stores::logged();
    let world = ready(&stores).await;
    let client = world.client(b"a").await;
    let _all = syncing(&stores, true);
    let data = vec![3; 65_537];
    client
        .write(&fh(1), 0, &data, StableHow::FileSync)
        .await
        .unwrap();
    assert_eq!(world.ds().redo.newest_of(ID), None);
    assert_eq!(
        stores.after_crash(1).objects.stat(ID).unwrap().size_bytes,
        65_537
    );
}

/// A data server over objects whose syncs can be made to fail.
async fn over_failing(stores: &Stores) -> (World, Arc<Failing>) {
    let failing = Failing::over(stores.objects.clone());
    let (index, _, redo) = stores.disks();
    let world = World::opened((index, failing.clone(), redo), false).await;
    (world, failing)
}

#[tokio::test]
async fn after_a_failed_sync_the_records_stay_until_they_are_applied_again() {
    let stores = Stores::logged();
    let _all = syncing(&stores, true);
    let (world, failing) = over_failing(&stores).await;
    let client = world.client(b"a").await;
    client
        .write(&fh(1), 0, b"abc", StableHow::FileSync)
        .await
        .unwrap();
    failing.failures.store(1, SeqCst);
    assert_eq!(client.commit(&fh(1)).await, Err(NfsStatus::Io));
    // A second sync that succeeds proves nothing: the pages may be gone.
    assert_eq!(client.commit(&fh(1)).await, Err(NfsStatus::Io));
    let again = client.write(&fh(1), 0, b"xyz", StableHow::FileSync).await;
    assert_eq!(again.map(|w| w.committed), Err(NfsStatus::Io));
    // A start applies them.
    let left = stores.after_crash(1);
    assert_eq!(bytes(&ready(&left).await, 1).await, b"abc");
}

#[tokio::test(start_paused = true)]
async fn a_disk_that_works_again_gets_what_the_records_promised() {
    let stores = Stores::logged();
    let _all = syncing(&stores, true);
    let (world, failing) = over_failing(&stores).await;
    let client = world.client(b"a").await;
    let fh = fh(1);
    let write = async |offset, data, stable| client.write(&fh, offset, data, stable).await;
    write(0, b"abc", StableHow::FileSync).await.unwrap();
    write(1, b"B", StableHow::DataSync).await.unwrap();
    failing.failures.store(2, SeqCst);
    assert_eq!(client.commit(&fh).await, Err(NfsStatus::Io));
    // The first try fails too. Then the disk is left alone for a while.
    world.ds().tick().await;
    let unstable = write(3, b"lost", StableHow::Unstable).await.unwrap();
    assert_eq!(failing.failures.load(SeqCst), 0);
    world.ds().tick().await;
    assert_eq!(client.commit(&fh).await, Err(NfsStatus::Io));
    tokio::time::sleep(Duration::from_secs(2)).await;
    world.ds().tick().await;
    // What had no record is to be written again.
    let verifier = client.commit(&fh).await.unwrap();
    assert_ne!(verifier, unstable.write_verifier);
    assert!(bytes(&world, 1).await.starts_with(b"aBc"));
    let wrote = write(2, b"C", StableHow::FileSync).await.unwrap();
    assert_eq!(wrote.write_verifier, verifier);
    client.commit(&fh).await.unwrap();
    world.ds().tick().await;
    world.ds().tick().await;
    assert_eq!(world.ds().redo.fill().used_bytes, 0);
    let left = stores.after_crash(1);
    assert!(bytes(&ready(&left).await, 1).await.starts_with(b"aBC"));
}

#[tokio::test(start_paused = true)]
async fn a_disk_that_fails_while_records_are_written_again_hides_nothing_that_was_promised() {
    let stores = Stores::logged();
    let _all = syncing(&stores, true);
    let (world, failing) = over_failing(&stores).await;
    let client = world.client(b"a").await;
    let fh = fh(1);
    for (offset, data) in [(0, b"abc"), (1, b"xyz")] {
        let written = client.write(&fh, offset, data, StableHow::FileSync).await;
        written.unwrap();
    }
    failing.failures.store(1, SeqCst);
    assert_eq!(client.commit(&fh).await, Err(NfsStatus::Io));
    for writes in [0, 1] {
        failing.writes.store(writes, SeqCst);
        world.ds().tick().await;
        assert_eq!(failing.writes.load(SeqCst), 0);
        assert_eq!(bytes(&world, 1).await, b"axyz");
        assert_eq!(client.commit(&fh).await, Err(NfsStatus::Io));
        tokio::time::sleep(Duration::from_secs(9)).await;
    }
    failing.writes.store(u32::MAX, SeqCst);
    world.ds().tick().await;
    client.commit(&fh).await.unwrap();
    let left = stores.after_crash(1);
    assert_eq!(bytes(&ready(&left).await, 1).await, b"axyz");
}

#[tokio::test]
async fn reports_that_wait_at_one_time_go_in_one_message() {
    let world = World::new().await;
    let client = world.client(b"a").await;
    let fh = fh(1);
    let hold = world.mds.wrote_gate.acquire().await.unwrap();
    let write = |n: u64| client.write(&fh, n * 10, b"abc", StableHow::FileSync);
    let all = async { futures_util::future::join_all((0..12).map(write)).await };
    let release = async {
        tokio::time::sleep(Duration::from_millis(50)).await;
        drop(hold);
    };
    let (written, ()) = tokio::join!(all, release);
    assert!(written.iter().all(Result::is_ok));
    let state = world.mds.state.lock();
    let mut ends: Vec<u64> = state.wrote.iter().map(|item| item.end_offset).collect();
    ends.sort_unstable();
    let expected: Vec<u64> = (0..12).map(|n| n * 10 + 3).collect();
    assert_eq!(ends, expected, "each once");
    // Two were on their way while the others came.
    assert!(state.wrote_messages <= 4, "{}", state.wrote_messages);
}

/// A copy of a store works without having been taken: it must not come to look as new as the store itself (R9).
#[tokio::test]
async fn what_a_start_does_before_it_is_taken_is_no_change() {
    let stores = Stores::logged();
    let _all = syncing(&stores, true);
    let world = World::over(&stores).await;
    let client = world.client(b"a").await;
    let fh = fh(1);
    let write = client.write(&fh, 0, b"abc", StableHow::FileSync);
    write.await.unwrap();
    tokio::time::sleep(Duration::from_millis(5)).await;
    let told = world.ds().store_identity();
    let copy = stores.after_crash(1);
    let _copy_too = syncing(&copy, true);
    for start in 1..=3 {
        let nfsd = open_with(copy.disks(), false).await.unwrap();
        for _ in 0..3 {
            nfsd.role().tick().await;
        }
        tokio::time::sleep(Duration::from_millis(5)).await;
        let has = nfsd.role().store_identity();
        assert_eq!(
            (has.counter, has.changes),
            (told.counter + start, told.changes)
        );
    }
}
