//! Goal: what was fenced or removed stays refused, exactly until no key can have signed it. Method:
//! single facts first, then random facts against a model that keeps every one of them forever.

use proptest::prelude::*;

use crate::*;

fn tag(n: u8) -> ClientTag {
    ClientTag::from_bytes([n; CLIENT_TAG_BYTES])
}

fn handle(file_id: u64, client: u8, epoch: Epoch, generation: u32) -> DsHandle {
    DsHandle {
        cluster_id: 1,
        file_id,
        generation,
        place: None,
        rights: Rights::Read,
        epoch,
        client: tag(client),
    }
}

fn file(file_id: u64, epoch: Epoch, through_key: u32) -> Floor {
    Floor::File {
        file_id,
        epoch,
        through_key,
    }
}

fn client(file_id: u64, client: u8, epoch: Epoch, through_key: u32) -> Floor {
    Floor::Client {
        file_id,
        client: tag(client),
        epoch,
        through_key,
    }
}

fn tombstone(file_id: u64, generation: u32, through_key: u32) -> Floor {
    Floor::Tombstone {
        file_id,
        generation,
        through_key,
    }
}

const E1: Epoch = Epoch::new(1, 1);
const E2: Epoch = Epoch::new(1, 2);
const E3: Epoch = Epoch::new(1, 3);

#[test]
fn a_client_floor_fences_that_client_on_that_file_only() {
    let mut floors = Floors::new();
    floors.apply(client(5, 1, E2, 1)).unwrap();
    assert_eq!(
        floors.check(&handle(5, 1, E1, 1)),
        Err(HandleRefusal::Fenced)
    );
    assert_eq!(floors.check(&handle(5, 1, E2, 1)), Ok(()));
    assert_eq!(floors.check(&handle(5, 2, E1, 1)), Ok(()));
    assert_eq!(floors.check(&handle(6, 1, E1, 1)), Ok(()));
}

#[test]
fn a_file_floor_fences_all_clients_and_replaces_lower_client_floors() {
    let mut floors = Floors::new();
    floors.apply(client(5, 1, E1, 1)).unwrap();
    floors.apply(client(5, 2, E3, 1)).unwrap();
    floors.apply(client(6, 1, E1, 1)).unwrap();
    let applied = floors.apply(file(5, E2, 1)).unwrap();
    assert_eq!(applied.store, Some(file(5, E2, 1)));
    assert_eq!(applied.obsolete, [FloorKey::Client(5, tag(1))]);
    assert_eq!(
        floors.check(&handle(5, 9, E1, 1)),
        Err(HandleRefusal::Fenced)
    );
    assert_eq!(floors.check(&handle(5, 1, E2, 1)), Ok(()));
    assert_eq!(
        floors.check(&handle(5, 2, E2, 1)),
        Err(HandleRefusal::Fenced)
    );
}

#[test]
fn a_cluster_floor_fences_all_and_keeps_tombstones() {
    let mut floors = Floors::new();
    floors.apply(file(5, E2, 1)).unwrap();
    floors.apply(client(6, 1, E2, 1)).unwrap();
    floors.apply(tombstone(7, 2, 1)).unwrap();
    let epoch = Epoch::boot_floor(2);
    let applied = floors.apply(Floor::Cluster { epoch }).unwrap();
    assert_eq!(applied.obsolete.len(), 2);
    assert_eq!(floors.len(), 1);
    assert_eq!(
        floors.check(&handle(99, 1, E3, 1)),
        Err(HandleRefusal::Fenced)
    );
    assert_eq!(floors.check(&handle(99, 1, epoch, 1)), Ok(()));
    assert_eq!(
        floors.check(&handle(7, 1, epoch, 1)),
        Err(HandleRefusal::Removed)
    );
    let lower = floors.apply(Floor::Cluster { epoch: E3 }).unwrap();
    assert_eq!(lower, Applied::default());
    assert_eq!(floors.cluster(), epoch);
}

#[test]
fn a_removed_file_is_refused_as_removed_even_when_also_fenced() {
    let mut floors = Floors::new();
    floors.apply(file(5, E3, 1)).unwrap();
    floors.apply(tombstone(5, 2, 1)).unwrap();
    assert_eq!(
        floors.check(&handle(5, 1, E1, 1)),
        Err(HandleRefusal::Removed)
    );
    assert_eq!(
        floors.check(&handle(5, 1, E3, 1)),
        Err(HandleRefusal::Removed)
    );
    assert_eq!(floors.check(&handle(5, 1, E3, 2)), Ok(()));
    assert!(floors.is_removed(5, 1) && !floors.is_removed(5, 2));
}

