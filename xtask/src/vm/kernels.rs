//! The host's part of `kernels`: a second guest, whose kernel shares files with that of the first.
//!
//! The guests keep turns by themselves, by locks on the server. Entry point: [`kernels`].

use super::error::Result;
use super::hosted::{Finding, Stage, judge_other};

/// Starts the second kernel when the first has made the files, and tells the first when it has ended.
pub(crate) fn kernels(stage: &mut Stage<'_>) -> Result<Finding> {
    if !stage.guest.await_signal("made")? {
        return Ok(None);
    }
    let run = stage.second("scenarios/kernels.sh").run()?;
    let found = judge_other(&run, "the second kernel");
    if found.is_none() {
        stage.guest.signal("second")?;
    }
    Ok(found)
}
