//! One server process: started, watched, started again when it dies, and stopped.
//!
//! # Ownership
//! The child's standard input is a pipe whose other end we hold: when we die in any way the pipe closes and the
//! child stops by itself. Its standard error goes to `log` in its directory.
//!
//! # Ordering
//! A stop is SIGTERM, then SIGKILL after [`STOP_GRACE`]. Children are in process groups of their own, so
//! that Ctrl-C in a terminal reaches us alone and we choose the order.
//!
//! # Failure
//! A child that ends by itself is started again after a pause that doubles up to [`BACKOFF_MAX`], and is short
//! again once it has lived for [`STABLE_AFTER`]; one that was expelled stays down.

use crate::daemon::STOP_MAX;
use crate::failure::{EXIT_EXPELLED, Outcome, cannot};
use rustix::process::{Pid, Signal, kill_process};
use std::fs::{File, OpenOptions};
use std::io::{Read, Seek, SeekFrom};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::process::{ExitStatus, Stdio};
use std::time::Duration;
use tokio::process::{Child, Command};
use tokio::sync::mpsc;
use tokio::time::Instant;
use transport::workers::{Shutdown, ShutdownSignal};

/// A child that was asked to stop and runs on after this is killed.
const STOP_GRACE: Duration = STOP_MAX.saturating_add(Duration::from_secs(2));
/// First and longest pause before a child is started again.
const BACKOFF_MIN: Duration = Duration::from_millis(200);
const BACKOFF_MAX: Duration = Duration::from_secs(10);
/// A child that lived so long is well again.
const STABLE_AFTER: Duration = Duration::from_secs(60);
/// A log that is longer is moved to `log.1`.
const LOG_BYTES_MAX: u64 = 16 * 1024 * 1024;
/// How often its length is looked at.
const LOG_CHECK: Duration = Duration::from_secs(30);
/// Bytes of a log that are searched for its last line.
const LOG_TAIL_BYTES: u64 = 4096;

/// What to start.
#[derive(Debug, Clone)]
pub(crate) struct ChildSpec {
    /// Name for people: `mds`, `ds-1`, ...
    pub name: String,
    /// Subcommand: `mds` or `ds`.
    pub role: &'static str,
    /// Configuration file.
    pub config: PathBuf,
    /// Where its standard error goes.
    pub log: PathBuf,
}

/// Something that happened to a child.
#[derive(Debug)]
pub(crate) enum Event {
    /// It ended by itself and is started again after `pause`.
    Died {
        /// Its name.
        name: String,
        /// How it ended.
        how: String,
        /// The last line of its log.
        last_line: String,
        /// When it is started again.
        pause: Duration,
    },
    /// It ended because the cluster has expelled it, and is not started again.
    Expelled {
        /// Its name.
        name: String,
    },
    /// It could not be started.
    NotStarted {
        /// Its name.
        name: String,
        /// Why.
        why: String,
    },
}

/// A child that is kept running.
pub(crate) struct Supervised {
    stop: Shutdown,
    task: tokio::task::JoinHandle<()>,
}

impl Supervised {
    /// Starts the child now; an error is that of the first start.
    pub(crate) fn start(spec: ChildSpec, events: mpsc::Sender<Event>) -> Outcome<Self> {
        let first = spawn(&spec)?;
        let stop = Shutdown::new();
        let task = tokio::spawn(supervise(spec, first, events, stop.signal()));
        Ok(Self { stop, task })
    }

    /// Stops the child and waits until it is gone.
    pub(crate) async fn stop(self) {
        self.stop.trigger();
        let _ = self.task.await;
    }
}

