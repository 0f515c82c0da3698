//! From measurements to costs, and from costs to what other configurations should show.

use super::loads::Kind;
use crate::Sample;
use crate::runner::{Metric, Spread};
use model::{
    ClusterSize, Costs, Demand, Hardware, OperationCost, QueueNetwork, Station, TransferCost,
};
use std::fmt::Write;

/// How far a prediction may be from what is measured.
pub(super) const MISS_MAX: f64 = 0.2;

/// What one repeat has measured to calibrate the model with.
#[derive(Debug, Clone)]
pub(super) struct Calibration {
    /// Memory and CPU (cores) of a metadata server with nobody, the sum over all repeats.
    pub(super) idle: (f64, f64),
    /// So many.
    pub(super) repeats: f64,
    /// Data servers and the memory that they took.
    pub(super) ds: (f64, f64),
    /// Their heartbeats: how many, and the CPU of the metadata server beyond its idle one, in seconds.
    pub(super) heartbeats: (f64, f64),
    /// Sessions and the memory that they took.
    pub(super) sessions: (f64, f64),
    /// Their renewals: how many, and the CPU of the metadata server beyond what there was before, in seconds.
    pub(super) renewals: (f64, f64),
    /// Each kind alone.
    pub(super) operations: Vec<(Kind, Sample)>,
    /// READs of two sizes.
    pub(super) reads: [(u32, Sample); 2],
    /// Durable creates one after another.
    pub(super) durable: Sample,
}

/// A configuration that the model was not calibrated with.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Check {
    /// What it is.
    pub(super) name: String,
    /// The unit.
    pub(super) unit: &'static str,
    /// What the model says.
    pub(super) predicted: f64,
    /// What was measured.
    pub(super) measured: f64,
}

impl Check {
    /// Deviation of the prediction, as a share of what was measured.
    pub(super) fn miss(&self) -> f64 {
        (self.predicted - self.measured) / self.measured
    }
}

#[allow(clippy::cast_precision_loss, reason = "far fewer than 2^52")]
fn operation(sample: &Sample) -> OperationCost {
    OperationCost {
        server_s: Metric::CpuUsPerRequest.of(sample) / 1e6,
        client_s: Metric::ClientCpuUsPerRequest.of(sample) / 1e6,
        wire_bytes: sample.payload_bytes as f64 / sample.requests_count as f64,
    }
}

/// The line through two points: value at 0, and slope.
fn line((x1, y1): (f64, f64), (x2, y2): (f64, f64)) -> (f64, f64) {
    let slope = (y2 - y1) / (x2 - x1);
    // A cost below nothing is noise.
    ((y1 - slope * x1).max(0.0), slope)
}

fn transfer(reads: &[(u32, Sample); 2]) -> TransferCost {
    let [small, large] = reads;
    let through = |metric: Metric| {
        let point = |(bytes, sample): &(u32, Sample)| (f64::from(*bytes), metric.of(sample) / 1e6);
        line(point(small), point(large))
    };
    let (server_request_s, server_byte_s) = through(Metric::CpuUsPerRequest);
    let (client_request_s, client_byte_s) = through(Metric::ClientCpuUsPerRequest);
    TransferCost {
        server_request_s,
        server_byte_s,
        client_request_s,
        client_byte_s,
    }
}

fn add(sum: &mut Sample, other: &Sample) {
    sum.requests_count += other.requests_count;
    sum.payload_bytes += other.payload_bytes;
    sum.elapsed += other.elapsed;
    sum.server_cpu += other.server_cpu;
    sum.client_cpu += other.client_cpu;
    sum.latency_ns
        .add(&other.latency_ns)
        .expect("all histograms have the same bounds");
}

impl Calibration {
    /// Takes another repeat in.
    pub(super) fn add(&mut self, other: &Self) {
        let pairs = [
            (&mut self.idle, &other.idle),
            (&mut self.ds, &other.ds),
            (&mut self.heartbeats, &other.heartbeats),
            (&mut self.sessions, &other.sessions),
            (&mut self.renewals, &other.renewals),
        ];
        for (sum, more) in pairs {
            sum.0 += more.0;
            sum.1 += more.1;
        }
        self.repeats += other.repeats;
        for ((_, sum), (_, more)) in self.operations.iter_mut().zip(&other.operations) {
            add(sum, more);
        }
        for ((_, sum), (_, more)) in self.reads.iter_mut().zip(&other.reads) {
            add(sum, more);
        }
        add(&mut self.durable, &other.durable);
    }

