//! Goal: with two copies, a disk that fails for one file, a full disk, and clocks that jump lose nothing and stop nobody.
//! Method: a metadata server and real data servers over stores in memory, time paused; the store of one of them is in trouble.
#![allow(
    clippy::unwrap_used,
    reason = "a failure here is the failure of a test"
)]

use crate::placement::set_policy;
use crate::replicas::until_level;
use crate::rig::cluster::Port;
use crate::rig::file::{File, patiently};
use crate::rig::real::{Real, bytes_of, fill, pattern, try_commit, try_write, write};
use crate::rig::{Client, Rig};
use meta::MemStore;
use nfs4::{NfsStatus, StableHow};
use objects::{
    Capacity, Content, MemObjects, MemOptions, ObjectError, ObjectId, ObjectStat, ObjectStore, Span,
};
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, AtomicU32, Ordering};
use std::time::Duration;
use tracing_mutex::parkinglot::Mutex;

/// What ails a disk.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Ailment {
    None,
    /// EIO for whatever is done with this file.
    File(u64),
    /// EIO for every sync.
    Syncs,
    /// Nothing more fits, although it says that there is room.
    Full,
    /// It says that so many bytes are free.
    Free(u64),
}

/// Objects in memory, on a disk that can be ill.
struct Disk {
    inner: MemObjects,
    ailment: Mutex<Ailment>,
    /// What found no room.
    refused: AtomicU32,
}

impl Disk {
    fn new() -> Arc<Self> {
        Arc::new(Self {
            inner: MemObjects::new(MemOptions::default()),
            ailment: Mutex::new(Ailment::None),
            refused: AtomicU32::new(0),
        })
    }

    fn touch(&self, id: ObjectId) -> Result<&MemObjects, ObjectError> {
        let ailment = *self.ailment.lock();
        match ailment {
            Ailment::File(file) if file == id.file_id => {
                Err(ObjectError::Io(std::io::Error::other("EIO")))
            }
            _ => Ok(&self.inner),
        }
    }

    fn add(&self, id: ObjectId) -> Result<&MemObjects, ObjectError> {
        let ailment = *self.ailment.lock();
        match ailment {
            Ailment::Full => {
                self.refused.fetch_add(1, Ordering::Relaxed);
                Err(ObjectError::NoSpace)
            }
            _ => self.touch(id),
        }
    }
}

impl ObjectStore for Disk {
    fn copied_bytes(&self) -> u64 {
        self.inner.copied_bytes()
    }
    fn read(&self, id: ObjectId, offset: u64, len: u32) -> Result<Span, ObjectError> {
        self.touch(id)?.read(id, offset, len)
    }
    fn write(&self, id: ObjectId, offset: u64, data: &[u8]) -> Result<(), ObjectError> {
        self.add(id)?.write(id, offset, data)
    }
    fn sync(&self, id: ObjectId) -> Result<(), ObjectError> {
        if *self.ailment.lock() == Ailment::Syncs {
            self.inner.fail_sync(id);
            return Err(ObjectError::Io(std::io::Error::other("EIO")));
        }
        self.touch(id)?.sync(id)
    }
    fn drop_unwritten(&self, id: ObjectId) -> Result<(), ObjectError> {
        self.inner.drop_unwritten(id)
    }
    fn stat(&self, id: ObjectId) -> Result<ObjectStat, ObjectError> {
        self.touch(id)?.stat(id)
    }
    fn seek(&self, id: ObjectId, offset: u64, what: Content) -> Result<Option<u64>, ObjectError> {
        self.touch(id)?.seek(id, offset, what)
    }
    fn punch(&self, id: ObjectId, offset: u64, len: u64) -> Result<(), ObjectError> {
        self.touch(id)?.punch(id, offset, len)
    }
    fn reserve(&self, id: ObjectId, offset: u64, len: u64) -> Result<(), ObjectError> {
        self.add(id)?.reserve(id, offset, len)
    }
    fn clone_range(
        &self,
        src: (ObjectId, u64),
        dst: (ObjectId, u64),
        len: u64,
    ) -> Result<(), ObjectError> {
        self.add(dst.0)?.clone_range(src, dst, len)
    }
    fn set_size(&self, id: ObjectId, size_bytes: u64) -> Result<(), ObjectError> {
        self.touch(id)?.set_size(id, size_bytes)
    }
    fn remove(&self, id: ObjectId) -> Result<(), ObjectError> {
        self.touch(id)?.remove(id)
    }
    fn is_cached(&self, _: ObjectId, _: u64, _: u32) -> bool {
        false
    }
    fn capacity(&self) -> Result<Capacity, ObjectError> {
        let capacity = self.inner.capacity()?;
        let ailment = *self.ailment.lock();
        Ok(match ailment {
            Ailment::Free(free_bytes) => Capacity {
                free_bytes,
                ..capacity
            },
            _ => capacity,
        })
    }
    fn list(&self, visit: &mut dyn FnMut(ObjectId, ObjectStat) -> bool) -> Result<(), ObjectError> {
        self.inner.list(visit)
    }
    fn tie(&self, index_id: u64, knows_objects: bool) -> Result<(), ObjectError> {
        self.inner.tie(index_id, knows_objects)
    }
    fn is_persistent(&self) -> bool {
        false
    }
}

