//! The rate at which this server sends blocks to members that it fills, as the MDS says it.
//!
//! One limit for all its fillings. It is lost with the process; the next HEARTBEAT brings it back.

use std::time::Duration;

use tokio::time::{Instant, sleep, sleep_until};
use tracing_mutex::parkinglot::Mutex;

/// A wait looks so often whether the limit has changed.
const LOOK: Duration = Duration::from_secs(1);

/// See the module.
#[derive(Default)]
pub(crate) struct FillRate(Mutex<Paced>);

#[derive(Default)]
struct Paced {
    /// 0 for no limit.
    bytes_per_s: u64,
    /// Rises when the limit changes. A wait that an older limit set ends then.
    changes: u64,
    /// When the next block may be sent.
    next: Option<Instant>,
}

impl FillRate {
    /// From now on so many bytes per second; 0 for no limit.
    pub(crate) fn set(&self, bytes_per_s: u64) {
        let mut paced = self.0.lock();
        if paced.bytes_per_s != bytes_per_s {
            *paced = Paced {
                bytes_per_s,
                changes: paced.changes + 1,
                next: None,
            };
        }
    }

    /// Waits until so many bytes may be sent. To be asked once for each block. Returns whether there is a limit.
    pub(super) async fn admit(&self, bytes: u64) -> bool {
        let Some((turn, changes)) = self.take_turn(bytes) else {
            return false;
        };
        while Instant::now() < turn && self.0.lock().changes == changes {
            tokio::select! {
                biased;
                () = sleep_until(turn) => {}
                () = sleep(LOOK) => {}
            }
        }
        true
    }

    fn take_turn(&self, bytes: u64) -> Option<(Instant, u64)> {
        let mut paced = self.0.lock();
        if paced.bytes_per_s == 0 || bytes == 0 {
            return None;
        }
        let now = Instant::now();
        let turn = paced.next.map_or(now, |next| next.max(now));
        let nanos = u128::from(bytes) * 1_000_000_000 / u128::from(paced.bytes_per_s);
        let takes = Duration::from_nanos(u64::try_from(nanos).unwrap_or(u64::MAX));
        paced.next = turn.checked_add(takes);
        Some((turn, paced.changes))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use futures_util::future::join_all;

    const BLOCK: u64 = 64 * 1024;

    /// How long it takes to send so many blocks, some at one time.
    async fn sends(rate: &FillRate, blocks: u64) -> Duration {
        let since = Instant::now();
        for _ in 0..blocks / 4 {
            join_all((0..4).map(|_| rate.admit(BLOCK))).await;
        }
        since.elapsed()
    }

    #[tokio::test(start_paused = true)]
    async fn blocks_are_sent_at_the_rate_and_a_pause_saves_nothing_up() {
        let rate = FillRate::default();
        assert_eq!(sends(&rate, 1000).await, Duration::ZERO, "no limit");
        rate.set(16 * BLOCK);
        let first = sends(&rate, 1600).await;
        assert!((99..=100).contains(&first.as_secs()), "{first:?}");
        tokio::time::advance(Duration::from_secs(3600)).await;
        let later = sends(&rate, 160).await;
        assert!((9..=10).contains(&later.as_secs()), "{later:?}");
    }

    #[tokio::test(start_paused = true)]
    async fn another_limit_counts_at_once_for_those_that_wait() {
        let rate = FillRate::default();
        rate.set(1);
        rate.admit(BLOCK).await;
        let since = Instant::now();
        let change = async {
            sleep(Duration::from_secs(5)).await;
            rate.set(0);
        };
        tokio::join!(rate.admit(BLOCK), change);
        assert!(since.elapsed() <= Duration::from_secs(6));
        rate.set(u64::MAX);
        assert_eq!(sends(&rate, 100).await, Duration::ZERO);
    }
}
