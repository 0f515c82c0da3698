//! `mount`: what one person feels at a mount. Each piece of work is done by one thread, one call after the other, in a directory
//! that is mounted: unpack an archive, save a file, clone a repository.
//!
//! Several directories are measured side by side, in turn and in changing order. Of NFS mounts the kernel's own counts say
//! how many requests the work took, and how long the servers took to answer them.
//!
//! [`run`] takes directories that this machine has mounted. Without any it starts servers ([`servers`]) and a kernel that
//! mounts all of them ([`guest`]), in which this same command runs with directories. The traffic of one more round is
//! recorded ([`wire`]).
//!
//! May call: the file system, `git` and `sqlite3` where they are there. This machine's own mounts stay as they are.

mod chart;
mod counts;
mod guest;
mod place;
mod relay;
mod report;
mod servers;
mod tree;
mod wire;
mod work;

use crate::process::Launcher;
use crate::report::{Machine, write_json};
use crate::runner::ROUNDS_COUNT_DEFAULT;
use crate::suite::progress::Progress;
use crate::suite::report as reports;
use crate::{BenchError, interrupt};
use clap::Args;
use counts::Counts;
pub use place::Place;
use place::Run;
use report::Measured;
pub use servers::NamedServer;
use servers::Servers;
use std::ffi::OsString;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};
use wire::Recorder;
pub use work::Work;

/// Most rounds.
const ROUNDS_MAX: usize = 1000;
/// Most directories beside each other.
const PLACES_MAX: usize = 8;

/// Longest time of one round in one directory, and of what else a guest does: these end what hangs, and measure nothing.
const ROUND_MAX: Duration = Duration::from_secs(1200);
const BOOT_MAX: Duration = Duration::from_secs(300);

/// The run in the guest that is recorded.
const WIRE_RUN: usize = 1;

/// What to measure and how often.
#[derive(Debug, Clone, Args)]
pub struct Options {
    /// Directories that are mounted, at most 8; the first is what the others are compared with [default: as root, servers are started, and User Mode Linux mounts them]
    #[arg(long, value_name = "[NAME=]DIR")]
    pub mounted: Vec<Place>,
    /// What is started without --mounted
    #[command(flatten)]
    pub start: StartOptions,
    /// Pieces of work, several with commas; all when none is named
    #[arg(long, value_enum, value_delimiter = ',')]
    pub work: Vec<Work>,
    /// Runs of each piece in each directory
    #[arg(long, default_value_t = ROUNDS_COUNT_DEFAULT)]
    pub rounds: usize,
    /// A tenth of the work and one round: to see that everything works, not to measure
    #[arg(long, conflicts_with = "rounds")]
    pub quick: bool,
    /// Directory of the table, plots and a page with both
    #[arg(long, value_name = "DIR")]
    pub out: Option<PathBuf>,
    /// Write all runs to this file as JSON
    #[arg(long, value_name = "FILE")]
    pub json: Option<PathBuf>,
}

/// What is started without `--mounted`.
#[derive(Debug, Clone, Args)]
pub struct StartOptions {
    /// Where the servers that are started keep their data, in folders that go with them
    #[arg(
        long,
        value_name = "DIR",
        default_value = "/var/tmp",
        conflicts_with = "mounted"
    )]
    pub dir: PathBuf,
    /// Data servers of the cluster
    #[arg(long, value_name = "N", default_value_t = 2, value_parser = clap::value_parser!(u16).range(1..=64), conflicts_with = "mounted")]
    pub ds: u16,
    /// Another server beside them, by its URL. A relay carries its connection, which costs each request some time; its data servers are out of reach
    #[arg(
        long,
        value_name = "NAME=nfs://HOST[:PORT]/PATH",
        conflicts_with = "mounted"
    )]
    pub server: Vec<NamedServer>,
    /// Leave out the last round, in which traffic is recorded to see how long servers take
    #[arg(long, conflicts_with = "mounted")]
    pub no_wire: bool,
    /// The program that the cluster is made of [default: the one beside this program]
    #[arg(long, value_name = "PATH", conflicts_with = "mounted")]
    pub ropewalk: Option<PathBuf>,
}

impl Options {
    fn rounds(&self) -> Result<usize, BenchError> {
        match self.rounds {
            _ if self.quick => Ok(1),
            rounds @ 1..=ROUNDS_MAX => Ok(rounds),
            _ => Err(BenchError::Setting {
                name: "--rounds",
                must_be: "between 1 and 1000",
            }),
        }
    }

