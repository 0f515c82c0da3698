//! Readings of the state that health is compared with: counts that only grow are bad news if they have grown lately.

use crate::status::MdsStatus;
use crate::status::health::Health;
use crate::times::now_s;
use std::time::{Duration, Instant};

/// A reading is kept for as long before the next one takes its place.
const KEPT: Duration = Duration::from_secs(300);

/// The newest kept reading, and the one before it.
#[derive(Default)]
pub(super) struct Readings {
    earlier: Option<(Instant, MdsStatus)>,
    kept: Option<(Instant, MdsStatus)>,
}

impl Readings {
    /// The health that a reading shows beside one of the last ten minutes, where there is one.
    pub(super) fn health(&mut self, now: Instant, status: MdsStatus) -> Health {
        let is_late = |at: &Instant| now.duration_since(*at) > 2 * KEPT;
        let earlier = self.earlier.as_ref().filter(|(at, _)| !is_late(at));
        let earlier = earlier.map(|(_, status)| status);
        let health = Health::of(&status, earlier, now_s());
        if (self.kept.as_ref()).is_none_or(|(at, _)| now.duration_since(*at) >= KEPT) {
            self.earlier = self.kept.replace((now, status));
        }
        health
    }
}

#[cfg(test)]
mod tests {
    //! Goal: counts are compared with those of five to ten minutes ago.
    use super::*;

    #[test]
    fn what_has_grown_lately_is_told_and_what_grew_long_ago_is_not() {
        let start = Instant::now();
        let mut readings = Readings::default();
        let mut reasons = |seconds: u64, refused: u64| {
            let mut status = MdsStatus::default();
            let names = ["connections_refused", "connections_refused_by_address"];
            for name in names {
                status.transport.insert(name.to_owned(), refused);
            }
            let now = start + Duration::from_secs(seconds);
            readings.health(now, status).reasons.len()
        };
        let calm = reasons(0, 0);
        assert_eq!(reasons(299, 9), calm, "there is no earlier reading yet");
        assert_eq!(reasons(300, 9), calm, "it is kept for the next question");
        assert!(reasons(301, 9) > calm);
        assert!(reasons(600, 9) > calm);
        assert_eq!(reasons(601, 9), calm, "none were refused since 300 s");
    }
}
