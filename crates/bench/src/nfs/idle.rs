//! What idle sessions over software iWARP cost: the others, and the metadata server.
//!
//! An idle session has a client and a connection of its own, and does nothing but renew its lease. Some clients ask for as much as they can
//! meanwhile. All are in this process: the busy ones on one thread, the idle ones on the threads of a runtime of their own.
//!
//! # Failure
//! A renewal that fails, or connections that are missing at the end, end the run: fewer would have been idle than were asked for.

use crate::load::{self, Load, Tally, TaskRequester};
use crate::nfs::client::{Owner, Peer};
use crate::nfs::cluster::{Cluster, ClusterOptions};
use crate::nfs::server::Server;
use crate::{BenchError, Sample, Subject, interrupt, process};
use futures_util::future::try_join_all;
use serde_json::{Value, json};
use std::future::Future;
use std::net::Ipv4Addr;
use std::pin::Pin;
use std::rc::Rc;
use std::time::Duration;
use tokio::runtime::Runtime;
use tokio::sync::mpsc;

/// Requests that each busy client has under way.
pub const REQUESTS_PER_CLIENT: usize = 4;
/// Slots that an idle client asks for, as Linux does.
const IDLE_SLOTS: u32 = 64;
/// Sessions that are made at the same time, from one address: servers limit what one address may have.
const TOGETHER: usize = 50;
/// Leases of clients are 60 s; a client renews when two thirds are over, as Linux does.
const RENEW_EVERY: Duration = Duration::from_secs(40);
/// Number of the first idle client: those before it are busy.
const IDLE_FIRST: usize = 1_000_000;
/// What an idle connection takes in the design of the paper.
const PAPER_BYTES: f64 = 96.0 * 1024.0;

/// Requests beside idle sessions as a subject. The load's connections are tasks, [`REQUESTS_PER_CLIENT`] of each client; a request is SEQUENCE.
#[derive(Debug, Clone)]
pub struct Beside {
    /// The cluster, over software iWARP.
    pub cluster: ClusterOptions,
    /// Idle sessions.
    pub idle_count: usize,
    /// So many of them are there before it is measured what the others take.
    pub uncounted: usize,
}

impl Subject for Beside {
    fn name(&self) -> String {
        format!("{} idle sessions", self.idle_count)
    }

    fn settings(&self) -> Value {
        json!({
            "cluster": self.cluster.settings(),
            "idle_sessions": self.idle_count,
            "idle_sessions_before_memory_is_measured": self.uncounted,
            "renew_every_s": RENEW_EVERY.as_secs(),
            "requests_of_each_client": REQUESTS_PER_CLIENT,
        })
    }

    fn run(&mut self, load: &Load) -> Result<Sample, BenchError> {
        let clients_count = load.connections_count.div_ceil(REQUESTS_PER_CLIENT);
        let connections_count = (self.idle_count + clients_count) as u64;
        process::need_connections(connections_count)?;
        let cluster = Cluster::start(&self.cluster)?;
        let mut sessions = IdleSessions::at(cluster.server())?;
        let rss_bytes_per_session = self.gather(&mut sessions, &cluster)?;
        let runtime = load::runtime()?;
        let busy = runtime.block_on(busy(cluster.server(), clients_count))?;
        let make = |index: usize| {
            let asker = Asker(Rc::clone(&busy[index % clients_count]));
            Ok(Box::new(asker) as Box<dyn TaskRequester>)
        };
        let sample = load::drive_tasks_on(&runtime, load, make, &|| cluster.cpu())?;
        sessions.check()?;
        let there = cluster.connections(&self.cluster.program)?;
        if there < connections_count {
            let why = format!("it has {there} connections left of {connections_count}");
            return Err(BenchError::Cluster(why));
        }
        Ok(Sample {
            rss_bytes_per_session,
            ..sample
        })
    }
}

impl Beside {
    /// Lets all sessions come. Says what the metadata server has taken for each after the first.
    #[allow(clippy::cast_precision_loss, reason = "far fewer than 2^52")]
    fn gather(
        &self,
        sessions: &mut IdleSessions,
        cluster: &Cluster,
    ) -> Result<Option<f64>, BenchError> {
        let mds = cluster.mds_pid()?;
        sessions.grow(self.uncounted.min(self.idle_count))?;
        let before = process::resident_bytes(mds)?;
        sessions.grow(self.idle_count)?;
        let more = self.idle_count.saturating_sub(self.uncounted);
        let bytes = process::resident_bytes(mds)?.saturating_sub(before);
        Ok((more > 0).then(|| bytes as f64 / more as f64))
    }
}

async fn busy(server: &Server, count: usize) -> Result<Vec<Rc<Peer>>, BenchError> {
    let slots = u32::try_from(REQUESTS_PER_CLIENT).expect("a few");
    let mut all = Vec::with_capacity(count);
    for number in 0..count {
        let peer = Peer::mds(server, &Owner::numbered(number), slots).await?;
        all.push(Rc::new(peer));
    }
    Ok(all)
}

