//! The kernel that mounts: User Mode Linux, a Linux kernel that is an ordinary process of this machine.
//!
//! Its root is the root of this machine, read-only. [`run`] boots it in the network namespace that the calling thread is in, has
//! it mount servers, and runs this same program inside. The folder of the job is writable for both.
//!
//! # Ownership
//! A guest owns its processes and the folder of its job. All of its processes are in a namespace of processes whose first is
//! the kernel: when that is killed, the others are too.
//!
//! # Failure
//! The kernel is killed when this process ends in any way (see [`crate::peer`]), and when its time is over. What its console
//! said last is in the error.
//!
//! May call: tools of util-linux, and a C compiler where a processor needs it. It knows nothing of servers or of work.

use crate::process::Launcher;
use crate::{BenchError, interrupt};
use rustix::thread::{CpuSet, sched_getaffinity};
use serde_json::Value;
use std::collections::VecDeque;
use std::ffi::OsString;
use std::fs::File;
use std::io::{BufRead, BufReader, Read};
use std::net::{Ipv4Addr, SocketAddrV4};
use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// What the guest runs first, and the library for processors with large registers.
const INIT: &str = include_str!("init.sh");
const XSTATE: &str = include_str!("../../../../vm/host/xstate.c");
/// Processors whose registers are larger than User Mode Linux knows, by what `/proc/cpuinfo` says of them.
const LARGE_REGISTERS: [&str; 2] = ["amx_tile", "apx"];
/// The kernel, the other programs that are needed, and what brings them on Debian.
const KERNEL: &str = "linux.uml";
const PROGRAMS: [&str; 6] = [KERNEL, "ip", "unshare", "taskset", "mount", "modprobe"];
const HOW_TO_INSTALL: &str =
    "apt-get install --no-install-recommends user-mode-linux iproute2 util-linux kmod";
/// The device that makes taps.
const TUN: &str = "/dev/net/tun";
/// The guest's memory. It is taken from this machine as far as it is used.
const MEMORY: &str = "mem=1024M";
/// How often the guest is looked at.
const POLL: Duration = Duration::from_millis(20);
/// How long it may take from the end of its work to its own.
const POWER_OFF_MAX: Duration = Duration::from_secs(30);
/// Longest line of the console, and lines that an error shows.
const LINE_BYTES_MAX: u64 = 16 * 1024;
const LAST_LINES: usize = 12;
/// Lines of the console between these are for people.
const BEGIN: &str = "## work";
const END: &str = "## end";
/// Names in the folder of the job.
const JOB_FILE: &str = "job";
const INIT_FILE: &str = "init.sh";
const STATUS_FILE: &str = "status";
/// Numbers of runs follow these: the guest is about to do one, it may, and what it measured.
const READY_FILE: &str = "ready";
const GO_FILE: &str = "go";
const RESULT_FILE: &str = "result";
const KERNEL_WORDS: &str = "kernel.log";

/// A server to mount.
#[derive(Debug, Clone)]
pub(super) struct Export {
    /// What it is called in tables.
    pub(super) name: String,
    /// Where it is, as seen from the guest.
    pub(super) server: SocketAddrV4,
    /// The path on it.
    pub(super) path: String,
}

/// What a guest does.
#[derive(Debug)]
pub(super) struct Job<'a> {
    /// How to start this program.
    pub(super) launcher: &'a Launcher,
    /// Where the folder of the job is made.
    pub(super) dir: &'a Path,
    /// The device at this machine's end of its network.
    pub(super) tap: &'a str,
    /// Its own address and the bits of its network.
    pub(super) address: (Ipv4Addr, u8),
    /// What it mounts, all at once.
    pub(super) exports: &'a [Export],
    /// Runs of `bench mount` in the guest, one after the other: their arguments beside `--mounted` and `--json`.
    pub(super) runs: Vec<Vec<OsString>>,
    /// It is killed when it takes longer.
    pub(super) limit: Duration,
}

