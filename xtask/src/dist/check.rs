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
/// What the next version has behind its number: Debian sorts it later.
const NEXT: &str = "+next";
/// An example of a configuration in the package of the servers.
const EXAMPLE: &str = "etc/ropewalk/mds.toml.example";
/// What stands at its end in the next version.
const NEXT_TEXT: &str = "# Of the next version.\n";
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
            let file = format!("{name}_{VERSION}_{arch}.deb");
            copy(&release.out.join(&file), &root.join(FOLDER).join(&file))?;
            next(&root.join(FOLDER), &file, &folder.join("next"))?;
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

/// Makes the next version of a package in the folder `next` beside it: the same program, and more text in an example of a
/// configuration, if it has one. `scratch` is cleared for it.
fn next(packages: &Path, file: &str, scratch: &Path) -> Result<()> {
    clear(scratch)?;
    let mut unpack = Command::new("dpkg-deb");
    repo::output(
        unpack
            .arg("--raw-extract")
            .arg(packages.join(file))
            .arg(scratch),
    )?;
    let control = scratch.join("DEBIAN/control");
    let text = fs::read_to_string(&control).map_err(unable(&control))?;
    let own = format!("Version: {VERSION}\n");
    if text.matches(&own).count() != 1 {
        return Err(format!("{file} is not of version {VERSION}"));
    }
    let text = text.replace(&own, &format!("Version: {VERSION}{NEXT}\n"));
    write(&control, text.as_bytes())?;
    let example = scratch.join(EXAMPLE);
    if example.is_file() {
        let text = fs::read_to_string(&example).map_err(unable(&example))?;
        write(&example, format!("{text}{NEXT_TEXT}").as_bytes())?;
    }
    let folder = packages.join("next");
    fs::create_dir_all(&folder).map_err(unable(&folder))?;
    let mut pack = Command::new("dpkg-deb");
    pack.args(["--build", "--root-owner-group", "-Znone"]);
    repo::output(pack.arg(scratch).arg(folder.join(file))).map(drop)
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

#[cfg(test)]
mod tests {
    //! Goal: the upgrade of the check is one for dpkg.

    use super::*;
    use crate::tools;

    #[test]
    fn the_next_version_of_a_package_is_newer_and_has_another_example() {
        if tools::need(&["dpkg", "dpkg-deb"]).is_err() {
            eprintln!("skipped: this is no Debian");
            return;
        }
        let name = format!("xtask-next-{}", std::process::id());
        let folder = std::env::temp_dir().join(name);
        clear(&folder).unwrap();
        let (tree, file) = (folder.join("tree"), "some_1_all.deb");
        let control = format!(
            "Package: some\nVersion: {VERSION}\nArchitecture: all\nMaintainer: A <a@b.example>\nDescription: some\n"
        );
        write(&tree.join("DEBIAN/control"), control.as_bytes()).unwrap();
        write(&tree.join(EXAMPLE), b"# listen = []\n").unwrap();
        let mut pack = Command::new("dpkg-deb");
        pack.args(["--build", "--root-owner-group", "-Znone"]);
        repo::output(pack.arg(&tree).arg(folder.join(file))).unwrap();

        next(&folder, file, &folder.join("scratch")).unwrap();
        let made = folder.join("next").join(file);
        let mut field = Command::new("dpkg-deb");
        let version = repo::output(field.arg("--field").arg(&made).arg("Version")).unwrap();
        let mut compare = Command::new("dpkg");
        compare.args(["--compare-versions", version.trim(), "gt", VERSION]);
        assert!(compare.status().unwrap().success(), "{version}");
        let out = folder.join("out");
        let mut unpack = Command::new("dpkg-deb");
        repo::output(unpack.arg("--extract").arg(&made).arg(&out)).unwrap();
        let example = fs::read_to_string(out.join(EXAMPLE)).unwrap();
        assert_eq!(example, format!("# listen = []\n{NEXT_TEXT}"));
        fs::remove_dir_all(&folder).unwrap();
    }
}
