//! A data server that is away for some seconds under small durable writes, and how soon it is in sync when it is back.
//!
//! The cluster has files that nobody touches, for as long as it takes until their parts are settled. Then 1,000 writes a second go to
//! some of them, each durable. The data server gets SIGKILL with its watcher, and is started again later. The time is that from its
//! start to the moment when the metadata server says that each place has its copies. Writes go on all the time.

use super::failover::sample;
use crate::load::{self, Load, Tally};
use crate::nfs::cluster::{Away, Cluster, ClusterOptions};
use crate::suite::files::Files;
use crate::suite::files::remote::Remote;
use crate::{BenchError, Sample, Subject, interrupt, pattern};
use bytes::Bytes;
use futures_util::future::try_join_all;
use futures_util::stream::{FuturesUnordered, StreamExt};
use serde_json::{Value, json};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};
use tokio::time::MissedTickBehavior;

/// The data server that is away, and for how long.
const AWAY: usize = 1;
const AWAY_TIME: Duration = Duration::from_secs(10);
/// How often it is looked at whether it has ended.
const POLL: Duration = Duration::from_millis(5);
/// Parts are settled when nobody has written them for 30 s (docs/architecture/replication.md), and then in batches.
const SETTLED: Duration = Duration::from_secs(40);
/// Tasks that make files at the same time, and bytes of each of their writes.
const MAKERS_COUNT: u32 = 8;
const RECORD_BYTES: usize = 64 << 10;
/// Pause between two writes: 1,000 begin in a second, however long each takes.
const PAUSE: Duration = Duration::from_millis(1);
/// Most writes under way: those to the places of the data server that is away wait for the takeover.
const OUTSTANDING_MAX: usize = 10_000;
/// Bytes of each write.
const WRITE_BYTES: usize = 4096;
/// Writes before the data server goes away.
const WARM_UP: Duration = Duration::from_secs(1);
/// The steps from write to write of a task: to another file, and to another block of it. Both are odd, so all are reached.
const FILE_STEP: usize = 7919;
const BLOCK_STEP: u64 = 5;
/// Writes that are begun and done, as shares of what was meant. With fewer the load was not the one that is named. Writes that
/// have waited for the takeover may still be under way in the end.
const BEGUN_MIN: f64 = 0.9;
const DONE_MIN: f64 = 0.75;

/// What the cluster has when the data server goes away.
#[derive(Debug, Clone, Copy)]
pub struct Store {
    /// Files.
    pub files_count: u32,
    /// Bytes of each, a multiple of 64 KiB.
    pub file_bytes: u64,
    /// So many of them are written while the data server is away.
    pub written_count: u32,
}

/// An absence as a subject.
#[derive(Debug, Clone)]
pub struct Absence {
    /// The cluster, whose servers are started one by one.
    pub cluster: ClusterOptions,
    /// Its files.
    pub store: Store,
}

impl Subject for Absence {
    fn name(&self) -> String {
        format!(
            "{} ds, {} copies",
            self.cluster.ds_count, self.cluster.copies
        )
    }

    fn settings(&self) -> Value {
        let Store {
            files_count,
            file_bytes,
            written_count,
        } = self.store;
        json!({
            "files_count": files_count,
            "file_bytes": file_bytes,
            "written_count": written_count,
            "away_s": AWAY_TIME.as_secs(),
            "cluster": self.cluster.settings(),
        })
    }

    fn run(&mut self, _: &Load) -> Result<Sample, BenchError> {
        let mut cluster = Cluster::start(&self.cluster)?;
        let url = cluster.server().url();
        let runtime = load::threads_runtime()?;
        runtime.block_on(self.make_files(&url))?;
        wait(SETTLED)?;
        let writes = &Writes::default();
        let is_over = &AtomicBool::new(false);
        let time = std::thread::scope(|scope| {
            let writers = scope.spawn(|| runtime.block_on(self.write(&url, is_over, writes)));
            let time = self.away(&mut cluster, writes);
            is_over.store(true, Ordering::Relaxed);
            writers.join().expect("it does not panic")?;
            time
        })?;
        let mut tally = Tally::new();
        tally.add(writes.now().1 * WRITE_BYTES as u64, time);
        Ok(sample(&tally, time))
    }
}

