//! `ropewalk bench` as the real program: its bare servers, clusters as subjects, and the suite. Sizes are small; nothing here is a
//! measurement.
#![allow(clippy::unwrap_used, reason = "helpers of tests unwrap as tests do")]

mod bare;
mod goals;
mod recovery;
mod suite;

use bench::process::Launcher;
use std::process::Command;

const PROGRAM: &str = env!("CARGO_BIN_EXE_ropewalk");

fn launcher() -> Launcher {
    Launcher {
        program: PROGRAM.into(),
        arguments: vec!["bench".into()],
    }
}

/// `ropewalk bench`.
fn command() -> Command {
    let mut command = Command::new(PROGRAM);
    command.arg("bench");
    command
}
