//! NFSv3 against a scripted server of one directory: what it loses is written again, what it does not tell is asked for, and
//! what NFSv3 cannot do is said. The server keeps unstable data apart until COMMIT, and forgets them when it restarts.

use super::{config, content, pattern};
use crate::{Client, ClientConfig, Error, LockKind, NfsStatus, NfsVersion, OpenOptions, V3Ports};
use bytes::Bytes;
use nfs3::mount::{ExportEntry, ExportRes, MntArgs, MntOk, MntRes, MountStatus};
use nfs3::procs::*;
use nfs3::{Fattr3, FileType3, Nfs3Status, NfsTime3, Proc, SpecData3, StableHow, WccData};
use parking_lot::Mutex;
use std::collections::BTreeMap;
use std::sync::Arc;
use transport::memory::MemoryNetwork;
use transport::workers::Shutdown;
use transport::{Address, ConnHandle, Context, Message, Payload, Service, TransportLimits};
use xdr::{Decode, Decoder, Encode, Encoder, Opaque};

/// Largest READ and WRITE of the server.
const IO: u32 = 1000;
const ROOT: &[u8] = b"root";

#[derive(Default, Clone)]
struct Stored {
    data: Vec<u8>,
    mode: u32,
    verifier: Option<[u8; 8]>,
}

#[derive(Default)]
struct State {
    /// With all that was written.
    files: BTreeMap<Vec<u8>, Stored>,
    /// What survives a restart.
    durable: BTreeMap<Vec<u8>, Stored>,
    boot: u64,
    has_no_readdirplus: bool,
    tells_no_attributes: bool,
    lists_no_exports: bool,
    /// Restarts before it answers the next COMMIT.
    restarts_at_commit: u32,
}

impl State {
    fn restart(&mut self) {
        self.boot += 1;
        self.files = self.durable.clone();
    }

    fn verf(&self) -> [u8; 8] {
        self.boot.to_be_bytes()
    }

    fn attrs(&self, fh: &[u8]) -> Option<Fattr3> {
        let file = self.files.get(fh);
        let is_root = fh == ROOT;
        (is_root || file.is_some()).then(|| Fattr3 {
            file_type: if is_root {
                FileType3::Dir
            } else {
                FileType3::Reg
            },
            mode: file.map_or(0o755, |f| f.mode),
            nlink: 1,
            uid: 5,
            gid: 6,
            size: file.map_or(0, |f| f.data.len() as u64),
            used: 0,
            rdev: SpecData3::default(),
            fsid: 1,
            fileid: fh.len() as u64,
            atime: NfsTime3::default(),
            mtime: NfsTime3::default(),
            ctime: NfsTime3::default(),
        })
    }

    /// Attributes beside a result.
    fn told(&self, fh: &[u8]) -> Option<Fattr3> {
        self.attrs(fh).filter(|_| !self.tells_no_attributes)
    }

    fn create(&mut self, args: &CreateArgs<'_>) -> Result<(), Nfs3Status> {
        let name = args.place.name.0.to_vec();
        let there = self.files.get(&name);
        let new = match args.how {
            CreateHow::Unchecked(_) if there.is_some() => return Ok(()),
            CreateHow::Exclusive(v) if there.is_some_and(|f| f.verifier == Some(v)) => {
                return Ok(());
            }
            _ if there.is_some() => return Err(Nfs3Status::Exist),
            CreateHow::Unchecked(a) | CreateHow::Guarded(a) => Stored {
                mode: a.mode.unwrap_or(0),
                ..Stored::default()
            },
            CreateHow::Exclusive(v) => Stored {
                verifier: Some(v),
                ..Stored::default()
            },
        };
        self.files.insert(name.clone(), new.clone());
        self.durable.insert(name, new);
        Ok(())
    }

