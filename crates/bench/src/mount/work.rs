//! The pieces of work. Each is done in one directory, by one thread.

use super::tree;
use crate::suite::files::Buffer;
use crate::{BenchError, pattern};
use clap::ValueEnum;
use rustix::fs::{Advice, OFlags};
use std::fs::{self, File, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::Path;
use std::process::{Command, Stdio};

/// Files, calls and bytes of the pieces; a tenth with `--quick`.
const SAVES: u32 = 400;
const APPENDS: u32 = 300;
const CREATES: u32 = 500;
const RENAMES: u32 = 500;
const MKDIRS: u32 = 200;
const COMMITS: u32 = 100;
const DIRECTS: u32 = 500;
const PAGE_BYTES: usize = 4096;
const SMALL_BYTES: usize = 3000;
const LARGE_BYTES: u64 = 64 << 20;
const CHUNK_BYTES: usize = 1 << 20;

/// A piece of work.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, ValueEnum)]
pub enum Work {
    /// Unpack 1,600 files, as tar does
    Unpack,
    /// List them with their attributes, after caches were dropped
    List,
    /// Read them all, after caches were dropped
    Search,
    /// Copy them, as cp -r does
    Copy,
    /// Remove the copy
    Remove,
    /// git clone of a repository of as many files, and git status
    Git,
    /// 100 transactions of SQLite
    Sqlite,
    /// 400 times write 4 KiB and fsync
    Save,
    /// 300 times open, append 100 bytes, close
    Append,
    /// Make 500 files of 3,000 bytes
    Create,
    /// 500 renames
    Rename,
    /// Make 200 directories
    Mkdir,
    /// Write 64 MiB and fsync
    LargeWrite,
    /// Read them, after caches were dropped
    LargeRead,
    /// 500 times 4 KiB at random by O_DIRECT, half of it written
    Direct,
}

impl Work {
    /// All, in the order in which they are done.
    pub const ALL: [Self; 15] = [
        Self::Unpack,
        Self::List,
        Self::Search,
        Self::Copy,
        Self::Remove,
        Self::Git,
        Self::Sqlite,
        Self::Save,
        Self::Append,
        Self::Create,
        Self::Rename,
        Self::Mkdir,
        Self::LargeWrite,
        Self::LargeRead,
        Self::Direct,
    ];

    /// As on the command line.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Unpack => "unpack",
            Self::List => "list",
            Self::Search => "search",
            Self::Copy => "copy",
            Self::Remove => "remove",
            Self::Git => "git",
            Self::Sqlite => "sqlite",
            Self::Save => "save",
            Self::Append => "append",
            Self::Create => "create",
            Self::Rename => "rename",
            Self::Mkdir => "mkdir",
            Self::LargeWrite => "large-write",
            Self::LargeRead => "large-read",
            Self::Direct => "direct",
        }
    }

    /// What must have been done before.
    pub(crate) const fn goes_on_from(self) -> Option<Self> {
        match self {
            Self::List | Self::Search | Self::Copy => Some(Self::Unpack),
            Self::LargeRead => Some(Self::LargeWrite),
            _ => None,
        }
    }

    /// The program that does it.
    pub(crate) const fn needs_program(self) -> Option<&'static str> {
        match self {
            Self::Git => Some("git"),
            Self::Sqlite => Some("sqlite3"),
            _ => None,
        }
    }

    /// Whether it is to find nothing in memory.
    pub(crate) const fn reads_cold(self) -> bool {
        matches!(self, Self::List | Self::Search | Self::LargeRead)
    }

    /// Makes what is not measured.
    pub(crate) fn prepare(self, dir: &Path, scale: u32) -> Result<(), BenchError> {
        let made = match self {
            Self::Git => repository(&dir.join("origin"), scale),
            Self::Remove => tree::unpack(&dir.join("removed"), scale),
            Self::Rename => renamed(dir, scale),
            Self::LargeRead => File::open(dir.join("large"))
                .and_then(|file| Ok(rustix::fs::fadvise(file, 0, None, Advice::DontNeed)?)),
            Self::Direct => direct_file(dir),
            _ => Ok(()),
        };
        made.map_err(BenchError::io("prepare a piece of work"))
    }

    /// Does it.
    pub(crate) fn perform(self, dir: &Path, scale: u32) -> Result<(), BenchError> {
        let tree_dir = dir.join("tree");
        let done = match self {
            Self::Unpack => tree::unpack(&tree_dir, scale),
            Self::List => listed(&tree_dir, scale),
            Self::Search => tree::search(&tree_dir, scale),
            Self::Copy => tree::copy(&tree_dir, &dir.join("copy")),
            Self::Remove => fs::remove_dir_all(dir.join("removed")),
            Self::Git => clone_and_status(dir),
            Self::Sqlite => transactions(dir, scale),
            Self::Save => saves(dir, scale),
            Self::Append => appends(dir, scale),
            Self::Create => creates(dir, scale),
            Self::Rename => renames(dir, scale),
            Self::Mkdir => mkdirs(dir, scale),
            Self::LargeWrite => large_write(dir, scale),
            Self::LargeRead => large_read(dir, scale),
            Self::Direct => directs(dir, scale),
        };
        done.map_err(|source| BenchError::Io {
            doing: self.name(),
            source,
        })
    }
}

