//! The names of the experiments.

/// One experiment.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Experiment {
    SmallOps,
    Create,
    Sequential,
    Zipf,
    Btio,
    Records,
    Threads,
    Cached,
    Clients,
    Sweep,
    Metadata,
    Incast,
}

impl Experiment {
    /// All of them, in the order of the suite.
    pub(crate) const ALL: [Self; 12] = [
        Self::SmallOps,
        Self::Create,
        Self::Sequential,
        Self::Zipf,
        Self::Btio,
        Self::Records,
        Self::Threads,
        Self::Cached,
        Self::Clients,
        Self::Sweep,
        Self::Metadata,
        Self::Incast,
    ];
}
