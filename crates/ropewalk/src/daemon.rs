//! What every server process does around its service: logs, limits, listeners, signals, its state directory.
//!
//! # Ownership
//! A [`StateDir`] is locked while the process lives: two servers never share one.
//!
//! # Failure
//! Everything here fails before anything is served, with one sentence that names the directory, the port or
//! the option to change.

use crate::config::Connections;
use crate::failure::{Outcome, cannot, failed};
use crate::rdma::RdmaListen;
use crate::status::{RDMA_ROWS_MAX, RdmaRow};
use rustix::fs::FlockOperation;
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use std::collections::BTreeMap;
use std::fs::{DirBuilder, File, OpenOptions};
use std::io::{Read, Write};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};
use tokio::signal::unix::{Signal, SignalKind, signal};
use transport::rdma::Traffic;
use transport::tcp::Listener;
use transport::workers::{Shutdown, Workers, spawn_workers};
use transport::{Context, CountersSnapshot, DynService, TransportLimits};

/// Signal of a write beyond the file size limit (signal(7)).
const SIGXFSZ: i32 = 25;
/// Descriptors kept beside those of the connections of clients. The data server has its 256 directories, 512 idle and
/// some busy objects. The metadata server has the connections from and to 1,000 data servers. Both have the files of a
/// store.
const FILES_RESERVED: u64 = 4096;
/// Most worker threads that a configuration may ask for.
pub(crate) const WORKERS_MAX: usize = 256;
/// A process that has not stopped so long after it was asked to ends anyway; the stores survive that.
pub(crate) const STOP_MAX: Duration = Duration::from_secs(20);

/// The file in a state directory that a server locks; its pid is in it.
pub(crate) const LOCK_NAME: &str = "process.lock";
/// How long a server waits for the lock of the process that it replaces, and how often it looks.
const LOCK_WAIT_MAX: Duration = Duration::from_secs(2);
const LOCK_POLL: Duration = Duration::from_millis(20);

/// The limits of a server's transport: as many connections as configured, or fewer when too few files may be open for them. A
/// server without descriptors fails at its own files first. Raises the limit of open files as far as needed and allowed.
pub(crate) fn transport_limits(configured: &Connections) -> TransportLimits {
    let files = raise_nofile(files_wanted(configured));
    let possible = connections_possible(files);
    if possible < configured.max {
        tracing::warn!(
            connections_max = possible,
            configured = configured.max,
            open_files = files,
            "few open files are allowed; raise the hard limit (ulimit -Hn)"
        );
    }
    let connections_max = configured.max.min(possible);
    let quarter = connections_max.div_ceil(4);
    TransportLimits {
        connections_max,
        connections_per_address_max: configured.per_address_max.unwrap_or(quarter),
        busy_poll: Duration::from_micros(u64::from(configured.busy_poll_us)),
        idle: configured.idle_close,
        ..TransportLimits::default()
    }
}

/// Open files that so many connections need, those of the server itself included.
pub(crate) fn files_wanted(configured: &Connections) -> u64 {
    u64::from(configured.max) + FILES_RESERVED
}

/// Connections beside which the server's own files can be opened.
pub(crate) fn connections_possible(files: u64) -> u32 {
    let left = files.saturating_sub(FILES_RESERVED).max(files / 2).max(1);
    u32::try_from(left).unwrap_or(u32::MAX)
}

/// Raises the soft limit of open files to `wanted`, or as far as it goes, and returns what it is then.
fn raise_nofile(wanted: u64) -> u64 {
    let limit = getrlimit(Resource::Nofile);
    let current = limit.current.unwrap_or(u64::MAX);
    let reachable = wanted.min(limit.maximum.unwrap_or(u64::MAX));
    if current >= reachable {
        return current;
    }
    let raised = Rlimit {
        current: Some(reachable),
        maximum: limit.maximum,
    };
    match setrlimit(Resource::Nofile, raised) {
        Ok(()) => reachable,
        Err(error) => {
            tracing::warn!(%error, limit = current, "the limit of open files stays low");
            current
        }
    }
}

/// The signals that a server listens to.
pub(crate) struct Signals {
    terminate: Signal,
    interrupt: Signal,
    /// Registered so that a write beyond the file size limit is an error (EFBIG) and not the end.
    _file_size: Signal,
}

impl Signals {
    /// Takes the signals over. Needs a runtime.
    pub(crate) fn take() -> Outcome<Self> {
        let on = |kind| signal(kind).map_err(cannot("listen to signals"));
        Ok(Self {
            terminate: on(SignalKind::terminate())?,
            interrupt: on(SignalKind::interrupt())?,
            _file_size: on(SignalKind::from_raw(SIGXFSZ))?,
        })
    }

    /// Waits for SIGTERM or SIGINT and names it.
    pub(crate) async fn stop(&mut self) -> &'static str {
        tokio::select! {
            _ = self.terminate.recv() => "SIGTERM",
            _ = self.interrupt.recv() => "SIGINT",
        }
    }
}

