//! I/O on inline files, whose bytes lie in the metadata store (T8).
//!
//! # Ownership
//! The name space owns the bytes. Whoever calls holds the file's gate shared, so the file stays inline meanwhile.
//!
//! # Ordering
//! A write, its size and its times are one transaction. The reply waits for it like for any other, so every write is
//! `FILE_SYNC`, whatever was asked for, and COMMIT has nothing to do (T9).
//!
//! May call: the name space, and `placing` for a file that outgrows its limit.

use crate::actor::{Actor, Prepared};
use crate::enter::enter;
use crate::fs::Fs;
use crate::placing::place;
use bytes::{Bytes, BytesMut};
use control::Range;
use namespace::{AttrsSet, FileId, Inode, SetAttr, WRITE};
use nfs4::NfsStatus;
use std::sync::Arc;
use tokio::sync::OwnedRwLockReadGuard;

impl Fs {
    /// How long an inline file may become, or one that is made in a directory; 0 if it is to get a place with its next write.
    pub fn inline_max_of(&self, inode: &Inode) -> u64 {
        let policy = inode.layout_policy().unwrap_or_default();
        match inode.is_foreign() {
            // There it is a setting, and off by default.
            true if policy.inline_max_bytes.is_none() => 0,
            _ => self.inline_max_bytes(policy),
        }
    }

    fn outgrows(&self, inode: &Inode, end: u64) -> bool {
        inode.is_inline() && inode.size.max(end) > self.inline_max_of(inode)
    }
}

/// As [`enter`], for a change after which the file ends at `end` or later. A file that outgrows its limit has a place then.
///
/// # Errors
/// As [`enter`] and [`place`].
pub(crate) async fn enter_sized(
    fs: &Arc<Fs>,
    actor: &mut Actor,
    inode: &Inode,
    end: u64,
) -> Result<(OwnedRwLockReadGuard<()>, Arc<Inode>), NfsStatus> {
    let (shared, found) = enter(fs, actor, inode).await?;
    if !fs.outgrows(&found, end) {
        return Ok((shared, found));
    }
    drop(shared);
    place(fs, actor, &found, None).await?;
    enter(fs, actor, inode).await
}

/// Reads up to `count` bytes: the bytes, and whether the file ends after them.
pub(crate) fn read(
    fs: &Fs,
    actor: &mut Actor,
    file: FileId,
    (offset, count): (u64, u64),
) -> Result<(Bytes, bool), NfsStatus> {
    let (inode, record) = actor.look(fs, |ns, op| ns.read_inline(op, file))?;
    let len = inode.size.saturating_sub(offset).min(count);
    let eof = offset.saturating_add(len) >= inode.size;
    let len = usize::try_from(len).map_err(|_| NfsStatus::ServerFault)?;
    let start = usize::try_from(offset).map_or(record.len(), |at| at.min(record.len()));
    let stop = start.saturating_add(len).min(record.len());
    let bytes = record.slice(start..stop);
    if bytes.len() == len {
        return Ok((bytes, eof));
    }
    let mut padded = BytesMut::zeroed(len);
    padded[..bytes.len()].copy_from_slice(&bytes);
    Ok((padded.freeze(), eof))
}

/// Writes bytes. `kept` becomes durable with them.
pub(crate) fn write(
    fs: &Fs,
    actor: &mut Actor,
    inode: &Inode,
    (offset, bytes): (u64, &[u8]),
    kept: &Prepared,
) -> Result<(), NfsStatus> {
    let size_max = fs.inline_max_of(inode);
    let written = actor.change_as(fs, kept, |ns, op| {
        ns.write_inline(op, inode.id, (offset, bytes), size_max)
    });
    written.map(drop)
}

/// Makes a hole of a range.
pub(crate) fn punch(
    fs: &Fs,
    actor: &mut Actor,
    inode: &Inode,
    range: Range,
    kept: &Prepared,
) -> Result<(), NfsStatus> {
    let punched = actor.change_as(fs, kept, |ns, op| {
        ns.punch_inline(op, inode.id, range.start..range.end)
    });
    punched.map(drop)
}

/// What became of SETATTR with a size.
pub(crate) enum Resized {
    /// It is done: the file is inline.
    Inline(AttrsSet),
    /// It is not: the file, as it is now, has a place.
    Placed(Arc<Inode>),
}

/// Sets the size of an inline file, and the other attributes of the request with it.
///
/// # Errors
/// As the name space's SETATTR, and as [`place`] for a size beyond the limit.
pub(crate) async fn set_size_inline(
    fs: &Arc<Fs>,
    actor: &mut Actor,
    inode: &Inode,
    wanted: &SetAttr,
    opened_for_write: bool,
    kept: &Prepared,
) -> Result<Resized, NfsStatus> {
    let size = wanted.size.ok_or(NfsStatus::Inval)?;
    let may_write = opened_for_write || actor.cred.rights(inode) & WRITE != 0;
    // Who may not change it does not have it placed.
    let end = if may_write { size } else { 0 };
    let (_shared, inode) = enter_sized(fs, actor, inode, end).await?;
    if !inode.is_inline() {
        return Ok(Resized::Placed(inode));
    }
    let set = actor.change_as(fs, kept, |ns, op| {
        ns.setattr(op, inode.id, wanted, opened_for_write)
    });
    set.map(Resized::Inline)
}
