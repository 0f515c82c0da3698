//! `scale`: one real metadata server with up to 1,000 data servers and 8,000 idle sessions, what they cost it, and what a model makes of that.
//!
//! The data servers are tasks that speak the control program over TLS ([`light_ds`]), the sessions are sockets that renew their leases
//! ([`session`]); both live in processes of their own ([`crowd`]). [`predict`] turns a part of the measurements into costs, and compares what the
//! model (crate `model`, docs/scale.md) says of other configurations with what is measured of them in the same run. [`course`] is one run.

mod book;
mod course;
pub(crate) mod crowd;
mod light_ds;
mod loads;
mod mds;
mod predict;
mod session;
mod town;

use super::environment::Environment;
use super::measure::Results;
use super::plan::{Plan, Setting};
use super::progress::Progress;
use super::spec::ClusterSpec;
use crate::{BenchError, interrupt};
use book::Book;
use course::{Course, Size};
use serde::{Deserialize, Serialize};

/// What stands in front of what a run with `--quick` says.
const QUICK_NOTE: &str = "With --quick the costs come from a few requests: nothing below is a measurement, nor are the predictions made of it.";

/// The size of the cluster at a point.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct ScaleWork {
    /// Data servers that hold no data.
    pub(crate) ds_count: u32,
    /// Idle sessions.
    pub(crate) sessions_count: u32,
}

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

/// Runs the experiment.
pub(super) fn measure(
    setting: &Setting,
    environment: &Environment,
    repeats: u16,
) -> Result<Results, BenchError> {
    let size = Size::of(setting);
    let mut book = Book::default();
    let mut courses = Vec::new();
    let mut ended = None;
    let mut progress = Progress::new(u64::from(repeats) * Course::STEPS_COUNT);
    for repeat in 0..repeats {
        interrupt::check()?;
        book.repeat = repeat;
        let done = Course::run(environment, &size, &mut book, &mut progress);
        // A signal may have gone to all: what then failed says nothing.
        interrupt::check()?;
        match done {
            Ok(course) => courses.push(course),
            Err(e) => {
                progress.say(&format!("scale failed: {e}"));
                ended = Some(e);
                break;
            }
        }
    }
    progress.end();
    let mut notes = course::notes(&courses);
    if setting.quick {
        notes.insert(0, QUICK_NOTE.to_owned());
    }
    match ended {
        Some(e) if courses.is_empty() => return Err(e),
        Some(e) => notes.push(format!("Ended early: {e}")),
        None => {}
    }
    Ok(Results {
        plan: Plan {
            name: "scale",
            title: "Scale: many data servers and idle sessions at one metadata server, and a model of more",
            notes,
            figures: book::figures(),
            cells: book.cells,
        },
        subject: environment.text(),
        knows_server_cpu: true,
        runs: book.runs,
        failures: Vec::new(),
        repeats,
    })
}
