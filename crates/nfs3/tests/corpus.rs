//! Goal: whatever a fuzzer once found stays fixed, and changes of real messages do no harm. Method: replay of `fuzz/corpus`, and of
//! each seed with every byte changed and at every length.

#[path = "../../../fuzz/replay.rs"]
mod replay;

use nfs3::fuzz::{self, Choice};
use nfs3::mount::{self, DumpRes, ExportEntry, ExportRes, MntArgs, MntOk, MntRes, MountEntry};
use nfs3::{procs::*, *};
use replay::Target;
use ropewalk_nfs3 as nfs3;
use xdr::{Chain, Encode, List, Opaque};

const TARGETS: &[Target] = &[
    ("nfs3_args", fuzz::args, setattr),
    ("nfs3_args/write", fuzz::args, write),
    ("nfs3_args/create", fuzz::args, create),
    ("nfs3_args/mknod", fuzz::args, mknod),
    ("nfs3_args/rename", fuzz::args, rename),
    ("nfs3_args/symlink", fuzz::args, symlink),
    ("nfs3_args/readdirplus", fuzz::args, readdirplus),
    ("nfs3_args/mnt", fuzz::args, mnt),
    ("nfs3_results", fuzz::results, names),
    ("nfs3_results/bare_names", fuzz::results, bare_names),
    ("nfs3_results/data", fuzz::results, data),
    ("nfs3_results/new_object", fuzz::results, new_object),
    ("nfs3_results/written", fuzz::results, written),
    ("nfs3_results/failure", fuzz::results, failure),
    ("nfs3_results/limits", fuzz::results, limits),
    ("nfs3_results/mounted", fuzz::results, mounted),
    ("nfs3_results/mounts", fuzz::results, mounts),
    ("nfs3_results/exports", fuzz::results, exports),
];

const FH: Handle<'static> = Opaque(b"handle");
const PLACE: DirOpArgs<'static> = DirOpArgs {
    dir: FH,
    name: Opaque(b"name5"),
};
const TIME: NfsTime3 = NfsTime3 {
    seconds: 1_700_000_000,
    nanoseconds: 1,
};
const SET: Sattr3 = Sattr3 {
    mode: Some(0o600),
    uid: None,
    gid: Some(7),
    size: Some(0),
    atime: SetTime3::ServerTime,
    mtime: SetTime3::ClientTime(TIME),
};
const ATTR: Fattr3 = Fattr3 {
    file_type: FileType3::Reg,
    mode: 0o644,
    nlink: 1,
    uid: 1000,
    gid: 1000,
    size: 1 << 32,
    used: 1 << 32,
    rdev: SpecData3 { major: 0, minor: 0 },
    fsid: 3,
    fileid: 4,
    atime: TIME,
    mtime: TIME,
    ctime: TIME,
};
const WCC: WccData = WccData {
    before: Some(WccAttr {
        size: 5,
        mtime: TIME,
        ctime: TIME,
    }),
    after: Some(ATTR),
};

/// Arguments, with the word that chooses them.
fn args<A: ProcArgs>(args: &A) -> Vec<u8> {
    Choice::Nfs(A::PROC).input(args)
}

fn result<O: Encode, F: Encode>(proc: Proc, res: &Res<O, F>) -> Vec<u8> {
    Choice::Nfs(proc).input(res)
}

fn setattr() -> Vec<u8> {
    args(&SetAttrArgs {
        object: FH,
        new_attributes: SET,
        guard: Some(TIME),
    })
}

fn write() -> Vec<u8> {
    args(&WriteArgs {
        file: FH,
        offset: 1 << 40,
        count: 5,
        stable: StableHow::FileSync,
        data: Opaque(b"bytes"),
    })
}

fn create() -> Vec<u8> {
    args(&CreateArgs {
        place: PLACE,
        how: CreateHow::Exclusive(*b"verifier"),
    })
}

fn mknod() -> Vec<u8> {
    let device = DeviceData {
        dev_attributes: SET,
        spec: SpecData3 { major: 1, minor: 3 },
    };
    args(&MkNodArgs {
        place: PLACE,
        what: MkNodData::Chr(device),
    })
}

