//! Tables of comparisons that the one with a column for each subject does not suit.

use crate::report::{self, Machine};
use crate::runner::{Comparison, Metric};
use std::fmt::Write as _;

/// Columns of [`servers`].
const COLUMNS: [(&str, Metric); 6] = [
    ("requests_per_s", Metric::RequestsPerSecond),
    ("p50_us", Metric::LatencyP50Us),
    ("p99_us", Metric::LatencyP99Us),
    ("server_cpu_us", Metric::CpuUsPerRequest),
    ("client_cpu_us", Metric::ClientCpuUsPerRequest),
    ("mb_per_s", Metric::MegabytesPerSecond),
];
/// Ours, the first of a comparison.
const OURS: usize = 0;

/// A line for each server, ours first.
pub(super) fn servers(title: &str, comparison: &Comparison, machine: &Machine) -> String {
    let mut text = String::new();
    report::heading(&mut text, title, comparison, machine).expect("a string takes all text");
    let mut header = vec!["server".to_owned()];
    header.extend(COLUMNS.map(|(name, _)| name.to_owned()));
    header.push("rate of ours to it".to_owned());
    let mut lines = vec![header];
    for (index, runs) in comparison.subjects.iter().enumerate() {
        let mut line = vec![runs.name.clone()];
        line.extend(COLUMNS.map(|(_, metric)| report::cell(runs.spread(metric))));
        let ratio = (index != OURS)
            .then(|| comparison.ratio_to(OURS, index, Metric::RequestsPerSecond))
            .flatten();
        line.push(report::cell(ratio));
        lines.push(line);
    }
    report::align(&mut text, &lines);
    text
}

/// A line for each number of data servers: the first subjects create alone, as many more do all, and as many more remove.
pub(super) fn curve(
    title: &str,
    comparison: &Comparison,
    ds_counts: &[u16],
    machine: &Machine,
) -> String {
    let mut text = String::new();
    report::heading(&mut text, title, comparison, machine).expect("a string takes all text");
    let columns = [
        "data servers",
        "create p50_us",
        "to one",
        "create+write+close p50_us",
        "to one",
        "server cpu_us",
        "client cpu_us",
        "removed until clean per_s",
        "to one",
    ];
    let mut rows = vec![columns.map(String::from).to_vec()];
    let step = ds_counts.len();
    for (index, ds_count) in ds_counts.iter().enumerate() {
        let mut row = vec![ds_count.to_string()];
        for base in [0, step] {
            let at = base + index;
            let p50 = Metric::LatencyP50Us;
            row.push(report::cell(comparison.subjects[at].spread(p50)));
            row.push(report::cell(comparison.ratio_to(at, base, p50)));
        }
        for metric in [Metric::CpuUsPerRequest, Metric::ClientCpuUsPerRequest] {
            row.push(report::cell(
                comparison.subjects[step + index].spread(metric),
            ));
        }
        let (at, base) = (2 * step + index, 2 * step);
        let rate = Metric::RequestsPerSecond;
        row.push(report::cell(comparison.subjects[at].spread(rate)));
        row.push(report::cell(comparison.ratio_to(at, base, rate)));
        rows.push(row);
    }
    report::align(&mut text, &rows);
    writeln!(
        text,
        "CPU is that of create+write+close; removed until clean: files with a stripe on every data server, from the first REMOVE until none has anything left"
    )
    .expect("a string takes all text");
    text
}

