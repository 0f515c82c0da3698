//! The pause before a process is started again.
//!
//! # Ownership
//! One [`Backoff`] for each process that is kept running. It looks at no clock; its owner says how long the process lived.

use std::time::Duration;

/// Shortest and longest pause of a process that dies again and again.
pub(crate) const BACKOFF_MIN: Duration = Duration::from_millis(200);
const BACKOFF_MAX: Duration = Duration::from_secs(10);
/// A process that lived so long is well again.
const STABLE_AFTER: Duration = Duration::from_secs(60);

/// A pause that doubles from one death to the next.
#[derive(Debug)]
pub(crate) struct Backoff {
    first: Duration,
    next: Duration,
}

impl Backoff {
    /// The pause after the first death, and after each long life, is `first`.
    pub(crate) const fn new(first: Duration) -> Self {
        Self { first, next: first }
    }

    /// The pause after a life of `lived`.
    pub(crate) fn after(&mut self, lived: Duration) -> Duration {
        if lived >= STABLE_AFTER {
            self.next = self.first;
        }
        let pause = self.next;
        self.next = (pause * 2).clamp(BACKOFF_MIN, BACKOFF_MAX);
        pause
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pauses_double_up_to_a_limit_and_a_long_life_forgets_them() {
        let mut backoff = Backoff::new(Duration::ZERO);
        let short = Duration::from_secs(1);
        let pauses_ms: Vec<u128> = (0..9).map(|_| backoff.after(short).as_millis()).collect();
        assert_eq!(
            pauses_ms,
            [0, 200, 400, 800, 1600, 3200, 6400, 10_000, 10_000]
        );
        assert_eq!(backoff.after(STABLE_AFTER), Duration::ZERO);
        assert_eq!(backoff.after(short), BACKOFF_MIN);
    }
}
