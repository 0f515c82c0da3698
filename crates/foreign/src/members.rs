//! Servers come, are drained, and go. Owns the order of these steps; each is durable before it is answered.

use crate::client_sums::ClientBytes;
use crate::foreign::Foreign;
use crate::records::{self, ExportCode, SERVERS_MAX, ServerLimits, ServerRecord, ServerState};
use crate::refusals::{AddError, ChangeError};
use crate::server::{Server, addresses};
use control::{ADDRESSES_MAX, NetAddr, Text};
use meta::MetaError;
use nfs3_client::Fh;
use std::sync::Arc;
use std::time::Duration;
use tokio::time::Instant;

/// A server that is to be added. Its export was mounted, and it was probed.
#[derive(Debug, Clone)]
pub struct NewServer {
    /// "HOST:/PATH", as the administrator named it.
    pub target: String,
    /// Where NFS is served, preferred first.
    pub addresses: Vec<NetAddr>,
    /// Handle of the exported directory.
    pub root: Fh,
    /// What FSINFO says.
    pub limits: ServerLimits,
    /// The code that was left in its export; `None` where there is none.
    pub code: Option<u128>,
}

/// What is known of a server.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ServerStatus {
    /// The server.
    pub id: u32,
    /// "HOST:/PATH".
    pub target: String,
    /// Whether it is used.
    pub state: ServerState,
    /// Whether it answers.
    pub is_up: bool,
    /// For how long it does or does not; `None` before anything was seen.
    pub since: Option<Duration>,
    /// Bytes of its file system.
    pub total_bytes: u64,
    /// Free bytes there.
    pub free_bytes: u64,
    /// Groups that name it.
    pub groups: usize,
    /// What clients say that they moved by layouts since this metadata server has started.
    pub client_bytes: ClientBytes,
    /// It answers, and calls for files have failed there in the last minute.
    pub is_failing: bool,
    /// What it failed with last.
    pub last_error: Option<String>,
    /// How long ago that was.
    pub last_error_ago: Option<Duration>,
}

impl Foreign {
    /// Adds a server, and makes the directories there. Returns its id, durably.
    ///
    /// # Errors
    /// [`AddError`]; what was made there stays.
    pub async fn add(&self, new: NewServer) -> Result<u32, AddError> {
        let _one = self.adding.lock().await;
        let id = self.free_id(&new)?;
        let record = record_of(id, new)?;
        if addresses(&record).is_empty() {
            return Err(AddError::Invalid(
                "none of its addresses can be reached from here",
            ));
        }
        let config = &self.config;
        let server = Server::new(
            record,
            config.cluster_id,
            &config.connector,
            &*config.random,
        );
        let made = server.make_dirs().await;
        made.map_err(|fail| AddError::Server(fail.to_string()))?;
        let seq = records::put_server(&*self.config.store, &server.record())?;
        self.config.store.durable(seq).await?;
        let server = Arc::new(server);
        self.servers.lock().insert(id, Arc::clone(&server));
        // Its room is needed before a file is placed there.
        server.take_pulse().await;
        Ok(id)
    }

    /// The id of the next server. One host may have several servers, each at a port of its own.
    fn free_id(&self, new: &NewServer) -> Result<u32, AddError> {
        if let Some(id) = self.server_at(&new.target, &new.addresses) {
            return Err(AddError::Known(id));
        }
        let servers = self.servers.lock();
        let id = servers.keys().next_back().map_or(1, |last| last + 1);
        match id <= SERVERS_MAX {
            true => Ok(id),
            false => Err(AddError::Full),
        }
    }

    /// The server that is used under this name and one of these addresses.
    #[must_use]
    pub fn server_at(&self, target: &str, at: &[NetAddr]) -> Option<u32> {
        let servers = self.servers.lock();
        let is_it = |server: &&Arc<Server>| {
            let record = server.record();
            let is_used = record.state != ServerState::Removed;
            let is_there = at.iter().any(|a| record.addresses.0.contains(a));
            is_used && is_there && record.target.as_str() == target
        };
        servers.values().find(is_it).map(|server| server.id)
    }

    /// Ends the use of a server, durably. What files have there is lost.
    ///
    /// # Errors
    /// [`ChangeError`]; `InUse` while groups name it, unless forced.
    pub async fn remove_server(&self, id: u32, is_forced: bool) -> Result<(), ChangeError> {
        let _one = self.adding.lock().await;
        let server = self.used_server(id)?;
        if !is_forced && !self.groups_of(id).is_empty() {
            return Err(ChangeError::InUse);
        }
        self.set_state(&server, ServerState::Removed).await?;
        server.nfs.peer().close();
        server.pulse.peer().close();
        self.fences.forget_server(id);
        Ok(())
    }

