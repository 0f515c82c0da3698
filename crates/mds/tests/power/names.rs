//! What a client does with names, and how it looks at them.

use super::model::{Act, DIRS, Entry, INLINE_DIR, Place, Seen};
use crate::rig::file::{File, patiently};
use crate::rig::real::write;
use crate::rig::{Client, Rig, after_putfh};
use namespace::{Cred, FileId, Op, Time};
use nfs4::attr::{self, Attrs};
use nfs4::ops::{
    CreateArgs, CreateRes, CreateType, GetAttrArgs, GetAttrRes, GetFhArgs, GetFhRes, LinkArgs,
    LinkRes, LookupPArgs, LookupPRes, PutFhArgs, PutFhRes, ReadDirArgs, ReadDirRes, RemoveArgs,
    RemoveRes, RenameArgs, RenameRes, SaveFhArgs, SaveFhRes, SetAttrArgs, SetAttrRes, SetXattrArgs,
    SetXattrOption, SetXattrRes,
};
use nfs4::{
    Bitmap, CompoundBuilder, CompoundReply, Fattr, FileHandle, FileType, NfsStatus, OpError,
    StableHow, Stateid, Verifier,
};
use xdr::Opaque;

/// Where a file lies, and where new ones are to.
const LAYOUT: &[u8] = b"ropewalk.layout";
const WANTED: Bitmap = Bitmap::of(&[attr::TYPE, attr::FILEID, attr::MODE, attr::NUMLINKS]);

fn dir_name(number: usize, dir: u64) -> String {
    format!("client-{number}-{dir}")
}

fn name(at: Place) -> String {
    format!("name-{}", at.name)
}

/// The inode number in a handle (docs/formats.md, "File handles").
fn id_of(fh: &FileHandle) -> u64 {
    u64::from_be_bytes(fh.0[12..20].try_into().unwrap())
}

fn status_of(e: &OpError) -> NfsStatus {
    e.status().unwrap_or_else(|| panic!("{e}"))
}

/// The directories of a client, made where they are not there.
pub(crate) async fn dirs(client: &Client, number: usize) -> Vec<FileHandle> {
    let root = client.lookup(&[]).await.unwrap();
    let mut all = Vec::new();
    for dir in 0..DIRS {
        let dir = dir_name(number, dir);
        match patiently(|| make_dir(client, &root, &dir)).await {
            Ok(fh) => all.push(fh),
            Err(NfsStatus::Exist) => all.push(client.lookup(&[&dir]).await.unwrap()),
            Err(status) => panic!("{status}"),
        }
    }
    let policy = client.on(&all[INLINE_DIR], |b| {
        b.push(&SetXattrArgs {
            option: SetXattrOption::Either,
            name: Opaque(LAYOUT),
            value: Opaque(b"inline_max=64K"),
        });
    });
    after_putfh(&policy.await).take::<SetXattrRes>().unwrap();
    all
}

async fn make_dir(client: &Client, dir: &FileHandle, name: &str) -> Result<FileHandle, NfsStatus> {
    let attrs = Fattr::new(&Attrs {
        mode: Some(0o755),
        ..Attrs::default()
    });
    let done = client.on(dir, |b| {
        b.push(&CreateArgs {
            object_type: CreateType::Dir,
            name: Opaque(name.as_bytes()),
            attrs: attrs.clone(),
        });
        b.push(&GetFhArgs {});
    });
    let done = done.await;
    let mut reply = after_putfh(&done);
    let made = reply.take::<CreateRes>();
    made.map_err(|e| status_of(&e))?;
    Ok(FileHandle::from(
        reply.take::<GetFhRes<'_>>().unwrap().object.0,
    ))
}

