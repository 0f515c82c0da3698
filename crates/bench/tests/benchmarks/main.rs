//! `ropewalk-bench` as the real program: its bare servers, clusters as subjects, and the suite. Sizes are small; nothing here is a
//! measurement.
#![allow(clippy::unwrap_used, reason = "helpers of tests unwrap as tests do")]

mod bare;
mod copies;
mod goals;
mod mount;
mod recovery;
mod suite;

use ropewalk_bench::process::Launcher;
use std::path::PathBuf;
use std::process::Command;

const PROGRAM: &str = env!("CARGO_BIN_EXE_ropewalk-bench");

fn launcher() -> Launcher {
    Launcher {
        program: PROGRAM.into(),
        arguments: Vec::new(),
    }
}

/// `ropewalk-bench`.
fn command() -> Command {
    Command::new(PROGRAM)
}

/// The `ropewalk` that lies beside it, as after `cargo test --workspace` or `cargo build --workspace`.
fn ropewalk() -> PathBuf {
    launcher().ropewalk(None).unwrap()
}
