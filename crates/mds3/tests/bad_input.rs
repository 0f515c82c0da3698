//! Goal: handles that the server did not give out, or not to this caller, name no file; and floods of MOUNT leave nothing behind.
//! Method: as in procedures.rs.

#![allow(clippy::unwrap_used, reason = "a test fails by it")]

mod rig;

use meta::MemStore;
use nfs3::mount::{self, DumpRes, MNTPATHLEN, MntArgs, MntRes, MountStatus, UmntArgs};
use nfs3::procs::*;
use nfs3::{DirOpArgs, Nfs3Status, ProcArgs, Sattr3, StableHow};
use nlm::{
    Fsh4Access, Fsh4Mode, Nlm4CancArgs, Nlm4Lock, Nlm4LockArgs, Nlm4Res, Nlm4Share, Nlm4ShareArgs,
    Nlm4ShareRes, Nlm4Stats, Nlm4TestArgs, Nlm4TestReply, Nlm4TestRes, Nlm4UnlockArgs, NlmProc,
};
use rig::*;
use rpc::{AcceptError, AuthStat, CallRefusal, Rejection};
use server::exports::{Atime, ExportRule, Exports, Squash};
use std::sync::Arc;
use xdr::{Encode, Opaque, decode_all};

/// A handle with one bit changed, for every bit; other kinds of handles; and all other lengths.
fn altered(handle: &[u8]) -> Vec<Vec<u8>> {
    let mut all = Vec::new();
    for bit in 0..handle.len() * 8 {
        let mut changed = handle.to_vec();
        changed[bit / 8] ^= 1 << (bit % 8);
        all.push(changed);
    }
    for kind in [0, 2, 3, 0xff] {
        let mut changed = handle.to_vec();
        changed[1] = kind;
        all.push(changed);
    }
    all.extend((0..handle.len()).map(|end| handle[..end].to_vec()));
    all.extend((1..=64 - handle.len()).map(|more| [handle, &vec![0; more]].concat()));
    all
}

fn is_no_handle(status: Nfs3Status) -> bool {
    matches!(status, Nfs3Status::BadHandle | Nfs3Status::Stale)
}

/// The status of a call.
async fn status<A: ProcArgs>(rig: &Rig, args: &A) -> Nfs3Status {
    let body = rig.call(args).await;
    let number = u32::from_be_bytes(body[..4].try_into().unwrap());
    Nfs3Status::from_u32(number).unwrap()
}

/// What each procedure answers to this as the handle that it works on. With a name where one is needed.
async fn statuses(rig: &Rig, handle: &[u8]) -> Vec<Nfs3Status> {
    let fh = Opaque(handle);
    let at = DirOpArgs {
        dir: fh,
        name: Opaque(b"file"),
    };
    let (attributes, root) = (Sattr3::default(), Opaque(&rig.root[..]));
    let write = WriteArgs {
        file: fh,
        offset: 0,
        count: 3,
        stable: StableHow::FileSync,
        data: Opaque(b"bad"),
    };
    let set = SetAttrArgs {
        object: fh,
        new_attributes: Sattr3 {
            mode: Some(0),
            ..attributes
        },
        guard: None,
    };
    let read = ReadArgs {
        file: fh,
        offset: 0,
        count: 10,
    };
    let create = CreateArgs {
        place: at,
        how: CreateHow::Unchecked(attributes),
    };
    let rename = RenameArgs {
        from: rig.at("file"),
        to: at,
    };
    let link = LinkArgs {
        file: fh,
        link: DirOpArgs {
            dir: root,
            name: Opaque(b"link"),
        },
    };
    let list = ReadDirArgs {
        dir: fh,
        cookie: 0,
        cookieverf: [0; 8],
        count: 4096,
    };
    vec![
        status(rig, &GetAttrArgs { object: fh }).await,
        status(rig, &set).await,
        status(rig, &LookupArgs { what: at }).await,
        status(rig, &read).await,
        status(rig, &write).await,
        status(rig, &create).await,
        status(rig, &RemoveArgs { object: at }).await,
        status(rig, &rename).await,
        status(rig, &link).await,
        status(rig, &list).await,
        status(rig, &FsInfoArgs { fsroot: fh }).await,
    ]
}

