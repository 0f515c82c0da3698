//! Goal: every message comes back as it was sent, and no prefix of one is taken for a message. The largest ones fit
//! into a record. Calls that are not ours get the answer of the RFC. Method: one full sample of each type, random bytes
//! through the fuzz entry point.

use layout::{ClientTag, Epoch, Floor, KeyBytes, KeyRing, Row, SigningKey, Striping};
use nfs4::{NfsTime, Verifier};
use proptest::prelude::*;
use rpc::{AcceptError, UniversalAddress};
use xdr::List;

use crate::*;

const E: Epoch = Epoch::new(7, 8);

fn ring() -> KeyRing {
    let mut ring = KeyRing::new();
    for id in 1..=16 {
        let bytes = KeyBytes::from_random([u8::try_from(id).unwrap(); 32]);
        ring.insert_active(SigningKey::new(id, bytes)).unwrap();
    }
    ring
}

fn text<const MAX: u32>() -> Text<MAX> {
    Text::cut(&"x".repeat(MAX as usize))
}

fn full<T: Clone, const MAX: u32>(item: T) -> List<T, MAX> {
    vec![item; MAX as usize].into()
}

fn object() -> ObjectRef {
    ObjectRef {
        group: 0,
        file_id: u64::MAX,
        generation: 3,
        place: 255,
    }
}

fn floor() -> Floor {
    Floor::Client {
        file_id: 5,
        client: ClientTag::of(1, b"a"),
        epoch: E,
        through_key: 3,
    }
}

fn capacity() -> Capacity {
    Capacity {
        total_bytes: 10,
        free_bytes: 9,
        unused_bytes: 10,
        object_bytes_max: 11,
        disk: 7,
        objects_count: 8,
    }
}

fn store() -> StoreIdentity {
    StoreIdentity {
        store_id: 1,
        counter: 2,
        changes: 3,
    }
}

fn address() -> NetAddr {
    NetAddr {
        netid: text(),
        uaddr: text(),
    }
}

fn join() -> JoinArgs {
    JoinArgs {
        versions: VersionRange::OURS,
        secret: JoinSecret([0xab; JOIN_SECRET_BYTES]),
        public_key: vec![4; PUBLIC_KEY_BYTES_MAX as usize][..].into(),
        store: store(),
        addresses: full(address()),
        capacity: capacity(),
    }
}

fn hello() -> HelloArgs {
    HelloArgs {
        versions: VersionRange::OURS,
        cluster_id: 1,
        ds_id: 2,
        store: store(),
        boot_nonce: [9; 16],
        addresses: full(address()),
        capacity: capacity(),
        location: text(),
        // Decoding every prefix of a full list takes long.
        groups: vec![
            GroupVersion {
                group: 3,
                version: 4
            };
            8
        ]
        .into(),
    }
}

fn hello_ok() -> HelloOk {
    HelloOk {
        version: 1,
        cluster_floor: E,
        lease_ms: 3,
        heartbeat_ms: 1,
        keys: KeySet::of(&ring()),
        proxy_client: ClientTag::of(1, b"mds"),
        floors_pending: true,
    }
}

const LAG: MemberLag = MemberLag {
    ds_id: 6,
    queued_bytes: u64::MAX,
    queued_items: 5,
    oldest_ms: 4,
    sync_us: 3,
};

const LACKING: PlaceParts = PlaceParts {
    group: 7,
    place: 57,
    parts: u64::MAX,
};

/// Round trip and truncation of one request and one answer at their limits.
fn check<R>(args: R, ok: R::Ok)
where
    R: Request + PartialEq + std::fmt::Debug,
    R::Ok: PartialEq + std::fmt::Debug,
{
    let bytes = xdr::encode_to_vec(&args);
    assert_eq!(xdr::decode_all::<R>(&bytes).unwrap(), args);
    truncated::<R>(&bytes);
    let mds = ToMds::decode(R::PROC as u32, &bytes).map(|call| call.proc());
    let ds = ToDs::decode(R::PROC as u32, &bytes).map(|call| call.proc());
    let unknown = Err(CallDecodeError::Procedure(R::PROC as u32));
    match R::PROC.caller() {
        AllowedCaller::MetadataServer => assert_eq!((mds, ds), (unknown, Ok(R::PROC))),
        AllowedCaller::Anyone | AllowedCaller::DataServer => {
            assert_eq!((mds, ds), (Ok(R::PROC), unknown));
        }
    }

    let answer = Answer::Ok(ok);
    let bytes = xdr::encode_to_vec(&answer);
    assert_eq!(xdr::decode_all::<Answer<R::Ok>>(&bytes).unwrap(), answer);
    truncated::<Answer<R::Ok>>(&bytes);
    let refused = Answer::<R::Ok>::Refused(Refusal::new(Status::TryLater, "busy"));
    let bytes = xdr::encode_to_vec(&refused);
    assert_eq!(xdr::decode_all::<Answer<R::Ok>>(&bytes).unwrap(), refused);
    truncated::<Answer<R::Ok>>(&bytes);
}

