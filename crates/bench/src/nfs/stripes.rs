//! A file's first life by number of data servers: the create alone, with a first write to every stripe and close, and its end.
//!
//! The whole is OPEN create, LAYOUTGET, one DATA_SYNC WRITE to each data server (all at once), LAYOUTCOMMIT,
//! LAYOUTRETURN and CLOSE. The create alone is OPEN create and CLOSE. Objects are made by the first write, so the
//! create must not depend on the number of data servers. The end is REMOVE, until no data server has anything of the
//! file. Many files are removed one after another and waited for together: asking whether all is clean takes longer
//! than a removal.

use crate::load::{self, Load, Tally, TaskRequester};
use crate::nfs::client::{FileMap, OpenFile, Owner, Peer, at_ds};
use crate::nfs::cluster::{Cluster, ClusterOptions};
use crate::{BenchError, Sample, Subject};
use bytes::Bytes;
use futures_util::future::try_join_all;
use futures_util::stream::{self, StreamExt, TryStreamExt};
use nfs4::{FileHandle, StableHow};
use serde_json::{Value, json};
use std::future::Future;
use std::pin::Pin;
use std::rc::Rc;
use std::time::Instant;
use tokio::runtime::Runtime;

/// Bytes of the write to each data server, unless told otherwise.
pub const WRITE_BYTES: usize = 4096;
/// Slots of each session.
const SLOTS: u32 = 64;
/// Files whose removal is measured: so many for each second of measured time, and never fewer or more than these. They do not depend on the
/// number of data servers.
const REMOVED_PER_S: f64 = 256.0;
const REMOVED_MIN: f64 = 32.0;
const REMOVED_MAX: f64 = 1024.0;

/// How much of a file's first life is one request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Part {
    /// OPEN create, CLOSE.
    Create,
    /// All of it.
    Whole,
    /// REMOVE of what had all of it, until the data servers are clean.
    Removal,
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
            Part::Removal => "removed until clean",
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
        if self.part == Part::Removal {
            return self.remove(&cluster, &runtime, &shared, load);
        }
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

/// Files to remove in a run of this load.
#[allow(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "between two small numbers above 0"
)]
fn removed_count(load: &Load) -> u32 {
    let wanted = load.measure.as_secs_f64() * REMOVED_PER_S;
    wanted.clamp(REMOVED_MIN, REMOVED_MAX) as u32
}

impl FirstLives {
    /// Lives that are not measured, and then the end of all of them, which is.
    fn remove(
        &self,
        cluster: &Cluster,
        runtime: &Runtime,
        shared: &Shared,
        load: &Load,
    ) -> Result<Sample, BenchError> {
        let names: Vec<String> = (0..removed_count(load))
            .map(|n| format!("{n:08}"))
            .collect();
        runtime.block_on(async {
            for name in &names {
                shared.live(name).await?;
            }
            Ok::<_, BenchError>(())
        })?;
        let is_clean = || cluster.wait_until_clean(&self.cluster.program);
        is_clean()?;
        load::to_its_end(&|| cluster.cpu(), |tally| {
            let removals = shared.remove(&names, load.connections_count, tally);
            runtime.block_on(removals)?;
            is_clean()
        })
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

    /// All of a file's first life.
    async fn live(&self, name: &str) -> Result<u64, BenchError> {
        let file = self.mds.create(&self.root, name, name.as_bytes()).await?;
        let map = self.mds.map(&file, Some(&self.map)).await?;
        self.write_and_close(&file, &map).await
    }

    async fn remove(
        &self,
        names: &[String],
        at_once: usize,
        tally: &mut Tally,
    ) -> Result<(), BenchError> {
        let removals = names.iter().map(|name| async move {
            let start = Instant::now();
            self.mds.remove(&self.root, name).await?;
            Ok::<_, BenchError>(start.elapsed())
        });
        let mut removals = stream::iter(removals).buffer_unordered(at_once.max(1));
        while let Some(time) = removals.try_next().await? {
            tally.add(0, time);
        }
        Ok(())
    }

    /// Returns the bytes written.
    async fn write_and_close(&self, file: &OpenFile, map: &FileMap) -> Result<u64, BenchError> {
        let unit_bytes = u64::from(map.striping.unit_bytes());
        let stripes = 0..u64::from(map.striping.width());
        let writes = stripes.clone().map(|stripe| {
            let offset = stripe * unit_bytes;
            let index = map.striping.index_of(offset) as usize;
            self.ds[index].write(
                &map.handles[index],
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
            let Shared { mds, root, .. } = &*self.shared;
            let name = format!("{:04}-{:08}", self.index, self.next);
            self.next += 1;
            let create = mds.create(root, &name, name.as_bytes());
            match self.part {
                Part::Create => {
                    mds.close(&create.await?).await?;
                    Ok(0)
                }
                Part::Proxied => {
                    let file = create.await?;
                    let data = self.shared.data.clone();
                    let bytes = data.len() as u64;
                    mds.write(&file.handle, file.stateid, 0, data, StableHow::DataSync)
                        .await?;
                    mds.close(&file).await?;
                    Ok(bytes)
                }
                Part::Whole | Part::Removal => self.shared.live(&name).await,
            }
        })
    }
}
