//! The connections of one server: their tasks, and how they end at a shutdown.

use std::collections::HashMap;
use std::future::Future;
use std::sync::Arc;

use parking_lot::Mutex;
use tokio::task::JoinSet;

use crate::context::Admission;
use crate::link::Link;
use crate::{CloseReason, ConnHandle, Context, DynService, engine};

/// Connections that are alive.
#[derive(Default)]
struct Table {
    by_id: HashMap<u64, ConnHandle>,
    /// Set once: connections that come later are to end at once.
    draining: bool,
}

/// What a connection's task needs of its server.
#[derive(Clone)]
pub(crate) struct Host {
    pub(crate) context: Context,
    pub(crate) service: Arc<dyn DynService>,
    table: Arc<Mutex<Table>>,
}

impl Host {
    pub(crate) fn new(context: Context, service: Arc<dyn DynService>) -> Self {
        Self {
            context,
            service,
            table: Arc::default(),
        }
    }

    /// Runs one connection until it is gone.
    pub(crate) async fn run<L: Link>(self, link: L, conn: ConnHandle, admission: Admission) {
        let id = conn.id();
        {
            let mut table = self.table.lock();
            table.by_id.insert(id, conn.clone());
            if table.draining {
                conn.drain();
            }
        }
        let _entry = Entry {
            table: &self.table,
            id,
        };
        engine::run(link, conn, Arc::clone(&self.service), admission).await;
    }
}

/// Takes a connection out of the table when its task ends in any way.
struct Entry<'a> {
    table: &'a Mutex<Table>,
    id: u64,
}

impl Drop for Entry<'_> {
    fn drop(&mut self) {
        self.table.lock().by_id.remove(&self.id);
    }
}

/// The tasks of a server's connections.
pub(crate) struct Tasks {
    host: Host,
    set: JoinSet<()>,
}

impl Tasks {
    pub(crate) fn new(host: Host) -> Self {
        Self {
            host,
            set: JoinSet::new(),
        }
    }

    pub(crate) fn spawn(&mut self, task: impl Future<Output = ()> + Send + 'static) {
        self.set.spawn(task);
        // Tasks that ended are collected here, so that the set stays as large as what is alive.
        while let Some(ended) = self.set.try_join_next() {
            if let Err(e) = ended {
                tracing::error!("a connection's task failed: {e}");
            }
        }
    }

    /// Lets every connection answer what it is executing, for at most `drain`, then cuts it.
    pub(crate) async fn shut_down(mut self) {
        {
            let mut table = self.host.table.lock();
            table.draining = true;
            for conn in table.by_id.values() {
                conn.drain();
            }
        }
        let drain = self.host.context.limits().drain;
        let all = async { while self.set.join_next().await.is_some() {} };
        if tokio::time::timeout(drain, all).await.is_err() {
            let late: Vec<_> = self.host.table.lock().by_id.values().cloned().collect();
            tracing::warn!(connections = late.len(), "cut at the end of the drain time");
            for conn in late {
                conn.close(CloseReason::Shutdown);
            }
            self.set.shutdown().await;
        }
    }
}