/// Ends when standard input does: the parent that held the other end is gone.
pub(crate) async fn parent_gone() {
    let (tell, told) = tokio::sync::oneshot::channel();
    // A thread, since a pending read of standard input would keep the runtime from ending.
    std::thread::spawn(move || {
        let mut byte = [0];
        while matches!(std::io::stdin().read(&mut byte), Ok(1)) {}
        let _ = tell.send(());
    });
    let _ = told.await;
}

/// Waits for the reason to stop: a signal, or the end of the parent.
///
/// # Errors
/// When a worker failed.
pub(crate) async fn until_stopped(
    signals: &mut Signals,
    exit_with_parent: bool,
    shutdown: &Shutdown,
) -> Outcome<&'static str> {
    let parent = async {
        if exit_with_parent {
            parent_gone().await;
        } else {
            std::future::pending::<()>().await;
        }
    };
    let worker = shutdown.signal();
    tokio::select! {
        name = signals.stop() => Ok(name),
        () = parent => Ok("the parent is gone"),
        () = worker.wait() => Err(failed("a worker cannot serve; the log says why")),
    }
}

/// Runs the end of a server, bounded: a second signal or `limit` ends it early, which the stores survive.
pub(crate) async fn stop_in_time<T>(
    signals: &mut Signals,
    limit: Duration,
    stop: impl Future<Output = T>,
) -> Outcome<T> {
    tokio::select! {
        done = stop => Ok(done),
        name = signals.stop() => Err(failed(format!("{name} while stopping: ended at once"))),
        () = tokio::time::sleep(limit) => Err(failed("stopping took too long: ended at once")),
    }
}

/// Transport counters by name, the reasons of closed connections included.
pub(crate) fn named(counters: CountersSnapshot) -> BTreeMap<String, u64> {
    let closes = transport::CloseReason::ALL
        .into_iter()
        .map(|reason| {
            (
                format!("closed_{}", reason.as_str()),
                counters.closes_for(reason),
            )
        })
        .filter(|(_, n)| *n > 0);
    let plain = counters
        .named()
        .into_iter()
        .map(|(name, n)| (name.to_owned(), n));
    plain.chain(closes).collect()
}

/// Operations by name, those never asked for left out.
pub(crate) fn operations(counters: &server::Counters) -> BTreeMap<String, u64> {
    counters
        .by_op()
        .map(|(op, n)| (format!("{op:?}"), n))
        .collect()
}

/// The directory of a server's durable state, locked.
#[derive(Debug)]
pub(crate) struct StateDir {
    path: PathBuf,
    _lock: File,
}

impl StateDir {
    /// Makes the directory when there is none (mode 0700) and locks it.
    pub(crate) fn take(path: &Path) -> Outcome<Self> {
        Self::take_within(Duration::ZERO, path)
    }

    /// The same; waits at most [`LOCK_WAIT_MAX`] for a process that is about to be gone.
    pub(crate) fn take_over(path: &Path) -> Outcome<Self> {
        Self::take_within(LOCK_WAIT_MAX, path)
    }

    fn take_within(wait: Duration, path: &Path) -> Outcome<Self> {
        make_dir(path)?;
        let lock_path = path.join(LOCK_NAME);
        let mut lock = OpenOptions::new()
            .create(true)
            .truncate(false)
            .read(true)
            .write(true)
            .mode(0o600)
            .open(&lock_path)
            .map_err(cannot(format_args!(
                "write to directory {}",
                path.display()
            )))?;
        let end = Instant::now() + wait;
        while rustix::fs::flock(&lock, FlockOperation::NonBlockingLockExclusive).is_err() {
            if Instant::now() < end {
                std::thread::sleep(LOCK_POLL);
                continue;
            }
            let mut pid = String::new();
            let _ = (&mut lock).take(32).read_to_string(&mut pid);
            return Err(failed(format!(
                "directory {} is in use by another ropewalk process (pid {})",
                path.display(),
                pid.trim()
            )));
        }
        // The pid is for people; the lock is what counts.
        let _ = lock
            .set_len(0)
            .and_then(|()| writeln!(lock, "{}", std::process::id()));
        Ok(Self {
            path: path.to_owned(),
            _lock: lock,
        })
    }

    /// Where it is.
    pub(crate) fn path(&self) -> &Path {
        &self.path
    }
}

impl Drop for StateDir {
    fn drop(&mut self) {
        // While the lock is held nobody else's socket can be there. One that a killed server leaves says that it is down.
        let _ = std::fs::remove_file(self.path.join(crate::admin::SOCKET_NAME));
    }
}

/// Makes a directory for state, and its parents.
pub(crate) fn make_dir(path: &Path) -> Outcome {
    DirBuilder::new()
        .recursive(true)
        .mode(0o700)
        .create(path)
        .map_err(cannot(format_args!("make directory {}", path.display())))
}

