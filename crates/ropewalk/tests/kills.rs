//! Goal: servers that are killed again and again under load lose nothing that was acknowledged, do nothing twice, and
//! clients see no error. Method: the real programs and our own client. Writers that know what must be there make,
//! write, sync, rename and remove files and directories, while one server after the other gets SIGKILL. An operation
//! that was done twice or half would answer an error (a name that is there, or not there any more). In the end all
//! names and bytes are compared. A file stays open and locked in each client over all kills, and nobody else ever gets
//! a lock of it. Ranges of it are locked and unlocked all the time. A data server is killed alone, and who watches it starts it
//! again; or both are killed.
#![allow(
    clippy::unwrap_used,
    clippy::print_stdout,
    reason = "tests unwrap; the long form says how far it is"
)]

mod rig;

use bytes::Bytes;
use client::{Client, File, LockKind, OpenOptions};
use rig::{PATIENCE, Up, connect, is_alive, pid_of, quick, ropewalk, signal, status, wait_for};
use rustix::process::Signal;
use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::path::Path;
use std::process::{Child, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::SeqCst};
use std::time::{Duration, Instant};

/// Kills in the short form; `cargo xtask kills` sets another number.
const KILLS: u32 = 6;
const KILLS_VARIABLE: &str = "ROPEWALK_KILLS";
const DS_COUNT: usize = 2;
const WRITERS: u64 = 3;
/// Files that a writer keeps; older ones are removed.
const FILES_KEPT: usize = 12;
/// Longest time between a kill and the next, once every writer has got on after the one before.
const PAUSE_MS: u64 = 400;
/// Longest file.
const FILE_BYTES: u64 = 150_000;

/// Chance that a seed repeats.
struct Dice(u64);

impl Dice {
    fn roll(&mut self, sides: u64) -> u64 {
        self.0 = self
            .0
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) % sides
    }
}

/// The servers, as processes of ours: no supervisor that waits longer after each death.
struct Servers<'d> {
    dir: &'d Path,
    running: Vec<(&'static str, String, Child)>,
}

impl<'d> Servers<'d> {
    fn start(dir: &'d Path) -> Self {
        let names = (1..=DS_COUNT).map(|n| ("ds", format!("ds-{n}")));
        let mut servers = Self {
            dir,
            running: Vec::new(),
        };
        for (role, name) in std::iter::once(("mds", "mds".to_owned())).chain(names) {
            let child = servers.spawn(role, &name);
            servers.running.push((role, name, child));
        }
        wait_for("servers", || {
            let status = status(dir)?;
            let found = status["mds"]["data_servers"].as_array()?;
            let serving = found.iter().filter(|s| s["state"] == "serving").count();
            (serving == DS_COUNT).then_some(())
        });
        servers
    }

    fn spawn(&self, role: &str, name: &str) -> Child {
        let home = self.dir.join(name);
        let log = std::fs::File::options()
            .append(true)
            .create(true)
            .open(home.join("log"));
        let config = home.join(format!("{role}.toml"));
        let mut command = ropewalk();
        command
            .arg(role)
            .arg("--config")
            .arg(config)
            .arg("--exit-with-parent");
        command
            .stdin(Stdio::piped())
            .stderr(log.unwrap())
            .stdout(Stdio::null());
        command.spawn().unwrap()
    }

    /// Kills a server and starts it again; a data server with `alone` leaves that to who watches it.
    fn kill(&mut self, victim: usize, alone: bool, pause: Duration) {
        let (role, name, child) = &mut self.running[victim];
        assert!(
            child.try_wait().unwrap().is_none(),
            "{name} had died by itself"
        );
        if *role == "ds" {
            let serving = wait_for("pid", || pid_of(&status(self.dir)?, name));
            if !alone {
                // It starts no other meanwhile.
                signal(child.id(), Signal::STOP);
            }
            signal(serving, Signal::KILL);
            wait_for("end", || (!is_alive(serving)).then_some(()));
            if alone {
                return;
            }
        }
        child.kill().unwrap();
        child.wait().unwrap();
        std::thread::sleep(pause);
        let (role, name) = (*role, name.clone());
        self.running[victim].2 = self.spawn(role, &name);
    }
}

