//! What every operation needs of its COMPOUND: the file behind the current handle, the name space as the
//! caller may see it, and the observed transaction.

use crate::exports::Atime;
use crate::{Mds, persist};
use layout::{MdsHandle, MdsHandleError, MdsHandleKind};
use meta::{MetaError, Seq};
use namespace::{Cred, FileId, Inode, Namespace, NsError, Op, Time};
use nfs4::{FileHandle, NfsStatus, OpBody, OpNum};
use server::Compound;
use std::any::Any;
use std::sync::Arc;

/// One COMPOUND on the metadata server.
pub(crate) type Cx<'r> = Compound<'r, Mds>;

/// A caller that an export lets in.
#[derive(Debug, Clone)]
pub struct Caller {
    /// Identity after squashing.
    pub cred: Cred,
    /// The export is read-only for this caller.
    pub read_only: bool,
    /// What the caller's reads do to access times.
    pub atime: Atime,
}

/// For whom work on the name space is done that may outlive its COMPOUND, and what it has observed.
pub(crate) struct Asker<'a> {
    pub(crate) cred: &'a Cred,
    /// The newest transaction that any result depends on (rule R7).
    pub(crate) observed: Seq,
}

impl<'a> Asker<'a> {
    pub(crate) fn new(cred: &'a Cred) -> Self {
        Self {
            cred,
            observed: Seq(0),
        }
    }

