//! The test command of the project: everything that must be true of a commit.
//!
//! `.ci/run` calls it, and so does a developer. Its main part needs no privileges; as root it also
//! installs missing packages and runs the tests with a real Linux kernel as the client. All steps run
//! even when one fails; the last line of the output is the sum.

use crate::repo::{self, Result};
use crate::step::{Counting, Steps, in_ci};
use crate::{instructions, layers, packages, tidy};
use std::process::Command;

/// Runs all steps. `has_vm` says whether this program was built with the kernel-client harness.
pub(crate) fn run(has_vm: bool) -> Result<()> {
    let mut steps = Steps::default();
    all(&mut steps, has_vm);
    steps.finish()
}

/// Adds all steps to `steps`.
pub(crate) fn all(steps: &mut Steps, has_vm: bool) {
    if packages::is_root() {
        steps.check("packages", packages::install_missing);
    }
    component(steps, "format", "fmt", &["--all", "--", "--check"]);
    let lints = ["--workspace", "--all-targets", "--locked", "--keep-going"];
    let deny = ["--", "-D", "warnings"];
    component(steps, "lints", "clippy", &[&lints[..], &deny[..]].concat());
    steps.check("layers", || layers::run(&layers::Args::default()));
    steps.check("tidy", tidy::run);
    let mut tests = vec!["test", "--workspace", "--locked", "--no-fail-fast"];
    if packages::is_root() {
        // Some tests need root; without it they are skipped, and counted as such.
        tests.extend(["--", "--include-ignored"]);
    }
    steps.program("tests", Counting::Libtest, repo::cargo().args(tests));
    match instructions::check() {
        Ok(()) => {
            let count = || instructions::run(&instructions::Args::default());
            steps.check("instructions", count);
        }
        Err(why) => steps.missing("instructions", &why),
    }
    if has_vm {
        vm(steps, "kernel client", &["kernel-client"]);
        vm(steps, "kernel's RDMA", &["siw"]);
        vm(steps, "RDMA devices", &["rdma", "--vers", "4.2"]);
    }
}

/// A step by a part of the toolchain that may not be installed.
fn component(steps: &mut Steps, name: &str, subcommand: &str, arguments: &[&str]) {
    let probe = repo::output(repo::cargo().args([subcommand, "--version"]));
    match probe {
        Ok(_) => {
            let mut command = repo::cargo();
            command.arg(subcommand).args(arguments);
            steps.program(name, Counting::Whole, &mut command);
        }
        Err(_) => steps.missing(name, &format!("`cargo {subcommand}` is not installed")),
    }
}

/// The tests with a Linux kernel as the client run in their own processes. They take part in the count by the closing
/// line that they print.
fn vm(steps: &mut Steps, name: &str, arguments: &[&str]) {
    if !packages::is_root() {
        let reason = "it needs root for network namespaces and packages";
        steps.missing(name, reason);
        return;
    }
    match std::env::current_exe() {
        Ok(program) => {
            let mut command = Command::new(program);
            command.arg("vm").args(arguments).current_dir(repo::root());
            if in_ci() {
                command.env("CI", "true");
            }
            steps.program(name, Counting::ClosingLine, &mut command);
        }
        Err(e) => steps.missing(name, &format!("cannot find this program: {e}")),
    }
}