/// Sends an operation with a saved and a current handle, until it is done.
async fn with_saved(
    client: &Client,
    (saved, current): (&FileHandle, &FileHandle),
    push: impl Fn(&mut CompoundBuilder) + Send + Sync,
    take: impl Fn(&mut CompoundReply<'_>) -> Result<(), OpError>,
) {
    let put = |b: &mut CompoundBuilder, fh: &FileHandle| {
        b.push(&PutFhArgs {
            object: Opaque(&fh.0),
        });
    };
    let (put, push, take) = (&put, &push, &take);
    let done = patiently(|| async move {
        let done = client.run(|b| {
            put(b, saved);
            b.push(&SaveFhArgs {});
            put(b, current);
            push(b);
        });
        let done = done.await;
        let mut reply = done.results().unwrap();
        reply.take::<PutFhRes>().unwrap();
        reply.take::<SaveFhRes>().unwrap();
        reply.take::<PutFhRes>().unwrap();
        take(&mut reply).map_err(|e| status_of(&e))
    });
    done.await.unwrap();
}

async fn find(client: &Client, dirs: &[FileHandle], at: Place) -> FileHandle {
    let name = name(at);
    let done = client.on(&dirs[at.dir], |b| {
        b.push(&nfs4::ops::LookupArgs {
            name: Opaque(name.as_bytes()),
        });
        b.push(&GetFhArgs {});
    });
    let done = done.await;
    let mut reply = after_putfh(&done);
    reply.take::<nfs4::ops::LookupRes>().unwrap();
    FileHandle::from(reply.take::<GetFhRes<'_>>().unwrap().object.0)
}

/// Does it; returns the number of the file that it was done to.
pub(crate) async fn perform(client: &Client, dirs: &[FileHandle], act: Act) -> u64 {
    match act {
        Act::Create { at, closes } => {
            let (dir, name) = (&dirs[at.dir], name(at));
            let opened = patiently(|| File::try_open(client, dir, &name)).await;
            let (open, fh) = opened.unwrap();
            let id = id_of(&fh);
            let file = File {
                client,
                name,
                fh,
                open,
            };
            if closes {
                file.close().await;
            }
            id
        }
        Act::MakeDir(at) => {
            let name = name(at);
            let made = patiently(|| make_dir(client, &dirs[at.dir], &name)).await;
            id_of(&made.unwrap())
        }
        Act::Link(from, to) => {
            let file = find(client, dirs, from).await;
            let new_name = name(to);
            let push = |b: &mut CompoundBuilder| {
                b.push(&LinkArgs {
                    new_name: Opaque(new_name.as_bytes()),
                });
            };
            with_saved(client, (&file, &dirs[to.dir]), push, |reply| {
                reply.take::<LinkRes>().map(drop)
            })
            .await;
            id_of(&file)
        }
        Act::Rename(from, to) => {
            let file = find(client, dirs, from).await;
            let (old_name, new_name) = (name(from), name(to));
            let push = |b: &mut CompoundBuilder| {
                b.push(&RenameArgs {
                    old_name: Opaque(old_name.as_bytes()),
                    new_name: Opaque(new_name.as_bytes()),
                });
            };
            with_saved(client, (&dirs[from.dir], &dirs[to.dir]), push, |reply| {
                reply.take::<RenameRes>().map(drop)
            })
            .await;
            id_of(&file)
        }
        Act::Remove(at) => remove(client, dirs, at).await,
        Act::Mode(at, mode) => set(client, dirs, at, (Some(mode), None)).await,
        Act::Cut(at, len) => set(client, dirs, at, (None, Some(len as u64))).await,
        Act::Write(at, byte, len) => fill(client, dirs, at, &vec![byte; len]).await,
    }
}

/// Writes at the start of a file without an open.
async fn fill(client: &Client, dirs: &[FileHandle], at: Place, bytes: &[u8]) -> u64 {
    let file = File {
        client,
        name: String::new(),
        fh: find(client, dirs, at).await,
        open: Stateid::ANONYMOUS,
    };
    write(&file, 0, StableHow::Unstable, bytes).await;
    file.id()
}

/// The bytes of a file, if it is inline. The server may be in grace, so no client can be asked.
fn inline_bytes(rig: &Rig, file_id: u64) -> Option<Vec<u8>> {
    let cred = Cred::root();
    let mut op = Op::new(&cred, Time::default());
    let ns = rig.nfsd.role().fs().namespace();
    let (inode, record) = ns.read_inline(&mut op, FileId(file_id)).unwrap();
    let mut bytes = record.to_vec();
    bytes.resize(usize::try_from(inode.size).unwrap(), 0);
    inode.is_inline().then_some(bytes)
}

async fn remove(client: &Client, dirs: &[FileHandle], at: Place) -> u64 {
    let file = find(client, dirs, at).await;
    let (dir, target) = (&dirs[at.dir], &name(at));
    let removed = patiently(|| async move {
        let done = client.on(dir, |b| {
            b.push(&RemoveArgs {
                target: Opaque(target.as_bytes()),
            });
        });
        let done = done.await;
        let removed = after_putfh(&done).take::<RemoveRes>();
        removed.map(drop).map_err(|e| status_of(&e))
    });
    removed.await.unwrap();
    id_of(&file)
}

async fn set(
    client: &Client,
    dirs: &[FileHandle],
    at: Place,
    what: (Option<u32>, Option<u64>),
) -> u64 {
    let file = &find(client, dirs, at).await;
    let (mode, size) = what;
    let attrs = &Fattr::new(&Attrs {
        mode,
        size,
        ..Attrs::default()
    });
    let set = patiently(|| async move {
        let done = client.on(file, |b| {
            b.push(&SetAttrArgs {
                stateid: Stateid::ANONYMOUS,
                attrs: attrs.clone(),
            });
        });
        let done = done.await;
        let set = after_putfh(&done).take::<SetAttrRes>();
        match set.map_err(|e| status_of(&e))?.status {
            NfsStatus::Ok => Ok(()),
            status => Err(status),
        }
    });
    set.await.unwrap();
    id_of(file)
}

/// Looks at all names of a client; `None` when it has no directories. One that lists a directory is its parent.
pub(crate) async fn look(rig: &Rig, client: &Client, number: usize, at: &str) -> Option<Seen> {
    let mut seen = Seen::default();
    for dir in 0..DIRS {
        let fh = client.lookup(&[&dir_name(number, dir)]).await;
        let fh = match fh {
            Ok(fh) => fh,
            Err(e) if e.status() == Some(NfsStatus::NoEnt) => return None,
            Err(e) => panic!("{at}: {e}"),
        };
        seen.dirs.push(attrs_of(client, &fh).await.links_count);
        let dir = usize::try_from(dir).unwrap();
        for (text, entry) in list(client, &fh).await {
            let name = text.strip_prefix("name-").and_then(|n| n.parse().ok());
            let name = name.unwrap_or_else(|| panic!("{at}: {text}"));
            let found = client
                .lookup(&[&dir_name(number, dir as u64), &text])
                .await
                .unwrap_or_else(|e| panic!("{at}: {text} is listed: {e}"));
            assert_eq!(attrs_of(client, &found).await, entry, "{at}: {text}");
            if entry.is_dir {
                assert_eq!(parent(client, &found).await, id_of(&fh), "{at}: {text}");
                assert_eq!(list(client, &found).await.len(), 0, "{at}: {text}");
            }
            let at = Place { dir, name };
            if !entry.is_dir
                && let Some(bytes) = inline_bytes(rig, entry.file_id)
            {
                seen.bytes.insert(at, bytes);
            }
            seen.names.insert(at, entry);
        }
    }
    Some(seen)
}

fn entry(attrs: &Attrs) -> Entry {
    Entry {
        file_id: attrs.fileid.unwrap(),
        is_dir: attrs.file_type == Some(FileType::Dir),
        mode: attrs.mode.unwrap(),
        links_count: attrs.numlinks.unwrap(),
    }
}

async fn attrs_of(client: &Client, fh: &FileHandle) -> Entry {
    let done = client.on(fh, |b| {
        b.push(&GetAttrArgs {
            attr_request: WANTED,
        });
    });
    let done = done.await;
    let mut reply = after_putfh(&done);
    let res = reply.take::<GetAttrRes<'_>>().unwrap();
    entry(&res.attributes.attrs().unwrap())
}

async fn parent(client: &Client, dir: &FileHandle) -> u64 {
    let done = client.on(dir, |b| {
        b.push(&LookupPArgs {});
        b.push(&GetFhArgs {});
    });
    let done = done.await;
    let mut reply = after_putfh(&done);
    reply.take::<LookupPRes>().unwrap();
    let fh = reply.take::<GetFhRes<'_>>().unwrap().object.0;
    id_of(&FileHandle::from(fh))
}

async fn list(client: &Client, dir: &FileHandle) -> Vec<(String, Entry)> {
    let done = client.on(dir, |b| {
        b.push(&ReadDirArgs {
            cookie: 0,
            cookie_verifier: Verifier::default(),
            dircount: 4096,
            maxcount: 8192,
            attr_request: WANTED,
        });
    });
    let done = done.await;
    let mut reply = after_putfh(&done);
    let page = reply.take::<ReadDirRes<'_>>().unwrap();
    assert!(page.eof);
    let found = page.entries.iter().map(|found| {
        let name = String::from_utf8(found.name.0.to_vec()).unwrap();
        (name, entry(&found.attrs.attrs().unwrap()))
    });
    found.collect()
}
