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
//! A key is durable before anyone gets it, and signs only when each data server that serves has it; one that comes gets
//! the keys of now before it counts as serving. LAYOUTGET takes the key and counts the layout under it in one step, and
//! reads the file's epoch after that: a floor above this epoch is noted later, so the newest key that it names is not
//! older. A key is retired in the store, then here, then at the data servers. Removals name the newest key when they are
//! sent, and proxied I/O takes the active key each time; one that is refused for its key is asked for again.
//!
//! # Failure
//! Records are written from memory and memory follows them, so a step that was cut short is done again. A restart finds
//! keys in any state: a next key is handed out again, and old ones retire at once, for no handle of an earlier boot is
//! above the cluster floor. A data server that does not take its keys loses its connection and says HELLO again.

use super::call::DsError;
use super::fence::Fences;
use super::join::{AdminError, wall_ms};
use super::records::{self, StoredKey};
use super::servers::Servers;
use super::{DataPlane, grants, port};
use crate::Mds;
use crate::mds::Random;
use control::{KeySet, KeysArgs};
use layout::{KeyBytes, KeyError, KeyRecord, KeyRing, KeyState, SigningKey};
use meta::{MetaError, MetaStore, Seq};
use nfs4::Verifier;
use server::Nfsd;
use state::Other;
use std::collections::BTreeMap;
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
/// How full the floors of a data server may be before keys change early: only retired ones empty its tables, and REMOVE
/// and truncation fail when those are full.
const FLOORS_FILL_PERCENT_MAX: u32 = 50;
/// How long keys are used then, at most: the old ones are to retire while there is room.
const HURRIED: KeyTimes = KeyTimes {
    rotation_ms: 60_000,
    overlap_ms: 60_000,
};
/// Layout states looked at in one pass for those to recall; the next tick goes on.
const RECALL_LOOK_MAX: usize = 4096;

/// How long keys are used, in milliseconds of wall time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct KeyTimes {
    /// A new key is made when the active one is as old.
    pub rotation_ms: u64,
    /// When a new key is as old, layouts that need an older one are recalled.
    pub overlap_ms: u64,
}

/// A live key, for status.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct KeyStatus {
    /// Its id.
    pub id: u32,
    /// Its state.
    pub state: KeyState,
    /// When it was made: milliseconds since 1970.
    pub made_ms: u64,
}

/// What [`rotate_key`] did.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RotatedKey {
    /// Id of the new key.
    pub id: u32,
    /// Whether it signs already; if not, a data server has yet to take it.
    pub signs: bool,
}

/// Which keys a data server has, as far as it matters there: all live ones verify.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct HeldKeys {
    pub(crate) newest_id: u32,
    pub(crate) retired_through: u32,
}

/// The live keys.
pub(crate) struct Keys {
    ring: KeyRing,
    /// When each was made.
    made_ms: BTreeMap<u32, u64>,
    /// Where the search for layouts to recall goes on.
    recall_after: Option<Other>,
}

fn fresh_key(id: u32, random: &Random) -> SigningKey {
    let mut bytes = [0; layout::KEY_BYTES];
    for part in bytes.chunks_exact_mut(8) {
        part.copy_from_slice(&random().to_be_bytes());
    }
    SigningKey::new(id, KeyBytes::from_random(bytes))
}

impl Keys {
    /// The stored keys; the first one is made here. Serve nothing before the returned transaction is durable.
    pub(super) fn open(
        store: &dyn MetaStore,
        random: &Random,
        now_ms: u64,
    ) -> Result<(Self, Seq), MetaError> {
        let stored = records::load_keys(store)?;
        let records: Vec<KeyRecord> = stored.iter().map(|s| s.key.clone()).collect();
        // Ids rise by one and the oldest retire first, so below the lowest everything has.
        let retired_through = records.iter().map(|r| r.id).min().unwrap_or(1) - 1;
        let ring = KeyRing::from_records(&records, retired_through)
            .map_err(|e| MetaError::Corrupt(format!("signing keys: {e}")))?;
        let mut keys = Self {
            ring,
            made_ms: stored.iter().map(|s| (s.key.id, s.made_ms)).collect(),
            recall_after: None,
        };
        if keys.ring.active().is_some() {
            return Ok((keys, store.applied()));
        }
        let key = fresh_key(keys.ring.newest_id() + 1, random);
        keys.made_ms.insert(key.id(), now_ms);
        keys.ring
            .insert_active(key)
            .map_err(|e| MetaError::Corrupt(format!("signing keys: {e}")))?;
        let seq = records::put_keys(store, &keys.stored(&keys.ring))?;
        Ok((keys, seq))
    }

