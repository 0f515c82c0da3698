//! What CI runs on a merge: the test command, then what only a release build shows.

use crate::repo::{self, Result};
use crate::step::{Counting, Steps};
use crate::test;

/// Runs all steps. `has_vm` says whether this program was built with the kernel-client harness.
pub(crate) fn run(has_vm: bool) -> Result<()> {
    let mut steps = Steps::default();
    test::all(&mut steps, has_vm);
    let build = ["build", "--workspace", "--release", "--locked"];
    steps.program("release build", Counting::Whole, repo::cargo().args(build));
    steps.finish()
}
