//! The scenario that needs the host: kill -9 of the server while a guest works.
//!
//! The guest (`crash.sh`) makes some things durable, keeps others in progress and says `step1`.
//! The host kills the server, says `go`, and brings the server back; the guest goes on and checks
//! that nothing acknowledged was lost. What "kill and bring back" means is the caller's.

use std::time::Instant;

use super::error::Result;
use super::net::Net;
use super::prepare::Tools;
use super::scenario::{Outcome, Scenario, Settings, judge_single};

/// What the caller does with its server. Each is called once per run, in this order.
pub(crate) trait Victim {
    /// kill -9: when this returns the process is gone.
    fn kill(&mut self) -> Result<()>;
    /// Brings the server back, or waits until whoever supervises it has.
    fn revive(&mut self) -> Result<()>;
}

/// Runs a scenario of [`Needs::Crash`](super::scenario::Needs::Crash) with one version.
pub(crate) fn run(
    net: &Net,
    tools: &Tools,
    settings: &Settings,
    vers: &str,
    scenario: &Scenario,
    victim: &mut dyn Victim,
) -> Result<Outcome> {
    let started = Instant::now();
    let mut guest = settings
        .guest(net, tools, vers)
        .script(format!("scenarios/{}.sh", scenario.name))
        .timeout(settings.scenario_limit)
        .spawn()?;
    // A guest that never comes so far has failed, and says why when it is waited for.
    if guest.await_signal("step1")? {
        victim.kill()?;
        guest.signal("go")?;
        victim.revive()?;
    }
    let run = guest.wait()?;
    Ok(judge_single(&run, vers, scenario.name, started.elapsed()))
}
