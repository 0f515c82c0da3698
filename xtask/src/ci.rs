//! What CI runs on a merge: the test command, then what only a release build shows.

use crate::repo::{self, Result};
use crate::step::{Counting, Steps};
use crate::test;

/// Runs all steps.
pub(crate) fn run() -> Result<()> {
    let mut steps = Steps::default();
    test::all(&mut steps);
    let build = ["build", "--workspace", "--release", "--locked"];
    steps.program("release build", Counting::Whole, repo::cargo().args(build));
    steps.finish()
}
