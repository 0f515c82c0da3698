//! The experiments: each file makes the plan of one.

mod btio;
mod cached;
mod clients;
mod create;
mod incast;
pub(super) mod io;
mod metadata;
mod records;
mod sequential;
mod small_ops;
mod sweep;
mod threads;
mod zipf;

use super::experiment::Experiment;
use super::plan::{Plan, Setting};

/// What a reader must know of the quick form.
const QUICK_NOTE: &str = "In the quick form, which shows that everything works and measures nothing: few points, small files, phases of a quarter of a second.";

impl Experiment {
    /// Its plan.
    pub(crate) fn plan(self, setting: &Setting) -> Plan {
        let mut plan = self.points(setting);
        if setting.quick {
            plan.notes.insert(0, QUICK_NOTE.to_owned());
        }
        plan
    }

    fn points(self, setting: &Setting) -> Plan {
        match self {
            Self::SmallOps => small_ops::plan(setting),
            Self::Create => create::plan(setting),
            Self::Sequential => sequential::plan(setting),
            Self::Zipf => zipf::plan(setting),
            Self::Btio => btio::plan(setting),
            Self::Records => records::plan(setting),
            Self::Threads => threads::plan(setting),
            Self::Cached => cached::plan(setting),
            Self::Clients => clients::plan(setting),
            Self::Sweep => sweep::plan(setting),
            Self::Metadata => metadata::plan(setting),
            Self::Incast => incast::plan(setting),
        }
    }
}