/// Worker threads for a configured number; 0 means one for each core.
pub(crate) fn workers_count(configured: usize) -> usize {
    let cores = || std::thread::available_parallelism().map_or(1, usize::from);
    if configured == 0 { cores() } else { configured }.min(WORKERS_MAX)
}

/// A service that is being served.
pub(crate) struct Serving {
    workers: Workers,
    contexts: Vec<Context>,
    rdma: RdmaListen,
}

impl Serving {
    /// Starts one thread for each set of listeners. Each listens for RDMA too.
    pub(crate) fn start(
        name: &str,
        listeners: Vec<Vec<Listener>>,
        rdma: RdmaListen,
        service: Arc<dyn DynService>,
        context: &Context,
        shutdown: &Shutdown,
    ) -> Outcome<Self> {
        let contexts: Vec<Context> = listeners.iter().map(|_| context.sibling()).collect();
        let count = listeners.len();
        let places: Vec<_> = listeners
            .into_iter()
            .zip(contexts.iter().cloned())
            .collect();
        let places = parking_lot::Mutex::new(places.into_iter().map(Some).collect::<Vec<_>>());
        let (shutdown, listening) = (shutdown.clone(), rdma.clone());
        let workers = spawn_workers(count, name, move |index| {
            let place = places.lock()[index].take();
            let (service, stop) = (Arc::clone(&service), shutdown.signal());
            let (shutdown, rdma) = (shutdown.clone(), rdma.clone());
            async move {
                let (sockets, context) = place.expect("each worker takes its own place once");
                let check = |served: std::io::Result<()>| {
                    if let Err(error) = served {
                        tracing::error!(%error, "a worker cannot serve");
                        shutdown.trigger();
                    }
                };
                let rdma = rdma.serve(Arc::clone(&service), context.clone(), stop.clone());
                let tcp = transport::tcp::serve(sockets, service, context, stop);
                tokio::join!(async { check(tcp.await) }, async { check(rdma.await) });
            }
        })
        .map_err(cannot("start worker threads"))?;
        Ok(Self {
            workers,
            contexts,
            rdma: listening,
        })
    }

    /// What the transport counted, and the connections that are open.
    pub(crate) fn transport(&self) -> TransportView {
        TransportView {
            contexts: self.contexts.clone(),
            rdma: self.rdma.clone(),
        }
    }

    /// Waits until every worker has drained and ended.
    pub(crate) async fn ended(self) {
        let joined = tokio::task::spawn_blocking(move || self.workers.join()).await;
        if joined.is_ok_and(|panicked| panicked == 0) {
            return;
        }
        tracing::error!("a worker thread panicked");
    }
}

/// The transport counters of a server.
#[derive(Clone)]
pub(crate) struct TransportView {
    contexts: Vec<Context>,
    rdma: RdmaListen,
}

impl TransportView {
    /// All that it knows, by name.
    pub(crate) fn named(&self) -> BTreeMap<String, u64> {
        let mut named = named(self.counters());
        if let Some((lent, stock)) = self.rdma.credits_lent() {
            named.insert("rdma_credits_lent".to_owned(), lent.into());
            named.insert("rdma_credits_stock".to_owned(), stock.into());
            let free = self.rdma.free_bulk_bytes() as u64;
            named.insert("rdma_bulk_free_bytes".to_owned(), free);
        }
        named
    }

    /// The sum over all workers.
    pub(crate) fn counters(&self) -> CountersSnapshot {
        let mut sum = CountersSnapshot::default();
        for context in &self.contexts {
            sum += context.counters().snapshot();
        }
        sum
    }

    /// The RDMA connections that have carried most.
    pub(crate) fn rdma_busiest(&self) -> Vec<RdmaRow> {
        let mut all = self
            .contexts
            .first()
            .map_or(Vec::new(), Context::rdma_traffic);
        let bytes = |traffic: &Traffic| traffic.carried.bytes_in + traffic.carried.bytes_out;
        all.sort_by_key(|traffic| std::cmp::Reverse(bytes(traffic)));
        all.truncate(RDMA_ROWS_MAX);
        all.iter().map(RdmaRow::from).collect()
    }

    /// Connections that are open now.
    pub(crate) fn connections(&self) -> u32 {
        self.contexts.first().map_or(0, Context::connections)
    }
}

/// A random number from the operating system.
pub(crate) fn random_u64() -> u64 {
    getrandom::u64().expect("the operating system has randomness after boot")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn connections_leave_descriptors_to_the_stores() {
        for (files, connections) in [
            (65_536, 61_440),
            (20_000, 15_904),
            (4096, 2048),
            (1024, 512),
            (1, 1),
            (u64::MAX, u32::MAX),
        ] {
            assert_eq!(connections_possible(files), connections, "{files}");
        }
    }
}
