//! The rows that the project has set itself goals for, each measured against its bare server in one comparison.
//!
//! [`Row`] names them; [`run`] measures them and prints, for each, the comparison and then one line with the goal, the
//! ratio with its spread, and whether it is met. The last row is a curve without a goal.

mod rdma;

use crate::bare::ping_pong::{Form, PingPong};
use crate::bare::sendfile::SendFile;
use crate::bare::store::{OpenStore, StoreCreates};
use crate::load::Load;
use crate::nfs::Form as ClientForm;
use crate::nfs::cluster::{self, ClusterOptions};
use crate::nfs::create::Creates;
use crate::nfs::getattr::GetAttrs;
use crate::nfs::read::Reads;
use crate::nfs::server::Transport;
use crate::nfs::stripes::{FirstLives, Part, WRITE_BYTES};
use crate::process::Launcher;
use crate::report::{self, Machine};
use crate::runner::{self, Comparison, Metric, Spread};
use crate::{BenchError, Subject, pattern};
use clap::{Args, ValueEnum};
use meta::MetaStore;
use meta_fjall::FjallStore;
use serde_json::{Value, json};
use std::fmt::Write as _;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;
use tempfile::TempDir;

/// Connections of the READ row.
const READ_CONNECTIONS: usize = 16;
/// Payload of the READ row.
const READ_BYTES: u32 = 128 * 1024;
/// Size of the file that is read, and of the one that `--quick` reads.
const FILE_BYTES: u64 = 256 * 1024 * 1024;
const FILE_BYTES_QUICK: u64 = 16 * 1024 * 1024;
/// Creates that wait at the same time.
const CREATES_COUNT: usize = 64;
/// Data servers of the curve, and of that of `--quick`.
const DS_COUNTS: [u16; 5] = [1, 2, 4, 8, 16];
const DS_COUNTS_QUICK: [u16; 2] = [1, 4];
/// Sizes of the files of `small`: the metadata server wants what is below 32 KiB for itself.
const SMALL_FILES_BYTES: [usize; 3] = [4 * 1024, 16 * 1024, 60 * 1024];
/// A row in memory is read here: a tmpfs leaves out the disk.
const MEMORY_DIR: &str = "/dev/shm";
/// Seconds and rounds of `--quick`.
const QUICK_SECONDS: f64 = 0.5;
const QUICK_ROUNDS: usize = 2;

/// One row.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Row {
    /// READ 128 KiB from the page cache, 16 connections, against sendfile
    Read,
    /// GETATTR at one connection against the TCP ping-pong
    Getattr,
    /// Durable creates, 64 at once, against the bare store
    Create,
    /// Create, first write to every stripe, close: 1 to 16 data servers
    Stripes,
    /// Create, write 4 KiB, close: by a layout and through the metadata server
    Small,
    /// READ 128 KiB, 16 connections, over software iWARP with and without checksums, against TCP
    RdmaRead,
    /// GETATTR at one connection over software iWARP, against TCP
    RdmaGetattr,
    /// Durable creates, 64 at once, over software iWARP, against the bare store
    RdmaCreate,
    /// `stripes` over software iWARP
    RdmaStripes,
}

/// What to measure and how long.
#[derive(Debug, Clone, Args)]
pub struct Options {
    /// Rows to measure; all when none is named
    #[arg(value_enum)]
    pub rows: Vec<Row>,
    /// The program under test [default: this one]
    #[arg(long, value_name = "PATH")]
    pub ropewalk: Option<PathBuf>,
    /// Folder of clusters and files [default: a tmpfs; for `create` a disk, see --disk-dir]
    #[arg(long)]
    pub dir: Option<PathBuf>,
    /// Folder of the stores of `create`, unless --dir is given
    #[arg(long, default_value = "/var/tmp")]
    pub disk_dir: PathBuf,
    /// Keep metadata and objects of the cluster in memory (not `read`, not `create`)
    #[arg(long)]
    pub memory: bool,
    /// Seconds before the measured time
    #[arg(long, default_value_t = 0.5)]
    pub warm_up_seconds: f64,
    /// Measured seconds of each run
    #[arg(long, default_value_t = 2.0)]
    pub seconds: f64,
    /// Runs of each subject
    #[arg(long, default_value_t = runner::ROUNDS_COUNT_DEFAULT)]
    pub rounds: usize,
    /// Short runs, a small file and few data servers: to see that everything works, not to measure
    #[arg(long, conflicts_with_all = ["seconds", "rounds"])]
    pub quick: bool,
    /// Write all runs to this file as JSON
    #[arg(long)]
    pub json: Option<PathBuf>,
}

