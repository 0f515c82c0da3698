//! Goal: the bodies of the flexible files layout have the bytes of RFC 8435, and nothing that it forbids decodes.
//! Method: each type written out by hand, word for word; then changed, cut, and made too long.

use xdr::{Decode, DecodeErrorKind, Encode, List, Opaque, OpaqueBuf, decode_all, encode_to_vec};

use super::wire::wire;
use crate::{cb::*, flex_files::*, layout::*, ops::*, *};

/// A body behind the byte that chooses it for the fuzz target.
pub(super) fn chosen(choice: u8, body: &impl Encode) -> Vec<u8> {
    let mut bytes = vec![choice];
    bytes.extend(encode_to_vec(body));
    bytes
}

fn addr() -> NetAddr {
    NetAddr {
        netid: OpaqueBuf(b"tcp".to_vec()),
        uaddr: OpaqueBuf(b"10.0.0.1.8.1".to_vec()),
    }
}

fn version(version: u32, minor_version: u32, tightly_coupled: bool) -> FlexDeviceVersion {
    FlexDeviceVersion {
        version,
        minor_version,
        rsize_bytes: 1 << 20,
        wsize_bytes: 1 << 19,
        tightly_coupled,
    }
}

pub(super) fn device() -> FlexDeviceAddr {
    FlexDeviceAddr {
        net_addrs: List(vec![addr()]),
        versions: List(vec![version(3, 0, false), version(4, 2, true)]),
    }
}

fn server(number: u8) -> FlexDataServer {
    FlexDataServer {
        device_id: DeviceId {
            bytes: [number; 16],
        },
        efficiency: 7,
        stateid: Stateid::ANONYMOUS,
        file_handles: List(vec![
            OpaqueBuf(b"three".to_vec()),
            OpaqueBuf(b"four".to_vec()),
        ]),
        user: owner_of_id(19452),
        group: owner_of_id(28418),
    }
}

fn mirror(numbers: &[u8]) -> FlexMirror {
    FlexMirror {
        data_servers: List(numbers.iter().map(|n| server(*n)).collect()),
    }
}

pub(super) fn layout() -> FlexLayout {
    FlexLayout {
        stripe_unit_bytes: 0,
        mirrors: List(vec![mirror(&[0xd]), mirror(&[0xe])]),
        flags: FlexFlags(FF_FLAGS_NO_LAYOUTCOMMIT | FF_FLAGS_NO_READ_IO),
        stats_collect_hint_seconds: 60,
    }
}

fn latency(first: u64) -> FlexIoLatency {
    let time = |seconds, nanoseconds| NfsTime {
        seconds,
        nanoseconds,
    };
    FlexIoLatency {
        ops_requested: first,
        bytes_requested: first + 1,
        ops_completed: first + 2,
        bytes_completed: first + 3,
        bytes_not_delivered: first + 4,
        total_busy_time: time(5, 6),
        aggregate_completion_time: time(7, 8),
    }
}

pub(super) fn update() -> FlexLayoutUpdate {
    FlexLayoutUpdate {
        addr: addr(),
        file_handle: OpaqueBuf(b"four".to_vec()),
        read: latency(10),
        write: latency(20),
        duration: NfsTime {
            seconds: 9,
            nanoseconds: 11,
        },
        local: true,
    }
}

fn stateid() -> Stateid {
    Stateid {
        seqid: 1,
        other: [0xa; 12],
    }
}

fn io_error() -> FlexIoError {
    FlexIoError {
        offset: 4096,
        length: LENGTH_TO_EOF,
        stateid: stateid(),
        errors: List(vec![DeviceError {
            device_id: DeviceId { bytes: [0xd; 16] },
            status: 10_021, // NFS4ERR_MINOR_VERS_MISMATCH
            opnum: 38,      // OP_WRITE
        }]),
    }
}

fn io_stats() -> FlexIoStats {
    FlexIoStats {
        offset: 1,
        length: 2,
        stateid: stateid(),
        read: IoInfo { count: 3, bytes: 4 },
        write: IoInfo { count: 5, bytes: 6 },
        device_id: DeviceId { bytes: [0xe; 16] },
        layout_update: update(),
    }
}

pub(super) fn layout_return() -> FlexLayoutReturn {
    FlexLayoutReturn {
        io_errors: List(vec![io_error()]),
        io_stats: List(vec![io_stats()]),
    }
}

fn server_bytes(number: u8) -> Vec<u8> {
    wire![
        &[number; 16][..], // ffds_deviceid
        7_u32,             // ffds_efficiency
        0_u64,
        0_u64, // ffds_stateid
        2_u32, // two of ffds_fh_vers
        5_u32,
        &b"three\0\0\0"[..],
        4_u32,
        &b"four"[..],
        5_u32,
        &b"19452\0\0\0"[..], // ffds_user
        5_u32,
        &b"28418\0\0\0"[..], // ffds_group
    ]
}

