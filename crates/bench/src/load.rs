//! Load generators: closed loops of requests, one after another on each connection.
//!
//! A run warms up first, then measures for a fixed time, or longer where no request would count: a measurement of
//! nothing is none. A request counts when it began and ended inside that time. Its latency goes into a histogram of its
//! worker; the histograms are added up at the end. [`drive`] has one blocking thread per connection; [`drive_tasks`]
//! has tasks on one current-thread runtime, for subjects inside this process.

use crate::process::{MachineTimes, cpu_of_this_process};
use crate::{BenchError, Sample};
use hdrhistogram::Histogram;
use std::future::Future;
use std::pin::Pin;
use std::rc::Rc;
use std::sync::atomic::{AtomicBool, AtomicU8, Ordering};
use std::time::{Duration, Instant};
use tokio::runtime::Runtime;

/// Most connections or tasks of one run: threads are cheap but not free.
pub const CONNECTIONS_MAX: usize = 1024;
/// A request that takes longer ends the run.
pub const REQUEST_TIMEOUT: Duration = Duration::from_secs(30);
/// Longest latency that a histogram tells apart from others, in nanoseconds.
const LATENCY_NS_MAX: u64 = 60_000_000_000;
/// Significant decimal digits of a latency.
const LATENCY_DIGITS: u8 = 3;

/// How much to ask at once and for how long.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Load {
    /// Connections, or tasks that wait at the same time.
    pub connections_count: usize,
    /// Time before the measured time.
    pub warm_up: Duration,
    /// The measured time.
    pub measure: Duration,
}

impl Load {
    fn check(&self) -> Result<(), BenchError> {
        if self.connections_count == 0 || self.connections_count > CONNECTIONS_MAX {
            return Err(BenchError::Setting {
                name: "connections",
                must_be: "from 1 to 1024",
            });
        }
        if self.measure.is_zero() {
            return Err(BenchError::Setting {
                name: "seconds",
                must_be: "above 0",
            });
        }
        Ok(())
    }
}

/// One connection of a load generator.
pub trait Requester: Send {
    /// Sends the next request, waits for its reply and returns the payload bytes of the two.
    ///
    /// # Errors
    /// Whatever went wrong; it ends the run.
    fn request(&mut self) -> Result<u64, BenchError>;

    /// Whether nothing is left to ask for: the measured time then ends before its end.
    fn is_done(&mut self) -> bool {
        false
    }
}

/// One task of a load generator inside this process.
pub trait TaskRequester: 'static {
    /// Does the next request and returns its payload bytes.
    fn request(&mut self) -> Pin<Box<dyn Future<Output = Result<u64, BenchError>> + '_>>;

    /// What follows a request and is no part of its latency, where there is anything.
    fn afterwards(&mut self) -> Option<Pin<Box<dyn Future<Output = ()> + '_>>> {
        None
    }

    /// Whether nothing is left to ask for: the measured time then ends before its end.
    fn is_done(&mut self) -> bool {
        false
    }
}

/// Reads the CPU time that the server has used so far.
pub type CpuProbe<'a> = dyn Fn() -> Result<Duration, BenchError> + 'a;

/// How often it is looked whether tasks are done before the time is over.
const STOPPED_POLL: Duration = Duration::from_millis(1);
/// The same for threads.
const THREADS_POLL: Duration = Duration::from_millis(10);

const WARMING: u8 = 0;
const MEASURING: u8 = 1;
const STOPPED: u8 = 2;

/// What the workers of one run look at.
#[derive(Debug)]
struct Phase {
    state: AtomicU8,
    /// Whether a request has counted.
    has_counted: AtomicBool,
}

impl Phase {
    fn new() -> Self {
        Self {
            state: AtomicU8::new(WARMING),
            has_counted: AtomicBool::new(false),
        }
    }

    fn set(&self, phase: u8) {
        self.state.store(phase, Ordering::Release);
    }

    /// Adds a request that began in the measured time, if that goes on.
    fn count(&self, tally: &mut Tally, payload_bytes: u64, latency: Duration) {
        if self.is(MEASURING) {
            tally.add(payload_bytes, latency);
            self.has_counted.store(true, Ordering::Release);
        }
    }

