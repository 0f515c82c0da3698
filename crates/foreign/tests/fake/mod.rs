//! A small NFSv3 server in memory: one directory below its root, with files that have owners and modes.

#![allow(unreachable_pub, reason = "a module of tests")]
#![allow(clippy::unwrap_used, reason = "a test fails by it")]

use bytes::Bytes;
use nfs3::procs::*;
use nfs3::*;
use nfs3_client::Fh;
use parking_lot::Mutex;
use rpc::{AuthSys, CallHeader, Credential};
use rpc_service::Seal;
use std::collections::BTreeMap;
use transport::{ConnHandle, Message, Service};
use xdr::{Decode, Decoder, Encode, Encoder, Opaque, OpaqueBuf, decode_all};

pub const FREE_BYTES: u64 = 7 << 30;

/// What the server does wrong.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fault {
    SquashesRoot,
    KeepsOwners,
    ChecksDirectories,
    GroupsAreNothing,
    ModesAreNothing,
    RemembersOwners,
    VerifierMoves,
    LosesData,
    SmallRequests,
}

#[derive(Debug, Clone, Default)]
struct Object {
    name: Vec<u8>,
    is_dir: bool,
    mode: u32,
    uid: u32,
    gid: u32,
    /// Its owner before the last change of owner.
    uid_before: u32,
    data: Vec<u8>,
}

#[derive(Default)]
struct Objects {
    objects: BTreeMap<u64, Object>,
    last_id: u64,
    writes: u64,
}

pub struct Fake {
    fault: Option<Fault>,
    state: Mutex<Objects>,
}

const ROOT: u64 = 0;

fn handle(id: u64) -> [u8; 8] {
    id.to_be_bytes()
}

fn id_of(fh: Handle<'_>) -> u64 {
    u64::from_be_bytes(fh.0.try_into().unwrap())
}

impl Fake {
    pub fn new(fault: Option<Fault>) -> Self {
        Self {
            fault,
            state: Mutex::default(),
        }
    }

    pub fn root() -> Fh {
        OpaqueBuf(handle(ROOT).to_vec())
    }

    /// Whether nothing is below the root.
    pub fn is_empty(&self) -> bool {
        self.state.lock().objects.is_empty()
    }

    fn has(&self, fault: Fault) -> bool {
        self.fault == Some(fault)
    }

    fn attributes(&self, id: u64) -> Fattr3 {
        let state = self.state.lock();
        let object = state.objects.get(&id).cloned().unwrap_or_default();
        Fattr3 {
            file_type: match object.is_dir {
                true => FileType3::Dir,
                false => FileType3::Reg,
            },
            mode: object.mode,
            nlink: 1,
            uid: object.uid,
            gid: object.gid,
            size: object.data.len() as u64,
            used: 0,
            rdev: SpecData3::default(),
            fsid: 1,
            fileid: id,
            atime: NfsTime3::default(),
            mtime: NfsTime3::default(),
            ctime: NfsTime3::default(),
        }
    }

    fn make(&self, who: &AuthSys, place: DirOpArgs<'_>, is_dir: bool, mode: u32) -> u64 {
        let mut state = self.state.lock();
        state.last_id += 1;
        let id = state.last_id;
        let uid = match (self.has(Fault::SquashesRoot), who.uid) {
            (true, 0) => 65_534,
            (_, uid) => uid,
        };
        let object = Object {
            name: place.name.0.to_vec(),
            is_dir,
            mode,
            uid,
            gid: who.gid,
            uid_before: uid,
            data: Vec::new(),
        };
        state.objects.insert(id, object);
        id
    }

    /// Whether the caller may do what the bits of one digit of the mode say: 4 to read, 2 to write.
    fn may(&self, who: &AuthSys, id: u64, bit: u32) -> bool {
        let state = self.state.lock();
        let object = &state.objects[&id];
        if who.uid == 0 && !self.has(Fault::SquashesRoot) {
            return true;
        }
        if self.has(Fault::ChecksDirectories) {
            return false;
        }
        let is_owner = who.uid == object.uid
            || self.has(Fault::RemembersOwners) && who.uid == object.uid_before;
        let is_group = who.gid == object.gid && !self.has(Fault::GroupsAreNothing);
        let digit = match (is_owner, is_group) {
            (true, _) => object.mode >> 6,
            (_, true) => object.mode >> 3,
            _ if self.has(Fault::ModesAreNothing) => 7,
            _ => object.mode,
        };
        digit & bit != 0
    }

    fn verifier(&self) -> [u8; 8] {
        match self.has(Fault::VerifierMoves) {
            true => self.state.lock().writes.to_be_bytes(),
            false => [7; 8],
        }
    }

    fn write(&self, who: &AuthSys, args: &WriteArgs<'_>) -> WriteRes {
        let id = id_of(args.file);
        if !self.may(who, id, 2) {
            return Res::Fail(Nfs3Status::Access, WccData::default());
        }
        let mut state = self.state.lock();
        state.writes += 1;
        let object = state.objects.get_mut(&id).unwrap();
        let begin = usize::try_from(args.offset).unwrap();
        let end = begin + args.data.0.len();
        if object.data.len() < end {
            object.data.resize(end, 0);
        }
        if !self.has(Fault::LosesData) {
            object.data[begin..end].copy_from_slice(args.data.0);
        }
        drop(state);
        Res::Ok(WriteOk {
            file_wcc: WccData::default(),
            count: args.count,
            committed: args.stable,
            verf: self.verifier(),
        })
    }

