//! The host's part of `kernels`: a second guest, whose kernel shares files with that of the first.
//!
//! The guests keep turns by themselves, by locks on the server. Entry point: [`kernels`].

use super::error::Result;
use super::guest::GuestExit;
use super::hosted::{Finding, Stage};

/// Starts the second kernel when the first has made the files, and tells the first when it has ended.
pub(crate) fn kernels(stage: &mut Stage<'_>) -> Result<Finding> {
    if !stage.guest.await_signal("made")? {
        return Ok(None);
    }
    let run = (stage.settings)
        .guest(stage.net, stage.tools, stage.vers)
        .script("scenarios/kernels.sh")
        .env("ROLE", 1)
        .slot(1)
        .timeout(stage.settings.scenario_limit)
        .run()?;
    for line in run.output.lines().filter(|line| line.starts_with("# ")) {
        println!("    {line}");
    }
    if run.rc != GuestExit::Status(0) {
        let lines: Vec<&str> = run.output.lines().collect();
        return Ok(Some(format!(
            "the second kernel: {}",
            run.last_words(&lines)
        )));
    }
    stage.guest.signal("second")?;
    Ok(None)
}