/// A metadata server with this wall clock, and two data servers, the second one on this disk.
async fn two_servers(disk: &Arc<Disk>, clock_s: &Arc<AtomicI64>) -> (Rig, Port, [Real; 2]) {
    let rig = Rig::at(Arc::new(MemStore::new()), Arc::clone(clock_s)).await;
    let port = Port::open(&rig);
    let mut servers = [Real::new(1), Real::new(2)];
    servers[1].objects = disk.clone();
    for (server, seed) in servers.iter_mut().zip(1..) {
        server.clock_s = Arc::clone(clock_s);
        server.start(&rig, &port, seed).await;
    }
    tokio::time::sleep(Duration::from_secs(3)).await;
    (rig, port, servers)
}

/// A user of files with two copies.
async fn alice(rig: &Rig) -> Client {
    let alice = rig.session("alice").await;
    let root = alice.lookup(&[]).await.unwrap();
    let set = set_policy(&alice, &root, "copies=2 inline_max=0");
    set.await.unwrap();
    alice
}

/// A file that both data servers have.
async fn copied<'a>(rig: &Rig, alice: &'a Client, name: &str, model: &[u8]) -> File<'a> {
    let file = File::create(alice, name).await;
    fill(&file, 0, model).await;
    patiently(|| try_commit(&file)).await.unwrap();
    until_level(rig).await;
    file
}

/// Writes durably, and into the model.
async fn overwrite(file: &File<'_>, model: &mut [u8], at: usize, text: &[u8]) {
    write(file, at as u64, StableHow::FileSync, text).await;
    model[at..at + text.len()].copy_from_slice(text);
}