    /// Whether the measured time may end once it is over: something has counted, or no request ends any more.
    fn may_end(&self, overtime: Duration) -> bool {
        self.has_counted.load(Ordering::Acquire) || overtime >= REQUEST_TIMEOUT
    }

    /// The measured time begins, unless all is over.
    fn begin(&self) {
        let order = (Ordering::AcqRel, Ordering::Acquire);
        let _ = self
            .state
            .compare_exchange(WARMING, MEASURING, order.0, order.1);
    }

    /// Returns soon after the measured time was ended.
    async fn stopped(&self) {
        while !self.is(STOPPED) {
            tokio::time::sleep(STOPPED_POLL).await;
        }
    }

    fn is(&self, phase: u8) -> bool {
        self.state.load(Ordering::Acquire) == phase
    }
}

/// The requests of one worker.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Tally {
    pub(crate) requests_count: u64,
    pub(crate) payload_bytes: u64,
    pub(crate) latency_ns: Histogram<u64>,
}

impl Tally {
    pub(crate) fn new() -> Self {
        Self {
            requests_count: 0,
            payload_bytes: 0,
            latency_ns: Histogram::new_with_bounds(1, LATENCY_NS_MAX, LATENCY_DIGITS)
                .expect("the bounds are constants in order"),
        }
    }

    pub(crate) fn add(&mut self, payload_bytes: u64, time: Duration) {
        self.requests_count += 1;
        self.payload_bytes += payload_bytes;
        let ns = u64::try_from(time.as_nanos()).unwrap_or(LATENCY_NS_MAX);
        self.latency_ns.saturating_record(ns);
    }

    pub(crate) fn merge(&mut self, other: &Self) {
        self.requests_count += other.requests_count;
        self.payload_bytes += other.payload_bytes;
        self.latency_ns
            .add(&other.latency_ns)
            .expect("all histograms have the same bounds");
    }
}

/// Time and CPU time of the measured part.
#[derive(Debug, Clone, Copy)]
struct Window {
    elapsed: Duration,
    server_cpu: Duration,
    client_cpu: Duration,
    machine_idle: Option<f64>,
}

/// The beginning of the measured part.
struct WindowStart {
    server_cpu: Duration,
    client_cpu: Duration,
    machine: Option<MachineTimes>,
    at: Instant,
}

impl WindowStart {
    fn now(cpu: &CpuProbe<'_>) -> Result<Self, BenchError> {
        Ok(Self {
            server_cpu: cpu()?,
            client_cpu: cpu_of_this_process()?,
            machine: MachineTimes::now(),
            at: Instant::now(),
        })
    }

    fn end(self, cpu: &CpuProbe<'_>) -> Result<Window, BenchError> {
        let elapsed = self.at.elapsed();
        Ok(Window {
            elapsed,
            server_cpu: cpu()?.saturating_sub(self.server_cpu),
            client_cpu: cpu_of_this_process()?.saturating_sub(self.client_cpu),
            machine_idle: MachineTimes::idle_share(self.machine, MachineTimes::now()),
        })
    }
}

/// Runs one thread per connection.
///
/// # Errors
/// The first error of any connection, or a failure to read the server's CPU time.
pub fn drive(
    load: &Load,
    mut connect: impl FnMut(usize) -> Result<Box<dyn Requester>, BenchError>,
    cpu: &CpuProbe<'_>,
) -> Result<Sample, BenchError> {
    load.check()?;
    let connections: Vec<_> = (0..load.connections_count)
        .map(&mut connect)
        .collect::<Result<_, _>>()?;
    let phase = Phase::new();
    let (window, tallies) = std::thread::scope(|scope| {
        let workers: Vec<_> = connections
            .into_iter()
            .map(|mut connection| {
                let phase = &phase;
                scope.spawn(move || work(connection.as_mut(), phase))
            })
            .collect();
        std::thread::sleep(load.warm_up);
        let window = measure(cpu, &phase, load.measure);
        phase.set(STOPPED);
        let tallies: Vec<_> = workers
            .into_iter()
            .map(|worker| worker.join().expect("a worker does not panic"))
            .collect();
        (window, tallies)
    });
    sample(window, tallies)
}

