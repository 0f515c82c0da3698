//! Pauses between tries: doubled up to the longest, until a time is over. Sans I/O.

use std::time::Duration;

/// First pause before a call is sent again that had no answer.
pub const TRY_PAUSE: Duration = Duration::from_millis(20);
/// Longest pause of that kind.
pub const TRY_PAUSE_MAX: Duration = Duration::from_secs(1);
/// First pause after `NFS3ERR_JUKEBOX`.
pub const JUKEBOX_PAUSE: Duration = Duration::from_millis(100);
/// Longest pause of that kind.
pub const JUKEBOX_PAUSE_MAX: Duration = Duration::from_secs(5);

/// The pauses of one call.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Pauses {
    next: Duration,
    longest: Duration,
}

impl Pauses {
    /// Between tries that had no answer.
    pub(crate) const fn of_tries() -> Self {
        Self {
            next: TRY_PAUSE,
            longest: TRY_PAUSE_MAX,
        }
    }

    /// Between calls that were answered by `NFS3ERR_JUKEBOX`.
    pub(crate) const fn of_jukebox() -> Self {
        Self {
            next: JUKEBOX_PAUSE,
            longest: JUKEBOX_PAUSE_MAX,
        }
    }

    /// The next pause where so much time is left; `None` when it is over.
    pub(crate) fn next(&mut self, left: Duration) -> Option<Duration> {
        if left.is_zero() {
            return None;
        }
        let pause = self.next.min(left);
        self.next = (self.next * 2).min(self.longest);
        Some(pause)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pause_doubles_up_to_the_longest_and_never_passes_the_end() {
        let mut pauses = Pauses::of_jukebox();
        let day = Duration::from_secs(86_400);
        let taken: Vec<_> = (0..8).filter_map(|_| pauses.next(day)).collect();
        assert_eq!(taken[..2], [JUKEBOX_PAUSE, JUKEBOX_PAUSE * 2]);
        assert_eq!(taken[7], JUKEBOX_PAUSE_MAX);
        assert_eq!(pauses.next(TRY_PAUSE), Some(TRY_PAUSE));
        assert_eq!(pauses.next(Duration::ZERO), None);
    }
}