fn rename() -> Vec<u8> {
    args(&RenameArgs {
        from: PLACE,
        to: PLACE,
    })
}

fn symlink() -> Vec<u8> {
    args(&SymlinkArgs {
        place: PLACE,
        symlink_attributes: SET,
        symlink_data: Opaque(b"../there"),
    })
}

fn readdirplus() -> Vec<u8> {
    args(&ReadDirPlusArgs {
        dir: FH,
        cookie: 9,
        cookieverf: *b"verifier",
        dircount: 512,
        maxcount: 4096,
    })
}

fn mnt() -> Vec<u8> {
    let dirpath = Opaque(&b"/data"[..]);
    Choice::Mount(mount::Proc::Mnt).input(&MntArgs { dirpath })
}

fn names() -> Vec<u8> {
    let entry = EntryPlus3 {
        fileid: 4,
        name: Opaque(b"name5"),
        cookie: 7,
        name_attributes: Some(ATTR),
        name_handle: Some(FH),
    };
    let bare = EntryPlus3 {
        name_attributes: None,
        name_handle: None,
        ..entry
    };
    let res: ReadDirPlusRes<'_> = Res::Ok(ReadDirPlusOk {
        dir_attributes: Some(ATTR),
        cookieverf: *b"verifier",
        entries: Chain(vec![entry, bare]),
        eof: true,
    });
    result(Proc::ReadDirPlus, &res)
}

fn bare_names() -> Vec<u8> {
    let entry = Entry3 {
        fileid: 4,
        name: Opaque(b"name5"),
        cookie: 7,
    };
    let res: ReadDirRes<'_> = Res::Ok(ReadDirOk {
        dir_attributes: None,
        cookieverf: [0; 8],
        entries: Chain(vec![entry; 3]),
        eof: false,
    });
    result(Proc::ReadDir, &res)
}

fn data() -> Vec<u8> {
    let res: ReadRes<'_> = Res::Ok(ReadOk {
        file_attributes: Some(ATTR),
        count: 5,
        eof: true,
        data: Opaque(b"bytes"),
    });
    result(Proc::Read, &res)
}

fn new_object() -> Vec<u8> {
    let res: MkDirRes<'_> = Res::Ok(NewObject {
        obj: Some(FH),
        obj_attributes: Some(ATTR),
        dir_wcc: WCC,
    });
    result(Proc::MkDir, &res)
}

fn written() -> Vec<u8> {
    let res: WriteRes = Res::Ok(WriteOk {
        file_wcc: WCC,
        count: 5,
        committed: StableHow::Unstable,
        verf: *b"verifier",
    });
    result(Proc::Write, &res)
}

fn failure() -> Vec<u8> {
    let fail = LinkWcc {
        file_attributes: Some(ATTR),
        linkdir_wcc: WCC,
    };
    let res: LinkRes = Res::Fail(Nfs3Status::Exist, fail);
    result(Proc::Link, &res)
}

fn limits() -> Vec<u8> {
    let res: PathConfRes = Res::Ok(PathConfOk {
        obj_attributes: Some(ATTR),
        linkmax: 1000,
        name_max: 255,
        no_trunc: true,
        chown_restricted: true,
        case_insensitive: false,
        case_preserving: true,
    });
    result(Proc::PathConf, &res)
}

fn mounted() -> Vec<u8> {
    Choice::Mount(mount::Proc::Mnt).input(&MntRes::Ok(MntOk {
        fhandle: FH,
        auth_flavors: List(vec![1, 0]),
    }))
}

fn mounts() -> Vec<u8> {
    let entry = MountEntry {
        hostname: Opaque(b"client"),
        directory: Opaque(b"/data"),
    };
    let res = DumpRes::from(vec![entry; 2]);
    Choice::Mount(mount::Proc::Dump).input(&res)
}

fn exports() -> Vec<u8> {
    let entry = ExportEntry {
        dir: Opaque(b"/data"),
        groups: Chain(vec![Opaque(b"192.0.2.0/24"), Opaque(b"host")]),
    };
    let res = ExportRes::from(vec![entry.clone(), entry]);
    Choice::Mount(mount::Proc::Export).input(&res)
}