/// Which side of a number a ratio must lie on.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Goal {
    AtLeast(f64),
    AtMost(f64),
}

impl Goal {
    /// The median decides; the spread is shown beside it.
    fn is_met(self, ratio: Spread) -> bool {
        match self {
            Self::AtLeast(least) => ratio.median >= least,
            Self::AtMost(most) => ratio.median <= most,
        }
    }

    fn text(self) -> String {
        match self {
            Self::AtLeast(least) => format!(">= {least:.2}"),
            Self::AtMost(most) => format!("<= {most:.2}"),
        }
    }
}

/// One line of the last table.
#[derive(Debug, Clone)]
struct Verdict {
    what: String,
    metric: Metric,
    goal: Option<Goal>,
    ratio: Option<Spread>,
}

impl Verdict {
    fn is_met(&self) -> Option<bool> {
        Some(self.goal?.is_met(self.ratio?))
    }

    fn cells(&self) -> Vec<String> {
        vec![
            self.what.clone(),
            self.metric.name().to_owned(),
            self.goal.map_or_else(|| "-".to_owned(), Goal::text),
            report::cell(self.ratio),
            match self.is_met() {
                Some(true) => "met",
                Some(false) => "missed",
                None => "shown",
            }
            .to_owned(),
        ]
    }

    fn json(&self) -> Value {
        json!({
            "what": self.what,
            "metric": self.metric.name(),
            "goal": self.goal.map(Goal::text),
            "ratio": report::spread_json(self.ratio),
            "is_met": self.is_met(),
        })
    }
}

/// A row's comparison, its text, and what it says about the goals.
struct Measured {
    title: String,
    comparison: Comparison,
    text: String,
    verdicts: Vec<Verdict>,
}

/// All that the rows need to know.
struct Bench<'a> {
    options: &'a Options,
    launcher: &'a Launcher,
    program: PathBuf,
    machine: Machine,
}

/// Measures the rows and writes their tables to `out`.
///
/// # Errors
/// Whatever kept a row from being measured. A missed goal is no error.
pub fn run(options: &Options, launcher: &Launcher, out: &mut dyn Write) -> Result<(), BenchError> {
    let bench = Bench {
        options,
        launcher,
        program: options
            .ropewalk
            .as_ref()
            .unwrap_or(&launcher.program)
            .clone(),
        machine: Machine::here(),
    };
    let rows = match options.rows.as_slice() {
        [] => Row::value_variants(),
        some => some,
    };
    let mut all = Vec::new();
    for row in rows {
        let measured = bench.row(*row)?;
        print(out, &format!("{}\n", measured.text))?;
        all.push(measured);
    }
    let verdicts: Vec<&Verdict> = all.iter().flat_map(|row| &row.verdicts).collect();
    let mut table = vec![
        ["what", "metric", "goal", "ratio", "verdict"]
            .map(String::from)
            .to_vec(),
    ];
    table.extend(verdicts.iter().map(|verdict| verdict.cells()));
    let mut text = String::new();
    report::align(&mut text, &table);
    print(out, &text)?;
    if let Some(path) = &options.json {
        let rows = all
            .iter()
            .map(|row| report::json(&row.title, &row.comparison, &bench.machine));
        let value = json!({
            "goals": verdicts.iter().map(|verdict| verdict.json()).collect::<Vec<_>>(),
            "comparisons": rows.collect::<Vec<_>>(),
        });
        report::write_json(path, &value)?;
    }
    Ok(())
}

fn print(out: &mut dyn Write, text: &str) -> Result<(), BenchError> {
    out.write_all(text.as_bytes())
        .and_then(|()| out.flush())
        .map_err(BenchError::io("write the table"))
}

