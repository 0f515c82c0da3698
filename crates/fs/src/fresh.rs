//! What the holder of a delegation for writing knows better than this server: size, change, times (RFC 8881 §10.4.3, RFC
//! 9754 §5).
//!
//! # Ordering
//! The holder is asked by CB_GETATTR. What it says of times and the change attribute becomes durable like any other change
//! (R7). The size is shown and not stored: it comes with the write itself.
//!
//! # Failure
//! A holder that does not answer has its delegation recalled, and whoever asked is told to ask again.

use crate::actor::Actor;
use crate::delegations::{Clearing, recall};
use crate::fs::{Fs, status};
use namespace::{Cred, DelegatedTimes, FileId, Inode, Op, Time};
use nfs4::attr::{
    ARCHIVE, CHANGE, SIZE, SPACE_USED, TIME_ACCESS, TIME_DELEG_ACCESS, TIME_DELEG_MODIFY,
    TIME_METADATA, TIME_MODIFY,
};
use nfs4::cb::{CbGetAttrArgs, CbGetAttrRes};
use nfs4::{Bitmap, CbCompoundReply, ClientId, NfsStatus, NfsTime, OpError};
use state::WriteHolder;
use std::collections::BTreeMap;
use std::sync::Arc;
use tokio::task::JoinSet;

/// How long a holder may take to tell the size.
const GETATTR_WAIT_MS: u64 = 2_000;
/// Attributes that a holder for writing may know better.
const HOLDERS: Bitmap = Bitmap::of(&[
    CHANGE,
    SIZE,
    ARCHIVE,
    SPACE_USED,
    TIME_METADATA,
    TIME_MODIFY,
]);

/// A file's attributes for somebody who does not hold it for writing.
pub struct Fresh {
    /// The file.
    pub inode: Arc<Inode>,
    /// The size as its holder sees it.
    pub size: Option<u64>,
}

/// Whether somebody else may know the asked attributes better than this server.
pub fn better_known(
    fs: &Fs,
    file: FileId,
    client: Option<ClientId>,
    mask: &Bitmap,
) -> Option<WriteHolder> {
    let asks_data = !mask.intersection(&HOLDERS).is_empty();
    let asks_access = mask.contains(TIME_ACCESS);
    if !fs.has_delegations() || !(asks_data || asks_access) {
        return None;
    }
    let holder = fs.state().delegations.write_holder(file.0);
    holder.filter(|holder| Some(holder.client) != client && (asks_data || holder.has_times))
}

/// Attributes with what the holder for writing says (RFC 8881 §10.4.3): CB_GETATTR, and a new change attribute if it has
/// modified the file.
///
/// # Errors
/// `Delay` when it does not answer: then it is recalled.
pub async fn fresh(
    fs: &Arc<Fs>,
    actor: &mut Actor,
    inode: &Arc<Inode>,
    mask: &Bitmap,
) -> Result<Fresh, NfsStatus> {
    let client = actor.client_id();
    let Some(holder) = better_known(fs, inode.id, client, mask) else {
        return Ok(Fresh {
            inode: Arc::clone(inode),
            size: None,
        });
    };
    let answer = ask_holder(fs, inode, &holder).await;
    heed_holder(fs, actor, inode, &holder, answer)
}

/// As [`fresh`] for the entries of a directory, all at the same time: those of `inodes` that others hold for writing.
pub async fn fresh_entries(
    fs: &Arc<Fs>,
    actor: &mut Actor,
    inodes: &[Arc<Inode>],
    mask: &Bitmap,
) -> BTreeMap<FileId, Result<Fresh, NfsStatus>> {
    let client = actor.client_id();
    let mut asked = JoinSet::new();
    for inode in inodes {
        let holder = better_known(fs, inode.id, client, mask);
        let Some(holder) = holder else { continue };
        let (fs, inode) = (Arc::clone(fs), Arc::clone(inode));
        asked.spawn(async move {
            let answer = ask_holder(&fs, &inode, &holder).await;
            (inode, holder, answer)
        });
    }
    let mut out = BTreeMap::new();
    while let Some(done) = asked.join_next().await {
        if let Ok((inode, holder, answer)) = done {
            let fresh = heed_holder(fs, actor, &inode, &holder, answer);
            out.insert(inode.id, fresh);
        }
    }
    out
}