async fn supervise(
    spec: ChildSpec,
    first: Child,
    events: mpsc::Sender<Event>,
    stop: ShutdownSignal,
) {
    let mut running = Some(first);
    let mut backoff = BACKOFF_MIN;
    loop {
        let started = Instant::now();
        if let Some(mut child) = running.take() {
            // Waiting would close it, and the child would take us for gone.
            let _lifeline = child.stdin.take();
            let ended = tokio::select! {
                ended = watch_child(&mut child, &spec.log) => ended,
                () = stop.wait() => return terminate(child).await,
            };
            if started.elapsed() >= STABLE_AFTER {
                backoff = BACKOFF_MIN;
            }
            let expelled = Some(i32::from(EXIT_EXPELLED));
            if ended.as_ref().is_ok_and(|status| status.code() == expelled) {
                let name = spec.name;
                let _ = events.send(Event::Expelled { name }).await;
                return;
            }
            let how = ended.map_or_else(|e| e.to_string(), |status| status.to_string());
            let (name, last_line) = (spec.name.clone(), last_line(&spec.log));
            let _ = events
                .send(Event::Died {
                    name,
                    how,
                    last_line,
                    pause: backoff,
                })
                .await;
        }
        tokio::select! {
            () = tokio::time::sleep(backoff) => {}
            () = stop.wait() => return,
        }
        backoff = (backoff * 2).min(BACKOFF_MAX);
        match spawn(&spec) {
            Ok(child) => running = Some(child),
            Err(e) => {
                let (name, why) = (spec.name.clone(), e.to_string());
                let _ = events.send(Event::NotStarted { name, why }).await;
            }
        }
    }
}

/// Waits for the end of a child and keeps its log short meanwhile.
async fn watch_child(child: &mut Child, log: &Path) -> std::io::Result<ExitStatus> {
    loop {
        tokio::select! {
            ended = child.wait() => return ended,
            () = tokio::time::sleep(LOG_CHECK) => shorten(log),
        }
    }
}

async fn terminate(mut child: Child) {
    if let Some(pid) = child.id().and_then(|id| Pid::from_raw(id.cast_signed())) {
        // It may have ended in this moment; wait says so.
        let _ = kill_process(pid, Signal::TERM);
    }
    if tokio::time::timeout(STOP_GRACE, child.wait())
        .await
        .is_err()
    {
        let _ = child.kill().await;
    }
}

fn spawn(spec: &ChildSpec) -> Outcome<Child> {
    let what = format!("start {}", spec.name);
    shorten(&spec.log);
    let log = OpenOptions::new()
        .create(true)
        .append(true)
        .mode(0o600)
        .open(&spec.log)
        .map_err(cannot(format_args!("write {}", spec.log.display())))?;
    // This very program, also when its file was replaced meanwhile by an upgrade.
    Command::new("/proc/self/exe")
        .arg0("ropewalk")
        .arg(spec.role)
        .arg("--config")
        .arg(&spec.config)
        .arg("--exit-with-parent")
        .stdin(Stdio::piped())
        .stdout(Stdio::null())
        .stderr(log)
        .process_group(0)
        .kill_on_drop(true)
        .spawn()
        .map_err(cannot(&what))
}

/// Moves a long log aside. The child appends, so it goes on at the start of the emptied file.
fn shorten(log: &Path) {
    let long = std::fs::metadata(log).is_ok_and(|m| m.len() > LOG_BYTES_MAX);
    if long && std::fs::copy(log, log.with_extension("1")).is_ok() {
        let _ = OpenOptions::new()
            .write(true)
            .open(log)
            .and_then(|file| file.set_len(0));
    }
}

/// The last line of a log, without what the logger puts before a sentence of ours.
pub(crate) fn last_line(log: &Path) -> String {
    let tail = || {
        let mut file = File::open(log)?;
        let len = file.metadata()?.len();
        file.seek(SeekFrom::Start(len.saturating_sub(LOG_TAIL_BYTES)))?;
        let mut bytes = Vec::new();
        file.take(LOG_TAIL_BYTES).read_to_end(&mut bytes)?;
        Ok::<_, std::io::Error>(String::from_utf8_lossy(&bytes).into_owned())
    };
    let text = tail().unwrap_or_default();
    let line = text
        .lines()
        .rev()
        .find(|l| !l.trim().is_empty())
        .unwrap_or("no log");
    line.strip_prefix("ropewalk: ")
        .unwrap_or(line)
        .trim()
        .to_owned()
}
