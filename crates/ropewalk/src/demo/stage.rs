//! What every part of the demo does: it says where it is, and starts a cluster that a signal can interrupt.

use crate::daemon::Signals;
use crate::failure::{Failure, Outcome, failed};
use crate::out;
use crate::up::cluster::Cluster;
use crate::up::plan::Plan;

const PHASES: u32 = 8;

pub(super) fn phase(number: u32, text: &str) -> Outcome {
    out::line(&format!("[{number}/{PHASES}] {text}"))
}

pub(super) fn interrupted(name: &str) -> Failure {
    failed(format!("{name}: the demo was interrupted"))
}

pub(super) async fn start(plan: Plan, signals: &mut Signals) -> Outcome<Cluster> {
    tokio::select! {
        started = Cluster::start(plan, |text| out::say(text)) => started,
        name = signals.stop() => Err(interrupted(name)),
    }
}
