//! What the MDS asks of the client: layouts and delegations back, and devices forgotten (RFC 8881 §20.2, §20.3, §20.6, §20.12).
//!
//! A callback is answered at once. The work it asks for runs in a task of its own: the answer must not wait for
//! requests to the same server.

use crate::flush::Gate;
use crate::layout_kind::KIND;
use crate::state::Inner;
use crate::state::Node;
use crate::stats::add;
use nfs4::cb::{
    CbLayoutRecallArgs, CbNotifyDeviceidArgs, CbOffloadArgs, CbRecallAnyArgs, CbRecallArgs,
    DeviceNotification, LayoutRecall, RCA_FILE_LAYOUT,
};
use nfs4::ops::{DelegReturnArgs, LayoutReturn, LayoutReturnArgs, PutFhArgs};
use nfs4::{CbOpNum, FileHandle, IoMode, NfsStatus, OpReader, Stateid};
use session_client::CallbackHandler;
use std::future::Future;
use std::pin::Pin;
use std::sync::{Arc, Weak};

pub(crate) struct Recaller(Weak<Inner>);

impl Recaller {
    pub(crate) fn new(inner: Weak<Inner>) -> Self {
        Self(inner)
    }

    fn judge(&self, op: CbOpNum, args: &mut OpReader<'_>) -> NfsStatus {
        let Some(inner) = self.0.upgrade() else {
            return NfsStatus::Delay;
        };
        let judged = match op {
            CbOpNum::LayoutRecall => args.args().map(|a| layout_recall(&inner, &a)),
            CbOpNum::NotifyDeviceid => args.args().map(|a| notify_deviceid(&inner, &a)),
            CbOpNum::Recall => args.args().map(|a| recall(&inner, &a)),
            CbOpNum::Offload => args.args().map(|a| offload(&inner, &a)),
            CbOpNum::RecallAny => args.args().map(|a| recall_any(&inner, &a)),
            _ => return NfsStatus::NotSupp,
        };
        judged.unwrap_or(NfsStatus::BadXdr)
    }
}

impl CallbackHandler for Recaller {
    fn callback<'a>(
        &'a self,
        op: CbOpNum,
        args: &'a mut OpReader<'_>,
    ) -> Pin<Box<dyn Future<Output = NfsStatus> + Send + 'a>> {
        Box::pin(std::future::ready(self.judge(op, args)))
    }
}

/// This client wants no delegations, and uses none that it is given: nothing has to be written before it goes back.
fn recall(inner: &Arc<Inner>, args: &CbRecallArgs<'_>) -> NfsStatus {
    return_delegation(inner, FileHandle::from(args.fh.0), args.stateid);
    NfsStatus::Ok
}

/// Returns a delegation, in a task of its own.
pub(crate) fn return_delegation(inner: &Arc<Inner>, fh: FileHandle, stateid: Stateid) {
    let inner = Arc::clone(inner);
    tokio::spawn(async move {
        let returned = inner
            .call_once(&|b| {
                b.push(&PutFhArgs {
                    object: xdr::Opaque(&fh.0),
                });
                b.push(&DelegReturnArgs { stateid });
                Vec::new()
            })
            .await;
        if let Err(e) = returned {
            tracing::warn!("a delegation could not be returned: {e}");
        }
    });
}

