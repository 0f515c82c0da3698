//! A power cut for tests of stores. It records what a process does to its files. In another directory it builds what a cut at
//! any point may leave. There the store must open and have all that was acknowledged.
//!
//! A test runs itself again as the workload, under ptrace(2). So it sees everything that reaches the kernel, of our own code and
//! of the engines below, and none of them needs to know. The workload says with [`ack`] what it acknowledges.
//!
//! What a cut leaves, by `disk`. It has all that an fsync covered. Of the rest it has any part, in sectors of 512
//! bytes, of data, sizes and directory entries, each by itself. That is harsher than any one file system, and nothing
//! that POSIX promises is taken away.
//!
//! Entry points: [`record`], [`workload`], [`Recording::leave`].

mod dice;
mod disk;
mod log;
mod trace;

pub use dice::Dice;
pub use log::Recording;

use std::io::{Error, Read, Write};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use tempfile::TempDir;

const ROOT: &str = "ROPEWALK_POWERCUT_ROOT";
const SEED: &str = "ROPEWALK_POWERCUT_SEED";
/// Points in all that a test cuts at, in the long form.
const POINTS: &str = "ROPEWALK_POWERCUT_POINTS";
/// Before what is acknowledged, on the standard output.
pub(crate) const ACK: &[u8] = b"ack ";

/// What the process under record shall do.
#[derive(Debug)]
pub struct Workload {
    /// Where; empty, or what an earlier cut left.
    pub root: PathBuf,
    /// By which dice.
    pub seed: u64,
}

/// The workload, in the process that is recorded; `None` in the test itself. Returns when the recording has begun.
///
/// # Panics
/// When the test that started this process is gone.
#[must_use]
pub fn workload() -> Option<Workload> {
    let root = PathBuf::from(std::env::var_os(ROOT)?);
    let seed = std::env::var(SEED).ok()?.parse().ok()?;
    let mut go = [0];
    let begun = std::io::stdin().read_exact(&mut go);
    begun.expect("the recorder says when");
    // What the test harness wrote has no end of line.
    ack("");
    Some(Workload { root, seed })
}

/// Says, in the process that is recorded, that the caller has been promised what `text` names.
///
/// # Panics
/// When the text is of several lines, or nobody listens.
pub fn ack(text: &str) {
    assert!(!text.contains('\n'), "one line for each promise");
    let line = [
        if text.is_empty() { b"" } else { ACK },
        text.as_bytes(),
        b"\n",
    ]
    .concat();
    let mut out = std::io::stdout().lock();
    let said = out.write_all(&line).and_then(|()| out.flush());
    said.expect("the standard output is there");
}

/// Runs the test `name` of this test program again, as the workload in `root`, to its end.
///
/// # Errors
/// What kept the process from being started or recorded, or from ending well.
pub fn record(name: &str, root: &Path, seed: u64) -> Result<Recording, Error> {
    std::fs::create_dir_all(root)?;
    let root = root.canonicalize()?;
    let mut command = Command::new(std::env::current_exe()?);
    command
        .args(["--exact", name, "--nocapture", "--include-ignored"])
        .env(ROOT, &root)
        .env(SEED, seed.to_string())
        .stdin(Stdio::piped())
        .stdout(Stdio::null());
    trace::run(&mut command, &root)
}

/// A directory for recordings and what cuts leave, in memory where there is such a file system: nothing of it is meant to last.
///
/// # Panics
/// When none can be made.
#[must_use]
pub fn scratch() -> TempDir {
    let in_memory = tempfile::tempdir_in("/dev/shm");
    in_memory
        .or_else(|_| tempfile::tempdir())
        .expect("a directory for temporary files")
}

/// How many points a test cuts at: `short`, or what `cargo xtask powercut --points` says.
#[must_use]
pub fn points(short: usize) -> usize {
    let asked = std::env::var(POINTS).ok();
    asked.and_then(|text| text.parse().ok()).unwrap_or(short)
}
