//! Goal: files go in and come out of a real cluster by the client commands, also while its servers are killed.
//! Method: `ropewalk up` on a free port of the loopback, commands as processes, comparison with local files.
#![allow(
    clippy::unwrap_used,
    reason = "a failure here is the failure of a test"
)]

use std::fs;
use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Child, Command, Output, Stdio};

const BINARY: &str = env!("CARGO_BIN_EXE_ropewalk");

/// A cluster that ends with the test.
struct Cluster {
    up: Child,
    url: String,
    _dir: tempfile::TempDir,
}

impl Cluster {
    fn start() -> Self {
        let dir = tempfile::tempdir().unwrap();
        let mut up = Command::new(BINARY)
            .args(["up", "--ds", "3", "--port", "0", "--stripe-unit", "64KiB"])
            .arg("--nfs3")
            .arg("--dir")
            .arg(dir.path())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        let lines = BufReader::new(up.stdout.take().unwrap()).lines();
        let mount = lines
            .map(Result::unwrap)
            .find(|line| line.contains("port="))
            .expect("up says how to mount");
        let digits = mount.split("port=").nth(1).unwrap();
        let port: String = digits.chars().take_while(char::is_ascii_digit).collect();
        Self {
            up,
            url: format!("nfs://127.0.0.1:{port}/"),
            _dir: dir,
        }
    }

    /// The commands speak NFSv3 from now on.
    fn by_nfsv3(mut self) -> Self {
        self.url.push_str("?vers=3");
        self
    }

    fn run(&self, args: &[&str]) -> Output {
        let mut command = Command::new(BINARY);
        command.args(args).env("ROPEWALK_URL", &self.url);
        command.output().unwrap()
    }

    fn ok(&self, args: &[&str]) -> Vec<u8> {
        let out = self.run(args);
        let said = String::from_utf8_lossy(&out.stderr);
        assert!(out.status.success(), "{args:?}: {said}");
        out.stdout
    }

    fn refused(&self, args: &[&str], code: i32, sentence: &str) {
        let out = self.run(args);
        let said = String::from_utf8_lossy(&out.stderr);
        assert_eq!(out.status.code(), Some(code), "{args:?}: {said}");
        assert!(said.contains(sentence), "{args:?}: {said}");
    }

    /// Process ids of the servers.
    fn servers(&self) -> Vec<String> {
        let id = self.up.id();
        let children = fs::read_to_string(format!("/proc/{id}/task/{id}/children")).unwrap();
        children.split_whitespace().map(str::to_owned).collect()
    }
}

impl Drop for Cluster {
    fn drop(&mut self) {
        let id = self.up.id().to_string();
        let asked = Command::new("kill").args(["-TERM", &id]).status();
        if !asked.is_ok_and(|s| s.success()) {
            let _ = self.up.kill();
        }
        let _ = self.up.wait();
    }
}

fn bytes(seed: u64, len: usize) -> Vec<u8> {
    let mut x = seed | 1;
    let mut next = || {
        x ^= x << 13;
        x ^= x >> 7;
        x ^= x << 17;
        x.to_be_bytes()[3]
    };
    (0..len).map(|_| next()).collect()
}

fn same(a: &Path, b: &Path) {
    let mut names: Vec<_> = fs::read_dir(a)
        .unwrap()
        .map(|e| e.unwrap().file_name())
        .collect();
    names.sort();
    let mut there: Vec<_> = fs::read_dir(b)
        .unwrap()
        .map(|e| e.unwrap().file_name())
        .collect();
    there.sort();
    assert_eq!(names, there);
    for name in names {
        let (a, b) = (a.join(&name), b.join(&name));
        let kind = a.symlink_metadata().unwrap().file_type();
        if kind.is_dir() {
            same(&a, &b);
        } else if kind.is_symlink() {
            assert_eq!(fs::read_link(&a).unwrap(), fs::read_link(&b).unwrap());
        } else {
            assert!(fs::read(&a).unwrap() == fs::read(&b).unwrap(), "{name:?}");
        }
    }
}

#[test]
fn a_tree_goes_in_and_comes_out_and_the_names_behave() {
    a_tree_in_and_out(&Cluster::start());
}

#[test]
fn a_tree_goes_in_and_comes_out_by_nfsv3_and_what_it_lacks_is_said() {
    let cluster = Cluster::start().by_nfsv3();
    a_tree_in_and_out(&cluster);
    cluster.refused(
        &["layout", "get", "tree"],
        1,
        "NFSv3 has no extended attributes",
    );
    // What one version wrote the other reads.
    let by_nfsv4 = format!("{}tree/large", cluster.url.trim_end_matches("?vers=3"));
    assert!(cluster.ok(&["cat", &by_nfsv4]) == bytes(1, 3_000_001));
}

