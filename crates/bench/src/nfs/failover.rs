//! How long writes wait when a data server goes away, at every place of a file.
//!
//! [`Failover`] starts a cluster and has one client write 4 KiB again and again to a stripe of each place of one file, each
//! write durable. A data server is sent away. The latencies of the sample are one for each place: the longest wait of a write
//! since then, up to the first that began when the data server had gone. [`Second`] is what such a time is held against.

use crate::load::{self, Load, Tally};
use crate::nfs::cluster::{Away, Cluster, ClusterOptions};
use crate::suite::files::Files;
use crate::suite::files::remote::Remote;
use crate::{BenchError, Sample, Subject};
use bytes::Bytes;
use client::File;
use futures_util::future::try_join_all;
use serde_json::{Value, json};
use std::time::{Duration, Instant};
use tokio::sync::watch;

/// The data server that goes away.
const GONE: usize = 1;
/// Bytes of each write.
const WRITE_BYTES: usize = 4096;
/// The stripe unit of clusters of our own.
const STRIPE_UNIT_BYTES: u64 = 1 << 20;
/// Load before the data server goes away.
const WARM_UP: Duration = Duration::from_secs(1);
/// How often it is looked at whether it has gone.
const POLL: Duration = Duration::from_millis(5);
/// Writes that have not gone on after this never do.
const WAIT_MAX: Duration = Duration::from_secs(55);

/// A data server that goes away under load, as a subject. The load's connections are places.
#[derive(Debug, Clone)]
pub struct Failover {
    /// The cluster, whose servers are started one by one.
    pub cluster: ClusterOptions,
    /// How it goes away.
    pub away: Away,
}

impl Subject for Failover {
    fn name(&self) -> String {
        format!(
            "{} ds, {} copies",
            self.cluster.ds_count, self.cluster.copies
        )
    }

    fn settings(&self) -> Value {
        json!({
            "away": format!("{:?}", self.away),
            "write_bytes": WRITE_BYTES,
            "cluster": self.cluster.settings(),
        })
    }

    fn run(&mut self, load: &Load) -> Result<Sample, BenchError> {
        let cluster = Cluster::start(&self.cluster)?;
        // Threads of the runtime are made in the network where clients are.
        let inside = cluster.space(false, 0).map(|space| space.enter());
        let _inside = inside.transpose()?;
        let runtime = load::threads_runtime()?;
        let began = Instant::now();
        let waited = runtime.block_on(self.waits(&cluster, load.connections_count))?;
        let mut tally = Tally::new();
        for time in waited {
            tally.add(WRITE_BYTES as u64, time);
        }
        Ok(sample(&tally, began.elapsed()))
    }
}

impl Failover {
    async fn waits(
        &self,
        cluster: &Cluster,
        places_count: usize,
    ) -> Result<Vec<Duration>, BenchError> {
        let remote = Remote::connect(&cluster.server().url()).await?;
        let file = remote.create("striped").await?;
        let (tell, told) = watch::channel(Told::default());
        let writers = (0..places_count as u64).map(|place| longest_wait(&file, place, &told));
        let go_away = async {
            tokio::time::sleep(WARM_UP).await;
            let sent = Some(Instant::now());
            tell.send_modify(|told| told.sent = sent);
            cluster.send_away(GONE, self.away)?;
            while self.away.is_end() && !cluster.has_ended(GONE)? {
                tokio::time::sleep(POLL).await;
            }
            tell.send_modify(|told| told.gone = Some(Instant::now()));
            Ok(())
        };
        let both = futures_util::future::try_join(try_join_all(writers), go_away);
        let late = |_| BenchError::Cluster("writes do not go on at every place".to_owned());
        let (waited, ()) = tokio::time::timeout(WARM_UP + WAIT_MAX, both)
            .await
            .map_err(late)??;
        Ok(waited)
    }
}

/// What writers are told: when the data server was sent away, and when it had gone.
#[derive(Debug, Clone, Copy, Default)]
struct Told {
    sent: Option<Instant>,
    gone: Option<Instant>,
}

/// Writes to the stripe of a place until one that began after the data server had gone has succeeded. Returns the longest wait of
/// one write since it was sent away.
async fn longest_wait(
    file: &File,
    place: u64,
    told: &watch::Receiver<Told>,
) -> Result<Duration, BenchError> {
    let data = Bytes::from_static(&[7; WRITE_BYTES]);
    let mut longest = Duration::ZERO;
    loop {
        let is_last = told.borrow().gone.is_some();
        let began = Instant::now();
        let written = file.write_sync_at(place * STRIPE_UNIT_BYTES, data.clone());
        written.await.map_err(BenchError::nfs("write"))?;
        if let Some(sent) = told.borrow().sent {
            longest = longest.max(began.max(sent).elapsed());
        }
        if is_last {
            return Ok(longest);
        }
    }
}

/// One second, as if it had been waited for.
#[derive(Debug, Clone, Copy)]
pub struct Second;

impl Subject for Second {
    fn name(&self) -> String {
        "one second".to_owned()
    }

    fn settings(&self) -> Value {
        json!({ "is_measured": false })
    }

    fn run(&mut self, _: &Load) -> Result<Sample, BenchError> {
        let second = Duration::from_secs(1);
        let mut tally = Tally::new();
        tally.add(0, second);
        Ok(sample(&tally, second))
    }
}

/// Of which nobody has counted processor time.
pub(super) fn sample(tally: &Tally, elapsed: Duration) -> Sample {
    Sample {
        requests_count: tally.requests_count,
        payload_bytes: tally.payload_bytes,
        elapsed,
        latency_ns: tally.latency_ns.clone(),
        server_cpu: Duration::ZERO,
        client_cpu: Duration::ZERO,
        machine_idle: None,
        rss_bytes_per_session: None,
    }
}
