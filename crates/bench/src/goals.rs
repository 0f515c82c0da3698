//! The rows that the project has set itself goals for, each measured against its bare server, or another server, in one comparison.
//!
//! The goals stand in one [`table`], `docs/goals.toml`. [`Row`] names its rows. Each row plans [`trial`]s: comparisons of several
//! subjects. [`run`] plays them and prints each comparison. At the end it prints a line for each goal: the ratio, its spread, and
//! whether it is met. Some rows show ratios without a goal too.

mod beside;
mod copies;
mod creates;
mod data;
mod foreign;
mod links;
mod looks;
mod metadata;
mod older;
mod peers;
mod rdma;
mod table;
mod trial;
mod watched;

use crate::load::Load;
use crate::nfs::metadata::Operation;
use crate::process::Launcher;
use crate::report::{self, Machine};
use crate::runner::{self, Comparison};
use crate::{BenchError, Subject};
use clap::{Args, ValueEnum};
use peers::Peers;
use serde::Deserialize;
use serde_json::json;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::time::Duration;
use table::{Goal, Table};
use trial::{Ground, Trial, Verdict};

/// Size of the files that are read and written, and of those of `--quick`.
const FILE_BYTES: u64 = 256 * 1024 * 1024;
const FILE_BYTES_QUICK: u64 = 16 * 1024 * 1024;
/// A row in memory is measured here: a tmpfs leaves out the disk.
const MEMORY_DIR: &str = "/dev/shm";
/// Seconds and rounds of `--quick`.
const QUICK_SECONDS: f64 = 0.5;
const QUICK_ROUNDS: usize = 2;

/// One row.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Row {
    /// READ from the page cache against sendfile
    Read,
    /// Unstable WRITE into a tmpfs against recv and pwrite
    Write,
    /// FILE_SYNC4 WRITE at a data server beside nfs-ganesha, on a disk and on a tmpfs
    Stable,
    /// READ and FILE_SYNC4 WRITE of an inline file beside nfs-ganesha, on a disk and on a tmpfs
    Inline,
    /// CREATE, SETATTR, RENAME and REMOVE one at a time beside nfs-ganesha, on a disk and on a tmpfs
    Changes,
    /// GETATTR against the TCP ping-pong
    Getattr,
    /// Durable creates, 64 at once, against the bare store
    Create,
    /// Create, first write to every stripe, close, and remove until clean: 1 to 16 data servers
    Stripes,
    /// Create with a layout: 1 to 16 NFSv3 servers of others, eager and made ahead, and as many own data servers
    ForeignCreates,
    /// Create, write 4 KiB, close: by a layout and through the metadata server
    Small,
    /// The client library on a file over four data servers, against as many bare streams
    Client,
    /// Streams over links of 500 Mbit/s, as root: eight data servers against one, and one stream against the line
    Link,
    /// Two copies of data against one, on a tmpfs and on a disk
    Copies,
    /// The same over links of 200 Mbit/s, and filling of an idle place against the line, as root
    CopiesLink,
    /// How long writes wait when a data server is killed or stopped, with two copies
    Failover,
    /// Metadata and data beside nfs-ganesha, all in memory
    Peer,
    /// NFSv3 through the metadata server beside nfs-ganesha's, all in memory
    V3,
    /// What the metadata server takes to pass on data of NFSv3, against what the data server takes
    V3Proxy,
    /// One to five clients of NFSv3, each behind a link of a tenth of the servers', as root
    V3Clients,
    /// GETATTR while somebody follows the dashboard and scrapes the metrics, and a scrape with 1,000 clients
    Watched,
    /// Metadata operations with 1, 16 and 64 outstanding, against nfs-ganesha and the bare servers
    Metadata,
    /// READ 128 KiB, 16 connections, over software iWARP with and without checksums, against TCP
    RdmaRead,
    /// GETATTR at one connection over software iWARP, against TCP
    RdmaGetattr,
    /// Durable creates, 64 at once, over software iWARP, against the bare store
    RdmaCreate,
    /// `stripes` over software iWARP
    RdmaStripes,
    /// Eight clients with four requests each, over software iWARP, beside 100 and beside 10,000 idle sessions, and what these take
    RdmaIdle,
    /// From connecting to the first answer over software iWARP, against TCP
    RdmaReconnect,
}

