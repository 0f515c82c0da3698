//! MAP, PUNCH and RESERVE by the MDS: which bytes count, what outlives a crash, and what is refused.

use super::*;
use control::{MapArgs, MapOk, ObjectRef, PunchArgs, Range, ReserveArgs, Stripes};
use layout::Striping;
use objects::ObjectId;

const OBJECT: ObjectRef = ObjectRef {
    group: 0,
    file_id: FILE,
    generation: 1,
    place: 0,
};
const ID: ObjectId = ObjectId {
    file_id: FILE,
    generation: 1,
    place: 0,
};
/// Bytes of a stripe unit: those of a page in memory.
const UNIT: u64 = objects::PAGE_BYTES;
/// The unit as a length.
const LEN: usize = 64 * 1024;

fn range(start: u64, end: u64) -> Range {
    Range { start, end }
}

/// The stripes of the second of two data servers: units 1, 3, 5, ...
fn stripes() -> Stripes {
    Stripes::of(Striping::new(64 * 1024, 2, 0).unwrap(), 1)
}

async fn map(world: &World, range: Range, ranges_max: u32) -> Result<MapOk, Status> {
    let args = MapArgs {
        object: OBJECT,
        stripes: stripes(),
        range,
        ranges_max,
    };
    world.mds.call(&args).await
}

async fn punch(world: &World, range: Range, durable: bool) -> Result<Verifier, Status> {
    let args = PunchArgs {
        object: OBJECT,
        range,
        durable,
    };
    world.mds.call(&args).await.map(|ok| ok.verifier)
}

async fn written(world: &World, units: &[u64]) {
    let a = world.client(b"a").await;
    for unit in units {
        let data = [7; LEN];
        let fh = Grant::to(b"a").fh();
        a.write(&fh, unit * UNIT, &data, StableHow::DataSync)
            .await
            .unwrap();
    }
}

#[tokio::test(start_paused = true)]
async fn only_own_stripes_count_and_foreign_ones_do_not_part_them() {
    let world = World::new().await;
    let all = range(0, u64::MAX);
    let empty = map(&world, all, 9).await.unwrap();
    assert_eq!(
        (empty.size_bytes, empty.ranges.0.len(), empty.through),
        (0, 0, u64::MAX)
    );
    // Unit 2 is foreign. Own are 1, 3, 5 (a hole), 7, 9.
    written(&world, &[1, 2, 3, 7, 9]).await;
    let found = map(&world, all, 9).await.unwrap();
    assert_eq!(found.size_bytes, 10 * UNIT);
    assert_eq!(
        found.ranges.0,
        [range(UNIT, 4 * UNIT), range(7 * UNIT, 10 * UNIT)]
    );
    let first = map(&world, all, 1).await.unwrap();
    assert_eq!(
        (first.ranges.0, first.through),
        (vec![range(UNIT, 4 * UNIT)], 7 * UNIT)
    );
    let inside = map(&world, range(3 * UNIT + 5, 8 * UNIT), 9).await.unwrap();
    assert_eq!(
        inside.ranges.0,
        [range(3 * UNIT + 5, 4 * UNIT), range(7 * UNIT, 8 * UNIT)]
    );
    assert_eq!(inside.through, 8 * UNIT);
    // Data of foreign stripes alone are nothing.
    let foreign = map(&world, range(2 * UNIT, 3 * UNIT), 9).await.unwrap();
    assert_eq!(foreign.ranges.0, []);
    let bad = Stripes {
        index: 2,
        ..stripes()
    };
    let args = MapArgs {
        object: OBJECT,
        stripes: bad,
        range: all,
        ranges_max: 1,
    };
    assert_eq!(world.mds.call(&args).await.unwrap_err(), Status::Invalid);
}

#[tokio::test(start_paused = true)]
async fn an_object_that_was_lost_is_no_hole() {
    let world = World::new().await;
    written(&world, &[1]).await;
    world.ds().objects.remove(ID).unwrap();
    assert_eq!(
        map(&world, range(0, u64::MAX), 9).await.unwrap_err(),
        Status::Io
    );
    assert_eq!(
        punch(&world, range(0, 5), true).await.unwrap(),
        world.ds().verifier()
    );
    assert_eq!(
        map(&world, range(0, u64::MAX), 9).await.unwrap_err(),
        Status::Io
    );
}

