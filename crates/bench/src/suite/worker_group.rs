//! The parent's side of a run: workers as processes of their own, that start each phase together.
//!
//! # Failure
//! One worker that fails, or says something out of turn, ends the run: dropping the group ends all its workers.

use super::files::Bypass;
use super::job::{GO, Job, Said};
use crate::BenchError;
use crate::interrupt::Mark;
use crate::load::Tally;
use crate::net::NameSpace;
use crate::process::Launcher;
use std::io::{self, BufRead, BufReader, Read, Write};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::time::{Duration, Instant};

/// Longest line of a worker: a histogram of a phase.
const LINE_BYTES_MAX: u64 = 4 << 20;

/// A worker, as the parent sees it.
pub(crate) trait Member {
    /// Its next message.
    fn hear(&mut self) -> Result<Said, BenchError>;
    /// Lets it go on.
    fn go(&mut self) -> io::Result<()>;
}

/// A worker in a process of its own.
#[derive(Debug)]
pub(crate) struct Process {
    mark: Option<Mark>,
    child: Child,
    stdin: ChildStdin,
    stdout: BufReader<ChildStdout>,
}

impl Process {
    /// Starts a worker in a namespace, or where this process is.
    pub(crate) fn start(
        launcher: &Launcher,
        job: &Job,
        space: Option<&NameSpace>,
    ) -> Result<Self, BenchError> {
        let inside = space.map(NameSpace::enter).transpose()?;
        let doing = BenchError::io("start a load generator");
        let mut child = Command::new(&launcher.program)
            .args(&launcher.arguments)
            .arg("worker")
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .map_err(&doing)?;
        drop(inside);
        let stdin = child.stdin.take().expect("standard input is a pipe");
        let stdout = child.stdout.take().expect("standard output is a pipe");
        let mut process = Self {
            mark: Some(Mark::new(&child)),
            child,
            stdin,
            stdout: BufReader::new(stdout),
        };
        let job = serde_json::to_string(job).map_err(|e| doing(e.into()))?;
        process.line(&job).map_err(doing)?;
        Ok(process)
    }

    fn line(&mut self, text: &str) -> io::Result<()> {
        self.stdin.write_all(format!("{text}\n").as_bytes())?;
        self.stdin.flush()
    }
}

impl Member for Process {
    fn hear(&mut self) -> Result<Said, BenchError> {
        let doing = BenchError::io("hear a load generator");
        let mut line = String::new();
        let mut limited = (&mut self.stdout).take(LINE_BYTES_MAX);
        limited.read_line(&mut line).map_err(&doing)?;
        if line.is_empty() {
            return Err(BenchError::Worker("it ended without a word".to_owned()));
        }
        serde_json::from_str(&line).map_err(|e| doing(e.into()))
    }

    fn go(&mut self) -> io::Result<()> {
        self.line(GO)
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        drop(self.mark.take());
        // Both fail only when it has gone by itself.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// A phase of a run, all workers together.
#[derive(Debug, Clone)]
pub(crate) struct Phase {
    /// Its name.
    pub(crate) name: String,
    /// What was done.
    pub(crate) tally: Tally,
    /// From the start of the first worker to the end of the last one.
    pub(crate) elapsed: Duration,
    /// CPU time of the workers.
    pub(crate) client_cpu: Duration,
    /// How their reads were kept from the page cache of this machine, where that had to be: the worse way when there were several.
    pub(crate) bypass: Option<Bypass>,
}

/// What happens around phases.
pub(crate) trait Around {
    /// All workers are ready for a phase.
    fn before(&mut self, phase: &str) -> Result<(), BenchError>;
    /// All workers have done a phase; the time goes on until this returns.
    fn after(&mut self, phase: &str) -> Result<(), BenchError>;
}

/// Leads a group of workers through all its phases.
pub(crate) fn lead<M: Member>(
    members: &mut [M],
    around: &mut dyn Around,
) -> Result<Vec<Phase>, BenchError> {
    let mut phases = Vec::new();
    loop {
        match together(members)? {
            Together::Waiting => go(members)?,
            Together::End => return Ok(phases),
            Together::Done(_) => return Err(out_of_turn()),
            Together::Ready(name) => {
                around.before(&name)?;
                let start = Instant::now();
                go(members)?;
                let (tally, client_cpu, bypass) = loop {
                    match together(members)? {
                        Together::Waiting => go(members)?,
                        Together::Done(done) => break done,
                        Together::Ready(_) | Together::End => return Err(out_of_turn()),
                    }
                };
                around.after(&name)?;
                let elapsed = start.elapsed();
                phases.push(Phase {
                    name,
                    tally,
                    elapsed,
                    client_cpu,
                    bypass,
                });
            }
        }
    }
}

/// What all workers said.
enum Together {
    Ready(String),
    Done((Tally, Duration, Option<Bypass>)),
    Waiting,
    End,
}

/// One message of each worker; they must agree.
fn together<M: Member>(members: &mut [M]) -> Result<Together, BenchError> {
    let mut all: Option<Together> = None;
    for member in members {
        let said = match member.hear()? {
            Said::Failed(why) => return Err(BenchError::Worker(why)),
            Said::Ready(name) => Together::Ready(name),
            Said::Waiting => Together::Waiting,
            Said::End => Together::End,
            Said::Done(counted) => {
                let cpu = Duration::from_micros(counted.cpu_us);
                Together::Done((counted.tally(), cpu, counted.bypass))
            }
        };
        all = Some(match (all, said) {
            (None, said) => said,
            (Some(Together::Ready(a)), Together::Ready(b)) if a == b => Together::Ready(a),
            (Some(Together::Waiting), Together::Waiting) => Together::Waiting,
            (Some(Together::End), Together::End) => Together::End,
            (Some(Together::Done(mut sum)), Together::Done((tally, cpu, bypass))) => {
                sum.0.merge(&tally);
                sum.1 += cpu;
                sum.2 = sum.2.max(bypass);
                Together::Done(sum)
            }
            _ => return Err(out_of_turn()),
        });
    }
    all.ok_or(BenchError::Setting {
        name: "the number of workers",
        must_be: "above 0",
    })
}

fn go<M: Member>(members: &mut [M]) -> Result<(), BenchError> {
    for member in members {
        member
            .go()
            .map_err(BenchError::io("speak with a load generator"))?;
    }
    Ok(())
}

fn out_of_turn() -> BenchError {
    BenchError::Worker("the load generators are not at the same place".to_owned())
}
