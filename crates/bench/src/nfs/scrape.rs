//! How long a scrape of the metrics takes, with clients that hold sessions.

use crate::load::{self, Load, Requester};
use crate::nfs::client::{Owner, Peer};
use crate::nfs::cluster::{Cluster, ClusterOptions, Page, get};
use crate::{BenchError, Sample, Subject, process};
use futures_util::future::try_join_all;
use serde_json::{Value, json};

/// Slots that each client asks for.
const SLOTS: u32 = 1;
/// Sessions that are made at the same time.
const TOGETHER: usize = 50;

/// A scrape as a subject: one after the other, each over a connection of its own.
#[derive(Debug, Clone)]
pub struct Scrape {
    /// The cluster; it must be watched.
    pub cluster: ClusterOptions,
    /// Clients with a session each.
    pub clients_count: usize,
}

impl Subject for Scrape {
    fn name(&self) -> String {
        format!("{} clients", self.clients_count)
    }

    fn settings(&self) -> Value {
        json!({"cluster": self.cluster.settings(), "clients": self.clients_count})
    }

    fn run(&mut self, load: &Load) -> Result<Sample, BenchError> {
        process::need_connections(self.clients_count as u64)?;
        let cluster = Cluster::start(&self.cluster)?;
        let page = cluster.page().cloned();
        let page = page.ok_or_else(|| BenchError::Cluster("nobody watches it".to_owned()))?;
        let runtime = load::threads_runtime()?;
        let mut clients = Vec::with_capacity(self.clients_count);
        while clients.len() < self.clients_count {
            let first = clients.len();
            let end = self.clients_count.min(first + TOGETHER);
            let server = cluster.server();
            let make =
                async |number: usize| Peer::mds(server, &Owner::numbered(number), SLOTS).await;
            clients.extend(runtime.block_on(try_join_all((first..end).map(make)))?);
        }
        let make = |_| Ok(Box::new(Scraper(page.clone())) as Box<dyn Requester>);
        let sample = load::drive(load, make, &|| cluster.cpu());
        drop(clients);
        sample
    }
}

struct Scraper(Page);

impl Requester for Scraper {
    fn request(&mut self) -> Result<u64, BenchError> {
        get(&self.0, "/metrics").map(|answer| answer.len() as u64)
    }
}