fn measure(cpu: &CpuProbe<'_>, phase: &Phase, time: Duration) -> Result<Window, BenchError> {
    let start = WindowStart::now(cpu)?;
    // Who was done before has stopped the others.
    phase.begin();
    while !phase.is(STOPPED) {
        let elapsed = start.at.elapsed();
        let left = time.saturating_sub(elapsed);
        if left.is_zero() && phase.may_end(elapsed.saturating_sub(time)) {
            break;
        }
        let pause = if left.is_zero() { STOPPED_POLL } else { left };
        std::thread::sleep(pause.min(THREADS_POLL));
    }
    phase.set(STOPPED);
    start.end(cpu)
}

fn work(connection: &mut dyn Requester, phase: &Phase) -> Result<Tally, BenchError> {
    let mut tally = Tally::new();
    while !phase.is(STOPPED) {
        if connection.is_done() {
            phase.set(STOPPED);
            break;
        }
        let counts = phase.is(MEASURING);
        let start = Instant::now();
        let done = connection.request();
        // The others need not go on for an error.
        let payload_bytes = done.inspect_err(|_| phase.set(STOPPED))?;
        if counts {
            phase.count(&mut tally, payload_bytes, start.elapsed());
        }
    }
    Ok(tally)
}

fn sample(
    window: Result<Window, BenchError>,
    tallies: Vec<Result<Tally, BenchError>>,
) -> Result<Sample, BenchError> {
    let mut sum = Tally::new();
    // A worker's error says more than the CPU time of a server that is gone.
    for tally in tallies {
        sum.merge(&tally?);
    }
    let window = window?;
    Ok(Sample {
        requests_count: sum.requests_count,
        payload_bytes: sum.payload_bytes,
        elapsed: window.elapsed,
        latency_ns: sum.latency_ns,
        server_cpu: window.server_cpu,
        client_cpu: window.client_cpu,
        machine_idle: window.machine_idle,
        rss_bytes_per_session: None,
    })
}

/// Measures work that has an end of its own, from its start to that.
///
/// # Errors
/// That of the work, or a failure to read the server's CPU time.
pub(crate) fn to_its_end(
    cpu: &CpuProbe<'_>,
    work: impl FnOnce(&mut Tally) -> Result<(), BenchError>,
) -> Result<Sample, BenchError> {
    let mut tally = Tally::new();
    let start = WindowStart::now(cpu)?;
    work(&mut tally)?;
    sample(start.end(cpu), vec![Ok(tally)])
}

/// Runs tasks on a current-thread runtime of their own.
///
/// # Errors
/// The first error of any task, or a failure to make the runtime.
pub fn drive_tasks(
    load: &Load,
    make: impl FnMut(usize) -> Result<Box<dyn TaskRequester>, BenchError>,
    cpu: &CpuProbe<'_>,
) -> Result<Sample, BenchError> {
    drive_tasks_on(&runtime()?, load, make, cpu)
}

/// A runtime of one thread for [`drive_tasks_on`].
///
/// # Errors
/// A failure to make it.
pub fn runtime() -> Result<Runtime, BenchError> {
    tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .map_err(BenchError::io("start a runtime"))
}

/// A runtime for [`drive_tasks_on`] whose connections share all processors; the tasks of the load stay on the calling thread.
///
/// # Errors
/// A failure to make it.
pub fn threads_runtime() -> Result<Runtime, BenchError> {
    tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .build()
        .map_err(BenchError::io("start a runtime"))
}

/// Runs tasks on a runtime that already carries what they need, such as connections.
///
/// # Errors
/// The first error of any task.
pub fn drive_tasks_on(
    runtime: &Runtime,
    load: &Load,
    mut make: impl FnMut(usize) -> Result<Box<dyn TaskRequester>, BenchError>,
    cpu: &CpuProbe<'_>,
) -> Result<Sample, BenchError> {
    load.check()?;
    let requesters: Vec<_> = (0..load.connections_count)
        .map(&mut make)
        .collect::<Result<_, _>>()?;
    let phase = Rc::new(Phase::new());
    let local = tokio::task::LocalSet::new();
    let workers: Vec<_> = requesters
        .into_iter()
        .map(|requester| local.spawn_local(work_task(requester, Rc::clone(&phase))))
        .collect();
    local.block_on(runtime, async {
        tokio::time::sleep(load.warm_up).await;
        let start = WindowStart::now(cpu);
        // Who was done before has stopped the others.
        phase.begin();
        let end = async {
            let begin = Instant::now();
            tokio::time::sleep(load.measure).await;
            while !phase.may_end(begin.elapsed().saturating_sub(load.measure)) {
                tokio::time::sleep(STOPPED_POLL).await;
            }
        };
        tokio::select! {
            () = end => phase.set(STOPPED),
            () = phase.stopped() => {}
        }
        let window = start.and_then(|start| start.end(cpu));
        let mut tallies = Vec::new();
        for worker in workers {
            tallies.push(worker.await.expect("a worker does not panic"));
        }
        sample(window, tallies)
    })
}

