//! Stored clusters of earlier commits, for the test of upgrades in `crates/ropewalk/tests/upgrade.rs`.
//!
//! Owns building `ropewalk` as a commit had it, in a worktree of its own below the target directory. Its `up` then gets a
//! small tree by its own client commands, and the state of all servers is packed. Each commit gives two archives: of a
//! cluster that was told to stop, and of one that was killed while a file was being written.
//!
//! An archive has `cluster`, the directory of `up`, and `expected`, the same tree as local files. In the configurations
//! the directory is [`DIR_WORD`]. Logs, sockets and locks are left out. Entry point: [`run`].

use crate::repo::{self, Result};
use crate::tools;
use crate::vm::process;
use std::fs;
use std::io::{BufRead, BufReader};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, SystemTime};

/// The commits whose clusters today's servers must open: the last one whose every file lies at data servers, and the last
/// one before files had parts at places.
const COMMITS: [&str; 2] = ["394b63b", "0413f71"];
/// Where the archives lie.
const ARCHIVES: &str = "crates/ropewalk/tests/testdata/clusters";
/// What stands for the cluster's directory in the stored configurations.
const DIR_WORD: &str = "@DIR@";
/// What `up` prints last when the cluster is ready.
const READY: &str = "  stop:";
/// How long an orderly stop may take.
const STOP_LIMIT: Duration = Duration::from_secs(30);
/// How often a look is taken whether the file that is being written is there.
const LOOKS_MAX: u32 = 200;
/// Data servers: three, so that a place can get two copies while a third is there.
const DS_COUNT: &str = "3";
/// The largest archive that may be kept in git.
const ARCHIVE_BYTES_MAX: u64 = 400_000;
/// Each file was last written at this time, in seconds since 1970.
const MTIME_S: u64 = 1_700_000_000;
/// Bytes of the file that is being written when the cluster is killed.
const UNDER_WAY_BYTES: usize = 32 << 20;

#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Commits of this repository [default: those that the tests have]
    commits: Vec<String>,
    /// Where the archives go [default: where the tests look]
    #[arg(long, value_name = "DIR")]
    out: Option<PathBuf>,
}

/// How a cluster came to its end.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum End {
    Stopped,
    Killed,
}

impl End {
    fn word(self) -> &'static str {
        match self {
            Self::Stopped => "stopped",
            Self::Killed => "killed",
        }
    }
}

/// Makes both archives of each commit.
pub(crate) fn run(args: &Args) -> Result<()> {
    tools::need(&["git", "tar", "xz"])?;
    let out = match &args.out {
        Some(out) => std::path::absolute(out).map_err(unable(out))?,
        None => repo::root().join(ARCHIVES),
    };
    fs::create_dir_all(&out).map_err(unable(&out))?;
    let commits: Vec<&str> = match args.commits.is_empty() {
        true => COMMITS.to_vec(),
        false => args.commits.iter().map(String::as_str).collect(),
    };
    for commit in commits {
        let short = repo::output(
            Command::new("git")
                .args(["rev-parse", "--short=7", "--verify", commit])
                .current_dir(repo::root()),
        )?;
        let short = short.trim();
        let base = base().join(short);
        let program = build(short, &base)?;
        for end in [End::Stopped, End::Killed] {
            let archive = out.join(format!("{short}-{}.tar.xz", end.word()));
            make(&program, &base.join(end.word()), end)?;
            pack(&base.join(end.word()), &archive)?;
            let len = fs::metadata(&archive).map_err(unable(&archive))?.len();
            println!("{}: {len} bytes", archive.display());
            if len > ARCHIVE_BYTES_MAX {
                return Err(format!(
                    "more than {ARCHIVE_BYTES_MAX} bytes: too large for git"
                ));
            }
        }
    }
    Ok(())
}

fn unable<E: std::fmt::Display>(path: &Path) -> impl FnOnce(E) -> String {
    move |error| format!("{}: {error}", path.display())
}

/// Where worktrees, programs and clusters lie.
fn base() -> PathBuf {
    let target = std::env::var_os("CARGO_TARGET_DIR").map(PathBuf::from);
    target
        .unwrap_or_else(|| repo::root().join("target"))
        .join("fixtures")
}

/// Builds the program as `commit` had it. Commits share no target directory: cargo would take the crates of one for those of
/// another.
fn build(commit: &str, base: &Path) -> Result<PathBuf> {
    let source = base.join("source");
    if !source.exists() {
        let mut git = Command::new("git");
        git.args(["worktree", "add", "--detach"])
            .args([&source, Path::new(commit)])
            .current_dir(repo::root());
        repo::output(&mut git)?;
    }
    let target = base.join("target");
    let status = repo::cargo()
        .args(["build", "--locked", "--package", "ropewalk"])
        .current_dir(&source)
        .env("CARGO_TARGET_DIR", &target)
        .status()
        .map_err(|e| format!("cannot run cargo: {e}"))?;
    match status.success() {
        true => Ok(target.join("debug/ropewalk")),
        false => Err(format!("ropewalk of {commit} cannot be built")),
    }
}

