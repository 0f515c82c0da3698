//! Goal: arguments and results of every procedure round-trip and refuse truncation at every byte. Method: one line for
//! each sample; a second test checks that no procedure was left out.

use std::collections::BTreeSet;

use xdr::{Chain, DecodeErrorKind, List, Opaque, decode_all, encode_to_vec};

use crate::mount::{self, DumpRes, ExportEntry, ExportRes, MntArgs, MntOk, MntRes, MountStatus};
use crate::procs::*;
use crate::*;

const FH: Handle<'static> = Opaque(b"a handle of 21 bytes.");
const TIME: NfsTime3 = NfsTime3 {
    seconds: 1_700_000_000,
    nanoseconds: 999_999_999,
};
const ATTR: Fattr3 = Fattr3 {
    file_type: FileType3::Lnk,
    mode: 0o7751,
    nlink: 2,
    uid: 3,
    gid: 4,
    size: 5 << 32,
    used: 6 << 32,
    rdev: SpecData3 { major: 7, minor: 8 },
    fsid: 9 << 32,
    fileid: 10 << 32,
    atime: TIME,
    mtime: NfsTime3 {
        seconds: 11,
        nanoseconds: 12,
    },
    ctime: NfsTime3 {
        seconds: 13,
        nanoseconds: 14,
    },
};
const WCC: WccData = WccData {
    before: Some(WccAttr {
        size: 1 << 40,
        mtime: TIME,
        ctime: TIME,
    }),
    after: Some(ATTR),
};
const SET: Sattr3 = Sattr3 {
    mode: Some(0o600),
    uid: None,
    gid: Some(7),
    size: Some(1 << 33),
    atime: SetTime3::ServerTime,
    mtime: SetTime3::ClientTime(TIME),
};
const PLACE: DirOpArgs<'static> = DirOpArgs {
    dir: FH,
    name: Opaque(b"some name"),
};
const VERF: [u8; 8] = *b"verifier";
const NO_WCC: WccData = WccData {
    before: None,
    after: None,
};

/// Checks each sample, and tells which procedures there were.
macro_rules! samples {
    ($( $proc:ident: $ty:ty: $( $value:expr ),+ $(,)?; )*) => {{
        let mut seen = BTreeSet::new();
        $( $(
            let value: $ty = $value;
            let bytes = encode_to_vec(&value);
            assert_eq!(decode_all::<$ty>(&bytes), Ok(value), stringify!($ty));
            for cut in 0..bytes.len() {
                let kind = decode_all::<$ty>(&bytes[..cut]).unwrap_err().kind;
                assert_eq!(kind, DecodeErrorKind::Truncated, "{} at {cut}", stringify!($ty));
            }
            let mut longer = bytes;
            longer.extend([0; 4]);
            let kind = decode_all::<$ty>(&longer).unwrap_err().kind;
            assert_eq!(kind, DecodeErrorKind::Trailing, stringify!($ty));
        )+ seen.insert(Proc::$proc); )*
        seen
    }};
}

/// NULL has neither arguments nor a result.
fn all_but_null() -> BTreeSet<Proc> {
    Proc::ALL
        .iter()
        .copied()
        .filter(|p| *p != Proc::Null)
        .collect()
}

