//! What clients hold, as an administrator sees it: copies, a page at a time.
//!
//! Owns nothing. A page is bounded by its caller, so that nobody who waits for the tables waits for long.

use nfs4::ClientId;

use crate::file_states::FileStates;

/// How much a client holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct HeldCounts {
    /// Opens; of a host files that it shares.
    pub opens: usize,
    /// Locked byte ranges.
    pub ranges: usize,
    /// Delegations.
    pub delegations: usize,
    /// Layouts.
    pub layouts: usize,
}

impl FileStates {
    /// How much a client holds: a look at counters.
    #[must_use]
    pub fn held_counts(&self, client: ClientId) -> HeldCounts {
        HeldCounts {
            opens: self.opens.count_of_client(client),
            ranges: self.locks.ranges_of(client),
            delegations: self.delegations.count_of_client(client),
            layouts: self.layouts.count_of_client(client),
        }
    }
}
