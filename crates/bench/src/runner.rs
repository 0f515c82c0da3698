//! The interleaved runner: several subjects, several rounds, ratios inside each round.
//!
//! Machines drift: other tenants, clocks, heat. So every round runs every subject, every other round in the
//! opposite order, and a ratio is taken between runs of the same round. The result is a median with its
//! smallest and largest value, never a best one.

use crate::load::Load;
use crate::{BenchError, Sample, Subject, interrupt};
use serde_json::Value;

/// Rounds of a published number.
pub const ROUNDS_COUNT_DEFAULT: usize = 5;
/// Most rounds of one comparison.
pub const ROUNDS_COUNT_MAX: usize = 1000;

/// All runs of a comparison.
#[derive(Debug, Clone)]
pub struct Comparison {
    /// What was asked.
    pub load: Load,
    /// The subjects; the first is the one that others are compared with.
    pub subjects: Vec<Runs>,
}

/// The runs of one subject, one per round.
#[derive(Debug, Clone)]
pub struct Runs {
    /// The subject's name.
    pub name: String,
    /// The subject's settings.
    pub settings: Value,
    /// Its runs in the order of the rounds.
    pub samples: Vec<Sample>,
}

/// What is read from a sample.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Metric {
    /// Requests per second.
    RequestsPerSecond,
    /// Payload in 10^6 bytes per second.
    MegabytesPerSecond,
    /// Mean latency in microseconds.
    LatencyMeanUs,
    /// Median latency in microseconds.
    LatencyP50Us,
    /// 99th percentile of latency in microseconds.
    LatencyP99Us,
    /// Server CPU time in microseconds for each request.
    CpuUsPerRequest,
    /// CPU time of the measuring process in microseconds for each request.
    ClientCpuUsPerRequest,
    /// Server CPU time in seconds for 10^9 payload bytes.
    CpuSecondsPerGigabyte,
    /// Percent of the machine's processors that had nothing to do.
    CpuIdlePercent,
    /// Bytes for each request.
    BytesPerRequest,
    /// Resident memory of the metadata server in bytes for each idle session.
    RssBytesPerSession,
    /// The longest latency in seconds: of waits, which are few.
    LongestSeconds,
}

impl Metric {
    /// All of them, in the order of tables.
    pub const ALL: [Self; 12] = [
        Self::RequestsPerSecond,
        Self::MegabytesPerSecond,
        Self::LatencyMeanUs,
        Self::LatencyP50Us,
        Self::LatencyP99Us,
        Self::CpuUsPerRequest,
        Self::ClientCpuUsPerRequest,
        Self::CpuSecondsPerGigabyte,
        Self::CpuIdlePercent,
        Self::BytesPerRequest,
        Self::RssBytesPerSession,
        Self::LongestSeconds,
    ];

    /// Its name in tables and JSON, with the unit.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::RequestsPerSecond => "requests_per_s",
            Self::MegabytesPerSecond => "mb_per_s",
            Self::LatencyMeanUs => "mean_us",
            Self::LatencyP50Us => "p50_us",
            Self::LatencyP99Us => "p99_us",
            Self::CpuUsPerRequest => "server_cpu_us_per_request",
            Self::ClientCpuUsPerRequest => "client_cpu_us_per_request",
            Self::CpuSecondsPerGigabyte => "server_cpu_s_per_gb",
            Self::CpuIdlePercent => "cpu_idle_percent",
            Self::BytesPerRequest => "bytes_per_request",
            Self::RssBytesPerSession => "rss_bytes_per_session",
            Self::LongestSeconds => "longest_s",
        }
    }

    /// Whether it says something about the server's processes, which are known only when they are ours.
    #[must_use]
    pub const fn is_of_the_server(self) -> bool {
        matches!(self, Self::CpuUsPerRequest | Self::CpuSecondsPerGigabyte)
    }

    /// Whether requests have it: nobody looks for the others when a suite runs.
    #[must_use]
    pub const fn is_of_requests(self) -> bool {
        !matches!(self, Self::RssBytesPerSession | Self::LongestSeconds)
    }

    /// Its value in a sample; a sample without requests has no latency and no cost.
    #[must_use]
    #[allow(
        clippy::cast_precision_loss,
        reason = "measurements have far fewer than 52 significant bits"
    )]
    pub fn of(self, sample: &Sample) -> f64 {
        let seconds = sample.elapsed.as_secs_f64();
        let cpu = sample.server_cpu.as_secs_f64();
        let requests = sample.requests_count as f64;
        let bytes = sample.payload_bytes as f64;
        let percentile = |quantile| match sample.latency_ns.is_empty() {
            true => f64::NAN,
            false => sample.latency_ns.value_at_quantile(quantile) as f64 / 1e3,
        };
        match self {
            Self::RequestsPerSecond => requests / seconds,
            Self::MegabytesPerSecond => bytes / seconds / 1e6,
            Self::LatencyMeanUs if sample.latency_ns.is_empty() => f64::NAN,
            Self::LatencyMeanUs => sample.latency_ns.mean() / 1e3,
            Self::LatencyP50Us => percentile(0.5),
            Self::LatencyP99Us => percentile(0.99),
            Self::CpuUsPerRequest => cpu * 1e6 / requests,
            Self::ClientCpuUsPerRequest => sample.client_cpu.as_secs_f64() * 1e6 / requests,
            Self::CpuSecondsPerGigabyte => cpu * 1e9 / bytes,
            Self::CpuIdlePercent => sample.machine_idle.map_or(f64::NAN, |share| share * 100.0),
            Self::BytesPerRequest => bytes / requests,
            Self::LongestSeconds => percentile(1.0) / 1e6,
            Self::RssBytesPerSession => sample.rss_bytes_per_session.unwrap_or(f64::NAN),
        }
    }
}

