//! The client library as a program uses it. One client's connections share the processors. Several tasks read or write whole rows
//! of stripes of one open file over several data servers.
//!
//! The bytes that arrive are not copied once more, and those of the measured reads not compared: the first row of each task is.

use crate::load::{self, Load, TaskRequester};
use crate::nfs::cluster::{Cluster, ClusterOptions};
use crate::nfs::io::Access;
use crate::suite::files::Files;
use crate::suite::files::remote::Remote;
use crate::{BenchError, Sample, Subject, pattern};
use bytes::Bytes;
use client::{File, ReadData};
use serde_json::{Value, json};
use std::cell::Cell;
use std::future::Future;
use std::pin::Pin;
use std::rc::Rc;

/// The stripe unit of `ropewalk up`.
const STRIPE_UNIT_BYTES: u64 = 1 << 20;
/// What is written is this far on in the pattern from where it goes to, so that it differs from what is there.
const WRITTEN_SHIFT: u64 = 1 << 40;

/// Striped reads or writes as a subject. The load's connections are tasks.
#[derive(Debug, Clone)]
pub struct Library {
    /// The cluster with its number of data servers.
    pub cluster: ClusterOptions,
    /// What is done.
    pub access: Access,
    /// The size of the file.
    pub file_bytes: u64,
    /// Bytes of each request; without it a stripe of each data server.
    pub request_bytes: Option<u64>,
}

impl Library {
    /// Bytes of each request.
    fn row_bytes(&self) -> u64 {
        self.request_bytes.unwrap_or(self.stripes_bytes())
    }

    /// One stripe of each data server.
    fn stripes_bytes(&self) -> u64 {
        STRIPE_UNIT_BYTES * u64::from(self.cluster.ds_count)
    }

    async fn fill(&self, remote: &Remote) -> Result<File, BenchError> {
        let file = remote.create("striped").await?;
        let row_bytes = self.stripes_bytes();
        for row in 0..self.file_bytes / row_bytes {
            let offset = row * row_bytes;
            let data = content(offset, row_bytes);
            remote.write(&file, offset, data).await?;
        }
        remote.sync(&file).await?;
        Ok(file)
    }
}

fn content(offset: u64, len: u64) -> Bytes {
    let mut data = vec![0; usize::try_from(len).expect("a row of stripes fits into memory")];
    pattern::fill(offset, &mut data);
    data.into()
}

impl Subject for Library {
    fn name(&self) -> String {
        let copies = match self.cluster.copies {
            1 => String::new(),
            copies => format!(", {copies} copies"),
        };
        format!(
            "client library, {} ds, {}{copies}",
            self.cluster.ds_count,
            self.cluster.carrier().name()
        )
    }

    fn settings(&self) -> Value {
        json!({
            "file_bytes": self.file_bytes,
            "request_bytes": self.row_bytes(),
            "access": format!("{:?}", self.access),
            "cluster": self.cluster.settings(),
        })
    }

    fn run(&mut self, load: &Load) -> Result<Sample, BenchError> {
        if self.file_bytes < self.row_bytes() * load.connections_count as u64 {
            return Err(BenchError::Setting {
                name: "the file",
                must_be: "at least a row of stripes for each task",
            });
        }
        let cluster = Cluster::start(&self.cluster)?;
        let runtime = load::threads_runtime()?;
        let (remote, file) = runtime.block_on(async {
            let remote = Remote::connect(&cluster.server().url()).await?;
            let file = self.fill(&remote).await?;
            Ok::<_, BenchError>((remote, Rc::new(file)))
        })?;
        let next = Rc::new(Cell::new(0));
        let make = |index: usize| {
            let mut task = Task {
                file: Rc::clone(&file),
                access: self.access,
                rows_count: self.file_bytes / self.row_bytes(),
                row_bytes: self.row_bytes(),
                next: Rc::clone(&next),
                data: Bytes::new(),
            };
            runtime.block_on(task.check(index as u64))?;
            Ok(Box::new(task) as Box<dyn TaskRequester>)
        };
        let sample = load::drive_tasks_on(&runtime, load, make, &|| cluster.cpu());
        runtime.block_on(async {
            let closed = match Rc::into_inner(file) {
                Some(file) => remote.close(file).await,
                None => Ok(()),
            };
            let sample = sample?;
            closed?;
            remote.end().await?;
            Ok(sample)
        })
    }
}

struct Task {
    file: Rc<File>,
    access: Access,
    rows_count: u64,
    row_bytes: u64,
    next: Rc<Cell<u64>>,
    data: Bytes,
}

impl Task {
    /// Reads a row and compares it, after it was written when that is what is measured.
    async fn check(&mut self, row: u64) -> Result<(), BenchError> {
        let offset = row * self.row_bytes;
        let mut pattern_at = offset;
        if self.access != Access::Read {
            pattern_at += WRITTEN_SHIFT;
            self.data = content(pattern_at, self.row_bytes);
            self.write(offset).await?;
        }
        pattern::check(pattern_at, &self.read(offset).await?.into_bytes())
    }

    async fn read(&self, offset: u64) -> Result<ReadData, BenchError> {
        let len = u32::try_from(self.row_bytes).expect("a row of stripes is small");
        let data = self.file.read_at(offset, len).await;
        let data = data.map_err(BenchError::nfs("read"))?;
        if data.len() as u64 != self.row_bytes {
            return Err(BenchError::nfs("read")("fewer bytes than asked for"));
        }
        Ok(data)
    }

    async fn write(&self, offset: u64) -> Result<(), BenchError> {
        let data = self.data.clone();
        let written = match self.access {
            Access::StableWrite => self.file.write_sync_at(offset, data).await,
            _ => self.file.write_at(offset, data).await,
        };
        written.map_err(BenchError::nfs("write"))
    }
}

impl TaskRequester for Task {
    fn request(&mut self) -> Pin<Box<dyn Future<Output = Result<u64, BenchError>> + '_>> {
        Box::pin(async {
            let row = self.next.replace(self.next.get() + 1) % self.rows_count;
            let offset = row * self.row_bytes;
            match self.access {
                Access::Read => drop(self.read(offset).await?),
                Access::Write | Access::StableWrite => self.write(offset).await?,
            }
            Ok(self.row_bytes)
        })
    }
}
