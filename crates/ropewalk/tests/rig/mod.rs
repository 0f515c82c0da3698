//! The real program as a child process, and what tests ask of it.
#![allow(
    dead_code,
    unreachable_pub,
    clippy::unwrap_used,
    reason = "each test uses a part; tests unwrap"
)]

use client::{Client, ClientConfig, UserIdentity, Verifier};
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use std::fs::File;
use std::io::{BufRead, BufReader, Read};
use std::net::{Ipv4Addr, SocketAddr};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::sync::{Arc, Mutex, mpsc};
use std::time::{Duration, Instant};
use transport::tcp::{Reservation, TcpConnector};
use transport::{Address, Context, TransportLimits};

/// Longest wait for anything.
pub const PATIENCE: Duration = Duration::from_secs(60);

/// The program.
pub fn ropewalk() -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_ropewalk"));
    command.stdin(Stdio::null());
    command
}

/// A process, killed when dropped.
pub struct Killed(pub Child);

impl Drop for Killed {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Runs a command to its end.
pub fn run(arguments: &[&str]) -> Output {
    ropewalk().args(arguments).output().unwrap()
}

/// What a failed command said: it must be one sentence with the program's name before it.
pub fn sentence(output: &Output) -> String {
    let text = String::from_utf8(output.stderr.clone()).unwrap();
    let lines: Vec<&str> = text
        .lines()
        .filter(|l| l.starts_with("ropewalk: "))
        .collect();
    let last = lines
        .last()
        .unwrap_or_else(|| panic!("nothing said: {text}"));
    (*last).to_owned()
}

pub fn wait_for<T>(what: &str, mut probe: impl FnMut() -> Option<T>) -> T {
    let started = Instant::now();
    loop {
        if let Some(found) = probe() {
            return found;
        }
        assert!(started.elapsed() < PATIENCE, "no {what} after {PATIENCE:?}");
        std::thread::sleep(Duration::from_millis(50));
    }
}

pub fn signal(pid: u32, signal: rustix::process::Signal) {
    let pid = rustix::process::Pid::from_raw(pid.cast_signed()).unwrap();
    rustix::process::kill_process(pid, signal).unwrap();
}

pub fn is_alive(pid: u32) -> bool {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    // A zombie has ended; somebody else reaps it.
    !stat.is_empty() && !stat.contains(") Z ")
}

/// The process that watches a data server, which is the process `pid`.
pub fn watcher_of(pid: u32) -> u32 {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap();
    // The name before it may hold spaces and parentheses.
    let (_, fields) = stat.rsplit_once(')').unwrap();
    fields.split_whitespace().nth(1).unwrap().parse().unwrap()
}

/// A data server that hangs and that nobody replaces, until this is dropped: it is stopped, and so is who watches it.
pub struct Frozen([u32; 2]);

impl Frozen {
    pub fn new(pid: u32) -> Self {
        let both = [watcher_of(pid), pid];
        both.iter()
            .for_each(|pid| signal(*pid, rustix::process::Signal::STOP));
        Self(both)
    }
}

impl Drop for Frozen {
    fn drop(&mut self) {
        let [watcher, server] = self.0;
        signal(server, rustix::process::Signal::CONT);
        signal(watcher, rustix::process::Signal::CONT);
    }
}

/// A running `ropewalk up`.
pub struct Up {
    pub child: Child,
    /// What it printed when it was ready.
    pub ready: String,
}

impl Up {
    /// Starts it and waits until it is ready.
    pub fn start(dir: &Path, more: &[&str]) -> Self {
        let mut child = ropewalk()
            .arg("up")
            .arg("--dir")
            .arg(dir)
            .args(more)
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let stdout = child.stdout.take().unwrap();
        let (tell, told) = mpsc::channel();
        std::thread::spawn(move || {
            let mut text = String::new();
            let mut lines = BufReader::new(stdout).lines();
            while let Some(Ok(line)) = lines.next() {
                text.push_str(&line);
                text.push('\n');
                if line.contains("stop:") {
                    let _ = tell.send(std::mem::take(&mut text));
                }
            }
        });
        match told.recv_timeout(PATIENCE) {
            Ok(ready) => Self { child, ready },
            Err(_) => {
                let _ = child.kill();
                let mut text = String::new();
                let _ = child.stderr.take().unwrap().read_to_string(&mut text);
                let log = std::fs::read_to_string(dir.join("mds/log")).unwrap_or_default();
                panic!("not ready: {text}\nthe metadata server's log:\n{log}");
            }
        }
    }

