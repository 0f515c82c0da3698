//! Servers as child processes: their CPU time is theirs alone.
//!
//! A child is this same program with a hidden subcommand. It says `ready ADDRESS` on its standard output and
//! serves until its standard input ends, so it never outlives the parent, however that died.

use crate::BenchError;
use rustix::process::{Pid, Resource, Rlimit, getrlimit, setrlimit};
use std::ffi::OsString;
use std::io::{BufRead, BufReader, Read};
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

/// Open files that a server keeps for itself beside its connections, where half of those that it may have are not fewer.
const SERVER_FILES: u64 = 4096;
/// Connections and other files beside those that are counted.
const FILES_MORE: u64 = 64;
/// The word before the address on a child's first line.
pub(crate) const READY: &str = "ready";
/// Longest first line of a child.
const READY_BYTES_MAX: u64 = 128;

/// How to start a child of this crate: the program, and the arguments under which it has [`crate::cli::Command`].
#[derive(Debug, Clone)]
pub struct Launcher {
    /// The program.
    pub program: PathBuf,
    /// What comes before the command.
    pub arguments: Vec<OsString>,
}

impl Launcher {
    /// This program, whose command line is [`crate::cli::Command`].
    ///
    /// # Errors
    /// [`BenchError::Io`] when the program's path is unknown.
    pub fn this_program() -> Result<Self, BenchError> {
        let program = std::env::current_exe().map_err(BenchError::io("find this program"))?;
        Ok(Self {
            program,
            arguments: Vec::new(),
        })
    }

    /// A command that becomes `program`, with arguments that are still to be given. The kernel kills it when the thread that
    /// starts it ends.
    pub(crate) fn bound(&self, program: &Path) -> Command {
        let mut command = Command::new(&self.program);
        command.args(&self.arguments).args(["serve", "peer"]);
        command.arg(program).arg("--");
        command
    }

    /// The `ropewalk` that is measured: the given one, or that beside this program.
    ///
    /// # Errors
    /// [`BenchError::NoRopewalk`] when none is given and there is none.
    pub fn ropewalk(&self, given: Option<&PathBuf>) -> Result<PathBuf, BenchError> {
        if let Some(given) = given {
            return Ok(given.clone());
        }
        let beside = self.program.with_file_name("ropewalk");
        if beside.is_file() {
            Ok(beside)
        } else {
            Err(BenchError::NoRopewalk(beside))
        }
    }
}

/// Where a program of the search path is.
pub(crate) fn find(program: &str) -> Option<PathBuf> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let mut places = std::env::split_paths(&path).map(|dir| dir.join(program));
    places.find(|place| place.is_file())
}

/// The first line that a program says of its version, when `option` asks for it.
pub(crate) fn version(program: &str, option: &str) -> Option<String> {
    let mut command = Command::new(find(program)?);
    let said = command.arg(option).stdin(Stdio::null()).output().ok()?;
    // Some write it as an error.
    let said = [said.stdout, said.stderr].concat();
    let line = String::from_utf8_lossy(&said)
        .lines()
        .next()?
        .trim()
        .to_owned();
    Some(format!("{program}: {line}"))
}

/// A running server. Dropping it ends it.
#[derive(Debug)]
pub struct ServerProcess {
    child: Child,
    address: SocketAddr,
}

impl ServerProcess {
    /// Starts a server and waits until it listens.
    ///
    /// # Errors
    /// [`BenchError::Io`] or [`BenchError::NotReady`].
    pub fn start(launcher: &Launcher, arguments: &[OsString]) -> Result<Self, BenchError> {
        let mut child = Command::new(&launcher.program)
            .args(&launcher.arguments)
            .arg("serve")
            .args(arguments)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .map_err(BenchError::io("start a server"))?;
        let stdout = child.stdout.take().expect("standard output is a pipe");
        let mut line = String::new();
        let read = BufReader::new(stdout.take(READY_BYTES_MAX)).read_line(&mut line);
        let address = line
            .strip_prefix(READY)
            .and_then(|address| address.trim().parse().ok());
        match (read, address) {
            (Ok(_), Some(address)) => Ok(Self { child, address }),
            _ => {
                stop(&mut child);
                Err(BenchError::NotReady)
            }
        }
    }

    /// Where it listens.
    #[must_use]
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// User and system CPU time of all its threads so far.
    ///
    /// # Errors
    /// [`BenchError::Io`] when the process is gone.
    pub fn cpu(&self) -> Result<Duration, BenchError> {
        cpu_of(&self.child.id().to_string())
    }
}