/// What to measure and how long.
#[derive(Debug, Clone, Args)]
pub struct Options {
    /// Rows to measure; all when none is named
    #[arg(value_enum)]
    pub rows: Vec<Row>,
    /// The program under test [default: the one beside this program]
    #[arg(long, value_name = "PATH")]
    pub ropewalk: Option<PathBuf>,
    /// Folder of clusters and files [default: a tmpfs; for `create` a disk, see --disk-dir]
    #[arg(long)]
    pub dir: Option<PathBuf>,
    /// Folder of the stores of `create`, of `stable`, `inline`, `changes` and `copies`, and of the file system of `metadata`, unless --dir is given
    #[arg(long, default_value = "/var/tmp")]
    pub disk_dir: PathBuf,
    /// Keep metadata and objects of the cluster in memory (`getattr`, `stripes`, `foreign-creates`, `small`)
    #[arg(long)]
    pub memory: bool,
    /// Print the goals of the rows, and measure nothing
    #[arg(long)]
    pub list: bool,
    /// Operations of `metadata`, several with commas; all when none is named
    #[arg(long, value_enum, value_delimiter = ',')]
    pub operation: Vec<Operation>,
    /// Requests of `metadata` that wait at the same time, several with commas [default: 1,16,64]
    #[arg(long, value_delimiter = ',')]
    pub outstanding: Vec<usize>,
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

/// What rows plan for.
struct Planning<'a> {
    table: &'a Table,
    options: &'a Options,
    peers: Peers,
    has_links: bool,
}

impl Planning<'_> {
    fn file_bytes(&self) -> u64 {
        self.pick(FILE_BYTES, FILE_BYTES_QUICK)
    }

    /// The full or the quick value.
    fn pick<T>(&self, full: T, quick: T) -> T {
        if self.options.quick { quick } else { full }
    }

    fn trials(&self, row: Row) -> Vec<Trial> {
        match row {
            Row::Read => data::read(self),
            Row::Write => data::write(self),
            Row::Stable => data::stable(self),
            Row::Inline => data::inline(self),
            Row::Changes => peers::changes(self),
            Row::Getattr => metadata::getattr(self),
            Row::Create => creates::durable(self),
            Row::Stripes => creates::stripes(self, Row::Stripes),
            Row::ForeignCreates => foreign::creates(self),
            Row::Small => creates::small(self),
            Row::Client => data::client(self),
            Row::Link => links::trials(self),
            Row::Copies => copies::ratios(self),
            Row::CopiesLink => copies::over_links(self),
            Row::Failover => copies::failover(self),
            Row::Peer => peers::in_memory(self),
            Row::V3 => older::beside_ganesha(self),
            Row::V3Proxy => older::passed_on(self),
            Row::V3Clients => older::clients(self),
            Row::Watched => watched::trials(self),
            Row::Metadata => metadata::on_a_disk(self),
            Row::RdmaRead => rdma::read(self),
            Row::RdmaGetattr => rdma::getattr(self),
            Row::RdmaCreate => rdma::create(self),
            Row::RdmaStripes => creates::stripes(self, Row::RdmaStripes),
            Row::RdmaIdle => rdma::idle(self),
            Row::RdmaReconnect => rdma::reconnect(self),
        }
    }
}

/// All that trials need to be played.
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
    let table = Table::load();
    let rows = match options.rows.as_slice() {
        [] => Row::value_variants(),
        some => some,
    };
    let goals: Vec<Goal> = rows
        .iter()
        .flat_map(|row| table.of(*row))
        .cloned()
        .collect();
    if options.list {
        let verdicts: Vec<Verdict> = goals.iter().map(Verdict::unmeasured).collect();
        return print(out, &lines(&verdicts));
    }
    let program = &launcher.ropewalk(options.ropewalk.as_ref())?;
    let bench = Bench {
        options,
        launcher,
        program: program.clone(),
        machine: Machine::here(program, launcher),
    };
    let mut verdicts: Vec<Verdict> = Vec::new();
    let mut comparisons = Vec::new();
    for row in rows {
        let row_goals: Vec<Goal> = table.of(*row).cloned().collect();
        bench.row(*row, &table, &row_goals, &mut |measured| {
            print(out, &format!("{}\n", measured.text))?;
            let (title, comparison) = (&measured.title, &measured.comparison);
            comparisons.push(report::json(title, comparison, &bench.machine));
            verdicts.extend(measured.verdicts);
            Ok(())
        })?;
    }
    let is_answered = |goal: &&Goal| verdicts.iter().any(|v| v.goal.as_ref() == Some(goal));
    let missing: Vec<Verdict> = goals
        .iter()
        .filter(|goal| !is_answered(goal))
        .map(Verdict::unmeasured)
        .collect();
    verdicts.extend(missing);
    print(out, &lines(&verdicts))?;
    let Some(path) = &options.json else {
        return Ok(());
    };
    let value = json!({
        "goals": verdicts.iter().map(Verdict::json).collect::<Vec<_>>(),
        "comparisons": comparisons,
    });
    report::write_json(path, &value)
}

/// The last table: what was measured, and how many goals are met.
fn lines(verdicts: &[Verdict]) -> String {
    let header = ["what", "metric", "goal", "ratio", "verdict"].map(String::from);
    let mut rows = vec![header.to_vec()];
    rows.extend(verdicts.iter().map(Verdict::cells));
    let mut text = String::new();
    report::align(&mut text, &rows);
    let [met, missed, unmeasured] = trial::count(verdicts);
    text += &format!("goals: {met} met, {missed} missed, {unmeasured} not measured\n");
    text
}