    /// Sends SIGTERM and waits for the end.
    pub fn stop(mut self) -> std::process::ExitStatus {
        signal(self.child.id(), rustix::process::Signal::TERM);
        wait_for("end of up", || self.child.try_wait().unwrap())
    }
}

impl Drop for Up {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// `ropewalk status --json`, once every server answers.
pub fn status(dir: &Path) -> Option<serde_json::Value> {
    let output = run(&["status", "--json", "--dir", dir.to_str().unwrap()]);
    serde_json::from_slice(&output.stdout).ok()
}

pub fn pid_of(status: &serde_json::Value, server: &str) -> Option<u32> {
    u32::try_from(status[server]["pid"].as_u64()?).ok()
}

/// The files of the objects of a data server of `ropewalk up` in `dir`, with their sizes in bytes.
pub fn objects(dir: &Path, ds: usize) -> Vec<(PathBuf, u64)> {
    let mut waiting = vec![dir.join(format!("ds-{ds}/data"))];
    let mut found = Vec::new();
    while let Some(dir) = waiting.pop() {
        for entry in std::fs::read_dir(dir).unwrap() {
            let (path, kind) = entry.map(|e| (e.path(), e.metadata().unwrap())).unwrap();
            match kind.is_dir() {
                true => waiting.push(path),
                false => found.push((path, kind.len())),
            }
        }
    }
    found
}

/// The root of the file system of `ropewalk up` in `dir`.
pub fn url(dir: &Path) -> String {
    let status = status(dir).unwrap();
    format!("nfs://{}/", status["mds"]["advertise"][0].as_str().unwrap())
}

/// A directory whose metadata server has a short lease, so that grace is short.
pub fn quick(dir: &Path) {
    let mds = dir.join("mds");
    std::fs::create_dir_all(&mds).unwrap();
    let text = format!(
        "state_dir = '{}'\nlisten = ['127.0.0.1:2049']\ncontrol_listen = ['127.0.0.1:{}']\nlease_seconds = 3\n\
         [root]\nmode = '1777'\n",
        mds.display(),
        address().port()
    );
    std::fs::write(mds.join("mds.toml"), text).unwrap();
}

/// An address of this machine for a server to come: nobody else's while this test program runs.
pub fn address() -> SocketAddr {
    static RESERVED: Mutex<Vec<Reservation>> = Mutex::new(Vec::new());
    let reservation = Reservation::new((Ipv4Addr::LOCALHOST, 0).into()).unwrap();
    let address = reservation.address().unwrap();
    RESERVED.lock().unwrap().push(reservation);
    address
}

/// A client of the metadata server at `address`, as the user who runs the test.
pub async fn connect(address: SocketAddr, owner: &str) -> Client {
    connect_in_life(address, owner, 7).await
}

/// The same in another life of the client: its verifier (RFC 8881 §2.4) is of this number.
pub async fn connect_in_life(address: SocketAddr, owner: &str, life: u8) -> Client {
    let identity = UserIdentity {
        uid: rustix::process::getuid().as_raw(),
        gid: rustix::process::getgid().as_raw(),
        gids: Vec::new(),
        machine: "test".to_owned(),
    };
    let verifier = Verifier { bytes: [life; 8] };
    let config = ClientConfig::new(owner.as_bytes().to_vec(), verifier, identity);
    let connector = Arc::new(TcpConnector::new(Context::new(TransportLimits::default())));
    let connected = Client::connect(vec![Address::Tcp(address)], connector, config).await;
    connected.unwrap()
}

/// A metadata server in memory without data servers, killed when dropped. Its log is the file `log` in `dir`.
pub struct LoneMds {
    pub dir: tempfile::TempDir,
    child: Child,
}

impl LoneMds {
    /// Starts it with so many connections at most, all from one address if need be, and waits until it answers. `more` has its listeners.
    pub fn start(connections_max: usize, more: &str) -> Self {
        let dir = tempfile::tempdir().unwrap();
        let config = dir.path().join("mds.toml");
        let store = match more.contains("store =") {
            true => "",
            false => "store = 'memory'\n",
        };
        let text = format!(
            "state_dir = '{}/mds'\n{store}connections_max = {connections_max}\n\
             connections_per_address_max = {connections_max}\n{more}",
            dir.path().display()
        );
        std::fs::write(&config, text).unwrap();
        let child = Self::spawn(dir.path());
        let mds = Self { dir, child };
        wait_for("metadata server", || status(mds.dir.path()));
        mds
    }

    fn spawn(dir: &Path) -> Child {
        ropewalk()
            .args(["mds", "--config", dir.join("mds.toml").to_str().unwrap()])
            .env("RUST_LOG", "info")
            .stderr(File::create(dir.join("log")).unwrap())
            .spawn()
            .unwrap()
    }

    /// Stops it with SIGTERM, and starts it again.
    pub fn restart(&mut self) {
        self.stop();
        self.resume();
    }

    /// Stops it with SIGTERM.
    pub fn stop(&mut self) {
        signal(self.child.id(), rustix::process::Signal::TERM);
        assert!(self.child.wait().unwrap().success());
    }

    /// Ends it with SIGKILL.
    pub fn kill(&mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }

    /// Starts it again after [`Self::stop`] or [`Self::kill`].
    pub fn resume(&mut self) {
        self.child = Self::spawn(self.dir.path());
        wait_for("metadata server", || status(self.dir.path()));
    }

    pub fn resident_bytes(&self) -> usize {
        let statm = std::fs::read_to_string(format!("/proc/{}/statm", self.child.id())).unwrap();
        let pages: usize = statm.split(' ').nth(1).unwrap().parse().unwrap();
        pages * rustix::param::page_size()
    }

    pub fn connections(&self) -> usize {
        let count = status(self.dir.path()).unwrap()["mds"]["connections"].as_u64();
        usize::try_from(count.unwrap()).unwrap()
    }
}

impl Drop for LoneMds {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Raises the limit of open files, which servers inherit, and returns how many connections it allows beside `files_reserved`.
pub fn connections_allowed(files_reserved: u64) -> usize {
    let limit = getrlimit(Resource::Nofile);
    let raised = Rlimit {
        current: limit.maximum,
        maximum: limit.maximum,
    };
    setrlimit(Resource::Nofile, raised).unwrap();
    let files = limit.maximum.unwrap_or(u64::MAX);
    let allowed = files
        .checked_sub(files_reserved)
        .expect("this test needs a hard limit of some 5,000 open files (ulimit -Hn)");
    usize::try_from(allowed).unwrap()
}