/// Makes `dir/cluster` and `dir/expected`, which say the same.
fn make(program: &Path, dir: &Path, end: End) -> Result<()> {
    let _ = fs::remove_dir_all(dir);
    let expected = dir.join("expected");
    local_tree(&expected).map_err(unable(&expected))?;
    let cluster = Running::start(program, &dir.join("cluster"))?;
    store(&cluster, &expected)?;
    match end {
        End::Stopped => cluster.stop(),
        End::Killed => cluster.kill_while_written(dir),
    }
}

/// Bytes that repeat, for a small archive, after a number that divides no stripe.
fn bytes(seed: u8, len: usize) -> Vec<u8> {
    let cycle = (0..251_u8).map(|n| n ^ seed);
    cycle.cycle().take(len).collect()
}

/// What is copied to the cluster first, as local files.
fn local_tree(dir: &Path) -> std::io::Result<()> {
    fs::create_dir_all(dir.join("dir/below"))?;
    for (name, mode, content) in [
        ("small", 0o640, bytes(1, 1000)),
        ("empty", 0o600, Vec::new()),
        // What later versions keep with the inode at most, and a byte more.
        ("dir/edge", 0o644, bytes(2, 32_768)),
        ("dir/beyond", 0o644, bytes(3, 32_769)),
        ("dir/below/striped", 0o755, bytes(4, 400_000)),
        ("removed", 0o644, bytes(5, 100_000)),
        ("to-be-moved", 0o644, bytes(6, 150_000)),
    ] {
        write(&dir.join(name), mode, &content)?;
    }
    let sparse = fs::File::create(dir.join("sparse"))?;
    sparse.set_len(2 << 20)?;
    std::os::unix::fs::FileExt::write_all_at(&sparse, &bytes(7, 5000), (1 << 20) + 17)?;
    sparse.set_permissions(fs::Permissions::from_mode(0o444))?;
    sparse.set_modified(mtime())
}

fn write(path: &Path, mode: u32, content: &[u8]) -> std::io::Result<()> {
    fs::write(path, content)?;
    let file = fs::File::open(path)?;
    file.set_permissions(fs::Permissions::from_mode(mode))?;
    file.set_modified(mtime())
}

fn mtime() -> SystemTime {
    SystemTime::UNIX_EPOCH + Duration::from_secs(MTIME_S)
}

/// Copies the tree, and does there and here what files go through.
fn store(cluster: &Running, expected: &Path) -> Result<()> {
    let here = |name: &str| expected.join(name);
    let text = |path: PathBuf| path.to_string_lossy().into_owned();
    for name in ["small", "empty", "dir", "removed", "to-be-moved", "sparse"] {
        cluster.run(&["cp", "-r", "-p", &text(here(name)), &format!(":/{name}")])?;
    }
    cluster.run(&["ln", "dir/below/striped", "hard"])?;
    fs::hard_link(here("dir/below/striped"), here("hard")).map_err(unable(expected))?;
    cluster.run(&["ln", "-s", "dir/below/striped", "link"])?;
    std::os::unix::fs::symlink("dir/below/striped", here("link")).map_err(unable(expected))?;
    cluster.run(&["rm", "removed"])?;
    fs::remove_file(here("removed")).map_err(unable(expected))?;
    cluster.run(&["mv", "to-be-moved", "dir/moved"])?;
    fs::rename(here("to-be-moved"), here("dir/moved")).map_err(unable(expected))?;
    // A setting of a directory, with a stripe unit that is no power of two, and a file that was made so.
    cluster.run(&["mkdir", "narrow"])?;
    cluster.run(&["layout", "set", "narrow", "--stripe-unit", "12KiB"])?;
    fs::create_dir(here("narrow")).map_err(unable(expected))?;
    for (name, seed) in [("narrow/odd", 8), ("overwritten", 9)] {
        if name == "overwritten" {
            write(&here(name), 0o644, &bytes(0, 300_000)).map_err(unable(expected))?;
            cluster.run(&["cp", &text(here(name)), &format!(":/{name}")])?;
        }
        write(&here(name), 0o644, &bytes(seed, 200_000)).map_err(unable(expected))?;
        cluster.run(&["cp", "-p", &text(here(name)), &format!(":/{name}")])?;
    }
    Ok(())
}

/// A cluster of the earlier program.
struct Running {
    program: PathBuf,
    up: Child,
    url: String,
}

