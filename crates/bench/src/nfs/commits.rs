//! COMMIT behind 64 MiB of UNSTABLE writes to a file over all data servers, by the client library.

use super::failover::sample;
use crate::load::{self, Load, Tally};
use crate::nfs::cluster::{Cluster, ClusterOptions};
use crate::suite::files::Files;
use crate::suite::files::remote::Remote;
use crate::{BenchError, Sample, Subject, interrupt, pattern};
use bytes::Bytes;
use serde_json::{Value, json};
use std::time::Instant;

/// Bytes of each write: a stripe of each of four data servers.
const WRITE_BYTES: usize = 4 << 20;
/// Fewest COMMITs of a run.
const COMMITS_MIN: u64 = 5;

/// COMMITs as a subject. The load's time is that of writes and COMMITs together; latencies are those of COMMITs.
#[derive(Debug, Clone)]
pub struct Commits {
    /// The cluster.
    pub cluster: ClusterOptions,
    /// Bytes written before each COMMIT.
    pub behind_bytes: u64,
}

impl Subject for Commits {
    fn name(&self) -> String {
        let ClusterOptions {
            ds_count, copies, ..
        } = self.cluster;
        format!("client library, {ds_count} ds, copies={copies}")
    }

    fn settings(&self) -> Value {
        json!({ "behind_bytes": self.behind_bytes, "cluster": self.cluster.settings() })
    }

    fn run(&mut self, load: &Load) -> Result<Sample, BenchError> {
        let cluster = Cluster::start(&self.cluster)?;
        let runtime = load::threads_runtime()?;
        runtime.block_on(async {
            let url = cluster.server().url();
            // It must not commit by itself before all is written.
            let remote = Remote::connect_keeping(&url, 2 * self.behind_bytes).await?;
            let file = remote.create("committed").await?;
            let mut data = vec![0; WRITE_BYTES];
            pattern::fill(0, &mut data);
            let data = Bytes::from(data);
            let began = Instant::now();
            let mut tally = Tally::new();
            let mut first = None;
            loop {
                for offset in (0..self.behind_bytes).step_by(WRITE_BYTES) {
                    remote.write(&file, offset, data.clone()).await?;
                }
                let uncommitted = file.uncommitted_bytes();
                if uncommitted != self.behind_bytes {
                    let why = format!("{uncommitted} bytes are left to commit");
                    return Err(BenchError::Cluster(why));
                }
                let sent = Instant::now();
                remote.sync(&file).await?;
                interrupt::check()?;
                if began.elapsed() < load.warm_up || first.is_none() {
                    first = Some(Instant::now());
                    continue;
                }
                tally.add(self.behind_bytes, sent.elapsed());
                let is_enough = tally.requests_count >= COMMITS_MIN;
                if is_enough && first.is_none_or(|first| first.elapsed() >= load.measure) {
                    break;
                }
            }
            let elapsed = first.map_or(began.elapsed(), |first| first.elapsed());
            remote.close(file).await?;
            remote.end().await?;
            Ok(sample(&tally, elapsed))
        })
    }
}