impl Drop for ServerProcess {
    fn drop(&mut self) {
        stop(&mut self.child);
    }
}

fn stop(child: &mut Child) {
    // Ending its input asks it to go; a measurement has nothing to save, so there is no wait.
    drop(child.stdin.take());
    // Both fail only when it has gone by itself.
    let _ = child.kill();
    let _ = child.wait();
}

/// CPU time of this process so far.
///
/// # Errors
/// [`BenchError::Io`].
pub fn cpu_of_this_process() -> Result<Duration, BenchError> {
    cpu_of("self")
}

/// CPU time by proc(5): fields 14 (utime) and 15 (stime) of `stat`, in clock ticks. One tick is 10 ms,
/// so runs of a second or more are exact to about one percent.
pub(crate) fn cpu_of(process: &str) -> Result<Duration, BenchError> {
    let stat = std::fs::read_to_string(format!("/proc/{process}/stat"))
        .map_err(BenchError::io("read a server's CPU time"))?;
    let ticks = ticks(&stat).ok_or_else(|| BenchError::Io {
        doing: "read a server's CPU time",
        source: std::io::ErrorKind::InvalidData.into(),
    })?;
    let per_second = rustix::param::clock_ticks_per_second().max(1);
    Ok(Duration::from_secs(ticks) / u32::try_from(per_second).unwrap_or(u32::MAX))
}

/// What the processors of the machine did since it started (proc(5), `stat`), in clock ticks.
#[derive(Debug, Clone, Copy)]
pub(crate) struct MachineTimes {
    idle: u64,
    all: u64,
}

impl MachineTimes {
    /// Until now; none where the kernel does not say.
    pub(crate) fn now() -> Option<Self> {
        Self::parse(&std::fs::read_to_string("/proc/stat").ok()?)
    }

    fn parse(stat: &str) -> Option<Self> {
        let ticks = stat.lines().next()?.strip_prefix("cpu ")?;
        let ticks: Vec<u64> = ticks
            .split_whitespace()
            .map_while(|t| t.parse().ok())
            .collect();
        // user, nice, system, idle, iowait, irq, softirq, steal; guests are in user.
        let all = ticks.get(..8)?.iter().sum();
        let idle = ticks[3] + ticks[4];
        Some(Self { idle, all })
    }

    /// Share of the processors that had nothing to do between two times; none when no tick has passed.
    #[allow(clippy::cast_precision_loss, reason = "ticks of a run are few")]
    pub(crate) fn idle_share(before: Option<Self>, after: Option<Self>) -> Option<f64> {
        let (before, after) = (before?, after?);
        let all = after.all.saturating_sub(before.all);
        let idle = after.idle.saturating_sub(before.idle);
        (all > 0).then(|| idle.min(all) as f64 / all as f64)
    }
}

/// Memory that programs can take (proc(5), `MemAvailable`); without a bound where the kernel does not say.
pub(crate) fn memory_available_bytes() -> u64 {
    let text = std::fs::read_to_string("/proc/meminfo").unwrap_or_default();
    memory_bytes(&text, "MemAvailable").unwrap_or(u64::MAX)
}

/// A line of `meminfo`.
pub(crate) fn memory_bytes(meminfo: &str, name: &str) -> Option<u64> {
    let mut lines = meminfo.lines().filter_map(|line| line.split_once(':'));
    let (_, value) = lines.find(|(key, _)| *key == name)?;
    let kib: u64 = value.trim().strip_suffix(" kB")?.parse().ok()?;
    Some(kib.saturating_mul(1024))
}

/// Memory of a process that is there, in bytes (proc(5), `VmRSS`).
pub(crate) fn resident_bytes(pid: Pid) -> Result<u64, BenchError> {
    let doing = BenchError::io("read a server's memory");
    let path = format!("/proc/{}/status", pid.as_raw_nonzero());
    let text = std::fs::read_to_string(path).map_err(&doing)?;
    memory_bytes(&text, "VmRSS").ok_or_else(|| doing(std::io::ErrorKind::InvalidData.into()))
}

