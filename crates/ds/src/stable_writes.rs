//! Small stable writes by the redo log (rules R19, R20): one sync each, and their replay after a crash.
//!
//! # Ordering
//! A write goes to the object and into the log under one lock; it is durable with the log. COMMIT and all else that makes
//! an object durable says in the index up to which record it is. So does the tick, which syncs the objects of old records.
//! A start applies the records that the index does not cover, in their order, before anything is served or told.
//!
//! # Failure
//! A log that is full or broken takes no record: the write syncs its object instead. A start fails if a record cannot be
//! applied, because a promise would be broken otherwise.

use std::sync::Arc;

use bytes::Bytes;
use meta::Purpose;
use objects::{ObjectError, ObjectId};
use redo::{DATA_BYTES_MAX, RedoRecord};
use tokio::time::Instant;

use crate::apply::Applied;
use crate::ds::Ds;
use crate::error::OpenError;
use crate::fault::Fault;
use crate::part::Part;

/// Objects that one tick syncs.
const OBJECTS_PER_TICK: usize = 1024;
/// Syncs of an object before a cut of it.
const SYNCS_MAX: usize = 3;

impl Ds {
    /// Applies a stable write, of at most [`DATA_BYTES_MAX`] with a record.
    pub(crate) fn write_with_record(
        &self,
        id: ObjectId,
        offset: u64,
        data: &Bytes,
        apply: impl FnOnce() -> Result<Applied, Fault>,
    ) -> Result<Applied, Fault> {
        if data.len() > DATA_BYTES_MAX as usize || self.redo.log().is_none() {
            return apply();
        }
        let _order = self.redo.order(id);
        let applied = apply()?;
        let record = RedoRecord {
            id,
            group: self.index.known(id)?.group,
            offset,
            time: applied.time,
            data,
        };
        let record = self.redo.append(&record);
        Ok(Applied { record, ..applied })
    }

    /// Applies a stable write that is reported, and finds what storage it took.
    pub(crate) fn with_space_taken(
        &self,
        id: ObjectId,
        apply: impl FnOnce() -> Result<Applied, Fault>,
    ) -> Result<Applied, Fault> {
        let told = &self.space_told;
        let stat = || self.objects.stat(id).map(|found| found.allocated_bytes);
        let mut is_known = told.is_known(id);
        if !is_known && matches!(stat(), Err(ObjectError::NotFound)) {
            told.set(id, 0);
            is_known = true;
        }
        let applied = apply()?;
        let taken_bytes = match is_known {
            true => stat().ok().and_then(|now| told.advance(id, now)),
            false => None,
        };
        Ok(Applied {
            taken_bytes,
            ..applied
        })
    }

    /// Waits until a record is durable and may be acknowledged.
    pub(crate) async fn record_durable(&self, number: u64) -> Result<(), Fault> {
        let begun = Instant::now();
        self.redo.durable(number).await.map_err(Fault::Redo)?;
        self.sync_time.note(begun);
        self.until_announced(self.durable_changes()).await
    }

    /// Before a change that a record must not be applied over: makes the object durable past its records.
    pub(crate) async fn without_records(&self, id: ObjectId) -> Result<(), Fault> {
        for _ in 0..SYNCS_MAX {
            if self.redo.newest_of(id).is_none() {
                return Ok(());
            }
            self.sync(id).await?;
        }
        // It is written all the time, or its file is gone: the caller tries again.
        Err(Fault::Object(ObjectError::Busy))
    }

    /// Applies the records that a crash has left.
    ///
    /// # Errors
    /// [`OpenError`] names the log or the object.
    pub(crate) fn replay(&self) -> Result<(), OpenError> {
        let Some(log) = self.redo.log() else {
            return Ok(());
        };
        let removed = self.index.removed_records();
        let mut fault = None;
        let (mut seen, mut applied) = (0_u64, 0_u64);
        let replayed = log.replay(&mut |number, record| {
            seen += 1;
            let done = self.replay_one(number, &record, removed.get(&record.id).copied());
            applied += u64::from(matches!(done, Ok(true)));
            fault = done.err();
            fault.is_none()
        });
        replayed.map_err(OpenError::Redo)?;
        match fault {
            Some(Fault::Index(e)) => return Err(OpenError::Index(e)),
            Some(Fault::Object(e)) => return Err(OpenError::Objects(e)),
            Some(_) | None => {}
        }
        if seen > 0 {
            tracing::info!(seen, applied, "applied stable writes of the redo log");
        }
        Ok(())
    }

    /// Applies a record unless something later covers it: whether it did.
    fn replay_one(
        &self,
        number: u64,
        record: &RedoRecord<'_>,
        removed_through: Option<u64>,
    ) -> Result<bool, Fault> {
        let id = record.id;
        let is_removed = removed_through.is_some_and(|through| number <= through);
        if is_removed || self.index.known(id)?.redo_through >= number {
            return Ok(false);
        }
        match self.check_once(id) {
            Ok(()) => {}
            Err(Fault::Lost) => {
                // Bytes after a loss would make the rest look like a hole (R9). Whoever reads or writes hears of it.
                self.note(id, &Fault::Lost);
                return Ok(false);
            }
            Err(other) => return Err(other),
        }
        // It was accepted before: a disk that has become full meanwhile does not keep the server from its start.
        let part = Part {
            id,
            group: record.group,
        };
        self.index.enter_part(part, Purpose::Removal)?;
        // Nothing else runs yet, and what the record says is durable already.
        if record.group != 0 {
            self.index.unsettle(id)?;
        }
        if self.index.known(id)?.has_sums {
            let end = record.offset.saturating_add(record.data.len() as u64);
            self.index.drop_sums(id, (record.offset, end))?;
        }
        let written = self.objects.write_again(id, record.offset, record.data);
        written.map_err(Fault::Object)?;
        self.index.wrote(id, record.time, Purpose::Removal)?;
        self.redo.note(id, number);
        Ok(true)
    }

    /// To be called about once a second: objects become durable whose records are older than that. So the log has room,
    /// and a start has little to apply.
    pub async fn tick(&self) {
        if self.redo.log().is_none() {
            return;
        }
        self.resolve_in_doubt().await;
        for id in self.redo.take_old(OBJECTS_PER_TICK) {
            if let Err(fault) = self.sync(id).await {
                self.note(id, &fault);
            }
        }
        let redo = Arc::clone(&self.redo);
        let retired = match self.blocking(move |_| redo.retire()).await {
            Ok(retired) => retired,
            Err(error) => return tracing::warn!(%error, "the redo log gives no room back"),
        };
        if let Err(error) = self.index.drop_removed_records(retired) {
            tracing::warn!(%error, "redo records of removed objects");
        }
    }
}
