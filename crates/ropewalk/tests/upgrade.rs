//! Goal: a cluster of an earlier commit opens with today's servers, serves all that it had, takes new work, and keeps new files
//! in two copies. Method: stored clusters, made by `cargo xtask fixtures`; today's `ropewalk up` and client on each. One
//! cluster was told to stop, and one was killed while a file was being written.
#![allow(clippy::unwrap_used, reason = "tests unwrap")]

mod rig;

use bytes::Bytes;
use client::{Client, OpenOptions};
use rig::{Up, run, status, url, wait_for};
use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

/// What stands for the cluster's directory in stored configurations.
const DIR_WORD: &str = "@DIR@";
/// How the stored configurations name addresses.
const LOOPBACK: &str = "127.0.0.1:";
/// The file that was being written when a cluster was killed.
const UNDER_WAY: &str = "under-way";
/// The file that is removed today.
const BEYOND: &str = "/dir/beyond";
/// Longest file that is read.
const READ_BYTES_MAX: u32 = 1 << 20;

/// An unpacked archive, with today's servers on it.
struct Stored {
    dir: tempfile::TempDir,
    up: Up,
    client: Client,
}

impl Stored {
    async fn open(name: &str) -> Self {
        let dir = tempfile::tempdir().unwrap();
        let archive = Path::new(env!("CARGO_MANIFEST_DIR"))
            .join(format!("tests/testdata/clusters/{name}.tar.xz"));
        let tar = Command::new("tar")
            .args(["--extract", "--xz", "--preserve-permissions", "--file"])
            .args([&archive, Path::new("--directory"), dir.path()])
            .status();
        assert!(tar.unwrap().success(), "{}", archive.display());
        give_addresses(&dir.path().join("cluster"));
        let up = Up::start(&dir.path().join("cluster"), &[]);
        let mds = status(&dir.path().join("cluster")).unwrap();
        let address = mds["mds"]["listen"][0].as_str().unwrap().parse().unwrap();
        Self {
            client: rig::connect(address, name).await,
            dir,
            up,
        }
    }

    fn cluster(&self) -> PathBuf {
        self.dir.path().join("cluster")
    }

    fn expected(&self) -> PathBuf {
        self.dir.path().join("expected")
    }

    /// Ends the servers in order, and starts them on the same state.
    async fn again(self, owner: &str) -> Self {
        let Self { dir, up, client } = self;
        drop(client);
        assert!(up.stop().success());
        let up = Up::start(&dir.path().join("cluster"), &[]);
        let mds = status(&dir.path().join("cluster")).unwrap();
        let address = mds["mds"]["listen"][0].as_str().unwrap().parse().unwrap();
        Self {
            client: rig::connect(address, owner).await,
            dir,
            up,
        }
    }

    async fn read(&self, path: &str) -> Vec<u8> {
        let file = self.client.open(path, OpenOptions::read()).await.unwrap();
        let mut bytes = Vec::new();
        loop {
            let data = file.read_at(bytes.len() as u64, READ_BYTES_MAX).await;
            let piece = data.unwrap().into_bytes();
            if piece.is_empty() {
                break;
            }
            bytes.extend_from_slice(&piece);
        }
        file.close().await.unwrap();
        bytes
    }

    async fn write(&self, path: &str, options: OpenOptions, offset: u64, bytes: &[u8]) {
        let file = self.client.open(path, options).await.unwrap();
        let bytes = Bytes::copy_from_slice(bytes);
        file.write_at(offset, bytes).await.unwrap();
        file.close().await.unwrap();
    }

    /// The local files with one name: where they are in the cluster, and what was in them.
    fn files(&self) -> Vec<(String, Vec<u8>)> {
        let (mut dirs, mut files) = (vec![self.expected()], Vec::new());
        while let Some(dir) = dirs.pop() {
            for entry in fs::read_dir(dir).unwrap() {
                let path = entry.unwrap().path();
                let metadata = path.symlink_metadata().unwrap();
                if metadata.is_dir() {
                    dirs.push(path);
                } else if metadata.is_file() && metadata.nlink() == 1 {
                    let name = path.strip_prefix(self.expected()).unwrap();
                    let name = format!("/{}", name.to_str().unwrap());
                    files.push((name, fs::read(&path).unwrap()));
                }
            }
        }
        files
    }

    /// Compares what lies at `below` with the local files, name by name.
    async fn compare(&self, below: &str) {
        let local = self.expected().join(below);
        let mut wanted: Vec<String> = fs::read_dir(&local)
            .unwrap()
            .map(|entry| entry.unwrap().file_name().into_string().unwrap())
            .collect();
        wanted.sort();
        let there = self.client.read_dir(format!("/{below}")).await.unwrap();
        let mut names: Vec<String> = (there.rest().await.unwrap().into_iter())
            .map(|entry| String::from_utf8(entry.name).unwrap())
            .filter(|name| name != UNDER_WAY)
            .collect();
        names.sort();
        assert_eq!(names, wanted, "{below}");
        for name in wanted {
            let path = match below {
                "" => name,
                _ => format!("{below}/{name}"),
            };
            let local = self.expected().join(&path).symlink_metadata().unwrap();
            if local.is_dir() {
                Box::pin(self.compare(&path)).await;
            } else {
                self.compare_one(&path, &local).await;
            }
        }
    }