#[test]
fn arguments_of_every_procedure_round_trip() {
    let seen = samples! {
        GetAttr: GetAttrArgs<'_>: GetAttrArgs { object: FH };
        SetAttr: SetAttrArgs<'_>:
            SetAttrArgs { object: FH, new_attributes: SET, guard: Some(TIME) },
            SetAttrArgs { object: FH, new_attributes: Sattr3::default(), guard: None };
        Lookup: LookupArgs<'_>: LookupArgs { what: PLACE };
        Access: AccessArgs<'_>: AccessArgs { object: FH, access: ACCESS3_READ | ACCESS3_EXECUTE };
        ReadLink: ReadLinkArgs<'_>: ReadLinkArgs { symlink: FH };
        Read: ReadArgs<'_>: ReadArgs { file: FH, offset: 1 << 40, count: 9 };
        Write: WriteArgs<'_>: WriteArgs {
            file: FH, offset: 1 << 40, count: 5, stable: StableHow::DataSync, data: Opaque(b"bytes"),
        };
        Create: CreateArgs<'_>:
            CreateArgs { place: PLACE, how: CreateHow::Unchecked(SET) },
            CreateArgs { place: PLACE, how: CreateHow::Guarded(SET) },
            CreateArgs { place: PLACE, how: CreateHow::Exclusive(VERF) };
        MkDir: MkDirArgs<'_>: MkDirArgs { place: PLACE, attributes: SET };
        Symlink: SymlinkArgs<'_>:
            SymlinkArgs { place: PLACE, symlink_attributes: SET, symlink_data: Opaque(b"../x") };
        MkNod: MkNodArgs<'_>:
            MkNodArgs { place: PLACE, what: MkNodData::Chr(device()) },
            MkNodArgs { place: PLACE, what: MkNodData::Blk(device()) },
            MkNodArgs { place: PLACE, what: MkNodData::Sock(SET) },
            MkNodArgs { place: PLACE, what: MkNodData::Fifo(SET) },
            MkNodArgs { place: PLACE, what: MkNodData::Dir };
        Remove: RemoveArgs<'_>: RemoveArgs { object: PLACE };
        RmDir: RmDirArgs<'_>: RmDirArgs { object: PLACE };
        Rename: RenameArgs<'_>:
            RenameArgs { from: PLACE, to: DirOpArgs { dir: Opaque(b"2"), name: Opaque(b"to") } };
        Link: LinkArgs<'_>: LinkArgs { file: Opaque(b"1"), link: PLACE };
        ReadDir: ReadDirArgs<'_>: ReadDirArgs { dir: FH, cookie: 1 << 63, cookieverf: VERF, count: 8 };
        ReadDirPlus: ReadDirPlusArgs<'_>: ReadDirPlusArgs {
            dir: FH, cookie: 1 << 63, cookieverf: VERF, dircount: 512, maxcount: 4096,
        };
        FsStat: FsStatArgs<'_>: FsStatArgs { fsroot: FH };
        FsInfo: FsInfoArgs<'_>: FsInfoArgs { fsroot: FH };
        PathConf: PathConfArgs<'_>: PathConfArgs { object: FH };
        Commit: CommitArgs<'_>: CommitArgs { file: FH, offset: 1 << 40, count: 0 };
    };
    assert_eq!(seen, all_but_null());
}

fn device() -> DeviceData {
    DeviceData {
        dev_attributes: SET,
        spec: SpecData3 { major: 1, minor: 2 },
    }
}

const NEW: NewObject<'static> = NewObject {
    obj: Some(FH),
    obj_attributes: Some(ATTR),
    dir_wcc: WCC,
};

const STATUS: Nfs3Status = Nfs3Status::Jukebox;

#[test]
fn results_of_procedures_without_names_round_trip() {
    let link = LinkWcc {
        file_attributes: Some(ATTR),
        linkdir_wcc: WCC,
    };
    let rename = RenameWcc {
        fromdir_wcc: WCC,
        todir_wcc: NO_WCC,
    };
    let seen = samples! {
        GetAttr: GetAttrRes: Res::Ok(GetAttrOk { obj_attributes: ATTR }), Res::Fail(STATUS, ());
        SetAttr: SetAttrRes: Res::Ok(WCC), Res::Fail(Nfs3Status::NotSync, WCC);
        Access: AccessRes:
            Res::Ok(AccessOk { obj_attributes: None, access: 0x3f }), Res::Fail(STATUS, Some(ATTR));
        Read: ReadRes<'_>:
            Res::Ok(ReadOk { file_attributes: Some(ATTR), count: 3, eof: true, data: Opaque(b"abc") }),
            Res::Fail(STATUS, Some(ATTR));
        Write: WriteRes:
            Res::Ok(WriteOk { file_wcc: WCC, count: 1, committed: StableHow::FileSync, verf: VERF }),
            Res::Fail(STATUS, WCC);
        Create: CreateRes<'_>: Res::Ok(NEW), Res::Fail(STATUS, WCC);
        MkDir: MkDirRes<'_>: Res::Ok(NewObject { obj: None, ..NEW }), Res::Fail(STATUS, WCC);
        Symlink: SymlinkRes<'_>: Res::Ok(NEW), Res::Fail(STATUS, WCC);
        MkNod: MkNodRes<'_>: Res::Ok(NEW), Res::Fail(Nfs3Status::BadType, NO_WCC);
        Remove: RemoveRes: Res::Ok(WCC), Res::Fail(STATUS, WCC);
        RmDir: RmDirRes: Res::Ok(WCC), Res::Fail(STATUS, WCC);
        Rename: RenameRes: Res::Ok(rename), Res::Fail(STATUS, rename);
        Link: LinkRes: Res::Ok(link), Res::Fail(STATUS, link);
        FsStat: FsStatRes:
            Res::Ok(FsStatOk {
                obj_attributes: Some(ATTR),
                tbytes: 1, fbytes: 2, abytes: 3, tfiles: 4, ffiles: 5, afiles: 6, invarsec: 7,
            }),
            Res::Fail(STATUS, None);
        FsInfo: FsInfoRes:
            Res::Ok(FsInfoOk {
                obj_attributes: Some(ATTR),
                rtmax: 1, rtpref: 2, rtmult: 3, wtmax: 4, wtpref: 5, wtmult: 6, dtpref: 7,
                maxfilesize: 1 << 62, time_delta: TIME, properties: FSF3_LINK | FSF3_CANSETTIME,
            }),
            Res::Fail(STATUS, Some(ATTR));
        PathConf: PathConfRes:
            Res::Ok(PathConfOk {
                obj_attributes: None, linkmax: 1, name_max: 255, no_trunc: true,
                chown_restricted: false, case_insensitive: false, case_preserving: true,
            }),
            Res::Fail(STATUS, Some(ATTR));
        Commit: CommitRes: Res::Ok(CommitOk { file_wcc: WCC, verf: VERF }), Res::Fail(STATUS, WCC);
    };
    let named = results_of_procedures_with_names();
    assert_eq!(&seen | &named, all_but_null());
}

