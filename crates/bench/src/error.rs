//! What keeps a run from being a measurement.

use meta::MetaError;
use std::path::PathBuf;

/// A failed run. None is worth a retry: a measurement with failures in it is none.
#[derive(Debug)]
pub enum BenchError {
    /// A call of the operating system failed.
    Io {
        /// What was being done.
        doing: &'static str,
        /// Why it failed.
        source: std::io::Error,
    },
    /// The server answered, but not with the bytes that were asked for.
    WrongBytes {
        /// Offset in the file or the message of the first wrong byte.
        offset: u64,
    },
    /// The server refused a request.
    Refused,
    /// The server process did not say that it is ready.
    NotReady,
    /// There is no `ropewalk` to measure at this path.
    NoRopewalk(PathBuf),
    /// The cluster under test did not start, or did not go on.
    Cluster(String),
    /// The server that is compared with did not start.
    Peer(String),
    /// A file system for a comparison could not be made.
    Disk(String),
    /// Links with a cap could not be made.
    Links(String),
    /// The kernel that mounts servers could not be started, or did not do its work.
    Guest(String),
    /// A signal came.
    Interrupted,
    /// A request to the cluster under test failed.
    Nfs {
        /// What was being done.
        doing: &'static str,
        /// Why it failed.
        why: String,
    },
    /// The metadata store failed.
    Store(MetaError),
    /// A load generator failed.
    Worker(String),
    /// The parent of this load generator has gone.
    Alone,
    /// A report could not be made.
    Report(String),
    /// Data that are kept in memory have no room there.
    Memory {
        /// What they take.
        needed_bytes: u64,
        /// What there is.
        available_bytes: u64,
    },
    /// Connections need more open files than are allowed.
    Files {
        /// How many they need.
        needed: u64,
        /// The hard limit.
        allowed: u64,
    },
    /// Cells of a suite that could not be measured.
    Cells {
        /// How many.
        cells_count: usize,
    },
    /// A repeat of an experiment failed after others had been measured.
    Repeat {
        /// Which, from 1.
        repeat: u16,
        /// Of so many.
        repeats: u16,
        /// Why.
        why: Box<BenchError>,
    },
    /// A setting is outside of what can be measured.
    Setting {
        /// Its name.
        name: &'static str,
        /// What it must be.
        must_be: &'static str,
    },
}

impl BenchError {
    /// For `map_err`: an I/O error with what was being done.
    pub fn io(doing: &'static str) -> impl Fn(std::io::Error) -> Self {
        move |source| Self::Io { doing, source }
    }

    /// For `map_err`: a failed NFS request with what was being done.
    pub fn nfs<E: std::fmt::Display>(doing: &'static str) -> impl Fn(E) -> Self {
        move |why| Self::Nfs {
            doing,
            why: why.to_string(),
        }
    }
}

impl std::fmt::Display for BenchError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Io { doing, source } => write!(f, "cannot {doing}: {source}"),
            Self::WrongBytes { offset } => {
                write!(
                    f,
                    "the server sent wrong bytes, the first at offset {offset}"
                )
            }
            Self::Refused => write!(f, "the server refused a request"),
            Self::NotReady => write!(f, "the server process ended before it was ready"),
            Self::NoRopewalk(path) => write!(
                f,
                "no program {}: build it with `cargo build -p ropewalk`, or name it with --ropewalk",
                path.display()
            ),
            Self::Cluster(why) => write!(f, "the cluster under test: {why}"),
            Self::Peer(why) => write!(f, "the server that is compared with: {why}"),
            Self::Disk(why) => write!(f, "cannot make a file system: {why}"),
            Self::Links(why) => write!(f, "links with a cap: {why}"),
            Self::Guest(why) => write!(f, "the kernel that mounts: {why}"),
            Self::Interrupted => write!(f, "interrupted"),
            Self::Nfs { doing, why } => write!(f, "cannot {doing}: {why}"),
            Self::Store(error) => write!(f, "{error}"),
            Self::Worker(why) => write!(f, "a load generator failed: {why}"),
            Self::Alone => write!(f, "the parent of this load generator has gone"),
            Self::Report(why) => write!(f, "cannot make the report: {why}"),
            Self::Memory {
                needed_bytes,
                available_bytes,
            } => write!(
                f,
                "its data take {} of memory, and {} are left: measure with --cluster store=disk",
                gib(*needed_bytes),
                gib(*available_bytes)
            ),
            Self::Files { needed, allowed } => write!(
                f,
                "so many connections need {needed} open files, and the hard limit is {allowed}: raise it (as root: ulimit -n {needed}), or \
                 measure fewer with --quick"
            ),
            Self::Cells { cells_count } => {
                write!(
                    f,
                    "{cells_count} points could not be measured; the reports say why"
                )
            }
            Self::Repeat {
                repeat,
                repeats,
                why,
            } => write!(
                f,
                "repeat {repeat} of {repeats} failed, the reports have those before it: {why}"
            ),
            Self::Setting { name, must_be } => write!(f, "{name} must be {must_be}"),
        }
    }
}

fn gib(bytes: u64) -> String {
    let tenths = bytes / ((1 << 30) / 10);
    format!("{}.{} GiB", tenths / 10, tenths % 10)
}

impl std::error::Error for BenchError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            Self::Io { source, .. } => Some(source),
            Self::Store(error) => Some(error),
            Self::Repeat { why, .. } => Some(why.as_ref()),
            _ => None,
        }
    }
}

impl From<MetaError> for BenchError {
    fn from(error: MetaError) -> Self {
        Self::Store(error)
    }
}
