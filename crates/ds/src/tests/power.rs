//! Goal: a power cut at any call of a data server, under its index, its objects and what ties them, takes nothing that
//! was acknowledged. Method: `powercut` records this test as its own workload. It writes, commits, cuts, punches,
//! reserves, creates, removes and fences several files at once. Each act is said before it begins and when it is
//! answered. A data server over what a cut left must have what was answered. Of the rest it has no byte that was never
//! written, and nothing to report as lost.

use super::*;
use meta_fjall::FjallStore;
use objects_dir::DirObjects;
use powercut::{Dice, ack, record, scratch, workload};
use ring_log::FileRedo;

mod model;

use model::{Act, Model, Name};

/// Points in the short form.
const POINTS: usize = 60;
const POINTS_PER_RECORDING: usize = 30;
/// Recordings in one line, each in what a cut of the one before left.
const LINE: u64 = 3;
/// Data server processes in one recording.
const STARTS: u64 = 2;
/// Streams of work in one process, each on files of its own.
const TASKS: u64 = 3;
const FILES_PER_TASK: u64 = 2;
const ACTS_PER_TASK: u64 = 14;
/// Epochs and generations of recordings are this far apart.
const STEP: u32 = 1000;
const STRIPE_UNIT_BYTES: u32 = 64 * 1024;
const LONG_LEASE_MS: u32 = 600_000;

fn runtime() -> tokio::runtime::Runtime {
    let mut builder = tokio::runtime::Builder::new_current_thread();
    builder.enable_all().build().unwrap()
}

fn seed_number(seed: u64) -> u32 {
    u32::try_from(seed).unwrap()
}

/// A data server in `root` that does not lose its lease, however slow the machine. `at` says in which cut, when it does not open.
async fn daemon(root: &std::path::Path, at: &str) -> World {
    let options = meta_fjall::Options {
        reserve_bytes: 0,
        ..meta_fjall::Options::default()
    };
    let index = FjallStore::open(&root.join("index"), options);
    let index = index.unwrap_or_else(|e| panic!("{at}: the index: {e}"));
    let options = objects_dir::Options {
        reserve_bytes: 0,
        ..objects_dir::Options::default()
    };
    let objects = DirObjects::open(&root.join("objects"), options);
    let objects = objects.unwrap_or_else(|e| panic!("{at}: the objects: {e}"));
    let log = FileRedo::open(&root.join("redo.log"), ring_log::CAPACITY_BYTES_MIN);
    let log = log.unwrap_or_else(|e| panic!("{at}: {e}"));
    let disks: Disks = (Arc::new(index), Arc::new(objects), Some(Arc::new(log)));
    let nfsd = open_with(disks, true).await;
    let nfsd = nfsd.unwrap_or_else(|e| panic!("{at}: {e}"));
    let mds = Mds::new();
    {
        let mut state = mds.state.lock();
        state.lease_ms = LONG_LEASE_MS;
        // Beyond every object: a READ of what is not there is a hole.
        let files = 1..=TASKS * FILES_PER_TASK;
        state.sizes = files.map(|file| (file, u64::from(u32::MAX))).collect();
    }
    let world = World::around(nfsd, mds);
    world.until_serving().await;
    world
}

/// What a file's handles say now.
struct Target {
    name: Name,
    epoch: u32,
}

impl Target {
    fn fh(&self) -> Vec<u8> {
        grant(self.name, self.epoch).fh()
    }

    /// As the MDS itself has it.
    fn fh_of_mds(&self) -> Vec<u8> {
        let mut grant = grant(self.name, self.epoch);
        grant.handle.client = layout::ClientTag::of(CLUSTER, b"mds");
        grant.fh()
    }

    fn object(&self) -> control::ObjectRef {
        control::ObjectRef {
            group: 0,
            file_id: self.name.file_id,
            generation: self.name.generation,
            place: 0,
        }
    }
}

fn grant(name: Name, epoch: u32) -> Grant {
    let mut grant = Grant::to(b"a").file(name.file_id).epoch(epoch);
    grant.handle.generation = name.generation;
    grant
}

/// Who sends NFS requests.
struct Peers {
    client: Client,
    mds: Client,
}