fn layout_bytes() -> Vec<u8> {
    wire![
        0_u64, // ffl_stripe_unit
        2_u32, // two of ffl_mirrors
        1_u32, // one of ffm_data_servers
        &server_bytes(0xd)[..],
        1_u32,
        &server_bytes(0xe)[..],
        0x5_u32, // ffl_flags
        60_u32,  // ffl_stats_collect_hint
    ]
}

fn update_bytes() -> Vec<u8> {
    let latency = |first: u64| {
        wire![
            first, // ffil_ops_requested
            first + 1,
            first + 2,
            first + 3,
            first + 4,
            5_u64,
            6_u32, // ffil_total_busy_time
            7_u64,
            8_u32, // ffil_aggregate_completion_time
        ]
    };
    wire![
        3_u32,
        &b"tcp\0"[..],
        12_u32,
        &b"10.0.0.1.8.1"[..], // ffl_addr
        4_u32,
        &b"four"[..],     // ffl_fhandle
        &latency(10)[..], // ffl_read
        &latency(20)[..], // ffl_write
        9_u64,
        11_u32, // ffl_duration
        1_u32,  // ffl_local
    ]
}

fn io_error_bytes() -> Vec<u8> {
    wire![
        4096_u64, // ffie_offset
        u64::MAX, // ffie_length
        1_u32,
        &[0xa_u8; 12][..], // ffie_stateid
        1_u32,             // one of ffie_errors
        &[0xd_u8; 16][..],
        10_021_u32,
        38_u32,
    ]
}

/// `ff_iostats4` up to `ffis_layoutupdate`; LAYOUTSTATS begins with the same.
fn io_stats_bytes() -> Vec<u8> {
    wire![
        1_u64, // ffis_offset
        2_u64, // ffis_length
        1_u32,
        &[0xa_u8; 12][..], // ffis_stateid
        3_u64,
        4_u64, // ffis_read
        5_u64,
        6_u64,             // ffis_write
        &[0xe_u8; 16][..], // ffis_deviceid
    ]
}

/// The value has these bytes, they decode to it, and neither a part of them does nor they with more.
fn assert_wire<'a, T>(value: &T, bytes: &'a [u8], longer: &'a [u8])
where
    T: Encode + Decode<'a> + PartialEq + std::fmt::Debug,
{
    assert_eq!(encode_to_vec(value), bytes);
    assert_eq!(decode_all::<T>(bytes).as_ref(), Ok(value));
    for at in 0..bytes.len() {
        assert!(decode_all::<T>(&bytes[..at]).is_err(), "cut at {at}");
    }
    assert!(decode_all::<T>(longer).is_err(), "bytes after the end");
}

macro_rules! assert_wire {
    ($value:expr, $bytes:expr) => {{
        let bytes: Vec<u8> = $bytes;
        let longer = [bytes.as_slice(), &[0; 4]].concat();
        assert_wire(&$value, &bytes, &longer);
    }};
}

fn refusal<T: Encode + for<'a> Decode<'a>>(value: &T) -> DecodeErrorKind {
    let bytes = encode_to_vec(value);
    match decode_all::<T>(&bytes) {
        Err(e) => e.kind,
        Ok(_) => panic!("it decodes"),
    }
}

fn decodes<T: Encode + for<'a> Decode<'a>>(value: &T) -> bool {
    decode_all::<T>(&encode_to_vec(value)).is_ok()
}

#[test]
fn device_address() {
    assert_wire!(
        device(),
        wire![
            1_u32, // one of ffda_netaddrs
            3_u32,
            &b"tcp\0"[..],
            12_u32,
            &b"10.0.0.1.8.1"[..],
            2_u32,           // two of ffda_versions
            3_u32,           // ffdv_version
            0_u32,           // ffdv_minorversion
            0x0010_0000_u32, // ffdv_rsize
            0x0008_0000_u32, // ffdv_wsize
            0_u32,           // ffdv_tightly_coupled
            4_u32,
            2_u32,
            0x0010_0000_u32,
            0x0008_0000_u32,
            1_u32,
        ]
    );
}

#[test]
fn layout_of_two_mirrors() {
    assert_wire!(layout(), layout_bytes());
    assert_eq!(layout().stripe_count(), 1);
}

#[test]
fn layout_return_with_errors_and_statistics() {
    assert_wire!(
        layout_return(),
        wire![
            1_u32, // one of fflr_ioerr_report
            &io_error_bytes()[..],
            1_u32, // one of fflr_iostats_report
            &io_stats_bytes()[..],
            &update_bytes()[..], // ffis_layoutupdate, not opaque
        ]
    );
    let nothing = FlexLayoutReturn::default();
    assert_wire!(nothing, wire![0_u32, 0_u32]);
    assert_eq!(FlexLayoutReturn::of_body(b""), Ok(nothing));
    assert!(FlexLayoutReturn::of_body(&wire![0_u32]).is_err());
}

