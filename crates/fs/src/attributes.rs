//! Setting attributes, for whichever protocol asks. A size that may cut data off goes through the data plane (rule R3). A
//! mode or owner that takes access away, or sets a set-id bit, fences what was granted before the reply (rule R10).
//!
//! # Ordering
//! Modification time and set-id bits are set after all layouts for writing are back, the caller's own too: LAYOUTCOMMIT comes
//! before LAYOUTRETURN, so no report of an older write comes after them.

use crate::actor::{Actor, Prepared};
use crate::delegations::{Clearing, exclude};
use crate::foreign_files::is_lost;
use crate::fs::Fs;
use crate::inline::{Resized, set_size_inline};
use crate::layouts::access_narrowed;
use crate::quiesce::writes_reported;
use crate::size_recovery::ready;
use crate::truncate::truncate;
use namespace::{Inode, NsError, SET_ID_BITS, SetAttr, SetTime};
use nfs4::NfsStatus;
use state::InTheWay;
use std::sync::Arc;

/// Sets attributes once nobody relies on the present ones. `opened_for_write` says that the caller holds the file open for writing.
///
/// # Errors
/// `Delay` while delegations or layouts are recalled; those of the name space.
pub async fn set_attributes(
    fs: &Arc<Fs>,
    actor: &mut Actor,
    inode: &Arc<Inode>,
    wanted: &SetAttr,
    opened_for_write: bool,
    kept: &Prepared,
) -> Result<Arc<Inode>, NfsStatus> {
    // Others read nothing of it from their caches from here on (RFC 8881 §10.4.4).
    let clearing = Clearing {
        against: InTheWay::All,
        truncates: wanted.size == Some(0),
    };
    let _excluded = match inode.is_regular() {
        true => Some(exclude(fs, actor, inode, clearing).await?),
        false => None,
    };
    ready(fs, inode.id)?;
    let _held = match inode.is_regular() && must_come_last(inode, wanted) {
        true => Some(writes_reported(fs, inode).await?),
        false => None,
    };
    let set = apply_attributes(fs, actor, inode, wanted, opened_for_write, kept).await?;
    if wanted.atime.is_some() {
        fs.atimes.was_set(inode.id);
    }
    Ok(set)
}

/// Whether what was written before may be reported only before these attributes are set. Otherwise the report would
/// take the modification time back, or find set-id bits that the write is not to take away.
fn must_come_last(inode: &Inode, wanted: &SetAttr) -> bool {
    let time = match wanted.mtime {
        Some(SetTime::Client(_)) => true,
        // With a size it is what the cut says itself: Linux sends both for O_TRUNC.
        Some(SetTime::Server) => wanted.size.is_none(),
        None => false,
    };
    let mode = wanted.mode.is_some_and(|mode| mode & SET_ID_BITS != 0);
    let list = wanted.acl.is_some() && inode.mode & SET_ID_BITS != 0;
    time || mode || list
}

/// Sets attributes of an inode that the caller has got out of the way of others.
///
/// # Errors
/// As [`set_attributes`].
pub async fn apply_attributes(
    fs: &Arc<Fs>,
    actor: &mut Actor,
    inode: &Arc<Inode>,
    wanted: &SetAttr,
    opened_for_write: bool,
    kept: &Prepared,
) -> Result<Arc<Inode>, NfsStatus> {
    if let Some(size) = wanted.size {
        fs.check_end(inode, size)?;
        fs.check_not_truncating(inode.id)?;
    }
    let mut inode = Arc::clone(inode);
    if wanted.size.is_some() && inode.is_inline() {
        let set = set_size_inline(fs, actor, &inode, wanted, opened_for_write, kept);
        match set.await? {
            Resized::Inline(set) => return Ok(set.inode),
            Resized::Placed(placed) => inode = placed,
        }
    }
    // Nothing is to be cut off an empty file, but it is to be usable again.
    let is_empty = wanted.size == Some(0) && inode.size == 0;
    let mut needs_truncate = is_empty && is_lost(fs, &inode).await;
    if !needs_truncate {
        let result = actor.change_as(fs, kept, |ns, op| {
            match ns.setattr(op, inode.id, wanted, opened_for_write) {
                Err(NsError::NeedsTruncate) => {
                    needs_truncate = true;
                    Err(NsError::NeedsTruncate)
                }
                result => result,
            }
        });
        if !needs_truncate {
            let set = result?;
            if set.access_narrowed {
                access_narrowed(fs, actor, &set.inode).await?;
            }
            return Ok(set.inode);
        }
    }
    truncate(fs, actor, &inode, wanted, opened_for_write, kept).await
}
