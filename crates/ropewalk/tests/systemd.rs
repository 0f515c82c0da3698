//! Goal: under systemd both servers say what they are, and a restart refuses no connection. Method: this test is systemd. It listens
//! at NOTIFY_SOCKET, keeps what it is handed, and passes it to the next process as its descriptors from 3 on. A thread connects
//! all the time.
#![allow(
    clippy::unwrap_used,
    reason = "a failure here is the failure of a test"
)]

mod rig;

use rig::{PATIENCE, Up, pid_of, quick, run, signal, status, wait_for};
use rustix::fd::{AsRawFd, OwnedFd};
use rustix::io::{FdFlags, fcntl_dupfd_cloexec, fcntl_setfd};
use rustix::net::{RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags};
use rustix::process::Signal;
use std::io::IoSliceMut;
use std::mem::MaybeUninit;
use std::net::{SocketAddr, TcpStream};
use std::os::unix::net::UnixDatagram;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::{Arc, Mutex, MutexGuard};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// Descriptors of this process are inherited while a service starts: one test at a time starts some.
static ALONE: Mutex<()> = Mutex::new(());

fn alone() -> MutexGuard<'static, ()> {
    ALONE.lock().unwrap_or_else(|e| e.into_inner())
}

/// What systemd knows of one service.
struct Manager {
    path: PathBuf,
    socket: UnixDatagram,
    /// Descriptors that are kept, by name.
    kept: Vec<(String, OwnedFd)>,
    /// What was said, but signs of life.
    said: Vec<String>,
    signs: usize,
}

impl Manager {
    fn new(dir: &Path) -> Self {
        let path = dir.join("notify");
        let socket = UnixDatagram::bind(&path).unwrap();
        socket
            .set_read_timeout(Some(Duration::from_millis(50)))
            .unwrap();
        Self {
            path,
            socket,
            kept: Vec::new(),
            said: Vec::new(),
            signs: 0,
        }
    }

    /// Hears one message, if there is one soon.
    fn hear(&mut self) {
        let mut bytes = [0; 4096];
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(253))];
        let mut control = RecvAncillaryBuffer::new(&mut space);
        let received = {
            let mut bytes = [IoSliceMut::new(&mut bytes)];
            rustix::net::recvmsg(
                &self.socket,
                &mut bytes,
                &mut control,
                RecvFlags::CMSG_CLOEXEC,
            )
        };
        let Ok(received) = received else {
            return;
        };
        let text = String::from_utf8(bytes[..received.bytes].to_vec()).unwrap();
        let value = |key: &str| {
            let mut lines = text.lines().filter_map(|line| line.split_once('='));
            lines.find(|(k, _)| *k == key).map(|(_, v)| v.to_owned())
        };
        let name = value("FDNAME").unwrap_or_default();
        if value("FDSTOREREMOVE").is_some() {
            self.kept.retain(|(kept, _)| *kept != name);
        }
        for message in control.drain() {
            if let RecvAncillaryMessage::ScmRights(fds) = message {
                assert!(value("FDSTORE").is_some(), "{text}");
                for fd in fds {
                    let is_new = self.kept.iter().all(|(_, kept)| inode(kept) != inode(&fd));
                    if is_new {
                        self.kept.push((name.clone(), fd));
                    }
                }
            }
        }
        match text.as_str() {
            "WATCHDOG=1" => self.signs += 1,
            _ => self.said.push(text),
        }
    }

    /// Hears until something that begins so was said, and forgets what was said until then.
    fn until(&mut self, beginning: &str) -> String {
        let began = Instant::now();
        loop {
            if let Some(at) = self.said.iter().position(|s| s.starts_with(beginning)) {
                return self.said.drain(..=at).next_back().unwrap();
            }
            assert!(
                began.elapsed() < PATIENCE,
                "no {beginning}: {:?}",
                self.said
            );
            self.hear();
        }
    }

    /// Starts a service with all that is kept. A shell puts the descriptors where they belong and becomes the service.
    fn start(&self, arguments: &[&str], log: &Path) -> Child {
        let mut names = Vec::new();
        let mut moves = String::new();
        let mut copies = Vec::new();
        for (number, (name, fd)) in (3..).zip(&self.kept) {
            let copy = fcntl_dupfd_cloexec(fd, 200).unwrap();
            fcntl_setfd(&copy, FdFlags::empty()).unwrap();
            moves += &format!("exec {number}<&{0} {0}<&-; ", copy.as_raw_fd());
            names.push(name.as_str());
            copies.push(copy);
        }
        let script = format!("{moves}export LISTEN_PID=$$; exec \"$@\"");
        let file = std::fs::File::options().append(true).create(true).open(log);
        Command::new("bash")
            .args(["-c", &script, "bash", env!("CARGO_BIN_EXE_ropewalk")])
            .args(arguments)
            .env("NOTIFY_SOCKET", &self.path)
            .env("WATCHDOG_USEC", "400000")
            .env("LISTEN_FDS", names.len().to_string())
            .env("LISTEN_FDNAMES", names.join(":"))
            .env("RUST_LOG", "info")
            .stdin(Stdio::null())
            .stderr(file.unwrap())
            .spawn()
            .unwrap()
    }

    /// Stops a service in order, hearing what it says.
    fn stop(&mut self, mut child: Child) {
        signal(child.id(), Signal::TERM);
        self.until("STOPPING=1");
        let end = wait_for("end of the service", || child.try_wait().unwrap());
        assert!(end.success(), "{end}");
    }

    fn names(&self) -> Vec<&str> {
        let mut names: Vec<_> = self.kept.iter().map(|(name, _)| name.as_str()).collect();
        names.sort_unstable();
        names
    }
}

