//! Goal: the bytes are those of the RFC, not only our own idea of them. Method: a few operations written out by
//! hand, word for word, from RFC 5662 and RFC 8881 §13.3.

use xdr::{Encode, List, Opaque, OpaqueBuf, decode_all, encode_to_vec};

use crate::{cb::*, layout::*, ops::*, *};

/// Words of four bytes, and raw bytes where they are given.
macro_rules! wire {
    ($( $item:expr ),* $(,)?) => {{
        let mut out: Vec<u8> = Vec::new();
        $( out.extend_from_slice(&$crate::tests::wire::Item::from($item).0); )*
        out
    }};
}
pub(super) use wire;

pub(super) struct Item(pub(super) Vec<u8>);

impl From<u32> for Item {
    fn from(word: u32) -> Self {
        Self(word.to_be_bytes().to_vec())
    }
}

impl From<u64> for Item {
    fn from(word: u64) -> Self {
        Self(word.to_be_bytes().to_vec())
    }
}

impl From<&[u8]> for Item {
    fn from(bytes: &[u8]) -> Self {
        Self(bytes.to_vec())
    }
}

#[test]
fn sequence() {
    let args = SequenceArgs {
        session_id: SessionId { bytes: [7; 16] },
        sequence_id: 1,
        slot_id: 2,
        highest_slot_id: 3,
        cache_this: true,
    };
    let bytes = wire![&[7_u8; 16][..], 1_u32, 2_u32, 3_u32, 1_u32];
    assert_eq!(encode_to_vec(&args), bytes);
    assert_eq!(decode_all(&bytes), Ok(args));
    let res = SequenceRes {
        session_id: SessionId { bytes: [7; 16] },
        sequence_id: 1,
        slot_id: 2,
        highest_slot_id: 3,
        target_highest_slot_id: 4,
        status_flags: SEQ_STATUS_RESTART_RECLAIM_NEEDED,
    };
    let bytes = wire![&[7_u8; 16][..], 1_u32, 2_u32, 3_u32, 4_u32, 0x100_u32];
    assert_eq!(encode_to_vec(&res), bytes);
    assert_eq!(decode_all(&bytes), Ok(res));
}

#[test]
fn exchange_id() {
    let args = ExchangeIdArgs {
        client_owner: ClientOwner {
            verifier: Verifier {
                bytes: *b"\0\x01\x02\x03\x04\x05\x06\x07",
            },
            ownerid: Opaque(b"owner"),
        },
        flags: 0x0001_0103,
        state_protect: StateProtectArgs::MachCred(StateProtectOps {
            must_enforce: Bitmap::of(&[OpNum::CreateSession as u32, OpNum::DestroySession as u32]),
            must_allow: Bitmap::EMPTY,
        }),
        client_impl_id: Some(ImplId {
            domain: Opaque(b"k.org"),
            name: Opaque(b"Lx"),
            date: NfsTime {
                seconds: -1,
                nanoseconds: 9,
            },
        }),
    };
    let bytes = wire![
        &b"\0\x01\x02\x03\x04\x05\x06\x07"[..], // co_verifier
        5_u32,
        &b"owner\0\0\0"[..], // co_ownerid
        0x0001_0103_u32,     // eia_flags
        1_u32,               // SP4_MACH_CRED
        2_u32,
        0_u32,
        (1_u32 << (43 - 32)) | (1 << (44 - 32)), // spo_must_enforce
        0_u32,                                   // spo_must_allow
        1_u32,                                   // one impl id
        5_u32,
        &b"k.org\0\0\0"[..],
        2_u32,
        &b"Lx\0\0"[..],
        u64::MAX,
        9_u32,
    ];
    assert_eq!(encode_to_vec(&args), bytes);
    assert_eq!(decode_all(&bytes), Ok(args));
}

