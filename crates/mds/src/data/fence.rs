//! Fences: floors that data servers must have before what they forbid may be granted to others (rules R5, R6).
//!
//! # Ownership
//! A floor is pending at a data server from when it is decided until the data server has acknowledged FENCE: durable,
//! and nothing that it forbids still going on.
//!
//! # Ordering
//! The file's epoch rises, then the floors are sent; LAYOUTGET on the file is refused until each data server of the
//! file has acknowledged, or has no lease and so serves nothing. One that comes back gets what is pending
//! before its first layout I/O.
//!
//! # Failure
//! A data server that does not answer FENCE loses its connection, and with it the renewal of its lease. Pending floors
//! are lost with the process; the next boot's cluster floor is above them all.

use super::call::{DsError, call};
use super::servers::Servers;
use crate::Mds;
use crate::cx;
use control::{FENCE_BATCH_MAX, FenceArgs, Status};
use layout::{ClientTag, Epoch, Floor, FloorKey};
use namespace::{Cred, FileId, NsError, Op};
use nfs4::NfsStatus;
use server::Nfsd;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;
use tokio::time::Instant;

/// Most floors that wait for one data server. One that missed more is refused until the
/// keys have changed, or the MDS restarts.
const PENDING_MAX: usize = 262_144;
/// Pause between two looks at leases that run out.
const POLL_MS: u64 = 100;
/// How long beyond a lease an operation waits for fences: a FENCE that is not answered, and the lease's margin.
pub(crate) const WAIT_MS_MAX: u64 = super::call::CALL_MS_MAX + 2 * super::servers::LEASE_MARGIN_MS;

/// Floors that are not acknowledged yet, by data server.
#[derive(Default)]
pub(crate) struct Fences {
    pending: BTreeMap<u32, BTreeMap<FloorKey, Floor>>,
    /// Data servers for which floors were dropped, and the newest key that those need.
    overflowed: BTreeMap<u32, u32>,
}

impl Fences {
    /// Notes a floor for a data server; the higher epoch of two wins.
    fn add(&mut self, ds: u32, floor: Floor) {
        let of_ds = self.pending.entry(ds).or_default();
        let key = floor.key();
        let higher = of_ds
            .get(&key)
            .is_some_and(|old| epoch_of(old) >= epoch_of(&floor));
        if higher {
            return;
        }
        if of_ds.len() >= PENDING_MAX && !of_ds.contains_key(&key) {
            let through_key = floor.through_key().unwrap_or(u32::MAX);
            let newest = self.overflowed.entry(ds).or_insert_with(|| {
                tracing::error!(
                    ds,
                    "too many fences wait; it is readmitted after the keys have changed"
                );
                0
            });
            *newest = through_key.max(*newest);
            return;
        }
        of_ds.insert(key, floor);
    }

    /// Forgets what was acknowledged, unless it was raised meanwhile.
    pub(crate) fn acked(&mut self, ds: u32, floors: &[Floor]) {
        let Some(of_ds) = self.pending.get_mut(&ds) else {
            return;
        };
        for floor in floors {
            if of_ds.get(&floor.key()) == Some(floor) {
                of_ds.remove(&floor.key());
            }
        }
        if of_ds.is_empty() {
            self.pending.remove(&ds);
        }
    }

    /// Whether floors were dropped for lack of room: such a data server cannot come back before the keys that those
    /// need have retired.
    pub(crate) fn has_overflowed(&self, ds: u32) -> bool {
        self.overflowed.contains_key(&ds)
    }

    /// Drops what only keys up to `key` need. For data servers that serve nothing, and have other keys before they
    /// serve again; at one that serves, a fence also says that older I/O has ended.
    pub(crate) fn retire_key(&mut self, ds: u32, key: u32) {
        if let Some(of_ds) = self.pending.get_mut(&ds) {
            of_ds.retain(|_, floor| floor.through_key().is_none_or(|through| through > key));
            if of_ds.is_empty() {
                self.pending.remove(&ds);
            }
        }
        if self
            .overflowed
            .get(&ds)
            .is_some_and(|through| *through <= key)
        {
            self.overflowed.remove(&ds);
        }
    }

    pub(crate) fn first(&self, ds: u32, limit: usize) -> Vec<Floor> {
        let of_ds = self.pending.get(&ds);
        of_ds.map_or_else(Vec::new, |m| m.values().take(limit).copied().collect())
    }

    pub(crate) fn all(&self, ds: u32) -> Vec<Floor> {
        self.first(ds, usize::MAX)
    }

    fn names(&self, ds: u32, file: u64) -> bool {
        let (low, high) = (
            ClientTag::from_bytes([0; 12]),
            ClientTag::from_bytes([u8::MAX; 12]),
        );
        self.pending.get(&ds).is_some_and(|m| {
            m.contains_key(&FloorKey::File(file))
                || m.range(FloorKey::Client(file, low)..=FloorKey::Client(file, high))
                    .next()
                    .is_some()
        })
    }

    /// Whether a data server of `ids` may still honour what a pending floor on the file forbids.
    pub(crate) fn outstanding(&self, servers: &Servers, ids: &[u32], file: u64) -> bool {
        let now = Instant::now();
        ids.iter().any(|ds| {
            let leased = servers.map.get(ds).is_some_and(|s| s.has_lease(now));
            leased && (self.overflowed.contains_key(ds) || self.names(*ds, file))
        })
    }

    pub(crate) fn len(&self) -> usize {
        self.pending.values().map(BTreeMap::len).sum()
    }

    pub(crate) fn waiting_servers(&self) -> Vec<u32> {
        self.pending.keys().copied().collect()
    }

