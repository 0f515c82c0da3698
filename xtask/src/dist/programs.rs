//! The programs that are packaged, built by cargo: for this machine's libraries, or static.
//!
//! A static program needs no library of the machine that it runs on, so it runs on every Linux of its architecture. It
//! cannot load one either: RDMA devices are reached by rdma-core's libraries, so they need the packages.

use crate::repo::{self, Result};
use crate::tools;
use std::env::consts::ARCH;
use std::path::PathBuf;
use std::process::Command;

/// The programs that are packaged.
pub(super) const PROGRAMS: [&str; 2] = ["ropewalk", "ropewalk-bench"];
/// The profile of `Cargo.toml` for packages.
const PROFILE: &str = "dist";

/// Rust's name of static programs for this machine.
pub(super) fn static_target() -> String {
    format!("{ARCH}-unknown-linux-musl")
}

/// The folder of the programs for `target`, or for this machine's libraries. They are built unless `no_build` says that they are there.
pub(super) fn folder(target: Option<&str>, no_build: bool) -> Result<PathBuf> {
    if !no_build {
        build(target)?;
    }
    let folder = repo::target()
        .join(target.unwrap_or_default())
        .join(PROFILE);
    match PROGRAMS.iter().find(|p| !folder.join(p).is_file()) {
        Some(program) => Err(format!("there is no {program} in {}", folder.display())),
        None => Ok(folder),
    }
}

fn build(target: Option<&str>) -> Result<()> {
    let mut cargo = repo::cargo();
    cargo.args(["build", "--locked", "--profile", PROFILE]);
    for program in PROGRAMS {
        cargo.args(["--package", program]);
    }
    if let Some(target) = target {
        cargo.args(["--target", target]);
    }
    let status = cargo.status();
    let status = status.map_err(|e| format!("cannot run cargo: {e}"))?;
    match status.success() {
        true => Ok(()),
        false => Err("the programs cannot be built".to_owned()),
    }
}

/// An error when something is not there that static programs need. Nothing of ours fetches a toolchain.
pub(super) fn need_static() -> Result<()> {
    // Compiles what some packages have in C.
    tools::need(&["musl-gcc"])?;
    let target = &static_target();
    let print = ["--print", "target-libdir", "--target", target];
    let folder = repo::output(Command::new("rustc").args(print).current_dir(repo::root()))?;
    match PathBuf::from(folder.trim()).is_dir() {
        true => Ok(()),
        false => Err(format!(
            "Rust's standard library for {target} is not there: rustup target add {target}, or leave the tar out with --only deb"
        )),
    }
}