#[test]
fn facts_retire_with_the_newest_key_that_needed_them() {
    let mut floors = Floors::new();
    floors.apply(tombstone(5, 2, 1)).unwrap();
    floors.apply(tombstone(6, 2, 2)).unwrap();
    floors.apply(file(6, E2, 1)).unwrap();
    // The same fact again under a newer key must outlive that key, and be stored again.
    let again = floors.apply(tombstone(5, 1, 3)).unwrap();
    assert_eq!(again.store, Some(tombstone(5, 2, 3)));
    assert_eq!(floors.retire_key(1), [FloorKey::File(6)]);
    assert_eq!(floors.retire_key(2), [FloorKey::Tombstone(6)]);
    assert!(floors.is_removed(5, 1));
    assert_eq!(floors.retire_key(3), [FloorKey::Tombstone(5)]);
    assert!(floors.is_empty());
}

#[test]
fn a_fact_that_only_retired_keys_need_comes_too_late() {
    let mut floors = Floors::new();
    floors.retire_key(2);
    let late = Floor::File {
        file_id: 6,
        epoch: Epoch::new(1, 9),
        through_key: 2,
    };
    assert_eq!(floors.apply(late), Ok(Applied::default()));
    assert!(floors.is_empty());
    let needed = Floor::File {
        file_id: 6,
        epoch: Epoch::new(1, 9),
        through_key: 3,
    };
    assert_eq!(floors.apply(needed).unwrap().store, Some(needed));
}

#[test]
fn a_file_floor_that_retires_earlier_does_not_stand_in_for_a_client_floor() {
    let orders = [
        [client(5, 1, E2, 3), file(5, E2, 1)],
        [file(5, E2, 1), client(5, 1, E2, 3)],
    ];
    for records in orders {
        let mut floors = Floors::new();
        for record in records {
            floors.apply(record).unwrap();
        }
        floors.retire_key(1);
        assert_eq!(
            floors.check(&handle(5, 1, E1, 1)),
            Err(HandleRefusal::Fenced)
        );
        assert_eq!(floors.check(&handle(5, 2, E1, 1)), Ok(()));
    }
}

#[test]
fn a_full_table_refuses_new_facts_but_raises_old_ones() {
    let limits = FloorsLimits {
        clients: 1,
        files: 1,
        tombstones: 1,
    };
    let mut floors = Floors::with_limits(limits);
    floors.apply(client(1, 1, E1, 1)).unwrap();
    floors.apply(file(2, E1, 1)).unwrap();
    floors.apply(tombstone(3, 2, 1)).unwrap();
    for full in [client(1, 2, E1, 1), file(9, E1, 1), tombstone(9, 2, 1)] {
        assert_eq!(floors.apply(full), Err(TableFull { limit: 1 }));
    }
    for raised in [client(1, 1, E2, 1), file(2, E2, 1), tombstone(3, 3, 1)] {
        assert_eq!(floors.apply(raised).unwrap().store, Some(raised));
    }
    assert_eq!(floors.check(&handle(9, 1, E1, 1)), Ok(()));
}

#[test]
fn the_fullest_table_tells_the_fill_and_a_retired_key_empties_it() {
    let limits = FloorsLimits {
        clients: 4,
        files: 10,
        tombstones: 3,
    };
    let mut floors = Floors::with_limits(limits);
    assert_eq!(floors.fill_percent(), 0);
    for (fact, percent) in [
        (file(1, E1, 1), 10),
        (client(2, 1, E1, 1), 25),
        (tombstone(3, 2, 1), 33),
        (client(2, 2, E1, 2), 50),
        (client(2, 2, E2, 2), 50),
    ] {
        floors.apply(fact).unwrap();
        assert_eq!(floors.fill_percent(), percent, "{fact:?}");
    }
    floors.retire_key(1);
    assert_eq!(floors.fill_percent(), 25);
}

#[test]
fn storage_keys_are_distinct_and_ordered_by_file() {
    let keys = [
        FloorKey::Cluster,
        FloorKey::File(1),
        FloorKey::File(256),
        FloorKey::Client(1, tag(1)),
        FloorKey::Client(1, tag(2)),
        FloorKey::Client(2, tag(0)),
        FloorKey::Tombstone(1),
    ];
    let bytes: Vec<_> = keys.iter().map(|key| key.to_bytes()).collect();
    assert!(bytes.windows(2).all(|pair| pair[0] < pair[1]));
}

