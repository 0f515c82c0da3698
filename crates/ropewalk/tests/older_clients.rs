//! Goal: clients of others that know NFSv3 or NFSv4.0 alone find the server and use it: libnfs, in user space, and the tools of
//! nfs-common with a real rpcbind. Method: their commands as processes, on loopback.
#![allow(clippy::unwrap_used, reason = "tests unwrap")]

mod rig;

use rig::{Killed, LoneMds, Up, url, wait_for};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

const FILE_BYTES: usize = 3_000_001;
const SMALL_BYTES: usize = 2_000;
/// Says to a run of this program that it has namespaces of its own.
const INSIDE: &str = "ROPEWALK_TEST_OLDER_CLIENTS";

/// Runs a program that succeeds. Returns what it printed.
fn ok(program: &str, arguments: &[&str]) -> Vec<u8> {
    let output = Command::new(program).args(arguments).output().unwrap();
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(
        output.status.success(),
        "{program} {arguments:?}: {said}{}",
        String::from_utf8_lossy(&output.stdout)
    );
    output.stdout
}

fn text(program: &str, arguments: &[&str]) -> String {
    String::from_utf8(ok(program, arguments)).unwrap()
}

/// Whether a program is on this machine. In CI all are.
fn is_there(program: &str, package: &str) -> bool {
    let path = std::env::var_os("PATH").unwrap_or_default();
    if std::env::split_paths(&path).any(|dir| dir.join(program).exists()) {
        return true;
    }
    let is_ci = std::env::var("CI").is_ok_and(|value| value == "true");
    assert!(!is_ci, "there is no {program}; .ci/apt-packages has it");
    eprintln!("skipped: `apt-get install {package}` brings {program}");
    false
}

/// A server for libnfs, and how its commands are told of it.
struct Server {
    dir: tempfile::TempDir,
    port: String,
    _up: Up,
}

impl Server {
    fn start() -> Self {
        let dir = tempfile::tempdir().unwrap();
        let more = ["--ds", "2", "--port", "0", "--nfs3"];
        let export = ["--export", "127.0.0.1:rw:none"];
        let up = Up::start(dir.path(), &[&more[..], &export].concat());
        let url = url(dir.path());
        let (_, port) = url.trim_end_matches('/').rsplit_once(':').unwrap();
        Self {
            port: port.to_owned(),
            dir,
            _up: up,
        }
    }

    /// The URL of a path, as libnfs has it: without a port mapper.
    fn url(&self, version: u32, path: &str) -> String {
        let port = &self.port;
        let mount = match version {
            3 => format!("&mountport={port}"),
            _ => String::new(),
        };
        format!("nfs://127.0.0.1{path}?version={version}&nfsport={port}{mount}")
    }

    fn local(&self, name: &str, bytes: &[u8]) -> PathBuf {
        let path = self.dir.path().join(name);
        std::fs::write(&path, bytes).unwrap();
        path
    }

    /// Our own command on a path.
    fn own(&self, words: &[&str]) {
        let program = env!("CARGO_BIN_EXE_ropewalk");
        ok(program, words);
    }
}

#[test]
fn libnfs_lists_writes_and_reads_by_nfs3_and_by_nfs40() {
    if !is_there("nfs-cp", "libnfs-utils") {
        return;
    }
    let server = Server::start();
    let own = url(server.dir.path());
    for version in [3, 4] {
        server.own(&["mkdir", &format!("{own}v{version}")]);
        let at = |name: &str| server.url(version, &format!("/v{version}/{name}"));
        let bytes_of = |len: usize| -> Vec<u8> {
            let byte = |i| u8::try_from((i * (version as usize + 4)) % 251).unwrap();
            (0..len).map(byte).collect()
        };
        // libnfs 4.0 encodes no larger WRITE of NFSv4.
        let bytes = bytes_of(if version == 3 {
            FILE_BYTES
        } else {
            SMALL_BYTES
        });
        let here = server.local("here", &bytes);
        ok("nfs-cp", &[here.to_str().unwrap(), &at("written")]);
        assert!(ok("nfs-cat", &[&at("written")]) == bytes, "{version}");
        // Our own client reads what libnfs wrote, and the other way round.
        let back = server.dir.path().join("back");
        let written = format!("{own}v{version}/written");
        server.own(&["cp", &written, back.to_str().unwrap()]);
        assert!(std::fs::read(&back).unwrap() == bytes, "{version}");
        let large = bytes_of(FILE_BYTES);
        let here = server.local("large", &large);
        let there = format!("{own}v{version}/large");
        server.own(&["cp", here.to_str().unwrap(), &there]);
        assert!(ok("nfs-cat", &[&at("large")]) == large, "{version}");
        let copy = server.dir.path().join(format!("copy-{version}"));
        ok("nfs-cp", &[&at("large"), copy.to_str().unwrap()]);
        assert!(std::fs::read(&copy).unwrap() == large, "{version}");

        let listed = text("nfs-ls", &[&server.url(version, &format!("/v{version}"))]);
        let size_of = |name: &str| {
            let mut lines = listed.lines();
            let line = lines.find(|line| line.ends_with(&format!(" {name}")));
            let line = line.unwrap_or_else(|| panic!("no {name}: {listed}"));
            line.split_whitespace().nth(4).map(str::to_owned)
        };
        for (name, len) in [("written", bytes.len()), ("large", FILE_BYTES)] {
            assert_eq!(size_of(name), Some(len.to_string()), "{listed}");
        }
        let absent = Command::new("nfs-cat").arg(at("absent")).output().unwrap();
        assert!(!absent.status.success(), "{absent:?}");
    }
}

