//! A file's first life by number of data servers: the create alone, and with a first write to every stripe and close.
//!
//! The whole is OPEN create, LAYOUTGET, one DATA_SYNC WRITE to each data server (all at once), LAYOUTCOMMIT, LAYOUTRETURN and CLOSE;
//! the create alone is OPEN create and CLOSE. Objects are made by the first write, so the create must not depend on
//! the number of data servers.

use crate::load::{self, Load, TaskRequester};
use crate::nfs::client::{FileMap, OpenFile, Owner, Peer, at_ds};
use crate::nfs::cluster::{Cluster, ClusterOptions};
use crate::{BenchError, Sample, Subject};
use bytes::Bytes;
use futures_util::future::try_join_all;
use nfs4::{FileHandle, StableHow};
use serde_json::{Value, json};
use std::future::Future;
use std::pin::Pin;
use std::rc::Rc;

/// Bytes of the write to each data server, unless told otherwise.
pub const WRITE_BYTES: usize = 4096;
/// Slots of each session.
const SLOTS: u32 = 64;

/// How much of a file's first life is one request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Part {
    /// OPEN create, CLOSE.
    Create,
    /// All of it.
    Whole,
    /// OPEN create, one DATA_SYNC WRITE through the metadata server, CLOSE: what clients without layouts do.
    Proxied,
}

/// First lives as a subject.
#[derive(Debug, Clone)]
pub struct FirstLives {
    /// The cluster with its number of data servers.
    pub cluster: ClusterOptions,
    /// What is measured.
    pub part: Part,
    /// Bytes of the write to each data server.
    pub write_bytes: usize,
}

impl Subject for FirstLives {
    fn name(&self) -> String {
        let part = match self.part {
            Part::Create => "create",
            Part::Whole => "create+write+close",
            Part::Proxied => "the same through the mds",
        };
        format!(
            "{part}, {} ds, {} KiB, {}",
            self.cluster.ds_count,
            self.write_bytes / 1024,
            self.cluster.carrier().name()
        )
    }

    fn settings(&self) -> Value {
        json!({ "write_bytes": self.write_bytes, "cluster": self.cluster.settings() })
    }

    fn run(&mut self, load: &Load) -> Result<Sample, BenchError> {
        let cluster = Cluster::start(&self.cluster)?;
        let runtime = load::runtime()?;
        let shared = runtime.block_on(Shared::connect(&cluster, self))?;
        let shared = Rc::new(shared);
        let make = |index| {
            let liver = Liver {
                shared: Rc::clone(&shared),
                part: self.part,
                index,
                next: 0,
            };
            Ok(Box::new(liver) as Box<dyn TaskRequester>)
        };
        load::drive_tasks_on(&runtime, load, make, &|| cluster.cpu())
    }
}

/// Sessions to all servers, and where files lie.
struct Shared {
    mds: Peer,
    root: FileHandle,
    /// By stripe index.
    ds: Vec<Peer>,
    map: FileMap,
    data: Bytes,
}

impl Shared {
    /// Connects to every server and lives one life to be sure that all of it works.
    async fn connect(cluster: &Cluster, lives: &FirstLives) -> Result<Self, BenchError> {
        let ds_count = lives.cluster.ds_count;
        let owner = Owner::new();
        let mds = Peer::mds(cluster.server(), &owner, SLOTS).await?;
        let root = mds.root().await?;
        let file = mds.create(&root, "first", b"first").await?;
        let map = mds.map(&file, None).await?;
        if map.servers.len() != usize::from(ds_count) {
            let why = format!(
                "a file lies on {} of {ds_count} data servers",
                map.servers.len()
            );
            return Err(BenchError::Cluster(why));
        }
        let mut ds = Vec::with_capacity(map.servers.len());
        for server in map.servers.iter() {
            ds.push(Peer::ds(server, &owner, SLOTS).await?);
        }
        let mut data = vec![0; lives.write_bytes];
        crate::pattern::fill(0, &mut data);
        let shared = Self {
            mds,
            root,
            ds,
            map: map.clone(),
            data: data.into(),
        };
        shared.write_and_close(&file, &map).await?;
        Ok(shared)
    }

    /// Returns the bytes written.
    async fn write_and_close(&self, file: &OpenFile, map: &FileMap) -> Result<u64, BenchError> {
        let unit_bytes = u64::from(map.striping.unit_bytes());
        let stripes = 0..u64::from(map.striping.width());
        let writes = stripes.clone().map(|stripe| {
            let offset = stripe * unit_bytes;
            let ds = &self.ds[map.striping.index_of(offset) as usize];
            ds.write(
                &map.handle,
                at_ds(file.stateid),
                offset,
                self.data.clone(),
                StableHow::DataSync,
            )
        });
        try_join_all(writes).await?;
        let last = stripes.end.saturating_sub(1) * unit_bytes;
        let end_offset = last + self.data.len() as u64;
        self.mds.commit_and_close(file, map, end_offset).await?;
        Ok(stripes.end * self.data.len() as u64)
    }
}

struct Liver {
    shared: Rc<Shared>,
    part: Part,
    index: usize,
    next: u64,
}

impl TaskRequester for Liver {
    fn request(&mut self) -> Pin<Box<dyn Future<Output = Result<u64, BenchError>> + '_>> {
        Box::pin(async {
            let Shared { mds, root, map, .. } = &*self.shared;
            let name = format!("{:04}-{:08}", self.index, self.next);
            self.next += 1;
            let file = mds.create(root, &name, name.as_bytes()).await?;
            match self.part {
                Part::Create => {
                    mds.close(&file).await?;
                    Ok(0)
                }
                Part::Proxied => {
                    let data = self.shared.data.clone();
                    let bytes = data.len() as u64;
                    mds.write(&file.handle, file.stateid, 0, data, StableHow::DataSync)
                        .await?;
                    mds.close(&file).await?;
                    Ok(bytes)
                }
                Part::Whole => {
                    let map = mds.map(&file, Some(map)).await?;
                    self.shared.write_and_close(&file, &map).await
                }
            }
        })
    }
}
