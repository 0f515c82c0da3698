//! What every operation needs of its COMPOUND: the file behind the current handle, and what is kept of its result.

use crate::Mds;
use crate::actor::MdsActor;
use fs::{Actor, Prepared};
use namespace::{FileId, Inode, Namespace, NsError, Op};
use nfs4::{FileHandle, NfsStatus, OpBody, OpNum};
use server::{Compound, Keeper};
use std::any::Any;
use std::sync::Arc;

/// One COMPOUND on the metadata server.
pub(crate) type Cx<'r> = Compound<'r, MdsActor>;

/// Calls the name space for the change that the operation in execution is about. Its result becomes durable with it, as
/// `answer` tells it with the handle that it makes current (rule R15).
pub(crate) fn change<T: Any, B: OpBody<Num = OpNum>>(
    mds: &Mds,
    cx: &mut Cx<'_>,
    answer: impl Fn(&T) -> (B, Option<FileHandle>) + Sync,
    call: impl FnOnce(&Namespace, &mut Op<'_>) -> Result<T, NsError>,
) -> Result<T, NfsStatus> {
    let (actor, keeper) = cx.split();
    let keep = |result: &T| {
        let (res, made) = answer(result);
        prepare(keeper, &res, made)
    };
    actor.change(&mds.fs, &keep, call)
}

/// Prepares a result for its change, with the handle that the operation makes current.
pub(crate) fn prepare<B>(keeper: Keeper<'_>, res: &B, made: Option<FileHandle>) -> Prepared
where
    B: OpBody<Num = OpNum>,
{
    let kept = keeper.kept(res, made);
    Prepared(kept.map(|(slot, bytes)| (fs::key(slot), bytes)))
}

/// As [`prepare`], for a result that is known before its change is made.
pub(crate) fn prepared<B>(cx: &Cx<'_>, res: &B, made: Option<FileHandle>) -> Prepared
where
    B: OpBody<Num = OpNum>,
{
    prepare(cx.keeper(), res, made)
}

/// The inode behind the current file handle.
pub(crate) fn current(mds: &Mds, cx: &mut Cx<'_>) -> Result<Arc<Inode>, NfsStatus> {
    let handle = mds.fs.parse_handle(cx.fh()?)?;
    resolve(mds, &mut cx.actor, (handle.file_id, handle.generation))
}

/// The inode behind the saved file handle.
pub(crate) fn saved(mds: &Mds, cx: &mut Cx<'_>) -> Result<Arc<Inode>, NfsStatus> {
    let handle = mds.fs.parse_handle(cx.saved()?)?;
    resolve(mds, &mut cx.actor, (handle.file_id, handle.generation))
}

fn resolve(
    mds: &Mds,
    actor: &mut Actor,
    (file, generation): (u64, u32),
) -> Result<Arc<Inode>, NfsStatus> {
    actor.look(&mds.fs, |ns, op| ns.resolve(op, FileId(file), generation))
}

/// The current file, once its size and times are known.
///
/// # Errors
/// `Delay` while they are still being recovered.
pub(crate) async fn current_ready(mds: &Mds, cx: &mut Cx<'_>) -> Result<Arc<Inode>, NfsStatus> {
    let inode = current(mds, cx)?;
    if fs::until_ready(&mds.fs, inode.id).await? {
        return current(mds, cx);
    }
    Ok(inode)
}

/// As [`current_ready`], for OPEN by handle: reclaims are let through, since grace would end without them.
pub(crate) async fn current_to_open(mds: &Mds, cx: &mut Cx<'_>) -> Result<Arc<Inode>, NfsStatus> {
    if mds.fs.clients().lock().in_grace() {
        return current(mds, cx);
    }
    current_ready(mds, cx).await
}

/// The current file handle, which must be that of a regular file. Other types get the status that RFC 8881 prescribes for I/O.
pub(crate) fn current_regular(mds: &Mds, cx: &mut Cx<'_>) -> Result<Arc<Inode>, NfsStatus> {
    let inode = current(mds, cx)?;
    regular(&inode)?;
    Ok(inode)
}

/// Refuses what is no regular file: directories are `IsDir`, symbolic links `Symlink`, others `WrongType`.
pub(crate) fn regular(inode: &Inode) -> Result<(), NfsStatus> {
    match inode.kind {
        namespace::FileType::Regular => Ok(()),
        namespace::FileType::Directory => Err(NfsStatus::IsDir),
        namespace::FileType::Symlink => Err(NfsStatus::Symlink),
        _ => Err(NfsStatus::WrongType),
    }
}

/// The current file handle, which must be that of a directory.
pub(crate) fn current_dir(mds: &Mds, cx: &mut Cx<'_>) -> Result<Arc<Inode>, NfsStatus> {
    let inode = current(mds, cx)?;
    directory(&inode)?;
    Ok(inode)
}

/// Refuses what is no directory.
pub(crate) fn directory(inode: &Inode) -> Result<(), NfsStatus> {
    match inode.kind {
        namespace::FileType::Directory => Ok(()),
        namespace::FileType::Symlink => Err(NfsStatus::Symlink),
        _ => Err(NfsStatus::NotDir),
    }
}
