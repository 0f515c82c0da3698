//! `ropewalk demo`: proves on one machine that the data go to the data servers and come back unchanged.
//!
//! It runs a cluster as `ropewalk up` does, in a temporary directory and on free ports. Our own client copies incompressible
//! data in over RDMA and out over TCP, and the other way round, and compares checksums. The servers' own counters decide
//! (`judge`): if the metadata server carried the data, or over the wrong transport, every comparison of bytes would pass.
//!
//! Then a second cluster loses a data server in the middle of a write (`loss`).

mod copy;
mod judge;
mod loss;
mod stage;

use crate::admin::Request;
use crate::cli::{DemoArgs, UP_DS_DEFAULT, UpArgs};
use crate::config::TransportChoice;
use crate::daemon::{Signals, random_u64};
use crate::failure::{Failure, Outcome, cannot, failed, usage};
use crate::out;
use crate::status::MdsStatus;
use crate::table::{bytes as shown, table};
use crate::up::cluster::ask_async;
use crate::up::plan::Plan;
use copy::{connect, read, say_hashes, write};
use judge::{Counts, Leg, Proxied, Step, Way};
use stage::{interrupted, phase, start};
use std::path::Path;
use std::time::Duration;

/// Smallest demo: a few stripes on each data server.
const SIZE_MIN: u64 = 16 << 20;
/// Free space that the servers want beside the data (reserves of the stores, journals).
const SPACE_BESIDE_BYTES: u64 = 768 << 20;
/// Bytes that go through the metadata server.
const PROXIED_BYTES: u64 = 8 << 20;

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
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .map_err(cannot("start the runtime"))?;
    in_directory(args.keep, size, |dir| {
        runtime.block_on(with_cluster(dir, size))
    })?;
    in_directory(args.keep, loss::STORED_BYTES, |dir| {
        runtime.block_on(loss::run(dir))
    })?;
    out::line(
        "demo passed: the data went to the data servers by the transport asked for, and came back unchanged, \
         also after the loss of a data server",
    )
}

/// Does `work` in a temporary directory with room for `size` bytes of data. `keep` leaves the directory there.
fn in_directory(keep: bool, size: u64, work: impl FnOnce(&Path) -> Outcome) -> Outcome {
    let dir = tempfile::Builder::new().prefix("ropewalk-demo-").tempdir();
    let dir = dir.map_err(cannot("make a temporary directory"))?;
    need_space(dir.path(), size)?;
    let result = work(dir.path());
    if keep {
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
    let mut cluster = start(plan, &mut signals).await?;
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

async fn copy_and_judge(plan: &Plan, mds_server: std::path::PathBuf, size: u64) -> Outcome {
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
    let proxied = proxied(plan, &mds_server).await?;
    rows.extend(proxied.rows());
    let mds: MdsStatus = ask_async(mds_server, Request::Status).await?;
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
    proxied.judge()
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
    let written = write(&writer, &name, seed, size).await?;
    let between = Counts::ask(plan).await?;
    let reader = connect(plan, outward, true).await?;
    let (read, read_time) = read(&reader, &name, size).await?;
    let after = Counts::ask(plan).await?;
    let _ = writer.close().await;
    let _ = reader.close().await;
    say_hashes(written.hash, read)?;
    out::line(&format!(
        "      write and commit: {}/s, read: {}/s (this machine's loopback and page cache)",
        rate(size, written.time),
        rate(size, read_time)
    ))?;
    Ok(Leg {
        size,
        same: written.hash == read,
        inward: Step::new(inward, &before, &between),
        outward: Step::new(outward, &between, &after),
    })
}

/// Writes and reads without a layout, and says what the metadata server counted of its own connections.
async fn proxied(plan: &Plan, mds_server: &Path) -> Outcome<Proxied> {
    let seed = random_u64();
    let name = "/ropewalk-demo-proxied.data";
    let ask = || async {
        let mds: MdsStatus = ask_async(mds_server.to_owned(), Request::Status).await?;
        Ok::<_, Failure>(mds.control_transport)
    };
    let before = ask().await?;
    let client = connect(plan, Way::Tcp, false).await?;
    let written = write(&client, name, seed, PROXIED_BYTES).await?;
    let (read, _) = read(&client, name, PROXIED_BYTES).await?;
    let _ = client.close().await;
    let after = ask().await?;
    Ok(Proxied::new(
        PROXIED_BYTES,
        written.hash == read,
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
