//! Every change of an object: the one way to the object store and the index.
//!
//! # Ordering
//! A write, a hole, storage and a clone: the object is compared with its mark, changed, and noted in the index; durable
//! after [`Ds::sync`]. A small stable write has a record instead, and is durable with that. Before a cut the object is made
//! durable past its records. Storage is noted first, since only a removal gives it back. A cut and a removal are durable
//! themselves, under the file's stripe lock: index lowered durably, then the object. A crash in between leaves an
//! object that is longer than its mark, or one without an entry. The MDS repeats the call and finds it.
//!
//! # Failure
//! A change that fails may have done a part; each may be repeated.

use bytes::Bytes;
use control::Range;
use layout::PLACES_MAX;
use meta::Purpose;
use nfs4::{NfsTime, Verifier};
use objects::{OBJECT_BYTES_MAX, ObjectError, ObjectId, ObjectStore};

use crate::ds::Ds;
use crate::fault::Fault;
use crate::index::{Known, OBJECTS_PER_FILE_MAX};
use crate::own_stripes::{Own, reserve_own};

/// What is done to an object.
pub(crate) enum Change<'a> {
    /// WRITE. The store may keep the bytes as they are, in a buffer of `buffer_bytes`.
    Write {
        offset: u64,
        data: &'a Bytes,
        buffer_bytes: usize,
        /// With a record in the redo log, if there is room for one.
        is_stable: bool,
        /// The MDS is told of it, and of the storage that it takes.
        is_reported: bool,
    },
    /// A hole.
    Punch(Range),
    /// Storage for own stripes.
    Reserve { own: Own, range: Range },
    /// The storage of another object, shared. An empty range only asks whether that can be done.
    Clone {
        src: ObjectId,
        src_offset: u64,
        range: Range,
    },
    /// A new size, not above the present one.
    Cut(u64),
    /// No object of the file up to this generation any more: those of the index, and those at these places (bit n is
    /// place n) whose entries a crash took.
    Remove { places: u64 },
}

/// What a change came to.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Applied {
    /// The object has changed: it is durable after a sync.
    pub(crate) is_changed: bool,
    /// When, as the index has it.
    pub(crate) time: NfsTime,
    /// The write verifier before the change: see [`Ds::check_kept`].
    pub(crate) verifier: Verifier,
    /// The redo record of the change: it is durable after [`Ds::record_durable`].
    pub(crate) record: Option<u64>,
    /// Bytes of storage that the MDS has not heard of yet; without them it has to ask.
    pub(crate) taken_bytes: Option<u64>,
    /// How far storage was taken.
    pub(crate) through: u64,
    /// There may be more objects of the file to remove.
    pub(crate) is_more: bool,
}

impl Change<'_> {
    /// The bytes that it changes, one past the last one too. A removal is no change of bytes.
    pub(crate) fn range(&self) -> (u64, u64) {
        match self {
            Self::Write { offset, data, .. } => (*offset, offset.saturating_add(data.len() as u64)),
            Self::Punch(range) | Self::Clone { range, .. } => (range.start, range.end),
            Self::Cut(size_bytes) => (*size_bytes, u64::MAX),
            Self::Reserve { .. } | Self::Remove { .. } => (0, 0),
        }
    }
}

impl Ds {
    /// Applies a change, at `time` by the clock of whoever orders the changes of the object. First a part is unsettled (rule
    /// P9), and the sums of what changes go (rule P26).
    pub(crate) async fn apply(
        &self,
        id: ObjectId,
        change: Change<'_>,
        time: NfsTime,
    ) -> Result<Applied, Fault> {
        let verifier = self.verifier();
        let range = change.range();
        let is_removal = matches!(change, Change::Remove { .. });
        let overwritten = match self.sums.has_damage() {
            true => Box::pin(self.before_change_of_damage(id, &change)).await?,
            false => Vec::new(),
        };
        let _changing = self.sums.begin(id.file_id);
        let known = self.index.known(id)?;
        let is_unsettled = known.is_unsettled || known.group == 0 || is_removal;
        if known.has_sums || !is_unsettled {
            Box::pin(self.before_first_change(id, range, (known.has_sums, is_unsettled))).await?;
        }
        let applied = self.apply_now(id, change, (time, &known)).await?;
        if !overwritten.is_empty() {
            Box::pin(self.overwritten(id, &overwritten)).await?;
        }
        Ok(Applied {
            verifier,
            ..applied
        })
    }

