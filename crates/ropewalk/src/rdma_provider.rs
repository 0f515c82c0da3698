//! The choice of what RDMA runs on.

use serde::{Deserialize, Serialize};

/// What moves the bytes of RDMA.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, clap::ValueEnum)]
#[serde(rename_all = "lowercase")]
pub(crate) enum ProviderChoice {
    /// RDMA devices where every address is on one that can be used, else software iWARP.
    #[default]
    Auto,
    /// RDMA devices, through rdma-core.
    Verbs,
    /// The software iWARP that is built in.
    Iwarp,
}