#[test]
fn layout_hint() {
    let hint = |mirrors| FlexLayoutHint { mirrors };
    assert_wire!(hint(Some(3)), wire![1_u32, 3_u32]);
    assert_wire!(hint(None), wire![0_u32]);
    assert!(decode_all::<FlexLayoutHint>(&wire![2_u32, 3_u32]).is_err());
}

#[test]
fn layouterror_has_the_bytes_of_an_error_in_a_return() {
    assert_wire!(io_error(), io_error_bytes());
    let args: LayoutErrorArgs = decode_all(&io_error_bytes()).unwrap();
    assert_eq!(FlexIoError::from(args), io_error());
}

#[test]
fn layoutstats_carries_the_update_as_opaque_bytes() {
    let of_type = |layout_type: u32, body: &[u8]| {
        let length = u32::try_from(body.len()).unwrap();
        let stats = io_stats_bytes();
        wire![&stats[..], layout_type, length, body]
    };
    let update = update_bytes();
    let of = |bytes: &[u8]| FlexIoStats::of_layoutstats(&decode_all(bytes).unwrap());
    assert_eq!(of(&of_type(4, &update)), Ok(io_stats()));
    assert!(of(&of_type(1, &update)).is_err(), "another layout type");
    assert!(of(&of_type(4, &update[..update.len() - 4])).is_err());
    assert!(of(&of_type(4, &[&update[..], &[0; 4]].concat())).is_err());
}

#[test]
fn bodies_fit_into_the_operations_that_carry_them() {
    let body = encode_to_vec(&layout_return());
    let args = LayoutReturnArgs {
        reclaim: false,
        layout_type: LAYOUT_FLEX_FILES,
        iomode: IoMode::Any,
        what: LayoutReturn::File(LayoutReturnFile {
            offset: 0,
            length: LENGTH_TO_EOF,
            stateid: stateid(),
            body: Opaque(&body),
        }),
    };
    let bytes = encode_to_vec(&args);
    let LayoutReturn::File(file) = decode_all::<LayoutReturnArgs<'_>>(&bytes).unwrap().what else {
        panic!("it was a file");
    };
    assert_eq!(FlexLayoutReturn::of_body(file.body.0), Ok(layout_return()));

    // The longest layout: each handle as long as can be, ids of ten digits.
    let mut longest = layout();
    let mut server = server(1);
    server.file_handles = List(vec![OpaqueBuf(vec![1; FH_BYTES_MAX as usize])]);
    server.user = owner_of_id(u32::MAX);
    server.group = owner_of_id(u32::MAX);
    let servers = vec![server; DATA_SERVERS_MAX as usize];
    let mirror = FlexMirror {
        data_servers: List(servers),
    };
    longest.stripe_unit_bytes = 1 << 20;
    longest.mirrors = List(vec![mirror; MIRRORS_MAX as usize]);
    assert!(encode_to_vec(&longest).len() <= LAYOUT_BODY_BYTES_MAX as usize);
    assert!(decodes(&longest));
}

#[test]
fn numbers_of_flags_and_recallable_objects_are_those_of_the_rfc() {
    let told = |bits| {
        let flags = FlexFlags(bits);
        [
            flags.is_no_layoutcommit(),
            flags.is_no_io_thru_mds(),
            flags.is_no_read_io(),
            flags.is_write_one_mirror(),
        ]
    };
    assert_eq!(told(0x1), [true, false, false, false]);
    assert_eq!(told(0x2), [false, true, false, false]);
    assert_eq!(told(0x4), [false, false, true, false]);
    assert_eq!(told(0x8), [false, false, false, true]);
    let unknown = FlexFlags(0x8000_0010);
    assert_eq!(decode_all(&encode_to_vec(&unknown)), Ok(unknown));
    let args = CbRecallAnyArgs {
        objects_to_keep: 5,
        type_mask: Bitmap::of(&[RCA_FLEX_LAYOUT_READ, RCA_FLEX_LAYOUT_RW]),
    };
    assert_eq!(encode_to_vec(&args), wire![5_u32, 1_u32, 0x0003_0000_u32]);
}

#[test]
fn nfs3_with_a_minor_version_or_tight_coupling_is_refused() {
    let of = |v: u32, minor: u32, tight: bool| FlexDeviceAddr {
        versions: List(vec![version(v, minor, tight)]),
        ..device()
    };
    assert!(decodes(&of(3, 0, false)) && decodes(&of(4, 1, true)) && decodes(&of(5, 1, true)));
    for wrong in [of(3, 1, false), of(3, 0, true)] {
        assert!(matches!(refusal(&wrong), DecodeErrorKind::Invalid(_)));
    }
}

