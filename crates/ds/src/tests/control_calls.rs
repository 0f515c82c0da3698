//! STAT, COMMIT, SET_SIZE by the MDS (R1, R3, R9, R11), and an object store whose sync fails.

use super::*;
use control::{CommitObjectsArgs, ObjectRef, SetSizeArgs, SetSizeItem, StatArgs, StatItem};
use objects::{Capacity, Content, ObjectError, ObjectId, ObjectStat, Span};
use std::sync::atomic::{AtomicU32, Ordering::SeqCst};

/// More than a redo record takes.
const LARGE_BYTES: usize = 128 << 10;
const OBJECT: ObjectRef = ObjectRef {
    group: 0,
    file_id: FILE,
    generation: 1,
    place: 0,
};

async fn stat(world: &World) -> StatItem {
    let objects = vec![OBJECT].into();
    world.mds.call(&StatArgs { objects }).await.unwrap().items.0[0]
}

async fn set_size(world: &World, size_bytes: u64, epoch: u32) {
    let items = vec![SetSizeItem {
        object: OBJECT,
        size_bytes,
        floor: Epoch::new(BOOT, epoch),
        through_key: 2,
    }];
    let items = items.into();
    let statuses = world.mds.call(&SetSizeArgs { items }).await.unwrap();
    assert_eq!(statuses.0, [Status::Ok]);
}

#[tokio::test(start_paused = true)]
async fn stat_tells_size_durable_size_and_time() {
    let world = World::new().await;
    let a = world.client(b"a").await;
    let fh = Grant::to(b"a").fh();
    assert_eq!(stat(&world).await.status, Status::NotFound);
    a.write(&fh, 0, b"abcd", StableHow::DataSync).await.unwrap();
    a.write(&fh, 4, b"ef", StableHow::Unstable).await.unwrap();
    let item = stat(&world).await;
    assert_eq!(
        (item.status, item.size_bytes, item.durable_bytes),
        (Status::Ok, 6, 4)
    );
    assert_eq!(item.modified.seconds, 1_700_000_000);
    let objects = vec![OBJECT].into();
    let done = world
        .mds
        .call(&CommitObjectsArgs { objects })
        .await
        .unwrap();
    assert_eq!(
        (done.statuses.0, done.verifier),
        (vec![Status::Ok], world.ds().verifier())
    );
    assert_eq!(stat(&world).await.durable_bytes, 6);
}

#[tokio::test(start_paused = true)]
async fn a_stable_write_of_nothing_by_the_mds_alone_makes_the_object() {
    let world = World::new().await;
    let a = world.client(b"a").await;
    let of_a = Grant::to(b"a").fh();
    a.write(&of_a, 0, b"", StableHow::FileSync).await.unwrap();
    assert_eq!(world.ds().status().objects_count, 0);
    let mds = world.client(b"mds").await;
    let fh = Grant::to(b"mds").fh();
    for _ in 0..2 {
        let made = mds.write(&fh, 0, b"", StableHow::DataSync).await.unwrap();
        assert_eq!((made.count, made.committed), (0, StableHow::DataSync));
    }
    assert_eq!(
        (stat(&world).await.status, stat(&world).await.size_bytes),
        (Status::Ok, 0)
    );
    assert_eq!(world.ds().status().objects_count, 1);
}

/// Objects in memory whose syncs wait until the test lets them go on.
struct Held {
    inner: MemObjects,
    /// Says that a sync has come.
    come: std::sync::mpsc::SyncSender<()>,
    /// Ends the wait.
    go: Mutex<std::sync::mpsc::Receiver<()>>,
}

