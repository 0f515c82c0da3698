//! What befalls the hosts while clients work: partitions, power cuts and disks in trouble, drawn from the seed.

use crate::check::Findings;
use crate::connector::ds_name;
use crate::disk::Ailment;
use crate::ds_node::DsNode;
use crate::history::History;
use crate::mds_node::{LEASE_MS, MdsNode};
use crate::net::Net;
use crate::rng::Rng;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::Mutex;

/// Longest quiet between two troubles in milliseconds.
const QUIET_MS_MAX: u64 = 2_500;
/// Longest time that a host is off, in milliseconds.
const OFF_MS_MAX: u64 = 2_000;
/// Longest partition in milliseconds: half of them outlast a lease.
const PARTED_MS_MAX: u64 = LEASE_MS * 2;
/// Longest time that a data server is off where there are copies: beyond its lease.
const LONG_OFF_MS_MAX: u64 = 20_000;
/// Failing disks whose host loses its power when they have failed, in 1000.
const CUT_PER_MILLE: u32 = 500;
/// Those that lose it later than that, in 1000, and at most so much, in milliseconds.
const LATER_PER_MILLE: u32 = 500;
const LATER_MS_MAX: u64 = 15_000;
/// Pause before a data server that could not start is started again.
const AGAIN: Duration = Duration::from_secs(1);
/// Runs that meet a kind of trouble.
const USED_PER_MILLE: u32 = 700;

/// Who can be troubled.
pub(crate) struct Nemesis {
    pub(crate) rng: Rng,
    pub(crate) net: Net,
    pub(crate) findings: Findings,
    pub(crate) history: History,
    pub(crate) mds: Arc<Mutex<MdsNode>>,
    pub(crate) ds: Vec<Arc<Mutex<DsNode>>>,
    /// Hosts of clients.
    pub(crate) clients: Vec<String>,
    pub(crate) crashes: bool,
    /// Whether stripes have copies: then data servers are away for longer, and lose sight of each other.
    pub(crate) has_replicas: bool,
    /// Whether disks of data servers get into trouble.
    pub(crate) disks_ail: bool,
}

impl Nemesis {
    /// Makes trouble until dropped.
    ///
    /// A run may do without some kinds of it. What needs a server that lives long, as a lease that ends does, would
    /// never be met otherwise.
    pub(crate) async fn run(mut self) {
        let parts = self.rng.chance(USED_PER_MILLE);
        let cuts_mds = self.crashes && self.rng.chance(USED_PER_MILLE);
        let cuts_ds = self.crashes && self.rng.chance(USED_PER_MILLE) && !self.ds.is_empty();
        let ails = self.disks_ail && self.rng.chance(USED_PER_MILLE);
        loop {
            let ms = self.rng.within(50, QUIET_MS_MAX);
            tokio::time::sleep(Duration::from_millis(ms)).await;
            let done = match self.rng.below(100) {
                0..30 if parts => {
                    self.part();
                    Ok(())
                }
                30..55 if cuts_mds => self.cut_mds().await,
                55..85 if cuts_ds => {
                    let at = self.rng.index(self.ds.len());
                    self.cut_ds(at).await
                }
                85..100 if ails => self.ail(cuts_ds).await,
                _ => Ok(()),
            };
            if let Err(text) = done {
                self.findings.add(text);
                return;
            }
        }
    }

    fn part(&mut self) {
        let server = if self.ds.is_empty() || self.rng.chance(500) {
            "mds".to_owned()
        } else {
            ds_name(self.rng.index(self.ds.len()))
        };
        // A data server also loses sight of the MDS.
        let mut others = self.clients.clone();
        if server != "mds" {
            others.push("mds".to_owned());
            if self.has_replicas {
                others.extend(
                    (0..self.ds.len())
                        .map(ds_name)
                        .filter(|name| *name != server),
                );
            }
        }
        let other = others[self.rng.index(others.len())].clone();
        let how_long = self.rng.within(50, PARTED_MS_MAX);
        self.net
            .part(&server, &other, Duration::from_millis(how_long));
    }

    async fn off(&mut self) {
        let ms = self.rng.within(0, OFF_MS_MAX);
        tokio::time::sleep(Duration::from_millis(ms)).await;
    }

    async fn cut_mds(&mut self) -> Result<(), String> {
        let node = Arc::clone(&self.mds);
        let mut node = node.lock().await;
        node.crash().await;
        self.history.mds_is_cut();
        self.off().await;
        node.start().await
    }

    async fn cut_ds(&mut self, at: usize) -> Result<(), String> {
        let node = Arc::clone(&self.ds[at]);
        let mut node = node.lock().await;
        node.crash().await;
        if self.has_replicas && self.rng.chance(500) {
            let ms = self.rng.within(0, LONG_OFF_MS_MAX);
            tokio::time::sleep(Duration::from_millis(ms)).await;
        } else {
            self.off().await;
        }
        // A server that cannot replay its records now does not start, and is started again.
        loop {
            match node.start(None).await {
                Err(_) if node.disk().now().is_some() => {
                    tokio::time::sleep(AGAIN).await;
                }
                done => return done,
            }
        }
    }

    /// The disk of a data server gets full, fails or gets slow, for some time. The host of one that fails may lose its power then, or
    /// later.
    async fn ail(&mut self, cuts: bool) -> Result<(), String> {
        let at = self.rng.index(self.ds.len());
        let (ailment, how_long) = Ailment::draw(&mut self.rng);
        self.history.disk_ails(ailment, how_long);
        let node = Arc::clone(&self.ds[at]);
        node.lock()
            .await
            .disk_ails(ailment, how_long, self.rng.split());
        let fails = matches!(ailment, Ailment::Failing { .. });
        if fails && cuts && self.rng.chance(CUT_PER_MILLE) {
            // What its memory has and the disk lacks may be counted on by then.
            let later = match self.rng.chance(LATER_PER_MILLE) {
                true => self.rng.within(0, LATER_MS_MAX),
                false => 0,
            };
            tokio::time::sleep(how_long + Duration::from_millis(later)).await;
            return self.cut_ds(at).await;
        }
        Ok(())
    }
}