    /// The costs that the model works with.
    pub(super) fn costs(&self) -> Costs {
        let each = |(count, sum): (f64, f64)| if count > 0.0 { sum / count } else { 0.0 };
        let of = |kind: Kind| {
            let found = self.operations.iter().find(|(k, _)| *k == kind);
            found.map_or_else(OperationCost::default, |(_, s)| operation(s))
        };
        let durable = operation(&self.durable);
        let whole_s = Metric::LatencyMeanUs.of(&self.durable) / 1e6;
        Costs {
            idle_bytes: self.idle.0 / self.repeats,
            idle_cores: self.idle.1 / self.repeats,
            session_bytes: each(self.sessions),
            ds_bytes: each(self.ds),
            heartbeat_s: each(self.heartbeats),
            renewal_s: each(self.renewals),
            getattr: of(Kind::GetAttr),
            create: of(Kind::Create),
            layoutget: of(Kind::LayoutGet),
            read: transfer(&self.reads),
            durable,
            sync_s: (whole_s - durable.server_s - durable.client_s).max(0.0),
        }
    }
}

/// Clients and servers that share the processors of one machine, which do `background_cores` of other work.
fn one_machine(demand_s: f64, cores: f64, background_cores: f64) -> QueueNetwork {
    QueueNetwork {
        stations: vec![Station {
            name: "processors",
            servers: cores - background_cores,
            demand_s,
        }],
        delay_s: 0.0,
    }
}

/// Requests per second of a mix on one machine.
pub(super) fn mix_per_s(costs: &Costs, cores: f64, cluster: &ClusterSize, requests: u32) -> f64 {
    let of = |kind| match kind {
        Kind::GetAttr => costs.getattr,
        Kind::Create => costs.create,
        Kind::LayoutGet => costs.layoutget,
    };
    let parts = Kind::ALL.map(|kind| {
        let cost = of(kind);
        kind.share() * (cost.server_s + cost.client_s)
    });
    let background_cores = costs.background_cores(cluster);
    let network = one_machine(parts.iter().sum(), cores, background_cores);
    network.solve(requests).throughput_per_s
}

/// READs per second on one machine.
pub(super) fn reads_per_s(costs: &Costs, cores: f64, bytes: u32, requests: u32) -> f64 {
    let read = &costs.read;
    let each_byte_s = read.server_byte_s + read.client_byte_s;
    let demand_s = read.server_request_s + read.client_request_s + each_byte_s * f64::from(bytes);
    let network = one_machine(demand_s, cores, 0.0);
    network.solve(requests).throughput_per_s
}

/// Syncs that a request waits for when others wait too. A sync is going on when it comes, of which half is left as a
/// rule; then comes its own, which it shares.
const SYNCS_SHARED: f64 = 1.5;

/// Durable creates per second on one machine.
pub(super) fn durable_per_s(costs: &Costs, cores: f64, requests: u32) -> f64 {
    let create = &costs.durable;
    let mut network = one_machine(create.server_s + create.client_s, cores, 0.0);
    let syncs = if requests > 1 { SYNCS_SHARED } else { 1.0 };
    network.delay_s = syncs * costs.sync_s;
    network.solve(requests).throughput_per_s
}

/// A larger machine for each server, as an example.
const HARDWARE: Hardware = Hardware {
    mds_cores: 16.0,
    mds_memory_bytes: 64e9,
    mds_link_bytes_per_s: 12.5e9,
    ds_cores: 16.0,
    ds_link_bytes_per_s: 12.5e9,
};
/// What clients do there, as an example: some names, and a stream of 100 MB/s each.
const DEMAND: Demand = Demand {
    getattr_per_s: 100.0,
    create_per_s: 5.0,
    layoutget_per_s: 5.0,
    read_per_s: 100.0,
    read_bytes: 1e6,
};

/// The costs in words.
pub(super) fn costs_text(costs: &Costs) -> String {
    let us = |s: f64| s * 1e6;
    let operation = |name: &str, cost: &OperationCost| {
        let (server, client) = (us(cost.server_s), us(cost.client_s));
        format!("{name} {server:.1} and {client:.1}")
    };
    let operations = [
        operation("GETATTR", &costs.getattr),
        operation("create", &costs.create),
        operation("LAYOUTGET", &costs.layoutget),
    ];
    let read = &costs.read;
    format!(
        "Costs, from the calibration of all runs: a session {:.1} kB, a data server {:.1} kB; CPU of the metadata server for a heartbeat {:.0} µs, \
         for a renewal {:.0} µs; CPU of server and client, µs: {}; READ {:.1} and {:.1}, for each MiB {:.0} and {:.0} more; a sync {:.0} µs.",
        costs.session_bytes / 1e3,
        costs.ds_bytes / 1e3,
        us(costs.heartbeat_s),
        us(costs.renewal_s),
        operations.join(", "),
        us(read.server_request_s),
        us(read.client_request_s),
        us(read.server_byte_s) * 1_048_576.0,
        us(read.client_byte_s) * 1_048_576.0,
        us(costs.sync_s),
    )
}

