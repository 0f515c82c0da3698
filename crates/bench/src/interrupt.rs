//! A signal that asks for an end: measurements stop between two runs, and what they own goes with them.
//!
//! Every command of the benchmarks that owns more than processes (a folder, a mount) calls [`watch`]. The first SIGINT
//! or SIGTERM then sets a flag that [`check`] sees, and kills the load generators, for which their parent may be
//! waiting. A later one ends the process. A terminal signals the servers too, which end by themselves.

use crate::{BenchError, load};
use rustix::process::{Pid, Signal, kill_process};
use std::process::Child;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};
use tokio::signal::unix::{SignalKind, signal};

static WATCHED: AtomicBool = AtomicBool::new(false);
static INTERRUPTED: AtomicBool = AtomicBool::new(false);
/// Processes that the first signal kills.
static KILLED: Mutex<Vec<Pid>> = Mutex::new(Vec::new());
/// Exit code after a signal, as shells have it for SIGINT.
const EXIT_CODE: i32 = 130;
/// How often [`came`] looks.
const CAME_POLL: Duration = Duration::from_millis(20);
/// What follows sooner is the same wish: some programs signal a process and then its group.
const SAME_SIGNAL: Duration = Duration::from_secs(1);

/// From now on the first signal sets the flag. Again is harmless.
///
/// # Errors
/// When signals cannot be watched.
pub fn watch() -> Result<(), BenchError> {
    if WATCHED.swap(true, Ordering::AcqRel) {
        return Ok(());
    }
    let doing = BenchError::io("watch signals");
    let runtime = load::runtime()?;
    let inside = runtime.enter();
    let mut interrupt = signal(SignalKind::interrupt()).map_err(&doing)?;
    let mut terminate = signal(SignalKind::terminate()).map_err(&doing)?;
    drop(inside);
    let wait = async move {
        let mut first: Option<Instant> = None;
        loop {
            tokio::select! {
                _ = interrupt.recv() => {}
                _ = terminate.recv() => {}
            }
            match first {
                None => {
                    first = Some(Instant::now());
                    INTERRUPTED.store(true, Ordering::Release);
                    for pid in killed().iter() {
                        // Fails only when it has gone by itself.
                        let _ = kill_process(*pid, Signal::KILL);
                    }
                    eprintln!("stopping; once more ends at once and leaves files behind");
                }
                Some(at) if at.elapsed() < SAME_SIGNAL => {}
                Some(_) => std::process::exit(EXIT_CODE),
            }
        }
    };
    std::thread::spawn(move || runtime.block_on(wait));
    Ok(())
}

/// An error once a signal came.
///
/// # Errors
/// [`BenchError::Interrupted`].
pub fn check() -> Result<(), BenchError> {
    if INTERRUPTED.load(Ordering::Acquire) {
        return Err(BenchError::Interrupted);
    }
    Ok(())
}

/// Returns soon after a signal came.
pub(crate) async fn came() {
    while check().is_ok() {
        tokio::time::sleep(CAME_POLL).await;
    }
}

fn killed() -> MutexGuard<'static, Vec<Pid>> {
    KILLED.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Marks a child to be killed by the first signal, or at once when that has come. To be dropped before the child is waited for: until then its number
/// belongs to no other process.
#[derive(Debug)]
pub(crate) struct Mark(Option<Pid>);

impl Mark {
    pub(crate) fn new(child: &Child) -> Self {
        let pid = i32::try_from(child.id()).ok().and_then(Pid::from_raw);
        let mut killed = killed();
        killed.extend(pid);
        if let (Some(pid), true) = (pid, INTERRUPTED.load(Ordering::Acquire)) {
            // Fails only when it has gone by itself.
            let _ = kill_process(pid, Signal::KILL);
        }
        Self(pid)
    }
}

impl Drop for Mark {
    fn drop(&mut self) {
        killed().retain(|pid| Some(*pid) != self.0);
    }
}
