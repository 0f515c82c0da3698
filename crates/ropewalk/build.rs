//! Puts the commit of the source tree into the program: a report names what was measured, and not what happens to be checked out then.
//!
//! It is `unknown` without git and outside of a clone, and ends with `-dirty` when something that goes into the program was changed since.
//! Nothing is fetched.
#![allow(clippy::print_stdout, reason = "cargo is told of results by printing")]

use std::path::{Path, PathBuf};
use std::process::Command;

/// What goes into the program, as git names it: from the root of the source tree.
const SOURCES: [&str; 7] = [
    ":(top,glob)crates/*/src/**",
    ":(top,glob)crates/*/Cargo.toml",
    ":(top)crates/bench/published",
    ":(top)crates/ropewalk/build.rs",
    ":(top)docs/goals.toml",
    ":(top)Cargo.toml",
    ":(top)Cargo.lock",
];
/// The same for cargo, but for what is in the folders of crates.
const FILES: [&str; 4] = [
    "crates/bench/published",
    "docs/goals.toml",
    "Cargo.toml",
    "Cargo.lock",
];

fn main() {
    let root = root();
    let commit = commit(&root).unwrap_or_else(|| "unknown".to_owned());
    println!("cargo::rustc-env=ROPEWALK_COMMIT={commit}");
    // The package `bench` is built with it as well.
    println!(
        "cargo::rerun-if-changed={}",
        root.join("crates/ropewalk/build.rs").display()
    );
    for path in watched(&root) {
        println!("cargo::rerun-if-changed={}", path.display());
    }
}

/// The root of the source tree.
fn root() -> PathBuf {
    let package = std::env::var_os("CARGO_MANIFEST_DIR").map(PathBuf::from);
    let root = package.unwrap_or_default().join("../..");
    root.canonicalize().unwrap_or(root)
}

fn git(root: &Path, arguments: &[&str]) -> Option<String> {
    let output = Command::new("git")
        // Another process may be at the index.
        .arg("--no-optional-locks")
        .arg("-C")
        .arg(root)
        .args(arguments)
        .env_remove("GIT_DIR")
        .env_remove("GIT_WORK_TREE")
        .env_remove("GIT_INDEX_FILE")
        .output()
        .ok()?;
    let text = String::from_utf8(output.stdout).ok()?;
    output.status.success().then(|| text.trim().to_owned())
}

/// The commit, unless the tree is no clone, or a folder in a clone of something else.
fn commit(root: &Path) -> Option<String> {
    let top = PathBuf::from(git(root, &["rev-parse", "--show-toplevel"])?);
    if top.canonicalize().ok()? != root {
        return None;
    }
    let commit = git(root, &["rev-parse", "--short=12", "HEAD"])?;
    let status = ["status", "--porcelain", "--untracked-files=no", "--"];
    let changed = git(root, &[&status[..], &SOURCES[..]].concat())?;
    let dirty = if changed.is_empty() { "" } else { "-dirty" };
    Some(format!("{commit}{dirty}"))
}

/// What may change the answer. Files that are not there are left out: cargo would run this each time.
fn watched(root: &Path) -> Vec<PathBuf> {
    let mut paths: Vec<PathBuf> = FILES.iter().map(|file| root.join(file)).collect();
    let crates = std::fs::read_dir(root.join("crates"));
    for entry in crates.into_iter().flatten().flatten() {
        paths.extend(["src", "Cargo.toml"].map(|part| entry.path().join(part)));
    }
    let branch = git(root, &["symbolic-ref", "--quiet", "HEAD"]);
    let refs = ["HEAD", "logs/HEAD", "packed-refs"].map(str::to_owned);
    for name in refs.into_iter().chain(branch) {
        let path = git(root, &["rev-parse", "--git-path", &name]);
        paths.extend(path.map(|path| root.join(path)));
    }
    paths.retain(|path| path.exists());
    paths
}
