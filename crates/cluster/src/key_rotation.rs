//! The keys that sign handles for data servers: made, handed out, replaced, retired (rule R13).
//!
//! ```text
//!   made, durable ──► Next ── every serving data server has it ──► Active ── the next one signs ──► Valid
//!   Valid ── no layout needs it; after the overlap those that do are recalled ──► retired durably
//!         ──► data servers drop it, and the floors and tombstones that only it needed
//! ```
//! # Ownership
//! `key_work` is held over each change, from its transaction until it is in memory; one job makes them, and
//! [`rotate_key`]. The state table counts layouts by the oldest key of their handles.
//!
//! # Ordering
//! A key is durable before anyone gets it, and signs only when each data server that serves has it. A data server that
//! comes gets the current keys before it counts as serving. LAYOUTGET takes the key and counts the layout under it in
//! one step, and reads the file's epoch after that. A floor above this epoch is noted later, and the newest key that it
//! names is not older. A key is retired in the store, then here, then at the data servers. Removals name the newest key
//! when they are sent, and proxied I/O takes the active key each time. A call that is refused for its key is sent
//! again.
//!
//! # Failure
//! Records are written from memory and memory follows them, so a step that was cut short is done again. A restart finds
//! keys in any state. A next key is handed out again. Old ones retire at once, because no handle of an earlier boot is
//! above the cluster floor. A data server that does not take its keys loses its connection and says HELLO again.

use crate::call::{DsError, call_when_ready};
use crate::cluster::Cluster;
use crate::fences::Fences;
use crate::join::AdminError;
use crate::keys::{KeyTimes, RotatedKey, fresh_key};
use crate::records::{self, StoredKey};
use crate::servers::Servers;
use control::KeysArgs;
use layout::{KeyError, SigningKey};
use meta::MetaError;
use nfs4::Verifier;
use std::sync::Arc;
use std::time::Duration;
use tokio::task::JoinSet;
use tokio::time::Instant;
use transport::{CloseReason, ConnHandle};

/// How long [`rotate_key`] waits for a change of the keys that is under way.
const BUSY_MS_MAX: u64 = 5_000;
/// How long it waits for the new key to sign.
const SIGNS_MS_MAX: u64 = 5_000;
/// Pause between two looks at that.
const POLL_MS: u64 = 100;
/// How full the floors of a data server may be before keys change early. Only retired keys empty its tables, and REMOVE
/// and truncation fail when those are full.
const FLOORS_FILL_PERCENT_MAX: u32 = 50;
/// How long keys are used then, at most: the old ones are to retire while there is room.
const HURRIED: KeyTimes = KeyTimes {
    rotation_ms: 60_000,
    overlap_ms: 60_000,
};
/// Layout states looked at in one pass for those to recall; the next tick goes on.
const RECALL_LOOK_MAX: usize = 4096;

/// Who uses the keys: the layouts that are out.
pub trait KeyUsers: Send + Sync + 'static {
    /// The oldest key that the handle of a layout needs; `None` when no layout is out. Called with the keys locked.
    fn oldest_key(&self) -> Option<u32>;

    /// Recalls layouts that need keys up to `key`, those of at most `look_max` states. The next call goes on.
    fn recall_layouts_of(self: Arc<Self>, key: u32, look_max: usize);
}

/// Makes a new key now, whatever the age of the active one, and waits a moment for it to sign.
///
/// # Errors
/// [`AdminError`].
pub async fn rotate_key(
    cluster: &Arc<Cluster>,
    users: Arc<dyn KeyUsers>,
) -> Result<RotatedKey, AdminError> {
    let busy = Duration::from_millis(BUSY_MS_MAX);
    let id = {
        let work = tokio::time::timeout(busy, cluster.key_work.lock()).await;
        let _alone = work.map_err(|_| AdminError::KeysBusy)?;
        make_next(cluster).await?.map_err(AdminError::Key)?
    };
    turn_keys(cluster, users);
    let deadline = Instant::now() + Duration::from_millis(SIGNS_MS_MAX);
    loop {
        let signs = cluster.signing_key().is_some_and(|key| key.id() >= id);
        if signs || Instant::now() >= deadline {
            return Ok(RotatedKey { id, signs });
        }
        tokio::time::sleep(Duration::from_millis(POLL_MS)).await;
    }
}