fn layout_recall(inner: &Arc<Inner>, args: &CbLayoutRecallArgs<'_>) -> NfsStatus {
    if args.layout_type != KIND.number() {
        return NfsStatus::NoMatchingLayout;
    }
    match &args.what {
        LayoutRecall::File(file) => {
            let nodes = inner.nodes.lock();
            let found = nodes.iter().find(|(fh, _)| fh.0 == file.fh.0);
            let node = found.and_then(|(_, node)| node.upgrade());
            drop(nodes);
            let Some(node) = node else {
                return NfsStatus::NoMatchingLayout;
            };
            let Ok(_idle) = node.getting.try_lock() else {
                // A LAYOUTGET is on its way: which of the two came first is known when it is answered.
                return NfsStatus::Delay;
            };
            let mut layout = node.layout.lock();
            if layout.stateid.is_none_or(|s| s.other != file.stateid.other) {
                return NfsStatus::NoMatchingLayout;
            }
            layout.note(file.stateid);
            layout.recalled = true;
            drop(layout);
            add(&inner.stats.layouts_recalled, 1);
            let returning = Arc::clone(&node);
            tokio::spawn(async move { give_back(&returning).await });
            NfsStatus::Ok
        }
        LayoutRecall::Fsid(_) => recall_all(inner, LayoutReturn::Fsid),
        LayoutRecall::All => recall_all(inner, LayoutReturn::All),
    }
}

/// Flushes what was written under the layout and returns it. What cannot be flushed is written again later, by other ways.
async fn give_back(node: &Arc<Node>) {
    let _one = node.flushing.lock().await;
    let _alone = node.gate.write().await;
    if let Err(e) = node.flush_alone(Gate::Held).await {
        tracing::warn!("data under a recalled layout are not durable yet: {e}");
    }
    if let Err(e) = node.return_layout().await {
        tracing::warn!("a recalled layout could not be returned: {e}");
    }
    node.layout.lock().recalled = false;
}

/// Everything back, then the word that nothing is left (RFC 8881 §12.5.5.1).
fn recall_all(inner: &Arc<Inner>, last_word: LayoutReturn<'static>) -> NfsStatus {
    let nodes = inner.live_nodes();
    let held: Vec<_> = nodes
        .into_iter()
        .filter(|n| {
            let mut layout = n.layout.lock();
            layout.recalled |= layout.stateid.is_some();
            layout.recalled
        })
        .collect();
    let any = !held.is_empty();
    add(&inner.stats.layouts_recalled, held.len() as u64);
    let inner = Arc::clone(inner);
    tokio::spawn(async move {
        for node in &held {
            give_back(node).await;
        }
        let returned = inner
            .call_once(&|b| {
                b.push(&nfs4::ops::PutRootFhArgs {});
                b.push(&LayoutReturnArgs {
                    reclaim: false,
                    layout_type: KIND.number(),
                    iomode: IoMode::Any,
                    what: last_word,
                });
                Vec::new()
            })
            .await;
        if let Err(e) = returned {
            tracing::warn!("recalled layouts could not be returned: {e}");
        }
    });
    if any {
        NfsStatus::Ok
    } else {
        NfsStatus::NoMatchingLayout
    }
}

/// A copy has ended. Whoever waits for it may not have its answer yet.
fn offload(inner: &Inner, args: &CbOffloadArgs<'_>) -> NfsStatus {
    inner.offloads.end(args.stateid, args.info);
    NfsStatus::Ok
}

fn notify_deviceid(inner: &Inner, args: &CbNotifyDeviceidArgs) -> NfsStatus {
    for change in &args.changes.0 {
        match change {
            DeviceNotification::Change { device_id, .. }
            | DeviceNotification::Delete { device_id, .. } => inner.devices.forget(device_id),
        }
    }
    NfsStatus::Ok
}

/// The client keeps what it uses; of the others it holds nothing for long (RFC 8881 §20.6.3 asks no more than an effort).
fn recall_any(inner: &Arc<Inner>, args: &CbRecallAnyArgs) -> NfsStatus {
    if !args.type_mask.contains(RCA_FILE_LAYOUT) {
        return NfsStatus::Ok;
    }
    let nodes = inner.live_nodes();
    let held = nodes
        .into_iter()
        .filter(|n| n.layout.lock().stateid.is_some());
    let surplus: Vec<_> = held.skip(args.objects_to_keep as usize).collect();
    tokio::spawn(async move {
        for node in &surplus {
            give_back(node).await;
        }
    });
    NfsStatus::Ok
}