    pub(crate) fn forget_server(&mut self, ds: u32) {
        self.pending.remove(&ds);
        self.overflowed.remove(&ds);
    }
}

fn epoch_of(floor: &Floor) -> u64 {
    match floor {
        Floor::Cluster { epoch } | Floor::File { epoch, .. } | Floor::Client { epoch, .. } => {
            epoch.as_u64()
        }
        Floor::Tombstone { generation, .. } => u64::from(*generation),
    }
}

/// Raises the epoch of a file and notes the floor that keeps `client` (or all) from it. Returns whether there is anything
/// to wait for. A file that is gone has its tombstone.
pub(crate) fn raise(
    nfsd: &Nfsd<Mds>,
    file: FileId,
    client: Option<ClientTag>,
) -> Result<bool, NfsStatus> {
    let mds = nfsd.role();
    let cred = Cred::root();
    let mut op = Op::new(&cred, mds.now());
    let epoch = match mds.namespace().raise_epoch(&mut op, file) {
        Ok(epoch) => Epoch::from_u64(epoch),
        Err(NsError::Stale | NsError::Inval) => return Ok(false),
        Err(e) => return Err(cx::status(&e)),
    };
    let inode = mds
        .namespace()
        .getattr(&mut op, file)
        .map_err(|e| cx::status(&e))?;
    let Some(placement) = inode.placement else {
        return Ok(false);
    };
    note(nfsd, placement.group, file, client, epoch);
    Ok(true)
}

/// Notes a floor at `epoch` for every data server of a group.
pub(crate) fn note(
    nfsd: &Nfsd<Mds>,
    group: u32,
    file: FileId,
    client: Option<ClientTag>,
    epoch: Epoch,
) {
    let data = nfsd.role().data();
    let through_key = data.keys.lock().ring().newest_id();
    let floor = match client {
        Some(client) => Floor::Client {
            file_id: file.0,
            client,
            epoch,
            through_key,
        },
        None => Floor::File {
            file_id: file.0,
            epoch,
            through_key,
        },
    };
    let ids = data.groups.lock().servers_of(group).unwrap_or_default();
    let told = data.servers.lock().told_of(&ids);
    let mut fences = data.fences.lock();
    for ds in told {
        fences.add(ds, floor);
    }
}

/// Sends what is pending to every data server that can be told, each in a task of its own.
pub(crate) fn deliver_all(nfsd: &Arc<Nfsd<Mds>>) {
    let data = nfsd.role().data();
    let waiting = data.fences.lock().waiting_servers();
    for ds in waiting {
        if data.servers.lock().live_conn(ds).is_some() && data.begin_delivery(ds) {
            let nfsd = Arc::clone(nfsd);
            tokio::spawn(async move {
                deliver(&nfsd, ds).await;
            });
        }
    }
}

/// Sends what is pending to one data server until nothing is, or it fails. One task at a time for each.
async fn deliver(nfsd: &Nfsd<Mds>, ds: u32) {
    let data = nfsd.role().data();
    loop {
        let floors = data.fences.lock().first(ds, FENCE_BATCH_MAX as usize);
        let conn = data.servers.lock().live_conn(ds);
        let (false, Some(conn)) = (floors.is_empty(), conn) else {
            if data.end_delivery(ds) {
                return;
            }
            continue;
        };
        match send(&conn, floors.clone()).await {
            Ok(()) => {
                data.fences.lock().acked(ds, &floors);
                data.changed.notify_waiters();
            }
            Err(error) => {
                tracing::warn!(ds, %error, "fence");
                data.abort_delivery(ds);
                return;
            }
        }
    }
}

/// One FENCE. A data server that refuses it loses its connection, so that its lease runs out.
pub(crate) async fn send(conn: &transport::ConnHandle, floors: Vec<Floor>) -> Result<(), DsError> {
    let result = call(
        conn,
        &FenceArgs {
            floors: floors.into(),
        },
    )
    .await;
    if let Err(DsError::Refused(refusal)) = &result
        && refusal.status != Status::TryLater
    {
        conn.close(transport::CloseReason::Asked);
    }
    result
}

/// Waits until no data server may honour what the pending floors on `files` forbid, or for `wait_ms`.
pub(crate) async fn settled(nfsd: &Nfsd<Mds>, group: u32, file: FileId, wait_ms: u64) -> bool {
    let data = nfsd.role().data();
    let deadline = Instant::now() + Duration::from_millis(wait_ms);
    loop {
        let changed = data.changed.notified();
        tokio::pin!(changed);
        changed.as_mut().enable();
        if !data.is_fencing(group, file) {
            return true;
        }
        if Instant::now() >= deadline {
            return false;
        }
        let _either = tokio::time::timeout(Duration::from_millis(POLL_MS), changed).await;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_data_server_that_missed_too_much_may_come_back_when_the_keys_have_retired() {
        let mut fences = Fences::default();
        let floor = |file_id: usize, through_key| Floor::File {
            file_id: file_id as u64,
            epoch: Epoch::new(1, 1),
            through_key,
        };
        for file in 0..PENDING_MAX {
            fences.add(7, floor(file, 1));
        }
        assert!(!fences.has_overflowed(7));
        fences.add(7, floor(PENDING_MAX, 2));
        fences.add(7, floor(PENDING_MAX + 1, 1));
        assert!(fences.has_overflowed(7));
        fences.retire_key(7, 1);
        assert_eq!(fences.len(), 0);
        assert!(fences.has_overflowed(7), "one that is lost needs key 2");
        fences.retire_key(7, 2);
        assert!(!fences.has_overflowed(7));
    }
}
