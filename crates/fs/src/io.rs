//! READ, WRITE and COMMIT of clients without layouts, carried out on the data servers (decision 4).
//!
//! # Ordering
//! A WRITE is on the data servers before its size is committed; both before the reply. A truncation of the file waits for
//! I/O under way, and the other way round (the file's gate).

use crate::actor::{Actor, Prepared};
use crate::enter::{enter, without_privileges};
use crate::fs::Fs;
use crate::inline;
use crate::size_recovery::may_be_longer;
use crate::target::{self, Target, io_key, target};
use bytes::Bytes;
use layout::Rights;
use namespace::{Inode, SizeCommit};
use nfs4::ops::WriteRes;
use nfs4::{NfsStatus, StableHow, Verifier};
use std::collections::BTreeMap;
use std::sync::Arc;
use tokio::sync::OwnedRwLockReadGuard;

/// Reads up to `count` bytes: the bytes, and whether the file ends after them. Holes are zeros. `seen_end` is what
/// [`crate::end_of`] has said, or 0: the file does not end before it while there are layouts that it is written under.
///
/// # Errors
/// `Delay` while a data server is away; `Io` when one was expelled.
pub async fn read(
    fs: &Arc<Fs>,
    actor: &mut Actor,
    inode: &Arc<Inode>,
    (offset, count): (u64, u64),
    seen_end: u64,
) -> Result<(Bytes, bool), NfsStatus> {
    let (_shared, inode) = enter(fs, actor, inode).await?;
    if inode.is_inline() {
        return inline::read(fs, actor, inode.id, (offset, count));
    }
    let key = io_key(fs);
    let mut end = inode.size;
    if may_be_longer(fs, &inode) {
        end = end.max(seen_end);
    }
    let len = end.saturating_sub(offset).min(count);
    let eof = offset.saturating_add(len) >= end;
    if len == 0 {
        return Ok((Bytes::new(), eof));
    }
    let target = target(fs, key.as_ref(), &inode, Rights::Read)?;
    let bytes = target.read(fs, offset, len).await?;
    Ok((bytes, eof))
}

/// As [`enter`], for a writer after whom the file ends at `end` or later. It has a place then if it outgrows its limit as an
/// inline file. Set-id bits that the write takes off are off, durably, before a data server has its bytes.
pub(crate) async fn enter_to_write(
    fs: &Arc<Fs>,
    actor: &mut Actor,
    inode: &Inode,
    end: u64,
) -> Result<(OwnedRwLockReadGuard<()>, Arc<Inode>), NfsStatus> {
    let (shared, inode) = inline::enter_sized(fs, actor, inode, end).await?;
    Ok((shared, without_privileges(fs, actor, inode).await?))
}

/// What is written: bytes, where, and how stable.
pub struct WriteJob {
    /// Where it begins.
    pub offset: u64,
    /// What is asked for at least.
    pub stable: StableHow,
    /// The bytes.
    pub bytes: Bytes,
}

impl WriteJob {
    fn end(&self) -> u64 {
        self.offset.saturating_add(self.bytes.len() as u64)
    }
}

/// Makes of a result what becomes durable with its effect (rule R15).
pub(crate) type KeepWrite<'a> = &'a (dyn Fn(&WriteRes) -> Prepared + Send + Sync);

/// Writes bytes, at least as stable as asked.
///
/// # Errors
/// As [`read`].
pub async fn write(
    fs: &Arc<Fs>,
    actor: &mut Actor,
    inode: &Arc<Inode>,
    job: &WriteJob,
    keep: KeepWrite<'_>,
) -> Result<WriteRes, NfsStatus> {
    let count = u32::try_from(job.bytes.len()).map_err(|_| NfsStatus::Inval)?;
    let (shared, inode) = enter_to_write(fs, actor, inode, job.end()).await?;
    if inode.is_inline() {
        let res = WriteRes {
            count,
            committed: StableHow::FileSync,
            write_verifier: fs.peers.own_verifier(),
        };
        let bytes = (job.offset, &job.bytes[..]);
        inline::write(fs, actor, &inode, bytes, &keep(&res))?;
        return Ok(res);
    }
    let written = write_pieces(fs, &inode, job).await?;
    let res = WriteRes {
        count,
        committed: written.committed,
        write_verifier: written.target.write_verifier(fs, &written.seen),
    };
    actor.change_as(fs, &keep(&res), |ns, op| {
        ns.commit_size(op, inode.id, written.commit)
    })?;
    // Kept truncations out until the size is committed.
    drop(shared);
    fs.note_space(inode.id);
    Ok(res)
}

/// As [`write`], for a copy. Returns the write verifiers of the data servers that were written to.
pub(crate) async fn write_part(
    fs: &Arc<Fs>,
    actor: &mut Actor,
    inode: &Arc<Inode>,
    job: &WriteJob,
) -> Result<BTreeMap<u32, Verifier>, NfsStatus> {
    let (shared, inode) = enter_to_write(fs, actor, inode, job.end()).await?;
    if inode.is_inline() {
        let bytes = (job.offset, &job.bytes[..]);
        inline::write(fs, actor, &inode, bytes, &Prepared::default())?;
        return Ok(BTreeMap::new());
    }
    let written = write_pieces(fs, &inode, job).await?;
    actor.ns(fs, |ns, op| ns.commit_size(op, inode.id, written.commit))?;
    drop(shared);
    fs.note_space(inode.id);
    Ok(written.seen)
}

/// Bytes that are on the data servers, and not yet known to the name space.
struct Written {
    target: Target,
    committed: StableHow,
    /// Write verifiers of the data servers that were written to.
    seen: BTreeMap<u32, Verifier>,
    commit: SizeCommit,
}

async fn write_pieces(fs: &Arc<Fs>, inode: &Inode, job: &WriteJob) -> Result<Written, NfsStatus> {
    let key = io_key(fs);
    let len = u64::try_from(job.bytes.len()).map_err(|_| NfsStatus::Inval)?;
    let target = target(fs, key.as_ref(), inode, Rights::ReadWrite)?;
    // The size is the MDS's own and durable with the reply: FILE_SYNC of the data server would only report it back.
    let ds_stable = match job.stable {
        StableHow::FileSync => StableHow::DataSync,
        other => other,
    };
    let _noted = fs.restripes.writing(inode.id, job.offset, job.end());
    let written = target.write(fs, job.offset, ds_stable, &job.bytes);
    let stripes::Written { committed, seen } = written.await?;
    let commit = SizeCommit {
        new_end: Some(job.offset + len),
        ..SizeCommit::default()
    };
    let committed = if committed >= ds_stable && job.stable == StableHow::FileSync {
        StableHow::FileSync
    } else {
        // A size that is durable does not make a promise about data: never more than was asked and given (R2).
        committed.min(job.stable)
    };
    Ok(Written {
        target,
        committed,
        seen,
        commit,
    })
}

/// Makes the object of a file on one of its data servers, durably.
pub(crate) async fn make_object(fs: &Fs, inode: &Inode, place: usize) -> Result<(), NfsStatus> {
    let key = io_key(fs);
    match target(fs, key.as_ref(), inode, Rights::ReadWrite)? {
        Target::Own(target) => fs.peers.make_object(&target, place).await,
        Target::Foreign(_, at) => Ok(fs.foreign.make(&at).await?),
    }
}

/// Makes what was written to a file durable at all its data servers.
///
/// # Errors
/// As [`read`].
pub async fn commit(fs: &Arc<Fs>, inode: &Inode) -> Result<Verifier, NfsStatus> {
    let committed = target::commit(fs, inode).await;
    committed.map(|(verifier, _)| verifier)
}
