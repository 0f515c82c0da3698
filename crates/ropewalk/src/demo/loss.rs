//! The loss of a data server, in a cluster of its own that keeps two copies of each stripe.
//!
//! A data server and its watcher are killed in the middle of a write, and nobody starts them again. The write must end without an
//! error. Then the metadata server gives the data server up, and others get the copies that it had.
//!
//! # Failure
//! Each step has a time after which the demo fails: a cluster that hangs must not hang the demo.

use super::copy::{CHUNK_BYTES, connect_with, read, say_hashes, write_beside};
use super::judge::Way;
use super::stage::{interrupted, phase, start};
use crate::admin::Request;
use crate::cli::{UP_DS_DEFAULT, UpArgs};
use crate::daemon::{Signals, random_u64};
use crate::failure::{Outcome, failed};
use crate::movement;
use crate::out;
use crate::status::redundancy::PlacesSummary;
use crate::status::{MdsStatus, PlaceRow};
use crate::table::bytes as shown;
use crate::times::Length;
use crate::up::cluster::{Cluster, ask_async};
use crate::up::plan::Plan;
use client::Client;
use std::path::Path;
use std::time::{Duration, Instant};

const SIZE: u64 = 64 << 20;
const COPIES: u32 = 2;
/// What the data servers store: the copies, and those that are made again.
pub(super) const STORED_BYTES: u64 = SIZE * (COPIES as u64 + 1);
/// The data server that is lost, by its index in the plan.
const LOST: usize = 1;
/// Its id: data servers of a new cluster join in the order of the plan.
const LOST_ID: u32 = 2;
/// How long a client tries a data server before it goes through the metadata server.
/// The usual 15 s are longer than the repair.
const DS_GIVE_UP: Duration = Duration::from_secs(2);
/// The shortest that the configuration takes.
const REPLACE_AFTER: Duration = Duration::from_secs(10);
/// A write or a read that takes longer does not end.
const COPY_MAX: Duration = Duration::from_secs(60);
/// Copies that are not made again after this are not made.
const REPAIR_MAX: Duration = Duration::from_secs(90);
/// How often the metadata server is asked.
const LOOK: Duration = Duration::from_millis(200);
const NAME: &str = "/ropewalk-demo-loss.data";

/// Runs the cluster in `dir`.
pub(super) async fn run(dir: &Path) -> Outcome {
    let mut signals = Signals::take()?;
    let up = UpArgs {
        ds: Some(UP_DS_DEFAULT),
        port: Some(0),
        copies: Some(COPIES),
        ..UpArgs::default()
    };
    let mut plan = Plan::make(dir, &up)?;
    plan.mds.config.replace_after = Length(REPLACE_AFTER);
    let text = format!(
        "starting a second cluster: {UP_DS_DEFAULT} data servers, and {COPIES} copies of each stripe"
    );
    phase(6, &text)?;
    let mut cluster = start(plan, &mut signals).await?;
    let result = tokio::select! {
        result = lose_and_repair(&mut cluster) => result,
        name = signals.stop() => Err(interrupted(name)),
    };
    cluster.stop().await;
    result
}

async fn lose_and_repair(cluster: &mut Cluster) -> Outcome {
    let plan = cluster.plan().clone();
    let seed = random_u64();
    let text = format!(
        "{} in; data server {LOST_ID} is killed for good in the middle of the write (seed {seed:016x})",
        shown(SIZE)
    );
    phase(7, &text)?;
    let writer = connect(&plan).await?;
    let mut lost = None;
    let kill = async {
        cluster.lose_ds(LOST).await?;
        lost = Some(Instant::now());
        Ok(())
    };
    let write = write_beside(&writer, NAME, seed, SIZE, kill);
    let written = in_time("the write", write).await?;
    let _ = writer.close().await;
    let lost = lost.ok_or_else(|| failed("demo failed: no data server was killed"))?;
    out::line(&format!(
        "      the write went on and ended without an error after {:.1} s; the slowest {} took {:.1} s",
        written.time.as_secs_f32(),
        shown(CHUNK_BYTES),
        written.slowest.as_secs_f32()
    ))?;
    out::line(&format!(
        "      (this client gives a data server {} s, and goes through the metadata server then)",
        DS_GIVE_UP.as_secs()
    ))?;
    compare(&plan, written.hash).await?;
    let text = format!(
        "the other data servers get the copies that data server {LOST_ID} had, once it was away for {} s",
        REPLACE_AFTER.as_secs()
    );
    phase(8, &text)?;
    let sums = repaired(cluster, lost).await?;
    out::line(&format!(
        "      all {} places have {COPIES} copies again, {:.1} s after the loss",
        sums.replicated,
        lost.elapsed().as_secs_f32()
    ))?;
    compare(&plan, written.hash).await
}

