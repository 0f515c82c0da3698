//! Goal: new files lie where there is room for them, and the copies of a place where they are not lost together.
//!
//! Method: the real program; `ropewalk up` in memory, whose data servers get sizes and failure domains by their files. Fill and
//! places are what `status` says.
#![allow(clippy::unwrap_used, reason = "tests unwrap")]

mod rig;

use bytes::Bytes;
use client::{Client, OpenOptions};
use rig::{Up, run, status, wait_for};
use serde_json::Value;
use std::fs;

const MIB: u64 = 1 << 20;
/// Written before the next look at the fill: less than what makes a data server fuller than others.
const BATCH_FILES: u64 = 8;
/// The most by which one data server may be fuller than another, in per cent of its size. Equal bytes on all would be 60 and more.
const SPREAD_PERCENT_MAX: u64 = 20;

struct Cluster {
    dir: tempfile::TempDir,
    up: Up,
}

impl Cluster {
    /// Starts servers with these lines in the files of data servers, each for one of them, in place of lines that begin so.
    fn start(options: &[&str], lines: &[String]) -> Self {
        let dir = tempfile::tempdir().unwrap();
        let count = lines.len().to_string();
        let all = [&["--memory", "--port", "0", "--ds", &count], options].concat();
        assert!(Up::start(dir.path(), &all).stop().success());
        for (ds, line) in lines.iter().enumerate() {
            let path = dir.path().join(format!("ds-{}/ds.toml", ds + 1));
            let (name, _) = line.split_once('=').unwrap();
            let text = fs::read_to_string(&path).unwrap();
            let kept = text.lines().filter(|line| !line.starts_with(name));
            let text: String = kept
                .chain([line.as_str()])
                .map(|l| format!("{l}\n"))
                .collect();
            fs::write(&path, text).unwrap();
        }
        let up = Up::start(dir.path(), &["--memory"]);
        Self { dir, up }
    }

    fn status(&self) -> Value {
        status(self.dir.path()).unwrap()
    }

    async fn client(&self) -> Client {
        let address = self.status()["mds"]["listen"][0].clone();
        let address = address.as_str().unwrap().parse().unwrap();
        rig::connect(address, "placement").await
    }

    /// Used bytes and size of each data server, as the metadata server knows them.
    fn rooms(&self) -> Vec<(u64, u64)> {
        let status = self.status();
        let room = |row: &Value| {
            let [total, free] = ["total_bytes", "free_bytes"].map(|f| row[f].as_u64().unwrap());
            (total - free, total)
        };
        let rows = status["mds"]["data_servers"].as_array().unwrap();
        rows.iter().map(room).collect()
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn data_servers_of_unequal_size_fill_evenly_and_none_is_full_before_the_others() {
    let sizes = [64, 128, 320];
    let lines = sizes.map(|mib| format!("memory_size = {}", mib * MIB));
    let cluster = Cluster::start(&[], &lines);
    let client = cluster.client().await;
    let content = Bytes::from(vec![7; 1 << 20]);
    let all: u64 = sizes.iter().sum::<u64>() * MIB;
    let mut written = 0;
    let mut spread = 0;
    // With nine tenths each of them is full. Equal bytes on all would fill the smallest with four tenths.
    while written < all / 10 * 8 {
        for _ in 0..BATCH_FILES {
            let path = format!("/file-{}", written / MIB);
            let file = client
                .open(&path, OpenOptions::create(0o644))
                .await
                .unwrap();
            file.write_at(0, content.clone()).await.unwrap();
            file.close().await.unwrap();
            written += MIB;
        }
        let rooms = wait_for("what was written in the fill", || {
            let rooms = cluster.rooms();
            let used: u64 = rooms.iter().map(|(used, _)| used).sum();
            (used >= written).then_some(rooms)
        });
        let fill = rooms.iter().map(|(used, total)| used * 100 / total);
        let fill: Vec<u64> = fill.collect();
        spread = spread.max(fill.iter().max().unwrap() - fill.iter().min().unwrap());
    }
    assert!(spread <= SPREAD_PERCENT_MAX, "{spread} % apart");
    assert!(cluster.up.stop().success());
}

/// The places of all groups that are to have copies.
fn places(status: &Value) -> Vec<Value> {
    let groups = status["mds"]["groups"].as_array().unwrap().iter();
    let places = groups.flat_map(|group| group["places"].as_array().unwrap().clone());
    places.collect()
}

#[test]
fn copies_lie_in_different_failure_domains_and_status_says_where_they_cannot() {
    let with = |locations: [&str; 4]| {
        let lines = locations.map(|name| format!("location = \"{name}\""));
        let cluster = Cluster::start(&["--copies", "2"], &lines);
        let status = wait_for("places with two copies", || {
            let status = cluster.status();
            let places = places(&status);
            let is_whole = |place: &Value| place["sync"].as_array().unwrap().len() == 1;
            (!places.is_empty() && places.iter().all(is_whole)).then_some(status)
        });
        let shown = run(&["status", "--dir", cluster.dir.path().to_str().unwrap()]);
        assert!(cluster.up.stop().success());
        (status, String::from_utf8(shown.stdout).unwrap())
    };
    let complaint = "copies in one failure domain";

    let locations = ["rack-1", "rack-1", "rack-2", "rack-2"];
    let (apart, shown) = with(locations);
    assert_eq!(apart["mds"]["failure_domains"], 2, "{shown}");
    for place in places(&apart) {
        let of = |id: &Value| locations[usize::try_from(id.as_u64().unwrap()).unwrap() - 1];
        assert_ne!(of(&place["primary"]), of(&place["sync"][0]), "{place}");
        assert_eq!(place["shares_domain"], false, "{place}");
    }
    assert!(!shown.contains(complaint), "{shown}");

    let (together, shown) = with(["rack-1"; 4]);
    for place in places(&together) {
        assert_ne!(place["primary"], place["sync"][0], "{place}");
        assert_eq!(place["shares_domain"], true, "{place}");
    }
    assert!(shown.contains(complaint), "{shown}");
}
