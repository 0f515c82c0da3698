//! The operations of mdtest: create, stat, readdir, rename and remove of many files, in one directory of all tasks or in one for each.
//!
//! A phase `write` puts one byte into each file, so that its removal has work at a data server. Readdir counts entries as
//! requests; its latency is that of a whole listing. All other phases count files.

use super::until::Until;
use crate::BenchError;
use crate::load::Tally;
use crate::suite::files::Files;
use crate::suite::job::Job;
use crate::suite::link::Link;
use crate::suite::work::MetadataWork;
use bytes::Bytes;
use std::future::Future;
use std::time::Instant;

/// Names of one task's files.
#[derive(Debug, Clone)]
struct Names {
    folder: String,
    prefix: String,
}

impl Names {
    fn new(work: &MetadataWork, job: &Job, task: u32) -> Self {
        let own = job.own_folder();
        let worker = job.worker;
        if work.one_directory {
            Self {
                folder: format!("{}/all", job.folder),
                prefix: format!("{worker}-{task}-"),
            }
        } else {
            Self {
                folder: format!("{own}/t{task}"),
                prefix: String::new(),
            }
        }
    }

    fn old(&self, n: u64) -> String {
        format!("{}/{}{n}", self.folder, self.prefix)
    }

    fn new_name(&self, n: u64) -> String {
        format!("{}/{}{n}.new", self.folder, self.prefix)
    }
}

pub(crate) async fn run<F: Files>(
    work: &MetadataWork,
    job: &Job,
    files: &F,
    link: &mut Link,
) -> Result<(), BenchError> {
    let names: Vec<Names> = (0..job.tasks_count)
        .map(|task| Names::new(work, job, task))
        .collect();
    let makes_all = work.one_directory && job.worker == 0;
    if makes_all {
        files.make_dir(&names[0].folder).await?;
    } else if !work.one_directory {
        for name in &names {
            files.make_dir(&name.folder).await?;
        }
    }
    link.barrier().await?;
    phases(work, files, &names, link).await?;
    link.barrier().await?;
    if makes_all {
        files.remove_dir(&names[0].folder).await?;
    } else if !work.one_directory {
        for name in &names {
            files.remove_dir(&name.folder).await?;
        }
    }
    Ok(())
}

async fn phases<F: Files>(
    work: &MetadataWork,
    files: &F,
    names: &[Names],
    link: &mut Link,
) -> Result<(), BenchError> {
    let wanted = vec![work.files_count; names.len()];
    let create = |path: String| async move {
        let file = files.create(&path).await?;
        files.close(file).await
    };
    let phase = each(files, names, &wanted, work.limit_ms, |names, n| {
        create(names.old(n))
    });
    let tallies = link.phase("create", phase).await?;
    let made: Vec<u64> = tallies.iter().map(|t| t.requests_count).collect();
    let write = |path: String| async move {
        let file = files.open(&path).await?;
        files.write(&file, 0, Bytes::from_static(b"1")).await?;
        files.sync(&file).await?;
        files.close(file).await
    };
    let phase = each(files, names, &made, None, |names, n| write(names.old(n)));
    link.phase("write", phase).await?;
    let stat = |path: String| async move {
        match files.stat(&path).await? {
            true => Ok(()),
            false => Err(BenchError::Refused),
        }
    };
    let phase = each(files, names, &made, None, |names, n| stat(names.old(n)));
    link.phase("stat", phase).await?;
    link.phase("readdir", list(files, names)).await?;
    let rename = |from: String, to: String| async move { files.rename(&from, &to).await };
    let phase = each(files, names, &made, None, |names, n| {
        rename(names.old(n), names.new_name(n))
    });
    link.phase("rename", phase).await?;
    let remove = |path: String| async move { files.remove(&path).await };
    let phase = each(files, names, &made, None, |names, n| {
        remove(names.new_name(n))
    });
    link.phase("remove", phase).await?;
    Ok(())
}

/// One operation on each file of each task, whose files are counted by `counts`.
async fn each<F: Files, Fut: Future<Output = Result<(), BenchError>>>(
    files: &F,
    names: &[Names],
    counts: &[u64],
    limit_ms: Option<u64>,
    operation: impl Fn(&Names, u64) -> Fut + Sync,
) -> Result<Vec<Tally>, BenchError> {
    let task = |task: u32| {
        let (names, count) = (&names[task as usize], counts[task as usize]);
        let operation = &operation;
        async move {
            let mut tally = Tally::new();
            let mut until = Until::new(count, limit_ms);
            while until.more(tally.requests_count) {
                let start = Instant::now();
                operation(names, tally.requests_count).await?;
                tally.add(0, start.elapsed());
            }
            Ok(tally)
        }
    };
    files.at_once(tasks_count(names), task).await
}

fn tasks_count(names: &[Names]) -> u32 {
    u32::try_from(names.len()).expect("tasks are counted in u32")
}

async fn list<F: Files>(files: &F, names: &[Names]) -> Result<Vec<Tally>, BenchError> {
    let task = |task: u32| async move {
        let mut tally = Tally::new();
        let start = Instant::now();
        let entries_count = files.list(&names[task as usize].folder).await?;
        tally.add(0, start.elapsed());
        tally.requests_count = entries_count;
        Ok(tally)
    };
    files.at_once(tasks_count(names), task).await
}
