//! Who is primary of a place, and what a handle of a place lets through (P1, P2, P4, P21).

use super::*;
use crate::copies::receive::check_role;
use control::{PlaceReign, PlaceRow, RowsArgs, YieldArgs};
use layout::{HandlePlace, Row};
use parts::{FileGeneration, PassArgs, StreamItem};

/// This server.
const SELF: u32 = 3;
const GROUP: u32 = 9;
const UNIT: u64 = 1 << 16;

/// The row of a place in a group of two.
fn told(place: u32, version: u32, row: Row) -> PlaceRow {
    PlaceRow {
        group: GROUP,
        place,
        width: 2,
        version,
        row,
        copies_min: 1,
    }
}

async fn tell(world: &World, rows: Vec<PlaceRow>) -> Result<Vec<u32>, Status> {
    let (rows, members) = (rows.into(), Vec::new().into());
    let answer = world.mds.call(&RowsArgs { rows, members }).await;
    answer.map(|ok| ok.newer.0)
}

fn handle(place: u8, reign: u32) -> Vec<u8> {
    let mut grant = Grant::to(b"a");
    grant.handle.place = Some(HandlePlace {
        group: GROUP,
        place,
        reign,
        unit_log2: 16,
        first_index: 0,
    });
    grant.fh()
}

async fn write_at(client: &Client, fh: &[u8], offset: u64) -> Result<(), NfsStatus> {
    let written = client.write(fh, offset, b"abc", StableHow::Unstable);
    written.await.map(drop)
}

#[tokio::test(start_paused = true)]
async fn a_handle_of_a_place_needs_a_row_with_this_server_as_primary_in_that_reign() {
    let world = World::new().await;
    let a = world.client(b"a").await;
    let refused = Err(NfsStatus::PnfsNoLayout);
    assert_eq!(write_at(&a, &handle(1, 1), UNIT).await, refused, "no row");
    tell(&world, vec![told(1, 1, Row::single(SELF, 1))])
        .await
        .unwrap();
    assert_eq!(write_at(&a, &handle(1, 1), UNIT).await, Ok(()));
    assert_eq!(
        write_at(&a, &handle(0, 1), 0).await,
        refused,
        "another place"
    );
    assert_eq!(
        write_at(&a, &handle(1, 2), UNIT).await,
        refused,
        "another reign"
    );
    let other = Row::new(&[4, SELF], 5);
    tell(&world, vec![told(1, 5, other)]).await.unwrap();
    for reign in [1, 5] {
        let written = write_at(&a, &handle(1, reign), UNIT).await;
        assert_eq!(written, refused, "another is primary");
    }
    let again = Row::new(&[SELF], 7);
    tell(&world, vec![told(1, 7, again)]).await.unwrap();
    assert_eq!(
        write_at(&a, &handle(1, 1), UNIT).await,
        refused,
        "an older reign"
    );
    assert_eq!(write_at(&a, &handle(1, 7), UNIT).await, Ok(()));
    assert_eq!(world.ds().status().refusals.other_place, 6);
}

#[tokio::test(start_paused = true)]
async fn items_are_taken_from_the_primary_of_the_present_reign_alone() {
    let world = World::new().await;
    let check = |from: u32, (place, reign): (u32, u32)| {
        let args = PassArgs {
            lane: 0,
            number: 0,
            group: GROUP,
            place,
            reign,
            file: FileGeneration {
                file_id: 1,
                generation: 1,
            },
            time: NfsTime::default(),
            item: StreamItem::Sync,
        };
        check_role(world.ds(), from, &args)
    };
    tell(&world, vec![told(1, 5, Row::new(&[4, SELF], 5))])
        .await
        .unwrap();
    assert_eq!(check(4, (1, 5)), Ok(()));
    for (from, at, why) in [
        (4, (1, 4), "an older reign"),
        (4, (1, 6), "a reign that is not known yet"),
        (6, (1, 5), "another primary"),
        (4, (0, 5), "a place that it has no row of"),
    ] {
        assert_eq!(check(from, at), Err(Status::NotPrimary), "{why}");
    }
    tell(&world, vec![told(1, 7, Row::new(&[SELF, 4], 7))])
        .await
        .unwrap();
    assert_eq!(check(4, (1, 5)), Err(Status::NotPrimary), "it was deposed");
}