    /// Before a change of an object that may have sums, and of a part that may be settled: durably neither after this. To be
    /// called while the change is noted as begun.
    async fn before_first_change(
        &self,
        id: ObjectId,
        bytes: (u64, u64),
        (has_sums, is_unsettled): (bool, bool),
    ) -> Result<(), Fault> {
        let marked = match is_unsettled {
            true => None,
            false => Some(self.index.unsettle(id)?),
        };
        // One sync of the index is enough for both.
        if has_sums {
            self.drop_sums(id, bytes).await?;
        }
        if let Some(seq) = marked {
            self.index.durable(seq).await?;
            self.index.note_unsettled(id, true);
        }
        Ok(())
    }

    async fn apply_now(
        &self,
        id: ObjectId,
        change: Change<'_>,
        (time, known): (NfsTime, &Known),
    ) -> Result<Applied, Fault> {
        match change {
            Change::Write {
                offset,
                data,
                buffer_bytes,
                is_stable,
                is_reported,
            } => {
                if !known.is_checked() {
                    self.check_once(id)?;
                }
                let apply = || self.write(id, (offset, time), data, buffer_bytes);
                match is_stable {
                    true if is_reported => self
                        .write_with_record(id, offset, data, || self.with_space_taken(id, apply)),
                    true => self.write_with_record(id, offset, data, apply),
                    false => apply(),
                }
            }
            Change::Punch(range) => self.punch(id, range, time).await,
            Change::Reserve { own, range } => self.reserve(id, own, range, time).await,
            Change::Clone {
                src,
                src_offset,
                range,
            } => self.clone_from(id, (src, src_offset), range, time).await,
            Change::Cut(size_bytes) => {
                self.cut(id, size_bytes).await?;
                Ok(Applied::default())
            }
            Change::Remove { places } => self.remove(id, places).await,
        }
    }

    fn changed(&self, id: ObjectId, time: NfsTime) -> Result<Applied, Fault> {
        // The data are written already.
        let time = self.index.wrote(id, time, Purpose::Upkeep)?;
        Ok(Applied {
            is_changed: true,
            time,
            ..Applied::default()
        })
    }

    fn write(
        &self,
        id: ObjectId,
        (offset, time): (u64, NfsTime),
        data: &Bytes,
        buffer_bytes: usize,
    ) -> Result<Applied, Fault> {
        let written = self.objects.write_shared(id, offset, data, buffer_bytes);
        written.map_err(Fault::Object)?;
        self.changed(id, time)
    }

    async fn punch(
        &self,
        id: ObjectId,
        Range { start, end }: Range,
        time: NfsTime,
    ) -> Result<Applied, Fault> {
        self.check_once(id)?;
        let len = end.saturating_sub(start);
        let punch = move |objects: &dyn ObjectStore| objects.punch(id, start, len);
        match self.blocking(punch).await {
            Ok(()) => self.changed(id, time),
            // Never written: a hole as it is.
            Err(ObjectError::NotFound) => Ok(Applied::default()),
            Err(e) => Err(Fault::Object(e)),
        }
    }

    async fn reserve(
        &self,
        id: ObjectId,
        own: Own,
        range: Range,
        time: NfsTime,
    ) -> Result<Applied, Fault> {
        self.check_once(id)?;
        let applied = self.changed(id, time)?;
        let work = move |objects: &dyn ObjectStore| reserve_own(objects, id, own, range);
        match self.blocking(work).await {
            Ok(through) => Ok(Applied { through, ..applied }),
            Err(error) => Err(self.not_changed(id, error)),
        }
    }

    /// What was noted before it was done has failed. Without an object nothing was written: a sync must not miss it.
    fn not_changed(&self, id: ObjectId, error: ObjectError) -> Fault {
        if let Ok(known) = self.index.known(id)
            && matches!(self.objects.stat(id), Err(ObjectError::NotFound))
        {
            self.index.wrote_nothing(id, known.write);
        }
        Fault::Object(error)
    }

    async fn clone_from(
        &self,
        id: ObjectId,
        (src, src_offset): (ObjectId, u64),
        Range { start, end }: Range,
        time: NfsTime,
    ) -> Result<Applied, Fault> {
        let len = end.saturating_sub(start);
        let clone = move |objects: &dyn ObjectStore| {
            objects.clone_range((src, src_offset), (id, start), len)
        };
        // What is lost is no hole (R9).
        self.check_mark(src, self.size_of(src)?)?;
        self.check_once(id)?;
        let applied = match len {
            0 => Applied::default(),
            _ => self.changed(id, time)?,
        };
        let cloned = self.blocking(clone).await;
        cloned.map_err(|error| self.not_changed(id, error))?;
        Ok(applied)
    }

