//! Many data servers or many sessions in one process: the child's side, and the parent's.
//!
//! The child gets a [`Peers`] as one line of JSON, and says `ready` when all are there. For each further line it says what
//! was done since the last one; it ends when its standard input does.

use super::light_ds::{self, LightDs};
use super::session::IdleSession;
use crate::interrupt::Mark;
use crate::load::{self, Tally};
use crate::process::{Launcher, cpu_of_this_process};
use crate::suite::job::Counted;
use crate::{BenchError, nfs::server::Server};
use cluster_tls::JoinToken;
use futures_util::{StreamExt, stream};
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use serde::{Deserialize, Serialize};
use std::cell::RefCell;
use std::io::{self, BufRead, BufReader, Write};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::rc::Rc;
use std::time::{Duration, Instant};
use tokio::sync::mpsc;

/// Data servers that join at the same time.
const JOINS_AT_ONCE: usize = 8;

/// Who is in a process.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(super) enum Peers {
    /// Data servers, each with its token.
    Servers {
        /// The tokens.
        tokens: Vec<String>,
    },
    /// Clients, each with a session that it renews and does nothing else.
    Sessions {
        /// The metadata server.
        server: Server,
        /// How many.
        count: u32,
        /// Number of the first: names and addresses come from it.
        first: u32,
        /// Time between two renewals of a session.
        renew_every_ms: u64,
    },
}

/// What a child says.
#[derive(Debug, Serialize, Deserialize)]
enum Word {
    Ready,
    Done(Counted),
    Failed(String),
}

fn worker<E: std::fmt::Display>(e: E) -> BenchError {
    BenchError::Worker(e.to_string())
}

/// A process with its load. Dropping it ends it.
#[derive(Debug)]
pub(super) struct LoadProcess {
    mark: Option<Mark>,
    child: Child,
    stdin: Option<ChildStdin>,
    stdout: BufReader<ChildStdout>,
}

impl LoadProcess {
    /// Starts one and waits until all are there.
    pub(super) fn start(launcher: &Launcher, peers: &Peers) -> Result<Self, BenchError> {
        let mut child = Command::new(&launcher.program)
            .args(&launcher.arguments)
            .arg("load-process")
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .map_err(BenchError::io("start a load process"))?;
        let stdin = child.stdin.take();
        let stdout = child.stdout.take().expect("standard output is a pipe");
        let mut process = Self {
            mark: Some(Mark::new(&child)),
            child,
            stdin,
            stdout: BufReader::new(stdout),
        };
        process.say(&serde_json::to_string(peers).map_err(worker)?)?;
        match process.hear()? {
            Word::Ready => Ok(process),
            _ => Err(worker("a load process speaks out of turn")),
        }
    }

    /// What was done since the last time.
    pub(super) fn report(&mut self) -> Result<Tally, BenchError> {
        self.say("report")?;
        match self.hear()? {
            Word::Done(counted) => Ok(counted.tally()),
            _ => Err(worker("a load process speaks out of turn")),
        }
    }

    fn say(&mut self, line: &str) -> Result<(), BenchError> {
        let stdin = self.stdin.as_mut().expect("there until it is dropped");
        let said = writeln!(stdin, "{line}").and_then(|()| stdin.flush());
        said.map_err(BenchError::io("speak with a load process"))
    }

    fn hear(&mut self) -> Result<Word, BenchError> {
        let mut line = String::new();
        let heard = self.stdout.read_line(&mut line);
        heard.map_err(BenchError::io("hear a load process"))?;
        if line.is_empty() {
            return Err(worker("a load process ended without a word"));
        }
        match serde_json::from_str(&line).map_err(worker)? {
            Word::Failed(why) => Err(worker(why)),
            word => Ok(word),
        }
    }
}

