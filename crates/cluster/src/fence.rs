//! Fences: floors that data servers must have before what they forbid may be granted to others (rules R5, R6).
//!
//! # Ownership
//! A floor is pending at a data server from when it is decided until the data server has acknowledged FENCE. Then it is
//! durable, and nothing that it forbids is still going on.
//!
//! # Ordering
//! The file's epoch rises, then the floors are sent. LAYOUTGET on the file is refused until each data server of the
//! file has acknowledged, or has no lease and serves nothing. One that comes back gets what is pending before its first
//! layout I/O.
//!
//! # Failure
//! A data server that does not answer FENCE loses its connection, and with it the renewal of its lease. Pending floors
//! are lost with the process; the next boot's cluster floor is above them all.

use crate::call::{CALL_MS_MAX, DsError, call};
use crate::cluster::Cluster;
use crate::servers::LEASE_MARGIN_MS;
use control::{FENCE_BATCH_MAX, FenceArgs, Status};
use layout::{ClientTag, Epoch, Floor};
use std::sync::Arc;

/// How long beyond a lease an operation waits for fences: a FENCE that is not answered, and the lease's margin.
pub const FENCE_WAIT_MS_MAX: u64 = CALL_MS_MAX + 2 * LEASE_MARGIN_MS;

impl Cluster {
    /// Notes a floor at `epoch` for every data server of a group: it keeps `client`, or all, from a file.
    pub fn note_fence(&self, group: u32, file: u64, client: Option<ClientTag>, epoch: Epoch) {
        let through_key = self.newest_key_id();
        let floor = match client {
            Some(client) => Floor::Client {
                file_id: file,
                client,
                epoch,
                through_key,
            },
            None => Floor::File {
                file_id: file,
                epoch,
                through_key,
            },
        };
        let ids = self.group_servers(group);
        let told = self.servers.lock().told_of(&ids);
        let mut fences = self.fences.lock();
        for ds in told {
            fences.add(ds, floor);
        }
    }

    /// Sends what is pending to every data server that can be told, each in a task of its own.
    pub fn deliver_fences(self: &Arc<Self>) {
        let waiting = self.fences.lock().waiting_servers();
        for ds in waiting {
            if self.live_conn(ds).is_some() && self.delivering.0.lock().insert(ds) {
                let cluster = Arc::clone(self);
                tokio::spawn(async move { cluster.deliver(ds).await });
            }
        }
    }

    /// Sends what is pending to one data server until nothing is, or it fails.
    async fn deliver(&self, ds: u32) {
        loop {
            let floors = self.fences.lock().first(ds, FENCE_BATCH_MAX as usize);
            let conn = self.live_conn(ds);
            let (false, Some(conn)) = (floors.is_empty(), conn) else {
                if self.end_delivery(ds) {
                    return;
                }
                continue;
            };
            match send(&conn, floors.clone()).await {
                Ok(()) => {
                    self.fences.lock().acked(ds, &floors);
                    self.changed.notify_waiters();
                }
                Err(error) => {
                    tracing::warn!(ds, %error, "fence");
                    self.delivering.0.lock().remove(&ds);
                    return;
                }
            }
        }
    }

    /// Ends a delivery unless there is more to deliver.
    fn end_delivery(&self, ds: u32) -> bool {
        let connected = self.live_conn(ds).is_some();
        let mut delivering = self.delivering.0.lock();
        let more = connected && !self.fences.lock().first(ds, 1).is_empty();
        if !more {
            delivering.remove(&ds);
        }
        !more
    }

    /// Waits until no data server may honour what the pending floors on a file forbid, or for `wait_ms`.
    pub async fn fences_settled(&self, group: u32, file: u64, wait_ms: u64) -> bool {
        self.until(wait_ms, || !self.is_fencing(group, file)).await
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
