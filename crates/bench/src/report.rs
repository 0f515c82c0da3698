//! What a comparison says: a table for people, JSON for programs, both with all that is needed to repeat it.
//!
//! The commit in them is that of the program under test, which has it from when it was built and says it with `--version`.

use crate::BenchError;
use crate::process::{Launcher, memory_bytes};
use crate::runner::{Comparison, Metric, Runs, Spread};
use serde_json::{Map, Value, json};
use std::fmt::Write;
use std::path::Path;
use std::process::{Command, Stdio};

/// Where and of what a measurement was made.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Machine {
    /// Processor model, as the kernel names it.
    pub cpu_model: String,
    /// Processors that this process may use.
    pub cpus_count: usize,
    /// Memory in bytes.
    pub memory_bytes: u64,
    /// Kernel release.
    pub kernel: String,
    /// Congestion control of new TCP connections, as the kernel names it; empty where it does not say. It decides what many
    /// requests on one connection cost, and distributions and providers differ in it.
    pub congestion_control: String,
    /// Commit of the source that the program under test was built from, with `-dirty` when it was changed; none where it does not know.
    pub commit: Option<String>,
    /// The same of the program that measures, where that is another one.
    pub measured_by: Option<String>,
    /// Whether this program was compiled with optimisation.
    pub is_optimised: bool,
}

impl Machine {
    /// This machine, now, with the program under test; what cannot be found out is `unknown` or 0.
    #[must_use]
    pub fn here(program: &Path, launcher: &Launcher) -> Self {
        let path = |path: &Path| path.canonicalize().unwrap_or_else(|_| path.to_owned());
        let is_other = path(program) != path(&launcher.program.with_file_name("ropewalk"));
        let file = |path| std::fs::read_to_string(path).unwrap_or_default();
        let setting = |path| file(path).trim().to_owned();
        Self {
            cpu_model: field(&file("/proc/cpuinfo"), "model name")
                .unwrap_or("unknown")
                .to_owned(),
            cpus_count: std::thread::available_parallelism().map_or(0, usize::from),
            memory_bytes: memory_bytes(&file("/proc/meminfo"), "MemTotal").unwrap_or(0),
            kernel: setting("/proc/sys/kernel/osrelease"),
            congestion_control: setting("/proc/sys/net/ipv4/tcp_congestion_control"),
            commit: commit_of(program),
            measured_by: is_other.then(|| {
                let commit = commit_of(&launcher.program);
                commit.unwrap_or_else(|| "unknown".to_owned())
            }),
            is_optimised: !cfg!(debug_assertions),
        }
    }

    /// In a line for people.
    pub(crate) fn facts(&self) -> String {
        let mut facts = format!(
            "{}, {} CPUs, Linux {}",
            self.cpu_model, self.cpus_count, self.kernel,
        );
        if !self.congestion_control.is_empty() {
            facts += &format!(", TCP {}", self.congestion_control);
        }
        facts += &format!(", commit {}", self.commit.as_deref().unwrap_or("unknown"));
        if let Some(commit) = &self.measured_by {
            facts += &format!(", measured by commit {commit}");
        }
        facts
    }

    /// The same, and a second line where it makes results worthless.
    pub(crate) fn line(&self) -> String {
        let built = if self.is_optimised {
            ""
        } else {
            "\nbuilt without optimisation: not to be published"
        };
        self.facts() + built
    }

    pub(crate) fn json(&self) -> Value {
        json!({
            "cpu_model": self.cpu_model,
            "cpus_count": self.cpus_count,
            "memory_bytes": self.memory_bytes,
            "kernel": self.kernel,
            "congestion_control": self.congestion_control,
            "commit": self.commit,
            "measured_by_commit": self.measured_by,
            "is_optimised": self.is_optimised,
        })
    }
}

/// The value of the first `NAME : VALUE` line.
fn field<'a>(text: &'a str, name: &str) -> Option<&'a str> {
    text.lines()
        .filter_map(|line| line.split_once(':'))
        .find(|(key, _)| key.trim() == name)
        .map(|(_, value)| value.trim())
}

/// What a program says of its commit.
fn commit_of(program: &Path) -> Option<String> {
    let said = Command::new(program)
        .arg("--version")
        .stdin(Stdio::null())
        .stderr(Stdio::null())
        .output()
        .ok()?;
    commit_in(std::str::from_utf8(&said.stdout).ok()?)
}

/// The commit in `ropewalk VERSION (commit COMMIT)`.
fn commit_in(version: &str) -> Option<String> {
    let line = version.lines().next()?;
    let line = line
        .strip_prefix("ropewalk-bench ")
        .or_else(|| line.strip_prefix("ropewalk "))?;
    let (_, commit) = line.split_once(" (commit ")?;
    let commit = commit.strip_suffix(')')?;
    (commit != "unknown").then(|| commit.to_owned())
}

