//! The transports that a benchmark can choose.

use clap::ValueEnum;
use serde::{Deserialize, Serialize};

/// How clients speak to servers.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, ValueEnum)]
#[serde(rename_all = "lowercase")]
pub enum Transport {
    /// TCP of the kernel.
    Tcp,
    /// RDMA, by what `providers` chooses.
    Rdma,
}

impl Transport {
    /// All that this build has.
    pub const ALL: [Self; 2] = [Self::Tcp, Self::Rdma];

    /// Its name in options and reports.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Tcp => "tcp",
            Self::Rdma => "rdma",
        }
    }
}
