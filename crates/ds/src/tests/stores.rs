//! What the index keeps of an overwrite, and what a full index still does (R9, R12).

use super::*;
use crate::announced::WINDOW;
use control::{FenceArgs, ObjectRef, RemoveItem, RemoveObjectsArgs, StatArgs, StatItem};
use meta::{MetaError, Purpose};

async fn stat(world: &World) -> StatItem {
    let objects = vec![ObjectRef {
        group: 0,
        file_id: FILE,
        generation: 1,
        place: 0,
    }];
    let args = StatArgs {
        objects: objects.into(),
    };
    world.mds.call(&args).await.unwrap().items.0[0]
}

fn floor() -> FenceArgs {
    let floor = Floor::File {
        file_id: FILE + 1,
        epoch: Epoch::new(BOOT, 2),
        through_key: 2,
    };
    FenceArgs {
        floors: vec![floor].into(),
    }
}

#[tokio::test(start_paused = true)]
async fn the_time_of_a_committed_overwrite_outlives_a_restart() {
    let stores = Stores::new();
    {
        let world = World::over(&stores).await;
        let a = world.client(b"a").await;
        let fh = Grant::to(b"a").fh();
        a.write(&fh, 0, b"abcd", StableHow::DataSync).await.unwrap();
        CLOCK_S.set(1_700_000_100);
        a.write(&fh, 0, b"ABCD", StableHow::Unstable).await.unwrap();
        a.commit(&fh).await.unwrap();
        assert_eq!(stat(&world).await.modified.seconds, 1_700_000_100);
    }
    let world = World::over(&stores).await;
    assert_eq!(stat(&world).await.modified.seconds, 1_700_000_100);
}

#[tokio::test(start_paused = true)]
async fn a_commit_without_a_write_changes_nothing() {
    let world = World::new().await;
    let a = world.client(b"a").await;
    let fh = Grant::to(b"a").fh();
    a.write(&fh, 0, b"abcd", StableHow::DataSync).await.unwrap();
    let before = world.ds().index.applied();
    a.commit(&fh).await.unwrap();
    assert_eq!(world.ds().index.applied(), before);
    a.write(&fh, 0, b"ABCD", StableHow::Unstable).await.unwrap();
    a.commit(&fh).await.unwrap();
    assert!(world.ds().index.applied() > before);
}