/// In network and mount namespaces of its own, where the ports and the socket of rpcbind are free.
#[test]
#[ignore = "starts an rpcbind in network and mount namespaces of its own: needs root"]
fn a_real_rpcbind_names_the_server_and_showmount_lists_its_export() {
    if std::env::var_os(INSIDE).is_none() {
        let name = "a_real_rpcbind_names_the_server_and_showmount_lists_its_export";
        let mut command = Command::new("unshare");
        command.args(["--mount", "--net", "--propagation", "private"]);
        command.arg(std::env::current_exe().unwrap());
        command.args(["--ignored", "--exact", "--nocapture", name]);
        let status = command.env(INSIDE, "1").status().unwrap();
        assert!(status.success());
        return;
    }
    inside();
}

/// Starts rpcbind with a `/run` of its own.
fn rpcbind() -> Killed {
    ok("ip", &["link", "set", "lo", "up"]);
    ok("mount", &["-t", "tmpfs", "tmpfs", "/run"]);
    std::fs::create_dir("/run/rpcbind").unwrap();
    ok("chown", &["_rpc", "/run/rpcbind"]);
    let mut command = Command::new("rpcbind");
    let child = command.arg("-f").stdin(Stdio::null()).spawn().unwrap();
    let socket = Path::new("/run/rpcbind.sock");
    wait_for("rpcbind", || socket.exists().then_some(()));
    Killed(child)
}

/// Program and version of what rpcbind names over TCP.
fn registered() -> Vec<(u32, u32, String)> {
    let printed = text("rpcinfo", &["-p", "127.0.0.1"]);
    let rows = printed.lines().skip(1).filter_map(|line| {
        let mut words = line.split_whitespace();
        let mut next = || words.next();
        let (program, version, protocol) = (next()?, next()?, next()?);
        let port = next()?.to_owned();
        let row = (program.parse().ok()?, version.parse().ok()?, port);
        (protocol == "tcp").then_some(row)
    });
    rows.collect()
}

fn inside() {
    let _rpcbind = rpcbind();
    let (nfs, control) = ("127.0.0.1:2049", "127.0.0.1:2050");
    let config = format!(
        "listen = ['{nfs}']\ncontrol_listen = ['{control}']\nnfs3 = true\nregister_rpcbind = true\n[root]\nmode = '1777'\n\
         [[export]]\nclients = '127.0.0.0/8'\naccess = 'rw'\n"
    );
    let served = [
        (nfs3::PROGRAM, 3),
        (nfs3::PROGRAM, 4),
        (nfs3::mount::PROGRAM, 1),
        (nfs3::mount::PROGRAM, 3),
        (nlm::PROGRAM, 4),
        (nlm::nsm::PROGRAM, 1),
    ];
    let named = |port: &str| {
        let found = registered();
        let is_named = |(program, version): &(u32, u32)| {
            let is_it = |(p, v, at): &(u32, u32, String)| (p, v, &**at) == (program, version, port);
            found.iter().any(is_it)
        };
        served.iter().filter(|what| is_named(what)).count()
    };
    let mut mds = LoneMds::start(64, &config);
    assert_eq!(named("2049"), served.len(), "{:?}", registered());
    for (program, version) in served {
        let (program, version) = (program.to_string(), version.to_string());
        let answer = text("rpcinfo", &["-T", "tcp", "127.0.0.1", &program, &version]);
        assert!(answer.contains("ready and waiting"), "{answer}");
    }
    let exports = text("showmount", &["--no-headers", "-e", "127.0.0.1"]);
    assert_eq!(exports.split_whitespace().next(), Some("/"), "{exports}");
    for list in ["-a", "-d"] {
        let mounted = text("showmount", &["--no-headers", list, "127.0.0.1"]);
        assert_eq!(mounted.trim(), "", "{list}");
    }

    // One that was killed leaves its names behind, and the next one takes them over.
    mds.kill();
    assert_eq!(named("2049"), served.len());
    mds.resume();
    assert_eq!(named("2049"), served.len());
    text("showmount", &["-e", "127.0.0.1"]);
    mds.stop();
    assert_eq!(named("2049"), 0, "{:?}", registered());
}
