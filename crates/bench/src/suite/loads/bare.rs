//! What the line carries: ranges of a file to and from the bare servers, over one plain socket for each worker.

use super::until::Until;
use crate::BenchError;
use crate::bare::{Walk, pwrite, sendfile};
use crate::load::{Requester, Tally};
use crate::suite::job::Job;
use crate::suite::link::Link;
use crate::suite::work::{BareServers, BareWork};
use std::time::Instant;

/// Requests before the measured ones.
const WARM_UP_REQUESTS: u64 = 2;

/// A phase that writes and one that reads, each a stream of requests of this worker.
pub(crate) async fn run(
    work: &BareWork,
    job: &Job,
    servers: &BareServers,
    link: &mut Link,
) -> Result<(), BenchError> {
    let walk = || {
        let (index, count) = (job.worker as usize, job.workers_count as usize);
        Walk::new(servers.file_bytes, work.payload_bytes, index, count)
    };
    let mut writes = pwrite::Client::connect(servers.writes, walk()?)?;
    phase("write", work, &mut writes, link).await?;
    let mut reads = sendfile::Client::connect(servers.reads, walk()?)?;
    phase("read", work, &mut reads, link).await
}

async fn phase(
    name: &str,
    work: &BareWork,
    client: &mut impl Requester,
    link: &mut Link,
) -> Result<(), BenchError> {
    for _ in 0..WARM_UP_REQUESTS {
        client.request()?;
    }
    // Sockets block: a worker has this one task.
    let stream = async {
        let mut tally = Tally::new();
        let mut until = Until::new(work.requests_count, work.limit_ms);
        while until.more(tally.requests_count) {
            let start = Instant::now();
            let bytes = client.request()?;
            tally.add(bytes, start.elapsed());
        }
        Ok(vec![tally])
    };
    link.phase(name, stream).await.map(drop)
}