    async fn compare_one(&self, path: &str, local: &fs::Metadata) {
        let remote = format!("/{path}");
        if local.is_symlink() {
            let target = self.client.readlink(&remote).await.unwrap();
            let wanted = fs::read_link(self.expected().join(path)).unwrap();
            assert_eq!(Path::new(std::str::from_utf8(&target).unwrap()), wanted);
            return;
        }
        let has = self.client.metadata(&remote).await.unwrap();
        assert_eq!(has.size, local.len(), "{path}");
        assert_eq!(has.mode, local.mode() & 0o7777, "{path}");
        assert_eq!(u64::from(has.links_count), local.nlink(), "{path}");
        assert_eq!(has.mtime.seconds, local.mtime(), "{path}");
        let wanted = fs::read(self.expected().join(path)).unwrap();
        assert!(self.read(&remote).await == wanted, "{path}");
    }
}

/// Gives the stored configurations this directory, and addresses that are free.
fn give_addresses(cluster: &Path) {
    let mut given: BTreeMap<String, String> = BTreeMap::new();
    for config in [
        "mds/mds.toml",
        "ds-1/ds.toml",
        "ds-2/ds.toml",
        "ds-3/ds.toml",
    ] {
        let path = cluster.join(config);
        let text = fs::read_to_string(&path).unwrap();
        let text = text.replace(DIR_WORD, cluster.to_str().unwrap());
        let mut pieces = text.split(LOOPBACK);
        let mut new = pieces.next().unwrap().to_owned();
        for piece in pieces {
            let digits = piece.chars().take_while(char::is_ascii_digit).count();
            let (port, rest) = piece.split_at(digits);
            let address = given.entry(port.to_owned());
            new += address.or_insert_with(|| rig::address().to_string());
            new += rest;
        }
        fs::write(&path, new).unwrap();
    }
    assert_eq!(given.len(), 5, "mount, control and three data servers");
}

fn pattern(seed: u8, len: usize) -> Vec<u8> {
    let cycle = (0..249_u8).map(|n| n ^ seed);
    cycle.cycle().take(len).collect()
}

/// Old files are as they were, are written and removed, and are there after a restart; new files have two copies.
async fn opens_and_goes_on(name: &str, was_killed: bool) {
    let stored = Stored::open(name).await;
    stored.compare("").await;
    let removed = stored.client.metadata("/removed").await.unwrap_err();
    assert!(removed.is_not_found());
    let narrow = stored.client.xattr("/narrow", b"ropewalk.layout").await;
    let narrow = String::from_utf8(narrow.unwrap()).unwrap();
    assert!(narrow.contains("stripe_unit="), "{narrow}");
    if was_killed {
        // Nothing of it was promised but its name.
        let bytes = stored.read("/under-way").await;
        let wanted = (0..251_u8).map(|n| n ^ 10).cycle();
        let is_good = (bytes.iter().zip(wanted)).all(|(has, wanted)| *has == wanted || *has == 0);
        assert!(is_good, "bytes of nobody");
    }
    goes_on(stored).await;
}

/// What today's servers do with old files and new ones.
async fn goes_on(stored: Stored) {
    let existing = OpenOptions::read_write();
    let mut edited = Vec::new();
    for (path, offset) in [
        ("dir/below/striped", 123_457),
        ("dir/moved", 149_990),
        ("small", 7),
        ("narrow/odd", 12_280),
    ] {
        let local = stored.expected().join(path);
        let mut bytes = fs::read(&local).unwrap();
        let new = pattern(21, 70_000);
        bytes.resize(bytes.len().max(offset + new.len()), 0);
        bytes[offset..offset + new.len()].copy_from_slice(&new);
        let remote = format!("/{path}");
        stored.write(&remote, existing, offset as u64, &new).await;
        assert!(stored.read(&remote).await == bytes, "{path}");
        edited.push((remote, bytes));
    }
    let replaced = pattern(22, 90_001);
    stored
        .write("/overwritten", OpenOptions::create(0o644), 0, &replaced)
        .await;
    edited.push(("/overwritten".to_owned(), replaced));
    stored.client.remove(BEYOND).await.unwrap();
    two_copies(&stored, &mut edited).await;
    raised(&stored, &edited).await;

    let stored = stored.again("later").await;
    for (path, bytes) in &edited {
        assert!(stored.read(path).await == *bytes, "{path} after a restart");
    }
    wait_for("empty removal queue", || {
        (status(&stored.cluster())?["mds"]["removals_waiting"] == 0).then_some(())
    });
    without_one(&stored, &edited).await;
    assert!(stored.up.stop().success());
}

