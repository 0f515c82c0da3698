//! Goal: the bytes are those of the RFC, not only our own idea of them. Method: a few messages written out by hand,
//! word for word, from RFC 1813.

use std::fmt::Debug;

use xdr::{Chain, Decode, Encode, Encoder, List, Opaque, encode_to_vec};

use crate::mount::{MntOk, MntRes, MountStatus};
use crate::procs::*;
use crate::*;

/// Words of four bytes, and raw bytes where they are given.
macro_rules! wire {
    ($( $item:expr ),* $(,)?) => {{
        let mut out: Vec<u8> = Vec::new();
        $( out.extend_from_slice(&Item::from($item).0); )*
        out
    }};
}

struct Item(Vec<u8>);

impl From<u32> for Item {
    fn from(word: u32) -> Self {
        Self(word.to_be_bytes().to_vec())
    }
}

impl From<&[u8]> for Item {
    fn from(bytes: &[u8]) -> Self {
        Self(bytes.to_vec())
    }
}

#[track_caller]
fn both_ways<'a, T: Encode + Decode<'a> + Debug + PartialEq>(value: &T, bytes: &'a [u8]) {
    assert_eq!(encode_to_vec(value), bytes);
    assert_eq!(xdr::decode_all::<T>(bytes).as_ref(), Ok(value));
}

fn attr() -> Fattr3 {
    let time = |seconds| NfsTime3 {
        seconds,
        nanoseconds: seconds + 1,
    };
    Fattr3 {
        file_type: FileType3::Dir,
        mode: 0o755,
        nlink: 3,
        uid: 4,
        gid: 5,
        size: 0x6_0000_0007,
        used: 0x8_0000_0009,
        rdev: SpecData3 {
            major: 10,
            minor: 11,
        },
        fsid: 0xc_0000_000d,
        fileid: 0xe_0000_000f,
        atime: time(16),
        mtime: time(18),
        ctime: time(20),
    }
}

/// The 21 words of [`attr`].
fn attr_bytes() -> Vec<u8> {
    wire![
        2_u32, 0x1ed_u32, 3_u32, 4_u32, 5_u32, 6_u32, 7_u32, 8_u32, 9_u32, 10_u32, 11_u32, 12_u32,
        13_u32, 14_u32, 15_u32, 16_u32, 17_u32, 18_u32, 19_u32, 20_u32, 21_u32,
    ]
}

#[test]
fn lookup_arguments() {
    let args = LookupArgs {
        what: DirOpArgs {
            dir: Opaque(b"handle"),
            name: Opaque(b"name5"),
        },
    };
    let bytes = wire![6_u32, &b"handle\0\0"[..], 5_u32, &b"name5\0\0\0"[..]];
    both_ways(&args, &bytes);
}

#[test]
fn getattr_result() {
    let res: GetAttrRes = Res::Ok(GetAttrOk {
        obj_attributes: attr(),
    });
    both_ways(&res, &wire![0_u32, &attr_bytes()[..]]);
    let res: GetAttrRes = Res::Fail(Nfs3Status::Stale, ());
    both_ways(&res, &wire![70_u32]);
}

#[test]
fn setattr_arguments() {
    let args = SetAttrArgs {
        object: Opaque(b"fh01"),
        new_attributes: Sattr3 {
            mode: Some(0o600),
            size: Some(1),
            atime: SetTime3::ServerTime,
            mtime: SetTime3::ClientTime(NfsTime3 {
                seconds: 7,
                nanoseconds: 8,
            }),
            ..Sattr3::default()
        },
        guard: None,
    };
    let bytes = wire![
        4_u32,
        &b"fh01"[..],
        1_u32,
        0x180_u32,
        0_u32,
        0_u32,
        1_u32,
        0_u32,
        1_u32,
        1_u32,
        2_u32,
        7_u32,
        8_u32,
        0_u32,
    ];
    both_ways(&args, &bytes);
}

#[test]
fn read_result_without_and_with_a_copy() {
    let head = wire![0_u32, 0_u32, 5_u32, 1_u32, 5_u32];
    let res: ReadRes<'_> = Res::Ok(ReadOk {
        file_attributes: None,
        count: 5,
        eof: true,
        data: Opaque(b"bytes"),
    });
    both_ways(&res, &wire![&head[..], &b"bytes\0\0\0"[..]]);
    let mut e = Encoder::new();
    let res: ReadResPayload = Res::Ok(ReadOkPayload {
        file_attributes: None,
        eof: true,
        len: 5,
    });
    res.encode(&mut e);
    assert_eq!(e.wire_len(), head.len() + 8);
    let (bytes, spans) = e.into_parts();
    assert_eq!(bytes, head);
    let span = xdr::PayloadSpan {
        at: head.len(),
        len: 5,
    };
    assert_eq!(spans, [span]);
}

