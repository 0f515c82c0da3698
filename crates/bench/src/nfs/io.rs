//! READ and WRITE of files that the server's page cache holds: of a data server of ours, or of nfs-ganesha.
//!
//! Two forms of client: blocking sockets, as the bare servers have them, and `session-client`, whose share of the machine
//! shows beside it. Both ask for the same ranges in the same order as the clients of the bare servers. A session stands on each connection.

use crate::bare::{Range, Walk};
use crate::load::{self, Load, Requester};
use crate::nfs::Form;
use crate::nfs::client::{FileMap, OpenFile, Owner, Peer, at_ds, unchecked};
use crate::nfs::host::{Host, Running};
use crate::nfs::server::Server;
use crate::nfs::wire::WireSession;
use crate::pattern::{self, mix};
use crate::{BenchError, Sample, Subject};
use bytes::Bytes;
use nfs4::ops::{
    EXCHGID_USE_PNFS_DS, PutFhArgs, PutFhRes, ReadArgs, ReadRes, WriteArgsPayload, WriteRes,
};
use nfs4::{CompoundBuilder, CompoundReply, FileHandle, OpError, StableHow, Stateid};
use serde_json::{Value, json};
use tokio::runtime::Runtime;
use xdr::Opaque;

/// Bytes of each WRITE that fills a file.
const FILL_BYTES: u64 = 512 * 1024;
/// Slots of the session to the metadata server.
const MDS_SLOTS: u32 = 4;
/// What is written is this far on in the pattern from where it goes to, so that it differs from what is there.
const WRITTEN_SHIFT: u64 = 1 << 40;

/// What one request does.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Access {
    /// READ.
    Read,
    /// WRITE, UNSTABLE4.
    Write,
    /// WRITE, FILE_SYNC4.
    StableWrite,
}

impl Access {
    /// How stable its WRITEs are; `None` of READ.
    const fn stable(self) -> Option<StableHow> {
        match self {
            Self::Read => None,
            Self::Write => Some(StableHow::Unstable),
            Self::StableWrite => Some(StableHow::FileSync),
        }
    }
}

/// Where the next range is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Order {
    /// Behind the ones that all connections have asked for.
    Walk,
    /// Anywhere, at a multiple of the payload.
    Random,
}

/// READs or WRITEs as a subject.
#[derive(Debug, Clone)]
pub struct FileIo {
    /// The server; of a cluster the number of data servers is taken as one.
    pub host: Host,
    /// The client.
    pub form: Form,
    /// What is done.
    pub access: Access,
    /// Where.
    pub order: Order,
    /// Whether each connection has a file of its own.
    pub own_files: bool,
    /// The size of a file.
    pub file_bytes: u64,
    /// Bytes of each request.
    pub io_bytes: u32,
    /// Whether the files of a cluster are to be inline: the metadata server then serves them.
    pub is_inline: bool,
}

/// What a connection reads or writes.
#[derive(Debug, Clone)]
struct Target {
    server: Server,
    role_flag: u32,
    handle: FileHandle,
    stateid: Stateid,
}

impl FileIo {
    fn host(&self) -> Host {
        match &self.host {
            Host::Ropewalk(cluster) => Host::Ropewalk(cluster.with_ds_count(1)),
            other @ Host::Ganesha(_) => other.clone(),
        }
    }

    /// The ranges of one connection.
    fn places(&self, index: usize, count: usize) -> Result<Places, BenchError> {
        // A task that has a file alone walks through all of it.
        let (at, of) = if self.own_files {
            (0, 1)
        } else {
            (index, count)
        };
        let walk = Walk::new(self.file_bytes, self.io_bytes, at, of)?;
        Ok(Places {
            order: self.order,
            walk,
            number: (index as u64) << 32,
            places_count: self.file_bytes / u64::from(self.io_bytes),
            len: self.io_bytes,
        })
    }

    fn connect(
        &self,
        target: &Target,
        owner: &Owner,
        places: Places,
    ) -> Result<Box<dyn Requester>, BenchError> {
        let first = places.clone().next();
        let mut link: Box<dyn Link> = match self.form {
            Form::Wire => Box::new(Wire::connect(target, owner)?),
            Form::Session => Box::new(Tasks::connect(target, owner)?),
        };
        // The first bytes are looked at; comparing the measured ones would cost more than serving them.
        link.read(first, Some(first.offset))?;
        let mut data = Bytes::new();
        if let Some(stable) = self.access.stable() {
            let mut written = vec![0; self.io_bytes as usize];
            pattern::fill(first.offset + WRITTEN_SHIFT, &mut written);
            data = written.into();
            link.write(first, &data, stable)?;
            link.read(first, Some(first.offset + WRITTEN_SHIFT))?;
        }
        Ok(Box::new(Walker {
            link,
            places,
            access: self.access,
            data,
        }))
    }
}

impl Subject for FileIo {
    fn name(&self) -> String {
        match (&self.host, self.form) {
            (Host::Ropewalk(_), Form::Wire) if self.is_inline => "ropewalk mds".to_owned(),
            (Host::Ropewalk(_), Form::Wire) => "ropewalk ds".to_owned(),
            (Host::Ropewalk(cluster), Form::Session) => {
                format!("ropewalk ds, {}, session-client", cluster.carrier().name())
            }
            (Host::Ganesha(_), _) => self.host.name(),
        }
    }