fn results_of_procedures_with_names() -> BTreeSet<Proc> {
    let entry = |n: u64| Entry3 {
        fileid: n,
        name: Opaque(b"name"),
        cookie: n << 32,
    };
    let plus = EntryPlus3 {
        fileid: 1,
        name: Opaque(b"name5"),
        cookie: 2,
        name_attributes: Some(ATTR),
        name_handle: Some(FH),
    };
    let bare = EntryPlus3 {
        name_attributes: None,
        name_handle: None,
        ..plus
    };
    samples! {
        Lookup: LookupRes<'_>:
            Res::Ok(LookupOk { object: FH, obj_attributes: Some(ATTR), dir_attributes: None }),
            Res::Fail(Nfs3Status::NoEnt, Some(ATTR));
        ReadLink: ReadLinkRes<'_>:
            Res::Ok(ReadLinkOk { symlink_attributes: Some(ATTR), data: Opaque(b"there") }),
            Res::Fail(STATUS, Some(ATTR));
        ReadDir: ReadDirRes<'_>:
            Res::Ok(ReadDirOk {
                dir_attributes: Some(ATTR), cookieverf: VERF,
                entries: Chain(vec![entry(1), entry(2)]), eof: false,
            }),
            Res::Fail(Nfs3Status::BadCookie, Some(ATTR));
        ReadDirPlus: ReadDirPlusRes<'_>:
            Res::Ok(ReadDirPlusOk {
                dir_attributes: Some(ATTR), cookieverf: VERF,
                entries: Chain(vec![plus, bare]), eof: true,
            }),
            Res::Fail(Nfs3Status::TooSmall, None);
    }
}

#[test]
fn messages_of_mount_round_trip() {
    let host = |name: &'static str| Opaque(name.as_bytes());
    let seen = samples! {
        Null: MntArgs<'_>: MntArgs { dirpath: Opaque(b"/data") };
        Null: mount::UmntArgs<'_>: mount::UmntArgs { dirpath: Opaque(b"/data") };
        Null: MntRes<'_>:
            MntRes::Ok(MntOk { fhandle: FH, auth_flavors: List(vec![1, 390_003]) }),
            MntRes::Fail(MountStatus::Access);
        Null: DumpRes<'_>:
            Chain(vec![]),
            Chain(vec![mount::MountEntry { hostname: host("c1"), directory: Opaque(b"/data") }; 2]);
        Null: ExportRes<'_>:
            Chain(vec![]),
            Chain(vec![
                ExportEntry { dir: Opaque(b"/data"), groups: Chain(vec![]) },
                ExportEntry { dir: Opaque(b"/"), groups: Chain(vec![host("a"), host("10.0.0.0/8")]) },
            ]);
    };
    assert_eq!(seen.len(), 1);
}