/// A line for each number of servers: the first subjects are eager, as many more have objects made ahead, and as many more are own data
/// servers.
pub(super) fn creates(
    title: &str,
    comparison: &Comparison,
    servers_counts: &[u16],
    machine: &Machine,
) -> String {
    let mut text = String::new();
    report::heading(&mut text, title, comparison, machine).expect("a string takes all text");
    let columns = [
        "servers",
        "eager p50_us",
        "to one",
        "made ahead p50_us",
        "to one",
        "to eager",
        "own p50_us",
        "to one",
        "made ahead to own",
    ];
    let mut rows = vec![columns.map(String::from).to_vec()];
    let step = servers_counts.len();
    let p50 = Metric::LatencyP50Us;
    for (index, servers_count) in servers_counts.iter().enumerate() {
        let [eager, ahead, own] = [index, step + index, 2 * step + index];
        let latency = |at: usize| report::cell(comparison.subjects[at].spread(p50));
        let ratio = |at, base| report::cell(comparison.ratio_to(at, base, p50));
        rows.push(vec![
            servers_count.to_string(),
            latency(eager),
            ratio(eager, 0),
            latency(ahead),
            ratio(ahead, step),
            ratio(ahead, eager),
            latency(own),
            ratio(own, 2 * step),
            ratio(ahead, own),
        ]);
    }
    report::align(&mut text, &rows);
    text
}

#[cfg(test)]
mod tests {
    //! The columns of the curve are of the subjects that they name.
    use super::*;
    use crate::process::Launcher;
    use crate::runner::tests::known;
    use std::path::Path;

    fn machine() -> Machine {
        let launcher = Launcher {
            program: "true".into(),
            arguments: Vec::new(),
        };
        Machine::here(Path::new("true"), &launcher)
    }

    /// The cells of each line.
    fn cells(text: &str) -> Vec<Vec<&str>> {
        text.lines()
            .map(|line| {
                let cells = line.split("  ").map(str::trim);
                cells.filter(|cell| !cell.is_empty()).collect()
            })
            .collect()
    }

    #[test]
    fn the_curve_has_creates_lives_and_ends() {
        let (mut comparison, _) = known();
        let (a, b) = (
            comparison.subjects[0].clone(),
            comparison.subjects[1].clone(),
        );
        // Two numbers of data servers; removals at the second are a and so twice as many as b.
        comparison.subjects = vec![a.clone(), a.clone(), b.clone(), b.clone(), b, a];
        let text = curve("Curve", &comparison, &[1, 16], &machine());
        let rows = cells(&text);
        // Behind them is the explanation.
        let [header, one, sixteen, _] = &rows[rows.len() - 4..] else {
            panic!("{text}");
        };
        assert_eq!((one[0], sixteen[0]), ("1", "16"));
        assert_eq!(header[7..], ["removed until clean per_s", "to one"]);
        assert_eq!(one[7..], ["50.0 [25.0 75.0]", "1.00 [1.00 1.00]"]);
        assert_eq!(sixteen[7..], ["100 [50 200]", "2.00 [1.33 4.00]"]);
    }

    #[test]
    fn creates_are_held_against_one_server_and_against_each_other() {
        let (mut comparison, _) = known();
        let slow = |times: u64| {
            let mut runs = comparison.subjects[0].clone();
            for sample in &mut runs.samples {
                sample.latency_ns.clear();
                sample.latency_ns.record(times * 100_000).unwrap();
            }
            runs
        };
        // Eager, made ahead, and own, at one server and at 16.
        comparison.subjects = [2, 24, 1, 3, 1, 2].map(slow).into();
        let text = creates("Creates", &comparison, &[1, 16], &machine());
        let rows = cells(&text);
        let medians = |row: &[&str]| -> Vec<f64> {
            let first = |cell: &&str| cell.split(' ').next().and_then(|word| word.parse().ok());
            row.iter().filter_map(first).collect()
        };
        let [one, sixteen] = &rows[rows.len() - 2..] else {
            panic!("{text}");
        };
        for (row, expected) in [
            (one, [1.0, 200.0, 1.0, 100.0, 1.0, 0.5, 100.0, 1.0, 1.0]),
            (
                sixteen,
                [16.0, 2400.0, 12.0, 300.0, 3.0, 0.13, 200.0, 2.0, 1.5],
            ),
        ] {
            let cells = medians(row);
            assert_eq!(cells.len(), expected.len(), "{text}");
            for (cell, expected) in cells.into_iter().zip(expected) {
                assert!(
                    (cell - expected).abs() <= 0.01 * expected.max(1.0),
                    "{text}"
                );
            }
        }
    }
}
