//! Goal: only handles that a live key of this cluster signed are believed, and every other one gets
//! the verdict that explains it. Method: each byte of a good handle altered in turn, key life played through.

use crate::*;

const CLUSTER: u64 = 0xc0ff_ee00_1234_5678;

fn key(id: u32) -> SigningKey {
    SigningKey::new(
        id,
        KeyBytes::from_random([u8::try_from(id).unwrap() ^ 0x5a; KEY_BYTES]),
    )
}

fn ring(id: u32) -> KeyRing {
    let mut ring = KeyRing::new();
    ring.insert_active(key(id)).unwrap();
    ring
}

fn handle() -> DsHandle {
    DsHandle {
        cluster_id: CLUSTER,
        file_id: 0x0102_0304_0506_0708,
        generation: 9,
        place: None,
        rights: Rights::ReadWrite,
        epoch: Epoch::new(3, 4),
        client: ClientTag::of(CLUSTER, b"Linux NFSv4.2 node1"),
    }
}

#[test]
fn a_signed_handle_comes_back_and_lies_as_documented() {
    let ring = ring(7);
    let bytes = *handle().sign(ring.active().unwrap()).as_bytes();
    assert_eq!(DsHandle::verify(&bytes, CLUSTER, &ring), Ok(handle()));
    assert_eq!(bytes[..4], [1, 3, 0, 0]);
    assert_eq!(bytes[4..8], 7_u32.to_be_bytes());
    assert_eq!(bytes[8..16], CLUSTER.to_be_bytes());
    assert_eq!(bytes[16..24], [1, 2, 3, 4, 5, 6, 7, 8]);
    assert_eq!(bytes[24..28], [0, 0, 0, 9]);
    assert_eq!(bytes[28..36], [0, 0, 0, 3, 0, 0, 0, 4]);
    assert_eq!(&bytes[36..48], handle().client.as_bytes());
    let mac = blake3::keyed_hash(&[7 ^ 0x5a; 32], &bytes[..48]);
    assert_eq!(bytes[48..], mac.as_bytes()[..16]);
}

#[test]
fn every_altered_bit_is_refused() {
    let ring = ring(7);
    let good = *handle().sign(ring.active().unwrap()).as_bytes();
    for bit in 0..DS_HANDLE_BYTES * 8 {
        let mut bad = good;
        bad[bit / 8] ^= 1 << (bit % 8);
        let verdict = DsHandle::verify(&bad, CLUSTER, &ring).unwrap_err();
        match bit / 8 {
            2 | 3 => assert_eq!(verdict, HandleError::NotOurs),
            0 => assert!(matches!(
                verdict,
                HandleError::NotOurs | HandleError::BadMac
            )),
            1 => assert!(matches!(
                verdict,
                HandleError::NotOurs | HandleError::BadMac
            )),
            4..8 => assert!(matches!(
                verdict,
                HandleError::UnknownKey { retired: false, .. }
            )),
            8..16 => assert_eq!(verdict, HandleError::WrongCluster),
            _ => assert_eq!(verdict, HandleError::BadMac),
        }
    }
}

/// A handle of a place.
fn of_place() -> DsHandle {
    DsHandle {
        place: Some(HandlePlace {
            group: 0x8000_0003,
            place: 5,
            reign: 17,
            unit_log2: 20,
            first_index: 57,
        }),
        ..handle()
    }
}

#[test]
fn a_handle_of_a_place_comes_back_and_lies_as_documented() {
    let ring = ring(7);
    let bytes = *of_place().sign(ring.active().unwrap()).as_bytes();
    assert_eq!(DsHandle::verify(&bytes, CLUSTER, &ring), Ok(of_place()));
    assert_eq!(bytes[..4], [2, 3 << 6 | 20, 5, 57]);
    assert_eq!(bytes[4..8], 7_u32.to_be_bytes());
    assert_eq!(bytes[8..16], [0x80, 0, 0, 3, 0, 0, 0, 17]);
    assert_eq!(bytes[16..24], [1, 2, 3, 4, 5, 6, 7, 8]);
    assert_eq!(bytes[24..28], [0, 0, 0, 9]);
    assert_eq!(bytes[28..36], [0, 0, 0, 3, 0, 0, 0, 4]);
    assert_eq!(&bytes[36..48], handle().client.as_bytes());
    let signed = [&CLUSTER.to_be_bytes()[..], &bytes[..48]].concat();
    let mac = blake3::keyed_hash(&[7 ^ 0x5a; 32], &signed);
    assert_eq!(bytes[48..], mac.as_bytes()[..16]);
    let other = DsHandle::verify(&bytes, CLUSTER + 1, &ring);
    assert_eq!(other, Err(HandleError::BadMac), "the cluster is in the MAC");
    for bit in 0..DS_HANDLE_BYTES * 8 {
        let mut bad = bytes;
        bad[bit / 8] ^= 1 << (bit % 8);
        assert!(DsHandle::verify(&bad, CLUSTER, &ring).is_err(), "bit {bit}");
    }
}