/// The comparison as a table: each cell is a median and, in brackets, the smallest and the largest value. What no subject has is left out.
#[must_use]
pub fn table(title: &str, comparison: &Comparison, machine: &Machine) -> String {
    let mut out = String::new();
    heading(&mut out, title, comparison, machine).expect("a string takes all text");
    let mut rows = vec![vec!["metric".to_owned()]];
    for (index, runs) in comparison.subjects.iter().enumerate() {
        rows[0].push(runs.name.clone());
        if index > 0 {
            rows[0].push("ratio".to_owned());
        }
    }
    let is_known = |metric: &Metric| {
        let mut subjects = comparison.subjects.iter();
        subjects.any(|runs| runs.spread(*metric).is_some())
    };
    for metric in Metric::ALL.into_iter().filter(is_known) {
        let mut row = vec![metric.name().to_owned()];
        for (index, runs) in comparison.subjects.iter().enumerate() {
            row.push(cell(runs.spread(metric)));
            if index > 0 {
                row.push(cell(comparison.ratio(index, metric)));
            }
        }
        rows.push(row);
    }
    align(&mut out, &rows);
    out
}

pub(crate) fn heading(
    out: &mut String,
    title: &str,
    comparison: &Comparison,
    machine: &Machine,
) -> std::fmt::Result {
    let load = &comparison.load;
    let rounds = comparison.subjects.first().map_or(0, |s| s.samples.len());
    writeln!(out, "{title}")?;
    writeln!(
        out,
        "{} connections, {:.1} s measured after {:.1} s, {rounds} rounds; median [smallest largest]",
        load.connections_count,
        load.measure.as_secs_f64(),
        load.warm_up.as_secs_f64(),
    )?;
    writeln!(out, "{}", machine.line())
}

pub(crate) fn cell(spread: Option<Spread>) -> String {
    let Some(Spread { median, min, max }) = spread else {
        return "-".to_owned();
    };
    let digits = digits(median);
    format!("{median:.digits$} [{min:.digits$} {max:.digits$}]")
}

/// The same of a single run, which has no spread.
pub(crate) fn single(spread: Option<Spread>) -> String {
    spread.map_or_else(
        || "-".to_owned(),
        |Spread { median, .. }| format!("{median:.*}", digits(median)),
    )
}

/// Three significant digits or all before the point, whichever is more.
fn digits(value: f64) -> usize {
    match value.abs() {
        v if v >= 100.0 => 0,
        v if v >= 10.0 => 1,
        v if v >= 1.0 => 2,
        _ => 3,
    }
}

pub(crate) fn align(out: &mut String, rows: &[Vec<String>]) {
    let chars = |row: &Vec<String>, column: usize| row[column].chars().count();
    let width = |column: usize| rows.iter().map(|row| chars(row, column)).max().unwrap_or(0);
    let widths: Vec<usize> = (0..rows.first().map_or(0, Vec::len)).map(width).collect();
    for row in rows {
        let mut line = String::new();
        for (text, width) in row.iter().zip(&widths) {
            write!(line, "{text:<width$}  ").expect("a string takes all text");
        }
        out.push_str(line.trim_end());
        out.push('\n');
    }
}

/// The comparison with every single run.
#[must_use]
pub fn json(title: &str, comparison: &Comparison, machine: &Machine) -> Value {
    let load = &comparison.load;
    let subject = |(index, runs): (usize, &Runs)| {
        let ratio = |metric| {
            (index > 0)
                .then(|| comparison.ratio(index, metric))
                .flatten()
        };
        json!({
            "name": runs.name,
            "settings": runs.settings,
            "median": by_metric(|metric| spread_json(runs.spread(metric))),
            "ratio_to_first": by_metric(|metric| spread_json(ratio(metric))),
            "runs": runs.samples.iter().map(|sample| {
                by_metric(|metric| json!(metric.of(sample)))
            }).collect::<Vec<_>>(),
        })
    };
    json!({
        "title": title,
        "machine": machine.json(),
        "command": std::env::args().collect::<Vec<_>>(),
        "load": {
            "connections_count": load.connections_count,
            "warm_up_s": load.warm_up.as_secs_f64(),
            "measure_s": load.measure.as_secs_f64(),
        },
        "subjects": comparison.subjects.iter().enumerate().map(subject).collect::<Vec<_>>(),
    })
}