fn inode(fd: &OwnedFd) -> (u64, u64) {
    let stat = rustix::fs::fstat(fd).unwrap();
    (stat.st_dev, stat.st_ino)
}

/// Connects all the time, until it is asked how many connections there were. A refusal is a panic.
struct Knocker {
    enough: Arc<AtomicBool>,
    thread: JoinHandle<usize>,
}

impl Knocker {
    fn start(address: SocketAddr) -> Self {
        let enough = Arc::new(AtomicBool::new(false));
        let end = Arc::clone(&enough);
        let knock = move || {
            let mut count = 0;
            while !end.load(Relaxed) {
                TcpStream::connect(address).expect("no connection is refused");
                count += 1;
                std::thread::sleep(Duration::from_millis(5));
            }
            count
        };
        let thread = std::thread::spawn(knock);
        Self { enough, thread }
    }

    fn count(self) -> usize {
        self.enough.store(true, Relaxed);
        self.thread.join().unwrap()
    }
}

fn refuses(address: SocketAddr) -> bool {
    TcpStream::connect(address).is_err()
}

#[test]
fn a_metadata_server_that_is_started_again_refuses_no_connection() {
    let _alone = alone();
    let dir = tempfile::tempdir().unwrap();
    let (nfs, control) = (rig::address(), rig::address());
    let (config, log) = (dir.path().join("mds.toml"), dir.path().join("log"));
    let write = |more: &str| {
        let text = format!(
            "state_dir = '{}/mds'\nlisten = ['{nfs}']\ncontrol_listen = ['{control}']\n{more}",
            dir.path().display()
        );
        std::fs::write(&config, text).unwrap();
    };
    write("workers = 3");
    let arguments = ["mds", "--config", config.to_str().unwrap()];
    let mut manager = Manager::new(dir.path());
    let first = manager.start(&arguments, &log);
    assert!(
        manager
            .until("STATUS=serving at")
            .contains(&nfs.to_string())
    );
    manager.until("READY=1");
    assert_eq!(
        manager.names(),
        ["control_listen", "listen", "listen", "listen"]
    );
    let signs = manager.signs;
    while manager.signs < signs + 3 {
        manager.hear();
    }

    signal(first.id(), Signal::HUP);
    assert!(manager.until("RELOADING=1").contains("\nMONOTONIC_USEC="));
    manager.until("READY=1");

    let knockers = [nfs, control].map(Knocker::start);
    manager.stop(first);
    let waiting = TcpStream::connect(nfs).unwrap();
    std::thread::sleep(Duration::from_millis(300));
    let second = manager.start(&arguments, &log);
    manager.until("READY=1");
    assert_eq!(
        manager.names(),
        ["control_listen", "listen", "listen", "listen"]
    );
    call(&waiting);
    for knocker in knockers {
        assert!(knocker.count() > 20);
    }

    // Sockets that do not fit any more listen no longer, and a moment later others do.
    manager.stop(second);
    write("workers = 2");
    let third = manager.start(&arguments, &log);
    manager.until("READY=1");
    assert_eq!(manager.names(), ["control_listen", "listen", "listen"]);
    call(&TcpStream::connect(nfs).unwrap());
    manager.stop(third);
    manager.kept.clear();
    assert!(refuses(nfs) && refuses(control));
}

