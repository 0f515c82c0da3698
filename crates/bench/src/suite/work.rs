//! What workers are to do, as data: the parameters of each kind of work, and how many work.

use serde::{Deserialize, Serialize};
use std::net::SocketAddr;

/// Where the servers are.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct BareServers {
    /// Writes ranges of its file.
    pub(crate) writes: SocketAddr,
    /// Sends ranges of its file.
    pub(crate) reads: SocketAddr,
    /// Size of each file.
    pub(crate) file_bytes: u64,
}

/// Parameters of [`super::loads::bare`].
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct BareWork {
    /// Of each request.
    pub(crate) payload_bytes: u32,
    /// Requests of each worker and phase.
    pub(crate) requests_count: u64,
    /// Time limit of a phase.
    pub(crate) limit_ms: Option<u64>,
}

/// Five doubles for each point.
pub(crate) const POINT_BYTES: u64 = 40;

/// Parameters of [`super::loads::btio`].
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct BtioWork {
    /// Points along one edge of the cube.
    pub(crate) points_count: u64,
    /// How many times the solution is written.
    pub(crate) steps_count: u64,
}

/// Parameters of [`super::loads::create`].
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct CreateWork {
    /// Rounds of each task.
    pub(crate) rounds_count: u64,
    /// Time limit.
    pub(crate) limit_ms: Option<u64>,
}

/// Parameters of [`super::loads::metadata`].
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct MetadataWork {
    /// Files of each task.
    pub(crate) files_count: u64,
    /// Whether all tasks work in one directory.
    pub(crate) one_directory: bool,
    /// Time limit of the phase that creates; the others do the same files.
    pub(crate) limit_ms: Option<u64>,
}

/// Parameters of [`super::loads::small`].
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct SmallWork {
    /// Bytes that a reply carries.
    pub(crate) payload_bytes: u32,
    /// Requests.
    pub(crate) requests_count: u64,
    /// Time limit.
    pub(crate) limit_ms: Option<u64>,
}

/// Where the next record is.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Order {
    /// One after the other.
    Sequential,
    /// Anywhere, at a multiple of the record's size.
    Random,
    /// At one of the file's units by Zipf's law over shuffled units, with a length of 1 to `units_max` units by the same law.
    Zipf {
        /// The exponent.
        alpha: f64,
        /// Longest record in units; `record_bytes` is the unit.
        units_max: u32,
    },
}

/// A phase.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Access {
    /// Write records.
    Write,
    /// Read records.
    Read,
}

impl Access {
    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::Write => "write",
            Self::Read => "read",
        }
    }
}

/// Parameters of [`super::loads::stream`].
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct StreamWork {
    /// Size of each file, a multiple of `record_bytes`.
    pub(crate) file_bytes: u64,
    /// Size of a record, or the unit of sizes.
    pub(crate) record_bytes: u32,
    /// Where records are.
    pub(crate) order: Order,
    /// Requests of one task that are in flight at the same time, as a kernel does by reading ahead and writing behind.
    pub(crate) window: u32,
    /// Phases, in order.
    pub(crate) phases: Vec<Access>,
    /// Whether the tasks of a worker share one file; each has its own otherwise.
    pub(crate) one_file: bool,
    /// Requests of each task and phase; none goes once through the file.
    pub(crate) requests_count: Option<u64>,
    /// Time limit of a phase. With `requests_count` above what can be done in it, it is the time that is measured.
    pub(crate) limit_ms: Option<u64>,
}

/// The size of the cluster at a point.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct ScaleWork {
    /// Data servers that hold no data.
    pub(crate) ds_count: u32,
    /// Idle sessions.
    pub(crate) sessions_count: u32,
}

/// Workers of a cell.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub(crate) struct Workers {
    /// Processes; each is a client of its own.
    pub(crate) processes_count: u32,
    /// Tasks of each process at the same time.
    pub(crate) tasks_count: u32,
    /// Whether they are behind a link as each server is; without a cap otherwise.
    pub(crate) behind_link: bool,
}

impl Workers {
    pub(crate) const fn processes(processes_count: u32) -> Self {
        Self {
            processes_count,
            tasks_count: 1,
            behind_link: false,
        }
    }
}