#[test]
fn exchange_id_result() {
    let res = ExchangeIdRes {
        clientid: ClientId {
            value: 0x0102_0304_0506_0708,
        },
        sequence: 3,
        flags: EXCHGID_USE_PNFS_MDS | EXCHGID_CONFIRMED_R,
        state_protect: StateProtectRes::None,
        server_owner: ServerOwner {
            minor_id: 5,
            major_id: Opaque(b"mds"),
        },
        server_scope: Opaque(b"scop"),
        server_impl_id: None,
    };
    let bytes = wire![
        0x0102_0304_0506_0708_u64,
        3_u32,
        0x8002_0000_u32,
        0_u32, // SP4_NONE
        5_u64, // so_minor_id
        3_u32,
        &b"mds\0"[..],
        4_u32,
        &b"scop"[..],
        0_u32, // no impl id
    ];
    assert_eq!(encode_to_vec(&res), bytes);
    assert_eq!(decode_all(&bytes), Ok(res));
}

#[test]
fn layoutget_result_with_the_files_layout() {
    let layout = FileLayout {
        device_id: DeviceId { bytes: [0xd; 16] },
        util: NflUtil::new(1 << 20, NFL_COMMIT_THRU_MDS).unwrap(),
        first_stripe_index: 2,
        pattern_offset: 0,
        file_handles: List(vec![OpaqueBuf(b"fhand".to_vec())]),
    };
    let body = encode_to_vec(&layout);
    let mut e = xdr::Encoder::new();
    let mut reply = ReplyWriter::<OpNum>::new(std::mem::take(&mut e), b"");
    let _ = reply.result(&LayoutGetRes::Ok(LayoutsGranted {
        return_on_close: true,
        stateid: Stateid {
            seqid: 1,
            other: [0xa; 12],
        },
        layouts: List(vec![Layout {
            offset: 0,
            length: LENGTH_TO_EOF,
            iomode: IoMode::Rw,
            layout_type: LAYOUT_NFSV4_1_FILES,
            body: Opaque(&body),
        }]),
    }));
    let bytes = wire![
        0_u32,  // NFS4_OK of the COMPOUND
        0_u32,  // empty tag
        1_u32,  // one result
        50_u32, // OP_LAYOUTGET
        0_u32,  // NFS4_OK
        1_u32,  // logr_return_on_close
        1_u32,
        &[0xa_u8; 12][..], // logr_stateid
        1_u32,             // one layout
        0_u64,
        u64::MAX,
        2_u32,  // LAYOUTIOMODE4_RW
        1_u32,  // LAYOUT4_NFSV4_1_FILES
        48_u32, // bytes of loc_body
        &[0xd_u8; 16][..],
        0x0010_0002_u32, // nfl_util
        2_u32,           // nfl_first_stripe_index
        0_u64,           // nfl_pattern_offset
        1_u32,           // one file handle
        5_u32,
        &b"fhand\0\0\0"[..],
    ];
    assert_eq!(reply.finish(NfsStatus::Ok).into_bytes(), bytes);
    assert_eq!(decode_all(&body), Ok(layout));
}

#[test]
fn device_address_of_the_files_layout() {
    let addr = |uaddr: &[u8]| NetAddr {
        netid: OpaqueBuf(b"tcp".to_vec()),
        uaddr: OpaqueBuf(uaddr.to_vec()),
    };
    let device = FileLayoutDsAddr {
        stripe_indices: List(vec![0, 1, 0]),
        multipath_ds_list: List(vec![
            List(vec![addr(b"10.0.0.1.8.1"), addr(b"10.1.0.1.8.1")]),
            List(vec![addr(b"10.0.0.2.8.1")]),
        ]),
    };
    let bytes = wire![
        3_u32,
        0_u32,
        1_u32,
        0_u32, // nflda_stripe_indices
        2_u32, // two data servers
        2_u32, // the first has two addresses
        3_u32,
        &b"tcp\0"[..],
        12_u32,
        &b"10.0.0.1.8.1"[..],
        3_u32,
        &b"tcp\0"[..],
        12_u32,
        &b"10.1.0.1.8.1"[..],
        1_u32, // the second has one
        3_u32,
        &b"tcp\0"[..],
        12_u32,
        &b"10.0.0.2.8.1"[..],
    ];
    assert_eq!(encode_to_vec(&device), bytes);
    assert_eq!(decode_all(&bytes), Ok(device));
}

