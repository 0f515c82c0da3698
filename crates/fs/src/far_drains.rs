//! Foreign servers that are drained: how many files are left on each, and when the next pass over all files begins.
//!
//! Owns the table. Calls nothing.

use std::collections::BTreeMap;
use tokio::time::Instant;

/// What is known of servers that are drained.
#[derive(Default)]
pub(crate) struct FarDrain {
    /// Files on each, since they were counted.
    pub(crate) left: BTreeMap<u32, u64>,
    /// When the next pass begins, and for which servers the last one was.
    pub(crate) next: Option<(Instant, Vec<u32>)>,
}