struct Asker(Rc<Peer>);

impl TaskRequester for Asker {
    fn request(&mut self) -> Pin<Box<dyn Future<Output = Result<u64, BenchError>> + '_>> {
        Box::pin(async {
            self.0.renew().await?;
            Ok(0)
        })
    }
}

/// Idle sessions at a server. Dropping it ends their connections.
struct IdleSessions {
    runtime: Runtime,
    server: Server,
    count: usize,
    tell: mpsc::Sender<BenchError>,
    told: mpsc::Receiver<BenchError>,
}

impl IdleSessions {
    /// Nobody yet.
    fn at(server: &Server) -> Result<Self, BenchError> {
        let (tell, told) = mpsc::channel(1);
        Ok(Self {
            runtime: load::threads_runtime()?,
            server: server.clone(),
            count: 0,
            tell,
            told,
        })
    }

    /// Lets more come until there are `to`. Each has asked something, so that its connection has been used.
    fn grow(&mut self, to: usize) -> Result<(), BenchError> {
        while self.count < to {
            interrupt::check()?;
            let end = to.min(self.count + TOGETHER);
            let from = address_of(self.count);
            let connector = self.server.rdma_connector(from.into());
            let make = async |number: usize| {
                let owner = Owner::numbered(IDLE_FIRST + number);
                Peer::mds_by(connector.clone(), &self.server, &owner, IDLE_SLOTS).await
            };
            let made = try_join_all((self.count..end).map(make));
            for peer in self.runtime.block_on(made)? {
                self.runtime.spawn(live(peer, self.tell.clone()));
            }
            self.count = end;
        }
        Ok(())
    }

    /// Whether all have renewed their leases so far.
    fn check(&mut self) -> Result<(), BenchError> {
        match self.told.try_recv() {
            Ok(error) => Err(error),
            Err(_) => Ok(()),
        }
    }
}

async fn live(peer: Peer, failed: mpsc::Sender<BenchError>) {
    loop {
        tokio::time::sleep(RENEW_EVERY).await;
        if let Err(error) = peer.renew().await {
            // One reason is enough.
            let _ = failed.try_send(error);
            return;
        }
    }
}

/// A loopback address for all who come together with this client, and nobody else: `127.0.1.0` and what follows.
fn address_of(number: usize) -> Ipv4Addr {
    let place = u32::try_from(number.div_ceil(TOGETHER)).unwrap_or(0);
    Ipv4Addr::from_bits(Ipv4Addr::new(127, 0, 1, 0).to_bits() + place)
}

/// What the paper's design needs for each connection, beside what sessions of ours take.
#[derive(Debug, Clone, Copy)]
pub struct Paper;

impl Subject for Paper {
    fn name(&self) -> String {
        "the paper".to_owned()
    }

    fn settings(&self) -> Value {
        json!({ "rss_bytes_per_session": PAPER_BYTES, "is_measured": false })
    }

    fn run(&mut self, _: &Load) -> Result<Sample, BenchError> {
        Ok(Sample {
            requests_count: 0,
            payload_bytes: 0,
            elapsed: Duration::ZERO,
            latency_ns: Tally::new().latency_ns,
            server_cpu: Duration::ZERO,
            client_cpu: Duration::ZERO,
            machine_idle: None,
            rss_bytes_per_session: Some(PAPER_BYTES),
        })
    }
}

#[cfg(test)]
mod tests {
    //! Where sessions come from, and what the paper says.
    use super::*;
    use crate::runner::Metric;
    use std::collections::BTreeMap;

    #[test]
    fn no_address_has_more_than_come_together() {
        for counts in [[100, 10_000], [20, 400]] {
            let mut by_address = BTreeMap::new();
            let mut there = 0;
            for count in counts {
                while there < count {
                    let end = count.min(there + TOGETHER);
                    *by_address.entry(address_of(there)).or_default() += end - there;
                    there = end;
                }
            }
            assert_eq!(by_address.values().sum::<usize>(), counts[1]);
            assert!(by_address.values().all(|count| *count <= TOGETHER));
            assert!(by_address.keys().all(Ipv4Addr::is_loopback));
        }
        assert_eq!(address_of(0), Ipv4Addr::new(127, 0, 1, 0));
        assert_eq!(address_of(256 * TOGETHER), Ipv4Addr::new(127, 0, 2, 0));
    }

    #[test]
    fn the_paper_has_memory_and_nothing_else() {
        let load = Load {
            connections_count: 32,
            warm_up: Duration::ZERO,
            measure: Duration::from_secs(1),
        };
        let sample = Paper.run(&load).unwrap();
        assert_eq!(Metric::RssBytesPerSession.of(&sample), 98_304.0);
        let others = Metric::ALL.into_iter().filter(|m| m.is_of_requests());
        for metric in others {
            assert!(metric.of(&sample).is_nan(), "{metric:?}");
        }
    }
}