impl Absence {
    async fn make_files(&self, url: &str) -> Result<(), BenchError> {
        let remote = Remote::connect(url).await?;
        let Store {
            files_count,
            file_bytes,
            ..
        } = self.store;
        let make = |maker: u32| {
            let remote = &remote;
            async move {
                for number in (maker..files_count).step_by(MAKERS_COUNT as usize) {
                    interrupt::check()?;
                    let file = remote.create(&name(number)).await?;
                    for offset in (0..file_bytes).step_by(RECORD_BYTES) {
                        let mut data = vec![0; RECORD_BYTES];
                        pattern::fill(offset, &mut data);
                        remote.write(&file, offset, Bytes::from(data)).await?;
                    }
                    remote.sync(&file).await?;
                    remote.close(file).await?;
                }
                Ok(())
            }
        };
        remote.at_once(MAKERS_COUNT, make).await?;
        remote.end().await
    }

    /// Writes until it is over.
    async fn write(
        &self,
        url: &str,
        is_over: &AtomicBool,
        writes: &Writes,
    ) -> Result<(), BenchError> {
        let remote = Remote::connect(url).await?;
        let open = (0..self.store.written_count).map(|number| {
            let remote = &remote;
            async move { remote.open(&name(number)).await }
        });
        let files = try_join_all(open).await?;
        let blocks_count = self.store.file_bytes / WRITE_BYTES as u64;
        let write = |turn: usize| {
            let file = &files[turn * FILE_STEP % files.len()];
            let block = turn as u64 * BLOCK_STEP % blocks_count;
            let data = Bytes::from_static(&[7; WRITE_BYTES]);
            file.write_sync_at(block * WRITE_BYTES as u64, data)
        };
        let mut ticks = tokio::time::interval(PAUSE);
        ticks.set_missed_tick_behavior(MissedTickBehavior::Burst);
        let mut outstanding = FuturesUnordered::new();
        let mut turn = 0;
        while !is_over.load(Ordering::Relaxed) {
            tokio::select! {
                _ = ticks.tick(), if outstanding.len() < OUTSTANDING_MAX => {
                    outstanding.push(write(turn));
                    turn += 1;
                    writes.begun.fetch_add(1, Ordering::Relaxed);
                }
                Some(done) = outstanding.next() => {
                    done.map_err(BenchError::nfs("write"))?;
                    writes.done.fetch_add(1, Ordering::Relaxed);
                }
            }
        }
        while let Some(done) = outstanding.next().await {
            done.map_err(BenchError::nfs("write"))?;
        }
        drop(outstanding);
        for file in files {
            remote.close(file).await?;
        }
        remote.end().await
    }

    /// Sends the data server away and starts it again. Returns how long it then took.
    fn away(&self, cluster: &mut Cluster, writes: &Writes) -> Result<Duration, BenchError> {
        let program = &self.cluster.program;
        wait(WARM_UP)?;
        let (sent, before) = (Instant::now(), writes.now());
        cluster.send_away(AWAY, Away::Killed)?;
        while !cluster.has_ended(AWAY)? {
            std::thread::sleep(POLL);
        }
        cluster.wait_until_lacking(program)?;
        wait(AWAY_TIME.saturating_sub(sent.elapsed()))?;
        let began = Instant::now();
        cluster.start_again(&self.cluster, AWAY)?;
        cluster.wait_until_full(program)?;
        let time = began.elapsed();
        writes.need_load(before, sent.elapsed())?;
        Ok(time)
    }
}

/// Counts of writes.
#[derive(Debug, Default)]
struct Writes {
    begun: AtomicU64,
    done: AtomicU64,
}

impl Writes {
    /// Begun, and done.
    fn now(&self) -> (u64, u64) {
        let now = |count: &AtomicU64| count.load(Ordering::Relaxed);
        (now(&self.begun), now(&self.done))
    }

    /// An error when far fewer writes than were meant were begun or done since `before`, in that time.
    #[allow(
        clippy::cast_precision_loss,
        reason = "measurements have far fewer than 52 significant bits"
    )]
    fn need_load(&self, before: (u64, u64), time: Duration) -> Result<(), BenchError> {
        let (begun, done) = self.now();
        let (begun, done) = (begun - before.0, done - before.1);
        let meant = time.as_secs_f64() / PAUSE.as_secs_f64();
        if begun as f64 >= meant * BEGUN_MIN && done as f64 >= meant * DONE_MIN {
            return Ok(());
        }
        let why =
            format!("{begun} writes were begun, and {done} done, where {meant:.0} were meant");
        Err(BenchError::Cluster(why))
    }
}

/// Sleeps, and looks for Ctrl-C meanwhile.
fn wait(time: Duration) -> Result<(), BenchError> {
    let end = Instant::now() + time;
    while let Some(left) = end.checked_duration_since(Instant::now()) {
        interrupt::check()?;
        std::thread::sleep(left.min(Duration::from_millis(100)));
    }
    Ok(())
}

fn name(number: u32) -> String {
    format!("file-{number}")
}
