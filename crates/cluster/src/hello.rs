//! HELLO and HEARTBEAT: a data server is recognised, gets what it missed, and is heard of.
//!
//! # Ordering
//! HELLO is answered first; then the floors that the data server missed are sent and acknowledged; only then it
//! counts as serving.
//!
//! # Failure
//! A data server whose lease has ended must say HELLO again: it gets what was fenced meanwhile before it serves.

use crate::call::{DsError, call, call_when_ready};
use crate::cluster::Cluster;
use crate::keys::HeldKeys;
use crate::records;
use crate::servers::{HEARTBEAT_MS, Server};
use crate::{fence, key_rotation, members, rows};
use control::{
    CommitObjectsArgs, FENCE_BATCH_MAX, FLOORS_PAGE_MAX, FloorsArgs, HeartbeatArgs, HeartbeatOk,
    HelloArgs, HelloOk, Refusal, Status, VersionRange,
};
use layout::{Epoch, Floor, Group};
use meta::{MetaError, MetaStore, Seq};
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use tokio::time::Instant;
use transport::{CloseReason, ConnHandle};

/// What a data server is told whose store has gone back.
const ROLLED_BACK: &str = "the store is older than it was: was it restored from a backup?";

pub(crate) async fn hello(
    cluster: &Arc<Cluster>,
    conn: &ConnHandle,
    args: HelloArgs,
) -> Result<HelloOk, Refusal> {
    let version = VersionRange::OURS
        .common(args.versions)
        .ok_or_else(|| Refusal::new(Status::UnsupportedVersion, "no common version"))?;
    if args.cluster_id != cluster.cluster_id {
        return Err(Refusal::new(Status::WrongCluster, "another cluster"));
    }
    if cluster.fences.lock().has_overflowed(args.ds_id) {
        let why =
            "it missed more fences than are kept; it may come back once the keys have changed";
        return Err(Refusal::new(Status::TryLater, why));
    }
    let recognised = recognise(cluster, &args);
    if let Err(refusal) = &recognised
        && let Some(server) = cluster.servers.lock().map.get_mut(&args.ds_id)
    {
        tracing::warn!(ds = args.ds_id, %refusal, "HELLO refused");
        server.refused = Some(refusal.detail.as_str().to_owned());
    }
    let seq = recognised?;
    let failed = |_| Refusal::new(Status::Io, "the metadata store failed");
    cluster.store.durable(seq).await.map_err(failed)?;
    let (keys, held) = cluster.keys.lock().to_send();
    let ok = HelloOk {
        version,
        cluster_floor: Epoch::boot_floor(cluster.boot),
        lease_ms: cluster.ds_lease_ms,
        heartbeat_ms: HEARTBEAT_MS.min(cluster.ds_lease_ms / 3),
        keys,
        proxy_client: cluster.proxy_tag,
        // Always: the last page's answer is how the MDS learns that the floor is in force.
        floors_pending: true,
    };
    connect(cluster, conn, &args, held);
    let (cluster, conn, ds) = (Arc::clone(cluster), conn.clone(), args.ds_id);
    tokio::spawn(async move {
        if let Err(error) = bring_up(&cluster, ds, &conn).await {
            tracing::warn!(ds, %error, "a data server did not take its floors");
            conn.close(CloseReason::Asked);
        }
    });
    Ok(ok)
}

/// Whether the store is that of the data server, and not an older one (R9).
fn check_store(server: &Server, args: &HelloArgs) -> Result<(), Refusal> {
    let record = &server.record;
    if args.store.store_id != record.store_id {
        let why = "the store is another one than the data server joined with";
        return Err(Refusal::new(Status::StoreSwapped, why));
    }
    if args.store.counter < record.counter || args.store.changes < server.changes {
        return Err(Refusal::new(Status::StoreRolledBack, ROLLED_BACK));
    }
    if server.is_taken(args.boot_nonce, Instant::now()) {
        let why = "a data server with this store is connected already: was the store copied?";
        return Err(Refusal::new(Status::TryLater, why));
    }
    Ok(())
}

