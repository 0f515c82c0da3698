//! What a placement group still has: files that lie on it, and objects that were made ahead.
//!
//! Owns no record. A group without files may end: its owner asks here.

use crate::inode::Inode;
use crate::ops::remove;
use crate::records::{self, PlacingIntent};
use crate::{FileId, Namespace, NsError, Op, keys};
use meta::Purpose;

/// A part of the files that lie on data servers.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct PlacedFiles {
    /// They, each with its placement group.
    pub placed: Vec<(FileId, u32)>,
    /// The last file that was looked at, placed or not; `None` at the end.
    pub last: Option<FileId>,
}

impl Namespace {
    /// Takes back names that no file has taken, of placement groups for which `is_it`, at most `limit` and [`crate::PAGE_MAX`] after
    /// `after`. Their objects are queued to be removed. Returns the last name that was looked at, `None` at the end.
    ///
    /// # Errors
    /// Only the store's.
    pub fn take_back_ahead(
        &self,
        op: &mut Op<'_>,
        (after, limit): (FileId, usize),
        is_it: &dyn Fn(u32) -> bool,
    ) -> Result<Option<FileId>, NsError> {
        let page = self.ahead(op, after, limit)?;
        let last = page.last().map(|(name, _)| name.file);
        let names: Vec<_> = page
            .into_iter()
            .filter(|(_, group)| is_it(*group))
            .collect();
        if names.is_empty() {
            return Ok(last);
        }
        self.write(op, |txn| {
            txn.purpose(Purpose::Removal);
            for (name, group) in &names {
                if txn.has_record(keys::AHEAD, name.file.0)? {
                    txn.delete_record(keys::AHEAD, name.file.0);
                    remove::queue_unused(txn, *name, *group)?;
                }
            }
            Ok(())
        })?;
        Ok(last)
    }

    /// Files with numbers above `after` that lie on data servers, or are about to, with their placement groups; nameless ones too.
    /// Looks at `limit` files at most (and [`crate::PAGE_MAX`]).
    ///
    /// # Errors
    /// Only the store's.
    pub fn placed_files(
        &self,
        op: &mut Op<'_>,
        (after, limit): (FileId, usize),
    ) -> Result<PlacedFiles, NsError> {
        let pairs = self.page_of(op, keys::INODE, after.0, limit)?;
        let mut placed = Vec::new();
        let mut last = None;
        for (key, value) in &pairs {
            let file = keys::number_of(key).ok_or_else(|| NsError::corrupt("inode"))?;
            let inode = Inode::from_stored(FileId(file), value)?;
            let group = match inode.placement {
                Some(placement) => Some(placement.group),
                None if inode.is_inline() => self.placing_group(inode.id)?,
                None => None,
            };
            placed.extend(group.map(|group| (inode.id, group)));
            last = Some(inode.id);
        }
        Ok(PlacedFiles { placed, last })
    }

    fn placing_group(&self, file: FileId) -> Result<Option<u32>, NsError> {
        let stored = self.store.get(&keys::numbered(keys::PLACING, file.0))?;
        let intent = stored.map(|value| records::decode::<PlacingIntent>(&value, "placing"));
        Ok(intent.transpose()?.map(|intent| intent.placement.group))
    }
}