/// Each data server alone has every byte.
async fn each_has_all(
    (rig, port): (&Rig, &Port),
    servers: &mut [Real; 2],
    files: [(&File<'_>, &[u8]); 2],
) {
    for (turn, server) in servers.iter_mut().enumerate() {
        until_level(rig).await;
        server.stop().await;
        for (file, model) in files {
            assert!(
                bytes_of(file, 0, usize::MAX).await == model,
                "without {turn}"
            );
        }
        server.start(rig, port, 50 + turn as u64).await;
    }
}

#[tokio::test(start_paused = true)]
async fn a_disk_that_fails_for_one_file_loses_nothing_of_it_and_is_no_error_to_clients() {
    let (disk, clock_s) = (Disk::new(), Arc::new(AtomicI64::new(1_000_000)));
    let (rig, port, mut servers) = two_servers(&disk, &clock_s).await;
    let alice = alice(&rig).await;
    let (mut first_model, mut other_model) = (pattern(200_000), pattern(150_000));
    let first = copied(&rig, &alice, "first", &first_model).await;
    let mut id = 0;
    let note = &mut |object: ObjectId, _| {
        id = object.file_id;
        true
    };
    disk.inner.list(note).unwrap();
    assert_ne!(id, 0, "the disk has an object of the first file");
    let other = copied(&rig, &alice, "other", &other_model).await;
    assert!(places(&rig).contains("primary: 2"), "{}", places(&rig));

    *disk.ailment.lock() = Ailment::File(id);
    let since = tokio::time::Instant::now();
    for turn in 0..4 {
        let (at, text) = (45_000 * turn, format!("written at turn {turn}"));
        // Only DELAY makes it try again.
        overwrite(&first, &mut first_model, at, text.as_bytes()).await;
    }
    assert!(since.elapsed() < Duration::from_secs(10), "they are held");
    assert!(!places(&rig).contains("primary: 2"), "{}", places(&rig));
    overwrite(&other, &mut other_model, 7, b"the other file goes on").await;
    *disk.ailment.lock() = Ailment::None;
    let files: [(&File<'_>, &[u8]); 2] = [(&first, &first_model), (&other, &other_model)];
    each_has_all((&rig, &port), &mut servers, files).await;
}

#[tokio::test(start_paused = true)]
async fn a_member_whose_sync_failed_is_filled_without_a_restart() {
    let (disk, clock_s) = (Disk::new(), Arc::new(AtomicI64::new(1_000_000)));
    let rig = Rig::at(Arc::new(MemStore::new()), Arc::clone(&clock_s)).await;
    let port = Port::open(&rig);
    let mut servers = [Real::new(1), Real::new(2)];
    servers[1].objects = disk.clone();
    // Its records of a part outlive a sync of the part that fails.
    servers[1].redo = Some(Arc::new(redo::MemRedo::new(1 << 20)));
    for (server, seed) in servers.iter_mut().zip(1..) {
        server.clock_s = Arc::clone(&clock_s);
        server.start(&rig, &port, seed).await;
    }
    tokio::time::sleep(Duration::from_secs(3)).await;
    let alice = alice(&rig).await;
    let (mut first_model, other_model) = (pattern(200_000), pattern(150_000));
    let first = copied(&rig, &alice, "first", &first_model).await;
    let other = copied(&rig, &alice, "other", &other_model).await;
    let before = places(&rig);

    *disk.ailment.lock() = Ailment::Syncs;
    for at in [0, 70_000, 140_000] {
        overwrite(&first, &mut first_model, at, b"durable by its record").await;
        // The first tick finds the records, the second one syncs what is older than that.
        for _ in 0..2 {
            servers[1].nfsd.as_ref().unwrap().role().tick().await;
            tokio::time::sleep(Duration::from_secs(1)).await;
        }
    }
    assert_ne!(places(&rig), before, "one member is left out");
    *disk.ailment.lock() = Ailment::None;
    until_level(&rig).await;
    let files: [(&File<'_>, &[u8]); 2] = [(&first, &first_model), (&other, &other_model)];
    each_has_all((&rig, &port), &mut servers, files).await;
}

/// What is known of places.
fn places(rig: &Rig) -> String {
    format!("{:?}", rig.nfsd.role().fs().cluster().status().places)
}

#[tokio::test(start_paused = true)]
async fn a_full_member_stays_in_sync_and_promises_fail_until_it_has_room() {
    let (disk, clock_s) = (Disk::new(), Arc::new(AtomicI64::new(1_000_000)));
    let (rig, port, mut servers) = two_servers(&disk, &clock_s).await;
    let alice = alice(&rig).await;
    let (mut first_model, other_model) = (pattern(200_000), pattern(150_000));
    let first = copied(&rig, &alice, "first", &first_model).await;
    let other = copied(&rig, &alice, "other", &other_model).await;
    let before = places(&rig);

    *disk.ailment.lock() = Ailment::Full;
    let texts: Vec<_> = (0..4)
        .map(|turn| (45_000 * turn, format!("turn {turn}")))
        .collect();
    for (at, text) in &texts {
        let done = try_write(&first, *at as u64, StableHow::FileSync, text.as_bytes());
        assert_eq!(done.await.err(), Some(NfsStatus::NoSpc), "at {at}");
        tokio::time::sleep(Duration::from_secs(10)).await;
        assert_eq!(places(&rig), before, "nobody is left out");
    }
    // It lacks something, so nothing more is applied.
    let done = try_write(&other, 0, StableHow::Unstable, b"no room for this");
    assert_eq!(done.await.err(), Some(NfsStatus::NoSpc));
    assert!(bytes_of(&other, 0, usize::MAX).await == other_model);
    *disk.ailment.lock() = Ailment::None;
    tokio::time::sleep(Duration::from_secs(3)).await;
    for (at, text) in texts {
        overwrite(&first, &mut first_model, at, text.as_bytes()).await;
    }
    assert_eq!(places(&rig), before);
    let files: [(&File<'_>, &[u8]); 2] = [(&first, &first_model), (&other, &other_model)];
    each_has_all((&rig, &port), &mut servers, files).await;
}

#[tokio::test(start_paused = true)]
async fn what_has_no_room_at_a_member_is_refused_before_it_is_applied() {
    let (disk, clock_s) = (Disk::new(), Arc::new(AtomicI64::new(1_000_000)));
    let (rig, port, mut servers) = two_servers(&disk, &clock_s).await;
    let alice = alice(&rig).await;
    let (mut first_model, other_model) = (pattern(200_000), pattern(150_000));
    let first = copied(&rig, &alice, "first", &first_model).await;
    let other = copied(&rig, &alice, "other", &other_model).await;
    let before = places(&rig);

    // What it keeps for items that were let in already, and little more.
    let kept = disk.inner.capacity().unwrap().total_bytes / 64;
    *disk.ailment.lock() = Ailment::Free(kept + 1000);
    tokio::time::sleep(Duration::from_secs(1)).await;
    for at in [10, 100_000] {
        overwrite(&first, &mut first_model, at, b"this fits everywhere").await;
    }
    tokio::time::sleep(Duration::from_secs(1)).await;
    for at in [0, 70_000, 140_000] {
        let done = try_write(&first, at, StableHow::Unstable, &[7; 2000]);
        assert_eq!(done.await.err(), Some(NfsStatus::NoSpc), "at {at}");
    }
    assert!(bytes_of(&first, 0, usize::MAX).await == first_model);
    assert_eq!(places(&rig), before);

    *disk.ailment.lock() = Ailment::None;
    tokio::time::sleep(Duration::from_secs(1)).await;
    for at in [0, 70_000, 140_000] {
        overwrite(&first, &mut first_model, at, &[7; 2000]).await;
    }
    let files: [(&File<'_>, &[u8]); 2] = [(&first, &first_model), (&other, &other_model)];
    each_has_all((&rig, &port), &mut servers, files).await;
}

#[tokio::test(start_paused = true)]
async fn a_filling_whose_member_is_full_is_tried_again_with_growing_pauses() {
    let (disk, clock_s) = (Disk::new(), Arc::new(AtomicI64::new(1_000_000)));
    let (rig, port, mut servers) = two_servers(&disk, &clock_s).await;
    let alice = alice(&rig).await;
    let (mut first_model, other_model) = (pattern(200_000), pattern(150_000));
    let first = copied(&rig, &alice, "first", &first_model).await;
    let other = copied(&rig, &alice, "other", &other_model).await;
    servers[1].stop().await;
    for at in [10, 70_000, 140_000] {
        overwrite(&first, &mut first_model, at, b"written to one alone").await;
    }
    *disk.ailment.lock() = Ailment::Full;
    servers[1].start(&rig, &port, 70).await;
    tokio::time::sleep(Duration::from_secs(120)).await;
    let refused = || disk.refused.load(Ordering::Relaxed);
    let before = refused();
    tokio::time::sleep(Duration::from_secs(300)).await;
    // Five fillings of each of two places; each has few blocks to send.
    let tries = refused() - before;
    assert!((5..=40).contains(&tries), "{tries} writes in 300 s");
    *disk.ailment.lock() = Ailment::None;
    let files: [(&File<'_>, &[u8]); 2] = [(&first, &first_model), (&other, &other_model)];
    each_has_all((&rig, &port), &mut servers, files).await;
}

#[tokio::test(start_paused = true)]
async fn clocks_that_jump_by_hours_end_no_lease_and_move_no_place() {
    let (disk, clock_s) = (Disk::new(), Arc::new(AtomicI64::new(1_000_000)));
    let (rig, port, mut servers) = two_servers(&disk, &clock_s).await;
    let alice = alice(&rig).await;
    let (mut first_model, other_model) = (pattern(200_000), pattern(10_000));
    let first = copied(&rig, &alice, "first", &first_model).await;
    let other = copied(&rig, &alice, "other", &other_model).await;
    let before = places(&rig);
    for (turn, jump_s) in [10 * 3600, -20 * 3600, 400 * 86_400]
        .into_iter()
        .enumerate()
    {
        clock_s.fetch_add(jump_s, Ordering::Relaxed);
        tokio::time::sleep(Duration::from_secs(20)).await;
        overwrite(&first, &mut first_model, 60_000 * turn, b"after a jump").await;
        assert_eq!(places(&rig), before, "after a jump by {jump_s} s");
    }
    let files: [(&File<'_>, &[u8]); 2] = [(&first, &first_model), (&other, &other_model)];
    each_has_all((&rig, &port), &mut servers, files).await;
}
