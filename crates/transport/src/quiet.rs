//! Log lines about what a peer can repeat as fast as it likes: one in a period, which says how many it stands for.

use std::time::Duration;

use parking_lot::Mutex;
use tokio::time::Instant;

/// Shortest time between two lines.
const PERIOD: Duration = Duration::from_secs(10);

/// Decides which of many equal events get a line.
#[derive(Debug, Default)]
pub(crate) struct Quiet(Mutex<State>);

#[derive(Debug, Default)]
struct State {
    last_line: Option<Instant>,
    /// Events that no line has told of.
    untold: u64,
}

impl Quiet {
    /// Notes one event. `Some` asks for a line now and says how many events it stands for.
    pub(crate) fn note(&self) -> Option<u64> {
        let now = Instant::now();
        let mut state = self.0.lock();
        state.untold += 1;
        if state.last_line.is_some_and(|last| now - last < PERIOD) {
            return None;
        }
        state.last_line = Some(now);
        Some(std::mem::take(&mut state.untold))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn one_line_in_a_period_tells_of_all() {
        let quiet = Quiet::default();
        assert_eq!(quiet.note(), Some(1));
        assert_eq!(quiet.note(), None);
        assert_eq!(quiet.note(), None);
        tokio::time::advance(PERIOD).await;
        assert_eq!(quiet.note(), Some(3));
        assert_eq!(quiet.note(), None);
    }
}