/// Says what is missing on this machine.
///
/// # Errors
/// [`BenchError::Guest`] with the packages to install.
pub(super) fn need() -> Result<(), BenchError> {
    let or_else = "or mount servers yourself and use --mounted NAME=DIR";
    let why = if !rustix::process::geteuid().is_root() {
        format!("it needs root, for its network: run as root, {or_else}")
    } else if let Some(program) = PROGRAMS.iter().find(|p| crate::process::find(p).is_none()) {
        format!("there is no `{program}` (Debian: {HOW_TO_INSTALL}): install it, {or_else}")
    } else if !Path::new(TUN).exists() {
        format!("there is no {TUN}: load the module tun, {or_else}")
    } else {
        return Ok(());
    };
    Err(BenchError::Guest(why))
}

/// Boots a guest, waits for its end, and returns the JSON that the program inside has written in each run. A run waits until
/// `before` has returned, which is told its number from 0.
///
/// # Errors
/// [`BenchError::Guest`] with its last words, [`BenchError::Interrupted`], or [`BenchError::Io`]; what `before` returns.
pub(super) fn run(
    job: &Job<'_>,
    mut before: impl FnMut(usize) -> Result<(), BenchError>,
) -> Result<Vec<Value>, BenchError> {
    let doing = BenchError::io("make the guest's folder");
    let dir = crate::own::folder(job.dir).map_err(&doing)?;
    let dir_path = dir.path().canonicalize().map_err(&doing)?;
    let program_dir = program_dir(job.launcher)?;
    for path in [&dir_path, &program_dir] {
        need_plain(path)?;
    }
    let write = |name: &str, text: &str| std::fs::write(dir_path.join(name), text);
    write(JOB_FILE, &job.text(&program_dir)).map_err(&doing)?;
    write(INIT_FILE, INIT).map_err(&doing)?;
    let executable = std::fs::Permissions::from_mode(0o755);
    std::fs::set_permissions(dir_path.join(INIT_FILE), executable).map_err(&doing)?;
    let mut guest = Guest::start(job, &dir_path)?;
    guest.wait(&dir_path, job.limit, &mut before)?;
    let last = guest.stop();
    let status = std::fs::read_to_string(dir_path.join(STATUS_FILE)).unwrap_or_default();
    if status.trim() != "0" {
        let complaints = std::fs::read_to_string(dir_path.join(KERNEL_WORDS)).unwrap_or_default();
        let lines = last.iter().map(String::as_str).chain(complaints.lines());
        let words: Vec<&str> = lines.filter(|line| !line.trim().is_empty()).collect();
        let words = words[words.len().saturating_sub(LAST_LINES)..].join("\n");
        return Err(BenchError::Guest(format!(
            "it did not do its work; it said last:\n{words}"
        )));
    }
    let result = |number| {
        let result = std::fs::read(numbered(&dir_path, RESULT_FILE, number));
        let result = result.map_err(BenchError::io("read what the guest has measured"))?;
        serde_json::from_slice(&result).map_err(|e| BenchError::Guest(e.to_string()))
    };
    (0..job.runs.len()).map(result).collect()
}

/// A file of a run.
fn numbered(dir: &Path, name: &str, number: usize) -> PathBuf {
    dir.join(format!("{name}-{number}"))
}

impl Job<'_> {
    /// What its first process reads: where things are, and what is the work.
    fn text(&self, program_dir: &Path) -> String {
        let (address, bits) = self.address;
        let quoted_dir = quoted(&program_dir.to_string_lossy());
        let mut text = format!("PROGRAM_DIR={quoted_dir}\nADDRESS={address}/{bits}\nwork() {{\n");
        let mut mounted = String::new();
        for (number, export) in self.exports.iter().enumerate() {
            let (ip, port) = (export.server.ip(), export.server.port());
            let source = quoted(&format!("{ip}:{}", export.path));
            let why = quoted(&format!("cannot mount {}", export.name));
            // The kernel's own words: no helper of NFS tools is needed.
            text += &format!(
                "mkdir -p /mnt/{number}\n\
                 mount -i -t nfs4 -o vers=4.2,proto=tcp,port={port},sec=sys,hard,addr={ip},clientaddr={address} \
                 {source} /mnt/{number} || {{ echo {why}; return 1; }}\n"
            );
            let place = quoted(&format!("{}=/mnt/{number}", export.name));
            mounted += &format!(" --mounted {place}");
        }
        for (number, arguments) in self.runs.iter().enumerate() {
            let command = self.command(arguments);
            text += &format!(
                ": >/run/job/{READY_FILE}-{number}\n\
                 until [ -e /run/job/{GO_FILE}-{number} ]; do sleep 0.1; done\n\
                 {command}{mounted} --json /run/job/{RESULT_FILE}-{number} >/dev/null || return 1\n"
            );
        }
        text + "}\n"
    }

    /// The beginning of a command line for this program in the guest.
    fn command(&self, arguments: &[OsString]) -> String {
        let name = self.launcher.program.file_name().unwrap_or_default();
        let words = [format!("/run/program/{}", name.to_string_lossy())]
            .into_iter()
            .chain(self.launcher.arguments.iter().map(lossy))
            .chain(["mount".to_owned()])
            .chain(arguments.iter().map(lossy));
        let words: Vec<String> = words.map(|word| quoted(&word)).collect();
        words.join(" ")
    }
}