fn print(out: &mut dyn Write, text: &str) -> Result<(), BenchError> {
    out.write_all(text.as_bytes())
        .and_then(|()| out.flush())
        .map_err(BenchError::io("write the table"))
}

impl Bench<'_> {
    /// Measures a row and hands on what it has measured, comparison by comparison.
    fn row(
        &self,
        row: Row,
        table: &Table,
        goals: &[Goal],
        done: &mut dyn FnMut(trial::Measured) -> Result<(), BenchError>,
    ) -> Result<(), BenchError> {
        let disk = match row {
            Row::Metadata => metadata::disk(&self.dir(Ground::Disk))?,
            _ => None,
        };
        let planning = Planning {
            table,
            options: self.options,
            peers: match row {
                Row::Metadata | Row::Peer | Row::Stable | Row::Inline | Row::Changes => {
                    Peers::find(disk.is_some())
                }
                Row::V3 => older::find(),
                _ => Peers::default(),
            },
            has_links: matches!(
                row,
                Row::Link | Row::CopiesLink | Row::Failover | Row::V3Clients
            ) && links::can_be_made(),
        };
        for trial in planning.trials(row) {
            let dir = match &disk {
                Some(disk) => disk.path().to_owned(),
                None => self.dir(trial.ground),
            };
            done(self.play(trial, goals, dir)?)?;
        }
        Ok(())
    }

    fn dir(&self, ground: Ground) -> PathBuf {
        let default = match ground {
            Ground::Tmpfs => Path::new(MEMORY_DIR),
            Ground::Disk => &self.options.disk_dir,
        };
        let dir = self.options.dir.as_deref();
        dir.unwrap_or(default).to_owned()
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
}

#[cfg(test)]
mod tests {
    //! The table of goals and the plans of the rows say the same.
    use super::table::Denominator;
    use super::*;
    use clap::Parser;

    #[derive(Parser)]
    struct Line {
        #[command(flatten)]
        options: Options,
    }

    fn planned(arguments: &[&str]) -> Vec<(Row, Vec<Trial>)> {
        let line = ["goals"].iter().chain(arguments);
        let options = Line::parse_from(line).options;
        let table = Table::load();
        let planning = Planning {
            table: &table,
            options: &options,
            peers: Peers::all(),
            has_links: true,
        };
        let rows = Row::value_variants().iter();
        rows.map(|row| (*row, planning.trials(*row))).collect()
    }

    #[test]
    fn every_goal_is_answered_once() {
        for arguments in [&[][..], &["--quick"]] {
            let planned = planned(arguments);
            for goal in table::tests::all() {
                let trials = planned.iter().filter(|(row, _)| *row == goal.row);
                let answers: usize = trials
                    .flat_map(|(_, trials)| trials)
                    .map(|trial| trial.answers(&goal))
                    .sum();
                assert_eq!(answers, 1, "{arguments:?}: {goal:?}");
            }
        }
    }

    #[test]
    fn goals_beside_the_peer_have_the_raw_limit_that_there_is() {
        let planned = planned(&[]);
        let (_, trials) = planned.iter().find(|(row, _)| *row == Row::Peer).unwrap();
        for trial in trials {
            for claim in &trial.claims {
                let expected = match (claim.shape.operation.as_str(), claim.to) {
                    (_, Denominator::PingPong | Denominator::SendFile | Denominator::PWrite) => {
                        None
                    }
                    ("GETATTR" | "LOOKUP", _) => Some(Denominator::PingPong),
                    ("READ" | "random READ", _) => Some(Denominator::SendFile),
                    ("WRITE" | "random WRITE", _) => Some(Denominator::PWrite),
                    _ => None,
                };
                let raw = claim.raw.map(|(to, _)| to);
                assert_eq!(raw, expected, "{:?}", claim.shape);
            }
        }
    }

    #[test]
    fn claims_are_about_subjects_that_take_part() {
        for (row, trials) in planned(&[]) {
            assert!(!trials.is_empty(), "{row:?}");
            for trial in trials {
                let players_count = trial.players.len();
                for claim in &trial.claims {
                    let named = claim.bases.iter().chain([&claim.ours]);
                    assert!({ named }.all(|n| *n < players_count), "{row:?}");
                    assert!(!claim.bases.is_empty() && !claim.bases.contains(&claim.ours));
                    if let Some((_, raw)) = claim.raw {
                        let others = [claim.ours, claim.bases[0]];
                        assert!(raw < players_count && !others.contains(&raw), "{row:?}");
                        assert_eq!(claim.bases.len(), 1, "{row:?}");
                    }
                    assert_eq!(claim.shape.connections, trial.connections, "{row:?}");
                }
            }
        }
    }
}