#[tokio::test(start_paused = true)]
async fn an_altered_handle_names_nothing_in_nfs3() {
    let rig = Rig::new().await;
    let file = rig.create("file").await;
    for handle in [&rig.root, &file] {
        for changed in altered(handle) {
            let told = statuses(&rig, &changed).await;
            assert!(
                told.iter().all(|status| is_no_handle(*status)),
                "{changed:?}: {told:?}"
            );
        }
    }
    let getattr = GetAttrArgs {
        object: Opaque(&file),
    };
    let body = rig.call(&getattr).await;
    let told = GetAttrArgs::decode_res(&body).unwrap().into_result();
    let told = told.unwrap().obj_attributes;
    assert_eq!((told.mode, told.size, told.nlink), (0o644, 0, 1));
    assert_eq!(rig.lookup("link").await, Nfs3Status::NoEnt);
}

const STATE: i32 = 3;

fn lock(handle: &[u8]) -> Nlm4Lock<'_> {
    Nlm4Lock {
        caller_name: Opaque(b"client"),
        fh: Opaque(handle),
        oh: Opaque(b"7@client"),
        svid: 7,
        l_offset: 0,
        l_len: 0,
    }
}

async fn nlm(rig: &Rig, proc: NlmProc, args: &impl Encode) -> Result<Vec<u8>, CallRefusal> {
    let id = (nlm::PROGRAM, nlm::VERSION, proc as u32);
    send(&*rig.nlm, &rig.conn, &rig.record(id, args)).await
}

async fn stat(rig: &Rig, proc: NlmProc, args: &impl Encode) -> Nlm4Stats {
    let body = nlm(rig, proc, args).await.unwrap();
    decode_all::<Nlm4Res<'_>>(&body).unwrap().stat
}

async fn take(rig: &Rig, handle: &[u8]) -> Nlm4Stats {
    let args = Nlm4LockArgs {
        cookie: Opaque(b"c"),
        block: false,
        exclusive: true,
        alock: lock(handle),
        reclaim: false,
        state: STATE,
    };
    stat(rig, NlmProc::Lock, &args).await
}

/// What each procedure of NLM answers to this handle.
async fn nlm_stats(rig: &Rig, handle: &[u8]) -> Vec<Nlm4Stats> {
    let (cookie, alock) = (Opaque(&b"c"[..]), lock(handle));
    let test = Nlm4TestArgs {
        cookie,
        exclusive: true,
        alock,
    };
    let body = nlm(rig, NlmProc::Test, &test).await.unwrap();
    let tested = match decode_all::<Nlm4TestRes<'_>>(&body).unwrap().stat {
        Nlm4TestReply::Other(stats) => stats,
        Nlm4TestReply::Denied(by) => panic!("{by:?}"),
    };
    let cancel = Nlm4CancArgs {
        cookie,
        block: true,
        exclusive: true,
        alock,
    };
    let share = Nlm4ShareArgs {
        cookie,
        share: Nlm4Share {
            caller_name: alock.caller_name,
            fh: alock.fh,
            oh: alock.oh,
            mode: Fsh4Mode::DenyBoth,
            access: Fsh4Access::Both,
        },
        reclaim: false,
    };
    let shared = |body: Vec<u8>| decode_all::<Nlm4ShareRes<'_>>(&body).unwrap().stat;
    vec![
        tested,
        take(rig, handle).await,
        stat(rig, NlmProc::Unlock, &Nlm4UnlockArgs { cookie, alock }).await,
        stat(rig, NlmProc::Cancel, &cancel).await,
        shared(nlm(rig, NlmProc::Share, &share).await.unwrap()),
        shared(nlm(rig, NlmProc::Unshare, &share).await.unwrap()),
    ]
}

#[tokio::test(start_paused = true)]
async fn an_altered_handle_locks_and_unlocks_nothing() {
    let rig = Rig::new().await;
    let file = rig.create("file").await;
    assert_eq!(take(&rig, &file).await, Nlm4Stats::Granted);
    let known = rig.nfsd.role().fs().state().counts();
    for changed in altered(&file) {
        let told = nlm_stats(&rig, &changed).await;
        // What names a file that there is not may have been removed: nothing of it is locked.
        let is_gone = |at: usize| matches!(at, 2 | 3 | 5);
        for (at, stats) in told.iter().enumerate() {
            let is_right =
                *stats == Nlm4Stats::StaleFh || is_gone(at) && *stats == Nlm4Stats::Granted;
            assert!(is_right, "{changed:?}: {told:?}");
        }
    }
    assert_eq!(rig.nfsd.role().fs().state().counts(), known);
    let held = ropewalk_mds3::hosts_held(rig.nfsd.role().fs());
    let held: Vec<_> = held
        .iter()
        .map(|h| (h.ranges_count, h.shares_count))
        .collect();
    assert_eq!(held, [(1, 0)]);
}

