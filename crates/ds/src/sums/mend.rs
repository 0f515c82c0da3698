//! Replaces a damaged block by that of another member, whose bytes fit the sum that was kept here (rule P26).

use std::time::Duration;

use bytes::Bytes;
use control::PlaceReign;
use layout::MemberState;
use objects::{ObjectError, ObjectId};
use parts::{BLOCK_BYTES, Block, FileGeneration, StreamItem};

use super::table::CHUNK_BLOCKS;
use crate::blocks::sum_of;
use crate::copies::Asked;
use crate::ds::Ds;
use crate::fault::Fault;

/// How long another member may take.
const FETCH_WAIT: Duration = Duration::from_secs(5);
/// How often a block is tried while its file is changed, and the pause between.
const BUSY_TRIES: u32 = 50;
const BUSY_PAUSE: Duration = Duration::from_millis(10);

impl Ds {
    /// Tries to mend a damaged block. Returns whether it is whole.
    ///
    /// # Errors
    /// [`ObjectError::Busy`] when the file is changed all the time: trying again can help.
    pub(super) async fn mend_block(&self, id: ObjectId, block: u64) -> Result<bool, Fault> {
        let chunk = block / CHUNK_BLOCKS;
        let at = usize::try_from(block % CHUNK_BLOCKS).expect("small");
        let sums = self.index.sums(id, chunk)?;
        let Some(sum) = sums.and_then(|sums| sums.get(at).copied()) else {
            return Ok(false);
        };
        let group = self.index.known(id)?.group;
        for (member, reign) in self.members_with(id, group) {
            let asked = Asked {
                member,
                place: PlaceReign {
                    group,
                    place: u32::from(id.place),
                    reign,
                },
                file: FileGeneration {
                    file_id: id.file_id,
                    generation: id.generation,
                },
            };
            let answer = self.copies.ask(asked, StreamItem::Fetch { block });
            let Ok(Some(answer)) = tokio::time::timeout(FETCH_WAIT, answer).await else {
                continue;
            };
            let bytes = Bytes::from(answer.data.0);
            if sum_of(&bytes) != sum {
                continue;
            }
            let offset = block * u64::from(BLOCK_BYTES);
            if !self.put_back(id, block, sum, &bytes).await? {
                return Ok(false);
            }
            let is_backup = self.is_backup(id)?;
            let synced = self.blocking(move |objects| objects.sync(id)).await;
            synced.map_err(|e| self.failed_sync(id, is_backup, e))?;
            let read =
                self.blocking(move |objects| objects.read_from_disk(id, offset, BLOCK_BYTES));
            match read.await {
                Ok(now) if sum_of(&now) == sum => {}
                // The disk does not keep it.
                Ok(_) | Err(ObjectError::Io(_)) => return Ok(false),
                Err(e) => return Err(Fault::Object(e)),
            }
            let seq = self.index.forget_damage(id, &[block])?;
            self.index.durable(seq).await?;
            self.sums.forget_damage(id, &[block]);
            self.sums.state.lock().blocks_mended += 1;
            tracing::warn!(file = id.file_id, offset, member, "mended a damaged block");
            return Ok(true);
        }
        Ok(false)
    }

    /// Writes the bytes of a block, while no change of the file goes on. Returns false when its sum has gone: somebody has
    /// changed it.
    async fn put_back(
        &self,
        id: ObjectId,
        block: u64,
        sum: Block,
        bytes: &[u8],
    ) -> Result<bool, Fault> {
        let at = usize::try_from(block % CHUNK_BLOCKS).expect("small");
        let write = || {
            let sums = self.index.sums(id, block / CHUNK_BLOCKS)?;
            let is_same = sums.is_some_and(|sums| sums.get(at) == Some(&sum));
            if is_same {
                let offset = block * u64::from(BLOCK_BYTES);
                let written = self.objects.write_again(id, offset, bytes);
                written.map_err(Fault::Object)?;
            }
            Ok(is_same)
        };
        for _ in 0..BUSY_TRIES {
            let quiet = self.sums.quiet(id.file_id);
            let written = quiet.and_then(|quiet| self.sums.if_still(id.file_id, quiet, write));
            match written {
                Some(written) => return written,
                None => tokio::time::sleep(BUSY_PAUSE).await,
            }
        }
        Err(Fault::Object(ObjectError::Busy))
    }

    /// Other members of the place of an object, of which this server is one in sync, and the reign. What a member that is not in
    /// sync has may be old: only what fits the sum is taken.
    fn members_with(&self, id: ObjectId, group: u32) -> Vec<(u32, u32)> {
        let members = self.gate.with_rows(|rows, ds_id| {
            let row = &rows.of(group, u32::from(id.place))?.row;
            (row.state_of(ds_id) == Some(MemberState::Sync)).then(|| {
                let others = row.members.0.iter().map(|m| m.ds);
                let others = others.filter(|ds| *ds != ds_id);
                others.map(|ds| (ds, row.reign)).collect()
            })
        });
        members.flatten().unwrap_or_default()
    }
}
