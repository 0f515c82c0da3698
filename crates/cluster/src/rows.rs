//! Rows of places, told to their members (rules P2, P3).
//!
//! # Ownership
//! The store has the rows; a data server holds those of its places for as long as its connection lasts.
//!
//! # Ordering
//! A row is durable, then told. A data server is told all rows of its places before it serves, and a changed row at
//! once. No layout of a group is granted before every primary was told its row.
//!
//! # Failure
//! A data server that does not take a row loses its connection and says HELLO again. One that knows a newer version of
//! a group than the store has shows that the store went back: that group is closed for all (rule P21, `closed`).

use crate::call::{DsError, call_when_ready};
use crate::cluster::Cluster;
use control::{MEMBER_ADDRESSES_MAX, MemberAddresses, PlaceRow, ROWS_PAGE_MAX, RowsArgs};
use layout::{Group, GroupForm};
use std::collections::BTreeSet;
use std::sync::Arc;
use tokio::time::Instant;
use transport::{CloseReason, ConnHandle};

/// How often a data server is asked again for changes that came while it was told others.
const ROUNDS_MAX: usize = 64;

impl Cluster {
    /// Tells every data server that serves the rows that it lacks, each in a task of its own.
    pub(crate) fn deliver_rows(self: &Arc<Self>) {
        for (ds, conn) in self.lacking_rows() {
            if !self.telling_rows.lock().insert(ds) {
                continue;
            }
            let cluster = Arc::clone(self);
            tokio::spawn(async move {
                let told = tell(&cluster, ds, &conn).await;
                cluster.telling_rows.lock().remove(&ds);
                if let Err(error) = told {
                    tracing::warn!(ds, %error, "a data server did not take rows of its places");
                    conn.close(CloseReason::Asked);
                }
                cluster.changed.notify_waiters();
            });
        }
    }

    /// Data servers that serve and lack a row.
    fn lacking_rows(&self) -> Vec<(u32, ConnHandle)> {
        let groups = self.groups.lock();
        let servers = self.servers.lock();
        let mut lacking = BTreeSet::new();
        for group in groups.of_places() {
            let version = group.rows_version();
            let lacks = |ds: &u32| {
                let server = servers.map.get(ds);
                server.is_some_and(|s| s.rows_told.get(&group.id) != Some(&version))
            };
            lacking.extend(group.members().into_iter().filter(lacks));
        }
        let conn = |ds| servers.live_conn(ds).map(|conn| (ds, conn));
        lacking.into_iter().filter_map(conn).collect()
    }

    /// Whether every primary of a group that serves was told the rows of its places. Those of a closed one are not told.
    pub fn are_rows_told(&self, id: u32) -> bool {
        let Some(group) = self.group(id) else {
            return true;
        };
        if group.form == GroupForm::Shared {
            return true;
        }
        if self.groups.lock().closed().has(id) {
            return false;
        }
        let version = group.rows_version();
        let servers = self.servers.lock();
        let is_told = |ds: &u32| {
            let server = servers.map.get(ds);
            server.is_none_or(|s| s.rows_told.get(&id) == Some(&version))
        };
        let now = Instant::now();
        let serves = |ds: &u32| servers.map.get(ds).is_some_and(|s| s.is_live(now));
        group
            .primaries()
            .iter()
            .filter(|ds| serves(ds))
            .all(is_told)
    }

    /// Waits until every primary of a group that serves was told its rows, or for `wait_ms`.
    pub async fn rows_told(&self, id: u32, wait_ms: u64) -> bool {
        self.until(wait_ms, || self.are_rows_told(id)).await
    }
}

/// Tells a data server the rows that it lacks.
pub(crate) async fn tell(cluster: &Cluster, ds: u32, conn: &ConnHandle) -> Result<(), DsError> {
    for _ in 0..ROUNDS_MAX {
        let due = due(cluster, ds, conn)?;
        if due.is_empty() {
            return Ok(());
        }
        let stored = cluster.store.durable(cluster.store.applied()).await;
        stored.map_err(|_| DsError::Down)?;
        let copies_min = cluster.copies_min();
        let rows = due.iter().flat_map(|group| rows_of(group, ds, copies_min));
        let rows: Vec<PlaceRow> = rows.collect();
        {
            let mut servers = cluster.servers.lock();
            let (_, server) = servers.by_conn(conn).ok_or(DsError::Down)?;
            server.note_sent(&rows);
        }
        let mut newer = Vec::new();
        for page in rows.chunks(ROWS_PAGE_MAX as usize) {
            let args = RowsArgs {
                members: cluster.addresses_of(page, ds).into(),
                rows: page.to_vec().into(),
            };
            let answer = call_when_ready(conn, &args).await?;
            newer.extend(answer.newer.0);
        }
        for group in newer {
            // HELLO has closed it, or another data server will: none takes an older row.
            tracing::error!(
                ds,
                group,
                "a data server knows a newer version of this placement group"
            );
        }
        let mut servers = cluster.servers.lock();
        let (_, server) = servers.by_conn(conn).ok_or(DsError::Down)?;
        let told = due.iter().map(|group| (group.id, group.rows_version()));
        server.rows_told.extend(told);
    }
    Err(DsError::Lost)
}

/// The groups whose rows a data server lacks on its connection.
fn due(cluster: &Cluster, ds: u32, conn: &ConnHandle) -> Result<Vec<Arc<Group>>, DsError> {
    let groups = cluster.groups.lock();
    let mut servers = cluster.servers.lock();
    let (_, server) = servers.by_conn(conn).ok_or(DsError::Down)?;
    let is_due = |group: &&Arc<Group>| {
        group.is_member(ds) && server.rows_told.get(&group.id) != Some(&group.rows_version())
    };
    Ok(groups.of_places().filter(is_due).cloned().collect())
}

/// The rows of a group that a data server is told: those of places of which it is a member.
fn rows_of(group: &Group, ds: u32, copies_min: u32) -> impl Iterator<Item = PlaceRow> + '_ {
    let places = (0..group.width()).filter_map(move |place| row_of(group, place, copies_min));
    places.filter(move |told| told.row.state_of(ds).is_some())
}

/// The row of a place, as it is told.
pub(crate) fn row_of(group: &Group, place: u32, copies_min: u32) -> Option<PlaceRow> {
    let row = group.rows.get(place as usize)?;
    Some(PlaceRow {
        group: group.id,
        place,
        width: group.width(),
        version: group.version,
        row: row.clone(),
        // A group with fewer copies was made for files that are to have no more.
        copies_min: copies_min.min(group.copies),
    })
}

impl Cluster {
    /// Where the other members of places are reached.
    fn addresses_of(&self, rows: &[PlaceRow], ds: u32) -> Vec<MemberAddresses> {
        let members = rows.iter().flat_map(|told| &told.row.members.0);
        let others: BTreeSet<u32> = members.map(|m| m.ds).filter(|other| *other != ds).collect();
        let servers = self.servers.lock();
        let told = |ds_id: u32| {
            let addresses = &servers.map.get(&ds_id)?.record.addresses.0;
            let some = addresses.iter().take(MEMBER_ADDRESSES_MAX as usize);
            Some(MemberAddresses {
                ds_id,
                addresses: some.cloned().collect::<Vec<_>>().into(),
            })
        };
        let told = others.into_iter().filter_map(told);
        told.take(ROWS_PAGE_MAX as usize).collect()
    }
}
