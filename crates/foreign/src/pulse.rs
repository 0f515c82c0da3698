//! The pulse of servers: a cheap call to each, so that calls for files do not find out one by one.

use crate::foreign::Foreign;
use std::sync::Arc;
use std::time::Duration;

/// How often the pulse of a server is taken.
pub const PULSE_EVERY: Duration = Duration::from_secs(2);

impl Foreign {
    /// Takes pulses that are due, and tries fences that wait. To be called about every second, inside a runtime.
    pub fn tick(self: &Arc<Self>) {
        self.deliver_fences();
    }
}