impl Bench<'_> {
    fn row(&self, row: Row) -> Result<Measured, BenchError> {
        match row {
            Row::Read => self.read(),
            Row::Getattr => self.getattr(),
            Row::Create => self.create(),
            Row::Stripes => self.stripes(Transport::Tcp),
            Row::Small => self.small(),
            Row::RdmaRead => self.rdma_read(),
            Row::RdmaGetattr => self.rdma_getattr(),
            Row::RdmaCreate => self.rdma_create(),
            Row::RdmaStripes => self.stripes(Transport::Rdma),
        }
    }

    fn dir(&self, default: &Path) -> PathBuf {
        self.options
            .dir
            .clone()
            .unwrap_or_else(|| default.to_owned())
    }

    fn cluster(&self, dir: PathBuf, ds_count: u16, in_memory: bool) -> ClusterOptions {
        ClusterOptions {
            program: self.program.clone(),
            dir,
            ds_count,
            in_memory,
            transport: Transport::Tcp,
            rdma_crc: true,
        }
    }

    fn compare(
        &self,
        connections_count: usize,
        mut subjects: Vec<Box<dyn Subject>>,
    ) -> Result<Comparison, BenchError> {
        let duration = |name, seconds| {
            Duration::try_from_secs_f64(seconds).map_err(|_| BenchError::Setting {
                name,
                must_be: "a time from 0",
            })
        };
        let Options {
            quick,
            seconds,
            rounds,
            warm_up_seconds,
            ..
        } = *self.options;
        let (seconds, rounds) = if quick {
            (QUICK_SECONDS, QUICK_ROUNDS)
        } else {
            (seconds, rounds)
        };
        let load = Load {
            connections_count,
            warm_up: duration("warm-up seconds", warm_up_seconds)?,
            measure: duration("seconds", seconds)?,
        };
        let mut progress = |round, name: &str| {
            eprintln!("round {} of {rounds}: {name}", round + 1);
        };
        runner::compare(&mut subjects, &load, rounds, &mut progress)
    }

    fn measured(&self, title: String, comparison: Comparison, verdicts: Vec<Verdict>) -> Measured {
        let text = report::table(&title, &comparison, &self.machine);
        Measured {
            title,
            comparison,
            text,
            verdicts,
        }
    }

    fn read(&self) -> Result<Measured, BenchError> {
        let dir = self.dir(Path::new(MEMORY_DIR));
        let size_bytes = if self.options.quick {
            FILE_BYTES_QUICK
        } else {
            FILE_BYTES
        };
        let file = tempfile::Builder::new()
            .prefix("ropewalk-bench-")
            .tempfile_in(&dir)
            .map_err(BenchError::io("make the test file"))?;
        pattern::write(file.as_file(), size_bytes)?;
        let bare = SendFile {
            launcher: self.launcher.clone(),
            path: file.path().to_owned(),
            size_bytes,
            read_bytes: READ_BYTES,
        };
        let ours = |form| -> Box<dyn Subject> {
            Box::new(Reads {
                cluster: self.cluster(dir.clone(), 1, false),
                form,
                size_bytes,
                read_bytes: READ_BYTES,
            })
        };
        let subjects = vec![
            Box::new(bare),
            ours(ClientForm::Wire),
            ours(ClientForm::Session),
        ];
        let comparison = self.compare(READ_CONNECTIONS, subjects)?;
        let verdict = |index, what: &str, goal| Verdict {
            what: format!("READ 128 KiB, 16 connections, to sendfile{what}"),
            metric: Metric::RequestsPerSecond,
            goal,
            ratio: comparison.ratio(index, Metric::RequestsPerSecond),
        };
        let verdicts = vec![
            verdict(1, "", Some(Goal::AtLeast(0.7))),
            verdict(2, ", through session-client", None),
        ];
        let title = format!("READ from the page cache; files on {}", place(&dir));
        Ok(self.measured(title, comparison, verdicts))
    }

    fn getattr(&self) -> Result<Measured, BenchError> {
        let dir = self.dir(Path::new(MEMORY_DIR));
        let ours = GetAttrs {
            cluster: self.cluster(dir.clone(), 1, self.options.memory),
            form: ClientForm::Wire,
        };
        let sizes = ours.sizes()?;
        let bare = |form| -> Box<dyn Subject> {
            Box::new(PingPong {
                launcher: self.launcher.clone(),
                form,
                sizes,
            })
        };
        let subjects = vec![bare(Form::Thread), bare(Form::Tokio), Box::new(ours)];
        let comparison = self.compare(1, subjects)?;
        let verdict = |base, form: &str, goal| Verdict {
            what: format!("GETATTR, 1 connection, to the ping-pong ({form})"),
            metric: Metric::LatencyP50Us,
            goal,
            ratio: comparison.ratio_to(2, base, Metric::LatencyP50Us),
        };
        let verdicts = vec![
            verdict(0, "thread", Some(Goal::AtMost(2.0))),
            verdict(1, "tokio", None),
        ];
        let title = format!(
            "GETATTR, {} and {} bytes; metadata {}",
            sizes.request_bytes,
            sizes.reply_bytes,
            self.kept_in(&dir),
        );
        Ok(self.measured(title, comparison, verdicts))
    }

    fn create(&self) -> Result<Measured, BenchError> {
        let dir = self.dir(&self.options.disk_dir);
        let subjects: Vec<Box<dyn Subject>> = vec![
            bare_creates(&dir),
            Box::new(Creates {
                cluster: self.cluster(dir.clone(), 1, false),
            }),
        ];
        let comparison = self.compare(CREATES_COUNT, subjects)?;
        let verdict = Verdict {
            what: "Durable creates, 64 outstanding, to the bare store".to_owned(),
            metric: Metric::RequestsPerSecond,
            goal: Some(Goal::AtLeast(0.4)),
            ratio: comparison.ratio(1, Metric::RequestsPerSecond),
        };
        let title = format!("Durable creates; stores on {}", place(&dir));
        Ok(self.measured(title, comparison, vec![verdict]))
    }

    fn stripes(&self, transport: Transport) -> Result<Measured, BenchError> {
        let dir = self.dir(Path::new(MEMORY_DIR));
        let ds_counts: &[u16] = if self.options.quick {
            &DS_COUNTS_QUICK
        } else {
            &DS_COUNTS
        };
        let mut subjects: Vec<Box<dyn Subject>> = Vec::new();
        for part in [Part::Create, Part::Whole] {
            for ds_count in ds_counts {
                let cluster = self.cluster(dir.clone(), *ds_count, self.options.memory);
                let cluster = ClusterOptions {
                    transport,
                    ..cluster
                };
                subjects.push(Box::new(FirstLives {
                    cluster,
                    part,
                    write_bytes: WRITE_BYTES,
                }));
            }
        }
        let comparison = self.compare(1, subjects)?;
        let (first, last) = (ds_counts.first(), ds_counts.last());
        let between = format!(
            "{}, {} data servers to {}",
            transport.name(),
            last.unwrap_or(&0),
            first.unwrap_or(&0)
        );
        let step = ds_counts.len();
        let verdict = |from: usize, what: &str| Verdict {
            what: format!("{what}, {between}"),
            metric: Metric::LatencyP50Us,
            goal: None,
            ratio: comparison.ratio_to(from + step - 1, from, Metric::LatencyP50Us),
        };
        let verdicts = vec![
            verdict(0, "Create alone"),
            verdict(step, "Create, first write to every stripe, close"),
        ];
        let title = format!(
            "A file's first life, over {} ({}); everything {}",
            transport.name(),
            transport.provider(),
            self.kept_in(&dir)
        );
        let mut measured = self.measured(title, comparison, verdicts);
        measured.text = curve(&measured, ds_counts, &self.machine);
        Ok(measured)
    }

    fn small(&self) -> Result<Measured, BenchError> {
        let dir = self.dir(Path::new(MEMORY_DIR));
        let mut subjects = Vec::new();
        for write_bytes in SMALL_FILES_BYTES {
            for part in [Part::Whole, Part::Proxied] {
                let cluster = self.cluster(dir.clone(), 1, self.options.memory);
                subjects.push(Box::new(FirstLives {
                    cluster,
                    part,
                    write_bytes,
                }) as Box<dyn Subject>);
            }
        }
        let comparison = self.compare(1, subjects)?;
        let verdicts = SMALL_FILES_BYTES.iter().enumerate().map(|(index, bytes)| {
            let p50 = Metric::LatencyP50Us;
            Verdict {
                what: format!(
                    "A file of {} KiB through the metadata server, to one by a layout",
                    bytes / 1024
                ),
                metric: p50,
                goal: None,
                ratio: comparison.ratio_to(2 * index + 1, 2 * index, p50),
            }
        });
        let verdicts = verdicts.collect();
        let title = format!("Create, write, close; everything {}", self.kept_in(&dir));
        Ok(self.measured(title, comparison, verdicts))
    }

    fn kept_in(&self, dir: &Path) -> String {
        if self.options.memory {
            "in memory".to_owned()
        } else {
            format!("on {}", place(dir))
        }
    }
}

