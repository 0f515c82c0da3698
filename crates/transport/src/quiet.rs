//! Log lines about what a peer can repeat as fast as it likes. There is one in a period, which says how many it stands
//! for, or a few in each second where every one says something else.

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

/// Lines in one second.
const LINES_PER_SECOND: u32 = 10;

/// Decides which of many different events get a line.
#[derive(Debug, Default)]
pub(crate) struct Bucket(Mutex<Second>);

#[derive(Debug, Default)]
struct Second {
    began: Option<Instant>,
    lines: u32,
    left_out: u64,
}

impl Bucket {
    /// `Some` asks for the line of one event, and says how many lines were left out before it.
    pub(crate) fn take(&self) -> Option<u64> {
        let now = Instant::now();
        let mut second = self.0.lock();
        let is_over = |began| now - began >= Duration::from_secs(1);
        if second.began.is_none_or(is_over) {
            second.began = Some(now);
            second.lines = 0;
        }
        if second.lines == LINES_PER_SECOND {
            second.left_out += 1;
            return None;
        }
        second.lines += 1;
        Some(std::mem::take(&mut second.left_out))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn a_few_lines_in_a_second_and_then_how_many_were_left_out() {
        let bucket = Bucket::default();
        for _ in 0..LINES_PER_SECOND {
            assert_eq!(bucket.take(), Some(0));
        }
        assert_eq!(bucket.take(), None);
        tokio::time::advance(Duration::from_millis(999)).await;
        assert_eq!(bucket.take(), None);
        tokio::time::advance(Duration::from_millis(1)).await;
        assert_eq!(bucket.take(), Some(2));
        assert_eq!(bucket.take(), Some(0));
    }

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