#[tokio::test(start_paused = true)]
async fn with_too_few_copies_writes_wait_and_are_told_to_come_later_while_reads_go_on() {
    let world = World::new().await;
    let a = world.client(b"a").await;
    let row = |row: Row, copies_min| PlaceRow {
        copies_min,
        ..told(0, row.era, row)
    };
    let fh = handle(0, 1);
    tell(&world, vec![row(Row::single(SELF, 1), 1)])
        .await
        .unwrap();
    write_at(&a, &fh, 0).await.unwrap();
    let mut alone = Row::single(SELF, 1);
    alone.era = 2;
    tell(&world, vec![row(alone.clone(), 2)]).await.unwrap();
    let begun = tokio::time::Instant::now();
    assert_eq!(write_at(&a, &fh, 0).await, Err(NfsStatus::Delay));
    assert!(begun.elapsed() >= Duration::from_secs(3), "it waits first");
    assert_eq!(a.commit(&fh).await.map(drop), Err(NfsStatus::Delay));
    assert!(a.read(&fh, 0, 3).await.is_ok());
    let waiting = a.commit(&fh);
    let enough = async {
        tokio::time::sleep(Duration::from_secs(1)).await;
        alone.era = 3;
        tell(&world, vec![row(alone, 1)]).await.unwrap();
    };
    let (done, ()) = tokio::join!(waiting, enough);
    assert!(done.is_ok(), "{done:?}");
}

#[tokio::test(start_paused = true)]
async fn a_place_that_was_let_go_takes_nothing_until_another_reign() {
    let world = World::new().await;
    let a = world.client(b"a").await;
    let rows = [0, 1].map(|place| told(place, 1, Row::single(SELF, 1)));
    tell(&world, rows.to_vec()).await.unwrap();
    let let_go = |reign| {
        let place = PlaceReign {
            group: GROUP,
            place: 1,
            reign,
        };
        YieldArgs {
            places: vec![place].into(),
        }
    };
    let refused = Err(NfsStatus::PnfsNoLayout);
    assert_eq!(write_at(&a, &handle(1, 1), UNIT).await, Ok(()));
    let other = world.mds.call(&let_go(2)).await;
    assert_eq!(other, Err(Status::NotPrimary), "of another reign");
    assert_eq!(write_at(&a, &handle(1, 1), UNIT).await, Ok(()));
    world.mds.call(&let_go(1)).await.unwrap();
    assert_eq!(write_at(&a, &handle(1, 1), UNIT).await, refused);
    assert_eq!(
        write_at(&a, &handle(0, 1), 0).await,
        Ok(()),
        "another place"
    );
    // A ROWS that was under way says what was so before.
    let before = told(1, 1, Row::single(SELF, 1));
    tell(&world, vec![before]).await.unwrap();
    assert_eq!(write_at(&a, &handle(1, 1), UNIT).await, refused);
    let again = told(1, 3, Row::single(SELF, 3));
    tell(&world, vec![again]).await.unwrap();
    assert_eq!(write_at(&a, &handle(1, 3), UNIT).await, Ok(()));
}

#[tokio::test(start_paused = true)]
async fn a_handle_of_a_place_reads_and_writes_within_its_stripes() {
    let world = World::new().await;
    let a = world.client(b"a").await;
    world.mds.state.lock().sizes.insert(FILE, 3 * UNIT);
    tell(&world, vec![told(1, 1, Row::single(SELF, 1))])
        .await
        .unwrap();
    let fh = handle(1, 1);
    let refused = Err(NfsStatus::PnfsNoLayout);
    for (offset, done) in [
        (UNIT, Ok(())),
        (2 * UNIT - 3, Ok(())),
        (2 * UNIT - 2, refused),
        (UNIT - 1, refused),
        (0, refused),
        (2 * UNIT, refused),
        (3 * UNIT, Ok(())),
        (u64::MAX - 1, refused),
    ] {
        assert_eq!(write_at(&a, &fh, offset).await, done, "{offset}");
        let read = a.read(&fh, offset, 3).await.map(drop);
        assert_eq!(read, done, "{offset}");
    }
}

#[tokio::test(start_paused = true)]
async fn parts_of_two_places_are_two_objects() {
    let world = World::new().await;
    let a = world.client(b"a").await;
    let rows = [0, 1].map(|place| told(place, 1, Row::single(SELF, 1)));
    tell(&world, rows.to_vec()).await.unwrap();
    write_at(&a, &handle(0, 1), 0).await.unwrap();
    write_at(&a, &handle(1, 1), UNIT).await.unwrap();
    assert_eq!(world.ds().status().objects_count, 2);
    let part = |place| control::ObjectRef {
        group: 0,
        file_id: FILE,
        generation: 1,
        place,
    };
    world.cut(part(1), 0, 2).await;
    let objects = vec![part(0), part(1)].into();
    let stat = world
        .mds
        .call(&control::StatArgs { objects })
        .await
        .unwrap();
    let sizes: Vec<_> = stat.items.0.iter().map(|item| item.size_bytes).collect();
    assert_eq!(
        sizes,
        [3, 0],
        "the end of one part is not that of the other"
    );
}