    fn settings(&self) -> Value {
        json!({
            "io_bytes": self.io_bytes,
            "file_bytes": self.file_bytes,
            "own_files": self.own_files,
            "is_inline": self.is_inline,
            "access": format!("{:?}", self.access),
            "order": format!("{:?}", self.order),
            "server": self.host().settings(),
        })
    }

    fn run(&mut self, load: &Load) -> Result<Sample, BenchError> {
        let running = self.host().start()?;
        let owner = Owner::new();
        let runtime = load::runtime()?;
        let count = load.connections_count;
        let files_count = if self.own_files { count } else { 1 };
        // The session to the metadata server lives as long as its layouts are used.
        let prepared = self.prepare(&running, &owner, files_count);
        let (_mds, targets) = runtime.block_on(prepared)?;
        let connect = |index: usize| {
            let places = self.places(index, count)?;
            self.connect(&targets[index % files_count], &owner, places)
        };
        load::drive(load, connect, &|| running.cpu())
    }
}

impl FileIo {
    /// Makes files and fills them with the pattern, which leaves them in the server's cache.
    async fn prepare(
        &self,
        running: &Running,
        owner: &Owner,
        files_count: usize,
    ) -> Result<(Peer, Vec<Target>), BenchError> {
        let mds = Peer::mds(running.server(), owner, MDS_SLOTS).await?;
        let root = mds.root().await?;
        let mut targets = Vec::new();
        for number in 0..files_count {
            let name = format!("pattern{number}");
            let opener = name.as_bytes();
            let file = mds.create_as(&root, &name, opener, unchecked()).await?;
            let at_one_server = self.is_inline || matches!(running, Running::Ganesha(..));
            targets.push(if at_one_server {
                fill(&mds, &file.handle, file.stateid, self.file_bytes).await?;
                Target {
                    server: running.server().clone(),
                    role_flag: 0,
                    handle: file.handle,
                    stateid: file.stateid,
                }
            } else {
                let map = mds.map(&file, None).await?;
                fill_ds(&mds, &file, &map, owner, self.file_bytes).await?;
                Target {
                    server: map.servers[0].clone(),
                    role_flag: EXCHGID_USE_PNFS_DS,
                    handle: map.handles[0].clone(),
                    stateid: at_ds(file.stateid),
                }
            });
        }
        Ok((mds, targets))
    }
}

async fn fill(
    peer: &Peer,
    handle: &FileHandle,
    stateid: Stateid,
    file_bytes: u64,
) -> Result<(), BenchError> {
    let mut offset = 0;
    while offset < file_bytes {
        let len = FILL_BYTES.min(file_bytes - offset);
        let mut data = vec![0; usize::try_from(len).expect("at most FILL_BYTES")];
        pattern::fill(offset, &mut data);
        let data = Bytes::from(data);
        peer.write(handle, stateid, offset, data, StableHow::Unstable)
            .await?;
        offset += len;
    }
    Ok(())
}

async fn fill_ds(
    mds: &Peer,
    file: &OpenFile,
    map: &FileMap,
    owner: &Owner,
    file_bytes: u64,
) -> Result<(), BenchError> {
    let ds = Peer::ds(&map.servers[0], owner, 1).await?;
    fill(&ds, &map.handles[0], at_ds(file.stateid), file_bytes).await?;
    mds.commit(file, map, file_bytes).await?;
    // A client has only so many sessions: the connections that are measured need theirs.
    ds.end().await
}

/// The ranges of one connection, one after another.
#[derive(Debug, Clone)]
struct Places {
    order: Order,
    walk: Walk,
    number: u64,
    places_count: u64,
    len: u32,
}

impl Places {
    fn next(&mut self) -> Range {
        match self.order {
            Order::Walk => self.walk.next(),
            Order::Random => {
                self.number += 1;
                Range {
                    offset: mix(self.number) % self.places_count * u64::from(self.len),
                    len: self.len,
                }
            }
        }
    }
}

trait Link: Send {
    /// Reads a range, and compares it with the pattern from there on.
    fn read(&mut self, range: Range, pattern_at: Option<u64>) -> Result<(), BenchError>;

    /// Writes a range.
    fn write(&mut self, range: Range, data: &Bytes, stable: StableHow) -> Result<(), BenchError>;
}

struct Walker {
    link: Box<dyn Link>,
    places: Places,
    access: Access,
    data: Bytes,
}

impl Requester for Walker {
    fn request(&mut self) -> Result<u64, BenchError> {
        let range = self.places.next();
        match self.access.stable() {
            None => self.link.read(range, None)?,
            Some(stable) => self.link.write(range, &self.data, stable)?,
        }
        Ok(u64::from(range.len))
    }
}

fn push_file(b: &mut CompoundBuilder, target: &Target) {
    b.push(&PutFhArgs {
        object: Opaque(&target.handle.0),
    });
}