#[test]
fn write_arguments_without_and_with_a_copy() {
    let head = wire![4_u32, &b"fh01"[..], 1_u32, 2_u32, 5_u32, 2_u32, 5_u32];
    let args = WriteArgs {
        file: Opaque(b"fh01"),
        offset: 0x1_0000_0002,
        count: 5,
        stable: StableHow::FileSync,
        data: Opaque(b"bytes"),
    };
    let bytes = wire![&head[..], &b"bytes\0\0\0"[..]];
    both_ways(&args, &bytes);
    let read: WriteArgs<'_> = xdr::decode_all(&bytes).unwrap();
    assert_eq!(read.data.0.as_ptr(), bytes[head.len()..].as_ptr());
    let mut e = Encoder::new();
    WriteArgsPayload {
        file: args.file,
        offset: args.offset,
        stable: args.stable,
        len: 5,
    }
    .encode(&mut e);
    assert_eq!(e.wire_len(), bytes.len());
    assert_eq!(e.into_parts().0, head);
}

#[test]
fn readdirplus_result() {
    let res: ReadDirPlusRes<'_> = Res::Ok(ReadDirPlusOk {
        dir_attributes: Some(attr()),
        cookieverf: *b"verifier",
        entries: Chain(vec![
            EntryPlus3 {
                fileid: 0x1_0000_0002,
                name: Opaque(b"a"),
                cookie: 0x3_0000_0004,
                name_attributes: Some(attr()),
                name_handle: Some(Opaque(b"fh5aa")),
            },
            EntryPlus3 {
                fileid: 6,
                name: Opaque(b"abcd"),
                cookie: 7,
                name_attributes: None,
                name_handle: None,
            },
        ]),
        eof: true,
    });
    let bytes = wire![
        0_u32,
        1_u32,
        &attr_bytes()[..],
        &b"verifier"[..],
        1_u32,
        1_u32,
        2_u32,
        1_u32,
        &b"a\0\0\0"[..],
        3_u32,
        4_u32,
        1_u32,
        &attr_bytes()[..],
        1_u32,
        5_u32,
        &b"fh5aa\0\0\0"[..],
        1_u32,
        0_u32,
        6_u32,
        4_u32,
        &b"abcd"[..],
        0_u32,
        7_u32,
        0_u32,
        0_u32,
        0_u32,
        1_u32,
    ];
    both_ways(&res, &bytes);
}

#[test]
fn a_failed_create_carries_the_directory() {
    let res: CreateRes<'_> = Res::Fail(
        Nfs3Status::Exist,
        WccData {
            before: Some(WccAttr {
                size: 1,
                mtime: NfsTime3 {
                    seconds: 2,
                    nanoseconds: 3,
                },
                ctime: NfsTime3 {
                    seconds: 4,
                    nanoseconds: 5,
                },
            }),
            after: Some(attr()),
        },
    );
    let bytes = wire![
        17_u32,
        1_u32,
        0_u32,
        1_u32,
        2_u32,
        3_u32,
        4_u32,
        5_u32,
        1_u32,
        &attr_bytes()[..],
    ];
    both_ways(&res, &bytes);
}

#[test]
fn mnt_result() {
    let res = MntRes::Ok(MntOk {
        fhandle: Opaque(b"handle"),
        auth_flavors: List(vec![1, 390_003]),
    });
    let bytes = wire![0_u32, 6_u32, &b"handle\0\0"[..], 2_u32, 1_u32, 390_003_u32];
    both_ways(&res, &bytes);
    both_ways(&MntRes::Fail(MountStatus::NoEnt), &wire![2_u32]);
}

#[test]
fn numbers_and_names_are_those_of_the_rfc() {
    assert_eq!((PROGRAM, VERSION), (100_003, 3));
    assert_eq!((mount::PROGRAM, mount::VERSION), (100_005, 3));
    let names: Vec<&str> = Proc::ALL.iter().map(|p| p.name()).collect();
    assert_eq!(
        names.join(" "),
        "NULL GETATTR SETATTR LOOKUP ACCESS READLINK READ WRITE CREATE MKDIR SYMLINK MKNOD REMOVE RMDIR RENAME LINK \
         READDIR READDIRPLUS FSSTAT FSINFO PATHCONF COMMIT"
    );
    assert_eq!(Proc::from_u32(21), Some(Proc::Commit));
    assert_eq!(Proc::from_u32(22), None);
    assert_eq!(Nfs3Status::from_u32(10008), Some(Nfs3Status::Jukebox));
    assert_eq!(Nfs3Status::Access.to_string(), "NFS3ERR_ACCES");
    let old: Vec<_> = mount::Proc::ALL.iter().filter(|p| p.is_in(1)).collect();
    assert_eq!(old.len(), 5);
    assert!(!old.contains(&&mount::Proc::Mnt));
}