/// Whether a program is in the search path.
pub(crate) fn has_program(program: &str) -> bool {
    let asked = Command::new(program)
        .arg("--version")
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .status();
    asked.is_ok_and(|status| status.success())
}

/// Runs a command to its end; what it says is in the error if it fails.
fn command(command: &mut Command) -> io::Result<()> {
    let done = command.stdin(Stdio::null()).output()?;
    if done.status.success() {
        return Ok(());
    }
    let words = String::from_utf8_lossy(&done.stderr).into_owned();
    Err(io::Error::other(format!("{command:?}: {words}")))
}

fn listed(root: &Path, scale: u32) -> io::Result<()> {
    let (found, wanted) = (tree::list(root)?, tree::entries(scale).len());
    if found == wanted {
        return Ok(());
    }
    Err(io::Error::other(format!(
        "{found} files are listed, not {wanted}"
    )))
}

fn git(dir: &Path) -> Command {
    let mut git = Command::new("git");
    git.arg("-C").arg(dir).args(["-c", "user.name=bench"]);
    git.args(["-c", "user.email=bench@example.org", "-c", "gc.auto=0"]);
    // Folders of a server may belong to somebody else there.
    git.args(["-c", "safe.directory=*"]);
    git
}

fn repository(origin: &Path, scale: u32) -> io::Result<()> {
    tree::unpack(origin, scale)?;
    command(git(origin).args(["init", "-q"]))?;
    command(git(origin).args(["add", "-A"]))?;
    command(git(origin).args(["commit", "-q", "-m", "all"]))
}

fn clone_and_status(dir: &Path) -> io::Result<()> {
    command(git(dir).args(["clone", "-q", "--no-local", "origin", "clone"]))?;
    command(git(&dir.join("clone")).args(["status", "--porcelain"]))
}

fn transactions(dir: &Path, scale: u32) -> io::Result<()> {
    let mut sql = String::from("CREATE TABLE t (n INTEGER, text TEXT);");
    for n in 0..COMMITS / scale {
        sql += &format!("INSERT INTO t VALUES ({n}, '{:0100}');", n);
    }
    command(Command::new("sqlite3").arg(dir.join("database")).arg(sql))
}

fn saves(dir: &Path, scale: u32) -> io::Result<()> {
    let file = File::create(dir.join("saved"))?;
    let mut bytes = [0; PAGE_BYTES];
    for n in 0..SAVES / scale {
        pattern::fill(u64::from(n), &mut bytes);
        file.write_all_at(&bytes, u64::from(n % 8) * PAGE_BYTES as u64)?;
        file.sync_all()?;
    }
    Ok(())
}