#[tokio::test]
async fn a_removal_that_overtakes_a_creation_leaves_nothing() {
    let (come, has_come) = std::sync::mpsc::sync_channel(1);
    let (go, gone) = std::sync::mpsc::sync_channel(1);
    let held = Arc::new(Held {
        inner: MemObjects::new(MemOptions::default()),
        come,
        go: Mutex::new(gone),
    });
    let world = World::offloaded(Arc::new(MemStore::new()), held.clone()).await;
    let mds = world.client(b"mds").await;
    let fh = Grant::to(b"mds").fh();
    let creation = mds.write(&fh, 0, b"", StableHow::DataSync);
    let items = vec![control::RemoveItem {
        places: 1,
        file_id: FILE,
        generation: 2,
        floor: Epoch::new(BOOT, 2),
        through_key: 2,
    }];
    let items = items.into();
    let args = control::RemoveObjectsArgs { items };
    let removal = async {
        let until_come = move || has_come.recv().unwrap();
        tokio::task::spawn_blocking(until_come).await.unwrap();
        world.mds.call(&args).await
    };
    let release = async {
        let is_removed = || world.ds().gate.with_floors(|f| f.is_removed(FILE, 1));
        while !is_removed() {
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
        go.send(()).unwrap();
    };
    let (made, removed, ()) = tokio::join!(creation, removal, release);
    assert_eq!(made.unwrap().committed, StableHow::DataSync);
    assert_eq!(removed.unwrap().0, [Status::Ok]);
    let mut objects = 0;
    let mut visit = |_, _| {
        objects += 1;
        true
    };
    held.inner.list(&mut visit).unwrap();
    assert_eq!((objects, world.ds().status().objects_count), (0, 0));
}

#[tokio::test(start_paused = true)]
async fn a_cut_object_is_short_and_not_lost() {
    let stores = Stores::new();
    let world = World::over(&stores).await;
    let a = world.client(b"a").await;
    a.write(&Grant::to(b"a").fh(), 0, b"abcd", StableHow::DataSync)
        .await
        .unwrap();
    set_size(&world, 2, 2).await;
    // Repeated, and one that is longer than the object: both take nothing.
    set_size(&world, 2, 2).await;
    set_size(&world, 9, 3).await;
    world.mds.state.lock().sizes.insert(FILE, 9);
    let old = a.read(&Grant::to(b"a").fh(), 0, 4).await;
    assert_eq!(old.unwrap_err(), NfsStatus::PnfsNoLayout);
    let fh = Grant::to(b"a").epoch(3).fh();
    assert_eq!(
        a.read(&fh, 0, 10).await.unwrap(),
        (true, b"ab\0\0\0\0\0\0\0".to_vec())
    );
    let world = World::over(&stores).await;
    let item = stat(&world).await;
    assert_eq!(
        (item.status, item.size_bytes, item.durable_bytes),
        (Status::Ok, 9, 2)
    );
    assert_eq!(world.ds().status().objects_lost, 0);
}

/// Objects in memory whose sync can be made to fail.
pub(super) struct Failing {
    pub(super) inner: Arc<MemObjects>,
    /// Syncs that are still to fail.
    pub(super) failures: AtomicU32,
    /// Writes that are still to succeed.
    pub(super) writes: AtomicU32,
}

/// What stores that wrap another leave as it is.
macro_rules! as_inner {
    () => {
        fn copied_bytes(&self) -> u64 {
            self.inner.copied_bytes()
        }
        fn read(&self, id: ObjectId, offset: u64, len: u32) -> Result<Span, ObjectError> {
            self.inner.read(id, offset, len)
        }
        fn stat(&self, id: ObjectId) -> Result<ObjectStat, ObjectError> {
            self.inner.stat(id)
        }
        fn seek(
            &self,
            id: ObjectId,
            offset: u64,
            what: Content,
        ) -> Result<Option<u64>, ObjectError> {
            self.inner.seek(id, offset, what)
        }
        fn punch(&self, id: ObjectId, offset: u64, len: u64) -> Result<(), ObjectError> {
            self.inner.punch(id, offset, len)
        }
        fn reserve(&self, id: ObjectId, offset: u64, len: u64) -> Result<(), ObjectError> {
            self.inner.reserve(id, offset, len)
        }
        fn clone_range(
            &self,
            src: (ObjectId, u64),
            dst: (ObjectId, u64),
            len: u64,
        ) -> Result<(), ObjectError> {
            self.inner.clone_range(src, dst, len)
        }
        fn set_size(&self, id: ObjectId, size_bytes: u64) -> Result<(), ObjectError> {
            self.inner.set_size(id, size_bytes)
        }
        fn drop_unwritten(&self, id: ObjectId) -> Result<(), ObjectError> {
            self.inner.drop_unwritten(id)
        }
        fn remove(&self, id: ObjectId) -> Result<(), ObjectError> {
            self.inner.remove(id)
        }
        fn is_cached(&self, _: ObjectId, _: u64, _: u32) -> bool {
            false
        }
        fn capacity(&self) -> Result<Capacity, ObjectError> {
            self.inner.capacity()
        }
        fn list(
            &self,
            visit: &mut dyn FnMut(ObjectId, ObjectStat) -> bool,
        ) -> Result<(), ObjectError> {
            self.inner.list(visit)
        }
        fn tie(&self, index_id: u64, knows_objects: bool) -> Result<(), ObjectError> {
            self.inner.tie(index_id, knows_objects)
        }
        fn is_persistent(&self) -> bool {
            false
        }
    };
}

impl Failing {
    pub(super) fn over(inner: Arc<MemObjects>) -> Arc<Self> {
        Arc::new(Self {
            inner,
            failures: AtomicU32::new(0),
            writes: AtomicU32::new(u32::MAX),
        })
    }
}

/// Takes one of what is left. Returns false when nothing is.
fn take(left: &AtomicU32) -> bool {
    left.fetch_update(SeqCst, SeqCst, |left| left.checked_sub(1))
        .is_ok()
}

impl ObjectStore for Failing {
    as_inner!();
    fn write(&self, id: ObjectId, offset: u64, data: &[u8]) -> Result<(), ObjectError> {
        match take(&self.writes) {
            true => self.inner.write(id, offset, data),
            false => Err(ObjectError::Io(std::io::ErrorKind::Other.into())),
        }
    }
    fn sync(&self, id: ObjectId) -> Result<(), ObjectError> {
        if take(&self.failures) {
            self.inner.fail_sync(id);
            return Err(ObjectError::Io(std::io::ErrorKind::Other.into()));
        }
        self.inner.sync(id)
    }
}

impl ObjectStore for Held {
    as_inner!();
    fn write(&self, id: ObjectId, offset: u64, data: &[u8]) -> Result<(), ObjectError> {
        self.inner.write(id, offset, data)
    }
    fn sync(&self, id: ObjectId) -> Result<(), ObjectError> {
        self.come.send(()).unwrap();
        self.go.lock().recv().unwrap();
        self.inner.sync(id)
    }
}

#[tokio::test(start_paused = true)]
async fn a_failed_sync_changes_the_verifier_and_memory_forgets_what_it_did_not_write() {
    let objects = Failing::over(Arc::new(MemObjects::new(MemOptions {
        manual: true,
        ..MemOptions::default()
    })));
    let world = World::with(Arc::new(MemStore::new()), objects.clone(), Mds::new()).await;
    let a = world.client(b"a").await;
    let fh = Grant::to(b"a").fh();
    let before = a.write(&fh, 0, b"abc", StableHow::DataSync).await.unwrap();
    objects.failures.store(1, SeqCst);
    let wrote = a.write(&fh, 0, b"xyz", StableHow::DataSync).await;
    assert_eq!(wrote.unwrap_err(), NfsStatus::Io);
    let after = a.commit(&fh).await.unwrap();
    assert_ne!(after, before.write_verifier);
    assert_eq!(a.commit(&fh).await.unwrap(), after);
    assert_eq!(world.ds().status().io_errors, 1);
    let (_, read) = a.read(&fh, 0, 3).await.unwrap();
    assert_eq!(read, b"abc", "no later sync writes the other bytes");
}

#[tokio::test]
async fn a_stable_write_whose_bytes_a_failed_sync_took_is_not_acknowledged() {
    let stores = Stores::new();
    let objects = Failing::over(stores.objects.clone());
    objects.failures.store(1, SeqCst);
    let world = World::with(stores.index.clone(), objects, Mds::new()).await;
    let a = world.client(b"a").await;
    let fh = Grant::to(b"a").fh();
    let write = async |offset| {
        let data = vec![7; LARGE_BYTES];
        a.write(&fh, offset, &data, StableHow::FileSync).await
    };
    // Both are applied before the first sync, which fails.
    let order = world.ds().stripe(FILE).lock().await;
    let release = async {
        let end = 2 * LARGE_BYTES as u64;
        let size = || {
            stores
                .objects
                .stat(super::stable_writes::ID)
                .map_or(0, |stat| stat.size_bytes)
        };
        while size() < end {
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
        drop(order);
    };
    let (first, second, ()) = tokio::join!(write(0), write(LARGE_BYTES as u64), release);
    let mut results = [first.map(drop), second.map(drop)];
    results.sort_by_key(|result| *result != Err(NfsStatus::Io));
    assert_eq!(results, [Err(NfsStatus::Io), Err(NfsStatus::Delay)]);
}

#[tokio::test]
async fn cold_reads_and_syncs_run_on_other_threads() {
    let objects = Failing::over(Arc::new(MemObjects::new(MemOptions::default())));
    let world = World::offloaded(Arc::new(MemStore::new()), objects).await;
    let a = world.client(b"a").await;
    let fh = Grant::to(b"a").fh();
    a.write(&fh, 0, b"abc", StableHow::DataSync).await.unwrap();
    assert_eq!(a.read(&fh, 0, 3).await.unwrap(), (false, b"abc".to_vec()));
    assert_eq!(world.ds().status().cold_reads, 1);
}

#[tokio::test(start_paused = true)]
async fn a_report_tells_what_storage_came_since_the_mds_last_knew() {
    let world = World::new().await;
    let a = world.client(b"a").await;
    let fh = Grant::to(b"a").fh();
    let taken = async |offset, bytes: &[u8]| {
        let wrote = a.write(&fh, offset, bytes, StableHow::FileSync).await;
        let told = world.mds.state.lock().wrote.last().unwrap().taken_bytes;
        wrote.map(|_| told)
    };
    // Of a new object all is told.
    let first = taken(0, b"abc").await.unwrap().unwrap();
    assert_eq!(first, stat(&world).await.space_bytes);
    assert_eq!(taken(0, b"xyz").await.unwrap(), Some(0), "it was there");
    let more = taken(1 << 20, b"far").await.unwrap().unwrap();
    assert!(more > 0);
    assert_eq!(first + more, stat(&world).await.space_bytes);
    // What was not taken in is not told again in part: the MDS asks.
    world.mds.state.lock().refuse_wrote = Some(Status::TryLater);
    assert!(taken(2 << 20, b"lost").await.is_err());
    world.mds.state.lock().refuse_wrote = None;
    assert_eq!(taken(2 << 20, b"lost").await.unwrap(), None);
    stat(&world).await;
    assert_eq!(taken(2 << 20, b"told").await.unwrap(), Some(0));
}
