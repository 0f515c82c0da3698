//! The host's part of `evict`: an administrator ends the lease of the guest while it works.
//!
//! It asks as `ropewalk client list` and `ropewalk client evict` do. Entry point: [`evict`].

use super::error::Result;
use super::hosted::{Finding, Stage, await_cluster};

/// Evicts every client of Linux that has a lock: that of the guest.
pub(crate) fn evict(stage: &mut Stage<'_>) -> Result<Finding> {
    let cluster = stage.cluster()?;
    await_cluster(&cluster)?;
    if !stage.guest.await_signal("held")? {
        return Ok(None);
    }
    let listed = cluster.ask("mds", "GET /clients", None)?;
    let clients = listed["clients"].as_array().cloned().unwrap_or_default();
    let ids: Vec<&str> = clients
        .iter()
        .filter(|client| client["locks"].as_u64() > Some(0))
        .filter_map(|client| client["id"].as_str())
        .collect();
    let [id] = ids[..] else {
        return Ok(Some(format!("not one client has a lock: {listed}")));
    };
    let evicted = cluster.ask("mds", &format!("POST /clients/{id}/evict"), None)?;
    println!("  {evicted}");
    let again = cluster.ask("mds", &format!("GET /clients/{id}"), None);
    if let Ok(there) = again {
        return Ok(Some(format!("it is there after it was evicted: {there}")));
    }
    stage.guest.signal("evicted")?;
    Ok(None)
}