fn a_tree_in_and_out(cluster: &Cluster) {
    let local = tempfile::tempdir().unwrap();
    let src = local.path().join("src");
    fs::create_dir_all(src.join("a/b")).unwrap();
    fs::write(src.join("large"), bytes(1, 3_000_001)).unwrap();
    fs::write(src.join("a/empty"), b"").unwrap();
    for i in 0..40 {
        let content = bytes(99, 500 * i);
        fs::write(src.join(format!("a/b/{i}")), content).unwrap();
    }
    std::os::unix::fs::symlink("../large", src.join("a/link")).unwrap();
    let (src, out) = (src.to_str().unwrap(), local.path().join("out"));

    cluster.refused(&["cp", src, ":/tree"], 1, "use -r");
    cluster.ok(&["cp", "-rp", src, ":/tree"]);
    cluster.ok(&["cp", "-r", ":/tree", out.to_str().unwrap()]);
    same(Path::new(src), &out);
    cluster.ok(&["cp", "-r", ":/tree", ":/copy"]);
    assert!(cluster.ok(&["cat", "copy/large"]) == bytes(1, 3_000_001));
    let listed = cluster.ok(&["ls", "tree"]);
    assert_eq!(String::from_utf8_lossy(&listed), "a\nlarge\n");
    let json: serde_json::Value =
        serde_json::from_slice(&cluster.ok(&["stat", "--json", "tree/large"])).unwrap();
    assert_eq!(json[0]["size"], 3_000_001);
    let json: serde_json::Value =
        serde_json::from_slice(&cluster.ok(&["ls", "-R", "--json", "tree"])).unwrap();
    assert_eq!(json.as_array().unwrap().len(), 45);

    assert!(
        json[0]["url"]
            .as_str()
            .unwrap()
            .starts_with("nfs://127.0.0.1:")
    );
    let done = cluster.ok(&["mkdir", "--json", "-p", "p/q/r"]);
    let done: serde_json::Value = serde_json::from_slice(&done).unwrap();
    assert!(done[0]["made"].as_str().unwrap().contains("/p/q/r"));
    let done = cluster.ok(&["cp", "--json", ":/tree/large", ":/p/large"]);
    let done: serde_json::Value = serde_json::from_slice(&done).unwrap();
    assert_eq!(
        done,
        serde_json::json!({"files": 1, "bytes": 3_000_001, "failed": 0})
    );
    cluster.refused(&["mkdir", "p"], 1, "exists already");
    cluster.ok(&["mv", "copy", "p/q/r"]);
    cluster.ok(&["ln", "tree/large", "hard"]);
    cluster.ok(&["ln", "-s", "tree/large", "soft"]);
    assert!(cluster.ok(&["cat", "soft"]) == cluster.ok(&["cat", "hard"]));
    let done = cluster.ok(&["chmod", "-R", "--json", "700", "p"]);
    let done: serde_json::Value = serde_json::from_slice(&done).unwrap();
    // Its directories and the large file, and all of `copy` but the link.
    assert_eq!(done[0]["count"], 4 + 45);
    let json: serde_json::Value =
        serde_json::from_slice(&cluster.ok(&["stat", "--json", "p/q/r/copy/a/b/7"])).unwrap();
    assert_eq!(json[0]["mode"], "0700");
    cluster.refused(&["rm", "p"], 1, "use -r");
    cluster.ok(&["rm", "-r", "p", "hard", "soft"]);
    cluster.ok(&["rm", "-f", "gone"]);
    cluster.refused(&["rm", "gone"], 1, "no such file");
    cluster.refused(&["cat", "gone"], 1, "no such file");
    cluster.refused(&["cp", "/a", "/b"], 2, "both local");
    assert_eq!(cluster.ok(&["ls"]), b"tree\n");
    cluster.ok(&["du", "-h"]);
}