#[tokio::test(start_paused = true)]
async fn a_full_index_refuses_and_goes_on_when_there_is_room() {
    let stores = Stores::new();
    let world = World::over(&stores).await;
    let a = world.client(b"a").await;
    let fh = Grant::to(b"a").fh();
    a.write(&fh, 0, b"abc", StableHow::Unstable).await.unwrap();
    stores.index.admit_from(Purpose::Removal);
    assert_eq!(a.commit(&fh).await.unwrap_err(), NfsStatus::NoSpc);
    stores.index.admit_from(Purpose::Ordinary);
    a.commit(&fh).await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn what_is_written_already_is_committed_from_the_reserve() {
    let stores = Stores::new();
    let world = World::over(&stores).await;
    let a = world.client(b"a").await;
    let fh = Grant::to(b"a").fh();
    a.write(&fh, 0, b"abc", StableHow::Unstable).await.unwrap();
    stores.index.admit_from(Purpose::Upkeep);
    a.commit(&fh).await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn a_full_data_server_starts_reads_fences_and_removes() {
    let stores = Stores::new();
    let fh = Grant::to(b"a").fh();
    {
        let world = World::over(&stores).await;
        let a = world.client(b"a").await;
        a.write(&fh, 0, b"abc", StableHow::DataSync).await.unwrap();
    }
    stores.index.admit_from(Purpose::Removal);
    let world = World::over(&stores).await;
    let a = world.client(b"a").await;
    assert_eq!(a.read(&fh, 0, 3).await.unwrap().1, b"abc");
    world.mds.call(&floor()).await.unwrap();
    let items = vec![RemoveItem {
        places: 1,
        file_id: FILE,
        generation: 2,
        floor: Epoch::new(BOOT, 2),
        through_key: 2,
    }];
    let items = items.into();
    let removed = world.mds.call(&RemoveObjectsArgs { items }).await.unwrap();
    assert_eq!(removed.0, [Status::Ok]);
    assert_eq!(world.ds().status().objects_count, 0);
}

/// A store that takes a start and refuses what comes later while it is told to.
struct Full {
    inner: Arc<MemStore>,
    is_full: std::sync::atomic::AtomicBool,
}

impl meta::Read for Full {
    fn get(&self, key: &[u8]) -> Result<Option<Bytes>, MetaError> {
        self.inner.get(key)
    }
    fn scan(&self, start: &[u8], end: &[u8], limit: usize) -> Result<Vec<meta::Pair>, MetaError> {
        self.inner.scan(start, end, limit)
    }
}

impl MetaStore for Full {
    fn transact(&self, body: &mut meta::TxBody<'_>) -> Result<meta::Seq, MetaError> {
        if self.is_full.load(std::sync::atomic::Ordering::SeqCst) {
            return Err(MetaError::NoSpace);
        }
        self.inner.transact(body)
    }
    fn applied(&self) -> meta::Seq {
        self.inner.applied()
    }
    fn durable_through(&self) -> meta::Seq {
        self.inner.durable_through()
    }
    fn durable(&self, seq: meta::Seq) -> meta::BoxFuture<'_, Result<(), MetaError>> {
        self.inner.durable(seq)
    }
    fn disk_bytes(&self) -> u64 {
        0
    }
}

#[tokio::test(start_paused = true)]
async fn a_fence_that_a_full_index_refused_is_stored_before_it_is_acknowledged() {
    let stores = Stores::new();
    let index = Arc::new(Full {
        inner: stores.index.clone(),
        is_full: false.into(),
    });
    let world = World::with(index.clone(), stores.objects.clone(), Mds::new()).await;
    let set_full = |full| {
        index
            .is_full
            .store(full, std::sync::atomic::Ordering::SeqCst);
    };
    set_full(true);
    for _ in 0..2 {
        // Repeated, there is nothing left to raise in memory; the store still lacks it.
        let refused = world.mds.call(&floor()).await;
        assert_eq!(refused.unwrap_err(), Status::NoSpace);
    }
    set_full(false);
    world.mds.call(&floor()).await.unwrap();
    drop(world);
    let world = World::over(&stores).await;
    let a = world.client(b"a").await;
    let fenced = a.read(&Grant::to(b"a").file(FILE + 1).fh(), 0, 1).await;
    assert_eq!(fenced.unwrap_err(), NfsStatus::PnfsNoLayout);
}

#[tokio::test(start_paused = true)]
async fn an_overwrite_is_a_change_that_the_mds_is_told_of() {
    let stores = Stores::new();
    let world = World::over(&stores).await;
    let a = world.client(b"a").await;
    let fh = Grant::to(b"a").fh();
    let told = |world: &World| world.mds.state.lock().heartbeats.last().unwrap().changes;
    a.write(&fh, 0, b"abcd", StableHow::DataSync).await.unwrap();
    tokio::time::sleep(Duration::from_secs(2)).await;
    let before = told(&world);
    assert!(before > 0);
    a.write(&fh, 0, b"ABCD", StableHow::DataSync).await.unwrap();
    tokio::time::sleep(Duration::from_secs(2)).await;
    assert_eq!(told(&world), before + 1);
    drop(world);
    // A start is no change: a copy that is one start behind must not look like the store itself.
    let world = World::over(&stores).await;
    let hello = world.mds.state.lock().hellos[0].store;
    assert_eq!((hello.counter, hello.changes), (2, before + 1));
}

#[tokio::test(start_paused = true)]
async fn only_durable_changes_are_told() {
    let stores = Stores::manual();
    let index = stores.index.clone();
    let disk = tokio::spawn(async move {
        loop {
            index.sync();
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
    });
    let world = World::over(&stores).await;
    let a = world.client(b"a").await;
    disk.abort();
    tokio::time::sleep(Duration::from_millis(5)).await;
    let before = world.ds().index.durable_changes();
    let fh = Grant::to(b"a").fh();
    a.write(&fh, 0, b"abcd", StableHow::Unstable).await.unwrap();
    tokio::time::sleep(Duration::from_secs(2)).await;
    let told = world.mds.state.lock().heartbeats.last().unwrap().changes;
    assert_eq!(told, before);
    stores.index.sync();
    assert_eq!(world.ds().index.durable_changes(), before + 1);
}

#[tokio::test(start_paused = true)]
async fn a_commit_far_ahead_of_what_the_mds_knows_waits_for_it() {
    let world = World::new().await;
    let a = world.client(b"a").await;
    let fh = Grant::to(b"a").fh();
    a.write(&fh, 0, b"abcd", StableHow::Unstable).await.unwrap();
    world.mds.state.lock().takes_changes = false;
    for file_id in 0..WINDOW {
        let id = objects::ObjectId {
            file_id: FILE + 1 + file_id,
            generation: 1,
            place: 0,
        };
        let time = NfsTime::default();
        world
            .ds()
            .index
            .wrote(id, time, meta::Purpose::Upkeep)
            .unwrap();
    }
    assert_eq!(a.commit(&fh).await.unwrap_err(), NfsStatus::Delay);
    world.mds.state.lock().takes_changes = true;
    let beats = world.mds.state.lock().heartbeats.len();
    let before = tokio::time::Instant::now();
    a.commit(&fh).await.unwrap();
    // It did not wait for the time of the next heartbeat.
    assert_eq!(world.mds.state.lock().heartbeats.len(), beats + 1);
    assert!(before.elapsed() < Duration::from_millis(100));
}

#[tokio::test(start_paused = true)]
async fn a_change_is_told_a_second_after_the_last_heartbeat() {
    let (stores, mds) = (Stores::new(), Mds::new());
    mds.state.lock().lease_ms = 60_000;
    let world = World::with(stores.index, stores.objects, mds).await;
    tokio::time::sleep(Duration::from_secs(2)).await;
    let beats = || world.mds.state.lock().heartbeats.len();
    let before = beats();
    tokio::time::sleep(Duration::from_secs(10)).await;
    assert_eq!(beats(), before, "nothing to tell");
    let a = world.client(b"a").await;
    let fh = Grant::to(b"a").fh();
    for count in [1, 2] {
        a.write(&fh, 0, b"abcd", StableHow::DataSync).await.unwrap();
        tokio::time::sleep(Duration::from_millis(1100)).await;
        assert_eq!(beats(), before + count);
    }
}

#[tokio::test(start_paused = true)]
async fn a_stop_tells_the_mds_what_it_does_not_know() {
    let world = World::new().await;
    let a = world.client(b"a").await;
    let fh = Grant::to(b"a").fh();
    a.write(&fh, 0, b"abcd", StableHow::DataSync).await.unwrap();
    let beats = world.mds.state.lock().heartbeats.len();
    for _ in 0..2 {
        world.ds().announce_last().await.unwrap();
    }
    let heartbeats = world.mds.state.lock().heartbeats.clone();
    assert_eq!(heartbeats.len(), beats + 1);
    assert_eq!(
        heartbeats[beats].changes,
        world.ds().index.durable_changes()
    );
}