    pub(crate) fn ring(&self) -> &KeyRing {
        &self.ring
    }

    /// The message for data servers, and what they have once they took it.
    pub(crate) fn to_send(&self) -> (KeySet, HeldKeys) {
        (KeySet::of(&self.ring), self.held())
    }

    fn held(&self) -> HeldKeys {
        HeldKeys {
            newest_id: self.ring.newest_id(),
            retired_through: self.ring.retired_through(),
        }
    }

    fn stored(&self, ring: &KeyRing) -> Vec<StoredKey> {
        let stored = |key: KeyRecord| StoredKey {
            made_ms: self.made_ms.get(&key.id).copied().unwrap_or(0),
            key,
        };
        ring.records().into_iter().map(stored).collect()
    }

    /// Whether the active key is old enough for another. One from far in the future was made by a wrong clock.
    fn is_due(&self, now_ms: u64, rotation_ms: u64) -> bool {
        let active = self.ring.active().map(SigningKey::id);
        let made_ms = active.and_then(|id| self.made_ms.get(&id)).copied();
        let old = made_ms.is_none_or(|made| now_ms.abs_diff(made) >= rotation_ms);
        let room = self.ring.records().len() < layout::KEYS_MAX as usize;
        old && room && self.ring.next().is_none()
    }

    /// The newest key whose layouts may be recalled: the one that signs after it is older than the overlap.
    fn overdue(&self, now_ms: u64, overlap_ms: u64) -> Option<u32> {
        let active = self.ring.active()?.id();
        let mut successors = self.made_ms.range(..=active).rev();
        let old = |made: u64| now_ms.abs_diff(made) >= overlap_ms;
        let (id, _) = successors.find(|(_, made)| old(**made))?;
        let overdue = id - 1;
        (overdue > self.ring.retired_through()).then_some(overdue)
    }

    pub(crate) fn status(&self) -> Vec<KeyStatus> {
        let status = |s: StoredKey| KeyStatus {
            id: s.key.id,
            state: s.key.state,
            made_ms: s.made_ms,
        };
        self.stored(&self.ring).into_iter().map(status).collect()
    }
}

impl DataPlane {
    /// The key that signs now, for I/O of the metadata server itself. To be taken before the epoch is read.
    pub(super) fn signing_key(&self) -> Option<SigningKey> {
        self.keys.lock().ring.active().cloned()
    }
}

/// Makes a new key now, whatever the age of the active one, and waits a moment for it to sign.
///
/// # Errors
/// [`AdminError`].
pub async fn rotate_key(nfsd: &Nfsd<Mds>) -> Result<RotatedKey, AdminError> {
    let data = nfsd.role().data();
    let busy = Duration::from_millis(BUSY_MS_MAX);
    let id = {
        let work = tokio::time::timeout(busy, data.key_work.lock()).await;
        let _alone = work.map_err(|_| AdminError::KeysBusy)?;
        make_next(nfsd).await?.map_err(AdminError::Key)?
    };
    if let Some(me) = data.service() {
        data.run(&data.jobs.keys, &me, |me| async move {
            turn(&me).await;
        });
    }
    let deadline = Instant::now() + Duration::from_millis(SIGNS_MS_MAX);
    loop {
        let signs = data.signing_key().is_some_and(|key| key.id() >= id);
        if signs || Instant::now() >= deadline {
            return Ok(RotatedKey { id, signs });
        }
        tokio::time::sleep(Duration::from_millis(POLL_MS)).await;
    }
}

