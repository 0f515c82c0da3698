//! One guest (User Mode Linux, or QEMU with RDMA): boot, run a script, collect its output and exit status, tear down.
//!
//! The guest's root is the host's root, read-only. Its job directory is a directory of the host that both can write.
//! The script's exit status and the signals between guest and host are files in it, so host code can act in the middle
//! of the guest's work. See [`Guest::await_signal`] and [`Guest::signal`]; in scripts `signal NAME` and `await NAME`.
//! Output comes over the console, line by line. Entry points: [`Guest::builder`] or [`Guest::under_qemu`], then `run` or
//! `spawn`.

use std::collections::VecDeque;
use std::fs::{self, Permissions};
use std::io::{BufRead, BufReader, Read, Write};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use super::error::{Context, Result};
use super::net::{GUESTS_MAX, Net, RAILS, SERVER_IP};
use super::prepare::{Tools, UML_CONSOLES, guest_scripts, remove_tree};
use super::process::{POLL, create, kill_family, wait_at_most};
use super::qemu::Qemu;

/// Output kept of one guest; later lines are dropped, and the output says so.
const OUTPUT_BYTES_MAX: usize = 4 << 20;

/// Lines of its console that are shown of a guest that ended without its last word.
pub(crate) const LAST_LINES: usize = 20;

/// How long a guest may take from its script's end to its own.
const POWER_OFF_LIMIT: Duration = Duration::from_secs(30);

/// The console's lines, in the job directory.
const CONSOLE: &str = "console.log";

/// What the program that runs the guest said itself, such as that it cannot start.
const COMPLAINTS: &str = "stderr.log";

/// Lines of that which are shown with the console's.
const COMPLAINTS_MAX: usize = 8;

/// Numbers the guests of this process.
static GUESTS: AtomicU32 = AtomicU32::new(0);

/// How a guest ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum GuestExit {
    /// The script ended with this status.
    Status(i32),
    /// The limit passed; the guest was killed.
    TimedOut,
    /// The kernel ended without the script's status: a panic, or it never booted.
    Died,
}

/// What a guest left behind.
#[derive(Debug)]
pub(crate) struct GuestRun {
    /// How it ended.
    pub(crate) rc: GuestExit,
    /// What script and kernel wrote on the console.
    pub(crate) output: String,
    /// From start to the script's first line; `None` if it never got there.
    pub(crate) boot: Option<Duration>,
    /// Where the console is kept of a guest that did not end well.
    pub(crate) log: Option<PathBuf>,
}

impl GuestRun {
    /// What a person should see of these lines of the console: the last of them, and where the others are.
    pub(crate) fn last_words(&self, lines: &[&str]) -> String {
        let last = &lines[lines.len().saturating_sub(LAST_LINES)..];
        let mut text = if last.is_empty() {
            "its console said nothing".to_owned()
        } else {
            format!("its console said last:\n{}", last.join("\n"))
        };
        if let Some(log) = &self.log {
            text.push_str(&format!("\nthe whole console: {}", log.display()));
        }
        text
    }
}

/// What the guest's kernel runs on.
#[derive(Debug, Clone, Copy)]
enum Machine<'a> {
    Uml(&'a Tools),
    Qemu(&'a Qemu),
}

impl<'a> Machine<'a> {
    fn tools(self) -> &'a Tools {
        match self {
            Self::Uml(tools) => tools,
            Self::Qemu(qemu) => qemu.tools(),
        }
    }
}

/// What to run in a guest.
#[derive(Debug)]
pub(crate) struct GuestBuilder<'a> {
    net: &'a Net,
    machine: Machine<'a>,
    script: PathBuf,
    env: Vec<(String, String)>,
    mem_mib: u32,
    limit: Duration,
    slot: u8,
    on_rails: bool,
    echo: bool,
}