fn epoch() -> impl Strategy<Value = Epoch> {
    (0_u32..3, 0_u32..4).prop_map(|(boot, counter)| Epoch::new(boot, counter))
}

fn record() -> impl Strategy<Value = Floor> {
    let key = 1_u32..5;
    prop_oneof![
        1 => epoch().prop_map(|epoch| Floor::Cluster { epoch }),
        4 => (0_u64..3, epoch(), key.clone()).prop_map(|(f, e, k)| file(f, e, k)),
        4 => (0_u64..3, 0_u8..3, epoch(), key.clone()).prop_map(|(f, c, e, k)| client(f, c, e, k)),
        2 => (0_u64..3, 0_u32..3, key).prop_map(|(f, g, k)| tombstone(f, g, k)),
    ]
}

/// The answer of a table that never drops anything.
fn model(records: &[Floor], h: &DsHandle) -> Result<(), HandleRefusal> {
    let removed = |r: &Floor| {
        matches!(*r, Floor::Tombstone { file_id, generation, .. }
            if file_id == h.file_id && h.generation < generation)
    };
    let fenced = |r: &Floor| match *r {
        Floor::Cluster { epoch } => h.epoch < epoch,
        Floor::File { file_id, epoch, .. } => file_id == h.file_id && h.epoch < epoch,
        Floor::Client {
            file_id,
            client,
            epoch,
            ..
        } => file_id == h.file_id && client == h.client && h.epoch < epoch,
        Floor::Tombstone { .. } => false,
    };
    if records.iter().any(removed) {
        Err(HandleRefusal::Removed)
    } else if records.iter().any(fenced) {
        Err(HandleRefusal::Fenced)
    } else {
        Ok(())
    }
}

fn all_handles() -> impl Iterator<Item = DsHandle> {
    (0_u64..3).flat_map(|f| {
        (0_u8..3).flat_map(move |c| {
            (0_u32..12).flat_map(move |e| {
                (0_u32..3).map(move |g| handle(f, c, Epoch::new(e / 4, e % 4), g))
            })
        })
    })
}

proptest! {
    #[test]
    fn the_table_agrees_with_all_facts_and_comes_back_from_its_durable_copy(
        records in prop::collection::vec(record(), 0..25),
    ) {
        let mut floors = Floors::new();
        let mut disk = std::collections::BTreeMap::new();
        for record in &records {
            let applied = floors.apply(*record).unwrap();
            if let Some(store) = applied.store {
                disk.insert(store.key(), xdr::encode_to_vec(&store));
            }
            for key in applied.obsolete {
                disk.remove(&key);
            }
        }
        let mut reloaded = Floors::new();
        for bytes in disk.values() {
            reloaded.apply(xdr::decode_all(bytes).unwrap()).unwrap();
        }
        for handle in all_handles() {
            prop_assert_eq!(floors.check(&handle), model(&records, &handle));
            prop_assert_eq!(reloaded.check(&handle), model(&records, &handle));
        }
        let kept: Vec<_> = floors.records().collect();
        prop_assert_eq!(kept, reloaded.records().collect::<Vec<_>>());
    }

    #[test]
    fn retiring_a_key_keeps_what_newer_keys_need(
        records in prop::collection::vec(record(), 0..25), retired in 0_u32..6,
    ) {
        let mut floors = Floors::new();
        for record in &records {
            floors.apply(*record).unwrap();
        }
        floors.retire_key(retired);
        let needed: Vec<_> = records.iter().copied().filter(|r| match r {
            Floor::Cluster { .. } => true,
            Floor::File { through_key, .. } | Floor::Client { through_key, .. }
            | Floor::Tombstone { through_key, .. } => *through_key > retired,
        }).collect();
        for handle in all_handles() {
            if model(&needed, &handle).is_err() {
                prop_assert!(floors.check(&handle).is_err());
            }
        }
    }

    #[test]
    fn records_round_trip_and_refuse_truncation(record in record()) {
        let bytes = xdr::encode_to_vec(&record);
        prop_assert_eq!(xdr::decode_all::<Floor>(&bytes), Ok(record));
        for len in 0..bytes.len() {
            prop_assert!(xdr::decode_all::<Floor>(&bytes[..len]).is_err());
        }
    }
}