/// One step of everything that is due: a new key, its way to the data servers, recalls, retirement.
pub(super) async fn turn(nfsd: &Nfsd<Mds>) {
    let _alone = nfsd.role().data().key_work.lock().await;
    if let Err(error) = steps(nfsd).await {
        tracing::error!(%error, "signing keys");
    }
}

async fn steps(nfsd: &Nfsd<Mds>) -> Result<(), MetaError> {
    let data = nfsd.role().data();
    let now_ms = wall_ms(nfsd.role());
    let times = times_now(data);
    let due = data.keys.lock().is_due(now_ms, times.rotation_ms);
    if due && let Err(error) = make_next(nfsd).await? {
        tracing::warn!(%error, "no new signing key");
    }
    hand_out(nfsd).await;
    activate(nfsd).await?;
    recall_overdue(nfsd, now_ms, times.overlap_ms);
    if retire(nfsd).await? {
        hand_out(nfsd).await;
    }
    forget_fences(data);
    Ok(())
}

/// The times of keys, shorter while floors fill up somewhere.
fn times_now(data: &DataPlane) -> KeyTimes {
    let fill_percent = data.servers.lock().floors_fill_percent();
    if fill_percent <= FLOORS_FILL_PERCENT_MAX {
        return data.key_times;
    }
    tracing::debug!(fill_percent, "floors fill up: keys change early");
    KeyTimes {
        rotation_ms: data.key_times.rotation_ms.min(HURRIED.rotation_ms),
        overlap_ms: data.key_times.overlap_ms.min(HURRIED.overlap_ms),
    }
}

/// Makes the next key, durably, then in memory.
async fn make_next(nfsd: &Nfsd<Mds>) -> Result<Result<u32, KeyError>, MetaError> {
    let mds = nfsd.role();
    let data = mds.data();
    let (mut ring, id) = {
        let keys = data.keys.lock();
        (keys.ring.clone(), keys.ring.newest_id() + 1)
    };
    if let Err(error) = ring.insert_next(fresh_key(id, &data.random)) {
        return Ok(Err(error));
    }
    let made_ms = wall_ms(mds);
    let key = ring.records().pop().expect("just inserted");
    let seq = records::put_keys(&**mds.store(), &[StoredKey { key, made_ms }])?;
    mds.store().durable(seq).await?;
    let mut keys = data.keys.lock();
    keys.ring = ring;
    keys.made_ms.insert(id, made_ms);
    tracing::info!(key = id, "made a signing key");
    Ok(Ok(id))
}

/// Lets the next key sign once every data server that serves has it.
async fn activate(nfsd: &Nfsd<Mds>) -> Result<(), MetaError> {
    let mds = nfsd.role();
    let data = mds.data();
    let (ring, stored, id) = {
        let keys = data.keys.lock();
        let Some(id) = keys.ring.next().map(SigningKey::id) else {
            return Ok(());
        };
        // Those that come to serve from here on have it too: see `serve`.
        if !data.servers.lock().all_have_key(id) {
            return Ok(());
        }
        let mut ring = keys.ring.clone();
        ring.activate_next().expect("there is a next one");
        let stored = keys.stored(&ring);
        (ring, stored, id)
    };
    let seq = records::put_keys(&**mds.store(), &stored)?;
    mds.store().durable(seq).await?;
    data.keys.lock().ring = ring;
    tracing::info!(key = id, "a new key signs");
    Ok(())
}

/// Recalls layouts that still need a key which another replaced long ago.
fn recall_overdue(nfsd: &Nfsd<Mds>, now_ms: u64, overlap_ms: u64) {
    let data = nfsd.role().data();
    let (key, after) = {
        let keys = data.keys.lock();
        let Some(key) = keys.overdue(now_ms, overlap_ms) else {
            return;
        };
        (key, keys.recall_after)
    };
    let next = grants::recall_of_keys(nfsd, key, after, RECALL_LOOK_MAX);
    data.keys.lock().recall_after = next;
}