    /// Gives a server no new files from now on, durably.
    ///
    /// # Errors
    /// [`ChangeError`].
    pub async fn drain(&self, id: u32) -> Result<(), ChangeError> {
        let _one = self.adding.lock().await;
        let server = self.used_server(id)?;
        self.set_state(&server, ServerState::Draining).await?;
        server
            .draining_since
            .lock()
            .get_or_insert_with(Instant::now);
        Ok(())
    }

    /// Gives a server that was drained new files again, durably.
    ///
    /// # Errors
    /// [`ChangeError`].
    pub async fn undrain(&self, id: u32) -> Result<(), ChangeError> {
        let _one = self.adding.lock().await;
        let server = self.used_server(id)?;
        *server.draining_since.lock() = None;
        self.set_state(&server, ServerState::Active).await
    }

    /// The servers that get no new files, ascending.
    #[must_use]
    pub fn draining(&self) -> Vec<u32> {
        let servers = self.all_servers();
        let draining = servers
            .iter()
            .filter(|s| s.state() == ServerState::Draining);
        draining.map(|server| server.id).collect()
    }

    /// For how long a server has had no new files; `None` while it gets some.
    #[must_use]
    pub fn drained_for(&self, id: u32) -> Option<Duration> {
        let server = self.server(id)?;
        let is_draining = server.state() == ServerState::Draining;
        let since = *server.draining_since.lock();
        since.filter(|_| is_draining).map(|since| since.elapsed())
    }

    /// Ends groups that name a server which is used no more. The caller knows that no file lies on them, and none can: a new file is
    /// placed on servers that are active alone. The newest group stays, so that no id is used again.
    ///
    /// # Errors
    /// [`MetaError`].
    pub fn end_groups(&self, ended: &[u32]) -> Result<(), MetaError> {
        let mut groups = self.groups.lock();
        let newest = groups.by_id.keys().next_back().copied();
        for id in ended.iter().copied().filter(|id| Some(*id) != newest) {
            let Some(group) = groups.by_id.get(&id).cloned() else {
                continue;
            };
            if group.servers.iter().all(|server| self.is_used(*server)) {
                continue;
            }
            records::delete_group(&*self.config.store, id)?;
            groups.by_id.remove(&id);
            groups.ids.remove(&(group.mirrors, group.servers.clone()));
        }
        Ok(())
    }

    fn used_server(&self, id: u32) -> Result<Arc<Server>, ChangeError> {
        let server = self.server(id);
        let used = server.filter(|s| s.state() != ServerState::Removed);
        used.ok_or(ChangeError::Unknown)
    }

    async fn set_state(&self, server: &Server, state: ServerState) -> Result<(), ChangeError> {
        let record = ServerRecord {
            state,
            ..ServerRecord::clone(&server.record())
        };
        let seq = records::put_server(&*self.config.store, &record)?;
        self.config.store.durable(seq).await?;
        server.set_record(record);
        Ok(())
    }

    /// Groups that name a server: files may lie on them.
    #[must_use]
    pub fn groups_of(&self, server: u32) -> Vec<u32> {
        let groups = self.groups.lock();
        let of_it = groups.by_id.values();
        let of_it = of_it.filter(|g| g.servers.contains(&server));
        of_it.map(|group| group.id).collect()
    }

    /// All servers that ever were, by id.
    #[must_use]
    pub fn servers(&self) -> Vec<ServerStatus> {
        let status = |server: &Arc<Server>| {
            let (record, health) = (server.record(), server.health.lock().clone());
            ServerStatus {
                id: server.id,
                target: record.target.as_str().to_owned(),
                state: record.state,
                is_up: server.is_up(),
                since: health.since.map(|since| since.elapsed()),
                total_bytes: health.total_bytes,
                free_bytes: health.free_bytes,
                groups: self.groups_of(server.id).len(),
                client_bytes: self.client_io.of(server.id),
                is_failing: server.is_failing(),
                last_error_ago: health.last_error.as_ref().map(|(_, at)| at.elapsed()),
                last_error: health.last_error.map(|(why, _)| why),
            }
        };
        self.all_servers().iter().map(status).collect()
    }
}

fn record_of(id: u32, new: NewServer) -> Result<ServerRecord, AddError> {
    let target = Text::cut(&new.target);
    if target.as_str() != new.target || new.target.is_empty() {
        return Err(AddError::Invalid("its target is empty or too long"));
    }
    if new.addresses.len() > ADDRESSES_MAX as usize {
        return Err(AddError::Invalid("it has too many addresses"));
    }
    Ok(ServerRecord {
        id,
        target,
        addresses: new.addresses.into(),
        root: new.root,
        limits: new.limits,
        state: ServerState::Active,
        code: ExportCode(new.code),
    })
}