impl GuestBuilder<'_> {
    /// The script, as a path below `vm/guest`.
    pub(crate) fn script(mut self, script: impl Into<PathBuf>) -> Self {
        self.script = script.into();
        self
    }

    /// A variable of the script's environment.
    pub(crate) fn env(mut self, name: &str, value: impl ToString) -> Self {
        self.env.push((name.to_owned(), value.to_string()));
        self
    }

    /// The guest's memory, in MiB.
    pub(crate) fn mem_mib(mut self, mem_mib: u32) -> Self {
        self.mem_mib = mem_mib;
        self
    }

    /// The guest is killed when it has not ended after this time.
    pub(crate) fn timeout(mut self, limit: Duration) -> Self {
        self.limit = limit;
        self
    }

    /// The guest's tap and address; two guests at once need two slots.
    pub(crate) fn slot(mut self, slot: u8) -> Self {
        assert!(slot < GUESTS_MAX, "a guest's slot is below GUESTS_MAX");
        self.slot = slot;
        self
    }

    /// Whether it is on [`RAILS`] too; one guest at a time can be.
    pub(crate) fn on_rails(mut self, on_rails: bool) -> Self {
        self.on_rails = on_rails;
        self
    }

    /// Whether the output also goes to standard error while it comes.
    pub(crate) fn echo(mut self, echo: bool) -> Self {
        self.echo = echo;
        self
    }

    /// Boots the guest and waits for its end.
    pub(crate) fn run(self) -> Result<GuestRun> {
        self.spawn()?.wait()
    }

    /// Boots the guest and returns while it runs.
    pub(crate) fn spawn(self) -> Result<Guest> {
        let job = self.make_job()?;
        let command = match self.machine {
            Machine::Uml(tools) => self.uml(tools, &job),
            Machine::Qemu(qemu) => qemu.command(self.net, &job, &self.taps(), self.mem_mib),
        };
        Guest::start(command, job, self.limit, self.echo)
    }

    fn uml(&self, tools: &Tools, job: &Path) -> Command {
        let mut command = self.net.command("taskset");
        command
            .args(["-c", &processor(self.slot), "env"])
            .arg(format!("LD_PRELOAD={}", tools.xstate().display()))
            .arg(tools.uml())
            .arg(format!("mem={}M", self.mem_mib))
            .args([
                "rootfstype=hostfs",
                "rootflags=/",
                "ro",
                "quiet",
                "panic=-1",
            ])
            .args(UML_CONSOLES)
            .arg(format!("init={}/guest/init.sh", job.display()))
            .args(self.devices())
            .env("TMPDIR", shared_memory());
        command
    }

    /// The network devices. Without gro=1 a large segment from the host stalls the device for good.
    fn devices(&self) -> Vec<String> {
        let taps = self.taps().into_iter().enumerate();
        let device = |(number, tap): (usize, String)| {
            let mac = Net::mac(&tap);
            format!("vec{number}:transport=tap,ifname={tap},mac={mac},depth=128,gro=1")
        };
        taps.map(device).collect()
    }

    /// Its addresses on the rails.
    fn rail_ips(&self) -> Vec<String> {
        let rails = RAILS.iter().filter(|_| self.on_rails);
        rails.map(|network| format!("{network}.10")).collect()
    }

    /// What the guest's interfaces are on the host's side, in their order.
    fn taps(&self) -> Vec<String> {
        let rails = (0..RAILS.len()).filter(|_| self.on_rails);
        let rails = rails.map(|rail| format!("cut{rail}"));
        std::iter::once(format!("tap{}", self.slot))
            .chain(rails)
            .collect()
    }

    /// Makes the job directory: the scripts, the environment, and nothing else yet.
    fn make_job(&self) -> Result<PathBuf> {
        let number = GUESTS.fetch_add(1, Ordering::Relaxed);
        let tools = self.machine.tools();
        let job = tools
            .dir()
            .join(format!("jobs/{}-{number}", std::process::id()));
        copy_scripts(&guest_scripts(), &job.join("guest"))?;
        let init = job.join("guest/init.sh");
        fs::set_permissions(&init, Permissions::from_mode(0o755))
            .context(|| format!("cannot make {} executable", init.display()))?;
        let mut text = String::new();
        let fixed = [
            ("TOOLS", tools.client_root().display().to_string()),
            ("SCRIPT", self.script.display().to_string()),
            ("GUEST_IP", Net::guest_ip(self.slot)),
            ("SERVER", SERVER_IP.to_owned()),
            ("RAIL_IPS", self.rail_ips().join(" ")),
        ];
        let fixed = fixed.iter().map(|(name, value)| (*name, value.as_str()));
        let given = self
            .env
            .iter()
            .map(|(name, value)| (name.as_str(), value.as_str()));
        for (name, value) in fixed.chain(given) {
            text.push_str(&format!(
                "export {name}='{}'\n",
                value.replace('\'', r"'\''")
            ));
        }
        fs::write(job.join("env"), text).context(|| "cannot write the guest's env".into())?;
        Ok(job)
    }
}

