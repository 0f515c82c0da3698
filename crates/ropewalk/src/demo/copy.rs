//! The demo's clients, and the data that they write and read. Nothing can compress the data; they can be made again from a seed.

use super::judge::Way;
use crate::daemon::random_u64;
use crate::failure::{Outcome, cannot, failed};
use crate::out;
use crate::table::bytes as shown;
use crate::up::plan::Plan;
use bytes::Bytes;
use client::{Client, ClientConfig, File, OpenOptions, UserIdentity, Verifier};
use indicatif::{ProgressBar, ProgressStyle};
use std::sync::Arc;
use std::time::{Duration, Instant};
use transport::{Address, AnyConnector, Context, Preference, TransportLimits};

/// Bytes that are written or read by one call.
pub(super) const CHUNK_BYTES: u64 = 8 << 20;

pub(super) fn say_hashes(written: blake3::Hash, read: blake3::Hash) -> Outcome {
    out::line(&format!("      blake3 of what was written: {written}"))?;
    out::line(&format!("      blake3 of what was read:    {read}"))
}

pub(super) async fn connect(plan: &Plan, way: Way, pnfs: bool) -> Outcome<Client> {
    connect_with(plan, way, |config| config.pnfs = pnfs).await
}

/// [`connect()`], configured by `change`.
pub(super) async fn connect_with(
    plan: &Plan,
    way: Way,
    change: impl FnOnce(&mut ClientConfig),
) -> Outcome<Client> {
    let owner = format!("ropewalk-demo-{:016x}", random_u64()).into_bytes();
    let verifier = Verifier {
        bytes: random_u64().to_be_bytes(),
    };
    let identity = UserIdentity {
        uid: rustix::process::getuid().as_raw(),
        gid: rustix::process::getgid().as_raw(),
        gids: Vec::new(),
        machine: "localhost".to_owned(),
    };
    let context = Context::new(TransportLimits::default());
    let connector = Arc::new(AnyConnector::new(
        &context,
        vec![crate::rdma::software(transport::rdma::Config::default())],
    ));
    let (address, data_transport) = match way {
        Way::Tcp => (Address::Tcp(plan.mount_address()), Preference::Tcp),
        Way::Rdma => (
            Address::Rdma(plan.mds.config.rdma_listen[0]),
            Preference::Rdma,
        ),
    };
    let mut config = ClientConfig {
        data_transport,
        ..ClientConfig::new(owner, verifier, identity)
    };
    change(&mut config);
    Client::connect(vec![address], connector, config)
        .await
        .map_err(cannot("connect to the metadata server"))
}

/// Drawn on a terminal only.
fn bar(size: u64) -> ProgressBar {
    let style =
        ProgressStyle::with_template("      {bar:40} {bytes}/{total_bytes} {bytes_per_sec}")
            .expect("a literal template");
    ProgressBar::new(size).with_style(style)
}

/// What was written.
pub(super) struct Written {
    pub(super) hash: blake3::Hash,
    pub(super) time: Duration,
    /// The longest time that one chunk took.
    pub(super) slowest: Duration,
}

pub(super) async fn write(client: &Client, name: &str, seed: u64, size: u64) -> Outcome<Written> {
    write_beside(client, name, seed, size, async { Ok(()) }).await
}

/// [`write()`]; `beside` runs together with the chunk in the middle.
pub(super) async fn write_beside(
    client: &Client,
    name: &str,
    seed: u64,
    size: u64,
    beside: impl Future<Output = Outcome>,
) -> Outcome<Written> {
    let what = "write to the file system";
    let started = Instant::now();
    let file = client
        .open(name, OpenOptions::create(0o644))
        .await
        .map_err(cannot(what))?;
    let mut hasher = blake3::Hasher::new();
    let bar = bar(size);
    let mut chunk = generate(seed, 0, size).await?;
    let mut offset = 0;
    let mut slowest = Duration::ZERO;
    let mut beside = Some(beside);
    while offset < size {
        let next = offset + chunk.len() as u64;
        let now = beside.take_if(|_| next > size / 2);
        let chunk_started = Instant::now();
        // The next bytes are made while these travel.
        let (done, beside_done, after) = tokio::join!(
            file.write_at(offset, chunk.clone()),
            async {
                match now {
                    Some(now) => now.await,
                    None => Ok(()),
                }
            },
            generate(seed, next, size),
        );
        slowest = slowest.max(chunk_started.elapsed());
        hasher.update(&chunk);
        beside_done?;
        done.map_err(cannot(what))?;
        chunk = after?;
        offset = next;
        bar.set_position(offset);
    }
    file.close().await.map_err(cannot(what))?;
    bar.finish_and_clear();
    Ok(Written {
        hash: hasher.finalize(),
        time: started.elapsed(),
        slowest,
    })
}

/// Bytes from `offset` of the endless output of BLAKE3 over the seed: nothing can compress them.
async fn generate(seed: u64, offset: u64, size: u64) -> Outcome<Bytes> {
    let len = usize::try_from(CHUNK_BYTES.min(size - offset)).expect("a chunk fits in memory");
    let make = move || {
        let mut chunk = vec![0; len];
        let mut stream = blake3::Hasher::new()
            .update(&seed.to_be_bytes())
            .finalize_xof();
        stream.set_position(offset);
        stream.fill(&mut chunk);
        Bytes::from(chunk)
    };
    tokio::task::spawn_blocking(make)
        .await
        .map_err(cannot("make data"))
}

pub(super) async fn read(
    client: &Client,
    name: &str,
    size: u64,
) -> Outcome<(blake3::Hash, Duration)> {
    let what = "read from the file system";
    let started = Instant::now();
    let file = client
        .open(name, OpenOptions::read())
        .await
        .map_err(cannot(what))?;
    let mut hasher = blake3::Hasher::new();
    let bar = bar(size);
    let mut offset = 0;
    let mut data = read_chunk(&file, 0).await?;
    while !data.is_empty() {
        let next = offset + data.iter().map(|part| part.len() as u64).sum::<u64>();
        // More than was written would be as wrong as less.
        let hash = async {
            for part in &data {
                hasher.update(part);
            }
        };
        let (after, ()) = tokio::join!(read_chunk(&file, next), hash);
        data = after?;
        offset = next;
        bar.set_position(offset);
        if offset > size {
            return Err(failed(format!(
                "the file is longer than the {} written",
                shown(size)
            )));
        }
    }
    file.close().await.map_err(cannot(what))?;
    bar.finish_and_clear();
    Ok((hasher.finalize(), started.elapsed()))
}

async fn read_chunk(file: &File, offset: u64) -> Outcome<Vec<Bytes>> {
    let len = u32::try_from(CHUNK_BYTES).expect("a chunk is small");
    let data = file
        .read_at(offset, len)
        .await
        .map_err(cannot("read from the file system"))?;
    Ok(data
        .chunks
        .into_iter()
        .filter(|part| !part.is_empty())
        .collect())
}

#[cfg(test)]
mod tests {
    //! Goal: the demo's data can be made again.
    use super::*;

    #[tokio::test]
    async fn data_are_the_same_for_the_same_seed_at_any_offset() {
        let size = CHUNK_BYTES + 10;
        let whole = generate(7, 0, size).await.unwrap();
        let tail = generate(7, CHUNK_BYTES, size).await.unwrap();
        assert_eq!((whole.len() as u64, tail.len()), (CHUNK_BYTES, 10));
        assert_eq!(
            generate(7, 100, size).await.unwrap()[..100],
            whole[100..200]
        );
        assert_ne!(generate(8, 0, size).await.unwrap(), whole);
    }
}
