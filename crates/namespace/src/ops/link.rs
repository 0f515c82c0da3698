//! LINK: one more name for a file.

use crate::inode::Inode;
use crate::ops::foreign::check_tree;
use crate::rights::{EXECUTE, WRITE};
use crate::{ChangeInfo, FileId, Namespace, NsError, Op};
use std::sync::Arc;

/// A link that was made.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Linked {
    /// The file after the transaction.
    pub inode: Arc<Inode>,
    /// The directory's change counter.
    pub dir: ChangeInfo,
}

impl Namespace {
    /// Gives `file` the name `name` in `dir`.
    ///
    /// # Errors
    /// [`NsError::IsDir`] for a directory, [`NsError::NoEnt`] for a file whose last name is gone,
    /// [`NsError::Exist`], [`NsError::MLink`], [`NsError::OtherTree`], [`NsError::Access`], and those of a bad name.
    pub fn link(
        &self,
        op: &mut Op<'_>,
        file: FileId,
        dir: FileId,
        name: &[u8],
    ) -> Result<Linked, NsError> {
        let (cred, now) = (op.cred, op.now);
        self.look_ahead(dir, name)?;
        self.write(op, |txn| {
            let inode = txn.need(file)?;
            let parent = txn.dir(cred, dir, EXECUTE)?;
            if txn.entry(dir, name)?.is_some() {
                return Err(NsError::Exist);
            }
            if inode.is_dir() {
                return Err(NsError::IsDir);
            }
            cred.require(&parent, WRITE)?;
            check_tree(&inode, &parent)?;
            if inode.nlink == 0 {
                return Err(NsError::NoEnt);
            }
            if inode.nlink >= txn.link_count_max() {
                return Err(NsError::MLink);
            }
            txn.set_entry(dir, name, file, inode.kind)?;
            let inode = txn.touch(file)?;
            inode.nlink += 1;
            inode.ctime = now;
            let inode = Arc::new(inode.clone());
            let after = txn.touch(dir)?;
            after.size += 1;
            after.mtime = now;
            after.ctime = now;
            let dir = ChangeInfo {
                before: parent.change,
                after: after.change,
            };
            Ok(Linked { inode, dir })
        })
    }
}
