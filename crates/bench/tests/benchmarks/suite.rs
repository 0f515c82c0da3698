//! The suite with load generators as processes: on a cluster of its own, on a server by URL, and on a directory.

use super::{command, ropewalk};
use ropewalk_bench::nfs::cluster::{Cluster, ClusterOptions};
use ropewalk_bench::suite::Transport;
use rustix::process::{Pid, Signal, kill_process};
use std::fs;
use std::io::{BufRead, BufReader};
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::{Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

/// Processes that end by themselves are gone long before.
const GONE_MAX: Duration = Duration::from_secs(120);

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
    let points = json["cells"].as_array().unwrap().len();
    let mut ends = text.lines().rev();
    assert!(ends.next().unwrap().starts_with("report: "), "{text}");
    let time = ends.next().unwrap();
    let seconds = time
        .strip_prefix(&format!("measured {points} points in "))
        .and_then(|rest| rest.strip_suffix(" s"));
    assert!(seconds.unwrap().parse::<u64>().is_ok(), "{time}");
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
    for (transport, provider) in [
        (Transport::Tcp, "sockets of the kernel"),
        (Transport::Rdma, "software iWARP, not RDMA hardware"),
    ] {
        let options = ClusterOptions {
            ds_count: 2,
            transport,
            ..ClusterOptions::new(ropewalk(), dir.path().to_owned())
        };
        let cluster = Cluster::start(&options).unwrap();
        let url = cluster.server().url();
        let (json, text) = quick("threads", &["--target", &url]);
        assert_measured(&json);
        assert!(text.contains("the server of nfs://"), "{text}");
        assert_eq!(json["cells"][0]["transport_provider"], provider);
        assert!(text.contains(provider), "{text}");
    }
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
fn a_cluster_that_does_not_start_is_told_and_the_rest_goes_on() {
    let dir = tempfile::tempdir().unwrap();
    let output = command()
        .args(["records", "--quick", "--ropewalk=false", "--out"])
        .arg(dir.path().join("out"))
        .arg("--dir")
        .arg(dir.path())
        .output()
        .unwrap();
    let errors = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(1), "{errors}");
    let csv = fs::read_to_string(dir.path().join("out/records.csv")).unwrap();
    assert!(
        csv.contains("bare stream") && !csv.contains("data server"),
        "{csv}"
    );
    let page = fs::read_to_string(dir.path().join("out/report.html")).unwrap();
    assert!(page.contains("it ended without a word"), "{page}");
}

/// What `--version` of a program says.
fn version(program: &Path) -> String {
    let output = Command::new(program).arg("--version").output().unwrap();
    String::from_utf8(output.stdout).unwrap()
}

#[test]
fn the_commit_is_that_of_the_program_under_test() {
    let dir = tempfile::tempdir().unwrap();
    let fake = dir.path().join("fake");
    let script =
        "#!/bin/sh\n[ \"$1\" = --version ] && echo 'ropewalk 9.9.9 (commit feedfeedfeed-dirty)'\n";
    fs::write(&fake, script).unwrap();
    fs::set_permissions(&fake, fs::Permissions::from_mode(0o755)).unwrap();
    let machine = |program: &Path| {
        let out = dir.path().join("out");
        // What a script is asked for beyond its version fails, and the report is written.
        command()
            .args(["threads", "--quick", "--dir"])
            .arg(dir.path())
            .arg("--out")
            .arg(&out)
            .arg("--ropewalk")
            .arg(program)
            .output()
            .unwrap();
        let json = fs::read(out.join("threads.json")).unwrap();
        let json: serde_json::Value = serde_json::from_slice(&json).unwrap();
        json["machine"].clone()
    };
    let this = ropewalk();
    let said = version(&this);
    let ours = said
        .strip_prefix(concat!("ropewalk ", env!("CARGO_PKG_VERSION"), " (commit "))
        .and_then(|rest| rest.strip_suffix(")\n"))
        .unwrap_or_else(|| panic!("{said}"));
    let hash = ours.trim_end_matches("-dirty");
    let is_hash = hash.len() >= 12 && hash.bytes().all(|b| b.is_ascii_hexdigit());
    assert!(is_hash || ours == "unknown", "{ours}");
    let of_this = machine(&this);
    let of_fake = machine(&fake);
    if is_hash {
        assert_eq!(of_this["commit"], ours);
    }
    assert!(of_this["measured_by_commit"].is_null(), "{of_this}");
    assert_eq!(of_fake["commit"], "feedfeedfeed-dirty");
    assert_eq!(of_fake["measured_by_commit"], ours);
}