/// Starts one step of everything that is due: a new key, its way to the data servers, recalls, retirement. To be called
/// about every second.
pub fn turn_keys(cluster: &Arc<Cluster>, users: Arc<dyn KeyUsers>) {
    cluster.key_job.start(|| {
        let cluster = Arc::clone(cluster);
        async move {
            let _alone = cluster.key_work.lock().await;
            if let Err(error) = steps(&cluster, &users).await {
                tracing::error!(%error, "signing keys");
            }
        }
    });
}

async fn steps(cluster: &Arc<Cluster>, users: &Arc<dyn KeyUsers>) -> Result<(), MetaError> {
    let now_ms = cluster.now_wall_ms();
    let times = times_now(cluster);
    let due = cluster.keys.lock().is_due(now_ms, times.rotation_ms);
    if due && let Err(error) = make_next(cluster).await? {
        tracing::warn!(%error, "no new signing key");
    }
    hand_out(cluster).await;
    activate(cluster).await?;
    recall_overdue(cluster, users, now_ms, times.overlap_ms);
    if retire(cluster, &**users).await? {
        hand_out(cluster).await;
    }
    forget_fences(cluster);
    Ok(())
}

/// The times of keys, shorter while floors fill up somewhere.
fn times_now(cluster: &Cluster) -> KeyTimes {
    let fill_percent = cluster.servers.lock().floors_fill_percent();
    if fill_percent <= FLOORS_FILL_PERCENT_MAX {
        return cluster.key_times;
    }
    tracing::debug!(fill_percent, "floors fill up: keys change early");
    KeyTimes {
        rotation_ms: cluster.key_times.rotation_ms.min(HURRIED.rotation_ms),
        overlap_ms: cluster.key_times.overlap_ms.min(HURRIED.overlap_ms),
    }
}

/// Makes the next key, durably, then in memory.
async fn make_next(cluster: &Cluster) -> Result<Result<u32, KeyError>, MetaError> {
    let (mut ring, id) = {
        let keys = cluster.keys.lock();
        (keys.ring.clone(), keys.ring.newest_id() + 1)
    };
    if let Err(error) = ring.insert_next(fresh_key(id, &cluster.random)) {
        return Ok(Err(error));
    }
    let made_ms = cluster.now_wall_ms();
    let key = ring.records().pop().expect("just inserted");
    let seq = records::put_keys(&*cluster.store, &[StoredKey { key, made_ms }])?;
    cluster.store.durable(seq).await?;
    let mut keys = cluster.keys.lock();
    keys.ring = ring;
    keys.made_ms.insert(id, made_ms);
    tracing::info!(key = id, "made a signing key");
    Ok(Ok(id))
}

/// Lets the next key sign once every data server that serves has it.
async fn activate(cluster: &Cluster) -> Result<(), MetaError> {
    let (ring, stored, id) = {
        let keys = cluster.keys.lock();
        let Some(id) = keys.ring.next().map(SigningKey::id) else {
            return Ok(());
        };
        // Those that come to serve from here on have it too: see `serve`.
        if !cluster.servers.lock().all_have_key(id) {
            return Ok(());
        }
        let mut ring = keys.ring.clone();
        ring.activate_next().expect("there is a next one");
        let stored = keys.stored(&ring);
        (ring, stored, id)
    };
    let seq = records::put_keys(&*cluster.store, &stored)?;
    cluster.store.durable(seq).await?;
    cluster.keys.lock().ring = ring;
    tracing::info!(key = id, "a new key signs");
    Ok(())
}

/// Recalls layouts that still need a key which another replaced long ago.
fn recall_overdue(cluster: &Cluster, users: &Arc<dyn KeyUsers>, now_ms: u64, overlap_ms: u64) {
    let overdue = cluster.keys.lock().overdue(now_ms, overlap_ms);
    if let Some(key) = overdue {
        Arc::clone(users).recall_layouts_of(key, RECALL_LOOK_MAX);
    }
}

