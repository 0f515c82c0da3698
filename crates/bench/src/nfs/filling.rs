//! Filling of a data server that has nothing: one of two that have everything is lost, and a third one takes its places.
//!
//! Nobody writes meanwhile. The time is that from the moment when the metadata server says that a place is being filled, which
//! follows the order that gives the lost one up, to that when it says that each place has its copies.

use super::failover::sample;
use crate::load::{self, Load, Tally};
use crate::nfs::cluster::{Away, Cluster, ClusterOptions};
use crate::suite::files::Files;
use crate::suite::files::remote::Remote;
use crate::{BenchError, Sample, Subject, pattern};
use bytes::Bytes;
use serde_json::{Value, json};
use std::time::{Duration, Instant};

/// Bytes of each write.
const WRITE_BYTES: usize = 2 << 20;
/// The data server that is lost.
const LOST: usize = 2;
/// The lease of data servers, and some more: another one has taken over by then.
const TAKEN_OVER: Duration = Duration::from_secs(8);

/// A filling as a subject.
#[derive(Debug, Clone)]
pub struct Filling {
    /// The cluster: two data servers that keep two copies, and one that is idle.
    pub cluster: ClusterOptions,
    /// The size of the file.
    pub file_bytes: u64,
}

impl Subject for Filling {
    fn name(&self) -> String {
        "filling".to_owned()
    }

    fn settings(&self) -> Value {
        json!({ "file_bytes": self.file_bytes, "cluster": self.cluster.settings() })
    }

    fn run(&mut self, _: &Load) -> Result<Sample, BenchError> {
        let cluster = Cluster::start(&self.cluster)?;
        self.fill(&cluster)?;
        let lost_id = cluster.ds_id(&self.cluster.program, LOST)?.to_string();
        cluster.send_away(LOST, Away::Killed)?;
        std::thread::sleep(TAKEN_OVER);
        let program = &self.cluster.program;
        cluster.tell(program, &["expel", &lost_id, "--yes"])?;
        cluster.wait_until_filling(program)?;
        let began = Instant::now();
        cluster.wait_until_full(program)?;
        let elapsed = began.elapsed();
        let mut tally = Tally::new();
        tally.add(self.file_bytes, elapsed);
        Ok(sample(&tally, elapsed))
    }
}

impl Filling {
    fn fill(&self, cluster: &Cluster) -> Result<(), BenchError> {
        let inside = cluster.space(false, 0).map(|space| space.enter());
        let _inside = inside.transpose()?;
        load::runtime()?.block_on(async {
            let remote = Remote::connect(&cluster.server().url()).await?;
            let file = remote.create("filled").await?;
            for offset in (0..self.file_bytes).step_by(WRITE_BYTES) {
                let mut data = vec![0; WRITE_BYTES];
                pattern::fill(offset, &mut data);
                remote.write(&file, offset, Bytes::from(data)).await?;
            }
            remote.sync(&file).await?;
            remote.close(file).await?;
            remote.end().await
        })
    }
}