/// The middle of several runs and how far they lie apart.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Spread {
    /// The middle value, or the mean of the two in the middle.
    pub median: f64,
    /// The smallest.
    pub min: f64,
    /// The largest.
    pub max: f64,
}

impl Spread {
    /// Of the finite values; none when there are none.
    #[must_use]
    pub fn of(values: impl IntoIterator<Item = f64>) -> Option<Self> {
        let mut values: Vec<f64> = values.into_iter().filter(|v| v.is_finite()).collect();
        values.sort_by(f64::total_cmp);
        let (min, max) = (*values.first()?, *values.last()?);
        let upper = values.len() / 2;
        let lower = (values.len() - 1) / 2;
        Some(Self {
            median: f64::midpoint(values[lower], values[upper]),
            min,
            max,
        })
    }
}

impl std::ops::Mul<f64> for Spread {
    type Output = Self;

    /// That of values which are `factor`, from 0, times as large.
    fn mul(self, factor: f64) -> Self {
        Self {
            median: self.median * factor,
            min: self.min * factor,
            max: self.max * factor,
        }
    }
}

impl Runs {
    /// The spread of a metric over the rounds.
    #[must_use]
    pub fn spread(&self, metric: Metric) -> Option<Spread> {
        Spread::of(self.samples.iter().map(|sample| metric.of(sample)))
    }
}

impl Comparison {
    /// The spread of the ratio of a subject to the first one, each taken inside one round.
    #[must_use]
    pub fn ratio(&self, subject: usize, metric: Metric) -> Option<Spread> {
        self.ratio_to(subject, 0, metric)
    }

    /// The same to another subject than the first.
    #[must_use]
    pub fn ratio_to(&self, subject: usize, base: usize, metric: Metric) -> Option<Spread> {
        self.ratio_to_sum(subject, &[base], metric)
    }

    /// The same to what several subjects take together.
    #[must_use]
    pub fn ratio_to_sum(&self, subject: usize, bases: &[usize], metric: Metric) -> Option<Spread> {
        let ours = &self.subjects.get(subject)?.samples;
        let bases: Vec<&[Sample]> = bases
            .iter()
            .map(|base| Some(self.subjects.get(*base)?.samples.as_slice()))
            .collect::<Option<_>>()?;
        Spread::of(ours.iter().enumerate().map(|(round, ours)| {
            let sum: f64 = bases.iter().map(|base| metric.of(&base[round])).sum();
            metric.of(ours) / sum
        }))
    }
}

/// Runs `rounds_count` rounds of all subjects and calls `progress` with round and subject before each run.
///
/// # Errors
/// The first run that failed: half a comparison is none.
pub fn compare(
    subjects: &mut [Box<dyn Subject>],
    load: &Load,
    rounds_count: usize,
    progress: &mut dyn FnMut(usize, &str),
) -> Result<Comparison, BenchError> {
    if rounds_count == 0 || rounds_count > ROUNDS_COUNT_MAX {
        return Err(BenchError::Setting {
            name: "rounds",
            must_be: "from 1 to 1000",
        });
    }
    let mut runs: Vec<Runs> = subjects
        .iter()
        .map(|subject| Runs {
            name: subject.name(),
            settings: subject.settings(),
            samples: Vec::with_capacity(rounds_count),
        })
        .collect();
    for round in 0..rounds_count {
        let mut order: Vec<usize> = (0..subjects.len()).collect();
        if round % 2 == 1 {
            order.reverse();
        }
        for index in order {
            interrupt::check()?;
            progress(round, &runs[index].name);
            let sample = subjects[index].run(load);
            // A signal may have gone to the servers too: what then failed says nothing.
            interrupt::check()?;
            runs[index].samples.push(sample?);
        }
    }
    Ok(Comparison {
        load: *load,
        subjects: runs,
    })
}

