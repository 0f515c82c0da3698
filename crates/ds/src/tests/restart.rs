//! Crashes of the data server: what was acknowledged is there, what was lost is told (R9, R11), floors last (R6).

use super::*;

/// Syncs the index whenever it has something, as a disk would.
fn sync_always(index: &Arc<MemStore>) -> tokio::task::JoinHandle<()> {
    let index = Arc::clone(index);
    tokio::spawn(async move {
        loop {
            index.sync();
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
    })
}

#[tokio::test(start_paused = true)]
async fn committed_data_outlive_a_crash_and_the_verifier_changes() {
    for seed in 0..20 {
        let stores = Stores::manual();
        let disk = sync_always(&stores.index);
        let world = World::over(&stores).await;
        let a = world.client(b"a").await;
        let fh = Grant::to(b"a").fh();
        let size = 200_000;
        world.mds.state.lock().sizes.insert(FILE, size as u64);
        a.write(&fh, 0, &vec![1; size], StableHow::Unstable)
            .await
            .unwrap();
        a.commit(&fh).await.unwrap();
        let wrote = a
            .write(&fh, 0, &[2; 100], StableHow::Unstable)
            .await
            .unwrap();
        disk.abort();
        let left = stores.after_crash(seed);
        let disk = sync_always(&left.index);
        let world = World::over(&left).await;
        world.mds.state.lock().sizes.insert(FILE, size as u64);
        let a = world.client(b"a").await;
        assert_ne!(
            a.commit(&fh).await.unwrap(),
            wrote.write_verifier,
            "seed {seed}"
        );
        let (_, data) = a.read(&fh, 0, 200_000).await.unwrap();
        assert!(
            data[..100].iter().all(|b| *b == 1 || *b == 2),
            "seed {seed}"
        );
        assert!(data[100..].iter().all(|b| *b == 1), "seed {seed}");
        assert_eq!(data.len(), size);
        assert_eq!(world.ds().status().objects_lost, 0);
        disk.abort();
    }
}

#[tokio::test(start_paused = true)]
async fn data_that_were_never_committed_may_go_without_a_complaint() {
    for seed in 0..20 {
        let stores = Stores::manual();
        let disk = sync_always(&stores.index);
        let world = World::over(&stores).await;
        let a = world.client(b"a").await;
        let fh = Grant::to(b"a").fh();
        a.write(&fh, 0, &[1; 5000], StableHow::Unstable)
            .await
            .unwrap();
        tokio::time::sleep(Duration::from_millis(5)).await;
        disk.abort();
        let left = stores.after_crash(seed);
        let disk = sync_always(&left.index);
        let world = World::over(&left).await;
        world.mds.state.lock().sizes.insert(FILE, 5000);
        let a = world.client(b"a").await;
        let (_, data) = a.read(&fh, 0, 5000).await.unwrap();
        assert_eq!(data.len(), 5000);
        a.write(&fh, 0, &[3; 5000], StableHow::DataSync)
            .await
            .unwrap();
        assert_eq!(a.read(&fh, 0, 5000).await.unwrap().1, [3; 5000]);
        disk.abort();
    }
}

#[tokio::test(start_paused = true)]
async fn commit_is_not_answered_before_the_index_is_durable() {
    let stores = Stores::manual();
    let disk = sync_always(&stores.index);
    let world = World::over(&stores).await;
    let a = world.client(b"a").await;
    let fh = Grant::to(b"a").fh();
    disk.abort();
    tokio::time::sleep(Duration::from_millis(5)).await;
    a.write(&fh, 0, &[1; 50], StableHow::Unstable)
        .await
        .unwrap();
    let commit = a.commit(&fh);
    tokio::pin!(commit);
    let wait = Duration::from_secs(1);
    assert!(tokio::time::timeout(wait, &mut commit).await.is_err());
    stores.index.sync();
    commit.await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn a_lost_object_can_be_cut_and_what_is_left_of_it_stays_lost() {
    let stores = Stores::new();
    {
        let world = World::over(&stores).await;
        let a = world.client(b"a").await;
        let fh = Grant::to(b"a").fh();
        a.write(&fh, 0, b"abcd", StableHow::DataSync).await.unwrap();
    }
    let id = objects::ObjectId {
        file_id: FILE,
        generation: 1,
        place: 0,
    };
    stores.objects.remove(id).unwrap();
    let world = World::over(&stores).await;
    let a = world.client(b"a").await;
    for (epoch, size_bytes, reads) in [(2, 3, Err(NfsStatus::Io)), (3, 0, Ok(Vec::new()))] {
        let object = control::ObjectRef {
            group: 0,
            file_id: FILE,
            generation: 1,
            place: 0,
        };
        world.cut(object, size_bytes, epoch).await;
        world.mds.state.lock().sizes.insert(FILE, size_bytes);
        let fh = Grant::to(b"a").epoch(epoch).fh();
        let read = a.read(&fh, 0, 4).await.map(|(_, bytes)| bytes);
        assert_eq!(read, reads, "cut to {size_bytes}");
        let wrote = a.write(&fh, 0, b"x", StableHow::Unstable).await;
        assert_eq!(wrote.is_ok(), size_bytes == 0, "cut to {size_bytes}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_lost_or_short_object_is_an_error_and_never_a_hole() {
    let id = objects::ObjectId {
        file_id: FILE,
        generation: 1,
        place: 0,
    };
    for cut_to in [None, Some(0), Some(2)] {
        let stores = Stores::new();
        let fh = Grant::to(b"a").fh();
        {
            let world = World::over(&stores).await;
            let a = world.client(b"a").await;
            a.write(&fh, 0, b"abcd", StableHow::DataSync).await.unwrap();
        }
        match cut_to {
            None => stores.objects.remove(id).unwrap(),
            Some(size) => stores.objects.set_size(id, size).unwrap(),
        }
        let world = World::over(&stores).await;
        world.mds.state.lock().sizes.insert(FILE, 4);
        let a = world.client(b"a").await;
        assert_eq!(a.read(&fh, 0, 4).await.unwrap_err(), NfsStatus::Io);
        let wrote = a.write(&fh, 0, b"abcdefgh", StableHow::Unstable).await;
        assert_eq!(wrote.unwrap_err(), NfsStatus::Io, "a write hid the loss");
        assert_eq!(a.commit(&fh).await.unwrap_err(), NfsStatus::Io);
        assert_eq!(world.ds().status().objects_lost, 3);
        let stat = control::StatArgs {
            objects: vec![control::ObjectRef {
                group: 0,
                file_id: FILE,
                generation: 1,
                place: 0,
            }]
            .into(),
        };
        let stat = world.mds.call(&stat).await.unwrap();
        let item = stat.items.0[0];
        assert_eq!(
            (item.status, item.size_bytes, item.durable_bytes),
            (Status::Ok, cut_to.unwrap_or(0), 4),
            "the file is as long as it was"
        );
        assert_eq!(world.ds().status().objects_lost, 4);
    }
}

#[tokio::test(start_paused = true)]
async fn floors_and_tombstones_outlive_a_crash() {
    let stores = Stores::manual();
    let disk = sync_always(&stores.index);
    let world = World::over(&stores).await;
    world
        .mds
        .fence(Floor::File {
            file_id: FILE,
            epoch: Epoch::new(BOOT, 2),
            through_key: 2,
        })
        .await;
    world
        .mds
        .fence(Floor::Tombstone {
            file_id: FILE + 1,
            generation: 2,
            through_key: 2,
        })
        .await;
    disk.abort();
    let left = stores.after_crash(1);
    let disk = sync_always(&left.index);
    let world = World::over(&left).await;
    let a = world.client(b"a").await;
    let fenced = a.read(&Grant::to(b"a").fh(), 0, 1).await;
    assert_eq!(fenced.unwrap_err(), NfsStatus::PnfsNoLayout);
    let removed = a.read(&Grant::to(b"a").file(FILE + 1).fh(), 0, 1).await;
    assert_eq!(removed.unwrap_err(), NfsStatus::Stale);
    disk.abort();
}

#[tokio::test(start_paused = true)]
async fn a_fence_is_not_answered_before_it_is_durable_nor_its_repetition() {
    let stores = Stores::manual();
    let disk = sync_always(&stores.index);
    let world = World::over(&stores).await;
    disk.abort();
    tokio::time::sleep(Duration::from_millis(5)).await;
    let args = control::FenceArgs {
        floors: vec![Floor::File {
            file_id: FILE,
            epoch: Epoch::new(BOOT, 2),
            through_key: 2,
        }]
        .into(),
    };
    let (first, second) = (world.mds.call(&args), world.mds.call(&args));
    tokio::pin!(first, second);
    let wait = Duration::from_millis(500);
    assert!(tokio::time::timeout(wait, &mut first).await.is_err());
    assert!(tokio::time::timeout(wait, &mut second).await.is_err());
    // Refused already, durable or not.
    let owner: Arc<[u8]> = Arc::from(&b"a"[..]);
    let fh = Grant::to(b"a").fh();
    let refused = world.ds().gate.admit(&fh, &owner, crate::gate::Want::Read);
    assert_eq!(refused.err(), Some(crate::gate::Refused::Fenced));
    stores.index.sync();
    first.await.unwrap();
    second.await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn a_failed_index_refuses_what_it_cannot_keep() {
    let stores = Stores::new();
    let world = World::over(&stores).await;
    let a = world.client(b"a").await;
    let fh = Grant::to(b"a").fh();
    a.write(&fh, 0, b"abc", StableHow::Unstable).await.unwrap();
    stores.index.fail(meta::MetaError::Poisoned);
    assert_eq!(a.commit(&fh).await.unwrap_err(), NfsStatus::Io);
    let floor = Floor::File {
        file_id: FILE,
        epoch: Epoch::new(BOOT, 2),
        through_key: 2,
    };
    for _ in 0..2 {
        let floors = vec![floor].into();
        let fenced = world.mds.call(&control::FenceArgs { floors }).await;
        assert_eq!(fenced.unwrap_err(), Status::Io);
    }
}

#[tokio::test(start_paused = true)]
async fn objects_of_another_index_are_not_touched() {
    let stores = Stores::new();
    {
        let world = World::over(&stores).await;
        let a = world.client(b"a").await;
        let fh = Grant::to(b"a").fh();
        a.write(&fh, 0, b"abc", StableHow::Unstable).await.unwrap();
    }
    let fresh: Arc<dyn MetaStore> = Arc::new(MemStore::new());
    let opened = open(fresh, stores.objects.clone()).await;
    assert!(matches!(
        opened.err(),
        Some(crate::OpenError::ObjectsWithoutIndex)
    ));
}

#[tokio::test(start_paused = true)]
async fn an_object_that_vanishes_before_its_first_commit_is_not_committed() {
    let stores = Stores::new();
    let world = World::over(&stores).await;
    let a = world.client(b"a").await;
    let fh = Grant::to(b"a").fh();
    a.write(&fh, 0, b"abcd", StableHow::Unstable).await.unwrap();
    let id = objects::ObjectId {
        file_id: FILE,
        generation: 1,
        place: 0,
    };
    stores.objects.remove(id).unwrap();
    assert_eq!(a.commit(&fh).await.unwrap_err(), NfsStatus::Io);
}
