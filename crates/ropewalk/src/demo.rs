//! `ropewalk demo`: proves on one machine that the data go to the data servers and come back unchanged.
//!
//! It runs a cluster as `ropewalk up` does, in a temporary directory and on free ports. Our own client copies incompressible
//! data in over RDMA and out over TCP, and the other way round, and compares checksums. The servers' own counters decide
//! (`judge`): if the metadata server carried the data, or over the wrong transport, every comparison of bytes would pass.

mod judge;

use crate::admin::Request;
use crate::cli::{DemoArgs, UP_DS_DEFAULT, UpArgs};
use crate::config::TransportChoice;
use crate::daemon::{Signals, random_u64};
use crate::failure::{Outcome, cannot, failed, usage};
use crate::out;
use crate::status::MdsStatus;
use crate::table::{bytes as shown, table};
use crate::up::cluster::{Cluster, ask_async};
use crate::up::plan::Plan;
use bytes::Bytes;
use client::{Client, ClientConfig, File, OpenOptions, UserIdentity, Verifier};
use indicatif::{ProgressBar, ProgressStyle};
use judge::{Counts, Leg, Proxied, Step, Way};
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};
use transport::{Address, AnyConnector, Context, Preference, TransportLimits};

/// Bytes that are written or read by one call.
const CHUNK_BYTES: u64 = 8 << 20;
/// Smallest demo: a few stripes on each data server.
const SIZE_MIN: u64 = 16 << 20;
/// Free space that the servers want beside the data (reserves of the stores, journals).
const SPACE_BESIDE_BYTES: u64 = 768 << 20;
/// Bytes that go through the metadata server.
const PROXIED_BYTES: u64 = 8 << 20;
const PHASES: u32 = 5;

/// `ropewalk demo`.
pub(crate) fn run(args: &DemoArgs) -> Outcome {
    let size = args.size.as_u64();
    if size < SIZE_MIN {
        return Err(usage(format!(
            "--size must be at least {}",
            shown(SIZE_MIN)
        )));
    }
    phase(1, "checking the disk")?;
    let dir = tempfile::Builder::new().prefix("ropewalk-demo-").tempdir();
    let dir = dir.map_err(cannot("make a temporary directory"))?;
    need_space(dir.path(), size)?;
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build();
    let result = runtime
        .map_err(cannot("start the runtime"))?
        .block_on(with_cluster(dir.path(), size));
    if args.keep {
        let path = dir.keep();
        out::line(&format!(
            "kept: {0} (ropewalk up --dir {0})",
            path.display()
        ))?;
    } else {
        dir.close()
            .map_err(cannot("remove the temporary directory"))?;
    }
    result
}

fn phase(number: u32, text: &str) -> Outcome {
    out::line(&format!("[{number}/{PHASES}] {text}"))
}

fn need_space(dir: &Path, size: u64) -> Outcome {
    let stat = rustix::fs::statvfs(dir).map_err(cannot("ask for free space"))?;
    let free = stat.f_bavail.saturating_mul(stat.f_frsize);
    let need = size.saturating_add(SPACE_BESIDE_BYTES);
    if free < need {
        return Err(failed(format!(
            "{} has {} free, and {} are needed: choose a smaller --size, or another place with TMPDIR",
            dir.display(),
            shown(free),
            shown(need)
        )));
    }
    Ok(())
}

async fn with_cluster(dir: &Path, size: u64) -> Outcome {
    let mut signals = Signals::take()?;
    let up = UpArgs {
        ds: Some(UP_DS_DEFAULT),
        port: Some(0),
        transport: Some(TransportChoice::Auto),
        ..UpArgs::default()
    };
    let plan = Plan::make(dir, &up)?;
    phase(
        2,
        &format!("starting a metadata server and {UP_DS_DEFAULT} data servers"),
    )?;
    let interrupted = |name: &str| failed(format!("{name}: the demo was interrupted"));
    let started = tokio::select! {
        started = Cluster::start(plan, |text| out::say(text)) => started,
        name = signals.stop() => Err(interrupted(name)),
    };
    let mut cluster = started?;
    let plan = cluster.plan().clone();
    let socket = cluster.socket();
    let result = tokio::select! {
        result = copy_and_judge(&plan, socket, size) => result,
        name = signals.stop() => Err(interrupted(name)),
        event = cluster.event() => match event {
            Ok(text) => Err(failed(text)),
            Err(e) => Err(e),
        },
    };
    cluster.stop().await;
    result
}

