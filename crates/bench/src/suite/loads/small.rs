//! One small request after another, whose reply carries a given number of bytes. It is a READ through whatever
//! [`Files`] there is, or a call of the bare RPC program.

use super::until::Until;
use crate::BenchError;
use crate::bare::rpc_echo::EchoClient;
use crate::load::Tally;
use crate::nfs::server::Server;
use crate::suite::content::Content;
use crate::suite::files::Files;
use crate::suite::job::Job;
use crate::suite::link::Link;
use crate::suite::work::SmallWork;
use std::time::Instant;

/// Size of the file: large enough that a metadata server leaves it to the data servers (RFC 8881 §5.12.4).
const FILE_BYTES: u32 = 1 << 20;
/// Requests before the measured ones.
const WARM_UP_REQUESTS: u64 = 16;

/// READs of the start of a file.
pub(crate) async fn run<F: Files>(
    work: &SmallWork,
    job: &Job,
    files: &F,
    link: &mut Link,
) -> Result<(), BenchError> {
    let path = format!("{}/f", job.own_folder());
    let file_bytes = work.payload_bytes.max(FILE_BYTES);
    let content = Content::new(file_bytes);
    let file = files.create(&path).await?;
    let data = content.slice(0, file_bytes);
    files.write(&file, 0, data).await?;
    files.sync(&file).await?;
    let request = async |buffer: &mut Vec<u8>| {
        files.forget(&file).await?;
        let start = Instant::now();
        let count = files.read(&file, 0, buffer).await?;
        let time = start.elapsed();
        if count < buffer.len() {
            return Err(BenchError::WrongBytes {
                offset: count as u64,
            });
        }
        content.check(0, buffer)?;
        Ok(time)
    };
    let mut buffer = vec![0; work.payload_bytes as usize];
    for _ in 0..WARM_UP_REQUESTS {
        request(&mut buffer).await?;
    }
    let phase = async {
        let mut tally = Tally::new();
        let mut until = Until::new(work.requests_count, work.limit_ms);
        while until.more(tally.requests_count) {
            let time = request(&mut buffer).await?;
            tally.add(u64::from(work.payload_bytes), time);
        }
        Ok(vec![tally])
    };
    link.phase("read", phase).await?;
    files.close(file).await?;
    files.remove(&path).await
}

/// Calls of the bare RPC program.
pub(crate) async fn run_rpc(
    work: &SmallWork,
    server: &Server,
    link: &mut Link,
) -> Result<(), BenchError> {
    let client = EchoClient::connect(server).await?;
    for _ in 0..WARM_UP_REQUESTS {
        client.ask(work.payload_bytes).await?;
    }
    let phase = async {
        let mut tally = Tally::new();
        let mut until = Until::new(work.requests_count, work.limit_ms);
        while until.more(tally.requests_count) {
            let start = Instant::now();
            client.ask(work.payload_bytes).await?;
            tally.add(u64::from(work.payload_bytes), start.elapsed());
        }
        Ok(vec![tally])
    };
    link.phase("read", phase).await.map(drop)
}
