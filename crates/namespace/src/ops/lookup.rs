//! Reads by name: LOOKUP, LOOKUPP, READLINK, ACCESS. Served from the caches where they can be.

use crate::bucket::{check_name, hash_name};
use crate::inode::{FileType, Inode};
use crate::rights::EXECUTE;
use crate::{FileId, Namespace, NsError, Op};
use std::sync::Arc;

/// Looks at a name whose inode goes away in between; the last one keeps writers out.
const LOOKUP_TRIES_MAX: u32 = 3;

impl Namespace {
    /// The inode of a name. Needs search permission.
    ///
    /// # Errors
    /// [`NsError::NoEnt`], [`NsError::NotDir`], [`NsError::Access`], and those of a bad name.
    pub fn lookup(&self, op: &mut Op<'_>, dir: FileId, name: &[u8]) -> Result<Arc<Inode>, NsError> {
        check_name(name)?;
        self.searchable(op, dir)?;
        let hash = hash_name(&self.identity.hash_key, self.hash_mask, name);
        for tried in 1..=LOOKUP_TRIES_MAX {
            let quiet = (tried == LOOKUP_TRIES_MAX).then(|| self.writer.lock());
            let bucket = self.load_bucket(dir, hash)?;
            op.observe(bucket.seq);
            let entry = bucket.value.as_ref().and_then(|b| b.find(name));
            let file = entry.ok_or(NsError::NoEnt)?.file;
            let inode = self.load_inode(file)?;
            op.observe(inode.seq);
            drop(quiet);
            if let Some(inode) = inode.value {
                return Ok(inode);
            }
        }
        Err(NsError::corrupt("a directory entry names no inode"))
    }

    /// Looks for a name that a transaction is about to make, and keeps what was found for it. In the store that takes a good part of the
    /// time of a create, which so passes without the writer lock.
    pub(crate) fn look_ahead(&self, dir: FileId, name: &[u8]) -> Result<(), NsError> {
        let hash = hash_name(&self.identity.hash_key, self.hash_mask, name);
        self.load_bucket(dir, hash).map(drop)
    }

    /// The parent of a directory (LOOKUPP, RFC 8881 §18.14); the root has none. Needs search permission.
    ///
    /// # Errors
    /// [`NsError::NoEnt`] for the root, [`NsError::NotDir`], [`NsError::Access`].
    pub fn lookup_parent(&self, op: &mut Op<'_>, dir: FileId) -> Result<Arc<Inode>, NsError> {
        self.searchable(op, dir)?;
        if dir == FileId::ROOT {
            return Err(NsError::NoEnt);
        }
        let inode = self.getattr(op, dir)?;
        self.getattr(op, inode.parent)
    }

    /// The target of a symlink. Linux asks no permission for it, and neither do we.
    ///
    /// # Errors
    /// [`NsError::Inval`] for any other file, [`NsError::Stale`].
    pub fn readlink(&self, op: &mut Op<'_>, file: FileId) -> Result<Arc<Inode>, NsError> {
        let inode = self.getattr(op, file)?;
        if inode.kind == FileType::Symlink {
            Ok(inode)
        } else {
            Err(NsError::Inval)
        }
    }

    /// Rights of the caller: of [`crate::READ`], [`crate::WRITE`], [`crate::EXECUTE`].
    ///
    /// # Errors
    /// [`NsError::Stale`].
    pub fn access(&self, op: &mut Op<'_>, file: FileId) -> Result<u32, NsError> {
        let hit = self.load_inode(file)?;
        let inode = hit.value.ok_or_else(|| {
            op.observe(hit.seq);
            NsError::Stale
        })?;
        op.observe(hit.steady);
        Ok(op.cred.rights(&inode))
    }

    /// Observes only what the check reads. Entries come and go in a busy directory, and a lookup of an old name need
    /// not wait for them to be durable.
    fn searchable(&self, op: &mut Op<'_>, dir: FileId) -> Result<(), NsError> {
        let hit = self.load_inode(dir)?;
        let Some(dir) = hit.value else {
            op.observe(hit.seq);
            return Err(NsError::Stale);
        };
        op.observe(hit.steady);
        if !dir.is_dir() {
            return Err(NsError::NotDir);
        }
        op.cred.require(&dir, EXECUTE)
    }
}