#[tokio::test(start_paused = true)]
async fn a_hole_outlives_a_power_cut_when_it_was_to_be_durable() {
    let stores = Stores {
        objects: Stores::manual().objects,
        ..Stores::new()
    };
    let world = World::over(&stores).await;
    written(&world, &[1, 3]).await;
    let before = world.ds().verifier();
    assert_eq!(
        punch(&world, range(UNIT, 2 * UNIT), true).await.unwrap(),
        before
    );
    for seed in 0..20 {
        let crashed = stores.objects.after_crash(seed);
        let read =
            |unit: u64| objects::contract::bytes(&crashed.read(ID, unit * UNIT, 65_536).unwrap());
        assert_eq!(read(1), [0; LEN], "{seed}");
        assert_eq!(read(3), [7; LEN], "{seed}");
    }
    // Of one that was not, COMMIT makes one.
    punch(&world, range(3 * UNIT, 4 * UNIT), false)
        .await
        .unwrap();
    let objects = vec![OBJECT].into();
    let done = world
        .mds
        .call(&control::CommitObjectsArgs { objects })
        .await
        .unwrap();
    assert_eq!((done.statuses.0, done.verifier), (vec![Status::Ok], before));
    for seed in 0..20 {
        let crashed = stores.objects.after_crash(seed);
        let back = crashed.read(ID, 3 * UNIT, 65_536).unwrap();
        assert_eq!(objects::contract::bytes(&back), [0; LEN], "{seed}");
    }
}

#[tokio::test(start_paused = true)]
async fn storage_is_taken_for_own_stripes_and_given_back_by_a_cut() {
    let world = World::new().await;
    let reserve = |range| ReserveArgs {
        object: OBJECT,
        stripes: stripes(),
        range,
    };
    let done = world.mds.call(&reserve(range(0, 8 * UNIT))).await.unwrap();
    assert_eq!(done.through, 8 * UNIT);
    let stat = || world.ds().objects.stat(ID).unwrap();
    assert_eq!((stat().size_bytes, stat().allocated_bytes), (0, 4 * UNIT));
    assert_eq!(world.ds().status().objects_count, 1, "a removal finds it");
    world.cut(OBJECT, 2 * UNIT, 2).await;
    assert_eq!(stat().allocated_bytes, UNIT);
    let much = world.mds.call(&reserve(range(0, 1 << 50))).await;
    assert_eq!(much.unwrap_err(), Status::NoSpace);
    // More stripes than one call takes: it says how far it came.
    let narrow = ReserveArgs {
        stripes: Stripes::of(Striping::new(4096, 2, 0).unwrap(), 1),
        ..reserve(range(0, 16 << 20))
    };
    let done = world.mds.call(&narrow).await.unwrap();
    assert!(done.through > UNIT && done.through < 16 << 20);
}

#[tokio::test(start_paused = true)]
async fn a_cut_does_not_make_up_for_what_an_object_has_lost() {
    let world = World::new().await;
    written(&world, &[1, 3]).await;
    world.ds().objects.set_size(ID, 2 * UNIT).unwrap();
    world.cut(OBJECT, 3 * UNIT, 2).await;
    let looked = map(&world, range(0, u64::MAX), 9).await;
    assert_eq!(looked.unwrap_err(), Status::Io);
}

#[tokio::test(start_paused = true)]
async fn a_commit_misses_nothing_after_storage_for_which_there_was_no_room() {
    let world = World::new().await;
    let commit = async || {
        let objects = vec![OBJECT].into();
        let args = control::CommitObjectsArgs { objects };
        world.mds.call(&args).await.unwrap().statuses.0
    };
    let args = ReserveArgs {
        object: OBJECT,
        stripes: stripes(),
        range: range(0, 1 << 50),
    };
    let refused = world.mds.call(&args).await;
    assert_eq!(refused.unwrap_err(), Status::NoSpace);
    assert_eq!(commit().await, [Status::Ok], "nothing was written");
    written(&world, &[1]).await;
    let refused = world.mds.call(&args).await;
    assert_eq!(refused.unwrap_err(), Status::NoSpace);
    world.ds().objects.remove(ID).unwrap();
    assert_eq!(commit().await, [Status::Io], "what was written is lost");
}

#[tokio::test(start_paused = true)]
async fn a_removed_file_is_not_made_again() {
    let world = World::new().await;
    written(&world, &[1]).await;
    let items = vec![control::RemoveItem {
        places: 1,
        file_id: FILE,
        generation: 2,
        floor: Epoch::new(BOOT, 9),
        through_key: 2,
    }];
    let items = items.into();
    world
        .mds
        .call(&control::RemoveObjectsArgs { items })
        .await
        .unwrap();
    assert_eq!(
        punch(&world, range(0, 5), true).await.unwrap_err(),
        Status::Removed
    );
    assert_eq!(
        map(&world, range(0, 5), 1).await.unwrap_err(),
        Status::Removed
    );
    let args = ReserveArgs {
        object: OBJECT,
        stripes: stripes(),
        range: range(0, 2 * UNIT),
    };
    assert_eq!(world.mds.call(&args).await.unwrap_err(), Status::Removed);
    assert_eq!(world.ds().status().objects_count, 0);
}
