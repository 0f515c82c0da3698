//! All servers of others of a cluster, and the groups over them.
//!
//! # Ownership
//! The tables of servers and of groups, as they are in the metadata store; the handles of objects; the fences that wait.
//!
//! May call: the metadata store for its own records, `nfs3-client` by way of [`crate::server`]. It knows no inode.

use crate::cache::HandleCache;
use crate::client_sums::ClientSums;
use crate::fence_table::Fences;
use crate::group::ForeignGroup;
use crate::records::{self, GroupRecord, ServerState};
use crate::server::Server;
use meta::{MetaError, MetaStore};
use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;
use tracing_mutex::parkinglot::Mutex;
use transport::Connector;

/// What the servers of a cluster are reached with.
pub struct ForeignConfig {
    /// Names the directory of the cluster on each server.
    pub cluster_id: u64,
    /// Where records are.
    pub store: Arc<dyn MetaStore>,
    /// Connects to servers.
    pub connector: Arc<dyn Connector>,
    /// Random numbers, for transaction ids.
    pub random: Arc<dyn Fn() -> u64 + Send + Sync>,
}

/// Groups by id, and ids by what they are.
#[derive(Default)]
pub(crate) struct Groups {
    pub(crate) by_id: BTreeMap<u32, Arc<ForeignGroup>>,
    /// By mirrors and servers.
    pub(crate) ids: HashMap<(u32, Vec<u32>), u32>,
    /// Where the next pick begins.
    pub(crate) turn: usize,
}

impl Groups {
    pub(crate) fn insert(&mut self, record: GroupRecord) -> Arc<ForeignGroup> {
        let group = Arc::new(ForeignGroup::of(record));
        let shape = (group.mirrors, group.servers.clone());
        self.ids.insert(shape, group.id);
        self.by_id.insert(group.id, Arc::clone(&group));
        group
    }
}

/// The servers of others of a cluster. Every method may be called concurrently.
pub struct Foreign {
    pub(crate) config: ForeignConfig,
    pub(crate) servers: Mutex<BTreeMap<u32, Arc<Server>>>,
    pub(crate) groups: Mutex<Groups>,
    pub(crate) handles: HandleCache,
    pub(crate) fences: Fences,
    pub(crate) client_io: ClientSums,
    /// One is added at a time.
    pub(crate) adding: tokio::sync::Mutex<()>,
}

impl std::fmt::Debug for Foreign {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Foreign").finish_non_exhaustive()
    }
}

impl Foreign {
    /// The servers that the metadata store knows. None of them is called yet.
    ///
    /// # Errors
    /// [`MetaError`] when the store fails, or its records are not what was written.
    pub fn open(config: ForeignConfig) -> Result<Arc<Self>, MetaError> {
        let mut servers = BTreeMap::new();
        for record in records::load_servers(&*config.store)? {
            let server = Server::new(
                record,
                config.cluster_id,
                &config.connector,
                &*config.random,
            );
            servers.insert(server.id, Arc::new(server));
        }
        let mut groups = Groups::default();
        for record in records::load_groups(&*config.store)? {
            groups.insert(record);
        }
        groups.turn = usize::try_from((config.random)() >> 32).unwrap_or(0);
        Ok(Arc::new(Self {
            config,
            servers: Mutex::new(servers),
            groups: Mutex::new(groups),
            handles: HandleCache::default(),
            fences: Fences::default(),
            client_io: ClientSums::default(),
            adding: tokio::sync::Mutex::default(),
        }))
    }

    /// Whether no server is used.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        let servers = self.servers.lock();
        servers.values().all(|s| s.state() == ServerState::Removed)
    }

    /// Whether a server is used: it was added and not removed.
    #[must_use]
    pub fn is_used(&self, server: u32) -> bool {
        let servers = self.servers.lock();
        servers
            .get(&server)
            .is_some_and(|s| s.state() != ServerState::Removed)
    }

    /// Whether a server answers, as far as is known.
    #[must_use]
    pub fn is_up(&self, server: u32) -> bool {
        self.servers.lock().get(&server).is_some_and(|s| s.is_up())
    }

    /// A group, if there is one.
    #[must_use]
    pub fn group(&self, id: u32) -> Option<Arc<ForeignGroup>> {
        self.groups.lock().by_id.get(&id).cloned()
    }

    /// Bytes of all servers that are used and up, and free ones among them.
    #[must_use]
    pub fn space(&self) -> (u64, u64) {
        let mut space = (0u64, 0u64);
        for server in self.all_servers().iter().filter(|s| s.is_up()) {
            let health = server.health.lock();
            space.0 = space.0.saturating_add(health.total_bytes);
            space.1 = space.1.saturating_add(health.free_bytes);
        }
        space
    }

    /// Bytes that a file may have on every server that gets new files; `u64::MAX` without one.
    #[must_use]
    pub fn file_bytes_max(&self) -> u64 {
        let servers = self.all_servers();
        let active = servers.iter().filter(|s| s.state() == ServerState::Active);
        let limits = active.map(|s| s.record().limits.file_bytes_max);
        limits.min().unwrap_or(u64::MAX)
    }

    pub(crate) fn server(&self, id: u32) -> Option<Arc<Server>> {
        self.servers.lock().get(&id).cloned()
    }

    /// The servers by id, removed ones included.
    pub(crate) fn all_servers(&self) -> Vec<Arc<Server>> {
        self.servers.lock().values().cloned().collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{FarError, FileAt, NewServer};
    use bytes::Bytes;
    use nfs4::StableHow;

    fn sent<T>(call: impl Future<Output = T> + Send) -> impl Future<Output = T> + Send {
        call
    }

    /// Each call may be made in a task of its own: this compiles.
    #[allow(dead_code, reason = "it is only compiled")]
    async fn calls_can_be_spawned(
        foreign: &Foreign,
        at: &FileAt,
        new: NewServer,
        bytes: &Bytes,
    ) -> Result<(), FarError> {
        let _added = sent(foreign.add(new)).await;
        let _removed = sent(foreign.remove_server(1, true)).await;
        sent(foreign.make(at)).await?;
        sent(foreign.read(at, 0, 1)).await?;
        let _written = sent(foreign.write(at, 0, StableHow::Unstable, bytes)).await;
        sent(foreign.commit(at)).await?;
        sent(foreign.cut(at, 0)).await?;
        sent(foreign.stat(at)).await?;
        sent(foreign.fences_settled(1, 2, 3)).await;
        sent(foreign.remove(1, 2, 3)).await
    }
}
