//! Pauses between tries, doubled up to a longest one, until a deadline.

use std::time::Duration;
use tokio::time::Instant;

/// First pause.
const PAUSE_MS: u64 = 10;
/// Longest pause.
const PAUSE_MS_MAX: u64 = 2_000;

#[derive(Debug)]
pub(crate) struct Backoff {
    pause: Duration,
    deadline: Instant,
}

impl Backoff {
    /// Tries for so long in all.
    pub(crate) fn new(give_up: Duration) -> Self {
        Self {
            pause: Duration::from_millis(PAUSE_MS),
            deadline: Instant::now() + give_up,
        }
    }

    /// Waits; `false`, at once, when the time is over.
    pub(crate) async fn wait(&mut self) -> bool {
        if Instant::now() >= self.deadline {
            return false;
        }
        tokio::time::sleep(self.pause).await;
        self.pause = (self.pause * 2).min(Duration::from_millis(PAUSE_MS_MAX));
        true
    }
}