impl Drop for LoadProcess {
    fn drop(&mut self) {
        drop(self.mark.take());
        drop(self.stdin.take());
        // Both fail only when it has gone by itself.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// The hidden command `load-process`.
///
/// # Errors
/// When the parent cannot be told of a failure.
pub(crate) fn run() -> Result<(), BenchError> {
    let mut line = String::new();
    let read = io::stdin().lock().read_line(&mut line);
    read.map_err(BenchError::io("read the job"))?;
    let peers: Peers = serde_json::from_str(&line).map_err(worker)?;
    let (sender, asked) = mpsc::channel(1);
    std::thread::spawn(move || {
        for line in io::stdin().lock().lines() {
            if line.is_err() || sender.blocking_send(()).is_err() {
                break;
            }
        }
        // Nobody is left to be served.
        std::process::exit(0);
    });
    raise_files_max();
    let runtime = load::runtime()?;
    let local = tokio::task::LocalSet::new();
    let done = local.block_on(&runtime, async {
        match peers {
            Peers::Servers { tokens } => servers(tokens, asked).await,
            Peers::Sessions {
                server,
                count,
                first,
                renew_every_ms,
            } => {
                let every = Duration::from_millis(renew_every_ms);
                sessions(&server, first..first + count, every, asked).await
            }
        }
    });
    done.or_else(|why| say(&Word::Failed(why.to_string())))
}

/// As many files as the system allows this process.
fn raise_files_max() {
    let now = getrlimit(Resource::Nofile);
    let most = Rlimit {
        current: now.maximum,
        maximum: now.maximum,
    };
    // Connections that then fail say so.
    let _ = setrlimit(Resource::Nofile, most);
}

fn say(word: &Word) -> Result<(), BenchError> {
    let text = serde_json::to_string(word).map_err(worker)?;
    let mut out = io::stdout().lock();
    let said = writeln!(out, "{text}").and_then(|()| out.flush());
    said.map_err(BenchError::io("speak with the parent"))
}

fn report(tally: &RefCell<Tally>, cpu: &mut Duration) -> Result<(), BenchError> {
    let now = cpu_of_this_process()?;
    let used = now.saturating_sub(*cpu);
    *cpu = now;
    let done = tally.replace(Tally::new());
    let cpu_us = u64::try_from(used.as_micros()).unwrap_or(u64::MAX);
    say(&Word::Done(Counted::new(&done, cpu_us, None)))
}

async fn servers(tokens: Vec<String>, mut asked: mpsc::Receiver<()>) -> Result<(), BenchError> {
    let tally = Rc::new(RefCell::new(Tally::new()));
    let (ended, mut end) = mpsc::channel::<String>(1);
    let begin = |text: String| async move {
        let token = JoinToken::parse(&text).map_err(|e| e.to_string())?;
        let ds = LightDs::join(&token).await?;
        let (conn, ok) = ds.say_hello().await?;
        Ok::<_, String>((conn, ok, ds.store_id()))
    };
    let mut begun = stream::iter(tokens)
        .map(begin)
        .buffer_unordered(JOINS_AT_ONCE);
    while let Some(one) = begun.next().await {
        let (conn, ok, store_id) = one.map_err(BenchError::Worker)?;
        let (tally, ended) = (Rc::clone(&tally), ended.clone());
        tokio::task::spawn_local(async move {
            let why = light_ds::beat(conn, ok, store_id, tally).await;
            // One reason is enough.
            let _ = ended.try_send(why);
        });
    }
    say(&Word::Ready)?;
    let mut cpu = cpu_of_this_process()?;
    loop {
        tokio::select! {
            why = end.recv() => return Err(BenchError::Worker(why.unwrap_or_default())),
            more = asked.recv() => match more {
                Some(()) => report(&tally, &mut cpu)?,
                None => return Ok(()),
            },
        }
    }
}

async fn sessions(
    server: &Server,
    numbers: std::ops::Range<u32>,
    every: Duration,
    mut asked: mpsc::Receiver<()>,
) -> Result<(), BenchError> {
    let address = server.socket()?;
    let mut all = numbers
        .map(|number| IdleSession::open(address, number))
        .collect::<Result<Vec<_>, _>>()?;
    say(&Word::Ready)?;
    let tally = RefCell::new(Tally::new());
    let mut cpu = cpu_of_this_process()?;
    let pause = every / u32::try_from(all.len().max(1)).unwrap_or(u32::MAX);
    let mut next = tokio::time::interval(pause.max(Duration::from_micros(1)));
    let mut turn = 0;
    loop {
        tokio::select! {
            _ = next.tick() => {
                let start = Instant::now();
                all[turn].renew()?;
                tally.borrow_mut().add(0, start.elapsed());
                turn = (turn + 1) % all.len();
            }
            more = asked.recv() => match more {
                Some(()) => report(&tally, &mut cpu)?,
                None => return Ok(()),
            },
        }
    }
}