/// Compares the store with what is known of it (R9, rule P21), and stores what is new. A new process and other addresses give its
/// groups other device ids (rule P22), since clients keep what they know of a device. Linux does not use one for two minutes
/// after a connection was refused. It asks about a new one at its next LAYOUTGET, and takes CB_NOTIFY_DEVICEID (RFC 8881
/// §20.12) for no more than that.
fn recognise(cluster: &Cluster, args: &HelloArgs) -> Result<Seq, Refusal> {
    let mut groups = cluster.groups.lock();
    let mut servers = cluster.servers.lock();
    let unknown = || Refusal::new(Status::UnknownServer, "no data server has this id");
    let server = servers.map.get(&args.ds_id).ok_or_else(unknown)?;
    check_store(server, args)?;
    let closed = groups.note_known(args.ds_id, &args.groups.0, &server.rows_sent);
    servers.end_told_of(&closed);
    let server = servers.map.get_mut(&args.ds_id).ok_or_else(unknown)?;
    let mut record = server.record.clone();
    let failed = |error: MetaError| {
        tracing::error!(%error, "data server record");
        Refusal::new(Status::Io, "the metadata store failed")
    };
    let store = &*cluster.store;
    note_changes(store, args.ds_id, server, args.store.changes).map_err(failed)?;
    record.counter = args.store.counter;
    record.addresses.clone_from(&args.addresses);
    if record == server.record {
        return Ok(cluster.store.applied());
    }
    let moved = record.addresses != server.record.addresses;
    let mut renewed = match record.counter > server.record.counter {
        true => members::after_start(&groups, args.ds_id),
        false => Vec::new(),
    };
    let others = groups.renewed(args.ds_id).into_iter();
    let is_new = |group: &Group| renewed.iter().all(|other| other.id != group.id);
    let others: Vec<Group> = others.filter(is_new).collect();
    renewed.extend(others);
    let stored = records::put_server(store, args.ds_id, &record, &renewed);
    let seq = stored.map_err(failed)?;
    groups.take(&renewed);
    if moved {
        tracing::info!(
            ds = args.ds_id,
            groups = renewed.len(),
            "a data server moved"
        );
        server.moves_count = server.moves_count.wrapping_add(1);
    }
    // Nothing is granted under the new device ids before they are durable.
    server.serving = false;
    server.record = record;
    Ok(seq)
}

fn connect(cluster: &Arc<Cluster>, conn: &ConnHandle, args: &HelloArgs, keys: HeldKeys) {
    let mut servers = cluster.servers.lock();
    let Some(server) = servers.map.get_mut(&args.ds_id) else {
        return;
    };
    if let Some(old) = server.conn.replace(conn.clone())
        && old != *conn
    {
        old.close(CloseReason::Asked);
    }
    if server.boot_nonce != args.boot_nonce {
        server.verifier = None;
    }
    server.serving = false;
    server.keys = keys;
    server.rows_told.clear();
    server.is_stopping = false;
    server.failing.clear();
    args.location.as_str().clone_into(&mut server.location);
    server.boot_nonce = args.boot_nonce;
    server.refused = None;
    server.renew(Instant::now(), cluster.ds_lease_ms);
    servers.note_capacity(args.ds_id, args.capacity);
    tracing::info!(ds = args.ds_id, peer = %conn.peer(), "data server said HELLO");
}

pub(crate) async fn heartbeat(
    cluster: &Arc<Cluster>,
    conn: &ConnHandle,
    args: &HeartbeatArgs,
) -> Result<HeartbeatOk, Refusal> {
    let (changes, seq) = beat(cluster, conn, args)?;
    if !args.failing.0.is_empty() {
        // Clients wait for other primaries.
        cluster.tend_members();
    }
    let failed = |_| Refusal::new(Status::Io, "the metadata store failed");
    cluster.store.durable(seq).await.map_err(failed)?;
    if let Some((_, server)) = cluster.servers.lock().by_conn(conn) {
        server.note_heard(Instant::now());
    }
    Ok(HeartbeatOk {
        lease_ms: cluster.ds_lease_ms,
        cluster_floor: Epoch::boot_floor(cluster.boot),
        changes,
        scrub_order: cluster.scrub_order.load(Relaxed),
        fill_bytes_per_s: cluster.fill_rate(),
    })
}

