//! A small NFSv3 server in memory: directories and files that have owners and modes. It does one thing wrong at a time, when it
//! is told to, and can forget its handles.

#![allow(unreachable_pub, reason = "a module of tests")]
#![allow(dead_code, reason = "each test program uses a part of it")]
#![allow(clippy::unwrap_used, reason = "a test fails by it")]

use bytes::Bytes;
use nfs3::procs::*;
use nfs3::*;
use nfs3_client::Fh;
use rpc::{AuthSys, CallHeader, Credential};
use rpc_service::Seal;
use std::collections::BTreeMap;
use std::time::Duration;
use tracing_mutex::parkinglot::Mutex;
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
    /// It answers after a while.
    Slow(Duration),
    NoSpace,
    /// READ and WRITE of at most so many bytes.
    Shorts(usize),
    ReadsTooMuch,
    ReadsNothing,
    ClaimsTooMuch,
    TakesNothing,
    LessStable,
    /// Handles of more bytes than there can be.
    LongHandles,
    /// CREATE and MKDIR tell neither handle nor attributes, LOOKUP no attributes.
    TellsLittle,
    FailsReads,
    FailsCommits,
    FailsSetAttr,
    Busy,
}

#[derive(Debug, Clone, Default)]
struct Object {
    parent: u64,
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
    /// How often it has forgotten its handles.
    era: u32,
    starts: u8,
    room: Option<(u64, u64)>,
    calls: BTreeMap<u32, u64>,
    /// The largest READ and WRITE that came.
    largest: (usize, usize),
}

pub struct Fake {
    fault: Mutex<Option<Fault>>,
    state: Mutex<Objects>,
}

const ROOT: u64 = 0;

/// All that is below the root.
pub struct Disk(BTreeMap<u64, Object>);

/// A file as a test sees it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Seen {
    pub fh: Fh,
    pub owner: (u32, u32, u32),
    pub data: Vec<u8>,
}

impl Fake {
    pub fn new(fault: Option<Fault>) -> Self {
        Self {
            fault: Mutex::new(fault),
            state: Mutex::default(),
        }
    }

    pub fn root() -> Fh {
        OpaqueBuf(vec![0; 12])
    }

    pub fn set_fault(&self, fault: Option<Fault>) {
        *self.fault.lock() = fault;
    }

    /// All handles but that of the root are stale from now on.
    pub fn forget_handles(&self) {
        self.state.lock().era += 1;
    }

    /// Another verifier, as after a restart.
    pub fn restart(&self) {
        self.state.lock().starts += 1;
    }

    /// Bytes in all, and free ones.
    pub fn set_room(&self, total: u64, free: u64) {
        self.state.lock().room = Some((total, free));
    }

    /// How often a procedure was called.
    pub fn calls(&self, proc: Proc) -> u64 {
        let calls = &self.state.lock().calls;
        calls.get(&(proc as u32)).copied().unwrap_or(0)
    }

    pub fn largest(&self) -> (usize, usize) {
        self.state.lock().largest
    }

    /// The directories, with their modes.
    pub fn dirs(&self) -> Vec<(String, u32)> {
        let state = self.state.lock();
        let dirs = state.objects.values().filter(|o| o.is_dir);
        let text = |o: &Object| (String::from_utf8(o.name.clone()).unwrap(), o.mode);
        dirs.map(text).collect()
    }

    /// Files by name.
    pub fn files(&self) -> BTreeMap<String, Seen> {
        let state = self.state.lock();
        let files = state.objects.iter().filter(|(_, o)| !o.is_dir);
        let seen = |(id, o): (&u64, &Object)| {
            let seen = Seen {
                fh: OpaqueBuf(handle(*id, state.era)),
                owner: (o.uid, o.gid, o.mode),
                data: o.data.clone(),
            };
            (String::from_utf8(o.name.clone()).unwrap(), seen)
        };
        files.map(seen).collect()
    }

    /// Removes all, as if another disk were there.
    pub fn wipe(&self) {
        drop(self.unmount());
    }

    /// Takes the disk away. An empty one is in its place.
    pub fn unmount(&self) -> Disk {
        Disk(std::mem::take(&mut self.state.lock().objects))
    }

    /// Another disk in the place of the one that is there, which is returned.
    pub fn mount(&self, disk: Disk) -> Disk {
        Disk(std::mem::replace(&mut self.state.lock().objects, disk.0))
    }

    /// Removes all files.
    pub fn lose_files(&self) {
        self.state.lock().objects.retain(|_, object| object.is_dir);
    }