async fn perform(world: &World, Peers { client, mds }: &Peers, target: &mut Target, act: Act) {
    match act {
        Act::Write {
            offset,
            len,
            fill,
            stable,
        } => {
            let data = vec![fill; usize::try_from(len).unwrap()];
            let stable = match stable {
                0 => StableHow::Unstable,
                1 => StableHow::DataSync,
                _ => StableHow::FileSync,
            };
            let wrote = client.write(&target.fh(), offset, &data, stable).await;
            wrote.unwrap();
        }
        Act::Commit => {
            client.commit(&target.fh()).await.unwrap();
        }
        Act::Cut { size_bytes, epoch } => {
            world.cut(target.object(), size_bytes, epoch).await;
            target.epoch = epoch;
        }
        Act::Fence { epoch } => {
            let floor = Floor::File {
                file_id: target.name.file_id,
                epoch: Epoch::new(BOOT, epoch),
                through_key: 2,
            };
            world.mds.fence(floor).await;
            target.epoch = epoch;
        }
        Act::Remove { generation, epoch } => {
            let items = vec![control::RemoveItem {
                places: 1,
                file_id: target.name.file_id,
                generation,
                floor: Epoch::new(BOOT, epoch),
                through_key: 2,
            }];
            let items = items.into();
            let removed = world.mds.call(&control::RemoveObjectsArgs { items }).await;
            assert_eq!(removed.unwrap().0, [Status::Ok]);
            target.name.generation = generation;
            target.epoch = epoch;
        }
        Act::Create => {
            let fh = target.fh_of_mds();
            let made = mds.write(&fh, 0, b"", StableHow::DataSync).await;
            assert_eq!(made.unwrap().committed, StableHow::DataSync);
        }
        Act::Punch { .. } | Act::Reserve { .. } => {
            perform_on(world, target.object(), act).await;
        }
    }
}

/// What the MDS does to an object that keeps its handles.
async fn perform_on(world: &World, object: control::ObjectRef, act: Act) {
    match act {
        Act::Punch {
            start,
            end,
            durable,
        } => {
            let args = control::PunchArgs {
                object,
                range: control::Range { start, end },
                durable,
            };
            world.mds.call(&args).await.unwrap();
        }
        Act::Reserve { start, end } => {
            let alone = layout::Striping::new(STRIPE_UNIT_BYTES, 1, 0).unwrap();
            let args = control::ReserveArgs {
                object,
                stripes: control::Stripes::of(alone, 0),
                range: control::Range { start, end },
            };
            assert_eq!(world.mds.call(&args).await.unwrap().through, end);
        }
        other => panic!("{other}"),
    }
}

/// One stream's work on its files.
async fn client_work(world: &World, peers: &Peers, targets: &mut [Target], dice: &mut Dice) {
    for _ in 0..ACTS_PER_TASK {
        let target = &mut targets[dice.below(usize::try_from(FILES_PER_TASK).unwrap())];
        let act = Act::any(dice, target.name.generation, target.epoch);
        ack(&format!("{} begins {act}", target.name));
        let name = target.name;
        perform(world, peers, target, act).await;
        ack(&format!("{name} ends"));
        if dice.one_in(6) {
            world.ds().tick().await;
        }
        // What the MDS has heard of is promised too.
        let told = world.mds.state.lock().heartbeats.last().map(|h| h.changes);
        ack(&format!("told {}", told.unwrap_or(0)));
    }
}

fn work(root: &std::path::Path, seed: u64) {
    let number = seed_number(seed);
    let dice = &mut Dice::new(seed);
    let mut targets: Vec<Vec<Target>> = (0..TASKS)
        .map(|task| {
            let target = |file| Target {
                name: Name {
                    file_id: 1 + task * FILES_PER_TASK + file,
                    generation: 1 + number * STEP,
                },
                epoch: 1 + number * STEP,
            };
            (0..FILES_PER_TASK).map(target).collect()
        })
        .collect();
    for _ in 0..STARTS {
        runtime().block_on(async {
            let world = daemon(root, &format!("the workload of seed {seed}")).await;
            ack(&format!("store {}", world.ds().store_id()));
            let peers = Peers {
                client: world.client(b"a").await,
                mds: world.client(b"mds").await,
            };
            let mut each = targets.iter_mut();
            let mut next = || (each.next().unwrap(), Dice::new(dice.roll(u64::MAX)));
            let ((a, da), (b, db), (c, dc)) = (&mut next(), &mut next(), &mut next());
            tokio::join!(
                client_work(&world, &peers, a, da),
                client_work(&world, &peers, b, db),
                client_work(&world, &peers, c, dc)
            );
        });
    }
}

async fn stat(world: &World, name: Name, epoch: u32) -> control::StatItem {
    let objects = vec![Target { name, epoch }.object()].into();
    let found = world.mds.call(&control::StatArgs { objects }).await;
    found.unwrap().items.0[0]
}