#[test]
fn holes_modes_and_times_are_kept() {
    use std::os::unix::fs::{FileExt, MetadataExt, PermissionsExt};
    let cluster = Cluster::start();
    let local = tempfile::tempdir().unwrap();
    let src = local.path().join("src");
    fs::create_dir(&src).unwrap();
    let sparse = fs::File::create(src.join("sparse")).unwrap();
    sparse.write_all_at(b"data", 40 << 20).unwrap();
    sparse.set_len(3 << 30).unwrap();
    fs::write(src.join("sealed"), b"secret").unwrap();
    let mode = |path: &Path, mode| fs::set_permissions(path, fs::Permissions::from_mode(mode));
    mode(&src.join("sealed"), 0o400).unwrap();
    let old = std::time::UNIX_EPOCH + std::time::Duration::from_secs(1_000_000_000);
    fs::File::open(&src).unwrap().set_modified(old).unwrap();
    mode(&src, 0o555).unwrap();

    let out = local.path().join("out");
    cluster.ok(&["cp", "-rp", src.to_str().unwrap(), ":/in"]);
    cluster.ok(&["cp", "-rp", ":/in", out.to_str().unwrap()]);
    let (dir, sealed) = (
        out.metadata().unwrap(),
        out.join("sealed").metadata().unwrap(),
    );
    assert_eq!((dir.mode() & 0o777, dir.mtime()), (0o555, 1_000_000_000));
    assert_eq!(sealed.mode() & 0o777, 0o400);
    let copy = fs::File::open(out.join("sparse")).unwrap();
    let mut read = [0; 8];
    copy.read_exact_at(&mut read, (40 << 20) - 2).unwrap();
    assert_eq!(&read, b"\0\0data\0\0");
    let copy = copy.metadata().unwrap();
    assert_eq!(copy.len(), 3 << 30);
    assert!(copy.blocks() * 512 < 16 << 20, "{} blocks", copy.blocks());
    // So that the directories can be removed.
    mode(&src, 0o755).unwrap();
    mode(&out, 0o755).unwrap();
}

#[test]
fn an_interrupted_copy_leaves_nothing_to_wait_for() {
    let cluster = Cluster::start();
    let local = tempfile::tempdir().unwrap();
    let file = local.path().join("file");
    fs::write(&file, bytes(3, 200_000_000)).unwrap();
    let state = |what: &str| {
        let dir = cluster._dir.path().to_str().unwrap();
        let said = cluster.ok(&["status", "--json", "--dir", dir]);
        let said: serde_json::Value = serde_json::from_slice(&said).unwrap();
        said["mds"][what].as_u64().unwrap()
    };
    let mut copy = Command::new(BINARY)
        .args(["cp", file.to_str().unwrap(), ":/file"])
        .env("ROPEWALK_URL", &cluster.url)
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    while state("layouts") == 0 {
        assert!(copy.try_wait().unwrap().is_none(), "it ended too soon");
    }
    let id = copy.id().to_string();
    let asked = Command::new("kill").args(["-INT", &id]).status();
    assert!(asked.unwrap().success());
    assert_eq!(copy.wait().unwrap().code(), Some(130));
    assert_eq!(
        (state("layouts"), state("opens"), state("sessions")),
        (0, 0, 0)
    );
    cluster.refused(
        &["cp", file.to_str().unwrap(), ":/none/"],
        1,
        "is not a directory",
    );
}

#[test]
fn a_copy_survives_the_death_of_each_server() {
    let cluster = Cluster::start();
    let local = tempfile::tempdir().unwrap();
    let file = local.path().join("file");
    let content = bytes(7, 80_000_000);
    fs::write(&file, &content).unwrap();
    for victim in 0..cluster.servers().len() {
        let target = format!(":/file{victim}");
        let mut copy = Command::new(BINARY)
            .args(["cp", file.to_str().unwrap(), &target])
            .env("ROPEWALK_URL", &cluster.url)
            .spawn()
            .unwrap();
        std::thread::sleep(std::time::Duration::from_millis(200));
        let id = cluster.servers().swap_remove(victim);
        let killed = Command::new("kill").args(["-KILL", &id]).status();
        assert!(killed.unwrap().success());
        assert!(copy.wait().unwrap().success(), "{victim}");
        assert!(cluster.ok(&["cat", &target[1..]]) == content, "{victim}");
    }
}

#[test]
fn files_that_are_there_get_two_copies_and_other_stripes() {
    let cluster = Cluster::start();
    let local = tempfile::tempdir().unwrap();
    let (src, small) = (local.path().join("src"), local.path().join("small"));
    fs::write(&src, bytes(9, 3_000_000)).unwrap();
    fs::write(&small, bytes(9, 100)).unwrap();
    cluster.ok(&["mkdir", ":/e"]);
    cluster.ok(&["mkdir", ":/e/below"]);
    cluster.ok(&["cp", src.to_str().unwrap(), ":/e/f"]);
    cluster.ok(&["cp", src.to_str().unwrap(), ":/e/below/f"]);
    cluster.ok(&["cp", small.to_str().unwrap(), ":/e/small"]);
    let shown = |path| {
        let out = cluster.ok(&["layout", "get", "--json", path]);
        let shown: serde_json::Value = serde_json::from_slice(&out).unwrap();
        ["stripe_unit", "stripe_count", "copies"].map(|word| shown[0][word].as_u64())
    };
    let set = ["layout", "set", "--existing", "--json", ":/e"];
    let run = |more: &[&str]| {
        let out = cluster.ok(&[&set[..], more].concat());
        let said: serde_json::Value = serde_json::from_slice(&out).unwrap();
        let files = said.as_array().unwrap().iter();
        files.filter(|item| !item["path"].is_null()).count()
    };
    let before = shown(":/e/f");
    assert_eq!(run(&["--copies", "2", "--dry-run"]), 2);
    assert_eq!(shown(":/e/f"), before);
    assert_eq!(run(&["--copies", "2"]), 2);
    assert_eq!(run(&["--copies", "2"]), 0, "what has it is passed over");
    assert_eq!(shown(":/e/below/f"), [before[0], before[1], Some(2)]);
    assert_eq!(run(&["--stripe-unit", "8KiB", "--stripe-count", "2"]), 2);
    assert_eq!(shown(":/e/f"), [Some(8192), Some(2), Some(2)]);
    let content = fs::read(&src).unwrap();
    for path in [":/e/f", ":/e/below/f"] {
        assert!(cluster.ok(&["cat", path]) == content, "{path}");
    }
    assert!(cluster.ok(&["cat", ":/e/small"]) == fs::read(&small).unwrap());
}

