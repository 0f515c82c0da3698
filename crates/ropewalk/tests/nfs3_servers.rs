//! Goal: an administrator tries, adds, drains and removes NFSv3 servers of others by the commands, and files move and stay whole.
//! Method: clusters of the same program on the loopback, some of which speak NFSv3 and are the servers; commands as processes.
#![allow(
    clippy::unwrap_used,
    reason = "a failure here is the failure of a test"
)]

mod rig;

use rig::{Up, run, sentence, url, wait_for};
use std::path::Path;

/// Runs a command that succeeds. Returns what it printed.
fn ok(arguments: &[&str]) -> String {
    let output = run(arguments);
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{arguments:?}: {said}");
    String::from_utf8(output.stdout).unwrap()
}

/// Runs a command that fails by a sentence with this in it.
fn refused(arguments: &[&str], part: &str) {
    let output = run(arguments);
    assert!(!output.status.success(), "{arguments:?}");
    let said = sentence(&output);
    assert!(said.contains(part), "{arguments:?}: {said}");
}

/// The port of a cluster.
fn port(dir: &Path) -> String {
    let url = url(dir);
    let port = url.trim_end_matches('/').rsplit(':').next().unwrap();
    port.to_owned()
}

/// The line that `ropewalk ds list` has for a server.
fn row(dir: &str, id: &str) -> String {
    let list = ok(&["ds", "list", "--dir", dir]);
    let mut lines = list.lines();
    let line = lines.find(|line| line.split_whitespace().next() == Some(id));
    line.unwrap_or_default().to_owned()
}

/// Runs the command that `add-nfs3` says for client machines.
fn look(printed: &str) -> String {
    let (_, command) = printed.split_once(": ropewalk ").unwrap();
    let line = command.lines().next().unwrap();
    ok(&line.split_whitespace().collect::<Vec<_>>())
}

#[test]
fn servers_are_tried_added_drained_and_removed_by_the_commands() {
    let dirs = tempfile::tempdir().unwrap();
    let [main, one, two] = ["main", "one", "two"].map(|name| dirs.path().join(name));
    let more = ["--ds", "1", "--port", "0", "--nfs3"];
    // Root writes there as root.
    let open = [&more[..], &["--export", "127.0.0.1:rw:none"]].concat();
    let _others = [&one, &two].map(|dir| Up::start(dir, &open));
    let _main = Up::start(&main, &more);
    let dir = main.to_str().unwrap();
    let ports = [&one, &two].map(|dir| port(dir));
    let [p, q] = &ports;

    let tried = ok(&["ds", "probe-nfs3", "127.0.0.1:/", "--port", p]);
    assert!(tried.contains("root is not squashed"), "{tried}");
    let add = |host: &str, port: &str| {
        let target = format!("{host}:/");
        ["ds", "add-nfs3", &target, "--port", port, "--dir", dir].map(str::to_owned)
    };
    let add_ok = |host, port| ok(&add(host, port).each_ref().map(String::as_str));
    let add_refused =
        |host, port, part: &str| refused(&add(host, port).each_ref().map(String::as_str), part);
    let printed = add_ok("127.0.0.1", p);
    assert!(printed.contains("it is server f1;"), "{printed}");
    assert!(look(&printed).contains("it is the export"));
    // Neither of these changes the code.
    add_refused("127.0.0.1", p, "server f1 already");
    add_refused("localhost", p, "the export of server f1 already");
    assert!(look(&printed).contains("it is the export"));
    let elsewhere = code_in(&printed);
    let expected = ["ds", "probe-nfs3", "127.0.0.1:/", "--port", q, "--expect"];
    refused(
        &[&expected[..], &[&elsewhere]].concat(),
        "this is another export",
    );

    // All files go to the first one at first.
    let tree = format!("{}far", url(&main));
    ok(&["mkdir", &tree]);
    ok(&[
        "layout",
        "set",
        &tree,
        "--servers",
        "nfs3",
        "--mirrors",
        "1",
    ]);
    let (file, copy) = (dirs.path().join("file"), dirs.path().join("copy"));
    let bytes: Vec<u8> = (0..300_000_u32).map(|i| (i % 251) as u8).collect();
    std::fs::write(&file, &bytes).unwrap();
    let (file, there) = (file.to_str().unwrap(), format!("{tree}/file"));
    ok(&["cp", file, &there]);
    let printed = add_ok("127.0.0.1", q);
    assert!(printed.contains("it is server f2;"), "{printed}");

    drained_and_removed(dir);
    ok(&["cp", &there, copy.to_str().unwrap()]);
    assert!(std::fs::read(&copy).unwrap() == bytes, "it moved whole");
}

/// The code that `add-nfs3` printed.
fn code_in(printed: &str) -> String {
    let (_, rest) = printed.split_once("--expect ").unwrap();
    rest.split_whitespace().next().unwrap().to_owned()
}

/// Takes the first server out of the cluster at `dir`.
fn drained_and_removed(dir: &str) {
    refused(
        &["ds", "remove-nfs3", "f1", "--dir", dir],
        "ds drain-nfs3 f1",
    );
    ok(&["ds", "drain-nfs3", "f1", "--dir", dir]);
    assert!(row(dir, "f1").contains("draining"), "{}", row(dir, "f1"));
    ok(&["ds", "undrain-nfs3", "f1", "--dir", dir]);
    assert!(row(dir, "f1").contains("active"), "{}", row(dir, "f1"));
    ok(&["ds", "drain-nfs3", "f1", "--dir", dir]);
    wait_for("empty server", || {
        row(dir, "f1").contains("no files left").then_some(())
    });
    let removed = wait_for("removed server", || {
        let output = run(&["ds", "remove-nfs3", "f1", "--dir", dir]);
        output.status.success().then_some(output.stdout)
    });
    assert!(String::from_utf8_lossy(&removed).contains("f1 is used no more"));
    assert_eq!(row(dir, "f1"), "");
    for order in ["drain-nfs3", "undrain-nfs3", "remove-nfs3"] {
        refused(&["ds", order, "f1", "--dir", dir], "no server f1");
    }
}
