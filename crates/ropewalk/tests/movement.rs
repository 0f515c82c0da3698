//! Goal: the commands that move data, and the one that compares it with its sums, do on a real disk what they say. Method: the
//! real program; `ropewalk up` with copies, its commands with `--json`, bytes of objects that are changed below it.
#![allow(clippy::unwrap_used, reason = "tests unwrap")]

mod rig;

use rig::{Up, run, sentence, url, wait_for};
use serde_json::{Value, json};
use std::fs::{self, File};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

const FILE_BYTES: usize = 1_000_000;

fn content() -> Vec<u8> {
    (0..251_u8).cycle().take(FILE_BYTES).collect()
}

struct Cluster {
    dir: tempfile::TempDir,
    up: Option<Up>,
    url: String,
}

impl Cluster {
    fn start(more: &[&str]) -> Self {
        let dir = tempfile::tempdir().unwrap();
        let options = ["--port", "0", "--stripe-unit", "64KiB"];
        let up = Up::start(dir.path(), &[&options[..], more].concat());
        let url = url(dir.path());
        Self {
            dir,
            up: Some(up),
            url,
        }
    }

    /// Runs a command about this cluster. Returns its JSON, and whether it succeeded.
    fn told(&self, command: &str) -> (Value, bool) {
        let words = command.split(' ');
        let dir = ["--json", "--dir", self.dir.path().to_str().unwrap()];
        let output = run(&words.chain(dir).collect::<Vec<_>>());
        let told = serde_json::from_slice(&output.stdout);
        let told = told.unwrap_or_else(|e| panic!("{command}: {e}: {output:?}"));
        (told, output.status.success())
    }

    fn done(&self, command: &str) -> Value {
        let (told, is_done) = self.told(command);
        assert!(is_done, "{command}: {told}");
        told
    }

    fn write(&self, name: &str) {
        let local = self.dir.path().join("local");
        fs::write(&local, content()).unwrap();
        let copied = run(&[
            "cp",
            local.to_str().unwrap(),
            &format!("{}{name}", self.url),
        ]);
        assert!(copied.status.success(), "{copied:?}");
    }

    fn is_whole(&self, name: &str) -> bool {
        run(&["cat", &format!("{}{name}", self.url)]).stdout == content()
    }

    /// The files of the objects of a data server.
    fn objects(&self, ds: usize) -> Vec<PathBuf> {
        let all = rig::objects(self.dir.path(), ds).into_iter();
        let large = all.filter(|(_, len)| *len >= 64 << 10);
        large.map(|(path, _)| path).collect()
    }

    fn stop(mut self) {
        assert!(self.up.take().unwrap().stop().success());
    }
}

/// Changes a byte, as a disk would.
fn flip(object: &Path) {
    let file = File::options().read(true).write(true).open(object).unwrap();
    let mut byte = [0];
    file.read_exact_at(&mut byte, 1000).unwrap();
    file.write_all_at(&[byte[0] ^ 0x40], 1000).unwrap();
}

fn sum(rows: &Value, field: &str) -> u64 {
    let rows = rows.as_array().unwrap().iter();
    rows.map(|row| row["scrub"][field].as_u64().unwrap()).sum()
}

#[test]
fn a_data_server_is_emptied_replaced_and_removed_by_commands_that_tell_json() {
    let cluster = Cluster::start(&["--ds", "4", "--copies", "2"]);
    cluster.write("file");
    let whole = cluster.done("repair status --watch");
    assert_eq!(whole["under_replicated"], 0, "{whole}");

    let would = cluster.done("ds drain 1 --dry-run");
    assert_eq!(
        (&would["dry_run"], &would["done"]),
        (&json!(true), &json!(false))
    );
    assert!(would["places"].as_u64().unwrap() > 0, "{would}");
    let places = |ds: usize| {
        let list = cluster.done("ds list");
        list[ds - 1]["places"].as_u64().unwrap()
    };
    assert_eq!(
        places(1),
        would["places"].as_u64().unwrap(),
        "it only said so"
    );

    let drained = cluster.done("ds drain 1");
    assert_eq!(
        (&drained["ds"], &drained["done"]),
        (&json!(1), &json!(true))
    );
    assert_eq!(places(1), 0);
    let replaced = cluster.done("ds replace 2 3 --no-wait");
    assert_eq!(
        (&replaced["substitute"], &replaced["done"]),
        (&json!(3), &json!(false))
    );
    wait_for("end of the replacement", || (places(2) == 0).then_some(()));
    let removed = cluster.done("ds remove 1");
    assert_eq!(
        (&removed["ds"], &removed["done"]),
        (&json!(1), &json!(true))
    );
    let (refused, is_done) = cluster.told("ds remove 4");
    assert!(!is_done && refused["done"] == false, "{refused}");

    let level = cluster.done("ds rebalance --dry-run");
    assert_eq!(
        (&level["dry_run"], &level["rebalancing"]),
        (&json!(true), &json!(false))
    );
    assert!(level["to_move"].is_object(), "{level}");
    let level = cluster.done("ds rebalance");
    assert_eq!(level["rebalancing"], false, "{level}");
    assert!(cluster.is_whole("file"));
    cluster.stop();
}

#[test]
fn a_changed_byte_on_disk_is_mended_from_the_other_copy_and_a_last_copy_is_named() {
    let cluster = Cluster::start(&["--ds", "2", "--copies", "2"]);
    cluster.write("file");
    cluster.done("repair status --watch");
    // Sums are made of what has been at rest.
    wait_for("sums", || {
        let rows = cluster.done("scrub --now");
        (sum(&rows, "read_bytes") >= 2 * FILE_BYTES as u64).then_some(())
    });
    for ds in [1, 2] {
        let objects = cluster.objects(ds);
        assert!(!objects.is_empty());
        objects.iter().for_each(|object| flip(object));
        let rows = cluster.done("scrub --now");
        assert_eq!(sum(&rows, "damaged_blocks"), 0, "{rows}");
        assert!(
            sum(&rows, "blocks_mended") >= objects.len() as u64,
            "{rows}"
        );
        assert!(cluster.is_whole("file"));
    }

    for ds in [1, 2] {
        cluster.objects(ds).iter().for_each(|object| flip(object));
    }
    let (rows, is_done) = cluster.told("scrub --now");
    assert!(!is_done && sum(&rows, "damaged_blocks") > 0, "{rows}");
    let named = rows[0]["damaged_files"].as_array().unwrap();
    assert!(named.iter().any(|file| file["path"] == "/file"), "{rows}");
    let read = run(&["cat", &format!("{}file", cluster.url)]);
    assert!(sentence(&read).contains("input/output error"), "{read:?}");
    cluster.stop();
}
