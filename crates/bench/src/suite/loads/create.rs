//! Rounds of stat, open-create, chmod and close on new names, in the worker's own directory: what `cp` or `tar` does to each small
//! file. One round is one request.

use super::until::Until;
use crate::BenchError;
use crate::load::Tally;
use crate::suite::files::Files;
use crate::suite::job::Job;
use crate::suite::link::Link;
use crate::suite::work::CreateWork;
use std::time::Instant;

/// Rounds before the measured ones.
const WARM_UP_ROUNDS: u64 = 4;
/// What chmod sets.
const MODE: u32 = 0o600;

pub(crate) async fn run<F: Files>(
    work: &CreateWork,
    job: &Job,
    files: &F,
    link: &mut Link,
) -> Result<(), BenchError> {
    let folder = job.own_folder();
    for n in 0..WARM_UP_ROUNDS {
        let name = format!("{folder}/warm{n}");
        round(files, &name).await?;
        files.remove(&name).await?;
    }
    let rounds = |task| {
        let folder = &folder;
        async move {
            let mut tally = Tally::new();
            let mut until = Until::new(work.rounds_count, work.limit_ms);
            while until.more(tally.requests_count) {
                let name = format!("{folder}/t{task}-{}", tally.requests_count);
                let start = Instant::now();
                round(files, &name).await?;
                tally.add(0, start.elapsed());
            }
            Ok(tally)
        }
    };
    let phase = files.at_once(job.tasks_count, rounds);
    let tallies = link.phase("create", phase).await?;
    for (task, tally) in tallies.iter().enumerate() {
        for n in 0..tally.requests_count {
            files.remove(&format!("{folder}/t{task}-{n}")).await?;
        }
    }
    Ok(())
}

async fn round<F: Files>(files: &F, name: &str) -> Result<(), BenchError> {
    if files.stat(name).await? {
        return Err(BenchError::Setting {
            name: "the folder of the run",
            must_be: "empty at the start",
        });
    }
    let file = files.create(name).await?;
    files.chmod(name, MODE).await?;
    files.close(file).await
}