async fn work_task(
    mut requester: Box<dyn TaskRequester>,
    phase: Rc<Phase>,
) -> Result<Tally, BenchError> {
    let mut tally = Tally::new();
    while !phase.is(STOPPED) {
        if requester.is_done() {
            phase.set(STOPPED);
            break;
        }
        let counts = phase.is(MEASURING);
        let start = Instant::now();
        let done = requester.request().await;
        let payload_bytes = done.inspect_err(|_| phase.set(STOPPED))?;
        if counts {
            phase.count(&mut tally, payload_bytes, start.elapsed());
        }
        if let Some(rest) = requester.afterwards() {
            rest.await;
        }
        // A request that never waits must still let the others and the timer run.
        tokio::task::coop::consume_budget().await;
    }
    Ok(tally)
}

#[cfg(test)]
mod tests {
    //! Counting against subjects of known speed, and errors that must not be lost.
    use super::*;

    const LOAD: Load = Load {
        connections_count: 3,
        warm_up: Duration::from_millis(20),
        measure: Duration::from_millis(200),
    };

    struct Sleeper(Duration);

    impl Requester for Sleeper {
        fn request(&mut self) -> Result<u64, BenchError> {
            std::thread::sleep(self.0);
            Ok(10)
        }
    }

    struct Failing;

    impl Requester for Failing {
        fn request(&mut self) -> Result<u64, BenchError> {
            Err(BenchError::Refused)
        }
    }