fn lossy(word: &OsString) -> String {
    word.to_string_lossy().into_owned()
}

/// A word as a shell takes it.
fn quoted(word: &str) -> String {
    format!("'{}'", word.replace('\'', r"'\''"))
}

/// The folder of this program.
fn program_dir(launcher: &Launcher) -> Result<PathBuf, BenchError> {
    let program = launcher.program.canonicalize();
    let program = program.map_err(BenchError::io("find this program"))?;
    Ok(program.parent().unwrap_or(Path::new("/")).to_owned())
}

/// Paths go into the words that a kernel starts with, and into options of mount(8).
fn need_plain(path: &Path) -> Result<(), BenchError> {
    let text = path.to_string_lossy();
    let is_odd = |c: char| c.is_whitespace() || c.is_control() || ",\"'\\".contains(c);
    if text.contains(is_odd) || path.to_str().is_none() {
        return Err(BenchError::Guest(format!(
            "it cannot be told of {}: use folders without spaces, commas and quotes (--dir)",
            path.display()
        )));
    }
    Ok(())
}

/// A running kernel. Dropping it kills it.
#[derive(Debug)]
struct Guest {
    child: Child,
    console: Option<JoinHandle<VecDeque<String>>>,
}

impl Guest {
    fn start(job: &Job<'_>, dir: &Path) -> Result<Self, BenchError> {
        let doing = BenchError::io("start the kernel that mounts");
        let words = File::create(dir.join(KERNEL_WORDS)).map_err(&doing)?;
        let shown = dir.display();
        let tap = job.tap;
        let mut command = job.launcher.bound(Path::new("unshare"));
        command
            .args(["--pid", "--fork", "--kill-child"])
            .args(["taskset", "-c", &processor().to_string(), "env"])
            .args(preloaded(dir)?)
            .arg(format!("TMPDIR={}", memory_dir()))
            .args([KERNEL, MEMORY, "rootfstype=hostfs", "rootflags=/", "ro"])
            .args(["quiet", "panic=-1", "con=null", "con0=null,fd:1"])
            .args(["ssl=null", "umid=guest"])
            .arg(format!("uml_dir={shown}/"))
            .arg(format!("init={shown}/{INIT_FILE}"))
            // Without gro=1 a large segment from this machine stalls the device for good.
            .arg(format!("vec0:transport=tap,ifname={tap},depth=128,gro=1"))
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(words)
            // Ctrl-C in a terminal is for us.
            .process_group(0);
        let mut child = command.spawn().map_err(&doing)?;
        let stdout = child.stdout.take().expect("standard output is a pipe");
        let console = Some(std::thread::spawn(move || listen(stdout)));
        Ok(Self { child, console })
    }