    fn write(&mut self, args: &WriteArgs<'_>) -> Option<WriteOk> {
        // Half of what is asked, as servers may.
        let count = args.data.0.len().div_ceil(2);
        let at = usize::try_from(args.offset).unwrap();
        let store = |files: &mut BTreeMap<Vec<u8>, Stored>| {
            let data = &mut files.get_mut(args.file.0)?.data;
            data.resize(data.len().max(at + count), 0);
            data[at..at + count].copy_from_slice(&args.data.0[..count]);
            Some(())
        };
        store(&mut self.files)?;
        if args.stable != StableHow::Unstable {
            store(&mut self.durable)?;
        }
        Some(WriteOk {
            file_wcc: WccData::default(),
            count: u32::try_from(count).unwrap(),
            committed: args.stable,
            verf: self.verf(),
        })
    }

    /// Executes a call; the payload of a READ comes back.
    fn execute(&mut self, proc: Proc, args: &[u8], e: &mut Encoder) -> Option<Bytes> {
        use xdr::decode_all;
        match proc {
            Proc::Null => {}
            Proc::FsStat => FsStatRes::Ok(fsstat()).encode(e),
            Proc::FsInfo => FsInfoRes::Ok(fsinfo()).encode(e),
            Proc::GetAttr => {
                let args: GetAttrArgs<'_> = decode_all(args).unwrap();
                match self.attrs(args.object.0) {
                    Some(obj_attributes) => GetAttrRes::Ok(GetAttrOk { obj_attributes }).encode(e),
                    None => GetAttrRes::Fail(Nfs3Status::Stale, ()).encode(e),
                }
            }
            Proc::SetAttr => {
                let args: SetAttrArgs<'_> = decode_all(args).unwrap();
                for files in [&mut self.files, &mut self.durable] {
                    let file = files.get_mut(args.object.0).unwrap();
                    file.mode = args.new_attributes.mode.unwrap_or(file.mode);
                    if let Some(size) = args.new_attributes.size {
                        file.data.resize(usize::try_from(size).unwrap(), 0);
                    }
                }
                SetAttrRes::Ok(WccData::default()).encode(e);
            }
            Proc::Write => {
                let args: WriteArgs<'_> = decode_all(args).unwrap();
                match self.write(&args) {
                    Some(ok) => WriteRes::Ok(ok).encode(e),
                    None => WriteRes::Fail(Nfs3Status::Stale, WccData::default()).encode(e),
                }
            }
            Proc::Commit => {
                if self.restarts_at_commit > 0 {
                    self.restarts_at_commit -= 1;
                    self.restart();
                }
                self.durable = self.files.clone();
                CommitRes::Ok(CommitOk {
                    file_wcc: WccData::default(),
                    verf: self.verf(),
                })
                .encode(e);
            }
            Proc::Read => {
                let args: ReadArgs<'_> = decode_all(args).unwrap();
                let data = &self.files[args.file.0].data;
                let from = usize::try_from(args.offset).unwrap().min(data.len());
                // Half of what is asked, as servers may.
                let wanted = args.count.div_ceil(2) as usize;
                let to = (from + wanted).min(data.len());
                ReadResPayload::Ok(ReadOkPayload {
                    file_attributes: None,
                    eof: to == data.len(),
                    len: u32::try_from(to - from).unwrap(),
                })
                .encode(e);
                return Some(Bytes::copy_from_slice(&data[from..to]));
            }
            Proc::ReadDirPlus | Proc::ReadDir => self.readdir(proc, args, e),
            Proc::Lookup | Proc::Create => self.name(proc, args, e),
            other => panic!("{other} is not in this server"),
        }
        None
    }

    fn name(&mut self, proc: Proc, args: &[u8], e: &mut Encoder) {
        match proc {
            Proc::Lookup => {
                let args: LookupArgs<'_> = xdr::decode_all(args).unwrap();
                let name = args.what.name.0;
                match self.files.contains_key(name) {
                    true => LookupRes::Ok(LookupOk {
                        object: Opaque(name),
                        obj_attributes: self.told(name),
                        dir_attributes: None,
                    }),
                    false => LookupRes::Fail(Nfs3Status::NoEnt, None),
                }
                .encode(e);
            }
            _ => {
                let args: CreateArgs<'_> = xdr::decode_all(args).unwrap();
                match self.create(&args) {
                    Ok(()) => CreateRes::Ok(NewObject {
                        obj: (!self.tells_no_attributes).then_some(Opaque(args.place.name.0)),
                        obj_attributes: self.told(args.place.name.0),
                        dir_wcc: WccData::default(),
                    }),
                    Err(status) => CreateRes::Fail(status, WccData::default()),
                }
                .encode(e);
            }
        }
    }

