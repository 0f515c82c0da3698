//! Records of one size, or of sizes by Zipf's law, written to and read from files. Their order is sequential, random,
//! or by Zipf's law.
//!
//! What a phase reads more than once does not come from the page cache of this machine: a server is measured, not the client's memory.
//! Every byte that is read is compared. A phase that writes ends when the data are durable. What is not written by a measured
//! phase is written before.

use super::until::Until;
use crate::BenchError;
use crate::load::Tally;
use crate::suite::content::Content;
use crate::suite::files::{Buffer, Files};
use crate::suite::job::Job;
use crate::suite::link::Link;
use crate::suite::random::{Random, Zipf, shuffled};
use crate::suite::work::{Access, Order, StreamWork};
use std::time::Instant;

/// Records with which files are filled before a phase, and how many at once.
const FILL_BYTES: u32 = 1 << 20;
const FILL_LANES: u32 = 4;
/// Requests of each task before a phase.
const WARM_UP_REQUESTS: u64 = 2;

impl StreamWork {
    fn record_bytes_max(&self) -> u32 {
        match self.order {
            Order::Zipf { units_max, .. } => self.record_bytes.saturating_mul(units_max),
            Order::Sequential | Order::Random => self.record_bytes,
        }
    }

    /// Records that go once through the file.
    fn records_count(&self) -> u64 {
        self.file_bytes / u64::from(self.record_bytes.max(1))
    }

    fn requests_count(&self) -> u64 {
        self.requests_count.unwrap_or(self.records_count())
    }

    /// Whether a phase may read the same bytes more than once.
    pub(crate) fn reads_again(&self) -> bool {
        let once = self.order == Order::Sequential
            && !self.one_file
            && self.requests_count() <= self.records_count();
        self.phases.contains(&Access::Read) && !once
    }
}

/// The open files of a worker, and what its lanes need. A lane is one request in flight: `window` of them make up a task.
struct Streams<'a, F: Files> {
    work: &'a StreamWork,
    files: &'a F,
    open: Vec<F::File>,
    content: Content,
    zipf: Option<ZipfLaws>,
    /// Lanes of the whole job before those of this worker: each lane of a job has a seed of its own.
    first_lane: u64,
    lanes_count: u32,
}

pub(crate) async fn run<F: Files>(
    work: &StreamWork,
    job: &Job,
    files: &F,
    link: &mut Link,
) -> Result<(), BenchError> {
    let folder = job.own_folder();
    let files_count = if work.one_file { 1 } else { job.tasks_count };
    let mut open = Vec::new();
    for n in 0..files_count {
        let path = format!("{folder}/f{n}");
        if work.reads_again() {
            let (file, bypass) = files.create_uncached(&path, work.record_bytes).await?;
            link.bypass = link.bypass.max(bypass);
            open.push(file);
        } else {
            open.push(files.create(&path).await?);
        }
    }
    let lanes_count = job.tasks_count * work.window.max(1);
    let streams = Streams {
        work,
        files,
        open,
        content: Content::new(work.record_bytes_max().max(FILL_BYTES)),
        zipf: work.zipf(),
        first_lane: u64::from(job.worker) * u64::from(lanes_count),
        lanes_count,
    };
    streams.phases(link).await?;
    for (n, file) in streams.open.into_iter().enumerate() {
        files.close(file).await?;
        files.remove(&format!("{folder}/f{n}")).await?;
    }
    Ok(())
}

/// The laws of places and of lengths.
struct ZipfLaws {
    places: Zipf,
    /// The unit of each rank: neighbours in rank are not neighbours in the file.
    units: Vec<u32>,
    lengths: Zipf,
}

impl StreamWork {
    fn zipf(&self) -> Option<ZipfLaws> {
        let Order::Zipf { alpha, units_max } = self.order else {
            return None;
        };
        let units_count = self.file_bytes / u64::from(self.record_bytes.max(1));
        let units_count = u32::try_from(units_count).unwrap_or(u32::MAX);
        Some(ZipfLaws {
            places: Zipf::new(units_count as usize, alpha),
            units: shuffled(units_count),
            lengths: Zipf::new(units_max as usize, alpha),
        })
    }
}

