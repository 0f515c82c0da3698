//! `ropewalk bench`: the suite of experiments, the goals and the bare servers; all of it is in the crate `bench`.

use crate::failure::{Outcome, failed};
use bench::cli::{self, Command};
use bench::process::Launcher;

/// `ropewalk bench ...`.
pub(crate) fn run(command: Command) -> Outcome {
    Launcher::this_program(&["bench"])
        .and_then(|launcher| cli::run(command, &launcher, &mut std::io::stdout()))
        .map_err(|e| failed(e.to_string()))
}