    /// Two entries a page; the first page has `.` and `..`.
    fn readdir(&self, proc: Proc, args: &[u8], e: &mut Encoder) {
        if proc == Proc::ReadDirPlus && self.has_no_readdirplus {
            ReadDirPlusRes::Fail(Nfs3Status::NotSupp, None).encode(e);
            return;
        }
        let cookie = match proc {
            Proc::ReadDirPlus => xdr::decode_all::<ReadDirPlusArgs<'_>>(args).unwrap().cookie,
            _ => xdr::decode_all::<ReadDirArgs<'_>>(args).unwrap().cookie,
        };
        let dots = [&b"."[..], b".."];
        let names: Vec<&[u8]> = dots
            .into_iter()
            .chain(self.files.keys().map(Vec::as_slice))
            .collect();
        let first = usize::try_from(cookie).unwrap();
        let page: Vec<(&[u8], u64)> = (names.iter().copied().zip(1..))
            .skip(first)
            .take(2)
            .collect();
        let eof = first + 2 >= names.len();
        match proc {
            Proc::ReadDirPlus => {
                let entries: Vec<_> = (page.iter())
                    .map(|(name, cookie)| EntryPlus3 {
                        fileid: 1,
                        name: Opaque(name),
                        cookie: *cookie,
                        name_attributes: self.told(name),
                        name_handle: (!self.tells_no_attributes).then_some(Opaque(name)),
                    })
                    .collect();
                ReadDirPlusRes::Ok(ReadDirPlusOk {
                    dir_attributes: None,
                    cookieverf: [9; 8],
                    entries: entries.into(),
                    eof,
                })
                .encode(e);
            }
            _ => {
                let entries: Vec<_> = (page.iter())
                    .map(|(name, cookie)| Entry3 {
                        fileid: 1,
                        name: Opaque(name),
                        cookie: *cookie,
                    })
                    .collect();
                ReadDirRes::Ok(ReadDirOk {
                    dir_attributes: None,
                    cookieverf: [9; 8],
                    entries: entries.into(),
                    eof,
                })
                .encode(e);
            }
        }
    }
}

fn fsstat() -> FsStatOk {
    FsStatOk {
        obj_attributes: None,
        tbytes: 3,
        fbytes: 2,
        abytes: 1,
        tfiles: 0,
        ffiles: 0,
        afiles: 0,
        invarsec: 0,
    }
}

fn fsinfo() -> FsInfoOk {
    FsInfoOk {
        obj_attributes: None,
        rtmax: IO,
        rtpref: IO,
        rtmult: 1,
        wtmax: IO,
        wtpref: IO,
        wtmult: 1,
        dtpref: IO,
        maxfilesize: u64::MAX,
        time_delta: NfsTime3::default(),
        properties: 0,
    }
}

#[derive(Default)]
struct Server(Mutex<State>);