fn place(dir: &Path) -> String {
    format!("{} ({})", dir.display(), cluster::file_system(dir))
}

/// The curve: a line for each number of data servers.
fn curve(measured: &Measured, ds_counts: &[u16], machine: &Machine) -> String {
    let comparison = &measured.comparison;
    let mut text = String::new();
    report::heading(&mut text, &measured.title, comparison, machine)
        .expect("a string takes all text");
    let columns = [
        "data servers",
        "create p50_us",
        "to one",
        "create+write+close p50_us",
        "to one",
        "server cpu_us",
        "client cpu_us",
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
        rows.push(row);
    }
    report::align(&mut text, &rows);
    writeln!(text, "CPU is that of create+write+close").expect("a string takes all text");
    text
}

/// The bare store's side of durable creates.
fn bare_creates(dir: &Path) -> Box<dyn Subject> {
    let dir = dir.to_owned();
    let open = move || {
        let store = TemporaryStore::open(&dir)?;
        Ok(Box::new(store) as Box<dyn OpenStore>)
    };
    Box::new(StoreCreates::new("fjall", Box::new(open)))
}

/// A fjall store in a folder of its own, as the metadata server opens one.
struct TemporaryStore {
    store: Arc<dyn MetaStore>,
    _dir: TempDir,
}