#[test]
fn a_stripe_index_beyond_the_data_servers_is_refused() {
    let bytes = wire![1_u32, 1_u32, 1_u32, 0_u32];
    assert!(decode_all::<FileLayoutDsAddr>(&bytes).is_err());
    let bytes = wire![1_u32, 0_u32, 1_u32, 0_u32];
    assert!(decode_all::<FileLayoutDsAddr>(&bytes).is_ok());
}

#[test]
fn limits_of_the_files_layout_are_refused_one_above() {
    let indices = |n: usize| FileLayoutDsAddr {
        stripe_indices: List(vec![0; n]),
        multipath_ds_list: List(vec![List::default()]),
    };
    let servers = |n: usize| FileLayoutDsAddr {
        stripe_indices: List::default(),
        multipath_ds_list: List(vec![List::default(); n]),
    };
    let decodes = |v: &FileLayoutDsAddr| decode_all::<FileLayoutDsAddr>(&encode_to_vec(v)).is_ok();
    assert!(decodes(&indices(4096)) && !decodes(&indices(4097)));
    assert!(decodes(&servers(256)) && !decodes(&servers(257)));
}

#[test]
fn device_notifications() {
    let delete = DeviceNotification::Delete {
        layout_type: 1,
        device_id: DeviceId { bytes: [3; 16] },
    };
    let bytes = wire![1_u32, 1_u32 << 2, 20_u32, 1_u32, &[3_u8; 16][..]];
    assert_eq!(encode_to_vec(&delete), bytes);
    assert_eq!(decode_all(&bytes), Ok(delete));
    let change = DeviceNotification::Change {
        layout_type: 1,
        device_id: DeviceId { bytes: [3; 16] },
        immediate: true,
    };
    let bytes = wire![1_u32, 1_u32 << 1, 24_u32, 1_u32, &[3_u8; 16][..], 1_u32];
    assert_eq!(encode_to_vec(&change), bytes);
    assert_eq!(decode_all(&bytes), Ok(change));
    let both = wire![1_u32, 6_u32, 20_u32, 1_u32, &[3_u8; 16][..]];
    assert!(decode_all::<DeviceNotification>(&both).is_err());
    let long = wire![1_u32, 4_u32, 24_u32, 1_u32, &[3_u8; 16][..], 1_u32];
    assert!(decode_all::<DeviceNotification>(&long).is_err());
}

