//! Goal: new files spread by weight and start, skip what is unavailable, and a group never changes.
//! Method: counted picks.

use std::collections::BTreeMap;

use crate::*;

fn group(id: u32, servers: &[u32]) -> Group {
    Group::single(id, servers)
}

fn table() -> PlacementTable {
    let mut table = PlacementTable::new(42);
    table.add(group(1, &[10, 11, 12]), 1, 2).unwrap();
    table.add(group(2, &[20, 21]), 3, 0).unwrap();
    table.set_available(1, true).unwrap();
    table.set_available(2, true).unwrap();
    table
}

#[test]
fn picks_follow_the_weights_without_bursts_and_rotate_the_start() {
    let mut table = table();
    let mut counts = BTreeMap::new();
    let mut run = 0;
    for _ in 0..240 {
        let placed = table.pick().unwrap();
        *counts
            .entry((placed.group, placed.first_index))
            .or_insert(0) += 1;
        run = if placed.group == 2 { run + 1 } else { 0 };
        assert!(run <= 3, "a heavy group got a burst");
    }
    let expected = [
        ((1, 0), 20),
        ((1, 1), 20),
        ((1, 2), 20),
        ((2, 0), 90),
        ((2, 1), 90),
    ];
    assert_eq!(counts, BTreeMap::from(expected));
}

#[test]
fn the_same_calls_give_the_same_picks_and_the_seed_sets_the_start() {
    let (mut a, mut b) = (table(), table());
    for _ in 0..50 {
        assert_eq!(a.pick(), b.pick());
    }
    let mut table = table();
    table.set_available(2, false).unwrap();
    assert_eq!(table.pick().unwrap().first_index, 2);
}

#[test]
fn unavailable_and_weightless_groups_get_nothing() {
    let mut table = table();
    table.set_available(2, false).unwrap();
    assert!((0..10).all(|_| table.pick().unwrap().group == 1));
    table.set_weight(1, 0).unwrap();
    assert_eq!(table.pick(), None);
    table.set_available(2, true).unwrap();
    assert_eq!(table.pick().unwrap().group, 2);
    assert_eq!(table.set_available(9, true), Err(PlacementError::Unknown));
}

#[test]
fn a_group_never_changes() {
    let mut table = table();
    assert_eq!(table.add(group(1, &[10, 11, 12]), 5, 0), Ok(()));
    assert_eq!(
        table.add(group(1, &[10, 12, 11]), 1, 0),
        Err(PlacementError::Changed)
    );
    let newer = Group {
        version: 2,
        ..group(1, &[10, 11, 12])
    };
    assert_eq!(table.add(newer, 1, 0), Err(PlacementError::Changed));
    assert_eq!(table.group(1).unwrap().primaries(), [10, 11, 12]);
}

#[test]
fn impossible_groups_are_refused() {
    let mut table = PlacementTable::new(1);
    let wide: Vec<u32> = (0..=PLACES_MAX).collect();
    let too_wide: Vec<u32> = (0..=GROUP_WIDTH_MAX).collect();
    let mut no_primary = group(1, &[1, 2]);
    no_primary.rows[1].primary = 3;
    let mut twice = group(1, &[1]);
    twice.rows[0] = Row::new(&[1, 1], 1);
    let impossible = [
        group(1, &[]),
        group(1, &wide),
        Group::shared(1, 1, &too_wide),
        Group::shared(1, 1, &[1, 2, 1]),
        no_primary,
        twice,
    ];
    for group in impossible {
        assert_eq!(table.add(group, 1, 0), Err(PlacementError::Servers));
    }
    for id in 0..u32::try_from(GROUPS_MAX).unwrap() {
        table.add(group(id, &[id]), 1, 0).unwrap();
    }
    assert_eq!(
        table.add(group(u32::MAX, &[1]), 1, 0),
        Err(PlacementError::Full)
    );
}

#[test]
fn device_ids_come_back_and_only_ours_are_found() {
    let table = table();
    let id = table.group(2).unwrap().device_id(42);
    assert_eq!(id.bytes, [0, 0, 0, 0, 0, 0, 0, 42, 0, 0, 0, 2, 0, 0, 0, 1]);
    let name = DeviceName::from_device_id(id);
    assert_eq!(name.to_device_id(), id);
    assert_eq!(table.by_device(id).unwrap().id, 2);
    for other in [
        DeviceName {
            cluster_id: 43,
            ..name
        },
        DeviceName { group: 3, ..name },
        DeviceName { version: 2, ..name },
    ] {
        assert_eq!(table.by_device(other.to_device_id()), None);
    }
}

#[test]
fn other_addresses_make_another_device_and_the_old_one_is_still_known() {
    let mut table = table();
    let old = table.group(2).unwrap().device_id(42);
    let server = table.group(2).unwrap().rows[0].primary;
    let renewed = table.renewed(server);
    assert_eq!(table.group(2).unwrap().version, 1, "nothing changes yet");
    let groups: Vec<_> = renewed.iter().map(|g| (g.id, g.version)).collect();
    assert_eq!(groups, [(2, 2)]);
    table.change(renewed[0].clone()).unwrap();
    let new = table.group(2).unwrap().device_id(42);
    assert_ne!(new, old);
    for id in [old, new] {
        assert_eq!(table.by_device(id).unwrap().version, 2);
    }
    for version in [0, 3] {
        let name = DeviceName {
            version,
            ..DeviceName::from_device_id(new)
        };
        assert_eq!(table.by_device(name.to_device_id()), None);
    }
    let older = group(2, &table.group(2).unwrap().primaries());
    let mut wider = group(2, &[20, 21, 22]);
    wider.version = 9;
    for bad in [older, wider] {
        assert_eq!(table.change(bad), Err(PlacementError::Changed));
    }
    assert_eq!(table.change(group(9, &[1])), Err(PlacementError::Unknown));
    assert!(table.renewed(99).is_empty());
}

#[test]
fn a_group_comes_back_from_its_record() {
    let mut replicated = group(7, &[3, 1, 2]);
    replicated.version = 5;
    replicated.copies = 2;
    replicated.rows[2] = Row {
        primary: 4,
        era: 5,
        reign: 3,
        members: vec![
            Member {
                was_sync: true,
                ..Member::new(2, MemberState::Stale)
            },
            Member::new(4, MemberState::Sync),
            Member::new(5, MemberState::Filling),
        ]
        .into(),
    };
    for group in [
        group(7, &[3, 1, 2]),
        Group::shared(7, 3, &[3, 1, 2]),
        replicated,
    ] {
        let bytes = xdr::encode_to_vec(&group);
        assert_eq!(xdr::decode_all::<Group>(&bytes), Ok(group));
        for len in 0..bytes.len() {
            assert!(xdr::decode_all::<Group>(&bytes[..len]).is_err());
        }
    }
}

#[test]
fn a_group_of_earlier_versions_is_read_as_it_was_stored() {
    let stored: Vec<u8> = [7_u32, 3, 2, 11, 12]
        .iter()
        .flat_map(|word| word.to_be_bytes())
        .collect();
    let group: Group = xdr::decode_all(&stored).unwrap();
    assert_eq!(group, Group::shared(7, 3, &[11, 12]));
    assert_eq!(group.object_place(1), 0);
    assert_eq!(Group::single(7, &[11, 12]).object_place(1), 1);
}
