//! The table of fences that wait, by file and by server.
//!
//! Owns the table and its bound. It calls nobody.

use crate::cache::ObjectKey;
use std::collections::{BTreeMap, BTreeSet};
use tokio::sync::Notify;
use tracing_mutex::parkinglot::Mutex;

/// Most files whose fences wait.
pub const FENCES_MAX: usize = 65_536;

/// Number and generation.
pub(crate) type FileKey = (u64, u32);

struct Pending {
    group: u32,
    epoch: u64,
    /// Servers that have not done it; never empty.
    servers: BTreeSet<u32>,
}

/// A fence that waits for a server.
pub(crate) struct Waits {
    pub(crate) file: FileKey,
    pub(crate) group: u32,
    pub(crate) epoch: u64,
}

#[derive(Default)]
struct Table {
    files: BTreeMap<FileKey, Pending>,
    by_server: BTreeMap<u32, BTreeSet<FileKey>>,
    /// Groups for which a fence was dropped.
    overflowed: BTreeSet<u32>,
}

#[derive(Default)]
pub(crate) struct Fences {
    table: Mutex<Table>,
    /// Told whenever one may have settled.
    pub(crate) settled: Notify,
}

impl Table {
    fn drop_server(&mut self, server: u32, file: FileKey) {
        if let Some(files) = self.by_server.get_mut(&server) {
            files.remove(&file);
            if files.is_empty() {
                self.by_server.remove(&server);
            }
        }
        if let Some(pending) = self.files.get_mut(&file) {
            pending.servers.remove(&server);
            if pending.servers.is_empty() {
                self.files.remove(&file);
            }
        }
    }

    fn note(&mut self, group: u32, file: FileKey, epoch: u64, servers: &[u32]) {
        if servers.is_empty() {
            return;
        }
        if self.files.len() >= FENCES_MAX && !self.files.contains_key(&file) {
            if self.overflowed.insert(group) {
                tracing::error!(group, "too many fences of foreign servers wait");
            }
            return;
        }
        let pending = self.files.entry(file).or_insert_with(|| Pending {
            group,
            epoch,
            servers: BTreeSet::new(),
        });
        pending.epoch = pending.epoch.max(epoch);
        for server in servers {
            pending.servers.insert(*server);
            self.by_server.entry(*server).or_default().insert(file);
        }
    }

    fn is_fencing(&self, group: u32, number: u64) -> bool {
        let mut files = self.files.range((number, 0)..=(number, u32::MAX));
        self.overflowed.contains(&group) || files.any(|(_, pending)| pending.group == group)
    }
}

impl Fences {
    /// Notes that some servers have to do it, and that others need not.
    pub(crate) fn note(
        &self,
        group: u32,
        file: FileKey,
        epoch: u64,
        servers: &[u32],
        excepted: &[u32],
    ) {
        let mut table = self.table.lock();
        table.note(group, file, epoch, servers);
        for server in excepted {
            table.drop_server(*server, file);
        }
        drop(table);
        self.settled.notify_waiters();
    }

    pub(crate) fn is_fencing(&self, group: u32, number: u64) -> bool {
        self.table.lock().is_fencing(group, number)
    }

    /// Servers that have something to do.
    pub(crate) fn servers(&self) -> Vec<u32> {
        self.table.lock().by_server.keys().copied().collect()
    }

    /// Files that wait.
    pub(crate) fn len(&self) -> usize {
        self.table.lock().files.len()
    }

    /// The epoch that the objects of a file are to get.
    pub(crate) fn epoch_of(&self, number: u64, generation: u32) -> Option<u64> {
        let table = self.table.lock();
        let pending = table.files.get(&(number, generation))?;
        Some(pending.epoch)
    }

    /// A server has done it: the object has the ids of `epoch`, or is not there.
    pub(crate) fn settle(&self, (server, number, generation): ObjectKey, epoch: u64) {
        let file = (number, generation);
        let mut table = self.table.lock();
        if table.files.get(&file).is_some_and(|p| p.epoch <= epoch) {
            table.drop_server(server, file);
            drop(table);
            self.settled.notify_waiters();
        }
    }

    /// A server is not used any more.
    pub(crate) fn forget_server(&self, server: u32) {
        let mut table = self.table.lock();
        let files = table.by_server.get(&server).cloned().unwrap_or_default();
        for file in files {
            table.drop_server(server, file);
        }
        drop(table);
        self.settled.notify_waiters();
    }

    /// Whether a server has not done it.
    pub(crate) fn is_waiting(&self, server: u32, file: FileKey) -> bool {
        let table = self.table.lock();
        let pending = table.files.get(&file);
        pending.is_some_and(|pending| pending.servers.contains(&server))
    }

    /// What a server has to do.
    pub(crate) fn of_server(&self, server: u32) -> Vec<Waits> {
        let table = self.table.lock();
        let files = table.by_server.get(&server).into_iter().flatten();
        let waits = |file: &FileKey| {
            let pending = table.files.get(file)?;
            Some(Waits {
                file: *file,
                group: pending.group,
                epoch: pending.epoch,
            })
        };
        files.filter_map(waits).collect()
    }
}