fn push_read(b: &mut CompoundBuilder, target: &Target, range: Range) {
    push_file(b, target);
    b.push(&ReadArgs {
        stateid: target.stateid,
        offset: range.offset,
        count: range.len,
    });
}

fn push_write(b: &mut CompoundBuilder, target: &Target, range: Range, stable: StableHow) {
    push_file(b, target);
    b.push(&WriteArgsPayload {
        stateid: target.stateid,
        offset: range.offset,
        stable,
        len: range.len,
    });
}

/// The reply must have all bytes of the range.
fn check_read(
    reply: &mut CompoundReply<'_>,
    range: Range,
    pattern_at: Option<u64>,
) -> Result<(), BenchError> {
    let data = || {
        reply.take::<PutFhRes>()?;
        reply.take::<ReadRes<'_>>()
    };
    let data = { data }()
        .map_err(BenchError::nfs::<OpError>("read"))?
        .data
        .0;
    if data.len() != range.len as usize {
        return Err(BenchError::nfs("read")("fewer bytes than asked for"));
    }
    pattern_at.map_or(Ok(()), |at| pattern::check(at, data))
}

fn check_written(
    reply: &mut CompoundReply<'_>,
    range: Range,
    stable: StableHow,
) -> Result<(), BenchError> {
    let written = || {
        reply.take::<PutFhRes>()?;
        reply.take::<WriteRes>()
    };
    let written = { written }().map_err(BenchError::nfs::<OpError>("write"))?;
    if written.count != range.len || written.committed < stable {
        return Err(BenchError::nfs("write")("less was written than asked"));
    }
    Ok(())
}

struct Wire {
    session: WireSession,
    target: Target,
}

impl Wire {
    fn connect(target: &Target, owner: &Owner) -> Result<Self, BenchError> {
        Ok(Self {
            session: WireSession::connect(target.server.socket()?, owner, target.role_flag)?,
            target: target.clone(),
        })
    }
}

impl Link for Wire {
    fn read(&mut self, range: Range, pattern_at: Option<u64>) -> Result<(), BenchError> {
        let Self { session, target } = self;
        let mut reply = session.compound(|b| push_read(b, target, range))?;
        check_read(&mut reply, range, pattern_at)
    }

    fn write(&mut self, range: Range, data: &Bytes, stable: StableHow) -> Result<(), BenchError> {
        let Self { session, target } = self;
        let mut reply = session.compound_with(|b| push_write(b, target, range, stable), data)?;
        check_written(&mut reply, range, stable)
    }
}

struct Tasks {
    // The session's connection lives on the runtime, so it goes first.
    peer: Peer,
    runtime: Runtime,
    target: Target,
}

impl Tasks {
    fn connect(target: &Target, owner: &Owner) -> Result<Self, BenchError> {
        let runtime = load::runtime()?;
        let made = Peer::connect(&target.server, owner, 1, target.role_flag);
        let peer = runtime.block_on(made)?;
        Ok(Self {
            peer,
            runtime,
            target: target.clone(),
        })
    }
}

impl Link for Tasks {
    fn read(&mut self, range: Range, pattern_at: Option<u64>) -> Result<(), BenchError> {
        let sent = self.peer.run(|b| push_read(b, &self.target, range));
        let done = self.runtime.block_on(sent)?;
        let mut reply = done.results().map_err(BenchError::nfs("read"))?;
        check_read(&mut reply, range, pattern_at)
    }

    fn write(&mut self, range: Range, data: &Bytes, stable: StableHow) -> Result<(), BenchError> {
        let Target {
            handle, stateid, ..
        } = &self.target;
        let sent = self
            .peer
            .write(handle, *stateid, range.offset, data.clone(), stable);
        self.runtime.block_on(sent)
    }
}

#[cfg(test)]
mod tests {
    //! Where connections go.
    use super::*;
    use crate::nfs::cluster::ClusterOptions;

    fn io(order: Order, own_files: bool) -> FileIo {
        FileIo {
            host: Host::Ropewalk(ClusterOptions::new("ropewalk".into(), "/tmp".into())),
            form: Form::Wire,
            access: Access::Read,
            order,
            own_files,
            file_bytes: 100,
            io_bytes: 10,
            is_inline: false,
        }
    }

    #[test]
    fn ranges_lie_in_the_file() {
        for order in [Order::Walk, Order::Random] {
            for own_files in [false, true] {
                let mut places = io(order, own_files).places(3, 4).unwrap();
                let offsets: Vec<u64> = (0..100).map(|_| places.next().offset).collect();
                assert!(offsets.iter().all(|at| at % 10 == 0 && *at < 100));
                let mut seen = offsets.clone();
                seen.sort_unstable();
                seen.dedup();
                assert!(seen.len() > 4, "{order:?} {own_files}: {seen:?}");
            }
        }
    }

    #[test]
    fn connections_with_a_file_of_their_own_begin_at_its_start() {
        let first = |own_files| io(Order::Walk, own_files).places(3, 4).unwrap().next();
        assert_eq!(first(true).offset, 0);
        assert_eq!(first(false).offset, 30);
    }
}