#[test]
fn attributes_are_written_in_ascending_order_and_only_when_asked_for_and_present() {
    let attrs = Attrs {
        file_type: Some(FileType::Reg),
        size: Some(5),
        mode: Some(0o644),
        owner: Some(Owner::from(&b"0"[..])),
        fileid: Some(9),
        ..Attrs::default()
    };
    let mask = Bitmap::of(&[
        attr::TYPE,
        attr::SIZE,
        attr::CHANGE,
        attr::MODE,
        attr::OWNER,
    ]);
    let mut e = xdr::Encoder::new();
    let sent = encode_fattr(&mut e, &mask, &attrs);
    let bytes = wire![
        2_u32,
        (1_u32 << 1) | (1 << 4),
        (1_u32 << 1) | (1 << 4), // bits 33 and 36
        24_u32,                  // bytes of values
        1_u32,                   // NF4REG
        5_u64,                   // size
        0o644_u32,               // mode
        1_u32,
        &b"0\0\0\0"[..], // owner
    ];
    assert_eq!(e.into_bytes(), bytes);
    let expected = Bitmap::of(&[attr::TYPE, attr::SIZE, attr::MODE, attr::OWNER]);
    assert_eq!(sent, expected);
    let mut kept = attrs.clone();
    kept.retain(&mask);
    assert_eq!(decode_all::<Fattr<'_>>(&bytes).unwrap().attrs(), Ok(kept));
}

#[test]
fn marks_of_files_have_the_numbers_and_types_of_the_rfc() {
    let attrs = Attrs {
        archive: Some(true),
        hidden: Some(false),
        system: Some(true),
        time_backup: Some(NfsTime {
            seconds: -1,
            nanoseconds: 2,
        }),
        ..Attrs::default()
    };
    let fattr = Fattr::new(&attrs);
    let bytes = wire![
        2_u32,
        (1_u32 << 14) | (1 << 25),
        (1_u32 << (46 - 32)) | (1 << (49 - 32)),
        24_u32,   // bytes of values
        1_u32,    // archive
        0_u32,    // hidden
        1_u32,    // system
        u64::MAX, // time_backup
        2_u32,
    ];
    assert_eq!(encode_to_vec(&fattr), bytes);
    assert_eq!(decode_all::<Fattr<'_>>(&bytes).unwrap().attrs(), Ok(attrs));
    let mut two = bytes;
    two[19] = 2;
    let refused = decode_all::<Fattr<'_>>(&two).unwrap().attrs();
    assert_eq!(refused.unwrap_err().status(), NfsStatus::BadXdr);
}

#[test]
fn thresholds_have_the_bits_and_the_order_of_the_rfc() {
    let sent = Thresholds {
        write_file_bytes: Some(65_536),
        write_io_bytes: Some(4096),
        ..Thresholds::default()
    };
    let attribute = MdsThreshold {
        items: List(vec![sent.item(1)]),
    };
    let bytes = wire![
        1_u32, // items
        1_u32, // LAYOUT4_NFSV4_1_FILES
        1_u32, 0b1010_u32, // TH4_WRITE_SIZE and TH4_WRITE_IOSIZE
        16_u32, 65_536_u64, 4096_u64
    ];
    assert_eq!(encode_to_vec(&attribute), bytes);
    assert_eq!(decode_all(&bytes), Ok(attribute.clone()));
    assert_eq!(Thresholds::of(&attribute, 1), Ok(sent));
    // A hint of a later RFC comes after those of this one.
    let mut more = attribute;
    more.items.0[0].hintset.insert(4);
    more.items.0[0].hints.0.extend_from_slice(&[9; 8]);
    assert_eq!(Thresholds::of(&more, 1), Ok(sent));
}

#[test]
fn an_unknown_attribute_is_told_apart_from_wrong_bytes() {
    let fattr = |bits: &[u32], values: &[u8]| Fattr {
        mask: Bitmap::of(bits),
        values: values.to_vec().into(),
    };
    let unknown = fattr(&[attr::SIZE, attr::SEC_LABEL], &wire![5_u64, 1_u32]);
    assert_eq!(unknown.attrs(), Err(FattrError::NotSupp(attr::SEC_LABEL)));
    assert_eq!(
        unknown.attrs().unwrap_err().status(),
        NfsStatus::AttrNotSupp
    );
    for wrong in [
        fattr(&[attr::SIZE], &wire![5_u32]),
        fattr(&[attr::SIZE], &wire![5_u64, 0_u32]),
        fattr(&[], &wire![0_u32]),
        fattr(&[attr::TIME_MODIFY_SET], &wire![2_u32]),
    ] {
        assert_eq!(wrong.attrs().unwrap_err().status(), NfsStatus::BadXdr);
    }
    let server_time = fattr(&[attr::TIME_MODIFY_SET], &wire![0_u32]);
    let set = server_time.attrs().unwrap().time_modify_set;
    assert_eq!(set, Some(SetTime::Server));
}

#[test]
fn every_known_attribute_has_the_number_of_the_rfc() {
    // Gaps: fs_status, fs_locations_info, retention_*, sec_label, offline.
    let gaps = [61, 67, 69, 70, 71, 72, 73, 80, 83];
    let expected: Vec<u32> = (0..=86).filter(|n| !gaps.contains(n)).collect();
    assert_eq!(attr::KNOWN.iter().collect::<Vec<_>>(), expected);
    assert!(attr::WRITE_ONLY.difference(&attr::WRITABLE).is_empty());
}

#[test]
fn a_stripe_unit_that_nfl_util_cannot_hold_is_refused() {
    assert_eq!(NflUtil::new(0, 0), None);
    assert_eq!(NflUtil::new(100, 0), None);
    let util = NflUtil::new(64 << 10, NFL_DENSE).unwrap();
    assert_eq!(util.stripe_unit_bytes(), 64 << 10);
    assert!(util.is_dense() && !util.is_commit_thru_mds());
    let mut e = xdr::Encoder::new();
    util.encode(&mut e);
    assert_eq!(e.into_bytes(), [0, 1, 0, 1]);
}