/// Where larger clusters end, in words: one line for each size.
pub(super) fn limits_text(costs: &Costs, every: &ClusterSize) -> Vec<String> {
    let sizes = [(100.0, 1_000.0), (1_000.0, 8_000.0), (4_000.0, 32_000.0)];
    let line = |(ds_count, sessions_count): (f64, f64)| {
        let cluster = ClusterSize {
            ds_count,
            sessions_count,
            ..*every
        };
        let mut uses = costs.uses(&HARDWARE, &cluster, &DEMAND);
        uses.sort_by(|a, b| a.clients_max.total_cmp(&b.clients_max));
        let mut text = format!("Model, {ds_count} data servers, {sessions_count} clients:");
        for used in &uses {
            let (name, percent) = (used.resource.name(), used.utilisation * 100.0);
            let most = used.clients_max;
            write!(text, " {name} {percent:.1} % (full at {most:.0} clients);")
                .expect("a string takes all text");
        }
        let ends = uses.first().map_or("nothing", |used| used.resource.name());
        text + " first to end: " + ends
    };
    let mut out: Vec<String> = sizes.into_iter().map(line).collect();
    out.push(format!(
        "The example behind these lines: {} processors, {:.0} GB and a link of {:.1} GB/s at the metadata server, {} processors and {:.1} GB/s at each data server; each client \
         does {} GETATTRs, {} creates, {} LAYOUTGETs and {} READs of {:.0} MB in a second. Heartbeats alone would fill those processors with {:.0} data servers.",
        HARDWARE.mds_cores,
        HARDWARE.mds_memory_bytes / 1e9,
        HARDWARE.mds_link_bytes_per_s / 1e9,
        HARDWARE.ds_cores,
        HARDWARE.ds_link_bytes_per_s / 1e9,
        DEMAND.getattr_per_s,
        DEMAND.create_per_s,
        DEMAND.layoutget_per_s,
        DEMAND.read_per_s,
        DEMAND.read_bytes / 1e6,
        costs.ds_max(&HARDWARE, every),
    ));
    out
}

/// Whether a prediction is near enough: its median over all repeats decides.
pub(super) fn is_within(runs: &[Check]) -> Option<bool> {
    let miss = Spread::of(runs.iter().map(Check::miss))?;
    Some(miss.median.abs() <= MISS_MAX)
}

/// The verdict on all predictions, by name.
pub(super) fn verdict_text(verdicts: &[(&str, bool)]) -> String {
    let missed: Vec<&str> = verdicts
        .iter()
        .filter(|(_, is_within)| !is_within)
        .map(|(name, _)| *name)
        .collect();
    let all = verdicts.len();
    match missed.as_slice() {
        [] => format!("Verdict of the model: met, all {all} predictions are within 20 %."),
        missed => format!(
            "Verdict of the model: MISSED, {} of {all} predictions are not within 20 %: {}.",
            missed.len(),
            missed.join("; ")
        ),
    }
}

/// A check over all repeats, in words.
pub(super) fn check_text(name: &str, unit: &str, runs: &[Check]) -> Option<String> {
    let measured = Spread::of(runs.iter().map(|c| c.measured))?;
    let predicted = Spread::of(runs.iter().map(|c| c.predicted))?;
    let miss = Spread::of(runs.iter().map(Check::miss))?;
    let verdict = match is_within(runs)? {
        true => "within 20 %",
        false => "NOT within 20 %",
    };
    Some(format!(
        "Predicted against measured: {name}: {} against {} {unit}, {:+.1} % [{:+.1} {:+.1}]: {verdict}",
        figure(predicted.median),
        figure(measured.median),
        miss.median * 100.0,
        miss.min * 100.0,
        miss.max * 100.0,
    ))
}

/// Three digits or more.
fn figure(value: f64) -> String {
    match value.abs() {
        v if v >= 100.0 => format!("{value:.0}"),
        v if v >= 1.0 => format!("{value:.2}"),
        _ => format!("{value:.4}"),
    }
}

#[cfg(test)]
mod tests {
    //! Costs of samples that are known, predictions by hand, and verdicts on both sides of the limit.
    use super::*;
    use crate::load::Tally;
    use std::time::Duration;

    fn sample(requests_count: u64, bytes_each: u64, server_us: u64, client_us: u64) -> Sample {
        let mut tally = Tally::new();
        for _ in 0..requests_count {
            tally.add(bytes_each, Duration::from_micros(500));
        }
        Sample {
            requests_count,
            payload_bytes: tally.payload_bytes,
            elapsed: Duration::from_secs(1),
            latency_ns: tally.latency_ns,
            server_cpu: Duration::from_micros(server_us * requests_count),
            client_cpu: Duration::from_micros(client_us * requests_count),
            machine_idle: None,
            rss_bytes_per_session: None,
        }
    }

