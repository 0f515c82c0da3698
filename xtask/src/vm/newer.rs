//! The kernel of a later Debian than this machine's: an NFS client that asks for what RFC 9754 has.
//!
//! Owns where it comes from and what it is unpacked to; [`super::qemu`] runs it. Nothing of apt's own state is changed:
//! lists and packages of the later release lie below the harness's directory.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::Command;

use super::error::{Context, Failure, Result};
use super::prepare::remove_tree;
use super::process::output;

/// A release of Debian after this machine's.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum Suite {
    /// Debian 13: its kernel is Linux 6.12.
    Trixie,
    /// What Debian 13 gets later: Linux 6.18 or newer, which stripes flexible files layouts.
    TrixieBackports,
}

impl Suite {
    /// As apt calls it.
    const fn name(self) -> &'static str {
        match self {
            Self::Trixie => "trixie",
            Self::TrixieBackports => "trixie-backports",
        }
    }

    /// The folder that its kernel is unpacked to.
    pub(super) const fn folder(self) -> &'static str {
        match self {
            Self::Trixie => "newer",
            Self::TrixieBackports => "newest",
        }
    }
}

/// What brings the newest kernel of a release.
const META_PACKAGE: &str = "linux-image-amd64";

/// Debian's keys, those of releases to come among them.
const KEYRING: &str = "/usr/share/keyrings/debian-archive-keyring.gpg";

/// Unpacks the kernel and its modules below `root`, unless a kernel is there.
pub(super) fn add_kernel(dir: &Path, root: &Path, suite: Suite) -> Result<()> {
    if root.join("boot").is_dir() {
        return Ok(());
    }
    let name = suite.name();
    eprintln!("fetching the kernel of Debian {name}");
    let apt = Apt::of_suite(dir, suite)?;
    apt.run("apt-get", &["-q", "update"])?;
    let image = apt.depends(META_PACKAGE, &["linux-image-"])?.pop();
    let image =
        image.ok_or_else(|| Failure::new(format!("Debian {name} has no {META_PACKAGE}")))?;
    // Newer releases have a package each for the kernel and its modules.
    let mut packages = apt.depends(&image, &["linux-base-", "linux-binary-", "linux-modules-"])?;
    packages.push(image);
    let mut download = vec!["-q", "download"];
    download.extend(packages.iter().map(String::as_str));
    apt.run("apt-get", &download)?;
    for entry in fs::read_dir(&apt.dir).context(|| format!("cannot list {}", apt.dir.display()))? {
        let path = entry
            .context(|| format!("cannot list {}", apt.dir.display()))?
            .path();
        if path.extension().is_some_and(|extension| extension == "deb") {
            output(Command::new("dpkg-deb").arg("-x").arg(&path).arg(root))?;
        }
    }
    remove_tree(&apt.dir)?;
    link_image(root)
}

/// Puts the kernel where older packages have it: newer ones have it beside its modules.
fn link_image(root: &Path) -> Result<()> {
    let boot = root.join("boot");
    if boot.is_dir() {
        return Ok(());
    }
    fs::create_dir(&boot).context(|| format!("cannot create {}", boot.display()))?;
    let modules = root.join("usr/lib/modules");
    let unable = || format!("cannot list {}", modules.display());
    for entry in fs::read_dir(&modules).context(unable)? {
        let entry = entry.context(unable)?;
        let release = entry.file_name().to_string_lossy().into_owned();
        let link = boot.join(format!("vmlinuz-{release}"));
        symlink(entry.path().join("vmlinuz"), &link)
            .context(|| format!("cannot create {}", link.display()))?;
    }
    Ok(())
}

/// apt with lists and archives of its own.
struct Apt {
    dir: PathBuf,
}

impl Apt {
    fn of_suite(dir: &Path, suite: Suite) -> Result<Self> {
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
        let source = format!("deb {keys}{} {} main\n", debian()?, suite.name());
        let path = dir.join("sources.list");
        fs::write(&path, source).context(|| format!("cannot write {}", path.display()))?;
        Ok(Self { dir })
    }

    /// What a package depends on, as far as its name starts with one of `starts`.
    fn depends(&self, package: &str, starts: &[&str]) -> Result<Vec<String>> {
        let listed = self.run("apt-cache", &["depends", package])?;
        let names = listed
            .lines()
            .filter_map(|line| line.trim().strip_prefix("Depends: "))
            .filter(|name| starts.iter().any(|start| name.starts_with(start)));
        Ok(names.map(str::to_owned).collect())
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
        Failure::new(
            "apt knows no mirror of Debian, from which a newer kernel comes; run apt-get update on a Debian machine",
        )
    })
}
