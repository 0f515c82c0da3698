//! `cargo xtask dist --check`: the packages in a fresh Debian, from installation to purge.
//!
//! Owns a root directory below the packages' folder, made by mmdebstrap. Needs root and Debian's mirrors. Nothing of
//! this machine is installed or changed. Servers run in namespaces of their own, without systemd.

use super::release::{Release, VERSION};
use crate::packages;
use crate::repo::{self, Result, clear};
use crate::tools;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

/// What the fresh system has beside apt.
const INCLUDED: &str = "--include=systemd,iproute2";
/// Where the packages and the script are in the fresh system.
const FOLDER: &str = "root/packages";

/// Files that an installed package has, and a removed one has not.
const INSTALLED: [&str; 9] = [
    "usr/bin/ropewalk",
    "usr/bin/ropewalk-bench",
    "usr/lib/systemd/system/ropewalk-mds.service",
    "usr/lib/systemd/system/ropewalk-ds.service",
    "usr/share/man/man1/ropewalk-mds.1.gz",
    "usr/share/bash-completion/completions/ropewalk",
    "usr/share/zsh/vendor-completions/_ropewalk",
    "usr/share/fish/vendor_completions.d/ropewalk.fish",
    "usr/share/doc/ropewalk/examples/rdma.conf",
];
/// What stays when all packages are purged.
const KEPT: [&str; 4] = [
    "var/lib/ropewalk/mds",
    "var/lib/ropewalk/ds",
    "etc/ropewalk/mds.toml",
    "etc/ropewalk/ds.toml",
];
/// Units are judged from 0 (safe) to 10; more than this is too much.
const EXPOSURE_MAX: &str = "25";

/// From the packages to the first file: what an administrator has patience for.
const FIRST_FILE_MAX: Duration = Duration::from_secs(120);

/// Installs, serves, upgrades, serves, removes and purges.
pub(super) fn run(release: &Release) -> Result<()> {
    tools::need(&["mmdebstrap", "chroot", "unshare"])?;
    if !packages::is_root() {
        return Err("--check makes a root directory of Debian: run it as root".to_owned());
    }
    let debian = Debian::make(release)?;
    let start = Instant::now();
    debian.install()?;
    debian.expect(&INSTALLED, true)?;
    debian.told(&["ropewalk", "--version"], &format!("ropewalk {VERSION}"))?;
    debian.told(&["ropewalk-bench", "--version"], VERSION)?;
    debian.serve("first")?;
    let took = start.elapsed();
    println!(
        "check: {:.1} s from the packages to a file that was written and read",
        took.as_secs_f64()
    );
    if took > FIRST_FILE_MAX {
        return Err(format!("it may take {FIRST_FILE_MAX:?}"));
    }
    debian.judge_units()?;
    debian.install()?;
    debian.serve("after an upgrade")?;
    debian.apt(&["remove", "ropewalk", "ropewalk-bench", "ropewalk-doc"])?;
    debian.expect(&INSTALLED, false)?;
    debian.expect(&KEPT, true)?;
    debian.expect(&["etc/ropewalk/mds.toml.example"], true)?;
    debian.apt(&["purge", "ropewalk", "ropewalk-bench", "ropewalk-doc"])?;
    debian.expect(&["etc/ropewalk/mds.toml.example"], false)?;
    debian.expect(&KEPT, true)?;
    println!(
        "check: installed, served, upgraded, served, removed and purged; state and configuration are kept"
    );
    Ok(())
}

/// A fresh system in a folder.
#[derive(Debug)]
struct Debian {
    root: PathBuf,
    packages: Vec<String>,
}

