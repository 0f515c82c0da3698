//! Durable creates: SEQUENCE, PUTFH, OPEN (GUARDED4 create), GETFH. As many run at once as the load has tasks. They are spread
//! over [`CLIENTS_COUNT`] clients, each with one session on one connection.
//!
//! Files stay open until the run ends: CLOSE is not part of what is measured, and leaving it out costs the server
//! nothing but memory. All names go to one directory, as in the bare store.

use crate::load::{self, Load, TaskRequester};
use crate::nfs::client::{Owner, Peer};
use crate::nfs::cluster::{Cluster, ClusterOptions};
use crate::{BenchError, Sample, Subject};
use nfs4::FileHandle;
use serde_json::{Value, json};
use std::cell::Cell;
use std::future::Future;
use std::pin::Pin;
use std::rc::Rc;

/// Clients that the tasks are spread over. One connection is served by one thread, so one client alone would show that thread.
const CLIENTS_COUNT: usize = 4;

/// Creates as a subject. The load's connections are tasks.
#[derive(Debug, Clone)]
pub struct Creates {
    /// The cluster.
    pub cluster: ClusterOptions,
}

impl Subject for Creates {
    fn name(&self) -> String {
        format!("ropewalk create, {}", self.cluster.carrier().name())
    }

    fn settings(&self) -> Value {
        json!({ "cluster": self.cluster.settings(), "clients": CLIENTS_COUNT })
    }

    fn run(&mut self, load: &Load) -> Result<Sample, BenchError> {
        let cluster = Cluster::start(&self.cluster)?;
        let runtime = load::runtime()?;
        let slots = load.connections_count.div_ceil(CLIENTS_COUNT);
        let slots = u32::try_from(slots).unwrap_or(u32::MAX);
        let (peers, root) = runtime.block_on(async {
            let mut peers = Vec::new();
            for number in 0..CLIENTS_COUNT {
                let owner = Owner::numbered(number);
                peers.push(Rc::new(Peer::mds(cluster.server(), &owner, slots).await?));
            }
            let root = peers[0].root().await?;
            Ok::<_, BenchError>((peers, root))
        })?;
        let next = Rc::new(Cell::new(0));
        let make = |index: usize| {
            let creator = Creator {
                mds: Rc::clone(&peers[index % CLIENTS_COUNT]),
                root: root.clone(),
                opener: format!("task {index}").into_bytes(),
                next: Rc::clone(&next),
            };
            Ok(Box::new(creator) as Box<dyn TaskRequester>)
        };
        load::drive_tasks_on(&runtime, load, make, &|| cluster.cpu())
    }
}

struct Creator {
    mds: Rc<Peer>,
    root: FileHandle,
    opener: Vec<u8>,
    next: Rc<Cell<u64>>,
}

impl TaskRequester for Creator {
    fn request(&mut self) -> Pin<Box<dyn Future<Output = Result<u64, BenchError>> + '_>> {
        Box::pin(async {
            let number = self.next.replace(self.next.get() + 1);
            // Twelve bytes, as the bare store's bucket has them.
            let name = format!("file{number:08}");
            let file = self.mds.create(&self.root, &name, &self.opener).await?;
            Ok(file.handle.0.len() as u64)
        })
    }
}