    /// Removes one file.
    pub fn lose_file(&self, name: &str) {
        let mut state = self.state.lock();
        let is_it = |object: &Object| !object.is_dir && object.name == name.as_bytes();
        state.objects.retain(|_, object| !is_it(object));
    }

    /// A directory in the place of each file.
    pub fn turn_files_into_dirs(&self) {
        let mut state = self.state.lock();
        state.objects.values_mut().for_each(|o| o.is_dir = true);
    }

    fn handle(&self, id: u64) -> Vec<u8> {
        let mut bytes = handle(id, self.state.lock().era);
        if self.has(Fault::LongHandles) {
            bytes.resize(68, 0);
        }
        bytes
    }

    /// The object of a handle, if it is one.
    fn id_of(&self, fh: Handle<'_>) -> Option<u64> {
        let id = u64::from_be_bytes(fh.0.get(..8)?.try_into().unwrap());
        let state = self.state.lock();
        let is_there = fh.0 == handle(id, state.era) && state.objects.contains_key(&id);
        (fh.0 == Self::root().0 || is_there).then_some(id)
    }

    fn find(&self, dir: u64, name: &[u8]) -> Option<u64> {
        let state = self.state.lock();
        let mut objects = state.objects.iter();
        let found = objects.find(|(_, o)| o.parent == dir && o.name == name);
        found.map(|(id, _)| *id)
    }

    /// Whether nothing is below the root.
    pub fn is_empty(&self) -> bool {
        self.state.lock().objects.is_empty()
    }

    fn has(&self, fault: Fault) -> bool {
        *self.fault.lock() == Some(fault)
    }

