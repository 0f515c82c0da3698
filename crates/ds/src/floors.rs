//! Raising floors: in memory, then durably, then drained (rules R3, R4, R6, R13).
//!
//! # Ownership
//! `floors_order` of the index is held over the change in memory and its transaction, never over an `await`. What it holds
//! is the difference between memory and the store: empty, unless the store refused the last transaction.
//!
//! # Ordering
//! From the change in memory on, handles below a floor are refused. The acknowledgement waits until everything applied is
//! durable and until I/O that was let in before has ended. A repeated call finds nothing to change, and waits all the same.
//!
//! # Failure
//! When a table is full, what was raised before stays raised and is stored, but nothing is acknowledged. When the index
//! is full, floors in memory are above those on disk; the next call stores them before it is acknowledged. When the index
//! fails, it refuses every later acknowledgement.

use control::Status;
use layout::{Floor, KeyRing};

use crate::ds::Ds;
use crate::fault::status_of;
use crate::index::UnsavedFloors;

impl Ds {
    /// Raises floors and makes them durable. Does not drain.
    pub(crate) async fn raise_floors(&self, floors: &[Floor]) -> Result<(), Status> {
        let full = {
            let mut unsaved = self.index.floors_order.lock();
            let full = self.gate.with_floors(|table| {
                for floor in floors {
                    let Ok(applied) = table.apply(*floor) else {
                        return true;
                    };
                    // Deletions first: this floor may have been obsolete before.
                    unsaved.extend(applied.obsolete.into_iter().map(|key| (key, None)));
                    unsaved.extend(applied.store.into_iter().map(|f| (f.key(), Some(f))));
                }
                false
            });
            self.save_floors(&mut unsaved)?;
            full
        };
        let durable = self.index.durable(self.index.applied()).await;
        durable.map_err(|e| status_of(&e))?;
        if full {
            tracing::error!("the table of floors is full; the MDS must retire keys");
            return Err(Status::TableFull);
        }
        Ok(())
    }

    /// Raises floors and waits until nothing that they forbid is going on.
    pub(crate) async fn fence(&self, floors: &[Floor]) -> Result<(), Status> {
        self.raise_floors(floors).await?;
        let mut files = Vec::with_capacity(floors.len());
        for floor in floors {
            match *floor {
                Floor::Cluster { .. } => {
                    self.gate.drain_all().await;
                    return Ok(());
                }
                Floor::File { file_id, .. }
                | Floor::Client { file_id, .. }
                | Floor::Tombstone { file_id, .. } => files.push(file_id),
            }
        }
        files.dedup();
        self.gate.drain(files).await;
        Ok(())
    }

    /// Takes the MDS's keys; floors that only retired keys needed are dropped, after the keys.
    pub(crate) fn take_keys(&self, keys: KeyRing) -> Result<(), Status> {
        let Some(retired) = self.gate.replace_keys(keys) else {
            return Ok(());
        };
        let mut unsaved = self.index.floors_order.lock();
        let gone = self.gate.with_floors(|table| table.retire_key(retired));
        unsaved.extend(gone.into_iter().map(|key| (key, None)));
        self.save_floors(&mut unsaved)
    }

    /// Stores what memory has and the index has not.
    fn save_floors(&self, unsaved: &mut UnsavedFloors) -> Result<(), Status> {
        if unsaved.is_empty() {
            return Ok(());
        }
        let stored = self.index.store_floors(unsaved);
        stored.map_err(|e| status_of(&e))?;
        unsaved.clear();
        Ok(())
    }
}
