//! The tar of static programs for machines without Debian's packages: the trees of all packages, under one folder.
//!
//! Reads the staging folders, writes one file.

use super::release::{Release, VERSION};
use super::tree::PACKAGES;
use crate::repo::{self, Result, unable};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

/// Packs the trees in `staging`.
pub(super) fn build(release: &Release, staging: &Path) -> Result<PathBuf> {
    fs::create_dir_all(&release.out).map_err(unable(&release.out))?;
    let name = format!("ropewalk-{VERSION}-{}", std::env::consts::ARCH);
    let file = release.out.join(format!("{name}.tar.xz"));
    let mut tar = Command::new("tar");
    tar.args(["--create", "--xz", "--sort=name", "--owner=0", "--group=0"]);
    tar.args(["--numeric-owner", "--mode=go-w,a+rX"]);
    tar.arg(format!("--mtime=@{}", release.time_s));
    tar.arg(format!("--transform=s,^\\.,{name},"));
    tar.arg("--file").arg(&file);
    for package in PACKAGES {
        tar.arg("--directory").arg(staging.join(package)).arg(".");
    }
    repo::output(&mut tar)?;
    Ok(file)
}