#[test]
fn a_group_of_places_has_a_handle_for_each_and_another_group_one_for_all() {
    let ring = ring(7);
    let key = ring.active().unwrap();
    let striping = Striping::new(1 << 16, 3, 2).unwrap();
    let mut group = Group::single(9, &[11, 12, 13]);
    group.version = 4;
    group.rows[1] = Row::new(&[14, 12], 4);
    let handles = handle().sign_each(&group, striping, key).unwrap();
    let said: Vec<_> = handles
        .iter()
        .map(|h| DsHandle::verify(h.as_bytes(), CLUSTER, &ring).unwrap())
        .map(|h| h.place.unwrap())
        .map(|p| (p.group, p.place, p.reign, p.striping(3)))
        .collect();
    let expected = [(0, 1), (1, 4), (2, 1)].map(|(place, reign)| (9, place, reign, Some(striping)));
    assert_eq!(said, expected);
    let odd = Striping::new(3 << 12, 3, 2).unwrap();
    assert_eq!(handle().sign_each(&group, odd, key), None);
    let shared = Group::shared(9, 1, &[11, 12, 13]);
    let handles = handle().sign_each(&shared, odd, key).unwrap();
    assert_eq!(handles, [handle().sign(key); 3]);
}

#[test]
fn every_other_length_is_not_ours() {
    let ring = ring(7);
    let mut long = handle().sign(ring.active().unwrap()).as_bytes().to_vec();
    for len in 0..DS_HANDLE_BYTES {
        let verdict = DsHandle::verify(&long[..len], CLUSTER, &ring);
        assert_eq!(verdict, Err(HandleError::NotOurs));
    }
    long.push(0);
    assert_eq!(
        DsHandle::verify(&long, CLUSTER, &ring),
        Err(HandleError::NotOurs)
    );
}

#[test]
fn a_raised_right_is_a_bad_mac() {
    let ring = ring(7);
    let mut read = handle();
    read.rights = Rights::Read;
    let mut bytes = *read.sign(ring.active().unwrap()).as_bytes();
    bytes[1] = Rights::ReadWrite as u8;
    assert_eq!(
        DsHandle::verify(&bytes, CLUSTER, &ring),
        Err(HandleError::BadMac)
    );
}

#[test]
fn an_old_key_verifies_until_it_retires() {
    let mut ring = ring(1);
    let old = *handle().sign(ring.active().unwrap()).as_bytes();
    ring.insert_active(key(2)).unwrap();
    assert_eq!(ring.active().unwrap().id(), 2);
    assert!(DsHandle::verify(&old, CLUSTER, &ring).is_ok());
    assert_eq!(ring.retire_through(2), Err(KeyError::StillActive));
    ring.retire_through(1).unwrap();
    let refused = HandleError::UnknownKey {
        key_id: 1,
        retired: true,
    };
    assert_eq!(DsHandle::verify(&old, CLUSTER, &ring), Err(refused));
    assert_eq!(ring.insert_active(key(2)), Err(KeyError::IdNotAbove(2)));
    assert_eq!(ring.newest_id(), 2);
}

#[test]
fn a_ring_is_bounded_and_survives_its_records() {
    let mut ring = KeyRing::new();
    assert!(ring.active().is_none());
    for id in 1..=KEYS_MAX {
        ring.insert_active(key(id)).unwrap();
    }
    assert_eq!(ring.insert_active(key(KEYS_MAX + 1)), Err(KeyError::Full));
    ring.retire_through(3).unwrap();
    let mut records = ring.records();
    assert_eq!(KeyRing::from_records(&records, 3).unwrap(), ring);
    assert_eq!(
        KeyRing::from_records(&records, 4),
        Err(KeyError::Inconsistent)
    );
    records[0].state = KeyState::Active;
    assert_eq!(
        KeyRing::from_records(&records, 3),
        Err(KeyError::Inconsistent)
    );
    records[0].state = KeyState::Valid;
    records[1].id = records[0].id;
    assert_eq!(
        KeyRing::from_records(&records, 3),
        Err(KeyError::Inconsistent)
    );
}

