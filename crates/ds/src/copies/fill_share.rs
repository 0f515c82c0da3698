//! The share of the time that fillings take while clients are served (rule P26): one for all of them.
//!
//! A filling asks for a turn before each piece of work. What went by since the last turn counts as work of all, so parts that
//! are compared at one time work together and rest together. A place whose last copy this is has no share, and does not wait.

use std::time::Duration;

use tokio::time::{Instant, sleep};
use tracing_mutex::parkinglot::Mutex;

use crate::pace::Pace;

/// Longest work that is rested for: between two turns there may have been no filling.
const WORKED_MAX: Duration = Duration::from_secs(1);

/// See the module.
#[derive(Default)]
pub(super) struct FillShare {
    /// Held by the one that rests for all.
    pace: tokio::sync::Mutex<Pace>,
    /// When work was last begun.
    begun: Mutex<Option<Instant>>,
}

impl FillShare {
    /// Rests as long as the share wants it. `operations` counts those of clients.
    pub(super) async fn turn(&self, operations: impl Fn() -> u64) {
        let mut pace = self.pace.lock().await;
        let begun = *self.begun.lock();
        let worked = begun.map_or(Duration::ZERO, |begun| begun.elapsed().min(WORKED_MAX));
        if let Some(rest) = pace.rest_after(worked, operations()) {
            sleep(rest).await;
        }
        self.begin();
    }

    /// Work begins now: what went by was none.
    pub(super) fn begin(&self) {
        *self.begun.lock() = Some(Instant::now());
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use futures_util::future::join_all;
    use std::cell::Cell;

    const PIECE: Duration = Duration::from_millis(10);
    const PIECES: u32 = 100;

    /// The time that pieces of work take by turns of several fillings, each of which works for as long.
    async fn works(share: &FillShare, fillings: usize, operations: impl Fn() -> u64) -> Duration {
        let since = Instant::now();
        let operations = &operations;
        let filling = async || {
            for _ in 0..PIECES {
                share.turn(operations).await;
                sleep(PIECE).await;
            }
        };
        join_all((0..fillings).map(|_| filling())).await;
        since.elapsed()
    }

    #[tokio::test(start_paused = true)]
    async fn fillings_work_at_most_a_third_of_the_time_while_clients_are_served() {
        let (share, served) = (FillShare::default(), Cell::new(0));
        let operations = || {
            served.set(served.get() + 1);
            served.get()
        };
        let work = PIECE * PIECES;
        for fillings in [1, 4] {
            let took = works(&share, fillings, operations).await;
            let percent = work.as_millis() * 100 / took.as_millis();
            assert!((28..=34).contains(&percent), "{fillings}: {percent} %");
        }
        tokio::time::advance(Duration::from_secs(3600)).await;
        let took = works(&share, 4, || served.get()).await;
        assert!(took <= work + PIECE * 10, "nobody is served: {took:?}");
    }
}