impl TemporaryStore {
    fn open(parent: &Path) -> Result<Self, BenchError> {
        let dir = tempfile::Builder::new()
            .prefix("ropewalk-bench-")
            .tempdir_in(parent)
            .map_err(BenchError::io("make the store's folder"))?;
        let store = FjallStore::open(&dir.path().join("meta"), meta_fjall::Options::default())?;
        Ok(Self {
            store: Arc::new(store),
            _dir: dir,
        })
    }
}

impl OpenStore for TemporaryStore {
    fn store(&self) -> Arc<dyn MetaStore> {
        Arc::clone(&self.store)
    }
}

#[cfg(test)]
mod tests {
    //! Goals are judged by the median, and the store of the bare side is durable.
    use super::*;

    fn verdict(goal: Goal, median: f64) -> Option<bool> {
        let (min, max) = (0.1, 9.0);
        let ratio = Some(Spread { median, min, max });
        let (what, metric) = (String::new(), Metric::LatencyP50Us);
        let verdict = Verdict {
            what,
            metric,
            goal: Some(goal),
            ratio,
        };
        verdict.is_met()
    }

    #[test]
    fn the_median_decides() {
        assert_eq!(verdict(Goal::AtLeast(0.7), 0.7), Some(true));
        assert_eq!(verdict(Goal::AtLeast(0.7), 0.69), Some(false));
        assert_eq!(verdict(Goal::AtMost(2.0), 2.0), Some(true));
        assert_eq!(verdict(Goal::AtMost(2.0), 2.01), Some(false));
    }

    #[test]
    fn the_bare_side_creates_in_fjall() {
        let dir = tempfile::tempdir().unwrap();
        let parent = dir.path().to_owned();
        let open = move || {
            let store = TemporaryStore::open(&parent)?;
            Ok(Box::new(store) as Box<dyn OpenStore>)
        };
        let mut subject = StoreCreates::new("fjall", Box::new(open));
        let load = Load {
            connections_count: 8,
            warm_up: Duration::from_millis(10),
            measure: Duration::from_millis(200),
        };
        let sample = subject.run(&load).unwrap();
        assert!(sample.requests_count > 0);
        assert_eq!(
            std::fs::read_dir(dir.path()).unwrap().count(),
            0,
            "the store is left behind"
        );
    }
}