async fn copy_and_judge(plan: &Plan, mds_socket: std::path::PathBuf, size: u64) -> Outcome {
    let each = size / 2;
    let mut rows = Vec::new();
    for (number, ways) in [(3, [Way::Rdma, Way::Tcp]), (4, [Way::Tcp, Way::Rdma])] {
        let leg = leg(plan, number, ways, each).await?;
        rows.extend(leg.rows());
        leg.judge()?;
    }
    let through = format!(
        "{} through the metadata server, which reaches its data servers over RDMA",
        shown(PROXIED_BYTES)
    );
    phase(5, &through)?;
    let proxied = proxied(plan, &mds_socket).await?;
    rows.extend(proxied.rows());
    let mds: MdsStatus = ask_async(mds_socket, Request::Status).await?;
    for group in &mds.groups {
        out::line(&format!(
            "      layout: files striped over data servers {:?}, stripe unit {}",
            group.ds_ids,
            shown(mds.stripe_unit)
        ))?;
    }
    let head = [
        "STEP",
        ">BYTES",
        ">RDMA CHUNKS",
        ">TCP PAYLOAD",
        ">BY THE MDS",
        ">COPIED",
    ];
    out::print(&indent(&table(&head, &rows)))?;
    out::line(
        "      RDMA here is software iWARP, not RDMA hardware: it shows that the protocol works, not how fast it is",
    )?;
    proxied.judge()?;
    out::line(
        "demo passed: the data went to the data servers by the transport asked for, and came back unchanged",
    )?;
    Ok(())
}

/// Writes one way, reads another way, and says what the servers counted.
async fn leg(plan: &Plan, number: u32, [inward, outward]: [Way; 2], size: u64) -> Outcome<Leg> {
    let seed = random_u64();
    let text = format!(
        "{} of incompressible data in over {inward}, out over {outward} as another client (seed {seed:016x})",
        shown(size)
    );
    phase(number, &text)?;
    let name = format!("/ropewalk-demo-{number}.data");
    let before = Counts::ask(plan).await?;
    let writer = connect(plan, inward, true).await?;
    let (written, write_time) = write(&writer, &name, seed, size).await?;
    let between = Counts::ask(plan).await?;
    let reader = connect(plan, outward, true).await?;
    let (read, read_time) = read(&reader, &name, size).await?;
    let after = Counts::ask(plan).await?;
    let _ = writer.close().await;
    let _ = reader.close().await;
    out::line(&format!("      blake3 of what was written: {written}"))?;
    out::line(&format!("      blake3 of what was read:    {read}"))?;
    out::line(&format!(
        "      write and commit: {}/s, read: {}/s (this machine's loopback and page cache)",
        rate(size, write_time),
        rate(size, read_time)
    ))?;
    Ok(Leg {
        size,
        same: written == read,
        inward: Step::new(inward, &before, &between),
        outward: Step::new(outward, &between, &after),
    })
}

/// Writes and reads without a layout, and says what the metadata server counted of its own connections.
async fn proxied(plan: &Plan, mds_socket: &Path) -> Outcome<Proxied> {
    let seed = random_u64();
    let name = "/ropewalk-demo-proxied.data";
    let ask = || async {
        let mds: MdsStatus = ask_async(mds_socket.to_owned(), Request::Status).await?;
        Ok::<_, crate::failure::Failure>(mds.control_transport)
    };
    let before = ask().await?;
    let client = connect(plan, Way::Tcp, false).await?;
    let (written, _) = write(&client, name, seed, PROXIED_BYTES).await?;
    let (read, _) = read(&client, name, PROXIED_BYTES).await?;
    let _ = client.close().await;
    let after = ask().await?;
    Ok(Proxied::new(
        PROXIED_BYTES,
        written == read,
        &before,
        &after,
    ))
}

fn indent(text: &str) -> String {
    text.lines().map(|line| format!("      {line}\n")).collect()
}

fn rate(size: u64, time: Duration) -> String {
    let micros = time.as_micros().max(1);
    shown(u64::try_from(u128::from(size) * 1_000_000 / micros).unwrap_or(u64::MAX))
}

async fn connect(plan: &Plan, way: Way, pnfs: bool) -> Outcome<Client> {
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
    let config = ClientConfig {
        pnfs,
        data_transport,
        ..ClientConfig::new(owner, verifier, identity)
    };
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

async fn write(
    client: &Client,
    name: &str,
    seed: u64,
    size: u64,
) -> Outcome<(blake3::Hash, Duration)> {
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
    while offset < size {
        let next = offset + chunk.len() as u64;
        // The next bytes are made while these travel.
        let (done, after) = tokio::join!(
            file.write_at(offset, chunk.clone()),
            generate(seed, next, size),
        );
        hasher.update(&chunk);
        done.map_err(cannot(what))?;
        chunk = after?;
        offset = next;
        bar.set_position(offset);
    }
    file.close().await.map_err(cannot(what))?;
    bar.finish_and_clear();
    Ok((hasher.finalize(), started.elapsed()))
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

async fn read(client: &Client, name: &str, size: u64) -> Outcome<(blake3::Hash, Duration)> {
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
