//! Orders of an administrator, drawn from the seed: drain a data server, undrain it, make all of them level, give a file other
//! stripes or copies.

use crate::mds_node::MdsNode;
use crate::rng::Rng;
use crate::trace::Trace;
use namespace::{Cred, FileId, LayoutPolicy, Op};
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::Mutex;

/// Longest time between two orders, in milliseconds.
const QUIET_MS_MAX: u64 = 6_000;

/// Orders by which a file of the data workers gets other stripes or copies.
const RESTRIPES_PERCENT: u64 = 50;
/// How long such a file is waited for at the end.
const ENDS_WITHIN_S: u32 = 600;
/// Files of the data workers that may be chosen.
const FILES: usize = 4;

/// See the module.
pub(crate) struct Mover {
    pub(crate) rng: Rng,
    pub(crate) trace: Trace,
    pub(crate) mds: Arc<Mutex<MdsNode>>,
    /// Data servers; their ids count from 1.
    pub(crate) servers: u32,
    /// Whether files are restriped.
    pub(crate) restripes: bool,
}

impl Mover {
    /// Orders that a file of the data workers gets other stripes or copies.
    fn restripe(&mut self, fs: &Arc<fs::Fs>) {
        let name = format!("f{}", self.rng.index(FILES));
        let policy = LayoutPolicy {
            stripe_unit: 4096 << self.rng.index(3),
            stripe_count: u32::try_from(1 + self.rng.index(3)).unwrap_or(1),
            copies: u32::try_from(1 + self.rng.index(2)).unwrap_or(1),
            inline_max_bytes: None,
        };
        let cred = Cred::root();
        let mut op = Op::new(&cred, fs.now());
        let ns = fs.namespace();
        let dir = ns.lookup(&mut op, FileId::ROOT, b"data");
        let found = dir.and_then(|dir| ns.lookup(&mut op, dir.id, name.as_bytes()));
        let Ok(inode) = found else { return };
        let begun = fs::restripe(fs, &inode, policy);
        self.trace.tell(
            "mds",
            format_args!(
                "! restripes {name}, file {}: {policy:?}: {begun:?}",
                inode.id.0
            ),
        );
    }

    /// Gives orders until dropped.
    pub(crate) async fn run(mut self) {
        loop {
            let ms = self.rng.within(500, QUIET_MS_MAX);
            tokio::time::sleep(Duration::from_millis(ms)).await;
            let ds = 1 + u32::try_from(self.rng.index(self.servers as usize)).unwrap_or(0);
            let what = self.rng.below(100);
            let fs = {
                let mds = self.mds.lock().await;
                mds.nfsd().map(|nfsd| Arc::clone(nfsd.role().fs()))
            };
            let Some(fs) = fs else {
                continue;
            };
            if self.restripes && self.rng.below(100) < RESTRIPES_PERCENT {
                self.restripe(&fs);
                continue;
            }
            let cluster = fs.cluster();
            // A refusal is an answer: too few others, or it is no member yet.
            let done = match what {
                0..35 => ("drains", cluster.drain(ds, None).await.is_ok()),
                35..50 => {
                    let other = ds % self.servers + 1;
                    let done = cluster.drain(ds, Some(other)).await;
                    ("has the next one replace", done.is_ok())
                }
                50..80 => ("drains no more", cluster.undrain(ds).await.is_ok()),
                _ => {
                    let done = cluster.rebalance(true).await;
                    ("has all level with", done.is_ok())
                }
            };
            let (word, is_done) = done;
            let refused = if is_done { "" } else { ", which is refused" };
            self.trace
                .tell("mds", format_args!("! {word} data server {ds}{refused}"));
        }
    }
}

/// Ends what was ordered, and waits for files that are restriped.
pub(crate) async fn end(mds: &MdsNode, servers: u32) {
    let Some(nfsd) = mds.nfsd() else {
        return;
    };
    let fs = nfsd.role().fs();
    for _ in 0..ENDS_WITHIN_S {
        if fs::restriping(fs) == 0 {
            break;
        }
        tokio::time::sleep(Duration::from_secs(1)).await;
    }
    let cluster = fs.cluster();
    let _ended = cluster.rebalance(false).await;
    for ds in 1..=servers {
        let _unknown = cluster.undrain(ds).await;
    }
}