    async fn cut(&self, id: ObjectId, size_bytes: u64) -> Result<(), Fault> {
        self.without_records(id).await?;
        let _order = self.stripe(id.file_id).lock().await;
        let now = match self.objects.stat(id) {
            Ok(now) => now,
            Err(ObjectError::NotFound) => {
                // Missing although it has a mark: lost. What the cut leaves of the mark goes on saying so to whoever reads or writes.
                let known = self.index.known(id)?;
                if known.high_water_bytes > 0 && size_bytes > 0 {
                    self.note(id, &Fault::Lost);
                }
                let seq = self.index.lower(id, size_bytes)?;
                return Ok(self.index.durable(seq).await?);
            }
            Err(e) => return Err(Fault::Object(e)),
        };
        let seq = self.index.lower(id, size_bytes)?;
        self.index.durable(seq).await?;
        // One that is shorter than its mark must stay so: zeros would hide what is lost (R9).
        let is_short = now.size_bytes < self.index.known(id)?.high_water_bytes;
        let cut = move |objects: &dyn ObjectStore| {
            if now.size_bytes <= size_bytes {
                if is_short || now.allocated_bytes == 0 || size_bytes >= OBJECT_BYTES_MAX {
                    return Ok(());
                }
                // Storage may be reserved after the new end. A cut that comes from beyond gives it back, and takes no byte that is
                // written before the end meanwhile.
                objects.set_size(id, size_bytes + 1)?;
            }
            objects.set_size(id, size_bytes)
        };
        self.blocking(cut).await.map_err(Fault::Object)
    }

    /// Removes one part, and nothing else of its file.
    pub(crate) async fn drop_part(&self, id: ObjectId) -> Result<(), Fault> {
        let _order = self.stripe(id.file_id).lock().await;
        self.remove_objects(vec![id], Vec::new(), false).await
    }

    /// Removes what there is of a part that is about to be sent anew. The index has it still as one that differs: a filling
    /// that ends here is followed by one that compares it.
    pub(crate) async fn empty_part(&self, id: ObjectId) -> Result<(), Fault> {
        let _order = self.stripe(id.file_id).lock().await;
        self.remove_objects(vec![id], Vec::new(), true).await
    }

    async fn remove(&self, id: ObjectId, places: u64) -> Result<Applied, Fault> {
        let _order = self.stripe(id.file_id).lock().await;
        let below = id.generation.saturating_add(1);
        let ids = self.index.objects_below(id.file_id, below)?;
        // Objects whose entries were lost in a crash, or forgotten by a call that a crash cut short.
        let unknown = (0..PLACES_MAX).filter(|place| places & 1 << place != 0);
        let unknown = unknown.filter_map(|place| u8::try_from(place).ok());
        let unknown = unknown.map(|place| ObjectId { place, ..id });
        let unknown: Vec<ObjectId> = unknown.filter(|id| !ids.contains(id)).collect();
        let is_more = ids.len() >= OBJECTS_PER_FILE_MAX;
        self.remove_objects(ids, unknown, false).await?;
        Ok(Applied {
            is_more,
            ..Applied::default()
        })
    }

    /// Removes objects of the index, and others that it does not know. To be called under the stripe lock of their file.
    async fn remove_objects(
        &self,
        mut ids: Vec<ObjectId>,
        unknown: Vec<ObjectId>,
        stays: bool,
    ) -> Result<(), Fault> {
        let mut records = Vec::new();
        for id in &ids {
            Box::pin(self.forget_sums(*id)).await?;
        }
        for id in ids.iter().chain(&unknown) {
            // Those that its own syncs have covered too: the entry that says so is about to go.
            let covered = self.index.known(*id)?.redo_through;
            let newest = self.redo.newest_of(*id).unwrap_or(0).max(covered);
            if newest > self.redo.retired() {
                records.push((*id, newest));
            }
        }
        if !ids.is_empty() || !records.is_empty() {
            let seq = self.index.forget(&ids, &records, stays)?;
            self.index.durable(seq).await?;
        }
        ids.extend(unknown);
        self.redo.forget(&ids);
        let all = self.blocking(move |objects| {
            ids.iter().try_for_each(|id| match objects.remove(*id) {
                Ok(()) | Err(ObjectError::NotFound) => Ok(()),
                Err(e) => Err(e),
            })
        });
        all.await.map_err(Fault::Object)
    }
}