/// Retires the keys that no layout needs. Says whether there were any.
async fn retire(nfsd: &Nfsd<Mds>) -> Result<bool, MetaError> {
    let mds = nfsd.role();
    let data = mds.data();
    let (mut ring, through) = {
        let keys = data.keys.lock();
        let Some(active) = keys.ring.active().map(SigningKey::id) else {
            return Ok(false);
        };
        // New layouts count under the active key, so this only rises.
        let needed = mds.state().layouts.oldest_key().unwrap_or(active);
        (keys.ring.clone(), needed.min(active) - 1)
    };
    let ids: Vec<u32> = ring.records().iter().map(|r| r.id).collect();
    let ids: Vec<u32> = ids.into_iter().filter(|id| *id <= through).collect();
    if ids.is_empty() {
        return Ok(false);
    }
    let seq = records::delete_keys(&**mds.store(), &ids)?;
    mds.store().durable(seq).await?;
    ring.retire_through(through).expect("below the active key");
    let mut keys = data.keys.lock();
    keys.ring = ring;
    keys.made_ms.retain(|id, _| *id > through);
    tracing::info!(through, "signing keys are retired");
    Ok(true)
}

/// Drops pending floors of data servers that serve nothing, where only retired keys need them: before such a server
/// serves again it has the keys of now. One that was expelled does not come back at all.
fn forget_fences(data: &DataPlane) {
    let keys = data.keys.lock();
    let servers = data.servers.lock();
    let mut fences = data.fences.lock();
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
async fn hand_out(nfsd: &Nfsd<Mds>) {
    let data = nfsd.role().data();
    let Some(me) = data.service() else { return };
    let lacking: Vec<(u32, ConnHandle)> = {
        let held = data.keys.lock().held();
        let servers = data.servers.lock();
        let live = servers.live_ids().into_iter();
        live.filter(|id| servers.map[id].keys != held)
            .filter_map(|id| servers.live_conn(id).map(|conn| (id, conn)))
            .collect()
    };
    let mut tasks = JoinSet::new();
    for (ds, conn) in lacking {
        let me = Arc::clone(&me);
        tasks.spawn(async move {
            if let Err(error) = send(me.role().data(), &conn).await {
                tracing::warn!(ds, %error, "a data server did not take its keys");
                conn.close(CloseReason::Asked);
            }
        });
    }
    while tasks.join_next().await.is_some() {}
}

/// Sends the keys of now on a connection.
async fn send(data: &DataPlane, conn: &ConnHandle) -> Result<(), DsError> {
    let (keys, held) = data.keys.lock().to_send();
    port::offer(conn, &KeysArgs { keys }).await?;
    if let Some((_, server)) = data.servers.lock().by_conn(conn) {
        server.keys = held;
    }
    Ok(())
}

/// Sends the keys to a data server that comes, unless it has those of now from the answer to HELLO.
pub(super) async fn bring_up(data: &DataPlane, conn: &ConnHandle) -> Result<(), DsError> {
    let current = {
        let held = data.keys.lock().held();
        let mut servers = data.servers.lock();
        let (_, server) = servers.by_conn(conn).ok_or(DsError::Down)?;
        server.keys == held
    };
    if current {
        Ok(())
    } else {
        send(data, conn).await
    }
}

/// Lets a data server count as serving, once it has the keys of now: in one step, so that none is ever without the key
/// that is about to sign.
pub(super) async fn serve(
    data: &DataPlane,
    conn: &ConnHandle,
    verifier: Verifier,
) -> Result<(), DsError> {
    loop {
        {
            let keys = data.keys.lock();
            let mut servers = data.servers.lock();
            let (_, server) = servers.by_conn(conn).ok_or(DsError::Down)?;
            if server.keys == keys.held() {
                server.verifier = Some(verifier);
                server.serving = true;
                server.note_heard(tokio::time::Instant::now());
                return Ok(());
            }
        }
        send(data, conn).await?;
    }
}