#[cfg(test)]
pub(crate) mod tests {
    //! Medians, ratios by round and the order of runs, with subjects whose results are known.
    use super::*;
    use hdrhistogram::Histogram;
    use std::cell::RefCell;
    use std::rc::Rc;
    use std::time::Duration;

    const LOAD: Load = Load {
        connections_count: 1,
        warm_up: Duration::ZERO,
        measure: Duration::from_secs(1),
    };

    /// A subject that makes the given numbers of requests, run by run.
    struct Known {
        name: &'static str,
        requests: Vec<u64>,
        order: Rc<RefCell<String>>,
    }

    impl Subject for Known {
        fn name(&self) -> String {
            self.name.to_owned()
        }

        fn settings(&self) -> Value {
            Value::Null
        }

        fn run(&mut self, _: &Load) -> Result<Sample, BenchError> {
            self.order.borrow_mut().push_str(self.name);
            let requests_count = self.requests.remove(0);
            let mut latency_ns = Histogram::new(3).unwrap();
            latency_ns.record_n(2000, requests_count).unwrap();
            Ok(Sample {
                requests_count,
                payload_bytes: requests_count * 1_000_000,
                elapsed: Duration::from_secs(2),
                latency_ns,
                server_cpu: Duration::from_secs(1),
                client_cpu: Duration::from_millis(500),
                machine_idle: Some(0.25),
                rss_bytes_per_session: Some(8192.0),
            })
        }
    }

    pub(crate) fn known() -> (Comparison, String) {
        let order = Rc::new(RefCell::new(String::new()));
        let subject = |name, requests: &[u64]| {
            Box::new(Known {
                name,
                requests: requests.to_vec(),
                order: Rc::clone(&order),
            }) as Box<dyn Subject>
        };
        let mut subjects = [
            subject("a", &[100, 200, 400]),
            subject("b", &[50, 150, 100]),
        ];
        let mut progress = Vec::new();
        let comparison = compare(&mut subjects, &LOAD, 3, &mut |round, name| {
            progress.push(format!("{name}{round}"));
        });
        assert_eq!(progress.join(" "), "a0 b0 b1 a1 a2 b2");
        let order = order.borrow().clone();
        (comparison.unwrap(), order)
    }

    #[test]
    fn rounds_change_their_order() {
        assert_eq!(known().1, "abbaab");
    }

    #[test]
    fn metrics_come_from_the_sample() {
        let (comparison, _) = known();
        let sample = &comparison.subjects[0].samples[0];
        let values = Metric::ALL.map(|metric| metric.of(sample));
        let expected = [
            50.0,
            50.0,
            2.0,
            2.0,
            2.0,
            10_000.0,
            5_000.0,
            10.0,
            25.0,
            1_000_000.0,
            8192.0,
            0.000_002,
        ];
        assert_eq!(values, expected);
    }

    #[test]
    fn ratios_are_taken_inside_a_round() {
        let (comparison, _) = known();
        let ratio = comparison.ratio(1, Metric::RequestsPerSecond).unwrap();
        let expected = Spread {
            median: 0.5,
            min: 0.25,
            max: 0.75,
        };
        assert_eq!(ratio, expected);
        assert_eq!(comparison.ratio(2, Metric::RequestsPerSecond), None);
        let sum = comparison.ratio_to_sum(1, &[0, 1], Metric::RequestsPerSecond);
        let expected = Spread {
            median: 1.0 / 3.0,
            min: 0.2,
            max: 150.0 / 350.0,
        };
        assert_eq!(sum.unwrap(), expected);
    }

    #[test]
    fn medians_of_odd_and_even_counts() {
        assert_eq!(Spread::of([]), None);
        assert_eq!(Spread::of([f64::NAN]), None);
        assert_eq!(Spread::of([3.0, 1.0, 2.0]).unwrap().median, 2.0);
        assert_eq!(Spread::of([4.0, 1.0, 2.0, 3.0]).unwrap().median, 2.5);
    }

    #[test]
    fn no_rounds_are_refused() {
        let result = compare(&mut [], &LOAD, 0, &mut |_, _| {});
        assert!(matches!(result, Err(BenchError::Setting { .. })));
    }
}
