//! The system packages of the tests, from the one list in `.ci/apt-packages`.
//!
//! `.ci/run` installs the same list before there is a cargo to run this. Here it serves developers who call `cargo
//! xtask test` as root by hand.

use crate::repo::{self, Result};
use crate::tools;
use std::fs::{self, File};
use std::io::{ErrorKind, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::process::Command;

const LIST: &str = ".ci/apt-packages";

/// Whether this process may install packages and make network namespaces.
pub(crate) fn is_root() -> bool {
    let id = repo::output(Command::new("id").arg("-u"));
    id.is_ok_and(|id| id.trim() == "0")
}

/// Installs the packages of the list that are not there.
pub(crate) fn install_missing() -> Result<()> {
    tools::need(&["apt-get", "dpkg-query"])?;
    let list = parse(&repo::read(LIST)?);
    let missing: Vec<_> = list.iter().filter(|name| !is_installed(name)).collect();
    if missing.is_empty() {
        println!("packages: all {} are installed", list.len());
        return Ok(());
    }
    println!("packages: installing {missing:?}");
    let apt = || {
        let mut command = Command::new("apt-get");
        command.env("DEBIAN_FRONTEND", "noninteractive");
        command
    };
    repo::output(apt().args(["update", "-q"]))?;
    let install = ["install", "-q", "-y", "--no-install-recommends"];
    let policy = NoServices::begin()?;
    let installed = repo::output(apt().args(install).args(&missing));
    drop(policy);
    installed?;
    for service in SERVICES
        .iter()
        .filter(|name| missing.iter().any(|m| m == *name))
    {
        // Where there is no systemd nothing starts by itself.
        let _done = Command::new("systemctl")
            .args(["disable", service])
            .output();
    }
    Ok(())
}

/// Packages of the list whose services would start with this machine from now on: tests start such servers themselves.
const SERVICES: &[&str] = &["nfs-ganesha"];

/// What Debian's packages ask before they start a service.
const POLICY: &str = "/usr/sbin/policy-rc.d";

/// While this lives no package starts its service: one of tests may want the port.
struct NoServices {
    is_ours: bool,
}

impl NoServices {
    fn begin() -> Result<Self> {
        let unable = |e: std::io::Error| format!("cannot write {POLICY}: {e}");
        let mut options = File::options();
        let made = options
            .write(true)
            .create_new(true)
            .mode(0o755)
            .open(POLICY);
        match made {
            Ok(mut file) => {
                let policy = Self { is_ours: true };
                file.write_all(b"#!/bin/sh\nexit 101\n").map_err(unable)?;
                Ok(policy)
            }
            // Whoever has one wants it.
            Err(e) if e.kind() == ErrorKind::AlreadyExists => Ok(Self { is_ours: false }),
            Err(e) => Err(unable(e)),
        }
    }
}

impl Drop for NoServices {
    fn drop(&mut self) {
        if self.is_ours {
            let _gone = fs::remove_file(POLICY);
        }
    }
}

fn is_installed(name: &str) -> bool {
    let query = ["--show", "--showformat=${db:Status-Status}", name];
    let status = repo::output(Command::new("dpkg-query").args(query));
    status.is_ok_and(|status| status == "installed")
}

fn parse(text: &str) -> Vec<String> {
    text.lines()
        .map(|line| line.split('#').next().unwrap_or_default().trim())
        .filter(|line| !line.is_empty())
        .map(str::to_owned)
        .collect()
}

#[cfg(test)]
mod tests {
    //! The list, and that a package that cannot exist is missing.
    use super::*;

    #[test]
    fn comments_and_empty_lines_are_not_packages() {
        assert_eq!(parse("# why\n\ngit\niproute2  # ip\n"), ["git", "iproute2"]);
    }

    #[test]
    fn the_list_of_the_repository_reads() {
        let list = parse(&repo::read(LIST).unwrap());
        assert!(list.iter().any(|name| name == "git"));
        assert!(list.iter().all(|name| !name.contains(' ')), "{list:?}");
        let known = |service: &&str| list.iter().any(|name| name == service);
        assert!(SERVICES.iter().all(known), "{list:?}");
    }

    #[test]
    fn unknown_packages_are_not_installed() {
        assert!(!is_installed("no-such-package-of-ours"));
    }
}
