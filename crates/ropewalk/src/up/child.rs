//! One server process: started, watched, started again when it dies, and stopped.
//!
//! # Ownership
//! The child's standard input is a pipe whose other end we hold. When we die in any way, the pipe closes and the child
//! stops by itself. Its standard error goes to `log` in its directory.
//!
//! # Ordering
//! A stop is SIGTERM, then SIGKILL after [`STOP_GRACE`]. Children are in process groups of their own, so
//! that Ctrl-C in a terminal reaches us alone and we choose the order.
//!
//! # Failure
//! A child that ends by itself is started again after a pause ([`Backoff`]). An expelled one stays down. A data server is a
//! pair that watches itself (`watch`), so here its end is that of both.

use crate::backoff::{BACKOFF_MIN, Backoff};
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

/// A child that was asked to stop and runs on after this is killed. A data server has killed its own child before.
const STOP_GRACE: Duration = STOP_MAX.saturating_add(Duration::from_secs(4));
/// A log that is longer is moved to `log.1`.
const LOG_BYTES_MAX: u64 = 16 * 1024 * 1024;
/// How often its length is looked at.
const LOG_CHECK: Duration = Duration::from_secs(30);
/// Bytes of a log that are searched for last words.
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
        /// What it said of its end, if anything.
        last_words: Option<String>,
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

    /// Kills the child and `serving`, the process that it watches. Neither is started again.
    pub(crate) async fn lose(self, serving: Pid) {
        // The watcher ends first, or it would start another one. Its task kills it when dropped.
        self.task.abort();
        let _ = self.task.await;
        // It may have ended with its watcher.
        let _ = kill_process(serving, Signal::KILL);
    }
}

async fn supervise(
    spec: ChildSpec,
    first: Life,
    events: mpsc::Sender<Event>,
    stop: ShutdownSignal,
) {
    let mut running = Some(first);
    let mut backoff = Backoff::new(BACKOFF_MIN);
    loop {
        let started = Instant::now();
        let mut died = None;
        if let Some(Life {
            mut child,
            log_from,
        }) = running.take()
        {
            // Waiting would close it, and the child would take us for gone.
            let _lifeline = child.stdin.take();
            let ended = tokio::select! {
                ended = watch_child(&mut child, &spec.log) => ended,
                () = stop.wait() => return terminate(child).await,
            };
            let expelled = Some(i32::from(EXIT_EXPELLED));
            if ended.as_ref().is_ok_and(|status| status.code() == expelled) {
                let name = spec.name;
                let _ = events.send(Event::Expelled { name }).await;
                return;
            }
            let how = ended.map_or_else(|e| e.to_string(), |status| status.to_string());
            died = Some((how, last_words(&spec.log, log_from)));
        }
        let pause = backoff.after(started.elapsed());
        if let Some((how, last_words)) = died {
            let name = spec.name.clone();
            let event = Event::Died {
                name,
                how,
                last_words,
                pause,
            };
            let _ = events.send(event).await;
        }
        tokio::select! {
            () = tokio::time::sleep(pause) => {}
            () = stop.wait() => return,
        }
        match spawn(&spec) {
            Ok(life) => running = Some(life),
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

/// A child that runs.
struct Life {
    child: Child,
    /// Bytes of its log that earlier lives wrote.
    log_from: u64,
}

fn spawn(spec: &ChildSpec) -> Outcome<Life> {
    let what = format!("start {}", spec.name);
    shorten(&spec.log);
    let log = OpenOptions::new()
        .create(true)
        .append(true)
        .mode(0o600)
        .open(&spec.log)
        .map_err(cannot(format_args!("write {}", spec.log.display())))?;
    let log_from = log.metadata().map_or(0, |m| m.len());
    // This very program, also when its file was replaced meanwhile by an upgrade.
    let mut command = Command::new("/proc/self/exe");
    // They are ours, if anybody's.
    for variable in systemd::ENVIRONMENT {
        command.env_remove(variable);
    }
    let child = command
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
        .map_err(cannot(&what))?;
    Ok(Life { child, log_from })
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

/// What a process said of its own end. It is the last line after byte `from` of its log that is no message of a running
/// server, but for errors. A process that was killed says nothing.
fn last_words(log: &Path, from: u64) -> Option<String> {
    let tail = || {
        let mut file = File::open(log)?;
        let len = file.metadata()?.len();
        // The log may have been shortened since.
        let from = if from > len { 0 } else { from };
        file.seek(SeekFrom::Start(
            from.max(len.saturating_sub(LOG_TAIL_BYTES)),
        ))?;
        let mut bytes = Vec::new();
        file.take(LOG_TAIL_BYTES).read_to_end(&mut bytes)?;
        Ok::<_, std::io::Error>(String::from_utf8_lossy(&bytes).into_owned())
    };
    let text = tail().ok()?;
    let line = text.lines().rev().find(|line| is_of_an_end(line))?;
    Some(
        line.strip_prefix("ropewalk: ")
            .unwrap_or(line)
            .trim()
            .to_owned(),
    )
}

/// Whether a line may be about the end of its process. Panics close with a note on backtraces, which says nothing.
fn is_of_an_end(line: &str) -> bool {
    let mut words = line.split_whitespace();
    let stamped = words
        .next()
        .is_some_and(|word| word.ends_with('Z') && word.starts_with(|c: char| c.is_ascii_digit()));
    let level = words.next().unwrap_or_default();
    let is_message = stamped && matches!(level, "WARN" | "INFO" | "DEBUG" | "TRACE");
    !is_message && !line.trim().is_empty() && !line.starts_with("note: ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn last_words_are_those_of_an_end_and_of_this_life() {
        let dir = tempfile::TempDir::new().expect("a directory");
        let log = dir.path().join("log");
        let info = "2026-11-25T14:54:47.068268Z  INFO ropewalk::serve_mds: serving\n";
        let error = "2026-11-25T14:54:47.068268Z ERROR ropewalk: metadata store\n";
        let old = "ropewalk: cannot listen\n";
        let panic = "thread 'main' panicked at a.rs:1:2:\nindex out of range\nnote: run with `RUST_BACKTRACE=1`\n";
        let no_library = "ropewalk: error while loading shared libraries: libx.so\n";
        for (written, words) in [
            (String::new(), None),
            (info.to_owned(), None),
            (info.to_owned() + old + info, Some("cannot listen")),
            (info.to_owned() + error, Some(error.trim())),
            (info.to_owned() + panic, Some("index out of range")),
            (
                no_library.to_owned(),
                Some("error while loading shared libraries: libx.so"),
            ),
        ] {
            let before = "ropewalk: an earlier life\n";
            std::fs::write(&log, before.to_owned() + &written).expect("written");
            let said = last_words(&log, before.len() as u64);
            assert_eq!(said.as_deref(), words, "{written}");
        }
        std::fs::write(&log, old).expect("written");
        let said = last_words(&log, 1 << 20);
        assert_eq!(said.as_deref(), Some("cannot listen"), "a shortened log");
        assert_eq!(last_words(&dir.path().join("none"), 0), None);
    }
}