/// User Mode Linux maps its memory from a file; on a tmpfs no page of it is ever written to disk.
fn shared_memory() -> &'static str {
    if Path::new("/dev/shm").is_dir() {
        "/dev/shm"
    } else {
        "/tmp"
    }
}

/// The processor that a guest is bound to, the last one for the first guest. The guest's kernel and
/// its processes are threads of control that only ever take turns. On one processor a turn costs a
/// third of what it costs between two (a gcc in the guest: 0.45 s bound, 1.4 s not).
fn processor(slot: u8) -> String {
    let status = fs::read_to_string("/proc/self/status").unwrap_or_default();
    let list = status
        .lines()
        .find_map(|line| line.strip_prefix("Cpus_allowed_list:"));
    let mut allowed: Vec<u32> = Vec::new();
    for range in list.unwrap_or("0").trim().split(',') {
        let (first, last) = range.split_once('-').unwrap_or((range, range));
        if let (Ok(first), Ok(last)) = (first.parse::<u32>(), last.parse::<u32>()) {
            allowed.extend(first..=last);
        }
    }
    let turn = usize::from(slot) % allowed.len().max(1);
    allowed
        .iter()
        .rev()
        .nth(turn)
        .copied()
        .unwrap_or(0)
        .to_string()
}

/// Copies the guest scripts, so that they can be read wherever the workspace is mounted.
fn copy_scripts(from: &Path, to: &Path) -> Result<()> {
    fs::create_dir_all(to).context(|| format!("cannot create {}", to.display()))?;
    for entry in fs::read_dir(from).context(|| format!("cannot list {}", from.display()))? {
        let path = entry
            .context(|| format!("cannot list {}", from.display()))?
            .path();
        let target = to.join(path.file_name().expect("a directory entry has a name"));
        if path.is_dir() {
            copy_scripts(&path, &target)?;
        } else {
            fs::copy(&path, &target).context(|| format!("cannot copy {}", path.display()))?;
        }
    }
    Ok(())
}

/// Reads the console until the guest closes it. The log is for a person who wonders, while the
/// guest runs or after it failed, so that it cannot be written is no failure.
fn collect(stdout: impl Read, mut log: impl Write, echo: bool) -> String {
    let mut output = String::new();
    // Of what is dropped, the last lines: they say how it ended.
    let mut dropped: VecDeque<String> = VecDeque::new();
    let mut lines = BufReader::new(stdout);
    let mut line = Vec::new();
    loop {
        line.clear();
        // An error here is the end of the console: the guest is gone.
        if !matches!(lines.read_until(b'\n', &mut line), Ok(1..)) {
            break;
        }
        let text = String::from_utf8_lossy(&line);
        let text = text.trim_end();
        if echo {
            eprintln!("  | {text}");
        }
        if dropped.is_empty() && output.len() + text.len() < OUTPUT_BYTES_MAX {
            let _ = writeln!(log, "{text}");
            output.push_str(text);
            output.push('\n');
            continue;
        }
        if dropped.len() == LAST_LINES {
            dropped.pop_front();
        }
        dropped.push_back(text.to_owned());
    }
    if !dropped.is_empty() {
        output.push_str("(output cut)\n");
    }
    for text in dropped {
        let _ = writeln!(log, "{text}");
        output.push_str(&text);
        output.push('\n');
    }
    output
}