fn appends(dir: &Path, scale: u32) -> io::Result<()> {
    let path = dir.join("appended");
    for _ in 0..APPENDS / scale {
        let mut file = OpenOptions::new().append(true).create(true).open(&path)?;
        file.write_all(&[b'a'; 100])?;
    }
    Ok(())
}

fn creates(dir: &Path, scale: u32) -> io::Result<()> {
    let dir = dir.join("created");
    fs::create_dir(&dir)?;
    let mut bytes = [0; SMALL_BYTES];
    for n in 0..CREATES / scale {
        pattern::fill(u64::from(n), &mut bytes);
        let path = dir.join(format!("file-{n}"));
        let mut file = OpenOptions::new().write(true).create_new(true).open(path)?;
        file.write_all(&bytes)?;
    }
    Ok(())
}

fn renamed(dir: &Path, scale: u32) -> io::Result<()> {
    let dir = dir.join("renamed");
    fs::create_dir(&dir)?;
    for n in 0..RENAMES / scale {
        File::create(dir.join(format!("old-{n}")))?;
    }
    Ok(())
}

fn renames(dir: &Path, scale: u32) -> io::Result<()> {
    let dir = dir.join("renamed");
    for n in 0..RENAMES / scale {
        fs::rename(dir.join(format!("old-{n}")), dir.join(format!("new-{n}")))?;
    }
    Ok(())
}

fn mkdirs(dir: &Path, scale: u32) -> io::Result<()> {
    for n in 0..MKDIRS / scale {
        fs::create_dir(dir.join(format!("dir-{n}")))?;
    }
    Ok(())
}

fn large_bytes(scale: u32) -> u64 {
    LARGE_BYTES / u64::from(scale) / CHUNK_BYTES as u64 * CHUNK_BYTES as u64
}

fn large_write(dir: &Path, scale: u32) -> io::Result<()> {
    let file = File::create(dir.join("large"))?;
    let mut chunk = vec![0; CHUNK_BYTES];
    for at in (0..large_bytes(scale)).step_by(CHUNK_BYTES) {
        pattern::fill(at, &mut chunk);
        file.write_all_at(&chunk, at)?;
    }
    file.sync_all()
}

fn large_read(dir: &Path, scale: u32) -> io::Result<()> {
    let file = File::open(dir.join("large"))?;
    let mut chunk = vec![0; CHUNK_BYTES];
    for at in (0..large_bytes(scale)).step_by(CHUNK_BYTES) {
        file.read_exact_at(&mut chunk, at)?;
        pattern::check(at, &chunk).map_err(|error| io::Error::other(error.to_string()))?;
    }
    Ok(())
}

/// A file of one chunk.
fn direct_file(dir: &Path) -> io::Result<()> {
    let mut file = File::create(dir.join("direct"))?;
    file.write_all(&vec![1; CHUNK_BYTES])?;
    file.sync_all()
}

fn directs(dir: &Path, scale: u32) -> io::Result<()> {
    let file = OpenOptions::new()
        .read(true)
        .write(true)
        .custom_flags(OFlags::DIRECT.bits().cast_signed())
        .open(dir.join("direct"))?;
    let mut buffer = Buffer::new(PAGE_BYTES);
    let pages = (CHUNK_BYTES / PAGE_BYTES) as u64;
    for n in 0..DIRECTS / scale {
        let at = pattern::mix(u64::from(n)) % pages * PAGE_BYTES as u64;
        let page = buffer.first(PAGE_BYTES);
        if n % 2 == 0 {
            file.read_exact_at(page, at)?;
        } else {
            page.fill(n.to_le_bytes()[0]);
            file.write_all_at(page, at)?;
        }
    }
    Ok(())
}
