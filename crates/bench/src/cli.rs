//! The command line of `ropewalk bench`: the experiments, the goals, and the bare servers by themselves.

use crate::bare::ping_pong::{Form, PingPong, Sizes};
use crate::bare::pwrite::PWrite;
use crate::bare::sendfile::SendFile;
use crate::bare::store::{OpenStore, StoreCreates};
use crate::load::Load;
use crate::process::Launcher;
use crate::report::{self, Machine};
use crate::serve::{self, Serve};
use crate::suite::{self, ExperimentCommand};
use crate::{BenchError, Subject, copies, goals, interrupt, mount, pattern, recovery, runner};
use clap::{Args, Subcommand};
use meta::{MemStore, MetaStore};
use std::io::Write;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;
use tempfile::NamedTempFile;

/// A command of the benchmarks.
#[derive(Debug, Subcommand)]
pub enum Command {
    /// The published experiments
    #[command(flatten)]
    Experiment(ExperimentCommand),
    /// Ropewalk itself against the bare servers: the rows that have goals
    Goals(goals::Options),
    /// One copy, two copies, and file systems of others that keep two: write, read, a lost server, repair
    Copies(copies::Options),
    /// What one person feels at a mount: unpack, copy, save, clone; several mounts side by side
    Mount(mount::Options),
    /// How long clients wait for a metadata server that was killed
    Recovery(recovery::Options),
    /// The bare limit of small messages: a thread per connection, and tokio
    PingPong {
        /// How much and how long
        #[command(flatten)]
        options: Options,
        /// The messages
        #[command(flatten)]
        sizes: Sizes,
    },
    /// The bare limit of reads: from the page cache by sendfile
    Read {
        /// How much and how long
        #[command(flatten)]
        options: Options,
        /// The file and its requests
        #[command(flatten)]
        file: FileOptions,
    },
    /// The bare limit of unstable writes: into the page cache
    Write {
        /// How much and how long
        #[command(flatten)]
        options: Options,
        /// The file and its requests
        #[command(flatten)]
        file: FileOptions,
    },
    /// The bare limit of creates: a metadata store; connections are tasks that wait
    Store {
        /// How much and how long
        #[command(flatten)]
        options: Options,
    },
    /// Serve, as the child of another command
    #[command(subcommand, hide = true)]
    Serve(Serve),
    /// Generate load, as the child of another command
    #[command(hide = true)]
    Worker,
    /// Many data servers or sessions, as the child of another command
    #[command(hide = true)]
    LoadProcess,
}

/// How much and how long.
#[derive(Debug, Clone, Args)]
pub struct Options {
    /// Connections, or tasks that wait at the same time
    #[arg(long, default_value_t = 1)]
    pub connections: usize,
    /// Seconds before the measured time
    #[arg(long, default_value_t = 0.5)]
    pub warm_up_seconds: f64,
    /// Measured seconds of each run
    #[arg(long, default_value_t = 2.0)]
    pub seconds: f64,
    /// Runs of each subject
    #[arg(long, default_value_t = runner::ROUNDS_COUNT_DEFAULT)]
    pub rounds: usize,
    /// Write all runs to this file as JSON
    #[arg(long)]
    pub json: Option<PathBuf>,
}

impl Options {
    fn load(&self) -> Result<Load, BenchError> {
        let duration = |name, seconds| {
            Duration::try_from_secs_f64(seconds).map_err(|_| BenchError::Setting {
                name,
                must_be: "a time from 0",
            })
        };
        Ok(Load {
            connections_count: self.connections,
            warm_up: duration("warm-up seconds", self.warm_up_seconds)?,
            measure: duration("seconds", self.seconds)?,
        })
    }
}

/// The file and its requests.
#[derive(Debug, Clone, Args)]
pub struct FileOptions {
    /// Folder of the test file: a tmpfs leaves out the disk
    #[arg(long, default_value = "/dev/shm")]
    pub dir: PathBuf,
    /// Size of the test file
    #[arg(long, default_value_t = 256 * 1024 * 1024)]
    pub file_bytes: u64,
    /// Payload of each request
    #[arg(long, default_value_t = 128 * 1024)]
    pub payload_bytes: u32,
}

impl FileOptions {
    fn make(&self) -> Result<NamedTempFile, BenchError> {
        let file = crate::own::file(&self.dir).map_err(BenchError::io("make the test file"))?;
        pattern::write(file.as_file(), self.file_bytes)?;
        Ok(file)
    }
}

/// Runs a command and writes its table to `out`. `launcher` leads back to [`Command`], for children.
///
/// # Errors
/// Whatever kept the command from being a measurement.
pub fn run(command: Command, launcher: &Launcher, out: &mut dyn Write) -> Result<(), BenchError> {
    let this = launcher;
    let launcher = this.clone();
    if !matches!(
        command,
        Command::Worker | Command::LoadProcess | Command::Serve(_)
    ) {
        interrupt::watch()?;
    }
    match command {
        Command::Experiment(command) => suite::run(command, &launcher, out),
        Command::Worker => suite::worker::run(),
        Command::LoadProcess => suite::scale::load_process::run(),
        Command::Serve(serve) => serve::run(serve).map_err(BenchError::io("serve")),
        Command::Goals(options) => goals::run(&options, &launcher, out),
        Command::Copies(options) => copies::run(&options, &launcher, out),
        Command::Mount(options) => mount::run(&options, &launcher, out),
        Command::Recovery(options) => recovery::run(&options, &launcher, out),
        Command::PingPong { options, sizes } => {
            let subject = |form| -> Box<dyn Subject> {
                let launcher = launcher.clone();
                Box::new(PingPong {
                    launcher,
                    form,
                    sizes,
                })
            };
            let bare = vec![subject(Form::Thread), subject(Form::Tokio)];
            compare("TCP ping-pong", bare, &options, this, out)
        }
        Command::Read { options, file } => {
            let made = file.make()?;
            let bare: Box<dyn Subject> = Box::new(SendFile {
                launcher,
                path: made.path().to_owned(),
                size_bytes: file.file_bytes,
                read_bytes: file.payload_bytes,
            });
            compare("Reads from the page cache", vec![bare], &options, this, out)
        }
        Command::Write { options, file } => {
            let made = file.make()?;
            let bare: Box<dyn Subject> = Box::new(PWrite {
                launcher,
                path: made.path().to_owned(),
                size_bytes: file.file_bytes,
                write_bytes: file.payload_bytes,
            });
            compare("Unstable writes", vec![bare], &options, this, out)
        }
        Command::Store { options } => {
            let open = || {
                let store: Arc<dyn MetaStore> = Arc::new(MemStore::new());
                Ok(Box::new(store) as Box<dyn OpenStore>)
            };
            let bare: Box<dyn Subject> = Box::new(StoreCreates::new("memory", Box::new(open)));
            compare("Durable creates", vec![bare], &options, this, out)
        }
    }
}

fn compare(
    title: &str,
    mut subjects: Vec<Box<dyn Subject>>,
    options: &Options,
    launcher: &Launcher,
    out: &mut dyn Write,
) -> Result<(), BenchError> {
    let load = options.load()?;
    let rounds = options.rounds;
    let mut progress = |round, name: &str| {
        eprintln!("round {} of {rounds}: {name}", round + 1);
    };
    let comparison = runner::compare(&mut subjects, &load, rounds, &mut progress)?;
    let machine = Machine::here(&launcher.program, launcher);
    if let Some(path) = &options.json {
        report::write_json(path, &report::json(title, &comparison, &machine))?;
    }
    out.write_all(report::table(title, &comparison, &machine).as_bytes())
        .map_err(BenchError::io("write the table"))
}