#[test]
fn a_next_key_verifies_and_does_not_sign_before_its_time() {
    let mut ring = ring(1);
    assert_eq!(ring.activate_next(), Err(KeyError::NotNext));
    ring.insert_next(key(2)).unwrap();
    assert_eq!((ring.active().unwrap().id(), ring.newest_id()), (1, 2));
    let early = *handle().sign(ring.verifier(2).unwrap()).as_bytes();
    assert!(DsHandle::verify(&early, CLUSTER, &ring).is_ok());
    assert_eq!(
        ring.insert_next(key(3)),
        Err(KeyError::NotNext),
        "one waits"
    );
    assert_eq!(ring.retire_through(1), Err(KeyError::StillActive));
    assert_eq!(KeyRing::from_records(&ring.records(), 0).unwrap(), ring);
    ring.activate_next().unwrap();
    assert_eq!(ring.active().unwrap().id(), 2);
    assert!(ring.next().is_none());
    ring.retire_through(1).unwrap();
}

#[test]
fn records_whose_newest_key_is_not_the_next_or_active_one_are_refused() {
    let mut ring = ring(1);
    ring.insert_active(key(2)).unwrap();
    ring.insert_next(key(3)).unwrap();
    let good = ring.records();
    assert!(KeyRing::from_records(&good, 0).is_ok());
    use KeyState::{Active, Next, Valid};
    for states in [
        [Valid, Next, Next],
        [Valid, Next, Active],
        [Active, Active, Next],
        [Active, Valid, Valid],
        [Next, Valid, Active],
    ] {
        let mut records = good.clone();
        for (record, state) in records.iter_mut().zip(states) {
            record.state = state;
        }
        let refused = KeyRing::from_records(&records, 0);
        assert_eq!(refused, Err(KeyError::Inconsistent), "{states:?}");
    }
}

#[test]
fn retiring_an_id_that_was_never_made_leaves_it_usable() {
    let mut ring = KeyRing::new();
    ring.retire_through(99).unwrap();
    ring.insert_active(key(1)).unwrap();
    assert!(ring.verifier(1).is_some());
}

#[test]
fn debug_output_shows_no_key_bytes() {
    let ring = ring(7);
    let record = &ring.records()[0];
    let shown = format!("{ring:?} {record:?} {:?}", ring.active());
    assert!(shown.contains("<secret>"));
    // 7 ^ 0x5a is 93, as decimal or hexadecimal.
    assert!(!shown.contains("93") && !shown.contains("5d"), "{shown}");
}

#[test]
fn tags_differ_by_owner_and_by_cluster() {
    let tag = ClientTag::of(1, b"owner");
    assert_eq!(tag, ClientTag::of(1, b"owner"));
    assert_ne!(tag, ClientTag::of(1, b"owner2"));
    assert_ne!(tag, ClientTag::of(2, b"owner"));
}

#[test]
fn mds_handles_come_back_and_others_are_refused() {
    let handle = MdsHandle {
        kind: MdsHandleKind::Inode,
        cluster_id: CLUSTER,
        file_id: u64::MAX,
        generation: 1,
    };
    let bytes = handle.to_bytes();
    assert_eq!(MdsHandle::parse(&bytes, CLUSTER), Ok(handle));
    assert_eq!(
        MdsHandle::parse(&bytes, 1),
        Err(MdsHandleError::WrongCluster)
    );
    for len in 0..bytes.len() {
        assert_eq!(
            MdsHandle::parse(&bytes[..len], CLUSTER),
            Err(MdsHandleError::NotOurs)
        );
    }
    for at in 0..4 {
        let mut bad = bytes;
        bad[at] = 0xff;
        assert_eq!(
            MdsHandle::parse(&bad, CLUSTER),
            Err(MdsHandleError::NotOurs)
        );
    }
    let ds = *self::handle().sign(ring(7).active().unwrap()).as_bytes();
    assert_eq!(MdsHandle::parse(&ds, CLUSTER), Err(MdsHandleError::NotOurs));
}

#[test]
fn epochs_order_by_boot_first_and_never_run_into_the_next_boot() {
    assert!(Epoch::new(1, u32::MAX) < Epoch::boot_floor(2));
    assert_eq!(Epoch::new(1, 6).next(), Some(Epoch::new(1, 7)));
    assert_eq!(Epoch::new(1, u32::MAX).next(), None);
    let epoch = Epoch::new(u32::MAX, 5);
    assert_eq!((epoch.boot(), epoch.counter()), (u32::MAX, 5));
    assert_eq!(Epoch::from_u64(epoch.as_u64()), epoch);
}

#[test]
fn the_verifier_of_a_place_differs_with_its_process_its_group_its_place_and_its_reign() {
    let verifiers = [
        place_verifier([1; 8], 2, 3, 4),
        place_verifier([2; 8], 2, 3, 4),
        place_verifier([1; 8], 3, 3, 4),
        place_verifier([1; 8], 2, 4, 4),
        place_verifier([1; 8], 2, 3, 5),
    ];
    for (n, verifier) in verifiers.iter().enumerate() {
        assert!(!verifiers[..n].contains(verifier), "{n}");
    }
    assert_eq!(place_verifier([1; 8], 2, 3, 4), verifiers[0]);
}
