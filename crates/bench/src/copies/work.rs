//! What is done to each system: the same for all, through the file system's own client.

use super::systems::{Reached, System};
use crate::suite::files::mounted::Mounted;
use crate::suite::files::remote::Remote;
use crate::suite::files::{Buffer, Files};
use crate::{BenchError, load, pattern};
use bytes::Bytes;
use serde_json::{Value, json};
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};

/// Files that are written at the same time, each by a task of its own, record after record.
const FILES_COUNT: u32 = 8;
const RECORD_BYTES: usize = 1 << 20;
/// Bytes of each durable write while a server is lost.
const SMALL_BYTES: usize = 4096;
/// A system in which no file can be made after this is an error, and how often it is tried.
const READY_MAX: Duration = Duration::from_secs(30);
const READY_POLL: Duration = Duration::from_millis(100);
/// Small writes before that.
const WARM_UP: Duration = Duration::from_secs(1);

/// One run of one system.
#[derive(Debug, Clone, Copy)]
pub(super) struct Run {
    pub(super) write_mb_per_s: f64,
    pub(super) read_mb_per_s: f64,
    /// From SIGKILL to the end of the last first write; none where there is one copy.
    pub(super) wait_s: Option<f64>,
    /// Until everything that was written has two copies again.
    pub(super) repair_s: Option<f64>,
}

impl Run {
    /// In the order of columns.
    pub(super) fn values(&self) -> [f64; 4] {
        [
            self.write_mb_per_s,
            self.read_mb_per_s,
            self.wait_s.unwrap_or(f64::NAN),
            self.repair_s.unwrap_or(f64::NAN),
        ]
    }

    pub(super) fn json(&self) -> Value {
        json!({
            "write_mb_per_s": self.write_mb_per_s,
            "read_mb_per_s": self.read_mb_per_s,
            "sigkill_to_write_s": self.wait_s,
            "full_repair_s": self.repair_s,
        })
    }
}

/// One run: writes, reads, and where there are copies a server that is lost, and repair.
pub(super) fn measure(system: &Arc<System>, bytes: u64) -> Result<Run, BenchError> {
    let runtime = load::threads_runtime()?;
    runtime.block_on(async {
        match system.reached() {
            Reached::Mount(path) => work(&Mounted::new(path), system, bytes).await,
            Reached::Url(url) => {
                let remote = Remote::connect(&url).await?;
                let run = work(&remote, system, bytes).await?;
                remote.end().await?;
                Ok(run)
            }
        }
    })
}

async fn work<F: Files>(files: &F, system: &Arc<System>, bytes: u64) -> Result<Run, BenchError> {
    wait_until_ready(files).await?;
    let records_count = bytes / u64::from(FILES_COUNT) / RECORD_BYTES as u64;
    let began = Instant::now();
    let write = |number| write_file(files, number, records_count);
    files.at_once(FILES_COUNT, write).await?;
    let write_mb_per_s = mb_per_s(bytes, began);
    let open = |number: u32| async move {
        let file = files.open(&name(number)).await?;
        files.forget(&file).await?;
        Ok(file)
    };
    let opened = &files.at_once(FILES_COUNT, open).await?;
    let began = Instant::now();
    let read = |number: u32| read_file(files, &opened[number as usize], number, records_count);
    files.at_once(FILES_COUNT, read).await?;
    let read_mb_per_s = mb_per_s(bytes, began);
    let mut run = Run {
        write_mb_per_s,
        read_mb_per_s,
        wait_s: None,
        repair_s: None,
    };
    if system.has_copies() {
        let waited = lose_a_server(files, system).await?;
        run.wait_s = Some(waited.as_secs_f64());
        let began = Instant::now();
        system.order_repair()?;
        system.wait_until_full()?;
        run.repair_s = Some(began.elapsed().as_secs_f64());
    }
    Ok(run)
}

/// Waits until files can be made: `GlusterFS` says that it is read-only until it has reached all bricks.
async fn wait_until_ready<F: Files>(files: &F) -> Result<(), BenchError> {
    let end = Instant::now() + READY_MAX;
    for number in 0..FILES_COUNT {
        let name = format!("ready-{number}");
        let file = loop {
            match files.create(&name).await {
                Ok(file) => break file,
                Err(e) if Instant::now() >= end => return Err(e),
                Err(_) => std::thread::sleep(READY_POLL),
            }
        };
        files.close(file).await?;
        files.remove(&name).await?;
    }
    Ok(())
}

#[allow(
    clippy::cast_precision_loss,
    reason = "measurements have far fewer than 52 significant bits"
)]
fn mb_per_s(bytes: u64, began: Instant) -> f64 {
    bytes as f64 / began.elapsed().as_secs_f64() / 1e6
}

fn name(number: u32) -> String {
    format!("file-{number}")
}

/// A record of a file, which no file system can leave out or make smaller.
fn record(number: u32) -> Vec<u8> {
    let mut data = vec![0; RECORD_BYTES];
    pattern::fill(u64::from(number) * RECORD_BYTES as u64, &mut data);
    data
}

async fn write_file<F: Files>(
    files: &F,
    number: u32,
    records_count: u64,
) -> Result<(), BenchError> {
    let data = Bytes::from(record(number));
    let file = files.create(&name(number)).await?;
    for at in 0..records_count {
        let offset = at * RECORD_BYTES as u64;
        files.write(&file, offset, data.clone()).await?;
    }
    files.sync(&file).await?;
    files.close(file).await
}

/// The first and the last record are compared.
async fn read_file<F: Files>(
    files: &F,
    file: &F::File,
    number: u32,
    records_count: u64,
) -> Result<(), BenchError> {
    let expected = record(number);
    let mut buffer = Buffer::new(RECORD_BYTES);
    for at in 0..records_count {
        let offset = at * RECORD_BYTES as u64;
        let data = buffer.first(RECORD_BYTES);
        let count = files.read(file, offset, data).await?;
        let is_looked_at = at == 0 || at + 1 == records_count;
        if count != RECORD_BYTES || (is_looked_at && *data != expected[..]) {
            return Err(BenchError::WrongBytes { offset });
        }
    }
    Ok(())
}

/// Kills a server while small durable writes go on, one file for each task; how long the last of them waited. Some of the files are at
/// the killed server, whichever places a system chooses.
async fn lose_a_server<F: Files>(files: &F, system: &Arc<System>) -> Result<Duration, BenchError> {
    let killed = &Arc::new(OnceLock::new());
    // On a thread of its own, as calls of a mount block.
    let killer = {
        let (system, killed) = (Arc::clone(system), Arc::clone(killed));
        std::thread::spawn(move || {
            std::thread::sleep(WARM_UP);
            let at = Instant::now();
            let done = system.kill();
            let _ = killed.set(at);
            done
        })
    };
    let task = |number: u32| async move {
        let file = files.create(&format!("small-{number}")).await?;
        let data = Bytes::from(record(number)).slice(..SMALL_BYTES);
        let mut turn = 0;
        loop {
            let began_after = killed.get().copied();
            let offset = turn * SMALL_BYTES as u64;
            files.write(&file, offset, data.clone()).await?;
            files.sync(&file).await?;
            if let Some(killed) = began_after {
                let waited = Instant::now().saturating_duration_since(killed);
                files.close(file).await?;
                return Ok(waited);
            }
            turn += 1;
        }
    };
    let waited = files.at_once(FILES_COUNT, task).await;
    killer.join().expect("it does not panic")?;
    Ok(waited?.into_iter().max().unwrap_or_default())
}