impl Running {
    fn start(program: &Path, dir: &Path) -> Result<Self> {
        let dir = std::path::absolute(dir).map_err(unable(dir))?;
        let mds = dir.join("mds");
        fs::create_dir_all(&mds).map_err(unable(&mds))?;
        // A short lease: who opens the archive waits for a grace period.
        let config = format!(
            "state_dir = '{}'\nlisten = ['127.0.0.1:2049']\nlease_seconds = 3\n[root]\nmode = '1777'\n",
            mds.display()
        );
        fs::write(mds.join("mds.toml"), config).map_err(unable(&mds))?;
        let mut up = Command::new(program)
            .args(["up", "--port", "0", "--stripe-unit", "64KiB"])
            .args(["--ds", DS_COUNT, "--dir"])
            .arg(&dir)
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .spawn()
            .map_err(unable(program))?;
        let stdout = up.stdout.take().expect("standard output is a pipe");
        let mut port = None;
        let mut lines = BufReader::new(stdout).lines().map_while(|line| line.ok());
        let is_ready = lines.any(|line| {
            if let Some((_, rest)) = line.split_once("port=") {
                let digits: String = rest.chars().take_while(char::is_ascii_digit).collect();
                port = Some(digits);
            }
            line.starts_with(READY)
        });
        let port = port.filter(|_| is_ready);
        let url = format!("nfs://127.0.0.1:{}/", port.unwrap_or_default());
        let program = program.to_path_buf();
        let running = Self { program, up, url };
        match is_ready {
            true => Ok(running),
            false => Err(format!("no cluster in {}", dir.display())),
        }
    }

    fn command(&self, words: &[&str]) -> Command {
        let mut command = Command::new(&self.program);
        command.args(words).env("ROPEWALK_URL", &self.url);
        command.stdin(Stdio::null());
        command
    }

    /// Runs a client command of the earlier program.
    fn run(&self, words: &[&str]) -> Result<String> {
        repo::output(&mut self.command(words)).map_err(|e| format!("{words:?}: {e}"))
    }

    fn stop(mut self) -> Result<()> {
        process::signal(&[self.up.id()], "TERM");
        match process::wait_at_most(&mut self.up, STOP_LIMIT) {
            Ok(Some(status)) if status.success() => Ok(()),
            other => Err(format!("the cluster does not stop: {other:?}")),
        }
    }

    /// Kills all servers at once while a file is written.
    fn kill_while_written(mut self, dir: &Path) -> Result<()> {
        let source = dir.join("under-way");
        fs::write(&source, bytes(10, UNDER_WAY_BYTES)).map_err(unable(&source))?;
        let words = ["cp", &source.to_string_lossy(), ":/under-way"];
        let mut copy = self.command(&words).spawn().map_err(unable(&source))?;
        let is_there = (0..LOOKS_MAX).any(|_| self.run(&["stat", "under-way"]).is_ok());
        process::kill_family(&mut self.up);
        let _ = copy.kill();
        let _ = copy.wait();
        let _ = fs::remove_file(source);
        match is_there {
            true => Ok(()),
            false => Err("the file that is written does not come".to_owned()),
        }
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        process::kill_family(&mut self.up);
    }
}

/// Packs what `dir` has, the same bytes for the same state.
fn pack(dir: &Path, archive: &Path) -> Result<()> {
    let configs = [
        "mds/mds.toml",
        "ds-1/ds.toml",
        "ds-2/ds.toml",
        "ds-3/ds.toml",
    ];
    let cluster = dir.join("cluster");
    let own = cluster.to_string_lossy().into_owned();
    for config in configs.map(|name| cluster.join(name)) {
        let text = fs::read_to_string(&config).map_err(unable(&config))?;
        fs::write(&config, text.replace(&own, DIR_WORD)).map_err(unable(&config))?;
    }
    let mut tar = Command::new("tar");
    tar.args(["--create", "--file"]).arg(archive);
    // Blocks of zeros take nothing, here and where it is unpacked.
    tar.args(["--xz", "--sparse", "--hole-detection=raw", "--sort=name"]);
    tar.args(["--owner=0", "--group=0", "--numeric-owner"]);
    tar.args(["--anchored", "--no-wildcards-match-slash"]);
    for name in ["log", "admin.sock", "process.lock", "join.token"] {
        // Of a server or of `up`; a store has files of such names further below.
        tar.arg(format!("--exclude=cluster/{name}"));
        tar.arg(format!("--exclude=cluster/*/{name}"));
    }
    tar.arg("--directory")
        .arg(dir)
        .args(["cluster", "expected"]);
    tar.env("XZ_OPT", "-9e");
    repo::output(&mut tar).map(drop)
}
