//! The worker's side of a run: it gets its job, does its work, and speaks with its parent by the lines of [`super::job`].
//!
//! A worker ends when its standard input does, so it never outlives its parent.

use super::files::Files;
use super::files::mounted::Mounted;
use super::files::remote::Remote;
use super::job::{GO, Job, Place, Said, Work};
use super::link::Link;
use super::loads::{self, bare, small};
use crate::BenchError;
use crate::load;
use std::io::{self, BufRead, Write};
use tokio::sync::mpsc;

/// Messages of the parent that wait: there is never more than one.
const GO_WAITING_MAX: usize = 2;

/// The hidden command `worker`: does the job that its first line of standard input is.
///
/// # Errors
/// When there is no job, or the parent cannot be told of a failure.
pub(crate) fn run() -> Result<(), BenchError> {
    let doing = BenchError::io("read the job");
    let mut line = String::new();
    io::stdin().lock().read_line(&mut line).map_err(&doing)?;
    let job: Job = serde_json::from_str(&line).map_err(|e| doing(e.into()))?;
    let (sender, go) = mpsc::channel(GO_WAITING_MAX);
    std::thread::spawn(move || {
        for line in io::stdin().lock().lines() {
            if !line.is_ok_and(|line| line == GO) || sender.blocking_send(()).is_err() {
                break;
            }
        }
        // Nobody waits for what is half done.
        std::process::exit(1);
    });
    let say = |said: &Said| {
        let mut line = serde_json::to_string(said).map_err(io::Error::other)?;
        line.push('\n');
        let mut out = io::stdout().lock();
        out.write_all(line.as_bytes())?;
        out.flush()
    };
    execute(&job, Link::new(Box::new(say), go))
}

/// Does a job; what goes wrong with it is told to the parent.
pub(crate) fn execute(job: &Job, mut link: Link) -> Result<(), BenchError> {
    let threads_count = match job.place {
        Place::Url(_) => job.tasks_count,
        // Each of these sees to it itself.
        Place::Dir(_) | Place::Rpc(_) | Place::Bare(_) => 1,
    };
    let runtime = match threads_count {
        0 | 1 => load::runtime()?,
        _ => load::threads_runtime()?,
    };
    let done = runtime.block_on(async {
        match &job.place {
            Place::Dir(dir) => in_folders(job, &Mounted::new(dir.clone()), &mut link).await,
            Place::Url(url) => {
                let remote = Remote::connect(url).await?.with_threads(threads_count);
                in_folders(job, &remote, &mut link).await?;
                remote.end().await
            }
            Place::Rpc(server) => match &job.work {
                Work::Small(work) => small::run_rpc(work, server, &mut link).await,
                _ => Err(BenchError::Setting {
                    name: "the work on the bare RPC program",
                    must_be: "small requests",
                }),
            },
            Place::Bare(servers) => match &job.work {
                Work::Bare(work) => bare::run(work, job, servers, &mut link).await,
                _ => Err(BenchError::Setting {
                    name: "the work on bare servers",
                    must_be: "bare streams",
                }),
            },
        }
    });
    match done {
        Ok(()) => link.say(&Said::End),
        Err(e) => link.say(&Said::Failed(e.to_string())),
    }
}

/// The work, between making and removing the folders of the run.
pub(crate) async fn in_folders<F: Files>(
    job: &Job,
    files: &F,
    link: &mut Link,
) -> Result<(), BenchError> {
    let makes = job.worker == 0;
    if makes {
        files.make_dir(&job.folder).await?;
    }
    link.barrier().await?;
    let own = job.own_folder();
    files.make_dir(&own).await?;
    loads::run(job, files, link).await?;
    files.remove_dir(&own).await?;
    link.barrier().await?;
    if makes {
        files.remove_dir(&job.folder).await?;
    }
    Ok(())
}