    /// At most so many bytes are taken or told.
    fn shortest(&self) -> usize {
        match *self.fault.lock() {
            Some(Fault::Shorts(bytes)) => bytes,
            Some(Fault::TakesNothing | Fault::ReadsNothing) => 0,
            _ => usize::MAX,
        }
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
            used: object.data.len() as u64,
            rdev: SpecData3::default(),
            fsid: 1,
            fileid: id,
            atime: NfsTime3::default(),
            mtime: NfsTime3 {
                seconds: u32::try_from(state.writes).unwrap(),
                nanoseconds: 5,
            },
            ctime: NfsTime3::default(),
        }
    }

    fn make(&self, who: &AuthSys, dir: u64, name: &[u8], is_dir: bool, sattr: &Sattr3) -> u64 {
        let mut state = self.state.lock();
        state.last_id += 1;
        let id = state.last_id;
        let uid = match (self.has(Fault::SquashesRoot), who.uid) {
            (true, 0) => 65_534,
            (_, uid) => sattr.uid.unwrap_or(uid),
        };
        let object = Object {
            parent: dir,
            name: name.to_vec(),
            is_dir,
            mode: sattr.mode.unwrap(),
            uid,
            gid: sattr.gid.unwrap_or(who.gid),
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
        let state = self.state.lock();
        match self.has(Fault::VerifierMoves) {
            true => state.writes.to_be_bytes(),
            false => [7 + state.starts; 8],
        }
    }

    fn write(&self, who: &AuthSys, args: &WriteArgs<'_>) -> WriteRes {
        let Some(id) = self.id_of(args.file) else {
            return Res::Fail(Nfs3Status::Stale, WccData::default());
        };
        if self.has(Fault::NoSpace) {
            return Res::Fail(Nfs3Status::NoSpc, WccData::default());
        }
        if !self.may(who, id, 2) {
            return Res::Fail(Nfs3Status::Access, WccData::default());
        }
        let count = args.data.0.len().min(self.shortest());
        let mut state = self.state.lock();
        state.writes += 1;
        state.largest.1 = state.largest.1.max(args.data.0.len());
        let object = state.objects.get_mut(&id).unwrap();
        let begin = usize::try_from(args.offset).unwrap();
        let end = begin + count;
        if object.data.len() < end {
            object.data.resize(end, 0);
        }
        if !self.has(Fault::LosesData) {
            object.data[begin..end].copy_from_slice(&args.data.0[..count]);
        }
        drop(state);
        let count = u32::try_from(count).unwrap();
        Res::Ok(WriteOk {
            file_wcc: WccData::default(),
            count: count + u32::from(self.has(Fault::ClaimsTooMuch)),
            committed: match self.has(Fault::LessStable) {
                true => StableHow::Unstable,
                false => args.stable,
            },
            verf: self.verifier(),
        })
    }

    fn set(&self, args: &SetAttrArgs<'_>) -> Res<WccData, WccData> {
        let Some(id) = self.id_of(args.object) else {
            return Res::Fail(Nfs3Status::Stale, WccData::default());
        };
        if self.has(Fault::FailsSetAttr) {
            return Res::Fail(Nfs3Status::Io, WccData::default());
        }
        let wanted = args.new_attributes;
        let mut state = self.state.lock();
        let object = state.objects.get_mut(&id).unwrap();
        if !self.has(Fault::KeepsOwners) {
            object.uid_before = object.uid;
            object.uid = wanted.uid.unwrap_or(object.uid);
            object.gid = wanted.gid.unwrap_or(object.gid);
        }
        object.mode = wanted.mode.unwrap_or(object.mode);
        if let Some(size) = wanted.size {
            object.data.resize(usize::try_from(size).unwrap(), 0);
        }
        drop(state);
        Res::Ok(WccData {
            before: None,
            after: Some(self.attributes(id)),
        })
    }

    fn read(&self, who: &AuthSys, args: &ReadArgs<'_>, e: &mut Encoder) {
        let refused = |status, e: &mut Encoder| {
            let refused: Res<ReadOk<'_>, PostOpAttr> = Res::Fail(status, None);
            refused.encode(e);
        };
        let Some(id) = self.id_of(args.file) else {
            return refused(Nfs3Status::Stale, e);
        };
        if self.has(Fault::FailsReads) {
            return refused(Nfs3Status::Io, e);
        }
        if !self.may(who, id, 4) {
            return refused(Nfs3Status::Access, e);
        }
        let asked = (args.count as usize).min(self.shortest());
        let mut state = self.state.lock();
        state.largest.0 = state.largest.0.max(args.count as usize);
        let data = &state.objects[&id].data;
        let begin = usize::try_from(args.offset).unwrap().min(data.len());
        let end = (begin + asked).min(data.len());
        let mut told = data[begin..end].to_vec();
        if self.has(Fault::ReadsTooMuch) {
            told.resize(args.count as usize + 1, 9);
        }
        let got: Res<ReadOk<'_>, PostOpAttr> = Res::Ok(ReadOk {
            file_attributes: None,
            count: u32::try_from(told.len()).unwrap(),
            eof: end == data.len(),
            data: Opaque(&told),
        });
        got.encode(e);
    }

    fn remove(&self, place: DirOpArgs<'_>) -> Res<WccData, WccData> {
        let Some(dir) = self.id_of(place.dir) else {
            return Res::Fail(Nfs3Status::Stale, WccData::default());
        };
        match self.find(dir, place.name.0) {
            Some(id) => {
                self.state.lock().objects.remove(&id);
                Res::Ok(WccData::default())
            }
            None => Res::Fail(Nfs3Status::NoEnt, WccData::default()),
        }
    }

    fn lookup(&self, args: &LookupArgs<'_>, e: &mut Encoder) {
        let refused = |status, e: &mut Encoder| {
            let refused: LookupRes<'_> = Res::Fail(status, None);
            refused.encode(e);
        };
        let Some(dir) = self.id_of(args.what.dir) else {
            return refused(Nfs3Status::Stale, e);
        };
        let Some(id) = self.find(dir, args.what.name.0) else {
            return refused(Nfs3Status::NoEnt, e);
        };
        let tells = !self.has(Fault::TellsLittle);
        Nfs3Status::Ok.encode(e);
        opaque(&self.handle(id), e);
        tells.then(|| self.attributes(id)).encode(e);
        None::<Fattr3>.encode(e);
    }

    fn create(
        &self,
        who: &AuthSys,
        place: DirOpArgs<'_>,
        is_dir: bool,
        (sattr, may_exist): (Sattr3, bool),
        e: &mut Encoder,
    ) {
        let refused = |status, e: &mut Encoder| {
            let refused: CreateRes<'_> = Res::Fail(status, WccData::default());
            refused.encode(e);
        };
        let Some(dir) = self.id_of(place.dir) else {
            return refused(Nfs3Status::Stale, e);
        };
        let id = match self.find(dir, place.name.0) {
            Some(_) if !may_exist => return refused(Nfs3Status::Exist, e),
            Some(id) => id,
            None => self.make(who, dir, place.name.0, is_dir, &sattr),
        };
        Nfs3Status::Ok.encode(e);
        let tells = !self.has(Fault::TellsLittle);
        tells.encode(e);
        if tells {
            opaque(&self.handle(id), e);
        }
        tells.then(|| self.attributes(id)).encode(e);
        WccData::default().encode(e);
    }

    fn room(&self) -> FsStatOk {
        let (tbytes, abytes) = self
            .state
            .lock()
            .room
            .unwrap_or((2 * FREE_BYTES, FREE_BYTES));
        FsStatOk {
            obj_attributes: None,
            tbytes,
            fbytes: abytes,
            abytes,
            tfiles: 1,
            ffiles: 1,
            afiles: 1,
            invarsec: 0,
        }
    }

    fn commit(&self, args: &CommitArgs<'_>) -> CommitRes {
        let status = match self.id_of(args.file) {
            None => Nfs3Status::Stale,
            Some(_) if self.has(Fault::FailsCommits) => Nfs3Status::Io,
            Some(_) => {
                return Res::Ok(CommitOk {
                    file_wcc: WccData::default(),
                    verf: self.verifier(),
                });
            }
        };
        Res::Fail(status, WccData::default())
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
            Proc::FsStat => FsStatRes::Ok(self.room()).encode(e),
            Proc::Lookup => self.lookup(&decode_all(args).unwrap(), e),
            Proc::MkDir => {
                let args: MkDirArgs<'_> = decode_all(args).unwrap();
                self.create(who, args.place, true, (args.attributes, false), e);
            }
            Proc::Create => {
                let args: CreateArgs<'_> = decode_all(args).unwrap();
                let how = match args.how {
                    CreateHow::Guarded(attributes) => (attributes, false),
                    CreateHow::Unchecked(attributes) => (attributes, true),
                    CreateHow::Exclusive(_) => panic!("nobody makes files by a verifier"),
                };
                self.create(who, args.place, false, how, e);
            }
            Proc::GetAttr => {
                let args: GetAttrArgs<'_> = decode_all(args).unwrap();
                let got: Res<GetAttrOk, ()> = match self.id_of(args.object) {
                    Some(id) => Res::Ok(GetAttrOk {
                        obj_attributes: self.attributes(id),
                    }),
                    None => Res::Fail(Nfs3Status::Stale, ()),
                };
                got.encode(e);
            }
            Proc::SetAttr => self.set(&decode_all(args).unwrap()).encode(e),
            Proc::Write => self.write(who, &decode_all(args).unwrap()).encode(e),
            Proc::Read => self.read(who, &decode_all(args).unwrap(), e),
            Proc::Commit => self.commit(&decode_all(args).unwrap()).encode(e),
            Proc::Remove => {
                let args: RemoveArgs<'_> = decode_all(args).unwrap();
                self.remove(args.object).encode(e);
            }
            Proc::RmDir => {
                let args: RmDirArgs<'_> = decode_all(args).unwrap();
                self.remove(args.object).encode(e);
            }
            other => panic!("nobody needs {other:?}"),
        }
    }
}

