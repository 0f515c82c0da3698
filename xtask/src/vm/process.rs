//! Small things about processes that `std` does not bring: signals by pid, descendants, and waiting with a limit. Also
//! running a tool whose output matters only when it fails.
//!
//! Signals go through the shell's `kill`, always to pids that the caller started, never by name.

use std::fs::{self, File};
use std::io;
use std::path::Path;
use std::process::{Child, Command, ExitStatus, Output, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use super::error::{Context, Failure, Result};
use crate::tools;

/// How often the harness looks whether something that it waits for has happened.
pub(crate) const POLL: Duration = Duration::from_millis(20);

/// Runs a tool to its end and returns its standard output; its standard error is the failure's text.
pub(crate) fn output(command: &mut Command) -> Result<String> {
    let name = format!("{command:?}");
    let out = command.stdin(Stdio::null()).output();
    let out = out.map_err(not_started(command, &name))?;
    judge(&name, &out)?;
    Ok(String::from_utf8_lossy(&out.stdout).into_owned())
}

/// As [`output`], with the standard input and output of the tool in these files.
pub(crate) fn between(command: &mut Command, input: File, output: File) -> Result<()> {
    let name = format!("{command:?}");
    let started = command
        .stdin(input)
        .stdout(output)
        .stderr(Stdio::piped())
        .spawn();
    let out = started.and_then(Child::wait_with_output);
    let out = out.map_err(not_started(command, &name))?;
    judge(&name, &out)
}

/// For `map_err`: the failure to start a tool, with the package that brings it.
fn not_started(command: &Command, name: &str) -> impl FnOnce(io::Error) -> Failure {
    move |error| {
        let hint = tools::hint(command.get_program(), &error);
        Failure::new(format!("cannot start {name}: {error}{hint}"))
    }
}

/// A new or emptied file.
pub(crate) fn create(path: &Path) -> Result<File> {
    File::create(path).context(|| format!("cannot create {}", path.display()))
}

/// A tool that failed says why on its standard error.
fn judge(name: &str, out: &Output) -> Result<()> {
    if out.status.success() {
        return Ok(());
    }
    let stderr = String::from_utf8_lossy(&out.stderr);
    Err(Failure::new(format!(
        "{name} failed ({}): {}",
        out.status,
        stderr.trim()
    )))
}

/// Waits for a child at most `limit`; `None` when it still runs.
pub(crate) fn wait_at_most(child: &mut Child, limit: Duration) -> Result<Option<ExitStatus>> {
    let deadline = Instant::now() + limit;
    loop {
        if let Some(status) = child
            .try_wait()
            .context(|| "cannot wait for a child".into())?
        {
            return Ok(Some(status));
        }
        if Instant::now() >= deadline {
            return Ok(None);
        }
        thread::sleep(POLL);
    }
}

/// Sends `signal` (a name that `kill -s` knows) to the pids. A pid that is gone is no error.
pub(crate) fn signal(pids: &[u32], signal: &str) {
    if pids.is_empty() {
        return;
    }
    let pids = pids
        .iter()
        .map(u32::to_string)
        .collect::<Vec<_>>()
        .join(" ");
    // A failure here means that the processes ended by themselves, which is what was wanted.
    let _ = Command::new("sh")
        .args(["-c", &format!("kill -s {signal} {pids}")])
        .stdin(Stdio::null())
        .stderr(Stdio::null())
        .status();
}

/// The pid and all its descendants, parents first, from one reading of `/proc`.
pub(crate) fn family(root: u32) -> Vec<u32> {
    let parents: Vec<(u32, u32)> = fs::read_dir("/proc")
        .into_iter()
        .flatten()
        .flatten()
        .filter_map(|entry| entry.file_name().to_str()?.parse().ok())
        .filter_map(|pid| Some((pid, parent(pid)?)))
        .collect();
    let mut family = vec![root];
    let mut next = 0;
    while let Some(&member) = family.get(next) {
        family.extend(
            parents
                .iter()
                .filter(|(_, ppid)| *ppid == member)
                .map(|(pid, _)| *pid),
        );
        next += 1;
    }
    family
}

/// The parent's pid, from `/proc/PID/stat`: the second field after the last `)`.
pub(crate) fn parent(pid: u32) -> Option<u32> {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    stat.rsplit_once(')')?
        .1
        .split_whitespace()
        .nth(1)?
        .parse()
        .ok()
}

/// Kills a child and all its descendants and reaps the child.
pub(crate) fn kill_family(child: &mut Child) {
    if matches!(child.try_wait(), Ok(Some(_))) {
        return;
    }
    signal(&family(child.id()), "KILL");
    // It was killed; its status says nothing more.
    let _ = child.wait();
}

/// Whether this process runs as the superuser (effective uid, from `/proc/self/status`).
pub(crate) fn is_root() -> bool {
    fs::read_to_string("/proc/self/status").is_ok_and(|status| {
        status
            .lines()
            .find_map(|line| line.strip_prefix("Uid:"))
            .and_then(|uids| uids.split_whitespace().nth(1))
            == Some("0")
    })
}
