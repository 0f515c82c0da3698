//! Programs of ours for the guests, and what is said of their outcome.

use super::error::{Context, Failure, Result};
use super::scenario::Outcome;
use crate::repo;
use std::path::{Path, PathBuf};

/// The folder of cargo's profile `dev`, below its target folder.
const PROFILE_DIR: &str = "debug";

/// A program of ours, built as the tests are: once for all, and with every check of overflow and every assertion.
pub(crate) fn build(arguments: &[&str], program: &str) -> Result<PathBuf> {
    let built = repo::cargo()
        .args(["build", "--locked"])
        .args(arguments)
        .status()
        .context(|| "cannot run cargo".to_owned())?;
    if !built.success() {
        return Err(Failure::new(format!("{program} does not build")));
    }
    let me = std::env::current_exe().context(|| "cannot find this program".to_owned())?;
    let target = me.ancestors().nth(2).unwrap_or(Path::new("target"));
    Ok(target.join(PROFILE_DIR).join(program))
}

/// The server to run: `given`, or one that is built now.
pub(crate) fn ropewalk(given: Option<&Path>) -> Result<PathBuf> {
    match given {
        Some(program) => Ok(program.to_owned()),
        None => build(&["--package", "ropewalk"], "ropewalk"),
    }
}

/// Prints what was seen, also of what passed: it is the point of it.
pub(crate) fn print(outcome: &Outcome) {
    let Outcome { name, seconds, .. } = outcome;
    for note in &outcome.notes {
        println!("    {note}");
    }
    match &outcome.failure {
        None => println!("ok {name} ({seconds:.1} s)"),
        Some(why) => println!("FAIL {name} ({seconds:.1} s): {why}"),
    }
}
