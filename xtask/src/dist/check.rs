//! `cargo xtask dist --check`: the packages in a fresh Debian that boots, from installation to purge.
//!
//! Owns a root directory below the packages' folder, made by mmdebstrap, and its disk image. A User Mode Linux boots that
//! with systemd, and `packaging/check.sh` does the rest inside, as a unit. Needs root and Debian's mirrors. Nothing of this
//! machine is installed or changed but the tools that make the guest.

use super::release::{Release, VERSION};
use crate::packages;
use crate::repo::{self, Result, clear, unable, write};
use crate::tools;
use crate::vm::{self, Tools};
use std::fs::{self, File};
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

/// What the fresh system has beside apt: what every installed Debian has, and the tools of an NFS client.
const INCLUDED: &str = "--include=systemd,iproute2,kmod,nfs-common";
/// Where the packages and the script are in the fresh system.
const FOLDER: &str = "root/packages";
/// The unit that runs the script, and ends the system. The console is where the host reads.
const UNIT: &str = "[Unit]
After=basic.target network-online.target
[Service]
Type=oneshot
Environment=VERSION=@VERSION@
ExecStart=/root/packages/check.sh
ExecStopPost=/bin/systemctl poweroff --no-block
StandardOutput=tty
StandardError=tty
TTYPath=/dev/tty0
";
const UNIT_NAME: &str = "ropewalk-check.service";
/// Disk of the fresh system. The image takes what is used of it.
const DISK: &str = "3G";
/// The parts of the script, which reads its own from the kernel's command line. Between them the system ends and boots.
const PARTS: [&str; 2] = ["first", "second"];
/// Boot, part and shutdown together.
const PART_MAX: Duration = Duration::from_secs(600);
/// Lines of the console that are shown when a part fails.
const LAST_LINES: usize = 60;

/// An error when something is not there that [`run`] needs.
pub(super) fn need() -> Result<()> {
    if !packages::is_root() {
        return Err("--check makes a root directory of Debian: run it as root".to_owned());
    }
    tools::need(&["cp", "mke2fs", "mmdebstrap"])
}

/// Installs, serves, restarts, crashes, upgrades, boots, removes and purges.
pub(super) fn run(release: &Release) -> Result<()> {
    let tools = vm::prepare(&vm::default_dir(), &[]).map_err(|e| e.to_string())?;
    let debian = Debian::make(release, &tools)?;
    for part in PARTS {
        debian.boot(&tools, part)?;
    }
    Ok(())
}

/// A fresh system on a disk image.
#[derive(Debug)]
struct Debian {
    image: PathBuf,
    folder: PathBuf,
}

impl Debian {
    fn make(release: &Release, tools: &Tools) -> Result<Self> {
        let folder = release.out.join("check");
        clear(&folder)?;
        let root = folder.join("root");
        println!("check: making a Debian in {}", root.display());
        let mut mmdebstrap = Command::new("mmdebstrap");
        mmdebstrap.args(["--mode=root", "--variant=apt", INCLUDED]);
        repo::output(mmdebstrap.arg(codename()?).arg(&root))?;
        for (name, arch) in [
            ("ropewalk", release.arch.as_str()),
            ("ropewalk-bench", release.arch.as_str()),
            ("ropewalk-doc", "all"),
        ] {
            let name = format!("{name}_{VERSION}_{arch}.deb");
            copy(&release.out.join(&name), &root.join(FOLDER).join(&name))?;
        }
        let script = repo::root().join("packaging/check.sh");
        copy(&script, &root.join(FOLDER).join("check.sh"))?;
        copy(&tools.uml_modules(), &root.join("usr/lib/modules"))?;
        let units = root.join("etc/systemd/system");
        let unit = UNIT.replace("@VERSION@", VERSION);
        write(&units.join(UNIT_NAME), unit.as_bytes())?;
        let link = units.join("multi-user.target.wants").join(UNIT_NAME);
        symlink(format!("../{UNIT_NAME}"), &link).map_err(unable(&link))?;
        let image = folder.join("disk");
        let mut mke2fs = Command::new("mke2fs");
        mke2fs.args(["-q", "-t", "ext4", "-d"]).arg(&root);
        repo::output(mke2fs.arg(&image).arg(DISK))?;
        Ok(Self { image, folder })
    }

    /// Boots, lets the unit do a part of the script, and waits until the system has ended.
    fn boot(&self, tools: &Tools, part: &str) -> Result<()> {
        let path = self.folder.join(format!("console.{part}"));
        println!("check: booting it; its console is in {}", path.display());
        let console = File::create(&path).map_err(unable(&path))?;
        let mut linux = tools.linux();
        linux.args(["mem=1024M", "quiet", "root=/dev/ubda", "rw"]);
        linux.arg(format!("ubd0={}", self.image.display()));
        linux.args(["init=/lib/systemd/systemd", "systemd.show_status=no"]);
        linux.arg(format!("check={part}"));
        let mut linux = linux
            .stdin(Stdio::null())
            .stdout(console)
            .spawn()
            .map_err(|e| format!("cannot start the guest: {e}"))?;
        let ended = vm::wait_at_most(&mut linux, PART_MAX).map_err(|e| e.to_string())?;
        vm::kill_family(&mut linux);
        let text = fs::read(&path).map_err(unable(&path))?;
        let text = String::from_utf8_lossy(&text);
        let said = text.lines().filter(|line| line.starts_with("check: "));
        said.for_each(|line| println!("{}", line.trim_end()));
        let passed = format!("check: passed: {part}");
        if !text.lines().any(|line| line.trim_end() == passed) {
            let lines: Vec<&str> = text.lines().collect();
            let last = &lines[lines.len().saturating_sub(LAST_LINES)..];
            return Err(format!("its console said last:\n{}", last.join("\n")));
        }
        match ended {
            Some(_) => Ok(()),
            None => Err(format!("the system did not end within {PART_MAX:?}")),
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

/// Copies a file, or a folder with all that is in it, and makes the folders that it goes to.
fn copy(from: &Path, to: &Path) -> Result<()> {
    if let Some(folder) = to.parent() {
        fs::create_dir_all(folder).map_err(unable(folder))?;
    }
    let mut cp = Command::new("cp");
    cp.args(["--recursive", "--no-target-directory"])
        .arg(from)
        .arg(to);
    repo::output(&mut cp).map(drop)
}