/// A running guest. Dropping it kills it.
#[derive(Debug)]
pub(crate) struct Guest {
    child: Child,
    job: PathBuf,
    started: Instant,
    deadline: Instant,
    boot: Option<Duration>,
    reader: Option<JoinHandle<String>>,
}

impl Guest {
    /// What to run; by default nothing, with 512 MiB and five minutes, in slot 0.
    pub(crate) fn builder<'a>(net: &'a Net, tools: &'a Tools) -> GuestBuilder<'a> {
        Self::on(Machine::Uml(tools), net)
    }

    /// As [`Guest::builder`], with a kernel under QEMU; slower by an order of magnitude.
    pub(crate) fn under_qemu<'a>(net: &'a Net, qemu: &'a Qemu) -> GuestBuilder<'a> {
        Self::on(Machine::Qemu(qemu), net).mem_mib(1024)
    }

    fn on<'a>(machine: Machine<'a>, net: &'a Net) -> GuestBuilder<'a> {
        GuestBuilder {
            net,
            machine,
            script: PathBuf::new(),
            env: Vec::new(),
            mem_mib: 512,
            limit: Duration::from_secs(300),
            slot: 0,
            on_rails: false,
            echo: false,
        }
    }

    /// Runs the guest's kernel; its standard output is the console.
    fn start(mut command: Command, job: PathBuf, limit: Duration, echo: bool) -> Result<Self> {
        command
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(create(&job.join(COMPLAINTS))?);
        let log = create(&job.join(CONSOLE))?;
        let started = Instant::now();
        let mut child = command
            .spawn()
            .context(|| "cannot start the guest kernel".into())?;
        let stdout = child.stdout.take().expect("the guest's output is a pipe");
        let reader = Some(thread::spawn(move || collect(stdout, log, echo)));
        Ok(Self {
            child,
            job,
            started,
            deadline: started + limit,
            boot: None,
            reader,
        })
    }

    /// Tells the guest something: its `await NAME` returns.
    pub(crate) fn signal(&self, name: &str) -> Result<()> {
        let path = self.job.join(name);
        fs::write(&path, "").context(|| format!("cannot write {}", path.display()))
    }

    /// Whether the guest has said so already.
    pub(crate) fn has_signalled(&self, name: &str) -> bool {
        self.job.join(name).exists()
    }

    /// Waits until the guest's `signal NAME`. `false` when the guest ended or its limit passed first:
    /// `wait` then tells how.
    pub(crate) fn await_signal(&mut self, name: &str) -> Result<bool> {
        Ok(self.await_any(&[name.to_owned()])?.is_some())
    }

    /// As [`Guest::await_signal`] for the first of several; returns which.
    pub(crate) fn await_any(&mut self, names: &[String]) -> Result<Option<usize>> {
        loop {
            let found = names.iter().position(|name| self.job.join(name).exists());
            if found.is_some() {
                return Ok(found);
            }
            if self.step()? || Instant::now() >= self.deadline {
                return Ok(None);
            }
            thread::sleep(POLL);
        }
    }

    /// Waits for the guest's end, or kills it when its limit passes.
    pub(crate) fn wait(mut self) -> Result<GuestRun> {
        while !self.step()? {
            if Instant::now() >= self.deadline {
                return self.finish(true);
            }
            thread::sleep(POLL);
        }
        self.finish(false)
    }

    /// Kills the guest, unless it has ended.
    pub(crate) fn stop(mut self) -> Result<GuestRun> {
        let ended = self.step()?;
        self.finish(!ended)
    }

    /// Notes the end of the boot; returns whether the guest has ended.
    fn step(&mut self) -> Result<bool> {
        if self.boot.is_none() && self.job.join("booted").exists() {
            self.boot = Some(self.started.elapsed());
        }
        let status = self
            .child
            .try_wait()
            .context(|| "cannot wait for the guest".into())?;
        Ok(status.is_some() || self.job.join("rc").exists())
    }

