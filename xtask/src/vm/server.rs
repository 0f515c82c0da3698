//! A server process in the namespace: start, wait for its port, stop it kindly or with SIGKILL.
//!
//! Owns the process and its log file. Does not know what the server is.

use std::fs::{self, File};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use super::error::{Context, Failure, Result};
use super::net::Net;
use super::process::{family, kill_family, signal, wait_at_most};

/// How long a server may take from its start to its listening port.
pub(crate) const START_LIMIT: Duration = Duration::from_secs(240);

/// How long a server may take to end after SIGTERM before it is killed.
const STOP_LIMIT: Duration = Duration::from_secs(60);

/// Lines of a server's log that a failure shows.
const LOG_TAIL_LINES: usize = 25;

/// A running server. Dropping it kills it and its descendants.
#[derive(Debug)]
pub(crate) struct Server {
    child: Child,
    log: PathBuf,
}

impl Server {
    /// Starts a command line (as `sh -c` reads it) in the namespace and waits for its port.
    /// The log is appended to, so that a server started again keeps its earlier words.
    pub(crate) fn start(net: &Net, command_line: &str, log: &Path, port: u16) -> Result<Self> {
        let mut command = net.command("sh");
        command.args(["-c", command_line]);
        Self::start_command(net, command, log, port)
    }

    /// As [`Server::start`], for a command that was made by [`Net::command`].
    pub(crate) fn start_command(
        net: &Net,
        mut command: Command,
        log: &Path,
        port: u16,
    ) -> Result<Self> {
        let unable = || format!("cannot write {}", log.display());
        let out = File::options()
            .create(true)
            .append(true)
            .open(log)
            .context(unable)?;
        let err = out.try_clone().context(unable)?;
        let child = command
            .stdin(Stdio::null())
            .stdout(out)
            .stderr(err)
            .process_group(0)
            .spawn()
            .context(|| format!("cannot start {command:?}"))?;
        let mut server = Self {
            child,
            log: log.to_path_buf(),
        };
        net.wait_listening(port, START_LIMIT, || server.check_alive())
            .map_err(|error| Failure::new(format!("{error}\n{}", server.log_tail())))?;
        Ok(server)
    }

    /// The process of the command; a shell that did not exec stands before the real server.
    pub(crate) fn pid(&self) -> u32 {
        self.child.id()
    }

    /// An error if the server's process has ended.
    pub(crate) fn check_alive(&mut self) -> Result<()> {
        match self
            .child
            .try_wait()
            .context(|| "cannot wait for the server".into())?
        {
            None => Ok(()),
            Some(status) => Err(Failure::new(format!("the server ended: {status}"))),
        }
    }

    /// kill -9 of the server and its descendants, reaped: what it had not made durable is lost.
    pub(crate) fn kill(mut self) {
        kill_family(&mut self.child);
    }

    /// SIGTERM to the server, then SIGKILL to what is left after [`STOP_LIMIT`].
    /// Returns whether it ended by itself with success.
    pub(crate) fn stop(mut self) -> Result<bool> {
        let family = family(self.child.id());
        signal(&family[..1], "TERM");
        let status = wait_at_most(&mut self.child, STOP_LIMIT)?;
        // A shell around the real server would have died alone.
        signal(&family[1..], "KILL");
        Ok(status.is_some_and(|status| status.success()))
    }

    /// The last lines of the log.
    pub(crate) fn log_tail(&self) -> String {
        tail(&self.log, LOG_TAIL_LINES)
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        kill_family(&mut self.child);
    }
}

/// The last `lines` lines of a file, with its name above them.
pub(crate) fn tail(path: &Path, lines: usize) -> String {
    let bytes = fs::read(path).unwrap_or_default();
    let text = String::from_utf8_lossy(&bytes);
    let all: Vec<&str> = text.lines().collect();
    let last = &all[all.len().saturating_sub(lines)..];
    format!(
        "--- {} (last {} lines)\n{}",
        path.display(),
        last.len(),
        last.join("\n")
    )
}
