//! The suite with load generators as processes: on a cluster of its own, on a server by URL, and on a directory.

use super::{command, launcher};
use bench::nfs::cluster::{Cluster, ClusterOptions};
use rustix::process::{Pid, Signal, kill_process};
use std::fs;
use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::Stdio;

/// Runs an experiment in its quick form, and returns its JSON and what it printed.
fn quick(experiment: &str, arguments: &[&str]) -> (serde_json::Value, String) {
    let dir = tempfile::tempdir().unwrap();
    let out = dir.path().join("out");
    let output = command()
        .args([experiment, "--quick", "--out"])
        .arg(&out)
        .arg("--dir")
        .arg(dir.path())
        .args(arguments)
        .output()
        .unwrap();
    let errors = String::from_utf8(output.stderr).unwrap();
    assert!(output.status.success(), "{errors}");
    let file = |name: &str| fs::read(out.join(name)).unwrap();
    assert!(file("report.html").starts_with(b"<!DOCTYPE html>"));
    assert!(!file(&format!("{experiment}.csv")).is_empty());
    let json = serde_json::from_slice(&file(&format!("{experiment}.json"))).unwrap();
    assert_only(dir.path(), "out");
    (json, String::from_utf8(output.stdout).unwrap())
}

fn assert_only(dir: &Path, name: &str) {
    let left: Vec<_> = fs::read_dir(dir)
        .unwrap()
        .map(|entry| entry.unwrap().file_name())
        .collect();
    assert_eq!(left, [name], "something is left behind");
}

fn assert_measured(json: &serde_json::Value) {
    let cells = json["cells"].as_array().unwrap();
    assert!(!cells.is_empty());
    for cell in cells {
        assert!(cell["failed"].is_null(), "{cell}");
        assert!(!cell["runs"].as_array().unwrap().is_empty(), "{cell}");
    }
}

#[test]
fn it_builds_the_clusters_that_it_needs() {
    let (json, text) = quick("metadata", &["--cluster", "ds=2"]);
    assert_measured(&json);
    assert_eq!(json["cells"][0]["cell"]["server"]["own"]["ds_count"], 2);
    let phase = &json["cells"][0]["phases"]["create"];
    assert!(phase["server_cpu_us_per_request"]["median"].is_f64());
    assert!(text.starts_with("Metadata:"), "{text}");
}

#[test]
fn a_directory_can_be_measured() {
    let mounted = tempfile::tempdir().unwrap();
    let (json, text) = quick("records", &["--mounted", mounted.path().to_str().unwrap()]);
    assert_measured(&json);
    assert_eq!(fs::read_dir(mounted.path()).unwrap().count(), 0);
    assert!(text.contains("the mounted directory"), "{text}");
    // Nothing is known of the server of a mount.
    let phase = &json["cells"][0]["phases"]["read"];
    assert!(phase["server_cpu_us_per_request"].is_null());
}

#[test]
fn a_server_can_be_measured_by_its_url() {
    let dir = tempfile::tempdir().unwrap();
    let options = ClusterOptions {
        ds_count: 2,
        ..ClusterOptions::new(launcher().program, dir.path().to_owned())
    };
    let cluster = Cluster::start(&options).unwrap();
    let url = cluster.server().url();
    let (json, text) = quick("threads", &["--target", &url]);
    assert_measured(&json);
    assert!(text.contains("the server of nfs://"), "{text}");
}

#[test]
fn what_cannot_be_measured_is_told_and_the_rest_goes_on() {
    let dir = tempfile::tempdir().unwrap();
    let output = command()
        .args(["threads", "--quick", "--target=nfs://no host/", "--out"])
        .arg(dir.path())
        .output()
        .unwrap();
    assert_eq!(output.status.code(), Some(1));
    let errors = String::from_utf8(output.stderr).unwrap();
    assert!(
        errors.contains("3 points could not be measured"),
        "{errors}"
    );
    let page = fs::read_to_string(dir.path().join("report.html")).unwrap();
    assert!(page.contains("not measured: "), "{page}");
}

#[test]
fn options_that_exclude_each_other_are_refused() {
    for arguments in [
        ["threads", "--target=nfs://h/", "--mounted=/mnt"],
        ["threads", "--mounted=/mnt", "--cluster=ds=2"],
        ["threads", "--quick", "--cluster=ds=0"],
    ] {
        let output = command().args(arguments).output().unwrap();
        assert_eq!(output.status.code(), Some(2), "{arguments:?}");
    }
}

#[test]
fn an_interrupted_experiment_leaves_nothing() {
    let dir = tempfile::tempdir().unwrap();
    // In full it takes minutes.
    let mut child = command()
        .args(["sequential", "--cluster", "ds=1", "--out"])
        .arg(dir.path().join("out"))
        .arg("--dir")
        .arg(dir.path())
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut lines = BufReader::new(child.stderr.take().unwrap()).lines();
    let at_work = |line: &String| line.starts_with("1/");
    let found = lines.by_ref().map(Result::unwrap).find(at_work);
    assert!(found.is_some(), "it ended before its first point");
    let pid = Pid::from_raw(i32::try_from(child.id()).unwrap()).unwrap();
    kill_process(pid, Signal::INT).unwrap();
    let said: Vec<String> = lines.map(Result::unwrap).collect();
    assert!(!child.wait().unwrap().success());
    assert!(
        said.iter().any(|line| line.contains("interrupted")),
        "{said:?}"
    );
    assert_only(dir.path(), "out");
}