/// Takes in a HEARTBEAT. Returns how many changes are known now, and what makes that durable.
fn beat(cluster: &Cluster, conn: &ConnHandle, args: &HeartbeatArgs) -> Result<(u64, Seq), Refusal> {
    let now = Instant::now();
    let mut servers = cluster.servers.lock();
    let not_ready = |why| Refusal::new(Status::NotReady, why);
    let (id, server) = servers
        .by_conn(conn)
        .ok_or_else(|| not_ready("HELLO must come first"))?;
    if !server.has_lease(now) {
        // Others may have been granted what this data server's clients held.
        server.serving = false;
        return Err(not_ready("the lease has ended; say HELLO again"));
    }
    if args.changes < server.changes {
        return Err(Refusal::new(Status::StoreRolledBack, ROLLED_BACK));
    }
    if let Err(error) = note_changes(&*cluster.store, id, server, args.changes) {
        // The lease does not depend on it; the data server is told what was known before.
        tracing::warn!(ds = id, %error, "changes of a data server's store");
    }
    let known = (server.changes, server.changes_seq);
    server.counters = args.counters;
    server.fill_times.note(&args.fillings.0, now);
    server.fillings.clone_from(&args.fillings.0);
    server.scrub.clone_from(&args.scrub);
    server.failing.clone_from(&args.failing.0);
    server.sync_us = args.sync_us;
    server.lags.clone_from(&args.lags.0);
    let lacking = args.lacking.0.iter();
    server.lacking = lacking.map(|l| ((l.group, l.place), l.parts)).collect();
    server.floors_fill_percent = args.floors_fill_percent;
    server.renew(now, cluster.ds_lease_ms);
    server.note_heard(now);
    servers.note_capacity(id, args.capacity);
    Ok(known)
}

/// Remembers how far a data server's store has come.
fn note_changes(
    store: &dyn MetaStore,
    id: u32,
    server: &mut Server,
    changes: u64,
) -> Result<(), MetaError> {
    if changes > server.changes {
        server.changes_seq = records::put_changes(store, id, changes)?;
        server.changes = changes;
    }
    Ok(())
}

/// Hands a data server the floors that it missed, learns its write verifier, and lets it count as serving. Keys that
/// changed since the answer to HELLO go first: floors that only retired ones need are not kept for it.
async fn bring_up(cluster: &Arc<Cluster>, ds: u32, conn: &ConnHandle) -> Result<(), DsError> {
    key_rotation::bring_up(cluster, conn).await?;
    rows::tell(cluster, ds, conn).await?;
    let epoch = Epoch::boot_floor(cluster.boot);
    let mut floors = vec![Floor::Cluster { epoch }];
    floors.extend(cluster.fences.lock().all(ds));
    let pages: Vec<&[Floor]> = floors.chunks(FLOORS_PAGE_MAX as usize).collect();
    let last = pages.len() - 1;
    for (page, floors) in pages.into_iter().enumerate() {
        let args = FloorsArgs {
            page: u32::try_from(page).unwrap_or(u32::MAX),
            last: page == last,
            floors: floors.to_vec().into(),
        };
        call_when_ready(conn, &args).await?;
    }
    // FLOORS is durable when answered; FENCE also says that nothing which it forbids is still going on.
    for batch in floors.chunks(FENCE_BATCH_MAX as usize) {
        fence::send(conn, batch.to_vec()).await?;
        cluster.fences.lock().acked(ds, batch);
    }
    let commit = call(
        conn,
        &CommitObjectsArgs {
            objects: Vec::new().into(),
        },
    )
    .await?;
    key_rotation::serve(cluster, conn, commit.verifier).await?;
    tracing::info!(ds, "data server serves");
    cluster.changed.notify_waiters();
    cluster.deliver_fences();
    cluster.deliver_rows();
    Ok(())
}