#[tokio::test(start_paused = true)]
async fn an_older_version_is_not_taken_after_a_restart_either() {
    let stores = Stores::new();
    {
        let world = World::over(&stores).await;
        let newer = tell(&world, vec![told(0, 8, Row::single(SELF, 5))]).await;
        assert_eq!(newer, Ok(vec![]));
    }
    let world = World::over(&stores).await;
    let a = world.client(b"a").await;
    let refused = Err(NfsStatus::PnfsNoLayout);
    assert_eq!(
        write_at(&a, &handle(0, 5), 0).await,
        refused,
        "not told again"
    );
    let newer = tell(&world, vec![told(0, 7, Row::single(SELF, 5))]).await;
    assert_eq!(newer, Ok(vec![GROUP]));
    assert_eq!(write_at(&a, &handle(0, 5), 0).await, refused, "not taken");
    let newer = tell(&world, vec![told(0, 8, Row::single(SELF, 5))]).await;
    assert_eq!(newer, Ok(vec![]));
    assert_eq!(write_at(&a, &handle(0, 5), 0).await, Ok(()));
}

#[tokio::test(start_paused = true)]
async fn rows_that_cannot_be_are_refused() {
    let world = World::new().await;
    let mut no_primary = Row::single(SELF, 1);
    no_primary.primary = 4;
    for bad in [
        told(0, 1, no_primary),
        told(0, 1, Row::new(&[SELF, SELF], 1)),
        told(2, 1, Row::single(SELF, 1)),
        told(0, 1, Row::single(SELF, 2)),
    ] {
        assert_eq!(tell(&world, vec![bad]).await, Err(Status::Invalid));
    }
}

#[tokio::test(start_paused = true)]
async fn a_removal_finds_parts_whose_entries_a_crash_took() {
    let world = World::new().await;
    let parts = [1, 5].map(|place| objects::ObjectId {
        file_id: FILE,
        generation: 1,
        place,
    });
    for id in parts {
        let data = Bytes::from_static(b"abc");
        world.ds().objects.write_shared(id, 0, &data, 3).unwrap();
    }
    let items = vec![control::RemoveItem {
        places: 1 << 1 | 1 << 5,
        file_id: FILE,
        generation: 2,
        floor: Epoch::new(BOOT, 2),
        through_key: 2,
    }];
    let items = items.into();
    let removed = world.mds.call(&control::RemoveObjectsArgs { items }).await;
    assert_eq!(removed.unwrap().0, [Status::Ok]);
    for id in parts {
        let stat = world.ds().objects.stat(id);
        assert!(matches!(stat, Err(objects::ObjectError::NotFound)));
    }
}

#[tokio::test(start_paused = true)]
async fn to_ask_whether_storage_can_be_shared_leaves_no_trace_of_the_destination() {
    let world = World::new().await;
    tell(&world, vec![told(0, 1, Row::single(SELF, 1))])
        .await
        .unwrap();
    let part = |file_id| control::ObjectRef {
        group: GROUP,
        file_id,
        generation: 1,
        place: 0,
    };
    let asked = control::CloneObjectArgs {
        src: part(FILE),
        src_offset: 0,
        dst: part(FILE + 1),
        range: control::Range { start: 0, end: 0 },
    };
    // The destination may lie in another group. What its index had would be wrong then.
    let _can_be_shared = world.mds.call(&asked).await;
    assert_eq!(world.ds().status().objects_count, 0);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn first_writes_of_a_part_at_one_time_all_stay() {
    for file in 0..50 {
        let world = World::new().await;
        tell(&world, vec![told(1, 1, Row::single(SELF, 1))])
            .await
            .unwrap();
        let nfsd = world.nfsd.clone();
        let part = crate::part::Part {
            id: objects::ObjectId {
                file_id: file,
                generation: 1,
                place: 1,
            },
            group: GROUP,
        };
        let writes = (0..8_u64).map(|n| {
            let nfsd = nfsd.clone();
            tokio::spawn(async move {
                let data = Bytes::from(vec![7; 4096]);
                let change = crate::apply::Change::Write {
                    offset: n * 4096,
                    data: &data,
                    buffer_bytes: 4096,
                    is_stable: false,
                    is_reported: false,
                };
                nfsd.role().change(part, change, None).await.map(drop)
            })
        });
        for write in writes.collect::<Vec<_>>() {
            write.await.unwrap().unwrap();
        }
        let span = world.ds().objects.read(part.id, 0, 8 * 4096).unwrap();
        assert_eq!(objects::contract::bytes(&span), vec![7; 8 * 4096], "{file}");
    }
}
