//! What every redo log must do.
//!
//! [`run`] is handed a function that makes an empty log of a capacity, and one that opens it again after an orderly end.

use crate::{RECORD_HEAD_BYTES, RedoLog, RedoRecord};
use nfs4::NfsTime;
use objects::ObjectId;
use std::pin::pin;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};

/// Opens the log again; the first handle is gone then.
pub type Reopen = Box<dyn FnOnce() -> Arc<dyn RedoLog>>;
/// Makes an empty log of at least so many bytes.
pub type Make<'m> = &'m mut dyn FnMut(u64) -> (Arc<dyn RedoLog>, Reopen);

/// A record for tests: the object and the offset follow from `fill`.
#[must_use]
pub fn record(fill: u8, data: &[u8]) -> RedoRecord<'_> {
    RedoRecord {
        group: 0,
        id: ObjectId {
            file_id: u64::from(fill) + 1,
            generation: 1,
            place: 0,
        },
        offset: u64::from(fill) * 1000,
        time: NfsTime {
            seconds: i64::from(fill),
            nanoseconds: 7,
        },
        data,
    }
}

/// The numbers of the records that a log visits.
///
/// # Panics
/// When it cannot.
#[must_use]
pub fn numbers(log: &dyn RedoLog) -> Vec<u64> {
    let mut numbers = Vec::new();
    let replayed = log.replay(&mut |number, _| {
        numbers.push(number);
        true
    });
    replayed.expect("the log is whole");
    numbers
}

/// Waits for a record without a runtime.
fn wait(log: &dyn RedoLog, number: u64) {
    let mut durable = pin!(log.durable(number));
    let mut cx = Context::from_waker(Waker::noop());
    loop {
        match durable.as_mut().poll(&mut cx) {
            Poll::Ready(done) => return done.expect("the disk works"),
            Poll::Pending => std::thread::yield_now(),
        }
    }
}

/// Runs every test of the contract.
///
/// # Panics
/// When the log breaks it.
pub fn run(make: Make<'_>) {
    what_is_durable_is_visited_in_order(make);
    what_is_retired_is_not_visited_and_numbers_go_on(make);
    a_full_log_refuses_until_something_is_retired(make);
    it_goes_round_many_times(make);
    a_visit_may_end_early(make);
    a_log_in_use_is_visited_as_far_as_it_is_durable(make);
}

fn what_is_durable_is_visited_in_order(make: Make<'_>) {
    let (log, reopen) = make(1 << 20);
    assert_eq!(numbers(&*log), [0; 0]);
    assert_eq!(log.durable_through(), 0);
    let sizes = [0, 1, 63, 64, 4096, 65_536];
    for (fill, size) in (1..).zip(sizes) {
        let data = vec![fill; size];
        assert_eq!(log.append(&record(fill, &data)), Some(u64::from(fill)));
    }
    wait(&*log, 6);
    assert_eq!(log.durable_through(), 6);
    drop(log);
    let log = reopen();
    let mut seen = 0;
    let replayed = log.replay(&mut |number, found| {
        seen += 1;
        assert_eq!(number, seen);
        let fill = u8::try_from(number).expect("few records");
        let data = vec![fill; sizes[usize::from(fill) - 1]];
        assert_eq!(found, record(fill, &data));
        true
    });
    replayed.expect("the log is whole");
    assert_eq!(seen, 6);
}

fn what_is_retired_is_not_visited_and_numbers_go_on(make: Make<'_>) {
    let (log, reopen) = make(1 << 20);
    for fill in 1..=3 {
        log.append(&record(fill, b"x")).expect("there is room");
    }
    wait(&*log, 3);
    assert_eq!(log.retire(3).expect("the disk works"), 3);
    assert_eq!(log.fill().used_bytes, 0);
    drop(log);
    let log = reopen();
    assert_eq!(numbers(&*log), [0; 0]);
    assert_eq!(log.durable_through(), 3);
    assert_eq!(log.append(&record(4, b"y")), Some(4));
    wait(&*log, 4);
}

fn a_full_log_refuses_until_something_is_retired(make: Make<'_>) {
    let (log, _) = make(1 << 20);
    let data = vec![1; 60_000];
    let mut last = 0;
    while let Some(number) = log.append(&record(1, &data)) {
        last = number;
        wait(&*log, number);
        assert!(last < 1000, "it never gets full");
    }
    let fill = log.fill();
    assert!(fill.used_bytes <= fill.capacity_bytes);
    assert!(last >= 10, "{last} records in a log of 1 MiB");
    log.retire(last).expect("the disk works");
    assert_eq!(log.append(&record(1, &data)), Some(last + 1));
}

fn it_goes_round_many_times(make: Make<'_>) {
    let (log, reopen) = make(1 << 20);
    let mut kept = 0;
    for number in 1..=2000_u64 {
        let fill = u8::try_from(number % 251).expect("below 251");
        let size = usize::try_from(number * 37 % 9000).expect("small");
        let appended = log.append(&record(fill, &vec![fill; size]));
        assert_eq!(appended, Some(number), "after {kept} were retired");
        wait(&*log, number);
        if number % 50 == 0 {
            kept = log.retire(number - 10).expect("the disk works");
            assert!(kept <= number - 10);
        }
    }
    drop(log);
    let log = reopen();
    let left = numbers(&*log);
    let expected: Vec<u64> = (kept + 1..=2000).collect();
    assert_eq!(left, expected);
    let bytes = left.len() * (RECORD_HEAD_BYTES + 9000);
    assert!(bytes < 1 << 20, "{} records", left.len());
}

fn a_visit_may_end_early(make: Make<'_>) {
    let (log, reopen) = make(1 << 20);
    for fill in 1..=3 {
        log.append(&record(fill, b"x")).expect("there is room");
    }
    wait(&*log, 3);
    drop(log);
    let log = reopen();
    let mut visits = 0;
    let replayed = log.replay(&mut |_, _| {
        visits += 1;
        false
    });
    replayed.expect("the log is whole");
    assert_eq!(visits, 1);
}

fn a_log_in_use_is_visited_as_far_as_it_is_durable(make: Make<'_>) {
    let (log, _) = make(1 << 20);
    for number in 1..=200_u64 {
        let fill = u8::try_from(number).expect("small");
        let appended = log.append(&record(fill, &[fill; 20_000]));
        assert_eq!(appended, Some(number));
        let durable = log.durable_through();
        let visited = numbers(&*log);
        let first = visited.first().copied().unwrap_or(durable + 1);
        let last = visited.last().copied().unwrap_or(durable);
        assert!(visited.iter().copied().eq(first..=last));
        assert!(last >= durable && last <= number, "{last} of {durable}");
        wait(&*log, number);
        if number % 20 == 0 {
            let retired = log.retire(number - 5).expect("the disk works");
            let left: Vec<u64> = (retired + 1..=number).collect();
            assert_eq!(numbers(&*log), left);
        }
    }
}
