//! What every procedure needs: for whom it works, the inode behind a handle, and attributes for the reply.

use crate::attrs::{attrs_of_fresh, wcc};
use bytes::Bytes;
use fs::{Actor, Fs};
use mds::Mds;
use namespace::{FileId, FileType, Inode};
use nfs3::{FileName, Handle, PostOpAttr, WccData};
use nfs4::attr::{SIZE, SPACE_USED, TIME_ACCESS, TIME_METADATA, TIME_MODIFY};
use nfs4::{Bitmap, FileHandle, NfsStatus, Stateid};
use state::Io;
use std::sync::Arc;
use transport::{Charge, ConnHandle, Payload};

/// Attributes of NFSv3 that a holder for writing may know better.
const FRESH: Bitmap = Bitmap::of(&[SIZE, SPACE_USED, TIME_ACCESS, TIME_METADATA, TIME_MODIFY]);

/// One call.
pub(crate) struct Cx<'m> {
    pub(crate) mds: &'m Mds,
    pub(crate) conn: &'m ConnHandle,
    /// The whole record: what is written is a part of it.
    pub(crate) record: &'m Bytes,
    pub(crate) actor: Actor,
    /// What READ gives.
    pub(crate) payload: Option<Payload>,
    /// For what a slow reader holds.
    pub(crate) charge: Option<Charge>,
}

impl<'m> Cx<'m> {
    pub(crate) fn fs(&self) -> &'m Arc<Fs> {
        self.mds.fs()
    }

    /// The inode behind a handle.
    pub(crate) fn inode(&mut self, handle: Handle<'_>) -> Result<Arc<Inode>, NfsStatus> {
        let fs = self.fs();
        let handle = fs.parse_handle(handle.0)?;
        self.actor.look(fs, |ns, op| {
            ns.resolve(op, FileId(handle.file_id), handle.generation)
        })
    }

    /// The directory behind a handle.
    pub(crate) fn directory(&mut self, handle: Handle<'_>) -> Result<Arc<Inode>, NfsStatus> {
        let inode = self.inode(handle)?;
        match inode.kind {
            FileType::Directory => Ok(inode),
            _ => Err(NfsStatus::NotDir),
        }
    }

    /// The regular file behind a handle, once its size is known.
    pub(crate) async fn regular(&mut self, handle: Handle<'_>) -> Result<Arc<Inode>, NfsStatus> {
        let inode = self.ready(handle).await?;
        match inode.kind {
            FileType::Regular => Ok(inode),
            FileType::Directory => Err(NfsStatus::IsDir),
            _ => Err(NfsStatus::Inval),
        }
    }

    /// The inode behind a handle, once its size and times are known.
    pub(crate) async fn ready(&mut self, handle: Handle<'_>) -> Result<Arc<Inode>, NfsStatus> {
        let inode = self.inode(handle)?;
        match fs::until_ready(self.fs(), inode.id).await? {
            true => self.inode(handle),
            false => Ok(inode),
        }
    }

    /// Refuses I/O on a file that others have opened with a deny mode against it, or may reclaim so.
    pub(crate) fn check_undenied(&self, file: FileId, io: Io) -> Result<(), NfsStatus> {
        let (fs, client) = (self.fs(), self.actor.client()?);
        fs.clients().lock().check_grace_io(true)?;
        let ground = fs.state().check_io(Stateid::ANONYMOUS, client, file.0, io);
        ground.map(drop)
    }

    /// The inode as it is now.
    fn now(&mut self, file: FileId) -> Option<Arc<Inode>> {
        let fs = self.fs();
        self.actor.look(fs, |ns, op| ns.getattr(op, file)).ok()
    }

    /// Attributes of an object, for a reply that may do without.
    pub(crate) async fn attrs(&mut self, file: FileId) -> PostOpAttr {
        let inode = self.now(file)?;
        let fresh = fs::fresh(self.fs(), &mut self.actor, &inode, &FRESH).await;
        fresh.ok().map(|fresh| attrs_of_fresh(self.fs(), &fresh))
    }

    /// As [`Cx::attrs`], of what a handle names.
    pub(crate) async fn attrs_of_handle(&mut self, handle: Handle<'_>) -> PostOpAttr {
        let inode = self.inode(handle).ok()?;
        self.attrs(inode.id).await
    }

    /// Attributes of a file that was waited for.
    pub(crate) async fn fresh(&mut self, inode: &Arc<Inode>) -> Result<nfs3::Fattr3, NfsStatus> {
        let fresh = fs::fresh(self.fs(), &mut self.actor, inode, &FRESH).await?;
        Ok(attrs_of_fresh(self.fs(), &fresh))
    }

    /// An object before and after this call.
    pub(crate) fn wcc(&mut self, before: &Inode) -> WccData {
        let after = self.now(before.id);
        wcc(self.fs(), before, after.as_deref())
    }

    /// As [`Cx::wcc`] after a failure: of what a handle names nothing is known of before.
    pub(crate) fn wcc_failed(&mut self, handle: Handle<'_>) -> WccData {
        match self.inode(handle) {
            Ok(inode) => WccData {
                before: None,
                ..wcc(self.fs(), &inode, Some(&inode))
            },
            Err(_) => WccData::default(),
        }
    }

    /// The handle of an object.
    pub(crate) fn handle_of(&self, inode: &Inode) -> FileHandle {
        self.fs().handle_of(inode)
    }
}

/// A name. The name space refuses `.`, `..` and one that is too long.
pub(crate) fn name<'a>(name: FileName<'a>) -> Result<&'a [u8], NfsStatus> {
    match name.0 {
        [] => Err(NfsStatus::Inval),
        name => Ok(name),
    }
}
