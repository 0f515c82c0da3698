//! `scale`: one real metadata server with up to 1,000 data servers and 8,000 idle sessions. What do they cost it, and what does a
//! model make of that?
//!
//! The data servers are tasks that speak the control program over TLS ([`light_ds`]). The sessions are sockets that renew their
//! leases ([`session`]). Both live in processes of their own ([`load_process`]). [`predict`] turns a part of the measurements
//! into costs. It compares what the model (crate `model`, docs/benchmarks/scale.md) says of other configurations with what the
//! same run measures of them. [`run`] is one run.

mod light_ds;
pub(crate) mod load_process;
mod loads;
mod mds;
mod predict;
mod recorder;
mod rig;
mod run;
mod session;

use super::environment::Environment;
use super::measure::Results;
use super::plan::{Plan, Setting};
use super::progress::Progress;
use super::spec::ClusterSpec;
use super::work::ScaleWork;
use crate::nfs::providers::Carriers;
use crate::{BenchError, interrupt};
use recorder::Recorder;
use run::{ScaleRun, Size};

/// What stands in front of what a run with `--quick` says.
const QUICK_NOTE: &str = "With --quick the costs come from a few requests: nothing below is a measurement, nor are the predictions made of it.";

/// Refuses settings under which it cannot run: its clusters are its own, and none other than it needs.
pub(super) fn check(setting: &Setting) -> Result<(), BenchError> {
    let is_plain = setting.transports.is_none() && setting.link.is_none() && setting.peer.is_none();
    if setting.own && is_plain && setting.spec == ClusterSpec::default() {
        return Ok(());
    }
    Err(BenchError::Setting {
        name: "the cluster of scale",
        must_be: "its own, as it makes them: without --target, --mounted, --cluster, --transport, --peer and --link",
    })
}

/// What came out of it.
#[derive(Debug)]
pub(super) struct Measured {
    /// Of all repeats, up to one that failed.
    pub(super) results: Results,
    /// Why it failed.
    pub(super) ended: Option<BenchError>,
}

/// Runs the experiment. What failed after a repeat had been measured does not take that away, and is no success either.
pub(super) fn measure(
    setting: &Setting,
    environment: &Environment,
    repeats: u16,
) -> Result<Measured, BenchError> {
    let size = Size::of(setting);
    let mut recorder = Recorder::default();
    let mut progress = Progress::new(u64::from(repeats) * ScaleRun::STEPS_COUNT);
    let all = each(repeats, |repeat| {
        recorder.repeat = repeat;
        ScaleRun::run(environment, &size, &mut recorder, &mut progress)
    });
    progress.end();
    let (runs, ended) = all?;
    let mut notes = run::notes(&runs);
    if setting.quick {
        notes.insert(0, QUICK_NOTE.to_owned());
    }
    notes.extend(ended.as_ref().map(|e| format!("Ended early: {e}")));
    let results = Results {
        plan: Plan {
            name: "scale",
            title: "Scale: many data servers and idle sessions at one metadata server, and a model of more",
            notes,
            figures: recorder::figures(),
            cells: recorder.cells,
        },
        subject: environment.text(),
        carriers: Carriers::default(),
        knows_server_cpu: true,
        runs: recorder.runs,
        failures: Vec::new(),
        repeats,
    };
    Ok(Measured { results, ended })
}

/// Runs all repeats up to one that fails; returns what they came to, and that failure unless it was the first.
fn each<T>(
    repeats: u16,
    mut run: impl FnMut(u16) -> Result<T, BenchError>,
) -> Result<(Vec<T>, Option<BenchError>), BenchError> {
    let mut done = Vec::new();
    for repeat in 0..repeats {
        interrupt::check()?;
        let result = run(repeat);
        // A signal may have gone to all: what then failed says nothing.
        interrupt::check()?;
        match result {
            Ok(one) => done.push(one),
            Err(e) if done.is_empty() => return Err(e),
            Err(e) => {
                let ended = BenchError::Repeat {
                    repeat: repeat + 1,
                    repeats,
                    why: Box::new(e),
                };
                return Ok((done, Some(ended)));
            }
        }
    }
    Ok((done, None))
}

#[cfg(test)]
mod tests {
    //! A repeat that fails is told of, whatever was measured before.
    use super::*;

    #[test]
    fn a_failure_after_a_repeat_is_no_success() {
        let until = |failing: u16| {
            move |repeat: u16| match repeat == failing {
                true => Err(BenchError::Refused),
                false => Ok(repeat),
            }
        };
        let (done, ended) = each(5, until(2)).unwrap();
        assert_eq!(done, [0, 1]);
        let text = ended.as_ref().unwrap().to_string();
        assert!(text.starts_with("repeat 3 of 5 failed"), "{text}");
        let refused = BenchError::Refused.to_string();
        assert!(text.ends_with(&refused), "{text}");
        let result = crate::suite::outcome(&[], ended);
        assert!(matches!(result, Err(BenchError::Repeat { .. })));
        assert!(matches!(each(5, until(0)), Err(BenchError::Refused)));
        let (done, ended) = each(3, until(9)).unwrap();
        assert_eq!(done.len(), 3);
        assert!(crate::suite::outcome(&[], ended).is_ok());
    }
}