impl Drop for Servers<'_> {
    fn drop(&mut self) {
        for (_, _, child) in &mut self.running {
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}

/// What a file holds: of which seed, and how long it is.
type Content = (u64, u64);

fn bytes((seed, len): Content) -> Bytes {
    let mut dice = Dice(seed);
    let mut data: Vec<u8> = Vec::new();
    while (data.len() as u64) < len {
        data.extend(dice.roll(1 << 30).to_le_bytes());
    }
    data.truncate(usize::try_from(len).unwrap());
    data.into()
}

async fn read(file: &File) -> Vec<u8> {
    let most = u32::try_from(FILE_BYTES + 1).unwrap();
    file.read_at(0, most).await.unwrap().into_bytes().to_vec()
}

/// One writer: what it has in its directory, all of it acknowledged.
struct Writer {
    client: Client,
    dir: String,
    dice: Dice,
    files: BTreeMap<String, Content>,
    log: File,
    log_bytes: u64,
    /// The log as another client has it open, who may read but never lock what the writer has locked.
    rival: (Client, File),
    turn: u64,
}

/// What a writer has locked of its log from its first to its last turn: far after the bytes.
const KEPT: std::ops::Range<u64> = 1 << 40..u64::MAX;

impl Writer {
    async fn new(address: SocketAddr, number: u64) -> Self {
        let client = connect(address, &format!("writer {number}")).await;
        let dir = format!("/writer-{number}");
        client.mkdir(&dir, 0o755).await.unwrap();
        let log = client
            .open(format!("{dir}/log"), OpenOptions::create(0o644))
            .await
            .unwrap();
        log.lock(LockKind::Exclusive, KEPT).await.unwrap();
        let rival = connect(address, &format!("rival {number}")).await;
        let seen = rival.open(format!("{dir}/log"), OpenOptions::read_write());
        let seen = seen.await.unwrap();
        Self {
            rival: (rival, seen),
            client,
            dir,
            dice: Dice(number + 1),
            files: BTreeMap::new(),
            log,
            log_bytes: 0,
            turn: 0,
        }
    }

    /// A file is made, written, read and renamed. Another is looked at, and the oldest goes. A directory comes and
    /// goes. The log, which stays open, grows.
    async fn turn(&mut self) {
        self.turn += 1;
        let (turn, dir) = (self.turn, self.dir.clone());
        let content = (self.dice.roll(1 << 30), 1 + self.dice.roll(FILE_BYTES));
        let (new, name) = (format!("{dir}/new-{turn}"), format!("file-{turn:06}"));
        let options = OpenOptions {
            exclusive: true,
            ..OpenOptions::create(0o644)
        };
        let file = self.client.open(&new, options).await.unwrap();
        file.write_at(0, bytes(content)).await.unwrap();
        file.flush().await.unwrap();
        assert!(read(&file).await == bytes(content), "{new}");
        file.close().await.unwrap();
        self.client
            .rename(&new, format!("{dir}/{name}"))
            .await
            .unwrap();
        self.files.insert(name, content);

        let other = usize::try_from(self.dice.roll(self.files.len() as u64)).unwrap();
        let (other, content) = self.files.iter().nth(other).unwrap();
        let (other, content) = (format!("{dir}/{other}"), *content);
        compare(&self.client, &other, content).await;

        if self.files.len() > FILES_KEPT {
            let (oldest, _) = self.files.pop_first().unwrap();
            self.client.remove(format!("{dir}/{oldest}")).await.unwrap();
        }
        let sub = format!("{dir}/sub-{turn}");
        self.client.mkdir(&sub, 0o755).await.unwrap();
        self.client.remove(&sub).await.unwrap();

        let line = Bytes::copy_from_slice(&turn.to_be_bytes());
        let range = self.log_bytes..self.log_bytes + 8;
        self.log
            .lock(LockKind::Exclusive, range.clone())
            .await
            .unwrap();
        self.log.write_at(self.log_bytes, line).await.unwrap();
        self.challenge(range.clone()).await;
        self.log.unlock(range).await.unwrap();
        self.log_bytes += 8;
        self.challenge(KEPT).await;
    }

    /// Another client asks for what is locked.
    async fn challenge(&self, range: std::ops::Range<u64>) {
        for kind in [LockKind::Exclusive, LockKind::Shared] {
            let met = self.rival.1.try_lock(kind, range.clone()).await.unwrap();
            assert!(met.is_some(), "{}: {range:?} was free", self.dir);
        }
    }

    /// Looks at everything, with another client.
    async fn check(self, other: Client) {
        let Self {
            dir, files, turn, ..
        } = self;
        self.log.unlock(KEPT).await.unwrap();
        let free = self.rival.1.try_lock(LockKind::Exclusive, 0..u64::MAX);
        assert_eq!(free.await.unwrap(), None, "{dir}: all was given up");
        self.rival.1.close().await.unwrap();
        self.rival.0.close().await.unwrap();
        self.log.close().await.unwrap();
        self.client.close().await.unwrap();
        let entries = other.read_dir(&dir).await.unwrap().rest().await.unwrap();
        let mut names: Vec<_> = entries
            .into_iter()
            .map(|e| String::from_utf8(e.name).unwrap())
            .collect();
        names.sort_unstable();
        let wanted: Vec<_> = files.keys().cloned().chain(["log".to_owned()]).collect();
        assert_eq!(names, wanted, "{dir}");
        for (name, content) in &files {
            compare(&other, &format!("{dir}/{name}"), *content).await;
        }
        let log = format!("{dir}/log");
        let log = other.open(log, OpenOptions::read()).await.unwrap();
        let lines = log.read_at(0, 1 << 20).await.unwrap().into_bytes();
        let wanted: Vec<u8> = (1..=turn).flat_map(u64::to_be_bytes).collect();
        assert!(lines == wanted, "{dir}: the log");
        log.close().await.unwrap();
    }
}

async fn compare(client: &Client, path: &str, content: Content) {
    let file = client.open(path, OpenOptions::read()).await.unwrap();
    let found = read(&file).await;
    assert!(
        found == bytes(content),
        "{path}: {} of {} bytes",
        found.len(),
        content.1
    );
    file.close().await.unwrap();
}

/// Waits until each writer has made a turn that began after now.
fn all_get_on(turns: &[Arc<AtomicU64>], failed: &AtomicBool) {
    let started = Instant::now();
    let before: Vec<u64> = turns.iter().map(|t| t.load(SeqCst)).collect();
    while turns
        .iter()
        .zip(&before)
        .any(|(now, before)| now.load(SeqCst) < before + 2)
    {
        assert!(!failed.load(SeqCst), "a writer has failed");
        assert!(started.elapsed() < 2 * PATIENCE, "writers do not get on");
        std::thread::sleep(Duration::from_millis(5));
    }
}

/// Says that a writer ended before it was told to.
struct OnPanic(Arc<AtomicBool>);

impl Drop for OnPanic {
    fn drop(&mut self) {
        if std::thread::panicking() {
            self.0.store(true, SeqCst);
        }
    }
}

/// Writes until told to stop, then looks at everything.
fn write(address: SocketAddr, number: u64, turns: &AtomicU64, stop: &AtomicBool) {
    let mut builder = tokio::runtime::Builder::new_current_thread();
    let runtime = builder.enable_all().build().unwrap();
    runtime.block_on(async {
        let mut writer = Writer::new(address, number).await;
        while !stop.load(SeqCst) {
            writer.turn().await;
            turns.fetch_add(1, SeqCst);
        }
        let other = connect(address, &format!("reader {number}")).await;
        writer.check(other).await;
    });
}

#[test]
fn kills_under_load_lose_nothing_and_do_nothing_twice() {
    let kills = std::env::var(KILLS_VARIABLE).ok();
    let kills = kills.and_then(|text| text.parse().ok()).unwrap_or(KILLS);
    let dir = tempfile::tempdir().unwrap();
    quick(dir.path());
    let count = DS_COUNT.to_string();
    let up = Up::start(
        dir.path(),
        &["--ds", &count, "--port", "0", "--stripe-unit", "64KiB"],
    );
    let address = status(dir.path()).unwrap()["mds"]["listen"][0]
        .as_str()
        .unwrap()
        .parse()
        .unwrap();
    assert!(up.stop().success());
    let mut servers = Servers::start(dir.path());

    let (stop, failed) = (
        Arc::new(AtomicBool::new(false)),
        Arc::new(AtomicBool::new(false)),
    );
    let turns: Vec<Arc<AtomicU64>> = (0..WRITERS).map(|_| Arc::default()).collect();
    let writers: Vec<_> = (0..WRITERS)
        .zip(turns.iter().cloned())
        .map(|(number, turns)| {
            let (stop, failed) = (stop.clone(), failed.clone());
            std::thread::spawn(move || {
                let _failed = OnPanic(failed);
                write(address, number, &turns, &stop);
            })
        })
        .collect();

    let mut dice = Dice(7);
    for kill in 0..kills {
        all_get_on(&turns, &failed);
        std::thread::sleep(Duration::from_millis(dice.roll(PAUSE_MS)));
        // The MDS every second time.
        let victim = usize::try_from(dice.roll(2) * (1 + dice.roll(DS_COUNT as u64))).unwrap();
        let alone = dice.roll(2) == 0;
        servers.kill(victim, alone, Duration::from_millis(dice.roll(PAUSE_MS)));
        let made: u64 = turns.iter().map(|t| t.load(SeqCst)).sum();
        println!(
            "kill {} of {kills}: {}, after {made} turns",
            kill + 1,
            servers.running[victim].1
        );
    }
    all_get_on(&turns, &failed);
    stop.store(true, SeqCst);
    writers
        .into_iter()
        .for_each(|writer| writer.join().unwrap());
}
