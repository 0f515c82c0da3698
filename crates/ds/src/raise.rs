//! Raising floors: in memory, then durably, then drained (rules R3, R4, R6, R13).
//!
//! # Ownership
//! `floors_order` of the index is held over the change in memory and its transaction, never over an `await`.
//!
//! # Ordering
//! From the change in memory on, handles below a floor are refused. The acknowledgement waits until everything applied is
//! durable and until I/O that was let in before has ended. A repeated call finds nothing to change, and waits all the same.
//!
//! # Failure
//! When a table is full, what was raised before stays raised and is stored, but nothing is acknowledged. When the index
//! fails, floors in memory may be above those on disk; the index then refuses every later acknowledgement too.

use control::Status;
use layout::{Floor, FloorKey, KeyRing};

use crate::Ds;
use crate::durable::status_of;

impl Ds {
    /// Raises floors and makes them durable. Does not drain.
    pub(crate) async fn raise_floors(&self, floors: &[Floor]) -> Result<(), Status> {
        let full = {
            let _order = self.index.floors_order.lock();
            let (stored, obsolete, full) = self.gate.with_floors(|table| {
                let (mut stored, mut obsolete) = (Vec::new(), Vec::<FloorKey>::new());
                for floor in floors {
                    let Ok(applied) = table.apply(*floor) else {
                        return (stored, obsolete, true);
                    };
                    stored.extend(applied.store);
                    obsolete.extend(applied.obsolete);
                }
                (stored, obsolete, false)
            });
            if !stored.is_empty() || !obsolete.is_empty() {
                let seq = self.index.store_floors(&stored, &obsolete);
                seq.map_err(|e| status_of(&e))?;
            }
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
        let _order = self.index.floors_order.lock();
        let gone = self.gate.with_floors(|table| table.retire_key(retired));
        if !gone.is_empty() {
            let deleted = self.index.store_floors(&[], &gone);
            deleted.map_err(|e| status_of(&e))?;
        }
        Ok(())
    }
}
