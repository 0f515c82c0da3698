//! READ, WRITE and COMMIT of clients without layouts, carried out on the data servers (decision 4).
//!
//! # Ordering
//! A WRITE is on the data servers before its size is committed; both before the reply. A truncation of the file waits for
//! I/O under way, and the other way round (the file's gate).

use crate::actor::{Actor, Prepared};
use crate::fs::Fs;
use crate::size_recovery::{may_be_longer, ready, until_ready};
use bytes::{Bytes, BytesMut};
use layout::{Epoch, Rights, SigningKey};
use namespace::{Inode, SizeCommit};
use nfs4::ops::WriteRes;
use nfs4::{NfsStatus, StableHow, Verifier};
use std::collections::BTreeMap;
use std::sync::Arc;
use stripes::Target;
use tokio::sync::OwnedRwLockReadGuard;

fn target(fs: &Fs, key: &SigningKey, inode: &Inode, rights: Rights) -> Result<Target, NfsStatus> {
    let epoch = Epoch::from_u64(fs.ns.fencing_epoch(inode));
    Target::new(&fs.cluster, inode, rights, epoch, key)
}

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
    let key = fs.cluster.signing_key().ok_or(NfsStatus::Delay)?;
    let mut end = inode.size;
    if may_be_longer(fs, &inode) {
        end = end.max(seen_end);
    }
    let len = end.saturating_sub(offset).min(count);
    let eof = offset.saturating_add(len) >= end;
    if len == 0 {
        return Ok((Bytes::new(), eof));
    }
    if inode.placement.is_none() {
        let zeros = usize::try_from(len).map_err(|_| NfsStatus::ServerFault)?;
        return Ok((BytesMut::zeroed(zeros).freeze(), eof));
    }
    let target = target(fs, &key, &inode, Rights::Read)?;
    let bytes = fs.peers.read(&target, offset, len).await?;
    Ok((bytes, eof))
}

/// Keeps truncations out while the file is worked on, and takes a look at it as it is then.
pub(crate) async fn enter(
    fs: &Arc<Fs>,
    actor: &mut Actor,
    inode: &Inode,
) -> Result<(OwnedRwLockReadGuard<()>, Arc<Inode>), NfsStatus> {
    until_ready(fs, inode.id).await?;
    let shared = fs.layouts.gate(inode.id).read_owned().await;
    fs.check_not_truncating(inode.id)?;
    fs.offloads.lock().stopped(inode.id)?;
    ready(fs, inode.id)?;
    let inode = actor.ns(fs, |ns, op| ns.getattr(op, inode.id))?;
    Ok((shared, inode))
}

/// As [`enter`], for a writer: set-id bits that the write takes off are off, durably, before a data server has its bytes.
pub(crate) async fn enter_to_write(
    fs: &Arc<Fs>,
    actor: &mut Actor,
    inode: &Inode,
) -> Result<(OwnedRwLockReadGuard<()>, Arc<Inode>), NfsStatus> {
    let (shared, inode) = enter(fs, actor, inode).await?;
    Ok((shared, without_privileges(fs, actor, inode).await?))
}

/// Takes the set-id bits off that a write by the actor takes off, durably.
pub(crate) async fn without_privileges(
    fs: &Fs,
    actor: &mut Actor,
    inode: Arc<Inode>,
) -> Result<Arc<Inode>, NfsStatus> {
    if !inode.has_privileges() {
        return Ok(inode);
    }
    let inode = actor.ns(fs, |ns, op| ns.drop_privileges(op, inode.id))?;
    fs.durable(actor.observed).await?;
    Ok(inode)
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
    let written = write_pieces(fs, actor, inode, job).await?;
    let res = WriteRes {
        count: u32::try_from(job.bytes.len()).map_err(|_| NfsStatus::Inval)?,
        committed: written.committed,
        write_verifier: fs.peers.write_verifier(&written.target, &written.seen),
    };
    actor.change_as(fs, &keep(&res), |ns, op| {
        ns.commit_size(op, inode.id, written.commit)
    })?;
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
    let written = write_pieces(fs, actor, inode, job).await?;
    actor.ns(fs, |ns, op| ns.commit_size(op, inode.id, written.commit))?;
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
    /// Keeps truncations out until the size is committed.
    _shared: OwnedRwLockReadGuard<()>,
}

async fn write_pieces(
    fs: &Arc<Fs>,
    actor: &mut Actor,
    inode: &Arc<Inode>,
    job: &WriteJob,
) -> Result<Written, NfsStatus> {
    let (shared, inode) = enter_to_write(fs, actor, inode).await?;
    let key = fs.cluster.signing_key().ok_or(NfsStatus::Delay)?;
    let len = u64::try_from(job.bytes.len()).map_err(|_| NfsStatus::Inval)?;
    let target = target(fs, &key, &inode, Rights::ReadWrite)?;
    // The size is the MDS's own and durable with the reply: FILE_SYNC of the data server would only report it back.
    let ds_stable = match job.stable {
        StableHow::FileSync => StableHow::DataSync,
        other => other,
    };
    let written = fs.peers.write(&target, job.offset, ds_stable, &job.bytes);
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
        _shared: shared,
    })
}

/// Makes the object of a file on one of its data servers, durably.
pub(crate) async fn make_object(fs: &Fs, inode: &Inode, ds: u32) -> Result<(), NfsStatus> {
    let key = fs.cluster.signing_key().ok_or(NfsStatus::Delay)?;
    let target = target(fs, &key, inode, Rights::ReadWrite)?;
    fs.peers.make_object(&target, ds).await
}

/// Makes what was written to a file durable at all its data servers.
///
/// # Errors
/// As [`read`].
pub async fn commit(fs: &Fs, inode: &Inode) -> Result<Verifier, NfsStatus> {
    fs.peers.commit(inode).await.map(|(verifier, _)| verifier)
}