    /// Calls the name space.
    pub(crate) fn ns<T>(
        &mut self,
        mds: &Mds,
        call: impl FnOnce(&Namespace, &mut Op<'_>) -> Result<T, NsError>,
    ) -> Result<T, NfsStatus> {
        let (seen, result) = ask(mds, Op::new(self.cred, mds.now()), call);
        self.observed = self.observed.max(seen);
        result
    }

    /// As [`change_as`].
    pub(crate) fn change_as<T>(
        &mut self,
        mds: &Mds,
        prepared: &Prepared,
        call: impl FnOnce(&Namespace, &mut Op<'_>) -> Result<T, NsError>,
    ) -> Result<T, NfsStatus> {
        let keep = |_: &dyn Any| prepared.0.clone();
        let op = Op::new(self.cred, mds.now()).keeping(&keep);
        let (seen, result) = ask(mds, op, call);
        self.observed = self.observed.max(seen);
        result
    }
}

/// Calls the name space: what was observed, and the result.
fn ask<T>(
    mds: &Mds,
    mut op: Op<'_>,
    call: impl FnOnce(&Namespace, &mut Op<'_>) -> Result<T, NsError>,
) -> (Seq, Result<T, NfsStatus>) {
    let result = call(mds.namespace(), &mut op);
    (op.observed(), result.map_err(|e| status(&e)))
}

/// Calls the name space as the COMPOUND's caller, and notes what was observed (rule R7).
pub(crate) fn ns<T>(
    mds: &Mds,
    cx: &mut Cx<'_>,
    call: impl FnOnce(&Namespace, &mut Op<'_>) -> Result<T, NsError>,
) -> Result<T, NfsStatus> {
    let (seen, result) = ask(mds, Op::new(&cx.caller.cred, mds.now()), call);
    cx.observe(seen.0);
    result
}

/// As [`ns`], for the change that the operation in execution is about: its result, as `answer` tells it with the handle that
/// it makes current, becomes durable with it (rule R15).
pub(crate) fn change<T: Any, B: OpBody<Num = OpNum>>(
    mds: &Mds,
    cx: &mut Cx<'_>,
    answer: impl Fn(&T) -> (B, Option<FileHandle>) + Sync,
    call: impl FnOnce(&Namespace, &mut Op<'_>) -> Result<T, NsError>,
) -> Result<T, NfsStatus> {
    let keep = |result: &dyn Any| {
        let (res, made) = answer(result.downcast_ref::<T>()?);
        let (slot, bytes) = cx.kept(&res, made)?;
        Some((persist::key(slot), bytes))
    };
    let op = Op::new(&cx.caller.cred, mds.now()).keeping(&keep);
    let (seen, result) = ask(mds, op, call);
    cx.observe(seen.0);
    result
}

/// A result that is known before the change is made, in the form in which it is kept.
#[derive(Debug, Clone, Default)]
pub(crate) struct Prepared(Option<(Vec<u8>, Vec<u8>)>);

impl Prepared {
    /// Prepares a result, and the handle that the operation makes current.
    pub(crate) fn new<B>(cx: &Cx<'_>, res: &B, made: Option<FileHandle>) -> Self
    where
        B: OpBody<Num = OpNum>,
    {
        let kept = cx.kept(res, made);
        Self(kept.map(|(slot, bytes)| (persist::key(slot), bytes)))
    }
}

/// As [`change`], with a result that was prepared.
pub(crate) fn change_as<T>(
    mds: &Mds,
    cx: &mut Cx<'_>,
    prepared: &Prepared,
    call: impl FnOnce(&Namespace, &mut Op<'_>) -> Result<T, NsError>,
) -> Result<T, NfsStatus> {
    let keep = |_: &dyn Any| prepared.0.clone();
    let op = Op::new(&cx.caller.cred, mds.now()).keeping(&keep);
    let (seen, result) = ask(mds, op, call);
    cx.observe(seen.0);
    result
}

/// The inode behind the current file handle.
pub(crate) fn current(mds: &Mds, cx: &mut Cx<'_>) -> Result<Arc<Inode>, NfsStatus> {
    let handle = parse(mds, cx.fh()?)?;
    resolve(mds, cx, handle)
}

/// The inode behind the saved file handle.
pub(crate) fn saved(mds: &Mds, cx: &mut Cx<'_>) -> Result<Arc<Inode>, NfsStatus> {
    let handle = parse(mds, cx.saved()?)?;
    resolve(mds, cx, handle)
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

/// Refuses changes by a caller whose export is read-only.
pub(crate) fn writable(cx: &Cx<'_>) -> Result<(), NfsStatus> {
    if cx.caller.read_only {
        Err(NfsStatus::RoFs)
    } else {
        Ok(())
    }
}

/// The handle of an inode.
pub(crate) fn handle_of(mds: &Mds, inode: &Inode) -> FileHandle {
    let handle = MdsHandle {
        kind: MdsHandleKind::Inode,
        cluster_id: mds.cluster_id(),
        file_id: inode.id.0,
        generation: inode.generation,
    };
    FileHandle::from(handle.to_bytes().as_slice())
}

/// Reads a handle of ours.
pub(crate) fn parse(mds: &Mds, fh: &[u8]) -> Result<MdsHandle, NfsStatus> {
    MdsHandle::parse(fh, mds.cluster_id()).map_err(|e| match e {
        MdsHandleError::WrongCluster => NfsStatus::Stale,
        _ => NfsStatus::BadHandle,
    })
}

fn resolve(mds: &Mds, cx: &mut Cx<'_>, handle: MdsHandle) -> Result<Arc<Inode>, NfsStatus> {
    // Nothing is changed, so what time it is does not matter: the clock is not read.
    let op = Op::new(&cx.caller.cred, Time::default());
    let (seen, inode) = ask(mds, op, |ns, op| {
        ns.resolve(op, FileId(handle.file_id), handle.generation)
    });
    cx.observe(seen.0);
    inode
}

/// A name as a component: the name space judges its bytes.
pub(crate) fn status(e: &NsError) -> NfsStatus {
    match e {
        NsError::NoEnt => NfsStatus::NoEnt,
        NsError::Exist => NfsStatus::Exist,
        NsError::NotDir => NfsStatus::NotDir,
        NsError::IsDir => NfsStatus::IsDir,
        NsError::NotEmpty => NfsStatus::NotEmpty,
        NsError::Access => NfsStatus::Access,
        NsError::Perm => NfsStatus::Perm,
        NsError::NameTooLong => NfsStatus::NameTooLong,
        NsError::BadName => NfsStatus::BadName,
        NsError::Stale => NfsStatus::Stale,
        NsError::NoSpace | NsError::AclTooLong | NsError::Store(MetaError::NoSpace) => {
            NfsStatus::NoSpc
        }
        NsError::MLink => NfsStatus::MLink,
        NsError::Inval | NsError::NeedsTruncate => NfsStatus::Inval,
        NsError::BadCookie => NfsStatus::BadCookie,
        NsError::FileTooBig => NfsStatus::FBig,
        NsError::Busy | NsError::TooMany => NfsStatus::Delay,
        NsError::NoXattr => NfsStatus::NoXattr,
        NsError::XattrTooBig => NfsStatus::Xattr2Big,
        NsError::Store(error) => {
            tracing::error!(%error, "metadata store");
            NfsStatus::ServerFault
        }
    }
}
