//! Goal: a data server that dies, hangs or cannot start costs its clients as little as can be. Its port stays open over a death;
//! a stopped process becomes a dead one; a port that nobody serves for 3 s refuses. The watcher and the one that serves end
//! together. Method: the real programs, signals, and a disk that hangs: a pipe in the place of a file. Bounds of time are generous.
#![allow(
    clippy::unwrap_used,
    reason = "a failure here is the failure of a test"
)]

mod rig;

use rig::{PATIENCE, Up, is_alive, pid_of, quick, ropewalk, run, sentence, signal, status};
use rig::{wait_for, watcher_of};
use rustix::process::Signal;
use std::io::{ErrorKind, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::path::PathBuf;
use std::process::{Child, Stdio};
use std::time::{Duration, Instant};

/// A metadata server and a data server, started as a user would.
struct Pair {
    dir: tempfile::TempDir,
    mds: Child,
    /// The watcher of the data server.
    watcher: Child,
    address: SocketAddr,
}

impl Pair {
    fn start() -> Self {
        Self::start_over("tcp")
    }

    fn start_over(transport: &str) -> Self {
        let dir = tempfile::tempdir().unwrap();
        quick(dir.path());
        let up = Up::start(
            dir.path(),
            &["--ds", "1", "--port", "0", "--transport", transport],
        );
        assert!(up.stop().success());
        let spawn = |role: &str, name: &str| {
            let home = dir.path().join(name);
            let log = std::fs::File::options().append(true).open(home.join("log"));
            ropewalk()
                .arg(role)
                .arg("--config")
                .arg(home.join(format!("{role}.toml")))
                .arg("--exit-with-parent")
                .stdin(Stdio::piped())
                .stderr(log.unwrap())
                .spawn()
                .unwrap()
        };
        let (mds, watcher) = (spawn("mds", "mds"), spawn("ds", "ds-1"));
        let address = wait_for("data server", || {
            let status = status(dir.path())?;
            let serves = status["ds-1"]["state"] == "serving";
            let address = status["ds-1"]["listen"][0].as_str()?.parse().ok()?;
            serves.then_some(address)
        });
        Self {
            dir,
            mds,
            watcher,
            address,
        }
    }

    fn home(&self) -> PathBuf {
        self.dir.path().join("ds-1")
    }

    /// Where it serves software iWARP.
    fn rdma_address(&self) -> SocketAddr {
        let config = std::fs::read_to_string(self.home().join("ds.toml")).unwrap();
        let config: toml::Table = config.parse().unwrap();
        let addresses = config["rdma_listen"].as_array().unwrap();
        addresses[0].as_str().unwrap().parse().unwrap()
    }

    /// The process that serves.
    fn pid(&self) -> u32 {
        wait_for("pid of the data server", || {
            pid_of(&status(self.dir.path())?, "ds-1")
        })
    }

    /// Waits until another process than `old` serves with a lease.
    fn await_next(&self, old: u32) {
        wait_for("next process", || {
            let status = status(self.dir.path())?;
            let next = pid_of(&status, "ds-1")? != old;
            (next && status["ds-1"]["state"] == "serving").then_some(())
        });
    }

    fn await_refusal(&self) {
        wait_for("refusal", || {
            let refused = TcpStream::connect(self.address).err()?.kind();
            (refused == ErrorKind::ConnectionRefused).then_some(())
        });
    }

    fn connect(&self) -> TcpStream {
        let stream = TcpStream::connect(self.address).unwrap();
        stream.set_read_timeout(Some(PATIENCE)).unwrap();
        stream
    }
}

impl Drop for Pair {
    fn drop(&mut self) {
        // The server ends when who watches it has ended.
        for child in [&mut self.watcher, &mut self.mds] {
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}

/// A NULL call of NFS version 4 (RFC 5531), as one record.
fn null_call() -> Vec<u8> {
    let words: [u32; 11] = [1 << 31 | 40, 7, 0, 2, 100_003, 4, 0, 0, 0, 0, 0];
    words.into_iter().flat_map(u32::to_be_bytes).collect()
}

/// Calls, and waits for the answer.
fn call(mut stream: &TcpStream) {
    stream.write_all(&null_call()).unwrap();
    let mut answer = [0; 28];
    stream.read_exact(&mut answer).unwrap();
    assert_eq!(answer[4..8], 7_u32.to_be_bytes());
}

/// Waits for the end of a connection.
fn await_end(mut stream: &TcpStream) {
    match stream.read(&mut [0]) {
        Ok(0) => {}
        Err(e) if e.kind() == ErrorKind::ConnectionReset => {}
        other => panic!("the connection goes on: {other:?}"),
    }
}

#[test]
fn a_killed_server_comes_back_and_no_connection_is_refused() {
    let pair = Pair::start();
    let old = pair.pid();
    let established = pair.connect();
    call(&established);
    signal(old, Signal::KILL);
    let killed = Instant::now();
    while is_alive(old) {
        drop(pair.connect());
        assert!(killed.elapsed() < PATIENCE, "it does not die");
    }
    let first = pair.connect();
    while pid_of(&status(pair.dir.path()).unwrap_or_default(), "ds-1").is_none() {
        drop(pair.connect());
        assert!(killed.elapsed() < PATIENCE, "nobody is back");
    }
    call(&first);
    pair.await_next(old);
    await_end(&established);
    assert_eq!(watcher_of(pair.pid()), pair.watcher.id());
}

#[test]
fn a_killed_server_refuses_no_connection_of_software_iwarp() {
    let pair = Pair::start_over("rdma");
    let address = pair.rdma_address();
    let old = pair.pid();
    signal(old, Signal::KILL);
    let killed = Instant::now();
    let connect = || TcpStream::connect(address).unwrap();
    while pid_of(&status(pair.dir.path()).unwrap_or_default(), "ds-1").is_none_or(|pid| pid == old)
    {
        drop(connect());
        assert!(killed.elapsed() < PATIENCE, "nobody is back");
    }
    pair.await_next(old);
    // An MPA request frame (RFC 5044 §7.1.1) with CRCs, and nothing private.
    let mut stream = connect();
    stream.set_read_timeout(Some(PATIENCE)).unwrap();
    stream.write_all(b"MPA ID Req Frame\x40\x01\0\0").unwrap();
    let mut reply = [0; 16];
    stream.read_exact(&mut reply).unwrap();
    assert_eq!(&reply, b"MPA ID Rep Frame");
}

#[test]
fn a_stopped_server_becomes_a_dead_one_and_is_replaced() {
    let pair = Pair::start();
    let old = pair.pid();
    let established = pair.connect();
    call(&established);
    signal(old, Signal::STOP);
    wait_for("stop of each thread", || {
        let threads = std::fs::read_dir(format!("/proc/{old}/task")).ok()?;
        let stats = threads.map(|thread| std::fs::read_to_string(thread?.path().join("stat")));
        let stats: Vec<String> = stats.collect::<Result<_, _>>().ok()?;
        let all = stats.iter().all(|stat| stat.contains(") T "));
        all.then_some(())
    });
    let waiting = pair.connect();
    wait_for("end of the stopped process", || {
        (!is_alive(old)).then_some(())
    });
    await_end(&established);
    // It was in the queue of a socket that the next process has.
    call(&waiting);
    pair.await_next(old);
}

#[test]
fn a_server_that_cannot_start_has_its_port_closed_until_it_can() {
    let mut pair = Pair::start();
    let config = pair.home().join("ds.toml");
    let good = std::fs::read(&config).unwrap();
    let old = pair.pid();
    std::fs::write(&config, "this is no configuration").unwrap();
    signal(old, Signal::KILL);
    drop(pair.connect());
    pair.await_refusal();
    std::thread::sleep(Duration::from_secs(1));
    pair.await_refusal();
    assert_eq!(pair.watcher.try_wait().unwrap(), None, "it goes on trying");
    std::fs::write(&config, good).unwrap();
    pair.await_next(old);
    call(&pair.connect());
}

#[test]
fn a_server_whose_disk_hangs_is_killed_and_serves_when_the_disk_does() {
    let pair = Pair::start();
    let old = pair.pid();
    let established = pair.connect();
    call(&established);
    let file = pair.home().join("data/index");
    let aside = pair.home().join("data/index.aside");
    std::fs::rename(&file, &aside).unwrap();
    // To open it takes for ever: nobody writes.
    rustix::fs::mkfifoat(rustix::fs::CWD, &file, rustix::fs::Mode::RWXU).unwrap();
    wait_for("end of the process", || (!is_alive(old)).then_some(()));
    await_end(&established);
    // The next process waits for the disk as well.
    pair.await_refusal();
    let ends_the_wait = std::fs::File::options().read(true).write(true).open(&file);
    std::fs::rename(&aside, &file).unwrap();
    drop(ends_the_wait.unwrap());
    pair.await_next(old);
    call(&pair.connect());
}

#[test]
fn both_end_when_either_is_told_to() {
    let mut pair = Pair::start();
    for who_watches in [true, false] {
        let server = pair.pid();
        let told = if who_watches {
            pair.watcher.id()
        } else {
            server
        };
        signal(told, Signal::TERM);
        let end = wait_for("end of both", || pair.watcher.try_wait().unwrap());
        assert!(end.success(), "{end}");
        assert!(!is_alive(server));
        pair.await_refusal();
        let config = pair.home().join("ds.toml");
        let mut again = ropewalk();
        again.args(["ds", "--config", config.to_str().unwrap()]);
        again.stderr(Stdio::null());
        pair.watcher = again.spawn().unwrap();
        pair.await_next(server);
    }
}

#[test]
fn the_server_ends_when_nobody_watches_it() {
    let mut pair = Pair::start();
    let server = pair.pid();
    pair.watcher.kill().unwrap();
    pair.watcher.wait().unwrap();
    wait_for("end of the server", || (!is_alive(server)).then_some(()));
    pair.await_refusal();
}

#[test]
fn the_serving_process_is_not_for_people() {
    let pair = Pair::start();
    let config = pair.home().join("ds.toml");
    let output = run(&["ds", "--watched", "--config", config.to_str().unwrap()]);
    assert_eq!(output.status.code(), Some(1));
    assert!(sentence(&output).contains("--watched is for"));
}
