//! The kernel of a later Debian than this machine's: an NFS client that asks for what RFC 9754 has.
//!
//! Owns where it comes from and what it is unpacked to; [`super::qemu`] runs it. Nothing of apt's own state is changed:
//! lists and packages of the later release lie below the harness's directory.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use super::error::{Context, Failure, Result};
use super::prepare::remove_tree;
use super::process::output;

/// The release of Debian: its kernel is Linux 6.12.
const SUITE: &str = "trixie";

/// What brings the newest kernel of a release.
const META_PACKAGE: &str = "linux-image-amd64";

/// Debian's keys, those of releases to come among them.
const KEYRING: &str = "/usr/share/keyrings/debian-archive-keyring.gpg";

/// Unpacks the kernel and its modules below `root`, unless a kernel is there.
pub(super) fn add_kernel(dir: &Path, root: &Path) -> Result<()> {
    if root.join("boot").is_dir() {
        return Ok(());
    }
    eprintln!("fetching the kernel of Debian {SUITE}");
    let apt = Apt::of_suite(dir)?;
    apt.run("apt-get", &["-q", "update"])?;
    let depends = apt.run("apt-cache", &["depends", META_PACKAGE])?;
    let package = (depends.lines())
        .find_map(|line| line.trim().strip_prefix("Depends: "))
        .filter(|name| name.starts_with("linux-image-"))
        .ok_or_else(|| Failure::new(format!("Debian {SUITE} has no {META_PACKAGE}")))?;
    apt.run("apt-get", &["-q", "download", package])?;
    for entry in fs::read_dir(&apt.dir).context(|| format!("cannot list {}", apt.dir.display()))? {
        let path = entry
            .context(|| format!("cannot list {}", apt.dir.display()))?
            .path();
        if path.extension().is_some_and(|extension| extension == "deb") {
            output(Command::new("dpkg-deb").arg("-x").arg(&path).arg(root))?;
        }
    }
    remove_tree(&apt.dir)
}

/// apt with lists and archives of its own.
struct Apt {
    dir: PathBuf,
}

impl Apt {
    fn of_suite(dir: &Path) -> Result<Self> {
        let dir = dir.join("newer.apt");
        remove_tree(&dir)?;
        for part in ["lists/partial", "archives/partial"] {
            let path = dir.join(part);
            fs::create_dir_all(&path).context(|| format!("cannot create {}", path.display()))?;
        }
        let keys = if Path::new(KEYRING).exists() {
            format!("[signed-by={KEYRING}] ")
        } else {
            String::new()
        };
        let source = format!("deb {keys}{} {SUITE} main\n", debian()?);
        let path = dir.join("sources.list");
        fs::write(&path, source).context(|| format!("cannot write {}", path.display()))?;
        Ok(Self { dir })
    }

    fn run(&self, program: &str, arguments: &[&str]) -> Result<String> {
        let at = |option: &str, part: &str| format!("{option}={}", self.dir.join(part).display());
        let mut command = Command::new(program);
        command
            .current_dir(&self.dir)
            .args(["-o", "APT::Sandbox::User=root"])
            .args(["-o", &at("Dir::Etc::sourcelist", "sources.list")])
            .args(["-o", "Dir::Etc::sourceparts=/dev/null"])
            .args(["-o", &at("Dir::State::lists", "lists")])
            .args(["-o", &at("Dir::Cache::archives", "archives")])
            .args(["-o", &at("Dir::Cache::pkgcache", "pkgcache.bin")])
            .args(["-o", &at("Dir::Cache::srcpkgcache", "srcpkgcache.bin")])
            .args(arguments);
        output(&mut command)
    }
}

/// The mirror of Debian that this machine's apt uses.
fn debian() -> Result<String> {
    let format = "$(LABEL) $(REPO_URI)";
    let targets = output(Command::new("apt-get").args(["indextargets", "--format", format]))?;
    let mirror = targets
        .lines()
        .find_map(|line| line.strip_prefix("Debian "));
    mirror.map(str::to_owned).ok_or_else(|| {
        Failure::new(format!(
            "apt knows no mirror of Debian, from which the kernel of {SUITE} comes; run apt-get update on a Debian machine"
        ))
    })
}