fn by_metric(value: impl Fn(Metric) -> Value) -> Value {
    let fields = Metric::ALL.map(|metric| (metric.name().to_owned(), value(metric)));
    Value::Object(Map::from_iter(fields))
}

pub(crate) fn spread_json(spread: Option<Spread>) -> Value {
    spread.map_or(
        Value::Null,
        |Spread { median, min, max }| json!({ "median": median, "min": min, "max": max }),
    )
}

pub(crate) fn write_json(path: &Path, value: &Value) -> Result<(), BenchError> {
    std::fs::write(path, format!("{value:#}\n")).map_err(BenchError::io("write the JSON file"))
}

#[cfg(test)]
impl Machine {
    /// One that is the same everywhere.
    pub(crate) fn known() -> Self {
        Self {
            cpu_model: "A processor".to_owned(),
            cpus_count: 2,
            memory_bytes: 1,
            kernel: "6.1".to_owned(),
            congestion_control: "cubic".to_owned(),
            commit: None,
            measured_by: None,
            is_optimised: true,
        }
    }
}

#[cfg(test)]
mod tests {
    //! Both forms of a known comparison.
    use super::*;
    use crate::runner::tests::known;

    fn machine() -> Machine {
        Machine::known()
    }

    #[test]
    fn the_table_shows_medians_spreads_and_ratios() {
        let text = table("Known", &known().0, &machine());
        let lines: Vec<&str> = text.lines().collect();
        assert_eq!(lines[0], "Known");
        assert!(lines[1].contains("1 connections, 1.0 s measured after 0.0 s, 3 rounds"));
        assert_eq!(
            lines[2],
            "A processor, 2 CPUs, Linux 6.1, TCP cubic, commit unknown"
        );
        let words: Vec<&str> = lines[4].split_whitespace().collect();
        let expected = [
            "requests_per_s",
            "100",
            "[50",
            "200]",
            "50.0",
            "[25.0",
            "75.0]",
            "0.500",
            "[0.250",
            "0.750]",
        ];
        assert_eq!(words, expected);
        assert_eq!(lines.len(), 4 + Metric::ALL.len());
        let other = Machine {
            commit: Some("abc".to_owned()),
            measured_by: Some("def-dirty".to_owned()),
            ..machine()
        };
        let text = table("Known", &known().0, &other);
        assert!(text.contains("commit abc, measured by commit def-dirty\n"));
        let slow = Machine {
            is_optimised: false,
            ..machine()
        };
        assert!(table("Known", &known().0, &slow).contains("not to be published"));
    }

    #[test]
    fn json_has_every_run() {
        let value = json("Known", &known().0, &machine());
        assert_eq!(
            value["subjects"][0]["ratio_to_first"]["p50_us"],
            Value::Null
        );
        let second = &value["subjects"][1];
        assert_eq!(second["ratio_to_first"]["requests_per_s"]["median"], 0.5);
        assert_eq!(second["median"]["requests_per_s"]["max"], 75.0);
        assert_eq!(second["runs"].as_array().unwrap().len(), 3);
        assert_eq!(second["runs"][1]["requests_per_s"], 75.0);
        assert_eq!(value["machine"]["commit"], Value::Null);
    }

    #[test]
    fn the_machine_is_found() {
        let launcher = Launcher {
            program: "true".into(),
            arguments: Vec::new(),
        };
        let here = Machine::here(Path::new("ropewalk"), &launcher);
        // Nothing of this name is there, but it is the one that is measured as a rule.
        assert_eq!((&here.commit, &here.measured_by), (&None, &None));
        let other = Machine::here(Path::new("/no/such/program"), &launcher);
        assert_eq!(other.measured_by.as_deref(), Some("unknown"));
        assert!(here.cpus_count > 0);
        assert!(here.memory_bytes > 0);
        assert!(!here.kernel.is_empty());
    }

    #[test]
    fn the_commit_is_what_the_program_says() {
        let of = |text: &str| commit_in(text);
        let text = "ropewalk 0.1.0 (commit 0123456789ab-dirty)\n";
        assert_eq!(of(text).as_deref(), Some("0123456789ab-dirty"));
        for none in [
            "ropewalk 0.1.0 (commit unknown)\n",
            "ropewalk 0.1.0\n",
            "true (commit 0123456789ab)\n",
            "ropewalk 0.1.0 (commit 0123456789ab\n",
            "",
        ] {
            assert_eq!(of(none), None, "{none}");
        }
    }

    #[test]
    fn fields_are_found_by_name() {
        let text = "processor : 0\nmodel name\t: A: B\n";
        assert_eq!(field(text, "model name"), Some("A: B"));
        assert_eq!(field(text, "name"), None);
    }
}
