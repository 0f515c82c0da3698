//! READ from a data server: a cluster with one data server, a file that its page cache holds, one session per connection.
//!
//! Two forms of client: blocking sockets, as the bare sendfile server has them, and `session-client`, whose share of the machine
//! shows beside it. Both read the same ranges in the same order as the client of the bare server.

use crate::bare::{Range, Walk};
use crate::load::{self, Load, Requester};
use crate::nfs::Form;
use crate::nfs::client::{FileMap, OpenFile, Owner, Peer, at_ds};
use crate::nfs::cluster::{Cluster, ClusterOptions};
use crate::nfs::server::Server;
use crate::nfs::wire::WireSession;
use crate::{BenchError, Sample, Subject, pattern};
use bytes::Bytes;
use nfs4::ops::{EXCHGID_USE_PNFS_DS, PutFhArgs, PutFhRes, ReadArgs, ReadRes};
use nfs4::{CompoundBuilder, CompoundReply, FileHandle, OpError, StableHow, Stateid};
use serde_json::{Value, json};
use tokio::runtime::Runtime;
use xdr::Opaque;

/// Bytes of each WRITE that fills the file.
const FILL_BYTES: u64 = 512 * 1024;
/// Slots of the session to the metadata server.
const MDS_SLOTS: u32 = 4;

/// READs as a subject.
#[derive(Debug, Clone)]
pub struct Reads {
    /// The cluster; its number of data servers is taken as one.
    pub cluster: ClusterOptions,
    /// The client.
    pub form: Form,
    /// The file's size.
    pub size_bytes: u64,
    /// Bytes of each READ.
    pub read_bytes: u32,
}

/// What all connections read.
#[derive(Debug, Clone)]
struct Target {
    server: Server,
    handle: FileHandle,
    stateid: Stateid,
}

impl Subject for Reads {
    fn name(&self) -> String {
        match self.form {
            Form::Wire => "ropewalk ds".to_owned(),
            Form::Session => format!("ropewalk ds, {}, session-client", self.cluster.carrier()),
        }
    }

    fn settings(&self) -> Value {
        json!({
            "read_bytes": self.read_bytes,
            "file_bytes": self.size_bytes,
            "cluster": self.cluster.with_ds_count(1).settings(),
        })
    }

    fn run(&mut self, load: &Load) -> Result<Sample, BenchError> {
        let cluster = Cluster::start(&self.cluster.with_ds_count(1))?;
        let owner = Owner::new();
        let runtime = load::runtime()?;
        // The session to the metadata server lives as long as the layout is used.
        let (_mds, target) = runtime.block_on(prepare(&cluster, &owner, self.size_bytes))?;
        let count = load.connections_count;
        let connect = |index| {
            let walk = Walk::new(self.size_bytes, self.read_bytes, index, count)?;
            let mut reader: Box<dyn Read> = match self.form {
                Form::Wire => Box::new(Wire::connect(&target, &owner)?),
                Form::Session => Box::new(Tasks::connect(&target, &owner)?),
            };
            // The first read is looked at; comparing the measured ones would cost more than serving them.
            reader.read(walk.clone().next(), true)?;
            Ok(Box::new(Walker { reader, walk }) as Box<dyn Requester>)
        };
        load::drive(load, connect, &|| cluster.cpu())
    }
}

/// Makes the file and fills it with the pattern, which leaves it in the data server's page cache.
async fn prepare(
    cluster: &Cluster,
    owner: &Owner,
    size_bytes: u64,
) -> Result<(Peer, Target), BenchError> {
    let mds = Peer::mds(cluster.server(), owner, MDS_SLOTS).await?;
    let root = mds.root().await?;
    let file = mds.create(&root, "pattern", b"reader").await?;
    let map = mds.map(&file, None).await?;
    fill(&mds, &file, &map, owner, size_bytes).await?;
    let target = Target {
        server: map.servers[0].clone(),
        handle: map.handle,
        stateid: at_ds(file.stateid),
    };
    Ok((mds, target))
}

async fn fill(
    mds: &Peer,
    file: &OpenFile,
    map: &FileMap,
    owner: &Owner,
    size_bytes: u64,
) -> Result<(), BenchError> {
    let ds = Peer::ds(&map.servers[0], owner, 1).await?;
    let mut offset = 0;
    while offset < size_bytes {
        let len = FILL_BYTES.min(size_bytes - offset);
        let mut data = vec![0; usize::try_from(len).expect("at most FILL_BYTES")];
        pattern::fill(offset, &mut data);
        let data = Bytes::from(data);
        ds.write(
            &map.handle,
            at_ds(file.stateid),
            offset,
            data,
            StableHow::Unstable,
        )
        .await?;
        offset += len;
    }
    mds.commit(file, map, size_bytes).await?;
    // A client has only so many sessions: the connections that are measured need theirs.
    ds.end().await
}

trait Read: Send {
    /// Reads a range, and compares it when `checked`.
    fn read(&mut self, range: Range, checked: bool) -> Result<(), BenchError>;
}

struct Walker {
    reader: Box<dyn Read>,
    walk: Walk,
}

impl Requester for Walker {
    fn request(&mut self) -> Result<u64, BenchError> {
        let range = self.walk.next();
        self.reader.read(range, false)?;
        Ok(u64::from(range.len))
    }
}

fn push(b: &mut CompoundBuilder, target: &Target, range: Range) {
    b.push(&PutFhArgs {
        object: Opaque(&target.handle.0),
    });
    b.push(&ReadArgs {
        stateid: target.stateid,
        offset: range.offset,
        count: range.len,
    });
}

/// The reply must have all bytes of the range.
fn check(reply: &mut CompoundReply<'_>, range: Range, checked: bool) -> Result<(), BenchError> {
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
    if checked {
        pattern::check(range.offset, data)?;
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
            session: WireSession::connect(target.server.socket()?, owner, EXCHGID_USE_PNFS_DS)?,
            target: target.clone(),
        })
    }
}

impl Read for Wire {
    fn read(&mut self, range: Range, checked: bool) -> Result<(), BenchError> {
        let Self { session, target } = self;
        let mut reply = session.compound(|b| push(b, target, range))?;
        check(&mut reply, range, checked)
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
        let peer = runtime.block_on(Peer::ds(&target.server, owner, 1))?;
        Ok(Self {
            peer,
            runtime,
            target: target.clone(),
        })
    }
}

impl Read for Tasks {
    fn read(&mut self, range: Range, checked: bool) -> Result<(), BenchError> {
        let sent = self.peer.run(|b| push(b, &self.target, range));
        let done = self.runtime.block_on(sent)?;
        let mut reply = done.results().map_err(BenchError::nfs("read"))?;
        check(&mut reply, range, checked)
    }
}