/// Compares a data server over what a cut left with the model, and tells the model what is there. Returns how many objects have storage
/// that was promised.
async fn check(root: &std::path::Path, model: &mut Model, at: &str) -> u64 {
    let mut reservations = 0;
    let world = daemon(root, at).await;
    let identity = world.ds().store_identity();
    if let Some(store_id) = model.store_id {
        assert_eq!(identity.store_id, store_id, "{at}: another store");
    }
    assert!(identity.changes >= model.told, "{at}: went back");
    let client = world.client(b"a").await;
    for (name, object) in &mut model.objects {
        let at = format!("{at}: {name}");
        let (promised, latest) = model.epochs[&name.file_id];
        let removed = model
            .removed
            .get(&name.file_id)
            .copied()
            .unwrap_or_default();
        let fh = grant(*name, latest).fh();
        let reads = client.read(&fh, 0, 1).await;
        if name.generation < removed.promised {
            assert_eq!(reads, Err(NfsStatus::Stale), "{at}: came back");
            let id = crate::part::Part::of_handle(&grant(*name, latest).handle).id;
            let there = world.ds().objects.stat(id);
            // A removal finds what the index has, and what is one generation below, as files have it that were never restored.
            if object.is_indexed || name.generation + 1 == removed.promised {
                let is_gone = matches!(there, Err(objects::ObjectError::NotFound));
                assert!(is_gone, "{at}: {there:?} after {removed:?}");
            }
            continue;
        }
        if name.generation < removed.asked && reads == Err(NfsStatus::Stale) {
            object.is_gone = true;
            continue;
        }
        if promised > 1 {
            let fenced = client.read(&grant(*name, promised - 1).fh(), 0, 1).await;
            assert_eq!(fenced, Err(NfsStatus::PnfsNoLayout), "{at}: fence");
        }
        let stat = stat(&world, *name, latest).await;
        let mut bytes = Vec::new();
        if stat.status == Status::Ok && stat.size_bytes > 0 {
            let count = u32::try_from(stat.size_bytes).unwrap();
            bytes = client.read(&fh, 0, count).await.unwrap().1;
        } else {
            assert!(
                stat.status == Status::Ok || stat.status == Status::NotFound,
                "{at}"
            );
        }
        object.compare(&bytes, &at);
        if object.is_made {
            assert_eq!(stat.status, Status::Ok, "{at}: made, and not there");
            let reserved = object.reserved_bytes();
            let taken = stat.space_bytes;
            assert!(taken >= reserved, "{at}: {taken} bytes of {reserved}");
            reservations += u64::from(reserved > 0);
        }
        object.settle(&bytes);
    }
    model.settle(&identity);
    assert_eq!(world.ds().status().objects_lost, 0, "{at}");
    reservations
}

/// The first point at which something is acknowledged.
fn start_of_work(recording: &powercut::Recording) -> usize {
    let mut points = recording.points();
    let is_acked = |point: &usize| recording.acknowledged(*point).next().is_some();
    points.find(is_acked).unwrap()
}

#[test]
fn a_cut_at_any_call_takes_nothing_that_was_acknowledged() {
    if let Some(workload) = workload() {
        return work(&workload.root, workload.seed);
    }
    let name = "tests::power::a_cut_at_any_call_takes_nothing_that_was_acknowledged";
    let recordings = powercut::points(POINTS).div_ceil(POINTS_PER_RECORDING) as u64;
    let scratch = scratch();
    let mut root = scratch.path().join("none");
    let mut before = Model::default();
    let (mut answers, mut reservations) = (0, 0);
    for seed in 0..recordings {
        if seed % LINE == 0 {
            root = scratch.path().join(format!("root-{seed}"));
            before = Model::default();
        }
        let recording = record(name, &root, seed).unwrap();
        std::fs::remove_dir_all(&root).unwrap();
        let dice = &mut Dice::new(seed);
        let mut last = None;
        for cut in 0..POINTS_PER_RECORDING {
            let points = recording.points();
            // What makes the stores is a small part, so it gets a share of its own.
            let end = match cut % 3 {
                0 => start_of_work(&recording),
                _ => points.end,
            };
            let point = points.start + dice.below(end - points.start);
            let image = scratch.path().join(format!("image-{seed}-{cut}"));
            recording.leave(point, dice, &image).unwrap();
            let mut model = before.clone();
            recording
                .acknowledged(point)
                .for_each(|line| model.take(line));
            answers += model.answers;
            let at = format!("seed {seed} point {point} of {points:?}");
            reservations += runtime().block_on(check(&image, &mut model, &at));
            if let Some((image, _)) = last.replace((image, model)) {
                std::fs::remove_dir_all(image).unwrap();
            }
        }
        (root, before) = last.unwrap();
    }
    // The test has met what it is about.
    assert!(answers > recordings * 100, "{answers}");
    assert!(reservations > 0);
}
