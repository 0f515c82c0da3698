//! Servers of others that are several programs, shut off from this machine: in a mount and a process namespace of their own.
//!
//! A shell script starts them, as root. What it mounts is in its own namespace, and what it starts may become a daemon. All of it
//! is gone when the first process is, and that is when this process ends in any way (see [`exec`](super::exec)).
//!
//! # Ownership
//! An [`Isolated`] owns the processes, their folder and all that is in it.

use crate::nfs::cluster::family;
use crate::process::{Launcher, last_line};
use crate::{BenchError, interrupt};
use rustix::process::{Pid, Signal, kill_process};
use std::fs::File;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};
use tempfile::TempDir;

/// Servers that are not ready after this do not become so; how often they are asked.
const READY_MAX: Duration = Duration::from_secs(60);
const POLL: Duration = Duration::from_millis(20);
/// Copies that are not all there after this never are, and how often their number is asked for.
const FULL_MAX: Duration = Duration::from_secs(300);
const FULL_POLL: Duration = Duration::from_millis(100);

/// Running servers. Dropping it kills them and removes their folder.
#[derive(Debug)]
pub(crate) struct Isolated {
    child: Child,
    init: u32,
    has_network: bool,
    // Removed last: the servers write into it until they are gone.
    dir: TempDir,
}

impl Isolated {
    /// Runs `script`, which has the folder as its argument and stays, in namespaces. With `has_network` it has one of its own
    /// too, with nothing in it. `dir` is where the folder is made.
    pub(crate) fn start(
        launcher: &Launcher,
        dir: &Path,
        script: &str,
        has_network: bool,
    ) -> Result<Self, BenchError> {
        let doing = BenchError::io("start the peer");
        let dir = crate::own::folder(dir).map_err(&doing)?;
        let file = dir.path().join("start.sh");
        std::fs::write(&file, script).map_err(&doing)?;
        let output = File::create(dir.path().join("output")).map_err(&doing)?;
        let errors = output.try_clone().map_err(&doing)?;
        let mut command = launcher.bound(Path::new("unshare"));
        command.args(["--mount", "--pid", "--fork", "--kill-child", "--mount-proc"]);
        if has_network {
            command.arg("--net");
        }
        let child = command
            .args(["sh", "-e"])
            .arg(&file)
            .arg(dir.path())
            .stdin(Stdio::null())
            .stdout(output)
            .stderr(errors)
            .spawn()
            .map_err(&doing)?;
        let mut isolated = Self {
            child,
            init: 0,
            has_network,
            dir,
        };
        let id = isolated.child.id();
        isolated.wait("it does not start", READY_MAX, POLL, || {
            Ok(family(id)?.len() > 1)
        })?;
        let missing = || BenchError::Peer("it ended at once".to_owned());
        isolated.init = *family(id)?.get(1).ok_or_else(missing)?;
        Ok(isolated)
    }

    /// The first process in the namespaces: the shell, or what it has become.
    pub(crate) fn init(&self) -> u32 {
        self.init
    }

    /// Its folder.
    pub(crate) fn dir(&self) -> &Path {
        self.dir.path()
    }

    /// A path as the servers see it: through their own mounts.
    pub(crate) fn inside(&self, path: &Path) -> PathBuf {
        let root = PathBuf::from(format!("/proc/{}/root", self.init));
        path.strip_prefix("/")
            .map_or(root.clone(), |p| root.join(p))
    }

    /// Waits until the servers are as wanted.
    pub(crate) fn wait_until_ready(
        &mut self,
        is_ready: impl FnMut() -> Result<bool, BenchError>,
    ) -> Result<(), BenchError> {
        self.wait("it does not become ready", READY_MAX, POLL, is_ready)
    }

    fn wait(
        &mut self,
        late: &str,
        max: Duration,
        poll: Duration,
        mut is_done: impl FnMut() -> Result<bool, BenchError>,
    ) -> Result<(), BenchError> {
        let end = Instant::now() + max;
        while !is_done()? {
            interrupt::check()?;
            let ended = self.child.try_wait();
            let ended = ended.map_err(BenchError::io("wait for the peer"))?;
            if ended.is_some() || Instant::now() >= end {
                let said = last_line(&self.dir.path().join("output")).unwrap_or_default();
                return Err(BenchError::Peer(format!("{late}: {said}")));
            }
            std::thread::sleep(poll);
        }
        Ok(())
    }

    /// Runs a program beside the servers and returns what it says.
    pub(crate) fn run(&self, words: &[&str]) -> Result<String, BenchError> {
        let mut command = Command::new("nsenter");
        command.args(["--target", &self.init.to_string(), "--mount", "--pid"]);
        if self.has_network {
            command.arg("--net");
        }
        let output = command
            .args(words)
            .stdin(Stdio::null())
            .output()
            .map_err(BenchError::io("give the peer an order"))?;
        if output.status.success() {
            return Ok(String::from_utf8_lossy(&output.stdout).into_owned());
        }
        let said = String::from_utf8_lossy(&output.stderr);
        let words = words.join(" ");
        Err(BenchError::Peer(format!("{words}: {}", said.trim())))
    }

    /// Kills (SIGKILL) each of its processes that has an argument which ends with `word`.
    pub(crate) fn kill(&self, word: &str) -> Result<(), BenchError> {
        let has_word = |pid: &u32| {
            let arguments = std::fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
            let mut arguments = arguments.split(|byte| *byte == 0);
            arguments.any(|argument| argument.ends_with(word.as_bytes()))
        };
        let all = family(self.child.id())?;
        let found: Vec<Pid> = { all.into_iter().filter(has_word) }
            .filter_map(|pid| Pid::from_raw(pid.cast_signed()))
            .collect();
        if found.is_empty() {
            return Err(BenchError::Peer(format!("no process has {word}")));
        }
        for pid in found {
            kill_process(pid, Signal::KILL)
                .map_err(|e| BenchError::io("kill a server of the peer")(e.into()))?;
        }
        Ok(())
    }
}

impl Drop for Isolated {
    fn drop(&mut self) {
        // The first process of the namespace: the kernel kills the others with it, before the one above is told.
        if let Some(init) = Pid::from_raw(self.init.cast_signed()) {
            let _ = kill_process(init, Signal::KILL);
        } else {
            let _ = self.child.kill();
        }
        let _ = self.child.wait();
    }
}

/// Asks until all copies are there.
pub(crate) fn wait_until_full(
    mut is_full: impl FnMut() -> Result<bool, BenchError>,
) -> Result<(), BenchError> {
    let end = Instant::now() + FULL_MAX;
    while !is_full()? {
        interrupt::check()?;
        if Instant::now() >= end {
            let why = "copies are not there within five minutes";
            return Err(BenchError::Peer(why.to_owned()));
        }
        std::thread::sleep(FULL_POLL);
    }
    Ok(())
}