/// Retires the keys that no layout needs. Says whether there were any.
async fn retire(cluster: &Cluster, users: &dyn KeyUsers) -> Result<bool, MetaError> {
    let (mut ring, through) = {
        let keys = cluster.keys.lock();
        let Some(active) = keys.ring.active().map(SigningKey::id) else {
            return Ok(false);
        };
        // New layouts count under the active key, so this only rises.
        let needed = users.oldest_key().unwrap_or(active);
        (keys.ring.clone(), needed.min(active) - 1)
    };
    let ids: Vec<u32> = ring.records().iter().map(|r| r.id).collect();
    let ids: Vec<u32> = ids.into_iter().filter(|id| *id <= through).collect();
    if ids.is_empty() {
        return Ok(false);
    }
    let seq = records::delete_keys(&*cluster.store, &ids)?;
    cluster.store.durable(seq).await?;
    ring.retire_through(through).expect("below the active key");
    let mut keys = cluster.keys.lock();
    keys.ring = ring;
    keys.made_ms.retain(|id, _| *id > through);
    tracing::info!(through, "signing keys are retired");
    Ok(true)
}

/// Drops pending floors of data servers that serve nothing, where only retired keys need them. Before such a server
/// serves again it has the current keys. One that was expelled does not come back at all.
fn forget_fences(cluster: &Cluster) {
    let keys = cluster.keys.lock();
    let servers = cluster.servers.lock();
    let mut fences = cluster.fences.lock();
    forget_fences_in(&mut fences, &servers, keys.ring.retired_through());
}

fn forget_fences_in(fences: &mut Fences, servers: &Servers, retired_through: u32) {
    let now = Instant::now();
    for ds in fences.waiting_servers() {
        match servers.map.get(&ds) {
            Some(server) if server.has_lease(now) => {}
            Some(server) if server.is_member() => fences.retire_key(ds, retired_through),
            _ => fences.forget_server(ds),
        }
    }
}

/// Sends the keys to every data server that serves and has others, and waits for all answers.
async fn hand_out(cluster: &Arc<Cluster>) {
    let lacking: Vec<(u32, ConnHandle)> = {
        let held = cluster.keys.lock().held();
        let servers = cluster.servers.lock();
        let live = servers.live_ids().into_iter();
        live.filter(|id| servers.map[id].keys != held)
            .filter_map(|id| servers.live_conn(id).map(|conn| (id, conn)))
            .collect()
    };
    let mut tasks = JoinSet::new();
    for (ds, conn) in lacking {
        let cluster = Arc::clone(cluster);
        tasks.spawn(async move {
            if let Err(error) = send(&cluster, &conn).await {
                tracing::warn!(ds, %error, "a data server did not take its keys");
                conn.close(CloseReason::Asked);
            }
        });
    }
    while tasks.join_next().await.is_some() {}
}

/// Sends the current keys on a connection.
async fn send(cluster: &Cluster, conn: &ConnHandle) -> Result<(), DsError> {
    let (keys, held) = cluster.keys.lock().to_send();
    call_when_ready(conn, &KeysArgs { keys }).await?;
    if let Some((_, server)) = cluster.servers.lock().by_conn(conn) {
        server.keys = held;
    }
    Ok(())
}

/// Sends the keys to a data server that comes, unless it has them from the answer to HELLO.
pub(crate) async fn bring_up(cluster: &Cluster, conn: &ConnHandle) -> Result<(), DsError> {
    let current = {
        let held = cluster.keys.lock().held();
        let mut servers = cluster.servers.lock();
        let (_, server) = servers.by_conn(conn).ok_or(DsError::Down)?;
        server.keys == held
    };
    if current {
        Ok(())
    } else {
        send(cluster, conn).await
    }
}

/// Lets a data server count as serving, once it has the current keys. It is one step: none is ever without the key that
/// is about to sign.
pub(crate) async fn serve(
    cluster: &Cluster,
    conn: &ConnHandle,
    verifier: Verifier,
) -> Result<(), DsError> {
    loop {
        {
            let keys = cluster.keys.lock();
            let mut servers = cluster.servers.lock();
            let (_, server) = servers.by_conn(conn).ok_or(DsError::Down)?;
            if server.keys == keys.held() {
                server.verifier = Some(verifier);
                server.serving = true;
                server.note_heard(tokio::time::Instant::now());
                return Ok(());
            }
        }
        send(cluster, conn).await?;
    }
}