async fn connect(plan: &Plan) -> Outcome<Client> {
    connect_with(plan, Way::Tcp, |config| config.ds_give_up = DS_GIVE_UP).await
}

async fn in_time<T>(what: &str, work: impl Future<Output = Outcome<T>>) -> Outcome<T> {
    let late = |_| {
        failed(format!(
            "demo failed: {what} did not end within {} s",
            COPY_MAX.as_secs()
        ))
    };
    tokio::time::timeout(COPY_MAX, work).await.map_err(late)?
}

/// Reads the file as another client, and fails unless it is what was written.
async fn compare(plan: &Plan, written: blake3::Hash) -> Outcome {
    let reader = connect(plan).await?;
    let (read, _) = in_time("the read", read(&reader, NAME, SIZE)).await?;
    let _ = reader.close().await;
    say_hashes(written, read)?;
    if read != written {
        return Err(failed(
            "demo failed: what was read after the loss is not what was written",
        ));
    }
    Ok(())
}

/// Waits until each place has its copies, at data servers that are there.
async fn repaired(cluster: &mut Cluster, lost: Instant) -> Outcome<PlacesSummary> {
    let socket = cluster.socket();
    let bar = movement::bar(0, "places");
    let mut worst = 0;
    loop {
        let mds: MdsStatus = ask_async(socket.clone(), Request::Status).await?;
        let lacking = lacking(&mds);
        worst = lacking.max(worst);
        bar.set_length(worst);
        bar.set_position(worst - lacking);
        bar.set_message(match movement::message(&mds) {
            idle if idle.is_empty() => format!("(data server {LOST_ID} is away)"),
            filling => filling,
        });
        if lacking == 0 {
            bar.finish_and_clear();
            return sums(&mds);
        }
        if lost.elapsed() > REPAIR_MAX {
            bar.finish_and_clear();
            return Err(failed(format!(
                "demo failed: {lacking} places lack copies {} s after the loss of a data server",
                REPAIR_MAX.as_secs()
            )));
        }
        tokio::select! {
            () = tokio::time::sleep(LOOK) => {}
            event = cluster.event() => return Err(failed(event?)),
        }
    }
}

/// Places with fewer copies than they are to have, not counting what the lost data server has.
fn lacking(mds: &MdsStatus) -> u64 {
    let has_lost = |place: &PlaceRow| place.primary == LOST_ID || place.sync.contains(&LOST_ID);
    let lacks = |place: &PlaceRow| {
        let all = 1 + place.sync.len();
        all - usize::from(has_lost(place)) < place.copies as usize
    };
    let places = mds.groups.iter().flat_map(|group| &group.places);
    places.filter(|place| lacks(place)).count() as u64
}

/// The places of a cluster in which none lacks a copy.
fn sums(mds: &MdsStatus) -> Outcome<PlacesSummary> {
    let sums = PlacesSummary::of(mds.groups.iter().flat_map(|group| &group.places));
    if sums.replicated == 0 || sums.under_replicated > 0 {
        return Err(failed(format!(
            "demo failed: {} of {} places lack copies",
            sums.under_replicated, sums.replicated
        )));
    }
    Ok(sums)
}

#[cfg(test)]
mod tests {
    //! Goal: copies at the lost data server do not count.
    use super::*;
    use crate::status::GroupRow;

    #[test]
    fn a_copy_at_the_lost_data_server_is_lacking() {
        let of = |primary, sync: &[u32]| {
            let place = PlaceRow {
                copies: 2,
                primary,
                sync: sync.to_vec(),
                ..PlaceRow::default()
            };
            let group = GroupRow {
                places: vec![place],
                ..GroupRow::default()
            };
            lacking(&MdsStatus {
                groups: vec![group],
                ..MdsStatus::default()
            })
        };
        assert_eq!(of(1, &[3]), 0);
        assert_eq!(of(1, &[3, LOST_ID]), 0);
        for (primary, sync) in [(1, &[][..]), (1, &[LOST_ID]), (LOST_ID, &[1])] {
            assert_eq!(of(primary, sync), 1, "{primary} {sync:?}");
        }
    }
}