fn truncated<T: for<'a> xdr::Decode<'a>>(bytes: &[u8]) {
    // The limit leaves room for an RPC header with the largest authenticators.
    assert!(bytes.len() + 1024 <= MESSAGE_BYTES_MAX as usize);
    for len in 0..bytes.len() {
        assert!(
            xdr::decode_all::<T>(&bytes[..len]).is_err(),
            "prefix of {len} bytes"
        );
    }
    let mut longer = bytes.to_vec();
    longer.extend_from_slice(&[0; 4]);
    assert!(xdr::decode_all::<T>(&longer).is_err(), "trailing bytes");
}

fn scrub_state() -> ScrubState {
    ScrubState {
        is_running: true,
        order: 1,
        objects: 2,
        objects_done: 3,
        bytes_read: 4,
        scrubbed_at: 5,
        blocks_found: 6,
        blocks_mended: 7,
        damaged_blocks: 8,
        damaged_files: full(9),
    }
}

fn heartbeat() -> HeartbeatArgs {
    let counters = Counters {
        client_read_bytes: 1,
        client_written_bytes: 2,
        proxy_read_bytes: 3,
        proxy_written_bytes: 4,
        handles_forged: 5,
        handles_of_others: 6,
        handles_fenced: 7,
        handles_removed: 8,
        objects_lost: 9,
        io_errors: 10,
    };
    HeartbeatArgs {
        capacity: capacity(),
        counters,
        floors_fill_percent: 51,
        changes: 4,
        fillings: full(FillProgress {
            group: 7,
            place: 57,
            ds_id: 6,
            parts: 9,
            parts_done: 8,
            bytes_sent: 7,
        }),
        scrub: scrub_state(),
        failing: full(PlaceReign {
            group: 7,
            place: 57,
            reign: 3,
        }),
        sync_us: 52,
        lags: full(LAG),
        lacking: full(LACKING),
    }
}

#[test]
fn calls_to_the_mds_round_trip() {
    let certificate = || vec![0x30; CERTIFICATE_BYTES_MAX as usize][..].into();
    let join_ok = JoinOk {
        cluster_id: 1,
        ds_id: 2,
        certificate: certificate(),
        ca_certificate: certificate(),
    };
    check(join(), join_ok);
    check(hello(), hello_ok());
    let heartbeat = heartbeat();
    let heartbeat_ok = HeartbeatOk {
        lease_ms: 5,
        cluster_floor: E,
        changes: 4,
        scrub_order: 6,
        fill_bytes_per_s: 7,
    };
    check(heartbeat, heartbeat_ok);
    let size = SizeArgs {
        file_id: 1,
        generation: 2,
    };
    let size_ok = SizeOk {
        size_bytes: u64::MAX,
        cache_ms: 4,
    };
    check(size, size_ok);
    let item = WroteItem {
        file_id: 1,
        generation: 2,
        end_offset: 3,
        time: NfsTime::default(),
        taken_bytes: Some(4),
    };
    let wrote = WroteArgs { items: full(item) };
    let statuses: ItemStatuses = full(Status::NotFound);
    check(wrote, statuses);
}

#[test]
fn batches_to_a_data_server_round_trip() {
    let statuses: ItemStatuses = full(Status::NotFound);
    let item = StatItem {
        status: Status::Ok,
        size_bytes: 1,
        durable_bytes: 2,
        space_bytes: 3,
        modified: NfsTime::default(),
    };
    let stat = StatArgs {
        objects: full(object()),
    };
    check(stat, StatOk { items: full(item) });
    let item = SetSizeItem {
        object: object(),
        size_bytes: 4,
        floor: E,
        through_key: 5,
    };
    check(SetSizeArgs { items: full(item) }, statuses.clone());
    let commit = CommitObjectsArgs {
        objects: full(object()),
    };
    let commit_ok = CommitOk {
        verifier: Verifier { bytes: [6; 8] },
        statuses: statuses.clone(),
    };
    check(commit, commit_ok);
    let item = RemoveItem {
        places: 1,
        file_id: 1,
        generation: 2,
        floor: E,
        through_key: 3,
    };
    check(RemoveObjectsArgs { items: full(item) }, statuses);
}