    /// Reads what the guest left. A job directory is kept only when the guest did not end well.
    fn finish(&mut self, timed_out: bool) -> Result<GuestRun> {
        // After its status the guest powers off, which drains the console; a mount that hangs must
        // not hold that up for ever.
        let ended = if timed_out {
            None
        } else {
            wait_at_most(&mut self.child, POWER_OFF_LIMIT)?
        };
        kill_family(&mut self.child);
        let mut output = self
            .reader
            .take()
            .and_then(|reader| reader.join().ok())
            .unwrap_or_default();
        let status = fs::read_to_string(self.job.join("rc")).ok();
        let rc = match status.and_then(|text| text.trim().parse().ok()) {
            Some(status) => GuestExit::Status(status),
            None if timed_out => GuestExit::TimedOut,
            None => GuestExit::Died,
        };
        let ended_well = rc == GuestExit::Status(0);
        if ended_well {
            remove_tree(&self.job)?;
        }
        if rc == GuestExit::Died {
            output.push_str(&self.complaints(ended));
        }
        Ok(GuestRun {
            rc,
            output,
            boot: self.boot,
            log: (!ended_well).then(|| self.job.join(CONSOLE)),
        })
    }

    /// What the program that ran the guest said last, and how it ended, a line each.
    fn complaints(&self, ended: Option<ExitStatus>) -> String {
        let said = fs::read(self.job.join(COMPLAINTS)).unwrap_or_default();
        let said = String::from_utf8_lossy(&said);
        let mut lines: Vec<String> = said.lines().map(str::to_owned).collect();
        lines.drain(..lines.len().saturating_sub(COMPLAINTS_MAX));
        let failed = ended.filter(|status| !status.success());
        lines.extend(failed.map(|status| format!("its process ended: {status}")));
        lines.iter().map(|line| format!("{line}\n")).collect()
    }
}

impl Drop for Guest {
    fn drop(&mut self) {
        kill_family(&mut self.child);
    }
}

#[cfg(test)]
mod tests {
    //! What is kept of a console. A shell stands for the guest's kernel.

    use super::*;

    /// What is left of a guest whose kernel is this script.
    fn run(name: &str, script: &str) -> GuestRun {
        let name = format!("xtask-guest-{name}-{}", std::process::id());
        let job = std::env::temp_dir().join(name);
        fs::create_dir_all(&job).unwrap();
        let mut command = Command::new("sh");
        command.args(["-c", script]).current_dir(&job);
        let guest = Guest::start(command, job.clone(), Duration::from_secs(60), false);
        let run = guest.unwrap().wait().unwrap();
        remove_tree(&job).unwrap();
        run
    }

    #[test]
    fn a_kernel_that_ends_early_leaves_its_words_and_those_of_its_program() {
        let died = run("died", "echo panic; echo no such option >&2; exit 3");
        assert_eq!(died.rc, GuestExit::Died);
        let all = "panic\nno such option\nits process ended: exit status: 3\n";
        assert_eq!(died.output, all);
        assert!(died.log.is_some_and(|log| log.ends_with(CONSOLE)));
        let well = run("well", "echo ok; echo noise >&2; echo 0 >rc");
        assert_eq!((well.rc, &well.output[..]), (GuestExit::Status(0), "ok\n"));
        assert_eq!(well.log, None);
    }

    #[test]
    fn the_end_of_a_long_console_is_kept() {
        let line = "x".repeat(1 << 16);
        let mut said: String = format!("{line}\n").repeat(OUTPUT_BYTES_MAX >> 16);
        said.push_str("Kernel panic\nRebooting\n");
        let mut log = Vec::new();
        let output = collect(said.as_bytes(), &mut log, false);
        assert!(output.ends_with("\nKernel panic\nRebooting\n"));
        assert!(output.contains("\n(output cut)\n"));
        assert!(output.len() < OUTPUT_BYTES_MAX + (LAST_LINES << 17));
        assert!(log.ends_with(b"Rebooting\n"));
        assert_eq!(collect(&b"a\r\nb"[..], &mut Vec::new(), false), "a\nb\n");
    }
}
