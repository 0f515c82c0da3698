//! `ropewalk demo`: proves on one machine that the data go to the data servers and come back unchanged.
//!
//! It runs a cluster as `ropewalk up` does, in a temporary directory and on free ports, copies incompressible data in and
//! out with our own client, and compares checksums. The judgement is by what the data servers counted themselves: a
//! file system whose metadata server carries the data would pass every comparison of bytes.

use crate::admin::{Request, SOCKET_NAME};
use crate::cli::{DemoArgs, UP_DS_DEFAULT, UpArgs};
use crate::daemon::{Signals, random_u64};
use crate::failure::{Outcome, cannot, failed, usage};
use crate::out;
use crate::status::{MdsStatus, ServerStatus};
use crate::table::{bytes as shown, table};
use crate::up::cluster::{Cluster, ask_async};
use crate::up::plan::Plan;
use bytes::Bytes;
use client::{Client, ClientConfig, File, Identity, OpenOptions, Verifier};
use indicatif::{ProgressBar, ProgressStyle};
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};
use transport::tcp::TcpConnector;
use transport::{Address, Context, Limits};

/// Bytes that are written or read by one call.
const CHUNK_BYTES: u64 = 8 << 20;
/// Smallest demo: a few stripes on each data server.
const SIZE_MIN: u64 = 16 << 20;
/// Free space that the servers want beside the data (reserves of the stores, journals).
const SPACE_BESIDE_BYTES: u64 = 768 << 20;
/// Share of the bytes, in percent, that the data servers must have carried.
const CARRIED_PERCENT_MIN: u64 = 95;
const FILE_NAME: &str = "/ropewalk-demo.data";
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
    let seed = random_u64();
    phase(
        3,
        &format!(
            "writing {} of incompressible data (seed {seed:016x})",
            shown(size)
        ),
    )?;
    let writer = connect(plan).await?;
    let (written, write_time) = write(&writer, seed, size).await?;
    phase(
        4,
        &format!("reading {} back as another client", shown(size)),
    )?;
    let reader = connect(plan).await?;
    let (read, read_time) = read(&reader, size).await?;
    phase(
        5,
        "comparing checksums and asking every server what it carried",
    )?;
    let mds: MdsStatus = ask_async(mds_socket, Request::Status).await?;
    let same = written == read;
    let (carried, rows) = ask_all(plan, &mds, size, same).await?;
    for group in &mds.groups {
        out::line(&format!(
            "      layout: files striped over data servers {:?}, stripe unit {}",
            group.ds_ids,
            shown(mds.stripe_unit)
        ))?;
    }
    out::print(&indent(&table(
        &["SERVER", ">WRITTEN", ">READ", ">BY THE MDS"],
        &rows,
    )))?;
    out::line(&format!("      blake3 of what was written: {written}"))?;
    out::line(&format!("      blake3 of what was read:    {read}"))?;
    out::line(&format!(
        "      write and commit: {}/s, read: {}/s (this machine's loopback and page cache)",
        rate(size, write_time),
        rate(size, read_time)
    ))?;
    judge(&carried)?;
    let _ = writer.close().await;
    let _ = reader.close().await;
    out::line("demo passed: the data went to the data servers, and came back unchanged")?;
    Ok(())
}

/// Asks every server what it carried; also as rows for people.
async fn ask_all(
    plan: &Plan,
    mds: &MdsStatus,
    size: u64,
    same: bool,
) -> Outcome<(Carried, Vec<Vec<String>>)> {
    let mut rows = Vec::new();
    let (mut in_bytes, mut out_bytes, mut proxied) =
        (0, 0, mds.proxy_read_bytes + mds.proxy_written_bytes);
    for member in &plan.ds {
        let status = ask_async(member.dir.join(SOCKET_NAME), Request::Status).await?;
        let ServerStatus::Ds(ds) = status else {
            return Err(failed(format!("{} is not a data server", member.name)));
        };
        in_bytes += ds.client_written_bytes;
        out_bytes += ds.client_read_bytes;
        proxied += ds.proxy_read_bytes + ds.proxy_written_bytes;
        rows.push(vec![
            member.name.clone(),
            shown(ds.client_written_bytes),
            shown(ds.client_read_bytes),
            shown(ds.proxy_read_bytes + ds.proxy_written_bytes),
        ]);
    }
    rows.push(vec![
        "sum".to_owned(),
        shown(in_bytes),
        shown(out_bytes),
        shown(proxied),
    ]);
    Ok((
        Carried {
            size,
            same,
            in_bytes,
            out_bytes,
            proxied,
        },
        rows,
    ))
}

/// What was observed.
struct Carried {
    size: u64,
    same: bool,
    in_bytes: u64,
    out_bytes: u64,
    proxied: u64,
}

fn judge(carried: &Carried) -> Outcome {
    let enough = |bytes: u64| bytes >= carried.size / 100 * CARRIED_PERCENT_MIN;
    if !carried.same {
        return Err(failed("demo failed: what was read is not what was written"));
    }
    if !enough(carried.in_bytes) || !enough(carried.out_bytes) {
        return Err(failed(format!(
            "demo failed: the data servers carried {} in and {} out, less than {CARRIED_PERCENT_MIN} % of {}",
            shown(carried.in_bytes),
            shown(carried.out_bytes),
            shown(carried.size)
        )));
    }
    if carried.proxied > 0 {
        return Err(failed(format!(
            "demo failed: {} went through the metadata server",
            shown(carried.proxied)
        )));
    }
    Ok(())
}

fn indent(text: &str) -> String {
    text.lines().map(|line| format!("      {line}\n")).collect()
}

fn rate(size: u64, time: Duration) -> String {
    let micros = time.as_micros().max(1);
    shown(u64::try_from(u128::from(size) * 1_000_000 / micros).unwrap_or(u64::MAX))
}

async fn connect(plan: &Plan) -> Outcome<Client> {
    let owner = format!("ropewalk-demo-{:016x}", random_u64()).into_bytes();
    let verifier = Verifier {
        bytes: random_u64().to_be_bytes(),
    };
    let identity = Identity {
        uid: rustix::process::getuid().as_raw(),
        gid: rustix::process::getgid().as_raw(),
        gids: Vec::new(),
        machine: "localhost".to_owned(),
    };
    let connector = Arc::new(TcpConnector::new(Context::new(Limits::default())));
    let address = Address::Tcp(plan.mount_address());
    let config = ClientConfig::new(owner, verifier, identity);
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

async fn write(client: &Client, seed: u64, size: u64) -> Outcome<(blake3::Hash, Duration)> {
    let what = "write to the file system";
    let started = Instant::now();
    let file = client
        .open(FILE_NAME, OpenOptions::create(0o644))
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

async fn read(client: &Client, size: u64) -> Outcome<(blake3::Hash, Duration)> {
    let what = "read from the file system";
    let started = Instant::now();
    let file = client
        .open(FILE_NAME, OpenOptions::read())
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
    //! Goal: the demo fails whenever it should.
    use super::*;

    #[test]
    fn only_data_that_the_data_servers_carried_pass() {
        let good = || Carried {
            size: 1000,
            same: true,
            in_bytes: 1000,
            out_bytes: 950,
            proxied: 0,
        };
        assert_eq!(judge(&good()), Ok(()));
        for bad in [
            Carried {
                same: false,
                ..good()
            },
            Carried {
                in_bytes: 949,
                ..good()
            },
            Carried {
                out_bytes: 0,
                ..good()
            },
            Carried {
                proxied: 1,
                ..good()
            },
        ] {
            assert!(judge(&bad).is_err());
        }
    }

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