#[test]
fn a_data_server_that_is_started_again_refuses_no_connection() {
    let _alone = alone();
    let dir = tempfile::tempdir().unwrap();
    quick(dir.path());
    let up = Up::start(dir.path(), &["--ds", "1", "--port", "0"]);
    assert!(up.stop().success());
    let mds_config = dir.path().join("mds/mds.toml");
    let mut mds = rig::ropewalk()
        .args(["mds", "--config", mds_config.to_str().unwrap()])
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let home = dir.path().join("ds-1");
    let (config, log) = (home.join("ds.toml"), home.join("log"));
    let arguments = ["ds", "--config", config.to_str().unwrap()];
    let mut manager = Manager::new(dir.path());
    let first = manager.start(&arguments, &log);
    manager.until("STATUS=process ");
    manager.until("READY=1");
    let address: SocketAddr = wait_for("data server", || {
        let status = status(dir.path())?;
        status["ds-1"]["listen"][0].as_str()?.parse().ok()
    });
    let count = manager.names().len();
    assert!(count > 0 && manager.names().iter().all(|name| *name == "listen"));

    // Its own process dies: the signs of life go on, and it serves again.
    let knocker = Knocker::start(address);
    let old = pid_of(&status(dir.path()).unwrap(), "ds-1").unwrap();
    signal(old, Signal::KILL);
    assert!(manager.until("STATUS=process ").contains("started again"));
    manager.until("READY=1");
    let signs = manager.signs;
    while manager.signs < signs + 3 {
        manager.hear();
    }

    let before = std::fs::read_to_string(&config).unwrap();
    std::fs::write(&config, format!("log = 'debug'\n{before}")).unwrap();
    let asked = run(&["reload", "--check", "--dir", home.to_str().unwrap()]);
    let told = String::from_utf8(asked.stdout).unwrap();
    assert_eq!(told, "in force after a reload: log\n");
    signal(first.id(), Signal::HUP);
    manager.until("RELOADING=1");
    manager.until("READY=1");
    let asked = run(&["reload", "--dir", home.to_str().unwrap()]);
    assert_eq!(
        String::from_utf8(asked.stdout).unwrap(),
        "nothing has changed\n"
    );

    manager.stop(first);
    let waiting = TcpStream::connect(address).unwrap();
    let second = manager.start(&arguments, &log);
    manager.until("READY=1");
    assert_eq!(manager.names().len(), count);
    call(&waiting);
    assert!(knocker.count() > 20);
    manager.stop(second);
    manager.kept.clear();
    assert!(refuses(address));
    mds.kill().unwrap();
    mds.wait().unwrap();
}

/// A NULL call of NFS version 4 (RFC 5531) is answered.
fn call(mut stream: &TcpStream) {
    use std::io::{Read, Write};
    let words: [u32; 11] = [1 << 31 | 40, 7, 0, 2, 100_003, 4, 0, 0, 0, 0, 0];
    let bytes: Vec<u8> = words.into_iter().flat_map(u32::to_be_bytes).collect();
    stream.set_read_timeout(Some(PATIENCE)).unwrap();
    stream.write_all(&bytes).unwrap();
    let mut answer = [0; 28];
    stream.read_exact(&mut answer).unwrap();
    assert_eq!(answer[4..8], 7_u32.to_be_bytes());
}