    /// The work that was asked for, with what it goes on from, in its order.
    fn works(&self) -> Vec<Work> {
        let is_wanted = |work: &Work| {
            let asked = |wanted: &Work| wanted == work || wanted.goes_on_from() == Some(*work);
            self.work.is_empty() || self.work.iter().any(asked)
        };
        let mut works: Vec<Work> = Work::ALL.into_iter().filter(is_wanted).collect();
        works.retain(|work| match work.needs_program() {
            Some(program) if !work::has_program(program) => {
                eprintln!("{}: there is no {program}", work.name());
                false
            }
            _ => true,
        });
        works
    }

    /// The same measurement as arguments, for this program in a guest.
    fn arguments(&self, rounds: usize) -> Vec<OsString> {
        let works: Vec<&str> = self.work.iter().map(|work| work.name()).collect();
        let mut arguments = match self.quick {
            true => vec![OsString::from("--quick")],
            false => vec![format!("--rounds={rounds}").into()],
        };
        if !works.is_empty() {
            arguments.push(format!("--work={}", works.join(",")).into());
        }
        arguments
    }
}

/// Measures, and writes the tables to `out`.
///
/// # Errors
/// Whatever kept a piece of work from being done: none is left out in silence.
pub fn run(options: &Options, launcher: &Launcher, out: &mut dyn Write) -> Result<(), BenchError> {
    options.rounds()?;
    if options.mounted.len().max(options.start.server.len() + 2) > PLACES_MAX {
        return Err(BenchError::Setting {
            name: "the number of directories or servers",
            must_be: "at most 8",
        });
    }
    if let Some(dir) = &options.out {
        reports::folder(dir)?;
    }
    let (measured, machine) = match options.mounted.is_empty() {
        true => beside(options, launcher)?,
        false => {
            let machine = Machine::here(&launcher.program, launcher);
            (in_turn(options)?, machine)
        }
    };
    if let Some(path) = &options.json {
        write_json(path, &measured.json(&machine))?;
    }
    out.write_all(measured.table(&machine).as_bytes())
        .map_err(BenchError::io("write the table"))?;
    match &options.out {
        Some(dir) => chart::write(&measured, &machine, dir, out),
        None => Ok(()),
    }
}

/// Starts servers and a kernel that mounts them, and measures in there.
fn beside(options: &Options, launcher: &Launcher) -> Result<(Measured, Machine), BenchError> {
    guest::need()?;
    let StartOptions {
        dir, ds, server, ..
    } = &options.start;
    let ropewalk = launcher.ropewalk(options.start.ropewalk.as_ref())?;
    let machine = Machine::here(&ropewalk, launcher);
    crate::own::tell_of_left(&[dir]);
    let servers = Servers::start(&servers::Plan {
        launcher,
        ropewalk,
        dir,
        ds_count: *ds,
        others: server,
    })?;
    for word in servers.words() {
        eprintln!("{word}");
    }
    let mut runs = vec![options.arguments(options.rounds)];
    match wire::is_there() {
        _ if options.start.no_wire => {}
        // A round of its own: the recorder takes time from servers and client.
        true => runs.push(options.arguments(1)),
        false => eprintln!("{}: the wire is not looked at", wire::HOW_TO_INSTALL),
    }
    let places_count = servers.exports().len();
    let rounds = u32::try_from((options.rounds()? + 1) * places_count).unwrap_or(u32::MAX);
    let job = guest::Job {
        launcher,
        dir,
        tap: servers::TAP,
        address: (servers::GUEST, servers::NET.bits),
        exports: servers.exports(),
        runs,
        limit: BOOT_MAX + ROUND_MAX.saturating_mul(rounds),
    };
    let mut recorder = None;
    let said = guest::run(&job, |run| {
        if run == WIRE_RUN {
            eprintln!("one more round, which is recorded");
            recorder = Some(Recorder::start(launcher, servers::TAP, servers::GUEST)?);
        }
        Ok(())
    })?;
    let mut measured = Measured::from_json(&said[0]).map_err(BenchError::Guest)?;
    let kernel = said[0]["machine"]["kernel"].as_str().unwrap_or("unknown");
    let client = format!("client: Linux {kernel} (User Mode Linux) on one processor, NFS 4.2");
    let mut words = vec![client];
    words.extend_from_slice(servers.words());
    if let (Some(recorder), Some(said)) = (recorder, said.get(WIRE_RUN)) {
        let seen = recorder.stop();
        let round = Measured::from_json(said).map_err(BenchError::Guest)?;
        measured.hear(&round, &seen.answers, |port| servers.place_of(port));
        if seen.lost_count > 0 {
            let lost = seen.lost_count;
            words.push(format!("the wire: {lost} pieces of it were not recorded"));
        }
    }
    measured.tell(&words, servers.settings());
    Ok((measured, machine))
}