impl Service for Server {
    async fn call(&self, _conn: &ConnHandle, record: Bytes) -> Option<Message> {
        let mut d = Decoder::new(&record);
        let header = rpc::CallHeader::decode(&mut d).unwrap();
        let mut e = Encoder::new();
        rpc::begin_success(&mut e, header.xid, rpc::OpaqueAuth::NONE);
        let mut payload = None;
        match (header.program, header.procedure) {
            (nfs3::PROGRAM, number) => {
                let number = number.to_be_bytes();
                let proc = Proc::decode(&mut Decoder::new(&number)).unwrap();
                payload = self.0.lock().execute(proc, d.rest(), &mut e);
            }
            (nfs3::mount::PROGRAM, 1) => {
                match xdr::decode_all::<MntArgs<'_>>(d.rest()).unwrap().dirpath.0 {
                    b"/data" => MntRes::Ok(MntOk {
                        fhandle: Opaque(ROOT),
                        auth_flavors: vec![1].into(),
                    }),
                    _ => MntRes::Fail(MountStatus::Access),
                }
                .encode(&mut e);
            }
            (nfs3::mount::PROGRAM, 5) => {
                let export = ExportEntry {
                    dir: Opaque(b"/data"),
                    groups: Vec::new().into(),
                };
                let is_listed = !self.0.lock().lists_no_exports;
                let list: Vec<_> = is_listed.then_some(export).into_iter().collect();
                ExportRes::from(list).encode(&mut e);
            }
            _ => {}
        }
        let payloads = payload.map(Payload::Bytes).into_iter().collect();
        Some(Message::new(e, payloads))
    }
}

struct Rig {
    server: Arc<Server>,
    client: Client,
    _shutdown: Shutdown,
}

async fn rig() -> Rig {
    let network = MemoryNetwork::default();
    let server = Arc::new(Server::default());
    let (shutdown, context) = (Shutdown::new(), Context::new(TransportLimits::default()));
    let listener = network.listen("nfs").unwrap();
    tokio::spawn(listener.serve(server.clone(), context.clone(), shutdown.signal()));
    let config = ClientConfig {
        version: NfsVersion::V3(V3Ports::default()),
        ..config("a")
    };
    let addresses = vec![Address::Memory("nfs".to_owned())];
    let connector = Arc::new(network.connector("client", context));
    Rig {
        server,
        client: Client::connect(addresses, connector, config).await.unwrap(),
        _shutdown: shutdown,
    }
}

const LEN: usize = 5 * IO as usize + 123;

