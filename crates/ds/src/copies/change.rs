//! Changes of parts at all members of their place, and promises (rules P5, P7, P8).

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use layout::MemberState;
use nfs4::NfsTime;
use parts::StreamItem;

use super::noted::Fill;
use super::stream::Owned;
use super::table::Passed;
use crate::apply::{Applied, Change};
use crate::ds::Ds;
use crate::fault::Fault;
use crate::part::Part;
use crate::rows::OwnRow;

/// How long a change waits for room in the queue of a member.
const ROOM_WAIT: Duration = Duration::from_secs(5);

/// A change as it is passed on; `None` for a removal, of which the MDS tells each member itself (rule P18).
fn item_of(change: &Change<'_>) -> Option<Owned> {
    Some(match change {
        Change::Write {
            offset,
            data,
            is_stable,
            ..
        } => Owned::Write {
            offset: *offset,
            is_stable: *is_stable,
            data: Bytes::clone(data),
        },
        Change::Punch(range) => Owned::Plain(StreamItem::Punch { range: *range }),
        Change::Reserve { own, range } => Owned::Plain(StreamItem::Reserve {
            stripes: own.stripes(),
            range: *range,
        }),
        Change::Clone {
            src,
            src_offset,
            range,
        } => Owned::Plain(StreamItem::Clone {
            src_file_id: src.file_id,
            src_generation: src.generation,
            src_offset: *src_offset,
            range: *range,
            // Known when it is done here.
            size_bytes: 0,
        }),
        Change::Cut(size_bytes) => Owned::Plain(StreamItem::Cut {
            size_bytes: *size_bytes,
        }),
        Change::Remove { .. } => return None,
    })
}

impl Ds {
    /// Applies a change of a part, and passes it on to the other members of its place. `alone` says that it had none when
    /// rows had changed so often.
    ///
    /// # Errors
    /// [`Fault::NotPrimary`] when this server is not primary of the place; [`Fault::Members`] when the queue of a member
    /// stays full; no space when a member in sync has none. Nothing is changed then.
    pub(crate) async fn change(
        &self,
        part: Part,
        change: Change<'_>,
        alone: Option<u64>,
    ) -> Result<(Applied, Passed), Fault> {
        self.enter(part)?;
        if let Change::Clone { src, .. } = &change {
            self.clear(part.of_file(src.file_id, src.generation))?;
        }
        if part.group == 0 || alone.is_some() {
            let applied = self.apply(part.id, change, (self.clock)()).await?;
            if alone.is_some_and(|changes| changes != self.gate.rows_changes()) {
                self.look_for_new_members(part);
            }
            return Ok((applied, Passed::default()));
        }
        // In a box of its own: else each change of a part without copies would carry it along.
        Box::pin(self.change_at_all(part, change)).await
    }

    /// Applies a change of a part of which there are copies.
    async fn change_at_all(
        &self,
        part: Part,
        change: Change<'_>,
    ) -> Result<(Applied, Passed), Fault> {
        let begun = self.gate.begin_change(part);
        let (row, _flight) = begun.ok_or(Fault::NotPrimary)?;
        self.room_at_members(&row).await?;
        self.check_room(part, &row, &change).await?;
        if let Change::Clone { src, .. } = &change {
            self.settle_source(part, *src).await?;
        }
        let mut item = item_of(&change);
        let _order = self.copies.order(part.id.file_id).lock().await;
        let applied = self.apply(part.id, change, (self.clock)()).await?;
        // Another connection to the MDS may have begun: what was applied is passed on all the same. An item of an earlier
        // reign does nothing.
        let now = self.gate.primary_row(part);
        let is_primary = now.is_some();
        let row = now.unwrap_or(row);
        if let Some(Owned::Plain(StreamItem::Clone { size_bytes, .. })) = &mut item {
            *size_bytes = self.size_of(part.id)?.unwrap_or(0);
        }
        let time = applied.time;
        let passed = item.map_or_else(Passed::default, |item| {
            self.copies
                .pass(part, &row, time, &item, item.is_promised())
        });
        if !is_primary {
            return Err(Fault::NotPrimary);
        }
        Ok((applied, passed))
    }

