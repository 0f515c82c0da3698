//! Whether the next request is so near that polling is cheaper than sleeping until it comes.
//!
//! A client with one request under way sends the next a few microseconds after the reply. A sleep costs more than that: the
//! processor goes idle, must be woken, and comes back with cold caches. So a worker that serves one busy connection polls its
//! socket for a short time first, as `net.core.busy_poll` does for devices.
//!
//! # Bounds
//! - The last [`STREAK_MIN`] records of the thread all came from this connection.
//! - The mean time from reply to request is below the limit. A wait takes at most that limit.
//! - After [`WAITS_MAX`] waits other tasks of the thread get their turn. The thread yields its processor between two polls.

use std::cell::Cell;
use std::time::{Duration, Instant};

/// Records in a row from one connection before its thread waits for it.
const STREAK_MIN: u32 = 16;
/// Records in a row before its pauses are measured: a thread with several busy connections reads no clock for this.
const MEASURED_MIN: u32 = STREAK_MIN / 2;
/// Waits that end with a record before other tasks of the thread, and other sockets, get their turn.
pub(crate) const WAITS_MAX: u32 = 16;
/// Weight of the past in the mean, in eighths.
const MEMORY_EIGHTHS: u32 = 7;
/// What counts of a long gap, in limits: one pause is soon forgotten, a slower client is not.
const GAP_LIMITS_MAX: u32 = 4;

thread_local! {
    /// The connection that the last records of this thread came from, and how many.
    static STREAK: Cell<(u64, u32)> = const { Cell::new((0, 0)) };
}

/// What is known of one connection's pauses.
#[derive(Debug)]
pub(crate) struct BusyPoll {
    conn_id: u64,
    limit: Duration,
    /// Mean time from the last reply to the next request.
    gap: Duration,
    answered: Option<Instant>,
}

impl BusyPoll {
    /// With a limit of zero it never pays.
    pub(crate) const fn new(conn_id: u64, limit: Duration) -> Self {
        Self {
            conn_id,
            limit,
            gap: limit,
            answered: None,
        }
    }

    /// How many of the thread's last records all came from this connection.
    fn streak(&self) -> u32 {
        let (conn_id, count) = STREAK.with(Cell::get);
        if conn_id == self.conn_id { count } else { 0 }
    }

    /// Everything that was asked is answered, and nothing more is there.
    pub(crate) fn answered(&mut self, now: impl Fn() -> Instant) {
        if self.streak() >= MEASURED_MIN && self.limit > Duration::ZERO && self.answered.is_none() {
            self.answered = Some(now());
        }
    }

    /// Bytes came.
    pub(crate) fn arrived(&mut self, now: impl Fn() -> Instant) {
        if self.limit == Duration::ZERO {
            return;
        }
        STREAK.set((self.conn_id, self.streak().saturating_add(1)));
        if let Some(answered) = self.answered.take() {
            let gap = now().saturating_duration_since(answered);
            let gap = gap.min(self.limit * GAP_LIMITS_MAX);
            self.gap = (self.gap * MEMORY_EIGHTHS + gap * (8 - MEMORY_EIGHTHS)) / 8;
        }
    }

    /// Asks `has_bytes` until it says yes or the limit is over, and says what it said last; `None` where to ask does not pay.
    pub(crate) fn wait(
        &self,
        now: impl Fn() -> Instant,
        mut has_bytes: impl FnMut() -> bool,
    ) -> Option<bool> {
        let pays = self.streak() >= STREAK_MIN && self.gap < self.limit;
        let end = self.answered.filter(|_| pays)? + self.limit;
        while now() < end {
            if has_bytes() {
                return Some(true);
            }
            std::thread::yield_now();
        }
        Some(false)
    }
}

#[cfg(test)]
mod tests {
    //! Under a clock that moves when it is asked.
    use super::*;

    const LIMIT: Duration = Duration::from_micros(20);

    struct Clock {
        start: Instant,
        micros: Cell<u64>,
    }

    impl Clock {
        fn new() -> Self {
            Self {
                start: Instant::now(),
                micros: Cell::new(0),
            }
        }

        fn now(&self) -> Instant {
            self.micros.set(self.micros.get() + 1);
            self.start + Duration::from_micros(self.micros.get())
        }

        fn pass(&self, micros: u64) {
            self.micros.set(self.micros.get() + micros);
        }
    }

    /// Requests that come so many microseconds after the reply before them.
    fn serve(poll: &mut BusyPoll, clock: &Clock, count: u32, gap_us: u64) {
        for _ in 0..count {
            poll.answered(|| clock.now());
            clock.pass(gap_us);
            poll.arrived(|| clock.now());
        }
        poll.answered(|| clock.now());
    }

    /// How often it asks when nothing comes.
    fn questions(poll: &BusyPoll, clock: &Clock) -> u32 {
        let mut count = 0;
        let no = || {
            count += 1;
            false
        };
        let said = poll.wait(|| clock.now(), no);
        assert_ne!(said, Some(true));
        assert_eq!(said.is_some(), count > 0);
        count
    }

    #[test]
    fn a_near_request_is_waited_for_and_no_longer_than_the_limit() {
        let (clock, mut poll) = (Clock::new(), BusyPoll::new(1, LIMIT));
        serve(&mut poll, &clock, STREAK_MIN, 5);
        assert_eq!(poll.wait(|| clock.now(), || true), Some(true));
        let asked = questions(&poll, &clock);
        assert!((1..=20).contains(&asked), "{asked}");
    }

    #[test]
    fn nothing_is_asked_of_slow_clients_or_before_there_is_a_habit() {
        let (clock, mut poll) = (Clock::new(), BusyPoll::new(1, LIMIT));
        serve(&mut poll, &clock, STREAK_MIN - 1, 5);
        assert_eq!(questions(&poll, &clock), 0);
        serve(&mut poll, &clock, 1, 5);
        assert_ne!(questions(&poll, &clock), 0);
        serve(&mut poll, &clock, 2, 1000);
        assert_eq!(questions(&poll, &clock), 0);
        serve(&mut poll, &clock, 32, 5);
        assert_ne!(questions(&poll, &clock), 0);
    }

    #[test]
    fn another_connection_of_the_thread_ends_it() {
        let (clock, mut poll) = (Clock::new(), BusyPoll::new(1, LIMIT));
        serve(&mut poll, &clock, STREAK_MIN, 5);
        let mut other = BusyPoll::new(2, LIMIT);
        serve(&mut other, &clock, 1, 5);
        assert_eq!(questions(&poll, &clock), 0);
        assert_eq!(questions(&other, &clock), 0);
    }

    #[test]
    fn with_several_busy_connections_no_clock_is_read() {
        let never = || -> Instant { unreachable!("a clock was read") };
        let [mut one, mut other] = [1, 2].map(|id| BusyPoll::new(id, LIMIT));
        for _ in 0..2 * STREAK_MIN {
            for poll in [&mut one, &mut other] {
                poll.arrived(never);
                poll.answered(never);
                assert_eq!(poll.wait(never, || true), None);
            }
        }
    }

    #[test]
    fn without_a_limit_no_clock_is_read() {
        let mut poll = BusyPoll::new(1, Duration::ZERO);
        let never = || -> Instant { unreachable!("a clock was read") };
        for _ in 0..2 * STREAK_MIN {
            poll.answered(never);
            poll.arrived(never);
        }
        assert_eq!(poll.wait(never, || true), None);
    }
}
