//! Why a data server's link to the MDS ended for good.

use control::Refusal;

/// Why the data server shall stop.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum LinkEnd {
    /// It is out of the cluster.
    Expelled {
        /// Why, as the MDS said.
        reason: String,
    },
    /// The administrator stops it.
    Shutdown {
        /// How long I/O that is going on may take, in milliseconds.
        drain_ms: u32,
    },
    /// The MDS refuses it, and asking again cannot help.
    Refused(Refusal),
}