/// Once all files are laid out anew, a data server of the earlier version's groups is taken out, and nothing is lost.
async fn without_one(stored: &Stored, edited: &[(String, Vec<u8>)]) {
    let drained = command(stored, "ds drain 2");
    let said = String::from_utf8(drained.stderr).unwrap();
    assert!(said.contains("groups of an earlier version"), "{said}");
    let set = command(stored, "layout set --copies 2 --existing admin:/");
    assert!(set.status.success(), "{set:?}");
    let whole = told(stored, "repair status --watch");
    assert_eq!(whole["under_replicated"], 0, "{whole}");
    let removed = told(stored, "ds remove 2 --yes-lose-data");
    assert_eq!(removed["done"], true, "{removed}");
    assert_eq!(removed["files"], 0, "{removed}");
    let mut files = 0;
    for (path, bytes) in stored.files().into_iter().chain(edited.to_vec()) {
        let is_old = edited
            .iter()
            .all(|(other, now)| *other != path || *now == bytes);
        if is_old && path != BEYOND {
            assert!(
                stored.read(&path).await == bytes,
                "{path} without a data server"
            );
            files += 1;
        }
    }
    assert!(files > edited.len(), "{files}");
}

/// The files that the earlier version made get a second copy, too.
async fn raised(stored: &Stored, edited: &[(String, Vec<u8>)]) {
    // The root of the tree is root's, and the export squashes root.
    let urls = ["dir", "narrow", "overwritten"].map(|n| format!("{}{n}", url(&stored.cluster())));
    let paths = urls.each_ref().map(String::as_str);
    let set = run(&[
        &["layout", "set", "--copies", "2", "--existing"],
        &paths[..],
    ]
    .concat());
    let said = String::from_utf8_lossy(&set.stderr).into_owned();
    assert!(set.status.success(), "{said}");
    for path in ["/dir/below/striped", "/dir/moved", "/overwritten"] {
        let layout = stored.client.xattr(path, b"ropewalk.layout").await;
        let layout = String::from_utf8(layout.unwrap()).unwrap();
        assert!(layout.contains("copies=2"), "{path}: {layout}");
    }
    for (path, bytes) in edited {
        assert!(stored.read(path).await == *bytes, "{path} in two copies");
    }
    let whole = told(stored, "repair status --watch");
    assert_eq!(whole["under_replicated"], 0, "{whole}");
}

/// Runs a command about the cluster.
fn command(stored: &Stored, words: &str) -> Output {
    let mut command = rig::ropewalk();
    command.env("ROPEWALK_DIR", stored.cluster());
    command.args(words.split(' ')).output().unwrap()
}

/// The same with `--json`. It must succeed.
fn told(stored: &Stored, words: &str) -> serde_json::Value {
    let output = command(stored, &format!("{words} --json"));
    assert!(output.status.success(), "{words}: {output:?}");
    serde_json::from_slice(&output.stdout).unwrap()
}

/// New files of a directory with two copies, beside those that the earlier version made.
async fn two_copies(stored: &Stored, edited: &mut Vec<(String, Vec<u8>)>) {
    let copied = format!("{}copied", url(&stored.cluster()));
    stored.client.mkdir("/copied", 0o777).await.unwrap();
    let set = run(&[
        "layout",
        "set",
        &copied,
        "--copies",
        "2",
        "--inline-max",
        "0",
    ]);
    assert!(
        set.status.success(),
        "{}",
        String::from_utf8_lossy(&set.stderr)
    );
    for number in 0..4_u8 {
        let (path, bytes) = (format!("/copied/{number}"), pattern(number, 300_000));
        stored
            .write(&path, OpenOptions::create(0o644), 0, &bytes)
            .await;
        assert!(stored.read(&path).await == bytes, "{path}");
        edited.push((path, bytes));
    }
    wait_for("two copies of each place", || {
        let status = status(&stored.cluster())?;
        let groups = status["mds"]["groups"].as_array()?;
        let places = groups
            .iter()
            .filter_map(|group| group["places"].as_array())
            .flatten()
            .filter(|place| place["copies"] == 2);
        let lacking = places.clone().filter(|place| {
            place["served"] != true || place["sync"].as_array().is_none_or(Vec::is_empty)
        });
        (places.count() > 0 && lacking.count() == 0).then_some(())
    });
}

#[tokio::test]
async fn a_cluster_of_394b63b_that_was_stopped_opens_and_goes_on() {
    opens_and_goes_on("394b63b-stopped", false).await;
}

#[tokio::test]
async fn a_cluster_of_394b63b_that_was_killed_opens_and_goes_on() {
    opens_and_goes_on("394b63b-killed", true).await;
}

#[tokio::test]
async fn a_cluster_of_0413f71_that_was_stopped_opens_and_goes_on() {
    opens_and_goes_on("0413f71-stopped", false).await;
}

#[tokio::test]
async fn a_cluster_of_0413f71_that_was_killed_opens_and_goes_on() {
    opens_and_goes_on("0413f71-killed", true).await;
}