    /// Waits until its work is done, or it has gone. Lets it do each run after `before`.
    fn wait(
        &mut self,
        dir: &Path,
        limit: Duration,
        before: &mut dyn FnMut(usize) -> Result<(), BenchError>,
    ) -> Result<(), BenchError> {
        let mut end = Instant::now() + limit;
        let mut is_done = false;
        let mut run = 0;
        loop {
            interrupt::check()?;
            if numbered(dir, READY_FILE, run).exists() {
                before(run)?;
                std::fs::write(numbered(dir, GO_FILE, run), "")
                    .map_err(BenchError::io("tell a guest to go on"))?;
                run += 1;
            }
            let ended = self.child.try_wait();
            if ended.map_err(BenchError::io("wait for a guest"))?.is_some() {
                return Ok(());
            }
            if !is_done && dir.join(STATUS_FILE).exists() {
                is_done = true;
                end = Instant::now() + POWER_OFF_MAX;
            }
            if Instant::now() >= end {
                // With its status it has done its work, whatever keeps it from its end.
                return match is_done {
                    true => Ok(()),
                    false => Err(BenchError::Guest(format!(
                        "it has not done its work within {} s",
                        limit.as_secs()
                    ))),
                };
            }
            std::thread::sleep(POLL);
        }
    }

    /// Kills it, unless it has gone, and returns the last lines of its console.
    fn stop(&mut self) -> VecDeque<String> {
        // Both fail only when it has gone by itself.
        let _ = self.child.kill();
        let _ = self.child.wait();
        // The console ends with the last of its processes.
        let console = self.console.take().and_then(|console| console.join().ok());
        console.unwrap_or_default()
    }
}

impl Drop for Guest {
    fn drop(&mut self) {
        self.stop();
    }
}

/// Reads the console until it ends; what is for people goes to standard error. Returns the last lines.
fn listen(stdout: impl Read) -> VecDeque<String> {
    let mut last = VecDeque::new();
    // Before, in, and after its work.
    let mut is_work = None;
    let mut lines = BufReader::new(stdout);
    let mut line = Vec::new();
    loop {
        line.clear();
        let read = lines.by_ref().take(LINE_BYTES_MAX);
        // An error is the end of the console: the guest is gone.
        if !matches!({ read }.read_until(b'\n', &mut line), Ok(1..)) {
            return last;
        }
        let text = String::from_utf8_lossy(&line).trim_end().to_owned();
        match (text.as_str(), is_work) {
            (BEGIN, _) => {
                is_work = Some(true);
                last.clear();
                continue;
            }
            (END, _) => is_work = Some(false),
            (_, Some(true)) => eprintln!("{text}"),
            _ => {}
        }
        // How it was switched off says nothing.
        if is_work != Some(false) {
            if last.len() == LAST_LINES {
                last.pop_front();
            }
            last.push_back(text);
        }
    }
}

/// The processor that the guest is bound to, the last one. Its processes only ever take turns, and a turn on one processor costs a third of what it
/// costs between two.
fn processor() -> usize {
    let allowed = sched_getaffinity(None).unwrap_or_default();
    let is_allowed = |cpu: &usize| allowed.is_set(*cpu);
    (0..CpuSet::MAX_CPU).rev().find(is_allowed).unwrap_or(0)
}

/// The guest's memory is a file; on a tmpfs no page of it is ever written to a disk.
fn memory_dir() -> &'static str {
    let shared = "/dev/shm";
    match Path::new(shared).is_dir() {
        true => shared,
        false => "/tmp",
    }
}

/// What env(1) is told so that the kernel runs on processors with large registers.
fn preloaded(dir: &Path) -> Result<Option<String>, BenchError> {
    let cpuinfo = std::fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    if !has_large_registers(&cpuinfo) {
        return Ok(None);
    }
    compile_xstate(dir).map(|library| Some(format!("LD_PRELOAD={}", library.display())))
}

fn has_large_registers(cpuinfo: &str) -> bool {
    let flags = cpuinfo.lines().find(|line| line.starts_with("flags"));
    let mut flags = flags.unwrap_or_default().split_whitespace();
    flags.any(|flag| LARGE_REGISTERS.contains(&flag))
}

/// Compiles the library.
fn compile_xstate(dir: &Path) -> Result<PathBuf, BenchError> {
    let (source, library) = (dir.join("xstate.c"), dir.join("xstate.so"));
    std::fs::write(&source, XSTATE).map_err(BenchError::io("make the guest's folder"))?;
    let compiled = Command::new("cc")
        .args(["-O2", "-shared", "-fPIC", "-o"])
        .args([&library, &source])
        .stdin(Stdio::null())
        .output();
    let why = match compiled {
        Ok(output) if output.status.success() => return Ok(library),
        Ok(output) => String::from_utf8_lossy(&output.stderr).trim().to_owned(),
        Err(error) => error.to_string(),
    };
    Err(BenchError::Guest(format!(
        "this processor's registers are larger than User Mode Linux knows, and the library that helps is compiled where it is \
         needed. cc fails (Debian: apt-get install gcc libc6-dev): {why}"
    )))
}

