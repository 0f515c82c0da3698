//! REMOVE: the objects of removed files, at one data server.

use cluster::{Cluster, DsError, call};
use control::{RemoveItem, RemoveObjectsArgs, Status};

/// Has a data server remove objects. Returns, for each item, whether its tombstone is durable.
///
/// # Errors
/// [`DsError`] when the data server does not answer.
pub async fn remove(
    cluster: &Cluster,
    ds: u32,
    items: Vec<RemoveItem>,
) -> Result<Vec<bool>, DsError> {
    let conn = cluster.live_conn(ds).ok_or(DsError::Down)?;
    let files: Vec<u64> = items.iter().map(|item| item.file_id).collect();
    let items = items.into();
    let answer = call(&conn, &RemoveObjectsArgs { items }).await?;
    if answer.0.len() != files.len() {
        return Err(DsError::Malformed);
    }
    let is_done = |(file, status): (&u64, &Status)| match status {
        Status::Ok | Status::NotFound | Status::Removed => true,
        status => {
            tracing::warn!(ds, file, ?status, "removal");
            false
        }
    };
    Ok(files.iter().zip(&answer.0).map(is_done).collect())
}