/// A rule for these clients.
fn rule(clients: &str, read_write: bool) -> ExportRule {
    ExportRule {
        clients: clients.parse().unwrap(),
        read_write,
        squash: Squash::None,
        anonymous_uid: 65_534,
        anonymous_gid: 65_534,
        atime: Atime::Off,
    }
}

#[tokio::test(start_paused = true)]
async fn a_handle_is_of_no_use_to_who_is_not_exported_to() {
    let store = Arc::new(MemStore::new());
    let (root, file) = {
        let rig = Rig::over(store.clone()).await;
        (rig.root.clone(), rig.create("file").await)
    };
    // The same handles, of files that are exported to others now.
    let exports = Exports::new(vec![rule("192.0.2.0/24", true)]);
    let rig = Rig::unmounted(store.clone(), exports).await;
    let weak = Err(CallRefusal::Denied(Rejection::Auth(AuthStat::TooWeak)));
    for handle in [&root, &file] {
        let getattr = rig.record_of(&GetAttrArgs {
            object: Opaque(handle),
        });
        assert_eq!(send(&rig.nfs, &rig.conn, &getattr).await, weak);
    }
    let args = Nlm4LockArgs {
        cookie: Opaque(b"c"),
        block: false,
        exclusive: true,
        alock: lock(&file),
        reclaim: false,
        state: STATE,
    };
    assert_eq!(nlm(&rig, NlmProc::Lock, &args).await, weak);
    assert_eq!(rig.mnt(b"/").await, Err(MountStatus::Access));
    drop(rig);

    // To this one it is exported for reading.
    let exports = Exports::new(vec![rule("127.0.0.1", false)]);
    let rig = Rig::unmounted(store, exports).await;
    let getattr = GetAttrArgs {
        object: Opaque(&file),
    };
    assert_eq!(status(&rig, &getattr).await, Nfs3Status::Ok);
    let write = WriteArgs {
        file: Opaque(&file),
        offset: 0,
        count: 3,
        stable: StableHow::FileSync,
        data: Opaque(b"bad"),
    };
    assert_eq!(status(&rig, &write).await, Nfs3Status::RoFs);
}

#[tokio::test(start_paused = true)]
async fn a_flood_of_mounts_leaves_nothing_behind() {
    const MOUNTS: usize = 5_000;
    let rig = Rig::new().await;
    let dump = async || {
        let id = (mount::PROGRAM, mount::VERSION, mount::Proc::Dump as u32);
        let body = send(&rig.mount, &rig.conn, &rig.record(id, &())).await;
        decode_all::<DumpRes<'_>>(&body.unwrap()).unwrap().0.len()
    };
    let known = rig.nfsd.role().fs().state().counts();
    for number in 0..MOUNTS {
        // Who mounts and never unmounts, by ever other paths of the same directory and of none.
        let slashes = vec![b'/'; 1 + number % 50];
        assert_eq!(rig.mnt(&slashes).await.as_ref(), Ok(&rig.root));
        let absent = format!("/none-{number}");
        assert_eq!(rig.mnt(absent.as_bytes()).await, Err(MountStatus::NoEnt));
    }
    assert_eq!(dump().await, 0, "no list of mounts is kept");
    assert_eq!(rig.nfsd.role().fs().state().counts(), known);
    let umnt = |path| {
        let id = (mount::PROGRAM, mount::VERSION, mount::Proc::Umnt as u32);
        let dirpath = Opaque(path);
        rig.record(id, &UmntArgs { dirpath })
    };
    let done = send(&rig.mount, &rig.conn, &umnt(b"/never/mounted")).await;
    assert_eq!(done, Ok(Vec::new()));
    // Paths have a limit in bytes, and one in directories.
    let deep = b"/d".repeat(MNTPATHLEN as usize / 2);
    assert_eq!(rig.mnt(&deep).await, Err(MountStatus::NameTooLong));
    let long = [&deep[..], b"d"].concat();
    let id = (mount::PROGRAM, mount::VERSION, mount::Proc::Mnt as u32);
    let record = rig.record(id, &Opaque::<{ u32::MAX }>(&long));
    let refused = send(&rig.mount, &rig.conn, &record).await;
    assert_eq!(refused, Err(AcceptError::GarbageArgs.into()));
    let root = MntArgs {
        dirpath: Opaque(b"/"),
    };
    let body = send(&rig.mount, &rig.conn, &rig.record(id, &root)).await;
    assert!(matches!(decode_all(&body.unwrap()), Ok(MntRes::Ok(_))));
}
