//! What hosts hold, for an administrator, who alone knows which of them will never come back.

use super::host::HostName;
use fs::Fs;
use std::sync::Arc;

/// A host that has asked for locks.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HostHeld {
    /// Where it calls from.
    pub address: String,
    /// The name that it gives itself.
    pub name: String,
    /// Byte ranges that it has locked.
    pub ranges_count: usize,
    /// Files that it shares with deny modes.
    pub shares_count: usize,
    key: Vec<u8>,
}

/// Where a host calls from, and the name that it gives itself, by its key in the table of clients.
#[must_use]
pub fn describe_host(key: &[u8]) -> Option<(String, String)> {
    let host = HostName::parse(key)?;
    let name = String::from_utf8_lossy(host.name()).into_owned();
    Some((host.peer().to_owned(), name))
}

/// Hosts in the order of their addresses.
#[must_use]
pub fn hosts_held(fs: &Fs) -> Vec<HostHeld> {
    let hosts: Vec<_> = {
        let clients = fs.clients().lock();
        let hosts = clients.hosts().map(|(key, id)| (key.to_vec(), id));
        hosts.collect()
    };
    let state = fs.state();
    let held = hosts.into_iter().filter_map(|(key, id)| {
        let host = HostName::parse(&key)?;
        let (ranges_count, shares_count) = state.held_by_host(id);
        Some(HostHeld {
            address: host.peer().to_owned(),
            name: String::from_utf8_lossy(host.name()).into_owned(),
            ranges_count,
            shares_count,
            key,
        })
    });
    held.collect()
}

/// Ends all locks and shares of a host. One that still runs goes on as if it had them. Returns whether it was still known.
pub async fn free_host(fs: &Arc<Fs>, host: &HostHeld) -> bool {
    fs::host_gone(fs, &host.key).await
}
