//! What changes, reads and removals do about sums and damage before anything else.

use objects::ObjectId;
use parts::BLOCK_BYTES;

use crate::apply::Change;
use crate::ds::Ds;
use crate::fault::Fault;

/// First and last block of a range that is not empty.
fn blocks_of(start: u64, end: u64) -> (u64, u64) {
    let block = u64::from(BLOCK_BYTES);
    (start / block, end.saturating_sub(1) / block)
}

impl Ds {
    /// Before a change: damaged blocks of which it changes a part are mended, and so is what it takes from a source. Returns
    /// those that it overwrites wholly.
    ///
    /// # Errors
    /// [`Fault::Damaged`] when one cannot be mended.
    pub(crate) async fn before_change_of_damage(
        &self,
        id: ObjectId,
        change: &Change<'_>,
    ) -> Result<Vec<u64>, Fault> {
        let (start, end) = change.range();
        if let Change::Clone {
            src, src_offset, ..
        } = change
        {
            self.mend_range(*src, *src_offset, src_offset.saturating_add(end - start))
                .await?;
        }
        if start >= end {
            return Ok(Vec::new());
        }
        let (first, last) = blocks_of(start, end);
        let block_bytes = u64::from(BLOCK_BYTES);
        let mark = self.index.known(id)?.high_water_bytes;
        let is_whole = |block: u64| {
            let from = block * block_bytes;
            start <= from && (from.saturating_add(block_bytes) <= end || end >= mark)
        };
        let mut whole = Vec::new();
        for block in self.sums.damaged_of(id, first, last) {
            if is_whole(block) {
                whole.push(block);
            } else if !self.mend_block(id, block).await? {
                return Err(Fault::Damaged);
            }
        }
        Ok(whole)
    }

    /// Damaged blocks were overwritten wholly, or removed.
    pub(crate) async fn overwritten(&self, id: ObjectId, blocks: &[u64]) -> Result<(), Fault> {
        let seq = self.index.forget_damage(id, blocks)?;
        self.index.durable(seq).await?;
        self.sums.forget_damage(id, blocks);
        Ok(())
    }

    /// Drops the sums of bytes that are about to change, durably. To be called while the change is noted as begun.
    pub(crate) async fn drop_sums(&self, id: ObjectId, bytes: (u64, u64)) -> Result<(), Fault> {
        while let Some((seq, is_more)) = self.index.drop_sums(id, bytes)? {
            self.index.durable(seq).await?;
            if !is_more {
                break;
            }
        }
        Ok(())
    }

    /// Before an object is removed: its name may be used again by a filling, so nothing may be left of its sums.
    pub(crate) async fn forget_sums(&self, id: ObjectId) -> Result<(), Fault> {
        let _changing = self.sums.begin(id.file_id);
        if self.index.known(id)?.has_sums {
            self.drop_sums(id, (0, u64::MAX)).await?;
        }
        if self.sums.has_damage() {
            self.forget_damage(id).await?;
        }
        Ok(())
    }

    /// Nothing of an object counts as damaged any more: it goes, or gets all its bytes from a primary.
    pub(crate) async fn forget_damage(&self, id: ObjectId) -> Result<(), Fault> {
        match self.sums.damaged_of(id, 0, u64::MAX) {
            blocks if blocks.is_empty() => Ok(()),
            blocks => self.overwritten(id, &blocks).await,
        }
    }

    async fn mend_range(&self, id: ObjectId, start: u64, end: u64) -> Result<(), Fault> {
        if start >= end {
            return Ok(());
        }
        let (first, last) = blocks_of(start, end);
        for block in self.sums.damaged_of(id, first, last) {
            if !self.mend_block(id, block).await? {
                return Err(Fault::Damaged);
            }
        }
        Ok(())
    }

    /// Before a block is given to a member instead of what that has. A damaged one is mended first, from that member too.
    ///
    /// # Errors
    /// [`Fault::Damaged`].
    pub(crate) async fn before_passing_on(&self, id: ObjectId, block: u64) -> Result<(), Fault> {
        if self.index.known(id)?.has_sums {
            self.verify_blocks(id, block, block, false).await?;
        }
        let start = block.saturating_mul(u64::from(BLOCK_BYTES));
        self.mend_range(id, start, start.saturating_add(1)).await
    }

    /// Before bytes of an object are read: damage is mended or told. With `is_verified` they are compared with their
    /// sums.
    ///
    /// # Errors
    /// [`Fault::Damaged`].
    pub(crate) async fn before_read(
        &self,
        id: ObjectId,
        (offset, len): (u64, u32),
        is_verified: bool,
    ) -> Result<(), Fault> {
        let end = offset.saturating_add(u64::from(len));
        if offset >= end {
            return Ok(());
        }
        let (first, last) = blocks_of(offset, end);
        if is_verified && self.index.known(id)?.has_sums {
            self.verify_blocks(id, first, last, false).await?;
        }
        if self.sums.has_damage() {
            self.mend_range(id, offset, end).await?;
        }
        Ok(())
    }
}
