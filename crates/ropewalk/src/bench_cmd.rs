//! `ropewalk bench`: starts `ropewalk-bench`, a program of its own, in the place of this one.

use crate::failure::{Outcome, failed};
use std::ffi::OsString;
use std::io::ErrorKind;
use std::os::unix::process::CommandExt;
use std::path::PathBuf;
use std::process::Command;

const PROGRAM: &str = "ropewalk-bench";

/// Replaces this process with `ropewalk-bench`: the one beside this program, or else the first of the search path.
pub(crate) fn run(arguments: &[OsString]) -> Outcome {
    let here = std::env::current_exe().ok();
    let beside = here.map(|program| program.with_file_name(PROGRAM));
    let program = beside
        .filter(|p| p.is_file())
        .unwrap_or_else(|| PathBuf::from(PROGRAM));
    let error = Command::new(program).args(arguments).exec();
    Err(failed(if error.kind() == ErrorKind::NotFound {
        format!(
            "{PROGRAM} is neither beside this program nor in the search path: install it, or build it with \
             `cargo build --release -p {PROGRAM}`"
        )
    } else {
        format!("cannot start {PROGRAM}: {error}")
    }))
}
