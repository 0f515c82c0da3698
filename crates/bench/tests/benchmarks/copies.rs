//! `bench copies`, and the subjects of goals about copies: a server is lost, and writes go on.

use super::goals::{LOAD, options};
use super::{command, ropewalk};
use ropewalk_bench::Subject;
use ropewalk_bench::nfs::cluster::{Away, Cluster, ClusterOptions};
use ropewalk_bench::nfs::commits::Commits;
use ropewalk_bench::nfs::failover::Failover;
use ropewalk_bench::runner::Metric;

#[test]
fn two_copies_lose_a_server_and_are_made_again() {
    let dir = tempfile::tempdir().unwrap();
    let json = dir.path().join("copies.json");
    let output = command()
        .args(["copies", "two", "--quick", "--dir"])
        .arg(dir.path())
        .arg("--json")
        .arg(&json)
        .output()
        .unwrap();
    let errors = String::from_utf8(output.stderr).unwrap();
    assert!(output.status.success(), "{errors}");
    let json: serde_json::Value = serde_json::from_slice(&std::fs::read(json).unwrap()).unwrap();
    let run = &json["systems"][0]["runs"][0];
    for time in [
        "write_mb_per_s",
        "read_mb_per_s",
        "sigkill_to_write_s",
        "full_repair_s",
    ] {
        assert!(run[time].as_f64().unwrap() > 0.0, "{time} of {run}");
    }
}

#[test]
fn writes_go_on_at_every_place_when_a_data_server_starts_again() {
    let dir = tempfile::tempdir().unwrap();
    let cluster = ClusterOptions {
        copies: 2,
        is_apart: true,
        ..options(&dir, 2, false)
    };
    let away = Away::KilledAndRestarted;
    let sample = Failover { cluster, away }.run(&LOAD).unwrap();
    assert_eq!(sample.requests_count, 2, "one for each place");
    assert!(Metric::LongestSeconds.of(&sample) > 0.0);
    assert_eq!(std::fs::read_dir(dir.path()).unwrap().count(), 0);
}

#[test]
fn a_killed_data_server_stays_away() {
    let dir = tempfile::tempdir().unwrap();
    let cluster = ClusterOptions {
        is_apart: true,
        ..options(&dir, 2, true)
    };
    let cluster = Cluster::start(&cluster).unwrap();
    let ids = [1, 2].map(|number| cluster.ds_id(&ropewalk(), number).unwrap());
    assert_ne!(ids[0], ids[1]);
    assert!(!cluster.has_ended(1).unwrap());
    cluster.send_away(1, Away::Killed).unwrap();
    while !cluster.has_ended(1).unwrap() {
        std::thread::yield_now();
    }
    assert!(!cluster.has_ended(2).unwrap());
    assert!(cluster.send_away(3, Away::Killed).is_err());
}

#[test]
fn commits_are_counted_and_not_the_writes_before_them() {
    let dir = tempfile::tempdir().unwrap();
    let mut commits = Commits {
        cluster: options(&dir, 1, true),
        behind_bytes: 8 << 20,
    };
    let sample = commits.run(&LOAD).unwrap();
    assert_eq!(sample.payload_bytes, sample.requests_count * (8 << 20));
    assert!(sample.requests_count >= 5);
}