impl Service for Fake {
    async fn call(&self, _conn: &ConnHandle, record: Bytes) -> Option<Message> {
        let mut d = Decoder::new(&record);
        let header = CallHeader::decode(&mut d).unwrap();
        let Ok(Credential::Sys(who)) = Credential::parse(&header.credential) else {
            panic!("a call says who it is from");
        };
        let number = header.procedure.to_be_bytes();
        let proc = Proc::decode(&mut Decoder::new(&number)).unwrap();
        *self.state.lock().calls.entry(proc as u32).or_default() += 1;
        let fault = *self.fault.lock();
        if let Some(Fault::Slow(pause)) = fault {
            tokio::time::sleep(pause).await;
        }
        let mut e = Encoder::new();
        Seal::None.begin(&mut e, header.xid);
        match fault == Some(Fault::Busy) && proc == Proc::Write {
            true => WriteRes::Fail(Nfs3Status::Jukebox, WccData::default()).encode(&mut e),
            false => self.perform(proc, &who, d.rest(), &mut e),
        }
        Some(e.into())
    }
}

fn handle(id: u64, era: u32) -> Vec<u8> {
    [&id.to_be_bytes()[..], &era.to_be_bytes()].concat()
}

/// Also of more bytes than the protocol takes.
fn opaque(bytes: &[u8], e: &mut Encoder) {
    u32::try_from(bytes.len()).unwrap().encode(e);
    for word in bytes.chunks(4) {
        u32::from_be_bytes(word.try_into().unwrap()).encode(e);
    }
}