    fn calibration() -> Calibration {
        Calibration {
            idle: (1e7, 0.002),
            repeats: 1.0,
            ds: (250.0, 5e6),
            heartbeats: (1000.0, 0.05),
            sessions: (2000.0, 6e7),
            renewals: (1000.0, 0.04),
            operations: vec![
                (Kind::GetAttr, sample(10, 400, 10, 10)),
                (Kind::Create, sample(10, 900, 40, 20)),
                (Kind::LayoutGet, sample(10, 500, 20, 10)),
            ],
            reads: [
                (100_000, sample(10, 100_000, 30, 25)),
                (1_000_000, sample(10, 1_000_000, 210, 205)),
            ],
            durable: sample(10, 900, 60, 40),
        }
    }

    fn close(a: f64, b: f64) {
        assert!((a - b).abs() <= 1e-3 * b.abs(), "{a} is not {b}");
    }

    #[test]
    fn costs_are_what_each_took() {
        let costs = calibration().costs();
        close(costs.session_bytes, 30_000.0);
        close(costs.ds_bytes, 20_000.0);
        close(costs.heartbeat_s, 50e-6);
        close(costs.renewal_s, 40e-6);
        close(costs.create.server_s, 40e-6);
        close(costs.layoutget.wire_bytes, 500.0);
        // 180 µs for 900,000 bytes, and 10 µs for the request.
        close(costs.read.server_byte_s, 2e-10);
        close(costs.read.server_request_s, 10e-6);
        // Of 500 µs, 100 are CPU.
        close(costs.sync_s, 400e-6);
    }

    #[test]
    fn repeats_are_added() {
        let mut both = calibration();
        both.add(&calibration());
        let (one, two) = (calibration().costs(), both.costs());
        close(two.idle_bytes, one.idle_bytes);
        close(two.session_bytes, one.session_bytes);
        close(two.getattr.server_s, one.getattr.server_s);
        close(two.read.client_byte_s, one.read.client_byte_s);
        close(two.sync_s, one.sync_s);
    }

    #[test]
    fn a_saturated_machine_does_what_its_processors_can() {
        let costs = calibration().costs();
        let cluster = ClusterSize {
            ds_count: 1000.0,
            sessions_count: 8000.0,
            heartbeat_every_s: 5.0,
            renewal_every_s: 40.0,
        };
        // 6 of 20 µs, 2 of 60, 2 of 30: 30 µs each; 0.02 cores are taken by those who live.
        close(mix_per_s(&costs, 2.0, &cluster, 10_000), 1.98 / 30e-6);
        // 80 µs at 256 KB.
        let each_s = 15e-6 + 256_000.0 * 4e-10;
        close(reads_per_s(&costs, 2.0, 256_000, 10_000), 2.0 / each_s);
        close(durable_per_s(&costs, 2.0, 1), 2000.0);
        // 100 µs of service and one and a half syncs of 400 µs.
        close(durable_per_s(&costs, 1e6, 8), 8.0 / 700e-6);
    }

    #[test]
    fn a_prediction_is_judged_by_its_median() {
        let check = |predicted: f64| Check {
            name: "memory".to_owned(),
            unit: "MB",
            predicted,
            measured: 100.0,
        };
        let text = |runs: &[Check]| check_text("memory", "MB", runs).unwrap();
        let good = text(&[check(119.0), check(300.0), check(81.0)]);
        assert!(
            good.ends_with("119 against 100 MB, +19.0 % [-19.0 +200.0]: within 20 %"),
            "{good}"
        );
        let bad = text(&[check(121.0)]);
        assert!(bad.ends_with("NOT within 20 %"), "{bad}");
        assert_eq!(is_within(&[check(119.0), check(300.0)]), Some(false));
        assert_eq!(is_within(&[]), None);
        let all = verdict_text(&[("a", true), ("b", true)]);
        assert!(
            all.ends_with("met, all 2 predictions are within 20 %."),
            "{all}"
        );
        let some = verdict_text(&[("a", true), ("b", false), ("c", false)]);
        assert!(some.ends_with("MISSED, 2 of 3 predictions are not within 20 %: b; c."));
        assert_eq!(check_text("memory", "MB", &[]), None);
    }

    #[test]
    fn larger_clusters_have_a_first_end() {
        let every = ClusterSize {
            ds_count: 0.0,
            sessions_count: 0.0,
            heartbeat_every_s: 5.0,
            renewal_every_s: 40.0,
        };
        let lines = limits_text(&calibration().costs(), &every);
        assert_eq!(lines.len(), 4);
        assert!(
            lines[..3]
                .iter()
                .all(|line| line.contains("first to end: "))
        );
        assert!(!costs_text(&calibration().costs()).contains("NaN"));
    }
}
