//! What workers do. Each kind of work has a file; it makes its files, warms up, goes through its phases, and removes its files.

pub(crate) mod bare;
pub(crate) mod btio;
pub(crate) mod create;
pub(crate) mod metadata;
pub(crate) mod small;
pub(crate) mod stream;
mod until;

use super::files::Files;
use super::job::{Job, Work};
use super::link::Link;
use crate::BenchError;

/// Does the work of a job.
pub(crate) async fn run<F: Files>(job: &Job, files: &F, link: &mut Link) -> Result<(), BenchError> {
    match &job.work {
        Work::Create(work) => create::run(work, job, files, link).await,
        Work::Metadata(work) => metadata::run(work, job, files, link).await,
        Work::Stream(work) => stream::run(work, job, files, link).await,
        Work::Btio(work) => btio::run(work, job, files, link).await,
        Work::Small(work) => small::run(work, job, files, link).await,
        Work::Bare(_) => Err(BenchError::Setting {
            name: "the place of bare streams",
            must_be: "bare servers",
        }),
        Work::Scale(_) => Err(BenchError::Setting {
            name: "the work of a load generator",
            must_be: "requests",
        }),
    }
}
