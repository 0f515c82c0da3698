//! The test command of the project: everything that must be true of a commit.
//!
//! `.ci/run` calls it, and so does a developer. Its main part needs no privileges; as root it also
//! installs missing packages and runs the tests with a real Linux kernel as the client. All steps run
//! even when one fails; the last line of the output is the sum.

use crate::repo::{self, Result};
use crate::step::{Counting, Program, Steps, in_ci};
use crate::{instructions, layers, packages, tidy, vm};
use std::path::Path;
use std::process::Command;

/// Most of the programs beside each other. A cluster with kernel clients has a guest or more, of half a GiB.
const BESIDE_MAX: usize = 4;

/// The package whose tests are compiled for speed.
const SIMULATOR: &str = "ropewalk-sim";

/// Runs all steps.
pub(crate) fn run() -> Result<()> {
    let mut steps = Steps::default();
    all(&mut steps);
    steps.finish()
}

/// Adds all steps to `steps`.
pub(crate) fn all(steps: &mut Steps) {
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
    tests.extend(["--exclude", SIMULATOR]);
    if packages::is_root() {
        // Some tests need root; without it they are skipped, and counted as such.
        tests.extend(["--", "--include-ignored"]);
    }
    steps.program("tests", Counting::Libtest, repo::cargo().args(tests));
    beside(steps);
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

/// The simulator's tests, whose clock is its own; the count of instructions, which no other load changes; and the tests with a
/// Linux kernel as the client: a process for each cluster, since most of its time is spent waiting. These take part in the count by
/// the closing lines that they print.
fn beside(steps: &mut Steps) {
    let harness = match std::env::current_exe() {
        Ok(program) => program,
        Err(e) => return steps.missing("the rest", &format!("cannot find this program: {e}")),
    };
    let mut programs = vec![simulator()];
    match instructions::check() {
        Ok(()) => {
            let mut command = Command::new(&harness);
            command.arg("instructions").current_dir(repo::root());
            programs.push(Program {
                name: "instructions".to_owned(),
                counting: Counting::Whole,
                command,
            });
        }
        Err(why) => steps.missing("instructions", &why),
    }
    if packages::is_root() {
        programs.extend(kernels(&harness));
    } else {
        let reason = "they need root for network namespaces and packages";
        steps.missing("kernel clients", reason);
    }
    let processors = std::thread::available_parallelism().map_or(1, usize::from);
    // One more than processors, as they wait.
    steps.beside((processors + 1).min(BESIDE_MAX), programs);
}

/// The simulator's tests.
fn simulator() -> Program {
    let mut command = repo::cargo();
    command.args(["test", "--locked", "--no-fail-fast", "--package", SIMULATOR]);
    // Its seeds, on two processors: 4 min to compile it so and 2.5 min to run; without, a minute and up to 23.
    command.env("CARGO_PROFILE_DEV_OPT_LEVEL", "1");
    Program {
        name: "simulator".to_owned(),
        counting: Counting::Libtest,
        command,
    }
}

/// The tests with a Linux kernel as the client.
fn kernels(harness: &Path) -> Vec<Program> {
    // The tests have built it. To build this package alone means other features of its dependencies, and all of them again.
    let ropewalk = repo::target().join("debug/ropewalk");
    let program = |name: &str, arguments: &[&str]| {
        let mut command = Command::new(harness);
        command.arg("vm").args(arguments).current_dir(repo::root());
        command.arg("--ropewalk").arg(&ropewalk);
        if in_ci() {
            command.env("CI", "true");
        }
        Program {
            name: name.to_owned(),
            counting: Counting::ClosingLine,
            command,
        }
    };
    let mut programs: Vec<Program> = vm::pass_names()
        .map(|pass| {
            program(
                &format!("client {pass}"),
                &["kernel-client", "--pass", pass],
            )
        })
        .collect();
    programs.push(program("kernel's RDMA", &["siw"]));
    programs.push(program("RDMA devices", &["rdma", "--vers", "4.2"]));
    programs
}