    /// Gives a part its entry before anything is done to it. An object without one is what a crash has left of writes
    /// that were never promised; other members may not have them, so it goes.
    pub(super) fn enter(&self, part: Part) -> Result<(), Fault> {
        let has_entry = || Ok::<_, Fault>(self.index.known(part.id)?.group == part.group);
        if part.group == 0 || has_entry()? {
            return Ok(());
        }
        // Two first writes at one time: the second must not take away what the first has written.
        let _entering = self.copies.entering(part.id.file_id).lock();
        if has_entry()? {
            return Ok(());
        }
        self.remove_leftover(part)?;
        if self.index.enter_part(part, meta::Purpose::Upkeep)? {
            self.index.note_unsettled(part.id, true);
        }
        Ok(())
    }

    /// Removes an object without an entry: what a crash has left of a part.
    pub(super) fn clear(&self, part: Part) -> Result<(), Fault> {
        let _entering = self.copies.entering(part.id.file_id).lock();
        self.remove_leftover(part)
    }

    /// To be called under the lock under which parts get their entries.
    fn remove_leftover(&self, part: Part) -> Result<(), Fault> {
        if self.is_there(part)? {
            return Ok(());
        }
        match self.objects.remove(part.id) {
            Ok(()) | Err(objects::ObjectError::NotFound) => Ok(()),
            Err(e) => Err(Fault::Object(e)),
        }
    }

    /// Whether a part is there for anybody: an object without an entry is what a crash has left of writes that were never
    /// promised, and other members may not have them.
    pub(crate) fn is_there(&self, part: Part) -> Result<bool, Fault> {
        Ok(part.group == 0 || self.index.known(part.id)?.indexed)
    }

    /// After a change that was not passed on: a member that came meanwhile gets the part from its filling.
    #[cold]
    fn look_for_new_members(&self, part: Part) {
        let Some(row) = self.gate.primary_row(part) else {
            return;
        };
        let mut fills = self.copies.fills.lock();
        for member in row.row.in_state(MemberState::Filling) {
            let key = (part.group, part.id.place, member);
            let fill: &Arc<Fill> = fills.entry(key).or_default();
            fill.compare_again(part.id);
        }
        self.copies.wake.notify_one();
    }

    /// Waits until the queues of the members have room (rule P7).
    async fn room_at_members(&self, row: &OwnRow) -> Result<(), Fault> {
        for member in &row.row.members.0 {
            let stream = self.copies.streams.lock().get(&member.ds).cloned();
            if let Some(stream) = stream {
                let room = tokio::time::timeout(ROOM_WAIT, stream.room());
                room.await.map_err(|_| Fault::Members)?;
            }
        }
        Ok(())
    }

    /// Before a clone: members have all of the source, which is in another lane (rule P17).
    async fn settle_source(&self, part: Part, src: objects::ObjectId) -> Result<(), Fault> {
        let source = part.of_file(src.file_id, src.generation);
        self.pass_sync(source).acknowledged().await
    }

    /// Queues a sync of a part at its other members.
    fn pass_sync(&self, part: Part) -> Passed {
        match self.gate.primary_row(part) {
            Some(row) if row.row.members.0.len() > 1 => {
                let sync = Owned::Plain(StreamItem::Sync);
                self.copies
                    .pass(part, &row, NfsTime::default(), &sync, true)
            }
            _ => Passed::default(),
        }
    }

    /// Makes all that was applied to a part durable here and at every member in sync (rule P8).
    ///
    /// # Errors
    /// [`Fault::NotPrimary`] when this server is primary no more, or was it again in another reign.
    pub(crate) async fn promise(&self, part: Part) -> Result<(), Fault> {
        if part.group == 0 {
            return self.sync(part.id).await;
        }
        let reign = self.reign_of(part)?;
        self.enter(part)?;
        let passed = self.pass_sync(part);
        let (here, there) = tokio::join!(self.sync(part.id), passed.acknowledged());
        here.and(there)?;
        self.check_reign(part, reign)
    }

    /// The reign of the primary of a part's place, which must be this server; 0 in a group without places.
    pub(crate) fn reign_of(&self, part: Part) -> Result<u32, Fault> {
        if part.group == 0 {
            return Ok(0);
        }
        let row = self.gate.primary_row(part).ok_or(Fault::NotPrimary)?;
        Ok(row.row.reign)
    }

    /// Before a promise leaves (rule P3).
    pub(crate) fn check_reign(&self, part: Part, reign: u32) -> Result<(), Fault> {
        if part.group == 0 || self.gate.reigns(part, reign) {
            return Ok(());
        }
        Err(Fault::NotPrimary)
    }
}
