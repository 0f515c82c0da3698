//! Measurements of Ropewalk against the least that any server of its kind must do.
//!
//! [`bare`] holds that least: a TCP ping-pong, a sendfile server, a recv+pwrite server, and the metadata store
//! doing the transaction of a create. Each has a load generator here; servers run as child processes
//! ([`process`]), so that their CPU time is their own. [`runner`] interleaves the runs of several
//! [`Subject`]s and [`report`] prints medians, spreads and ratios, as a table and as JSON.
//!
//! [`nfs`] holds Ropewalk itself as a subject: a cluster of the real program, started for each run. [`goals`] puts the
//! two together: the rows that the project has set itself goals for.
//!
//! [`peer`] is another server for the same requests, nfs-ganesha; [`disk`] is what both stand on when their durability counts.
//!
//! [`copies`] compares one copy, two, and file systems of others that keep two.
//!
//! [`mount`] is what one person feels at a mount, by ordinary calls.
//!
//! [`suite`] reruns the published experiments, against Ropewalk or any other server or mounted file system.
//!
//! Entry points: [`cli::run`], [`runner::compare`], [`goals::run`], [`suite::run`].
#![forbid(unsafe_code)]

pub mod bare;
pub mod cli;
pub mod copies;
pub mod disk;
mod error;
pub mod goals;
pub mod interrupt;
pub mod load;
pub mod mount;
pub mod net;
pub mod nfs;
mod own;
pub mod pattern;
pub mod peer;
pub mod process;
pub mod recovery;
pub mod report;
pub mod runner;
pub mod serve;
pub mod suite;

pub use error::BenchError;

use hdrhistogram::Histogram;
use load::Load;
use serde_json::Value;
use std::time::Duration;

/// Something that can be measured: a server of some kind together with the requests made to it.
pub trait Subject {
    /// Its name in tables: short, the same in every run.
    fn name(&self) -> String;

    /// What of its configuration a reader must know to repeat the run.
    fn settings(&self) -> Value;

    /// One run: everything that is not measured (starting, connecting, warming up) happens inside.
    ///
    /// # Errors
    /// Whatever kept the run from being a measurement, wrong bytes included.
    fn run(&mut self, load: &Load) -> Result<Sample, BenchError>;
}

/// The result of one run.
#[derive(Debug, Clone)]
pub struct Sample {
    /// Requests that began and ended inside the measured time.
    pub requests_count: u64,
    /// Payload bytes of those requests.
    pub payload_bytes: u64,
    /// The measured time.
    pub elapsed: Duration,
    /// Time of each request in nanoseconds.
    pub latency_ns: Histogram<u64>,
    /// User and system CPU time of the serving processes in the measured time.
    pub server_cpu: Duration,
    /// User and system CPU time of the measuring process in the measured time. For a subject inside this process it is
    /// the same as `server_cpu`.
    pub client_cpu: Duration,
    /// Share of the machine's processors that had nothing to do in the measured time; none when that is not known.
    pub machine_idle: Option<f64>,
    /// Resident memory of the metadata server for each idle session; none where nobody looked.
    pub rss_bytes_per_session: Option<f64>,
}