impl Debian {
    fn make(release: &Release) -> Result<Self> {
        let root = release.out.join("debian");
        clear(&root)?;
        println!("check: making a Debian in {}", root.display());
        let mut mmdebstrap = Command::new("mmdebstrap");
        mmdebstrap.args(["--mode=root", "--variant=apt", INCLUDED]);
        repo::output(mmdebstrap.arg(codename()?).arg(&root))?;
        let folder = root.join(FOLDER);
        clear(&folder)?;
        let mut packages = Vec::new();
        for (name, arch) in [
            ("ropewalk", release.arch.as_str()),
            ("ropewalk-bench", release.arch.as_str()),
            ("ropewalk-doc", "all"),
        ] {
            let name = format!("{name}_{VERSION}_{arch}.deb");
            copy(&release.out.join(&name), &folder.join(&name))?;
            packages.push(format!("/{FOLDER}/{name}"));
        }
        let script = repo::root().join("packaging/check.sh");
        copy(&script, &folder.join("check.sh"))?;
        Ok(Self { root, packages })
    }

    /// Runs a program of the fresh system, and says what it printed.
    fn output(&self, line: &[&str]) -> Result<String> {
        let mut chroot = Command::new("chroot");
        chroot.arg(&self.root).args(line);
        chroot
            .env("DEBIAN_FRONTEND", "noninteractive")
            .env("HOME", "/root");
        repo::output(&mut chroot).map_err(|e| format!("{line:?}: {e}"))
    }

    fn apt(&self, arguments: &[&str]) -> Result<()> {
        let mut line = vec!["apt-get", "-q", "-y"];
        line.extend(arguments);
        self.output(&line)?;
        println!("check: apt-get {} succeeded", arguments.join(" "));
        Ok(())
    }

    fn install(&self) -> Result<()> {
        let mut line = vec!["install", "--no-install-recommends", "--reinstall"];
        line.extend(self.packages.iter().map(String::as_str));
        self.apt(&line)
    }

    /// What systemd says of the units where their program and user are there.
    fn judge_units(&self) -> Result<()> {
        for unit in ["ropewalk-mds", "ropewalk-ds"] {
            let path = format!("/usr/lib/systemd/system/{unit}.service");
            self.output(&["systemd-analyze", "verify", "--man=no", &path])?;
            let threshold = format!("--threshold={EXPOSURE_MAX}");
            let judge = [
                "systemd-analyze",
                "security",
                "--offline=true",
                "--no-pager",
                &threshold,
                &path,
            ];
            let told = self.output(&judge)?;
            println!("check: {}", told.trim().lines().last().unwrap_or_default());
        }
        Ok(())
    }

    /// Runs both servers and copies a file, where the network is loopback only.
    fn serve(&self, when: &str) -> Result<()> {
        let mut unshare = Command::new("unshare");
        unshare.args(["--mount", "--net", "--pid", "--fork", "--kill-child"]);
        unshare.arg(format!("--mount-proc={}", self.root.join("proc").display()));
        unshare
            .arg("chroot")
            .arg(&self.root)
            .arg("sh")
            .arg(format!("/{FOLDER}/check.sh"));
        print!("{}", repo::output(unshare.arg(when).env("HOME", "/root"))?);
        Ok(())
    }

    fn told(&self, line: &[&str], expected: &str) -> Result<()> {
        let told = self.output(line)?;
        match told.contains(expected) {
            true => Ok(()),
            false => Err(format!("{line:?} says {told:?}, not {expected:?}")),
        }
    }

    fn expect(&self, paths: &[&str], there: bool) -> Result<()> {
        let wrong = paths
            .iter()
            .find(|path| self.root.join(path).exists() != there);
        match (wrong, there) {
            (None, _) => Ok(()),
            (Some(path), true) => Err(format!("/{path} is not there")),
            (Some(path), false) => Err(format!("/{path} is still there")),
        }
    }
}

/// The release that this machine runs: the packages are linked to its libraries.
fn codename() -> Result<String> {
    let text =
        fs::read_to_string("/etc/os-release").map_err(|e| format!("/etc/os-release: {e}"))?;
    let name = text
        .lines()
        .find_map(|line| line.strip_prefix("VERSION_CODENAME="));
    let name = name.ok_or("/etc/os-release names no release of Debian")?;
    Ok(name.trim_matches('"').to_owned())
}

fn copy(from: &Path, to: &Path) -> Result<()> {
    let copied = fs::copy(from, to);
    copied
        .map(drop)
        .map_err(|e| format!("cannot copy {}: {e}", from.display()))
}
