//! A signal that asks for an end: measurements stop between two runs, and what they own goes with them.
//!
//! Most commands of the benchmarks leave this to the system, which ends the process at once. One that owns more than processes (a mount) calls
//! [`watch`]; the first SIGINT or SIGTERM then only sets a flag that [`check`] sees, a later one ends the process.

use crate::{BenchError, load};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};
use tokio::signal::unix::{SignalKind, signal};

static WATCHED: AtomicBool = AtomicBool::new(false);
static INTERRUPTED: AtomicBool = AtomicBool::new(false);
/// Exit code after a signal, as shells have it for SIGINT.
const EXIT_CODE: i32 = 130;
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