impl<F: Files> Streams<'_, F> {
    async fn phases(&self, link: &mut Link) -> Result<(), BenchError> {
        let sequential = self.work.order == Order::Sequential;
        // A sequential write makes what is read after it.
        if !sequential || self.work.phases.first() != Some(&Access::Write) {
            self.fill().await?;
        }
        let mut written: Option<Vec<u64>> = None;
        for access in self.work.phases.iter().copied() {
            let all = self.work.requests_count();
            // Of a file whose writing was cut short, only what is there can be read.
            let limits = match (&written, sequential, access) {
                (Some(written), true, Access::Read) => written.clone(),
                _ => vec![self.share(all); self.lanes_count as usize],
            };
            let warm_up: Vec<u64> = limits.iter().map(|n| WARM_UP_REQUESTS.min(*n)).collect();
            self.at_once(access, &warm_up, None).await?;
            self.settle(access).await?;
            let phase = async {
                let tallies = self.at_once(access, &limits, self.work.limit_ms).await?;
                if access == Access::Write {
                    self.sync().await?;
                }
                Ok(tallies)
            };
            let tallies = link.phase(access.name(), phase).await?;
            if access == Access::Write {
                written = Some(tallies.iter().map(|t| t.requests_count).collect());
            }
        }
        Ok(())
    }

    /// Requests of one lane when a task has so many.
    fn share(&self, requests_count: u64) -> u64 {
        requests_count.div_ceil(u64::from(self.work.window.max(1)))
    }

    /// What this machine has cached of what was written must not answer for the server.
    async fn settle(&self, next: Access) -> Result<(), BenchError> {
        self.sync().await?;
        if next == Access::Read {
            for file in &self.open {
                self.files.forget(file).await?;
            }
        }
        Ok(())
    }

    async fn sync(&self) -> Result<(), BenchError> {
        let files_count = u32::try_from(self.open.len()).expect("files are counted in u32");
        let sync = |n: u32| self.files.sync(&self.open[n as usize]);
        self.files.at_once(files_count, sync).await.map(drop)
    }

    async fn fill(&self) -> Result<(), BenchError> {
        let lane = |lane: u32| async move {
            for file in &self.open {
                let mut offset = u64::from(lane) * u64::from(FILL_BYTES);
                while offset < self.work.file_bytes {
                    let left = self.work.file_bytes - offset;
                    let len = u32::try_from(left).map_or(FILL_BYTES, |left| left.min(FILL_BYTES));
                    let data = self.content.slice(offset, len);
                    self.files.write(file, offset, data).await?;
                    offset += u64::from(FILL_BYTES) * u64::from(FILL_LANES);
                }
            }
            Ok(())
        };
        self.files.at_once(FILL_LANES, lane).await?;
        self.sync().await
    }

    /// One pass of all lanes.
    async fn at_once(
        &self,
        access: Access,
        requests: &[u64],
        limit_ms: Option<u64>,
    ) -> Result<Vec<Tally>, BenchError> {
        let lane = |lane: u32| self.lane(access, lane, requests[lane as usize], limit_ms);
        self.files.at_once(self.lanes_count, lane).await
    }

    async fn lane(
        &self,
        access: Access,
        lane: u32,
        requests_count: u64,
        limit_ms: Option<u64>,
    ) -> Result<Tally, BenchError> {
        let window = self.work.window.max(1);
        let file = &self.open[(lane / window) as usize % self.open.len()];
        let mut buffer = Buffer::new(match access {
            Access::Read => self.work.record_bytes_max() as usize,
            Access::Write => 0,
        });
        let mut random = Random::new(self.first_lane + u64::from(lane));
        let mut tally = Tally::new();
        let mut until = Until::new(requests_count, limit_ms);
        while until.more(tally.requests_count) {
            let step = tally.requests_count * u64::from(window) + u64::from(lane % window);
            let (offset, len) = self.place(step, lane / window, &mut random);
            let start = Instant::now();
            match access {
                Access::Write => {
                    let data = self.content.slice(offset, len);
                    self.files.write(file, offset, data).await?;
                }
                Access::Read => {
                    let data = buffer.first(len as usize);
                    let count = self.files.read(file, offset, data).await?;
                    if count < data.len() {
                        let offset = offset + count as u64;
                        return Err(BenchError::WrongBytes { offset });
                    }
                }
            }
            tally.add(u64::from(len), start.elapsed());
            if access == Access::Read {
                self.content.check(offset, buffer.first(len as usize))?;
            }
        }
        Ok(tally)
    }

    /// Where the record number `step` of a task is, and how long.
    fn place(&self, step: u64, task: u32, random: &mut Random) -> (u64, u32) {
        let record_bytes = u64::from(self.work.record_bytes);
        let records_count = (self.work.file_bytes / record_bytes).max(1);
        match (&self.zipf, self.work.order) {
            (Some(laws), _) => {
                let unit = u64::from(laws.units[laws.places.rank(random)]);
                let units = laws.lengths.rank(random) as u64 + 1;
                let len = (units * record_bytes).min(self.work.file_bytes - unit * record_bytes);
                let len = u32::try_from(len).expect("bounded by record_bytes_max");
                (unit * record_bytes, len)
            }
            (None, Order::Random) => {
                let record = random.below(records_count);
                (record * record_bytes, self.work.record_bytes)
            }
            (None, _) => {
                // Tasks that share a file begin at places of their own.
                let first = if self.work.one_file {
                    u64::from(task)
                } else {
                    0
                };
                let begin = first * records_count / u64::from(self.lanes_count);
                let record = (begin + step) % records_count;
                (record * record_bytes, self.work.record_bytes)
            }
        }
    }
}
