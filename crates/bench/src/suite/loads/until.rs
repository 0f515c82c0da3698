//! How long a phase goes on.

use std::time::{Duration, Instant};

/// Counts requests up to a number, and ends early when the time is over.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Until {
    left: u64,
    end: Option<Instant>,
}

impl Until {
    /// Begins now.
    pub(crate) fn new(requests_count: u64, limit_ms: Option<u64>) -> Self {
        let end = limit_ms.and_then(|ms| Instant::now().checked_add(Duration::from_millis(ms)));
        Self {
            left: requests_count,
            end,
        }
    }

    /// Whether there is one more; the first always is, so that no phase is empty.
    pub(crate) fn more(&mut self, done_count: u64) -> bool {
        let late = self.end.is_some_and(|end| Instant::now() >= end);
        if self.left == 0 || (late && done_count > 0) {
            return false;
        }
        self.left -= 1;
        true
    }
}

#[cfg(test)]
mod tests {
    //! Counts and times end phases.
    use super::*;

    #[test]
    fn whichever_comes_first_ends() {
        let count = |mut until: Until| {
            let mut done = 0;
            while until.more(done) {
                done += 1;
            }
            done
        };
        assert_eq!(count(Until::new(3, None)), 3);
        assert_eq!(count(Until::new(3, Some(0))), 1);
        assert_eq!(count(Until::new(0, None)), 0);
        assert_eq!(count(Until::new(5, Some(u64::MAX))), 5);
    }
}
