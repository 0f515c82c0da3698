//! Orders of an administrator, drawn from the seed: drain a data server, undrain it, make all of them level.

use crate::mds_node::MdsNode;
use crate::rng::Rng;
use crate::trace::Trace;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::Mutex;

/// Longest time between two orders, in milliseconds.
const QUIET_MS_MAX: u64 = 6_000;

/// See the module.
pub(crate) struct Mover {
    pub(crate) rng: Rng,
    pub(crate) trace: Trace,
    pub(crate) mds: Arc<Mutex<MdsNode>>,
    /// Data servers; their ids count from 1.
    pub(crate) servers: u32,
}

impl Mover {
    /// Gives orders until dropped.
    pub(crate) async fn run(mut self) {
        loop {
            let ms = self.rng.within(500, QUIET_MS_MAX);
            tokio::time::sleep(Duration::from_millis(ms)).await;
            let ds = 1 + u32::try_from(self.rng.index(self.servers as usize)).unwrap_or(0);
            let what = self.rng.below(100);
            let cluster = {
                let mds = self.mds.lock().await;
                mds.nfsd()
                    .map(|nfsd| Arc::clone(nfsd.role().fs().cluster()))
            };
            let Some(cluster) = cluster else {
                continue;
            };
            // A refusal is an answer: too few others, or it is no member yet.
            let done = match what {
                0..50 => ("drains", cluster.drain(ds, None).await.is_ok()),
                50..80 => ("drains no more", cluster.undrain(ds).await.is_ok()),
                _ => {
                    cluster.rebalance(true);
                    ("has all level with", true)
                }
            };
            let (word, is_done) = done;
            let refused = if is_done { "" } else { ", which is refused" };
            self.trace
                .tell("mds", format_args!("! {word} data server {ds}{refused}"));
        }
    }
}

/// Ends what was ordered.
pub(crate) async fn end(mds: &MdsNode, servers: u32) {
    let Some(nfsd) = mds.nfsd() else {
        return;
    };
    let cluster = nfsd.role().fs().cluster();
    cluster.rebalance(false);
    for ds in 1..=servers {
        let _unknown = cluster.undrain(ds).await;
    }
}
