//! Goal: a data server that hangs takes no new files, and whoever waits for it can be ended.
//! Method: `ropewalk up` with three data servers, one of which is stopped (SIGSTOP), and so is who watches it: its connections stay. Commands as processes.
#![allow(
    clippy::unwrap_used,
    reason = "a failure here is the failure of a test"
)]

mod rig;

use rig::{Frozen, Up, pid_of, ropewalk, run, signal, status, url, wait_for};
use rustix::process::Signal;
use std::io::Read;
use std::path::Path;
use std::process::Stdio;
use std::time::{Duration, Instant};

/// Within this a stopped data server is `away`, and takes no new files.
const NOTICED: Duration = Duration::from_secs(2);
/// More than one round of stripes over three data servers.
const FILE_BYTES: usize = 9_000_000;

fn copy(from: &Path, to: &str) {
    let done = run(&["cp", from.to_str().unwrap(), to]);
    let said = String::from_utf8_lossy(&done.stderr);
    assert!(done.status.success(), "{said}");
}

#[test]
fn new_files_avoid_a_data_server_that_hangs_and_who_waits_for_it_can_be_ended() {
    let dir = tempfile::tempdir().unwrap();
    let _up = Up::start(dir.path(), &["--ds", "3", "--port", "0"]);
    let state = || status(dir.path()).unwrap()["mds"]["data_servers"][1]["state"].clone();
    wait_for("data servers", || (state() == "serving").then_some(()));
    let local = dir.path().join("local");
    let bytes: Vec<u8> = (0..=250).cycle().take(FILE_BYTES).collect();
    std::fs::write(&local, &bytes).unwrap();
    let url = url(dir.path());
    let old = format!("{url}old");
    copy(&local, &old);

    let pid = pid_of(&status(dir.path()).unwrap(), "ds-2").unwrap();
    let stopped = Frozen::new(pid);
    std::thread::sleep(NOTICED);
    let begun = Instant::now();
    let new = format!("{url}new");
    copy(&local, &new);
    let took = begun.elapsed();
    assert!(took < Duration::from_secs(30), "{took:?}");
    assert_eq!(run(&["cat", &new]).stdout, bytes);
    assert_eq!(state(), "away");

    // What is there waits: it says for what, and ends when it is told to.
    let mut cat = ropewalk()
        .args(["cat", &old])
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    std::thread::sleep(Duration::from_secs(4));
    let begun = Instant::now();
    signal(cat.id(), Signal::TERM);
    let ended = wait_for("end of cat", || cat.try_wait().unwrap());
    let took = begun.elapsed();
    assert_eq!(ended.code(), Some(143));
    assert!(took < Duration::from_secs(5), "{took:?}");
    let mut said = String::new();
    cat.stderr
        .take()
        .unwrap()
        .read_to_string(&mut said)
        .unwrap();
    assert!(
        said.contains("waiting for the data server 127.0.0.1:"),
        "{said}"
    );

    drop(stopped);
    wait_for("data server 2", || (state() == "serving").then_some(()));
    assert_eq!(run(&["cat", &old]).stdout, bytes);
}