#[test]
fn orders_to_a_data_server_round_trip() {
    check(
        FenceArgs {
            floors: full(floor()),
        },
        (),
    );
    let keys = KeySet::of(&ring());
    assert_eq!(keys.ring().unwrap(), ring());
    check(KeysArgs { keys }, ());
    check(ExpelArgs { reason: text() }, ());
    check(ShutdownArgs { drain_ms: 1 }, ());
}

#[test]
fn calls_about_ranges_of_an_object_round_trip() {
    let striping = Striping::new(4096, 4, 3).unwrap();
    let stripes = Stripes::of(striping, 1);
    assert_eq!(stripes.striping(), Some(striping));
    let range = Range {
        start: 1,
        end: u64::MAX,
    };
    let map = MapArgs {
        object: object(),
        stripes,
        range,
        ranges_max: 5,
    };
    let map_ok = |count| MapOk {
        size_bytes: 6,
        ranges: vec![range; count].into(),
        through: 7,
    };
    check(map, map_ok(9));
    let largest = xdr::encode_to_vec(&Answer::Ok(map_ok(MAP_RANGES_MAX as usize)));
    assert!(largest.len() + 1024 <= MESSAGE_BYTES_MAX as usize);
    let punch = PunchArgs {
        object: object(),
        range,
        durable: true,
    };
    let verifier = Verifier { bytes: [6; 8] };
    check(punch, PunchOk { verifier });
    let reserve = ReserveArgs {
        object: object(),
        stripes,
        range,
    };
    check(reserve, ReserveOk { through: 8 });
    let clone = CloneObjectArgs {
        src: object(),
        src_offset: 9,
        dst: object(),
        range,
    };
    check(clone, ());
}

#[test]
fn a_page_of_rows_round_trips() {
    let page = |count| RowsArgs {
        rows: vec![
            PlaceRow {
                group: 7,
                place: 57,
                width: 58,
                version: 9,
                row: Row::new(&[1, 2, 3, 4, 5, 6, 7, 8], 9),
                copies_min: 2,
            };
            count
        ]
        .into(),
        members: vec![
            MemberAddresses {
                ds_id: 5,
                addresses: full(address()),
            };
            count
        ]
        .into(),
    };
    let newer = vec![7; ROWS_PAGE_MAX as usize].into();
    check(page(2), RowsOk { newer });
    let bytes = xdr::encode_to_vec(&page(ROWS_PAGE_MAX as usize));
    assert!(bytes.len() + 1024 <= MESSAGE_BYTES_MAX as usize);
    let place = PlaceReign {
        group: 7,
        place: 57,
        reign: 4,
    };
    let rows = page(2).rows;
    let out = OutArgs {
        ds_id: 6,
        places: vec![place; 3].into(),
    };
    check(out, RowsTold { rows: rows.clone() });
    let filled = FilledArgs {
        ds_id: 6,
        place,
        era: 5,
    };
    check(filled, RowsTold { rows });
    let places = vec![place; 3].into();
    check(YieldArgs { places }, ());
    let (group, place) = (7, 57);
    check(LeftArgs { group, place }, ());
    check(StoppingArgs { wait_ms: 5 }, ());
}

#[test]
fn stripes_that_cannot_be_are_none() {
    let good = Stripes {
        unit_bytes: 4096,
        width: 4,
        first_index: 0,
        index: 3,
    };
    assert!(good.striping().is_some());
    for bad in [
        Stripes { index: 4, ..good },
        Stripes { width: 0, ..good },
        Stripes {
            unit_bytes: 0,
            ..good
        },
        Stripes {
            first_index: 4,
            ..good
        },
    ] {
        assert_eq!(bad.striping(), None, "{bad:?}");
    }
}

#[test]
fn a_page_of_floors_round_trips() {
    // Fewer than the limit: truncation at every byte is quadratic. The limit is checked alone.
    let page = |count| FloorsArgs {
        page: 1,
        last: true,
        floors: vec![floor(); count].into(),
    };
    check(page(40), ());
    let bytes = xdr::encode_to_vec(&page(FLOORS_PAGE_MAX as usize));
    assert!(bytes.len() + 1024 <= MESSAGE_BYTES_MAX as usize);
    assert!(xdr::decode_all::<FloorsArgs>(&bytes).is_ok());
    let bytes = xdr::encode_to_vec(&page(FLOORS_PAGE_MAX as usize + 1));
    assert!(xdr::decode_all::<FloorsArgs>(&bytes).is_err());
}