#[tokio::test(start_paused = true)]
async fn what_is_written_by_nfsv3_is_read_and_durable_after_a_flush() {
    let rig = rig().await;
    let data = pattern(1, LEN);
    let file = (rig.client.open("/data/f", OpenOptions::create(0o640)).await).unwrap();
    file.write_at(0, data.clone()).await.unwrap();
    assert_eq!(file.uncommitted_bytes(), LEN as u64);
    assert!(content(&file, u32::MAX).await == data);
    let end = file.read_at(LEN as u64 - 5, 100).await.unwrap();
    assert!(end.eof);
    assert_eq!(end.into_bytes(), data.slice(LEN - 5..));
    file.flush().await.unwrap();
    assert_eq!(file.uncommitted_bytes(), 0);
    assert!(rig.server.0.lock().durable[&b"f"[..]].data == data);
    file.write_sync_at(3, Bytes::from_static(b"abcd"))
        .await
        .unwrap();
    assert_eq!(rig.server.0.lock().durable[&b"f"[..]].data[3..7], *b"abcd");
    assert_eq!(file.uncommitted_bytes(), 0);
    file.set_len(10).await.unwrap();
    let metadata = file.metadata().await.unwrap();
    assert_eq!((metadata.size, metadata.mode), (10, 0o640));
    assert_eq!(
        (metadata.owner.as_str(), metadata.group.as_str()),
        ("5", "6")
    );
    file.close().await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn data_that_a_server_lost_before_its_commit_are_written_again() {
    for restarts in [1, 2] {
        let rig = rig().await;
        let data = pattern(2, LEN);
        let file = (rig.client.open("/data/f", OpenOptions::create(0o644)).await).unwrap();
        file.write_at(0, data.clone()).await.unwrap();
        {
            let mut state = rig.server.0.lock();
            state.restart();
            assert!(state.files[&b"f"[..]].data.is_empty());
            state.restarts_at_commit = restarts - 1;
        }
        // What this client wrote it reads, whatever the server still has.
        assert!(content(&file, u32::MAX).await == data);
        file.write_at(7, Bytes::from_static(b"newer"))
            .await
            .unwrap();
        file.close().await.unwrap();
        let mut want = data.to_vec();
        want[7..12].copy_from_slice(b"newer");
        assert!(rig.server.0.lock().durable[&b"f"[..]].data == want);
        assert!(rig.client.stats().resent_bytes >= LEN as u64 - 5);
    }
}

#[tokio::test(start_paused = true)]
async fn a_dropped_file_is_flushed_before_the_client_ends() {
    let rig = rig().await;
    let file = (rig.client.open("/data/f", OpenOptions::create(0o644)).await).unwrap();
    file.write_at(0, Bytes::from_static(b"data")).await.unwrap();
    drop(file);
    rig.client.close().await.unwrap();
    assert_eq!(rig.server.0.lock().durable[&b"f"[..]].data, b"data");
}

#[tokio::test(start_paused = true)]
async fn an_exclusive_create_makes_one_file_and_sets_its_mode() {
    let rig = rig().await;
    let options = OpenOptions {
        exclusive: true,
        ..OpenOptions::create(0o600)
    };
    rig.client.open("/data/f", options).await.unwrap();
    assert_eq!(rig.server.0.lock().files[&b"f"[..]].mode, 0o600);
    let again = rig.client.open("/data/f", options).await.unwrap_err();
    assert_eq!(again.status(), Some(NfsStatus::Exist));
    rig.client
        .open("/data/f", OpenOptions::create(0o644))
        .await
        .unwrap();
    let missing = rig.client.open("/data/g", OpenOptions::read()).await;
    assert!(missing.unwrap_err().is_not_found());
}

#[tokio::test(start_paused = true)]
async fn a_directory_is_listed_whatever_the_server_tells() {
    for (has_no_readdirplus, tells_no_attributes) in
        [(false, false), (true, false), (false, true), (true, true)]
    {
        let rig = rig().await;
        {
            let mut state = rig.server.0.lock();
            state.has_no_readdirplus = has_no_readdirplus;
            state.tells_no_attributes = tells_no_attributes;
        }
        for name in ["a", "bb", "c"] {
            let path = format!("/data/{name}");
            let options = OpenOptions::create(0o644);
            rig.client.open(path, options).await.unwrap();
        }
        let dir = rig.client.read_dir("/data").await.unwrap().with_handles();
        let all = dir.rest().await.unwrap();
        let names: Vec<_> = all.iter().map(|e| e.name.as_slice()).collect();
        assert_eq!(names, [&b"a"[..], b"bb", b"c"]);
        assert!(all.iter().all(|e| e.metadata.is_file()));
        let second = rig.client.lookup("/data/bb").await.unwrap();
        assert_eq!(all[1].fh, Some(second.fh));
    }
}

#[tokio::test(start_paused = true)]
async fn an_export_that_is_not_listed_is_found_by_the_beginnings_of_the_path() {
    let rig = rig().await;
    rig.server.0.lock().lists_no_exports = true;
    let outside = rig.client.lookup("/other/f").await.unwrap_err();
    let sentence = outside.to_string();
    assert_eq!(
        sentence,
        "the server exports nothing that it lists by NFSv3"
    );
    let options = OpenOptions::create(0o644);
    rig.client.open("/data/f", options).await.unwrap();
    assert!(rig.client.lookup("/data").await.unwrap().metadata.is_dir());
    assert!(rig.client.statfs().await.is_ok());
}

#[tokio::test(start_paused = true)]
async fn what_nfsv3_cannot_do_is_said() {
    let rig = rig().await;
    let file = (rig.client.open("/data/f", OpenOptions::create(0o644)).await).unwrap();
    let locked = file.lock(LockKind::Shared, 0..1).await.unwrap_err();
    let told = rig.client.xattr("/data/f", b"x").await.unwrap_err();
    let copied = file.copy_from(0, &file, 0, 1).await.unwrap_err();
    for e in [locked, told, copied] {
        assert!(matches!(e, Error::NotInV3(_)), "{e}");
    }
    let outside = rig.client.lookup("/other").await.unwrap_err();
    let sentence = outside.to_string();
    assert_eq!(sentence, "the server exports /data by NFSv3");
}