/// What a file is like, as its holder for writing sees it.
struct HolderView {
    change: u64,
    size: u64,
    times: DelegatedTimes,
}

/// What a holder's answer means for the attributes.
fn heed_holder(
    fs: &Arc<Fs>,
    actor: &mut Actor,
    inode: &Inode,
    holder: &WriteHolder,
    answer: Option<HolderView>,
) -> Result<Fresh, NfsStatus> {
    let Some(view) = answer else {
        let client = actor.client_id();
        recall(fs, inode, client, Clearing::READ);
        return Err(NfsStatus::Delay);
    };
    let now = actor.ns(fs, |ns, op| ns.getattr(op, inode.id))?;
    let is_modified = holder.modified || view.change != holder.change || view.size != now.size;
    if is_modified {
        fs.state().delegations.note_modified(&holder.other);
    }
    let told = holder.has_times.then_some(view.times);
    let times = DelegatedTimes {
        is_modified,
        ..told.unwrap_or_default()
    };
    let inode = if times == DelegatedTimes::default() {
        now
    } else {
        take_in(fs, actor, inode.id, times)?
    };
    Ok(Fresh {
        inode,
        size: is_modified.then_some(view.size),
    })
}

/// Times that the holder tells, and a modification that the server has not seen: the change attribute moves. It acts as
/// root: set-id bits go when the write itself comes.
fn take_in(
    fs: &Fs,
    actor: &mut Actor,
    file: FileId,
    times: DelegatedTimes,
) -> Result<Arc<Inode>, NfsStatus> {
    let cred = Cred::root();
    let mut op = Op::new(&cred, fs.now());
    let taken = fs.ns.set_delegated_times(&mut op, file, times);
    actor.observe(op.observed());
    if times.atime.is_some() {
        fs.atimes.was_set(file);
    }
    taken.map_err(|e| status(&e))
}

/// The modification time of a file as the caller keeps it, if it is the authority for it. Linux takes the time in the reply
/// to its LAYOUTCOMMIT for the newer one: 6.12 and 7.3 forget a time that was set before the data were written back.
pub async fn kept_mtime(fs: &Arc<Fs>, actor: &Actor, inode: &Inode) -> Option<Time> {
    if !fs.has_delegations() {
        return None;
    }
    let holder = fs.state().delegations.write_holder(inode.id.0);
    let own = holder.filter(|h| h.has_times && Some(h.client) == actor.client_id())?;
    let view = ask_holder(fs, inode, &own).await?;
    let mtime = view.times.mtime?;
    Some(mtime.min(fs.now()))
}

/// CB_GETATTR: the file as the holder sees it, unless it does not say.
async fn ask_holder(fs: &Arc<Fs>, inode: &Inode, holder: &WriteHolder) -> Option<HolderView> {
    let fh = fs.handle_of(inode);
    let asked = if holder.has_times {
        Bitmap::of(&[CHANGE, SIZE, TIME_DELEG_ACCESS, TIME_DELEG_MODIFY])
    } else {
        Bitmap::of(&[CHANGE, SIZE])
    };
    let build = move |b: &mut nfs4::CbCompoundBuilder| {
        b.push(&CbGetAttrArgs {
            fh: xdr::Opaque(&fh.0),
            attr_request: asked,
        });
    };
    let asked = (fs.clients).callback_within(holder.client, GETATTR_WAIT_MS, build, read_holder);
    asked.await.ok()
}

fn read_holder(reply: &mut CbCompoundReply<'_>) -> Result<HolderView, OpError> {
    let res = reply.take::<CbGetAttrRes<'_>>()?;
    let attrs = res.attributes.attrs().ok();
    let view = attrs.and_then(|a| {
        Some(HolderView {
            change: a.change?,
            size: a.size?,
            times: DelegatedTimes {
                atime: a.time_deleg_access.map(time),
                mtime: a.time_deleg_modify.map(time),
                is_modified: false,
            },
        })
    });
    view.ok_or(OpError::Status {
        op: None,
        status: NfsStatus::Inval,
    })
}

fn time(t: NfsTime) -> Time {
    Time {
        secs: t.seconds,
        nanos: t.nanoseconds,
    }
}