#[cfg(test)]
mod tests {
    //! What the guest is told, and what is kept of its words.
    use super::*;

    fn job<'a>(launcher: &'a Launcher, exports: &'a [Export]) -> Job<'a> {
        Job {
            launcher,
            dir: Path::new("/there"),
            tap: "tap0",
            address: (Ipv4Addr::new(192, 0, 2, 10), 24),
            exports,
            runs: vec![vec!["--rounds=2".into()], vec!["--rounds=1".into()]],
            limit: Duration::from_secs(1),
        }
    }

    #[test]
    fn the_work_mounts_each_server_and_measures_all_of_them() {
        let launcher = Launcher {
            program: "/programs/it's".into(),
            arguments: vec!["bench".into()],
        };
        let export = |name: &str, port, path: &str| Export {
            name: name.to_owned(),
            server: SocketAddrV4::new(Ipv4Addr::new(192, 0, 2, 1), port),
            path: path.to_owned(),
        };
        let exports = [export("one", 2049, "/"), export("other's", 7, "/a b")];
        let text = job(&launcher, &exports).text(Path::new("/programs"));
        for part in [
            "PROGRAM_DIR='/programs'\nADDRESS=192.0.2.10/24\n",
            "port=2049,sec=sys,hard,addr=192.0.2.1,clientaddr=192.0.2.10 '192.0.2.1:/' /mnt/0 ||",
            "'192.0.2.1:/a b' /mnt/1 || { echo 'cannot mount other'\\''s'; return 1; }",
            r"'/run/program/it'\''s' 'bench' 'mount' '--rounds=2' --mounted 'one=/mnt/0' --mounted 'other'\''s=/mnt/1' --json /run/job/result-0 ",
            "until [ -e /run/job/go-1 ]; do sleep 0.1; done\n",
            "'--rounds=1' --mounted 'one=/mnt/0' ",
        ] {
            assert!(text.contains(part), "{part}\n{text}");
        }
        let checked = Command::new("sh").args(["-n", "-c", &text]).status();
        assert!(checked.unwrap().success());
        assert!(INIT.contains(BEGIN) && INIT.contains(END) && INIT.contains(STATUS_FILE));
    }

    #[test]
    fn odd_paths_are_refused() {
        assert!(need_plain(Path::new("/a-b/c.d_e")).is_ok());
        for odd in ["/a b", "/a,b", "/a'b", "/a\nb"] {
            assert!(need_plain(Path::new(odd)).is_err(), "{odd}");
        }
    }

    #[test]
    fn the_last_lines_of_the_console_are_kept() {
        let many: String = (0..100).map(|n| format!("line {n}\r\n")).collect();
        let last = listen(many.as_bytes());
        assert_eq!(last.len(), LAST_LINES);
        assert_eq!(last.back().unwrap(), "line 99");
        assert!(listen(&b""[..]).is_empty());
        let with_work = format!("boot\n{BEGIN}\nfailed\n{END}\npower off\n");
        assert_eq!(listen(with_work.as_bytes()), ["failed"]);
    }

    #[test]
    fn processors_with_large_registers_are_known() {
        let of = |flags: &str| has_large_registers(&format!("x : y\nflags\t\t: {flags}\n"));
        assert!(of("fpu amx_tile sse") && !of("fpu avx512f pku") && !has_large_registers(""));
    }

    #[test]
    fn the_library_compiles() {
        if !cfg!(target_arch = "x86_64") || crate::process::find("cc").is_none() {
            eprintln!("no cc: nothing is tested");
            return;
        }
        let dir = tempfile::tempdir().unwrap();
        assert!(compile_xstate(dir.path()).unwrap().is_file());
    }

    #[test]
    fn what_is_missing_is_said() {
        if let Err(error) = need() {
            let text = error.to_string();
            assert!(text.contains("--mounted NAME=DIR"), "{text}");
        }
    }
}
