//! How long syncs take: a mean in which newer ones count more.
//!
//! Owns the mean of one disk, or of one member as its primary sees it. Whoever syncs tells it how long that took. Judges
//! nothing: the metadata server compares the means of data servers.

use std::time::Duration;

use tokio::time::Instant;
use tracing_mutex::parkinglot::Mutex;

/// Weight of the newest sync: one of so many.
const NEWEST_OF: u64 = 4;
/// A mean says nothing any more so long after the last sync ended, and as long as that took.
const FRESH: Duration = Duration::from_secs(4);

/// See the module.
#[derive(Debug, Default)]
pub(crate) struct SyncTime(Mutex<Option<Mean>>);

#[derive(Debug, Clone, Copy)]
struct Mean {
    us: u64,
    /// When it was last told.
    at: Instant,
}

impl Mean {
    fn is_fresh(&self, now: Instant) -> bool {
        now.saturating_duration_since(self.at) < FRESH + Duration::from_micros(self.us)
    }
}

impl SyncTime {
    /// A sync that was begun at `begun` has ended.
    pub(crate) fn note(&self, begun: Instant) {
        let at = Instant::now();
        let took_us = u64::try_from((at - begun).as_micros()).unwrap_or(u64::MAX);
        let mut mean = self.0.lock();
        let us = match &*mean {
            Some(before) if before.is_fresh(at) => {
                let rest = before.us / NEWEST_OF * (NEWEST_OF - 1);
                rest.saturating_add(took_us / NEWEST_OF)
            }
            _ => took_us,
        };
        *mean = Some(Mean { us, at });
    }

    /// The mean in microseconds; 0 when there was no sync lately.
    pub(crate) fn mean_us(&self) -> u32 {
        let mean = self.0.lock().filter(|mean| mean.is_fresh(Instant::now()));
        // A sync that took no time was one.
        mean.map_or(0, |mean| u32::try_from(mean.us).unwrap_or(u32::MAX).max(1))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn the_mean_follows_newer_syncs_and_is_forgotten_when_there_are_none() {
        let time = SyncTime::default();
        assert_eq!(time.mean_us(), 0, "none yet");
        let sync = async |ms| {
            let begun = Instant::now();
            tokio::time::advance(Duration::from_millis(ms)).await;
            time.note(begun);
            time.mean_us()
        };
        assert_eq!(sync(8).await, 8_000);
        assert_eq!(sync(0).await, 6_000);
        assert_eq!(sync(3_000).await, 754_500);
        assert!(sync(3_000).await > 1_300_000);
        tokio::time::advance(Duration::from_secs(5)).await;
        assert!(
            time.mean_us() > 0,
            "a slow disk has been silent for so long"
        );
        tokio::time::advance(Duration::from_secs(1)).await;
        assert_eq!(time.mean_us(), 0, "it is silent");
        assert_eq!(sync(8).await, 8_000, "what was before does not count");
    }
}