/// Measures in directories that are mounted.
fn in_turn(options: &Options) -> Result<Measured, BenchError> {
    let (rounds, works) = (options.rounds()?, options.works());
    let scale = if options.quick { 10 } else { 1 };
    let places = &options.mounted;
    let mut measured = Measured::new(places.clone(), works.clone());
    let mut progress = Progress::new((rounds * places.len() * works.len()) as u64);
    for round in 0..rounds {
        for turn in 0..places.len() {
            let place = (round + turn) % places.len();
            let dir = crate::own::folder(&places[place].dir)
                .map_err(BenchError::io("make a folder in a directory of --mounted"))?;
            for work in &works {
                interrupt::check()?;
                progress.step(&format!("{}: {}", places[place].name, work.name()));
                measured.add(place, *work, once(*work, dir.path(), scale)?);
            }
            // Closing removes the folder and all that is left in it.
            dir.close().map_err(BenchError::io("remove a folder"))?;
        }
    }
    progress.end();
    Ok(measured)
}

/// Does a piece of work once, and says what it took.
fn once(work: Work, dir: &Path, scale: u32) -> Result<Run, BenchError> {
    work.prepare(dir, scale)?;
    if work.reads_cold() {
        drop_caches();
    }
    let before = Counts::of(dir);
    let (began_ns, began) = (now_ns(), Instant::now());
    work.perform(dir, scale)?;
    let elapsed = began.elapsed();
    let counts = before
        .zip(Counts::of(dir))
        .map(|(before, after)| after.since(&before));
    Ok(Run {
        began_ns,
        elapsed,
        counts,
    })
}

/// Nanoseconds since 1970.
fn now_ns() -> u64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH);
    u64::try_from(since.unwrap_or_default().as_nanos()).unwrap_or(u64::MAX)
}

/// What was read stays in memory unless root asks for it to go; others measure what their cache has.
fn drop_caches() {
    rustix::fs::sync();
    let _unless_root = std::fs::write("/proc/sys/vm/drop_caches", "3");
}

#[cfg(test)]
mod tests {
    //! Goal: every piece of work does what it says on a local file system, and leaves nothing behind.
    use super::*;

    fn options(dir: &Path, work: Vec<Work>) -> Options {
        let place = |name: &str| Place {
            name: name.to_owned(),
            dir: dir.to_owned(),
        };
        Options {
            mounted: vec![place("one"), place("other")],
            start: StartOptions {
                dir: dir.to_owned(),
                ds: 1,
                server: Vec::new(),
                no_wire: false,
                ropewalk: None,
            },
            work,
            rounds: 1,
            quick: true,
            out: None,
            json: Some(dir.join("runs.json")),
        }
    }

    #[test]
    fn all_work_is_done_in_each_directory_and_nothing_stays() {
        let dir = tempfile::tempdir().unwrap();
        let options = options(dir.path(), Vec::new());
        let launcher = Launcher::this_program().unwrap();
        let mut out = Vec::new();
        run(&options, &launcher, &mut out).unwrap();
        let text = String::from_utf8(out).unwrap();
        for work in options.works() {
            assert!(text.contains(work.name()), "{text}");
        }
        let json = std::fs::read(dir.path().join("runs.json")).unwrap();
        let json: serde_json::Value = serde_json::from_slice(&json).unwrap();
        let seconds = &json["places"][1]["work"]["unpack"]["seconds"];
        assert!(seconds[0].as_f64().unwrap() > 0.0, "{json}");
        std::fs::remove_file(dir.path().join("runs.json")).unwrap();
        assert_eq!(std::fs::read_dir(dir.path()).unwrap().count(), 0);
    }

    #[test]
    fn work_brings_along_what_it_goes_on_from() {
        let dir = tempfile::tempdir().unwrap();
        let works = options(dir.path(), vec![Work::Copy]).works();
        assert_eq!(works, [Work::Unpack, Work::Copy]);
        assert_eq!("a=/b".parse::<Place>().unwrap().name, "a");
        assert_eq!("/b".parse::<Place>().unwrap().name, "/b");
        assert!("=/b".parse::<Place>().is_err() && "a=".parse::<Place>().is_err());
    }
}