    fn set(&self, args: &SetAttrArgs<'_>) {
        let wanted = args.new_attributes;
        let mut state = self.state.lock();
        let object = state.objects.get_mut(&id_of(args.object)).unwrap();
        if !self.has(Fault::KeepsOwners) {
            object.uid_before = object.uid;
            object.uid = wanted.uid.unwrap_or(object.uid);
            object.gid = wanted.gid.unwrap_or(object.gid);
        }
        object.mode = wanted.mode.unwrap_or(object.mode);
        if let Some(size) = wanted.size {
            object.data.resize(usize::try_from(size).unwrap(), 0);
        }
    }

    fn read(&self, who: &AuthSys, args: &ReadArgs<'_>, e: &mut Encoder) {
        let id = id_of(args.file);
        if !self.may(who, id, 4) {
            let refused: Res<ReadOk<'_>, PostOpAttr> = Res::Fail(Nfs3Status::Access, None);
            return refused.encode(e);
        }
        let state = self.state.lock();
        let data = &state.objects[&id].data;
        let begin = usize::try_from(args.offset).unwrap().min(data.len());
        let end = (begin + args.count as usize).min(data.len());
        let got: Res<ReadOk<'_>, PostOpAttr> = Res::Ok(ReadOk {
            file_attributes: None,
            count: u32::try_from(end - begin).unwrap(),
            eof: end == data.len(),
            data: Opaque(&data[begin..end]),
        });
        got.encode(e);
    }

    fn remove(&self, place: DirOpArgs<'_>) -> Res<WccData, WccData> {
        let mut state = self.state.lock();
        let found = state.objects.iter().find(|(_, o)| o.name == place.name.0);
        match found.map(|(id, _)| *id) {
            Some(id) => {
                state.objects.remove(&id);
                Res::Ok(WccData::default())
            }
            None => Res::Fail(Nfs3Status::NoEnt, WccData::default()),
        }
    }

    fn made(id: u64, e: &mut Encoder) {
        let handle = handle(id);
        let made: Res<NewObject<'_>, WccData> = Res::Ok(NewObject {
            obj: Some(Opaque(&handle)),
            obj_attributes: None,
            dir_wcc: WccData::default(),
        });
        made.encode(e);
    }

    fn limits(&self) -> FsInfoOk {
        let io_bytes = match self.has(Fault::SmallRequests) {
            true => 8 << 10,
            false => 1 << 20,
        };
        FsInfoOk {
            obj_attributes: None,
            rtmax: io_bytes,
            rtpref: io_bytes,
            rtmult: 1,
            wtmax: io_bytes,
            wtpref: io_bytes,
            wtmult: 1,
            dtpref: 4096,
            maxfilesize: 1 << 40,
            time_delta: NfsTime3::default(),
            properties: 0,
        }
    }

    fn perform(&self, proc: Proc, who: &AuthSys, args: &[u8], e: &mut Encoder) {
        match proc {
            Proc::FsInfo => FsInfoRes::Ok(self.limits()).encode(e),
            Proc::FsStat => FsStatRes::Ok(FsStatOk {
                obj_attributes: None,
                tbytes: 2 * FREE_BYTES,
                fbytes: FREE_BYTES,
                abytes: FREE_BYTES,
                tfiles: 1,
                ffiles: 1,
                afiles: 1,
                invarsec: 0,
            })
            .encode(e),
            Proc::MkDir => {
                let args: MkDirArgs<'_> = decode_all(args).unwrap();
                let mode = args.attributes.mode.unwrap();
                Self::made(self.make(who, args.place, true, mode), e);
            }
            Proc::Create => {
                let args: CreateArgs<'_> = decode_all(args).unwrap();
                let CreateHow::Guarded(attributes) = args.how else {
                    panic!("the probe takes no file of others");
                };
                let mode = attributes.mode.unwrap();
                Self::made(self.make(who, args.place, false, mode), e);
            }
            Proc::GetAttr => {
                let args: GetAttrArgs<'_> = decode_all(args).unwrap();
                let obj_attributes = self.attributes(id_of(args.object));
                let got: Res<GetAttrOk, ()> = Res::Ok(GetAttrOk { obj_attributes });
                got.encode(e);
            }
            Proc::SetAttr => {
                self.set(&decode_all(args).unwrap());
                let set: Res<WccData, WccData> = Res::Ok(WccData::default());
                set.encode(e);
            }
            Proc::Write => self.write(who, &decode_all(args).unwrap()).encode(e),
            Proc::Read => self.read(who, &decode_all(args).unwrap(), e),
            Proc::Commit => CommitRes::Ok(CommitOk {
                file_wcc: WccData::default(),
                verf: self.verifier(),
            })
            .encode(e),
            Proc::Remove => {
                let args: RemoveArgs<'_> = decode_all(args).unwrap();
                self.remove(args.object).encode(e);
            }
            Proc::RmDir => {
                let args: RmDirArgs<'_> = decode_all(args).unwrap();
                self.remove(args.object).encode(e);
            }
            other => panic!("the probe needs no {other:?}"),
        }
    }
}

impl Service for Fake {
    async fn call(&self, _conn: &ConnHandle, record: Bytes) -> Option<Message> {
        let mut d = Decoder::new(&record);
        let header = CallHeader::decode(&mut d).unwrap();
        let Ok(Credential::Sys(who)) = Credential::parse(&header.credential) else {
            panic!("the probe says who it is");
        };
        let number = header.procedure.to_be_bytes();
        let proc = Proc::decode(&mut Decoder::new(&number)).unwrap();
        let mut e = Encoder::new();
        Seal::None.begin(&mut e, header.xid);
        self.perform(proc, &who, d.rest(), &mut e);
        Some(e.into())
    }
}
