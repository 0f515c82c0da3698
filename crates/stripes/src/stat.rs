//! STAT: what the data servers of a group have of files.

use crate::place::object_of;
use cluster::{Cluster, DsError, call};
use control::{ObjectRef, StatArgs, StatItem, Status};
use futures_util::future::try_join_all;
use namespace::{Inode, Time};
use nfs4::NfsTime;
use transport::ConnHandle;

/// The object of an expelled data server.
pub const LOST: StatItem = StatItem {
    status: Status::NotFound,
    size_bytes: 0,
    durable_bytes: 0,
    space_bytes: 0,
    modified: NfsTime {
        seconds: 0,
        nanoseconds: 0,
    },
};

/// What the data servers of a group have of files, by place, asked at the same time. One that was expelled has
/// nothing any more.
///
/// # Errors
/// A sentence, when a data server is away or does not answer.
pub async fn stat_group(
    cluster: &Cluster,
    group: u32,
    files: &[&Inode],
) -> Result<Vec<Vec<StatItem>>, String> {
    let group = cluster.group(group).ok_or("no such placement group")?;
    let ids = group.primaries();
    let conns = cluster.conns_but_expelled(&ids);
    let conns = conns.ok_or("a data server is away")?;
    let places = (0..).zip(ids.iter().zip(&conns));
    let asks = places.map(|(place, (ds, conn))| {
        let object = |inode: &&Inode| object_of(inode, &group, place);
        let objects = files.iter().map(object).collect();
        async move {
            let stats = stat(conn.as_ref(), objects).await;
            stats.map_err(|error| format!("data server {ds}: {error}"))
        }
    });
    try_join_all(asks).await
}

async fn stat(
    conn: Option<&ConnHandle>,
    objects: Vec<ObjectRef>,
) -> Result<Vec<StatItem>, DsError> {
    let count = objects.len();
    let Some(conn) = conn else {
        return Ok(vec![LOST; count]);
    };
    let objects = objects.into();
    let answer = call(conn, &StatArgs { objects }).await?;
    if answer.items.0.len() == count {
        Ok(answer.items.0)
    } else {
        Err(DsError::Malformed)
    }
}

/// Whether a data server knows how long an object is.
#[must_use]
pub fn tells_size(item: &StatItem) -> bool {
    matches!(item.status, Status::Ok | Status::NotFound | Status::Removed)
}

/// When an object was last written, by the clock of its data server.
#[must_use]
pub fn modified(item: &StatItem) -> Time {
    Time {
        secs: item.modified.seconds,
        nanos: item.modified.nanoseconds,
    }
}
