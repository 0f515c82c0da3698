//! The share of the time that scrub and fillings take while clients are served (rule P26).
//!
//! Who works says when it has done a piece, and rests for as long as it is told. Counts of operations come in as arguments.

use std::time::Duration;

use tokio::time::Instant;

/// While clients are served it rests so many times as long as it works, thirds: 7 makes a share of 30 %.
const REST_THIRDS: u32 = 7;
/// How long clients count as served after an operation.
const ACTIVE: Duration = Duration::from_secs(1);

/// See the module.
#[derive(Default)]
pub(crate) struct Pace {
    operations: u64,
    active: Option<Instant>,
}

impl Pace {
    /// To begin with, when clients have had so many operations.
    pub(crate) fn new(operations: u64) -> Self {
        Self {
            operations,
            active: None,
        }
    }

    /// How long to rest after work that took so long, when clients have had so many operations; `None` while none is served.
    pub(crate) fn rest_after(&mut self, worked: Duration, operations: u64) -> Option<Duration> {
        if operations != self.operations {
            self.operations = operations;
            self.active = Some(Instant::now());
        }
        let is_active = self.active.is_some_and(|at| at.elapsed() < ACTIVE);
        is_active.then(|| worked * REST_THIRDS / 3)
    }
}
