//! The system packages of the tests, from the one list in `.ci/apt-packages`.
//!
//! `.ci/run` installs the same list before there is a cargo to run this; here it serves those who call
//! `cargo xtask test` as root by hand.

use crate::repo::{self, Result};
use std::process::Command;

const LIST: &str = ".ci/apt-packages";

/// Whether this process may install packages and make network namespaces.
pub(crate) fn is_root() -> bool {
    let id = repo::output(Command::new("id").arg("-u"));
    id.is_ok_and(|id| id.trim() == "0")
}

/// Installs the packages of the list that are not there.
pub(crate) fn install_missing() -> Result<()> {
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
    repo::output(apt().args(install).args(missing))?;
    Ok(())
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
    }

    #[test]
    fn unknown_packages_are_not_installed() {
        assert!(!is_installed("no-such-package-of-ours"));
    }
}