#[test]
fn lists_above_their_limit_are_refused() {
    let objects = vec![object(); BATCH_MAX as usize + 1].into();
    let bytes = xdr::encode_to_vec(&StatArgs { objects });
    let refused = ToDs::decode(Proc::Stat as u32, &bytes).unwrap_err();
    assert_eq!(refused.accept_error(), AcceptError::GarbageArgs);
    let mut many = hello();
    many.addresses.0.push(address());
    assert!(ToMds::decode(Proc::Hello as u32, &xdr::encode_to_vec(&many)).is_err());
}

#[test]
fn calls_that_are_not_ours_get_the_answer_of_the_rfc() {
    assert_eq!(admit(PROGRAM, VERSION_MAX), Ok(()));
    let other = admit(nfs4::PROGRAM, VERSION_MAX).unwrap_err();
    assert_eq!(other.accept_error(), AcceptError::ProgUnavail);
    for version in [0, VERSION_MIN - 1, VERSION_MAX + 1, u32::MAX] {
        let low_high = AcceptError::ProgMismatch { low: 10, high: 10 };
        assert_eq!(
            admit(PROGRAM, version).unwrap_err().accept_error(),
            low_high
        );
    }
    for procedure in [10, 31, 48, u32::MAX] {
        let refused = CallDecodeError::Procedure(procedure);
        assert_eq!(ToMds::decode(procedure, &[]), Err(refused));
        assert_eq!(ToDs::decode(procedure, &[]), Err(refused));
        assert_eq!(refused.accept_error(), AcceptError::ProcUnavail);
    }
    assert_eq!(ToMds::decode(0, &[]), Ok(ToMds::Null));
    assert!(ToDs::decode(0, &[0; 4]).is_err());
}

#[test]
fn a_place_above_255_is_refused() {
    let mut bytes = xdr::encode_to_vec(&object());
    bytes[12..16].copy_from_slice(&256_u32.to_be_bytes());
    assert!(xdr::decode_all::<ObjectRef>(&bytes).is_err());
}

#[test]
fn versions_meet_at_the_highest_common_one() {
    let range = |low, high| VersionRange { low, high };
    assert_eq!(range(1, 3).common(range(2, 5)), Some(3));
    assert_eq!(range(1, 1).common(range(2, 5)), None);
    assert_eq!(range(3, 1).common(range(1, 10)), None);
    let refusal = Refusal::new(Status::UnsupportedVersion, "too new");
    assert!(refusal.to_string().contains("speaks 10 to 10"));
}

#[test]
fn addresses_come_back_and_unknown_transports_stay_text() {
    let ours = UniversalAddress::tcp("[2001:db8::1]:20491".parse().unwrap());
    assert_eq!(NetAddr::from(ours).parse(), Ok(ours));
    assert!(address().parse().is_err());
}

#[test]
fn long_sentences_are_cut_between_characters() {
    let refusal = Refusal::new(Status::Io, &"é".repeat(200));
    assert_eq!(refusal.detail.as_str().len(), 256);
    let odd = Refusal::new(Status::Io, &format!("x{}", "é".repeat(200)));
    assert_eq!(odd.detail.as_str().len(), 255);
}

#[test]
fn debug_output_shows_no_secrets() {
    let shown = format!("{:?} {:?}", join().secret, hello_ok());
    assert!(shown.contains("<secret>") && !shown.contains("171"));
}

proptest! {
    #[test]
    fn any_bytes_are_taken_without_harm(
        words in prop::collection::vec(prop_oneof![0_u32..4, any::<u32>()], 0..64),
        tail in prop::collection::vec(any::<u8>(), 0..4),
    ) {
        let mut bytes: Vec<u8> = words.iter().flat_map(|w| w.to_be_bytes()).collect();
        bytes.extend_from_slice(&tail);
        fuzz::message(&bytes);
    }

    #[test]
    fn altered_messages_are_taken_without_harm(at in 0_usize..2000, byte: u8) {
        for mut bytes in [
            xdr::encode_to_vec(&join()),
            xdr::encode_to_vec(&Answer::Ok(hello_ok())),
            xdr::encode_to_vec(&StatArgs { objects: vec![object(); 9].into() }),
        ] {
            let at = at % bytes.len();
            bytes[at] = byte;
            fuzz::message(&bytes);
        }
    }
}
