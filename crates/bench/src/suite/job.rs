//! What workers are told, and what they say: one JSON value for each line, over their standard input and output.
//!
//! ```text
//! parent                       worker
//!   Job ------------------------->   makes its files, warms up
//!   <---------------------- Ready    (of every worker)
//!   go -------------------------->   works
//!   <----------------------- Done    with its tally; and so on for each phase
//!   <-------------------- Waiting    at a barrier inside a phase or between two; answered by go as well
//!   <------------------------ End    or Failed, at any time
//! ```

use super::files::Bypass;
use crate::suite::work::{
    BareServers, BareWork, BtioWork, CreateWork, MetadataWork, POINT_BYTES, ScaleWork, SmallWork,
    StreamWork, Workers,
};

use crate::load::Tally;
use crate::nfs::server::Server;
use serde::{Deserialize, Serialize};
use std::path::PathBuf;

/// The line that lets workers go.
pub(crate) const GO: &str = "go";

/// Where workers find their files.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum Place {
    /// Below an `nfs://` URL, through our client library.
    Url(String),
    /// Below a directory.
    Dir(PathBuf),
    /// Nowhere: calls of the bare RPC program.
    Rpc(Server),
    /// Nowhere: ranges of the bare servers' files.
    Bare(BareServers),
}

/// Everything that a worker must know.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct Job {
    /// Where.
    pub(crate) place: Place,
    /// Folder of the run below it: the first worker makes and removes it.
    pub(crate) folder: String,
    /// Folder on this machine that all workers share, in memory.
    pub(crate) scratch: PathBuf,
    /// Number of this worker.
    pub(crate) worker: u32,
    /// Of so many.
    pub(crate) workers_count: u32,
    /// Tasks of this worker at the same time.
    pub(crate) tasks_count: u32,
    /// What to do.
    pub(crate) work: Work,
}

impl Job {
    /// The worker's own folder.
    pub(crate) fn own_folder(&self) -> String {
        format!("{}/w{}", self.folder, self.worker)
    }
}

/// Kinds of work.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Work {
    /// See [`super::loads::create`].
    Create(CreateWork),
    /// See [`super::loads::metadata`].
    Metadata(MetadataWork),
    /// See [`super::loads::stream`].
    Stream(StreamWork),
    /// See [`super::loads::btio`].
    Btio(BtioWork),
    /// See [`super::loads::small`].
    Small(SmallWork),
    /// See [`super::loads::bare`].
    Bare(BareWork),
    /// See [`super::scale`], which works without workers.
    Scale(ScaleWork),
}

impl Work {
    /// Size of all files at the same time.
    pub(crate) fn data_bytes(&self, workers: Workers) -> u64 {
        let processes = u64::from(workers.processes_count);
        match self {
            Self::Stream(work) => {
                let tasks = if work.one_file {
                    1
                } else {
                    workers.tasks_count
                };
                work.file_bytes * processes * u64::from(tasks)
            }
            Self::Btio(work) => work.points_count.pow(3) * POINT_BYTES * work.steps_count,
            // Files of a byte or none, one of a MiB, and none.
            Self::Create(_)
            | Self::Metadata(_)
            | Self::Small(_)
            | Self::Bare(_)
            | Self::Scale(_) => 0,
        }
    }
}

/// What a worker says.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) enum Said {
    /// It stands before the named phase.
    Ready(String),
    /// It has ended the phase.
    Done(Counted),
    /// It waits for the others.
    Waiting,
    /// It has nothing left to do.
    End,
    /// It cannot go on.
    Failed(String),
}

/// A worker's share of a phase.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Counted {
    /// Requests.
    requests_count: u64,
    /// Payload.
    payload_bytes: u64,
    /// Latencies in nanoseconds, each with how many had it.
    latency_ns: Vec<(u64, u64)>,
    /// CPU time of the worker in microseconds.
    pub(crate) cpu_us: u64,
    /// How its reads were kept from the page cache of this machine, where that had to be.
    pub(crate) bypass: Option<Bypass>,
}

impl Counted {
    pub(crate) fn new(tally: &Tally, cpu_us: u64, bypass: Option<Bypass>) -> Self {
        let recorded = tally.latency_ns.iter_recorded();
        Self {
            requests_count: tally.requests_count,
            payload_bytes: tally.payload_bytes,
            latency_ns: recorded
                .map(|v| (v.value_iterated_to(), v.count_at_value()))
                .collect(),
            cpu_us,
            bypass,
        }
    }

    pub(crate) fn tally(&self) -> Tally {
        let mut tally = Tally::new();
        tally.requests_count = self.requests_count;
        tally.payload_bytes = self.payload_bytes;
        for (ns, count) in &self.latency_ns {
            tally.latency_ns.saturating_record_n(*ns, *count);
        }
        tally
    }
}

#[cfg(test)]
mod tests {
    //! Tallies come through JSON as they were.
    use super::*;
    use std::time::Duration;

    #[test]
    fn tallies_survive_the_way() {
        let mut tally = Tally::new();
        for us in [1, 5, 5, 900, 1_000_000] {
            tally.add(10, Duration::from_micros(us));
        }
        let line =
            serde_json::to_string(&Said::Done(Counted::new(&tally, 7, Some(Bypass::Dropped))))
                .unwrap();
        assert!(!line.contains('\n'));
        let Said::Done(counted) = serde_json::from_str(&line).unwrap() else {
            panic!("another message");
        };
        assert_eq!(counted.cpu_us, 7);
        assert_eq!(counted.bypass, Some(Bypass::Dropped));
        let back = counted.tally();
        assert_eq!((back.requests_count, back.payload_bytes), (5, 50));
        assert_eq!(back.latency_ns.len(), 5);
        for quantile in [0.0, 0.5, 0.8, 1.0] {
            let of = |t: &Tally| t.latency_ns.value_at_quantile(quantile);
            assert_eq!(of(&back), of(&tally), "{quantile}");
        }
    }
}