#[test]
fn what_all_leaves_out_is_told() {
    let dir = tempfile::tempdir().unwrap();
    // Nothing can be measured: what counts is what is not even tried.
    let output = command()
        .args(["all", "--quick", "--target=nfs://no host/", "--out"])
        .arg(dir.path())
        .output()
        .unwrap();
    assert_eq!(output.status.code(), Some(1));
    let left_out = "scale is left out: the cluster of scale must be its own";
    for text in [output.stdout, output.stderr] {
        let text = String::from_utf8(text).unwrap();
        assert!(text.contains(left_out), "{text}");
    }
    let page = fs::read_to_string(dir.path().join("report.html")).unwrap();
    assert!(page.contains(left_out));
    assert!(!dir.path().join("scale.json").exists());
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

/// Runs `sequential` over links until its first point, with `end` for its process; returns the processes that it had started.
fn linked_until_its_first_point(dir: &Path, signal: Signal) -> (ExitStatus, Vec<u32>) {
    let mut child = command()
        .args(["sequential", "--link=500mbit", "--cluster=ds=1", "--out"])
        .arg(dir.join("out"))
        .arg("--dir")
        .arg(dir)
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut lines = BufReader::new(child.stderr.take().unwrap()).lines();
    let at_work = |line: &String| line.starts_with("1/");
    let found = lines.by_ref().map(Result::unwrap).find(at_work);
    assert!(found.is_some(), "it ended before its first point");
    let started = children(child.id());
    let pid = Pid::from_raw(i32::try_from(child.id()).unwrap()).unwrap();
    kill_process(pid, signal).unwrap();
    lines.map_while(Result::ok).for_each(drop);
    (child.wait().unwrap(), started)
}

/// Processes whose parent is `pid`.
fn children(pid: u32) -> Vec<u32> {
    let parent = |stat: &str| -> Option<u32> {
        let (_, fields) = stat.rsplit_once(')')?;
        fields.split_whitespace().nth(1)?.parse().ok()
    };
    let entries = fs::read_dir("/proc").unwrap().flatten();
    let pids = entries.filter_map(|entry| entry.file_name().to_str()?.parse().ok());
    pids.filter(|child: &u32| {
        let stat = fs::read_to_string(format!("/proc/{child}/stat"));
        stat.ok().as_deref().and_then(parent) == Some(pid)
    })
    .collect()
}

/// The program fails, and its errors have these words.
fn assert_refused(arguments: [&str; 2], words: &str) {
    let output = command().args(arguments).output().unwrap();
    let errors = String::from_utf8(output.stderr).unwrap();
    assert!(
        !output.status.success() && errors.contains(words),
        "{errors}"
    );
}

/// Whether a process is there and no zombie, which nobody may reap here.
fn lives(pid: u32) -> bool {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    let state = stat.rsplit_once(") ").map(|(_, fields)| fields.to_owned());
    state.is_some_and(|fields| !fields.starts_with(['Z', 'X']))
}

#[test]
fn links_are_for_root_and_leave_nothing_however_a_run_ends() {
    if !rustix::process::geteuid().is_root() {
        return assert_refused(["incast", "--link=500mbit"], "run as root");
    }
    let (json, text) = quick("incast", &["--link=500mbit", "--cluster=ds=2"]);
    assert_measured(&json);
    assert!(text.contains("behind a link of 500 Mbit/s"), "{text}");
    let rate = &json["cells"][1]["cell"]["server"]["own"]["link"]["rate"]["bits_per_s"];
    assert_eq!(*rate, 500_000_000);
    let idle = &json["cells"][1]["phases"]["read"]["cpu_idle_percent"];
    assert!(idle["median"].is_f64(), "{idle}");
    for signal in [Signal::INT, Signal::KILL] {
        let dir = tempfile::tempdir().unwrap();
        let (status, started) = linked_until_its_first_point(dir.path(), signal);
        assert!(!status.success());
        // Three hosts and the switch have holders; a metadata server, a data server.
        assert!(started.len() >= 6, "{started:?}");
        // They end by themselves.
        let end = Instant::now() + GONE_MAX;
        while started.iter().any(|pid| lives(*pid)) {
            assert!(Instant::now() < end, "left behind: {started:?}");
            std::thread::sleep(Duration::from_millis(20));
        }
        if signal == Signal::INT {
            assert_only(dir.path(), "out");
        }
    }
}

#[test]
fn transports_and_times_of_creation_stand_beside_each_other() {
    let (json, text) = quick("create", &["--cluster=ds=1"]);
    assert_measured(&json);
    let cells = json["cells"].as_array().unwrap();
    // Software iWARP, unless this machine has a device.
    let providers = cells.iter().map(|cell| &cell["transport_provider"]);
    let rdma = providers
        .filter_map(|name| name.as_str())
        .find(|name| name.contains("RDMA"));
    for provider in ["sockets of the kernel", rdma.unwrap()] {
        let made = |cell: &&serde_json::Value| cell["transport_provider"] == provider;
        let both = ["lazy", "eager"].map(|create| {
            let cells = cells.iter().filter(made);
            cells
                .filter(|cell| cell["cell"]["server"]["own"]["create"] == create)
                .count()
        });
        assert!(both[0] > 0 && both[0] == both[1], "{provider}: {both:?}");
    }
    let name = rdma.unwrap().split(',').next().unwrap();
    assert!(text.contains(&format!("eager, rdma ({name})")), "{text}");
    assert!(text.contains("TLS on TCP in every series"), "{text}");
}

#[test]
fn nfs_ganesha_stands_beside_ours() {
    let is_there = rustix::process::geteuid().is_root() && ropewalk_bench::peer::find().is_some();
    if !is_there {
        return assert_refused(["threads", "--peer=ganesha"], "nfs-ganesha");
    }
    let (json, text) = quick("threads", &["--peer=ganesha"]);
    assert_measured(&json);
    assert!(text.contains("nfs-ganesha, read"), "{text}");
    let cells = json["cells"].as_array().unwrap();
    let theirs = cells
        .iter()
        .find(|cell| cell["cell"]["series"] == "nfs-ganesha")
        .unwrap();
    let cpu = &theirs["phases"]["read"]["server_cpu_us_per_request"];
    assert!(cpu["median"].is_f64(), "{cpu}");
}

#[test]
fn data_servers_and_sessions_come_in_crowds() {
    let disk = tempfile::tempdir().unwrap();
    let (json, text) = quick("scale", &["--disk-dir", disk.path().to_str().unwrap()]);
    assert_measured(&json);
    assert_eq!(fs::read_dir(disk.path()).unwrap().count(), 0);
    let cells = json["cells"].as_array().unwrap();
    let phase = |group: &str, label: &str, phase: &str| {
        let found = cells
            .iter()
            .find(|c| c["cell"]["group"] == group && c["cell"]["x"]["label"] == label);
        let phases = &found.unwrap_or_else(|| panic!("no {group} {label}"))["runs"][0]["phases"];
        phases[phase].clone()
    };
    assert_eq!(phase("ds", "8", "joined")["requests_count"], 8);
    assert_eq!(phase("ds", "16", "joined")["requests_count"], 8);
    assert_eq!(phase("sessions", "80", "opened")["requests_count"], 40);
    // A layout names its file handle for each data server, so it grows with them.
    let bytes = |width| phase("layout", width, "LAYOUTGET")["bytes_per_request"].as_f64();
    assert!(bytes("4") > bytes("1"), "{:?} {:?}", bytes("4"), bytes("1"));
    for line in [
        "Predicted against measured: memory",
        "Verdict of the model: ",
        "first to end: ",
    ] {
        assert!(text.contains(line), "{text}");
    }
}