    impl TaskRequester for Failing {
        fn request(&mut self) -> Pin<Box<dyn Future<Output = Result<u64, BenchError>> + '_>> {
            Box::pin(async { Err(BenchError::Refused) })
        }
    }

    struct Slow(Duration);

    impl TaskRequester for Slow {
        fn request(&mut self) -> Pin<Box<dyn Future<Output = Result<u64, BenchError>> + '_>> {
            Box::pin(async {
                tokio::time::sleep(self.0).await;
                Ok(1)
            })
        }
    }

    struct Busy;

    impl TaskRequester for Busy {
        fn request(&mut self) -> Pin<Box<dyn Future<Output = Result<u64, BenchError>> + '_>> {
            Box::pin(async { Ok(1) })
        }
    }

    fn no_cpu() -> Result<Duration, BenchError> {
        Ok(Duration::ZERO)
    }

    #[test]
    fn requests_are_counted_inside_the_measured_time() {
        let pause = Duration::from_millis(10);
        let sample = drive(&LOAD, |_| Ok(Box::new(Sleeper(pause))), &no_cpu).unwrap();
        // No more than fit into the time one after the other; a loaded machine does fewer.
        let most = 3 * sample.elapsed.as_millis() / pause.as_millis();
        let count = u128::from(sample.requests_count);
        assert!((1..=most).contains(&count), "{sample:?}");
        assert_eq!(sample.payload_bytes, sample.requests_count * 10);
        assert_eq!(sample.latency_ns.len(), sample.requests_count);
        assert!(sample.latency_ns.min() >= 9_900_000);
        assert!(sample.elapsed >= LOAD.measure);
    }

    #[test]
    fn the_error_of_a_connection_ends_the_run() {
        let result = drive(&LOAD, |_| Ok(Box::new(Failing)), &no_cpu);
        assert!(matches!(result, Err(BenchError::Refused)));
        let result = drive_tasks(&LOAD, |_| Ok(Box::new(Failing)), &no_cpu);
        assert!(matches!(result, Err(BenchError::Refused)));
    }

    #[test]
    fn work_with_an_end_is_measured_to_it() {
        let pause = Duration::from_millis(10);
        let sample = to_its_end(&no_cpu, |tally| {
            tally.add(7, Duration::from_millis(1));
            // What comes after the last request counts too.
            std::thread::sleep(pause);
            Ok(())
        });
        let sample = sample.unwrap();
        assert_eq!((sample.requests_count, sample.payload_bytes), (1, 7));
        assert!(sample.elapsed >= pause);
        let failed = to_its_end(&no_cpu, |_| Err(BenchError::Refused));
        assert!(matches!(failed, Err(BenchError::Refused)));
    }

    #[test]
    fn tasks_that_never_wait_still_end() {
        let sample = drive_tasks(&LOAD, |_| Ok(Box::new(Busy)), &no_cpu).unwrap();
        assert!(sample.requests_count > 0);
    }

    #[test]
    fn the_measured_time_lasts_until_a_request_has_counted() {
        let load = Load {
            connections_count: 1,
            warm_up: Duration::ZERO,
            measure: Duration::from_millis(1),
        };
        let pause = Duration::from_millis(50);
        let sample = drive(&load, |_| Ok(Box::new(Sleeper(pause))), &no_cpu).unwrap();
        assert!(sample.requests_count > 0 && sample.elapsed >= pause);
        let slow = |_| Ok(Box::new(Slow(pause)) as Box<dyn TaskRequester>);
        let sample = drive_tasks(&load, slow, &no_cpu).unwrap();
        assert!(sample.requests_count > 0 && sample.elapsed >= pause);
    }

    /// Has a few requests in all, of a millisecond or more each.
    struct Few(Rc<std::cell::Cell<u32>>);

    impl TaskRequester for Few {
        fn request(&mut self) -> Pin<Box<dyn Future<Output = Result<u64, BenchError>> + '_>> {
            self.0.set(self.0.get() - 1);
            Box::pin(async {
                tokio::time::sleep(Duration::from_millis(1)).await;
                Ok(1)
            })
        }

        fn is_done(&mut self) -> bool {
            self.0.get() == 0
        }
    }

    #[test]
    fn tasks_without_more_to_do_end_the_measured_time() {
        let few = Rc::new(std::cell::Cell::new(100));
        let load = Load {
            warm_up: Duration::ZERO,
            measure: Duration::from_secs(3600),
            ..LOAD
        };
        let make = |_| Ok(Box::new(Few(Rc::clone(&few))) as Box<dyn TaskRequester>);
        let sample = drive_tasks(&load, make, &no_cpu).unwrap();
        assert_eq!(few.get(), 0);
        assert!((1..=100).contains(&sample.requests_count), "{sample:?}");
        assert!(sample.elapsed < load.measure);
    }

    /// Counts requests, and what follows them.
    struct Followed(Rc<std::cell::Cell<(u64, u64)>>);

    impl TaskRequester for Followed {
        fn request(&mut self) -> Pin<Box<dyn Future<Output = Result<u64, BenchError>> + '_>> {
            let (requests, rests) = self.0.get();
            assert_eq!(requests, rests, "the one before is over");
            self.0.set((requests + 1, rests));
            Box::pin(async { Ok(1) })
        }

        fn afterwards(&mut self) -> Option<Pin<Box<dyn Future<Output = ()> + '_>>> {
            Some(Box::pin(async {
                tokio::time::sleep(Duration::from_millis(1)).await;
                let (requests, rests) = self.0.get();
                self.0.set((requests, rests + 1));
            }))
        }
    }

    #[test]
    fn what_follows_a_request_ends_before_the_next() {
        let counts = Rc::new(std::cell::Cell::new((0, 0)));
        let load = Load {
            connections_count: 1,
            ..LOAD
        };
        let make = |_| Ok(Box::new(Followed(Rc::clone(&counts))) as Box<dyn TaskRequester>);
        let sample = drive_tasks(&load, make, &no_cpu).unwrap();
        let (requests, rests) = counts.get();
        assert!(sample.requests_count > 0 && requests == rests);
    }

    #[test]
    fn an_empty_load_is_refused() {
        let none = Load {
            connections_count: 0,
            ..LOAD
        };
        let result = drive(&none, |_| Ok(Box::new(Failing)), &no_cpu);
        assert!(matches!(result, Err(BenchError::Setting { .. })));
    }
}