#[test]
fn a_device_without_an_address_is_refused() {
    let mut device = device();
    device.net_addrs.0.clear();
    assert_eq!(
        refusal(&device),
        DecodeErrorKind::Invalid("a device has no address")
    );
}

#[test]
fn a_layout_that_cannot_be_divided_is_refused() {
    let of = |stripe_unit_bytes, mirrors: &[&[u8]]| FlexLayout {
        stripe_unit_bytes,
        mirrors: List(mirrors.iter().map(|numbers| mirror(numbers)).collect()),
        ..layout()
    };
    let wrong = [
        (of(64, &[]), "a layout has no data server"),
        (of(64, &[&[], &[]]), "a layout has no data server"),
        (of(64, &[&[1, 2], &[3]]), "mirrors differ in their stripes"),
        (of(64, &[&[1], &[]]), "mirrors differ in their stripes"),
        (of(0, &[&[1, 2]]), "stripes have no size"),
    ];
    for (layout, why) in wrong {
        assert_eq!(refusal(&layout), DecodeErrorKind::Invalid(why));
    }
    let striped = of(64, &[&[1, 2], &[3, 4], &[5, 6]]);
    assert!(decodes(&striped) && decodes(&of(64, &[&[1]])));
    assert_eq!(striped.stripe_count(), 2);
}

#[test]
fn limits_of_the_flexible_files_layout_are_refused_one_above() {
    let mirrors = |n: usize| FlexLayout {
        mirrors: List(vec![mirror(&[1]); n]),
        ..layout()
    };
    assert!(decodes(&mirrors(16)) && !decodes(&mirrors(17)));
    let servers = |n: usize| FlexLayout {
        stripe_unit_bytes: 64,
        mirrors: List(vec![mirror(&vec![1; n])]),
        ..layout()
    };
    assert!(decodes(&servers(256)) && !decodes(&servers(257)));
    let handles = |n: usize| FlexDataServer {
        file_handles: List(vec![OpaqueBuf(vec![1]); n]),
        ..server(1)
    };
    assert!(decodes(&handles(8)) && !decodes(&handles(9)));
    let versions = |n: usize| FlexDeviceAddr {
        versions: List(vec![version(4, 1, false); n]),
        ..device()
    };
    assert!(decodes(&versions(8)) && !decodes(&versions(9)));
    let addrs = |n: usize| FlexDeviceAddr {
        net_addrs: List(vec![addr(); n]),
        ..device()
    };
    assert!(decodes(&addrs(32)) && !decodes(&addrs(33)));
    let errors = |n: usize| FlexLayoutReturn {
        io_errors: List(vec![io_error(); n]),
        ..FlexLayoutReturn::default()
    };
    assert!(decodes(&errors(256)) && !decodes(&errors(257)));
    let stats = |n: usize| FlexLayoutReturn {
        io_stats: List(vec![io_stats(); n]),
        ..FlexLayoutReturn::default()
    };
    assert!(decodes(&stats(256)) && !decodes(&stats(257)));
}

#[test]
fn ids_are_decimal_and_have_no_leading_zeros() {
    for id in [0, 1, 19452, u32::MAX] {
        assert_eq!(id_of_owner(&owner_of_id(id)), Some(id));
    }
    assert_eq!(owner_of_id(19452).0, b"19452");
    let others = [
        "",
        "00",
        "012",
        "0x10",
        "+1",
        "-1",
        " 1",
        "1 ",
        "4294967296",
        "u@d",
    ];
    for other in others {
        let owner = Owner::from(other.as_bytes());
        assert_eq!(id_of_owner(&owner), None, "{other:?}");
    }
}

#[test]
fn a_handle_is_that_of_the_version_at_its_place() {
    let (device, server) = (device(), server(1));
    let handle = |at| device.handle_of(&server, at).map(|handle| &handle.0[..]);
    assert_eq!(handle(0), Some(&b"three"[..]));
    assert_eq!(handle(1), Some(&b"four"[..]));
    assert_eq!(handle(2), None);

    let mut fewer = server.clone();
    fewer.file_handles.0.pop();
    assert_eq!(device.handle_of(&fewer, 0), None, "numbers differ");

    let long = |bytes: usize| {
        let mut server = server.clone();
        server.file_handles.0 = vec![OpaqueBuf(vec![1; bytes]); 2];
        [0, 1].map(|at| device.handle_of(&server, at).is_some())
    };
    assert_eq!(long(64), [true, true]);
    assert_eq!(long(65), [false, true], "too long for NFSv3");
}