/// Raises this process's limit of open files for so many connections. Servers that it starts raise their own limit as
/// far as the hard one goes.
///
/// # Errors
/// [`BenchError::Files`] when that is too low.
pub(crate) fn need_connections(count: u64) -> Result<(), BenchError> {
    let limit = getrlimit(Resource::Nofile);
    let needed = files_for(count);
    let allowed = limit.maximum.unwrap_or(u64::MAX);
    if allowed < needed {
        return Err(BenchError::Files { needed, allowed });
    }
    if limit.current.is_none_or(|current| current >= needed) {
        return Ok(());
    }
    let raised = Rlimit {
        current: Some(needed),
        maximum: limit.maximum,
    };
    let set = setrlimit(Resource::Nofile, raised);
    set.map_err(|e| BenchError::io("raise the limit of open files")(e.into()))
}

/// Open files that a server needs for so many connections.
fn files_for(connections: u64) -> u64 {
    let all = connections.saturating_add(FILES_MORE);
    all.saturating_add(SERVER_FILES).min(all.saturating_mul(2))
}

/// The last line of a file that is not empty.
pub(crate) fn last_line(log: &Path) -> Option<String> {
    let text = std::fs::read_to_string(log).unwrap_or_default();
    let line = text.lines().rfind(|line| !line.trim().is_empty());
    line.map(str::to_owned)
}

fn ticks(stat: &str) -> Option<u64> {
    // The name, field 2, may hold spaces and parentheses; the last one closes it.
    let (_, fields) = stat.rsplit_once(')')?;
    let mut fields = fields.split_whitespace().skip(11);
    let user: u64 = fields.next()?.parse().ok()?;
    let system: u64 = fields.next()?.parse().ok()?;
    user.checked_add(system)
}

#[cfg(test)]
mod tests {
    //! The fields of proc(5), and that work shows in them.
    use super::*;
    use std::time::Instant;

    #[test]
    fn names_with_spaces_do_not_shift_the_fields() {
        let stat = "7 (a) b (c) S 1 2 3 4 5 6 7 8 9 10 30 12 0 0 20 0";
        assert_eq!(ticks(stat), Some(42));
        assert_eq!(ticks("7 (a) S 1"), None);
        assert_eq!(ticks(""), None);
    }

    #[test]
    fn memory_is_in_kib() {
        let text = "MemTotal:       24 kB\nMemFree: 3 kB\nMemAvailable:   1048576 kB\nHugePages_Total:       0\n";
        assert_eq!(memory_bytes(text, "MemAvailable"), Some(1 << 30));
        assert_eq!(memory_bytes(text, "HugePages_Total"), None);
        assert_eq!(memory_bytes(text, "Mem"), None);
        assert!(memory_available_bytes() > 0);
    }

    #[test]
    fn this_process_has_memory() {
        let pid = rustix::process::getpid();
        assert!(resident_bytes(pid).unwrap() > 100_000);
        assert!(resident_bytes(Pid::from_raw(i32::MAX).unwrap()).is_err());
    }

    #[test]
    fn connections_need_files_at_both_ends() {
        assert_eq!(files_for(400), 928);
        assert_eq!(files_for(10_000), 14_160);
        need_connections(1).unwrap();
        if let Some(allowed) = getrlimit(Resource::Nofile).maximum {
            let why = need_connections(allowed).unwrap_err().to_string();
            assert!(why.contains("ulimit -n"), "{why}");
        }
    }

    #[test]
    fn idle_time_is_a_share_of_all_time() {
        let times = |text: &str| MachineTimes::parse(text);
        let before = times("cpu  10 0 10 50 10 0 10 10 0 0\ncpu0 1\n");
        let after = times("cpu  60 0 10 70 15 5 20 20 7 0\n");
        assert_eq!(MachineTimes::idle_share(before, after), Some(0.25));
        assert_eq!(MachineTimes::idle_share(before, before), None);
        assert!(times("cpu  1 2 3\n").is_none() && times("").is_none());
        assert!(MachineTimes::now().is_some());
    }

    #[test]
    fn work_costs_cpu_time() {
        let before = cpu_of_this_process().unwrap();
        let start = Instant::now();
        while cpu_of_this_process().unwrap() <= before {
            assert!(start.elapsed() < Duration::from_secs(20), "no tick in 20 s");
        }
    }

    #[test]
    fn a_program_that_is_no_server_is_not_ready() {
        let launcher = Launcher {
            program: "true".into(),
            arguments: Vec::new(),
        };
        let result = ServerProcess::start(&launcher, &[]);
        assert!(matches!(result, Err(BenchError::NotReady)));
    }
}
