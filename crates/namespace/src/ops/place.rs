//! How an inline file gets a place on data servers, once and for good (rule T8).
//!
//! # Ordering
//! An intent with the place is durable before a data server is told anything of the file. Then its bytes are written there
//! and synced. One transaction sets the place and ends record and intent. Until that is durable the inline bytes count. A
//! file without bytes and without an intent needs none: no data server has heard of it.
//!
//! # Failure
//! An intent that was left says where bytes of the attempt may lie. The next attempt takes the same place and cuts them
//! first. A removal of the file removes them.

use crate::inline_record;
use crate::inode::{Inode, in_blocks};
use crate::records::{self, PlacingIntent};
use crate::txn::Txn;
use crate::{FileId, Namespace, NsError, Op, Placement, keys};
use meta::Purpose;
use std::sync::Arc;

/// The place that an inline file is being given.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Placing {
    /// Where it goes: as an earlier attempt says, if there was one.
    pub placement: Placement,
    /// There was one, so the data servers may have bytes of it.
    pub is_again: bool,
}

impl Namespace {
    /// Begins to give an inline file a place. It must be durable before a data server is told.
    ///
    /// # Errors
    /// [`NsError::Busy`] when it has a place; [`NsError::Stale`], [`NsError::Inval`] unless it is a regular file.
    pub fn begin_placing(
        &self,
        op: &mut Op<'_>,
        file: FileId,
        placement: Placement,
    ) -> Result<Placing, NsError> {
        self.write(op, |txn| {
            txn.purpose(Purpose::Upkeep);
            if !txn.regular(file)?.is_inline() {
                return Err(NsError::Busy);
            }
            if let Some(intent) = txn.placing(file)? {
                return Ok(Placing {
                    placement: intent.placement,
                    is_again: true,
                });
            }
            txn.begin_placing(&PlacingIntent { file, placement });
            Ok(Placing {
                placement,
                is_again: false,
            })
        })
    }

    /// Gives an inline file the place that was begun. The data servers have its bytes durably, and none that an earlier
    /// attempt left. No attribute but the space shows it, so the change attribute stays. A file that has a place keeps it.
    ///
    /// # Errors
    /// [`NsError::Busy`] when this place was not begun; [`NsError::Stale`], [`NsError::Inval`] unless it is a regular file.
    pub fn place(
        &self,
        op: &mut Op<'_>,
        file: FileId,
        placement: Placement,
    ) -> Result<Arc<Inode>, NsError> {
        self.place_when(op, file, placement, |txn, _| {
            let intent = txn.placing(file)?;
            if intent.is_none_or(|intent| intent.placement != placement) {
                return Err(NsError::Busy);
            }
            txn.end_placing(file);
            Ok(())
        })
    }

    /// Gives a place to an inline file without bytes of which no data server has heard. A file that has a place keeps it.
    ///
    /// # Errors
    /// [`NsError::Busy`] when it has bytes, or a place was begun, whichever: then see [`Namespace::begin_placing`].
    /// [`NsError::Stale`], [`NsError::Inval`] unless it is a regular file.
    pub fn place_unheard(
        &self,
        op: &mut Op<'_>,
        file: FileId,
        placement: Placement,
    ) -> Result<Arc<Inode>, NsError> {
        self.place_when(op, file, placement, |txn, inode| {
            if inode.space_used > 0 || txn.placing(file)?.is_some() {
                return Err(NsError::Busy);
            }
            Ok(())
        })
    }

    /// Places an inline file when `may_place` agrees. A file that has a place keeps it.
    fn place_when(
        &self,
        op: &mut Op<'_>,
        file: FileId,
        placement: Placement,
        may_place: impl Fn(&mut Txn<'_>, &Inode) -> Result<(), NsError>,
    ) -> Result<Arc<Inode>, NsError> {
        self.write(op, |txn| {
            txn.purpose(Purpose::Removal);
            let inode = txn.regular(file)?;
            if !inode.is_inline() {
                return Ok(inode);
            }
            may_place(txn, &inode)?;
            place(txn, &inode, placement)
        })
    }
}

/// Ends the inline bytes of a file, and sets its place.
fn place(txn: &mut Txn<'_>, inode: &Inode, placement: Placement) -> Result<Arc<Inode>, NsError> {
    inline_record::end(txn, inode);
    let after = txn.touch_quietly(inode.id)?;
    after.placement = Some(placement);
    after.space_used = in_blocks(inode.space_used);
    after.extras.edit(|rare| rare.layout = None);
    Ok(Arc::new(after.clone()))
}

/// Ends an inline file that is removed. Returns where data servers may have bytes of it.
pub(crate) fn discard(txn: &mut Txn<'_>, inode: &Inode) -> Result<Option<Placement>, NsError> {
    inline_record::end(txn, inode);
    let intent = txn.placing(inode.id)?;
    if intent.is_some() {
        txn.end_placing(inode.id);
    }
    Ok(intent.map(|intent| intent.placement))
}

impl Txn<'_> {
    /// The place that a file is being given.
    fn placing(&mut self, file: FileId) -> Result<Option<PlacingIntent>, NsError> {
        if *self.placings() == 0 {
            return Ok(self.saw_none());
        }
        let stored = self.record(keys::PLACING, file.0)?;
        let decoded = stored.map(|v| records::decode(&v, "placing intent"));
        decoded.transpose()
    }

    /// Begins to place a file that has no intent.
    fn begin_placing(&mut self, intent: &PlacingIntent) {
        *self.placings() += 1;
        self.put_record(keys::PLACING, intent.file.0, &records::encode(intent));
    }

    /// Ends the intent of a file that has one.
    fn end_placing(&mut self, file: FileId) {
        let placings = self.placings();
        *placings = placings.saturating_sub(1);
        self.delete_record(keys::PLACING, file.0);
    }
}