#[test]
fn a_restriping_that_is_interrupted_ends_with_the_files_under_way_and_goes_on_later() {
    const FILES: usize = 24;
    let cluster = Cluster::start();
    let local = tempfile::tempdir().unwrap();
    let src = local.path().join("src");
    fs::write(&src, bytes(9, 300_000)).unwrap();
    cluster.ok(&["mkdir", ":/e"]);
    for n in 0..FILES {
        cluster.ok(&["cp", src.to_str().unwrap(), &format!(":/e/f{n}")]);
    }
    let set = ["layout", "set", "--existing", "--copies", "2", ":/e"];
    let mut walk = Command::new(BINARY)
        .args(set)
        .env("ROPEWALK_URL", &cluster.url)
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut lines = BufReader::new(walk.stdout.take().unwrap()).lines();
    let mut first = lines.next().unwrap().unwrap();
    while !first.ends_with("laid out anew") {
        first = lines.next().unwrap().unwrap();
    }
    let asked = Command::new("kill")
        .args(["-INT", &walk.id().to_string()])
        .status();
    assert!(asked.unwrap().success());
    let done = 1 + lines.map_while(Result::ok).count();
    let ended = walk.wait_with_output().unwrap();
    let said = String::from_utf8_lossy(&ended.stderr).into_owned();
    assert_eq!(ended.status.code(), Some(130), "{said}");
    let words = format!("{done} files are laid out anew; the same command goes on");
    assert!(said.contains(&words), "{said}");
    assert!(done < FILES, "{done}");
    let out = String::from_utf8(cluster.ok(&set)).unwrap();
    let rest = out.lines().filter(|line| line.ends_with("laid out anew"));
    assert_eq!(rest.count(), FILES - done);
}

#[test]
fn a_layout_is_set_on_a_directory_and_files_made_below_have_it() {
    let cluster = Cluster::start();
    cluster.ok(&["mkdir", ":/d"]);
    let set = [
        "layout",
        "set",
        ":/d",
        "--stripe-unit",
        "8KiB",
        "--stripe-count",
    ];
    let with = |count| [&set[..], &[count]].concat();
    cluster.refused(&with("4"), 1, "no more than there are data servers");
    cluster.refused(&with("59"), 2, "at most 58 data servers");
    cluster.refused(&["layout", "set", ":/d"], 2, "--stripe-count");
    cluster.ok(&with("2"));
    let local = tempfile::tempdir().unwrap();
    let (src, out) = (local.path().join("src"), local.path().join("out"));
    fs::write(&src, bytes(5, 1_000_000)).unwrap();
    cluster.ok(&["mkdir", ":/d/below"]);
    cluster.ok(&["cp", src.to_str().unwrap(), ":/d/below/f"]);
    cluster.ok(&["cp", ":/d/below/f", out.to_str().unwrap()]);
    assert!(fs::read(src).unwrap() == fs::read(out).unwrap());
    let shown = |path| {
        let out = cluster.ok(&["layout", "get", "--json", path]);
        let shown: serde_json::Value = serde_json::from_slice(&out).unwrap();
        (
            shown[0]["stripe_unit"].as_u64(),
            shown[0]["stripe_count"].as_u64(),
        )
    };
    assert_eq!(shown(":/d/below/f"), (Some(8192), Some(2)));
    assert_eq!(shown(":/d/below"), (Some(8192), Some(2)));
    assert_eq!(shown(":/"), (Some(65_536), None), "all");
    cluster.ok(&["layout", "set", ":/d", "--unset"]);
    cluster.ok(&["layout", "set", ":/d", "--unset"]);
    assert_eq!(shown(":/d"), (Some(65_536), None));
}
