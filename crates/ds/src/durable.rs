//! Making writes durable, and telling lost objects from holes (rules R2, R9, R11).
//!
//! # Ownership
//! A stripe lock orders syncs, cuts and removals of one file. To avoid deadlock, never drain or call the MDS while holding
//! one: drains come before, calls to the MDS after.
//!
//! # Ordering
//! Size, sync of the object, mark in the index, durable index, announced (see [`crate::rollback_guard`]), reply. The size
//! is taken before the sync, so the mark never promises a byte that the sync did not cover. So is the newest redo record.
//!
//! # Failure
//! A failed sync changes the write verifier before its file's next sync may begin. Clients that still have data of
//! unknown state write them again. No client sees the verifier of a backup: there the object is in doubt, and the place's
//! next promise fails (see [`crate::redo_table`]). A failed index leaves the mark where it was.
//!
//! After a failed sync, memory has bytes that no later sync writes. They are dropped, as a power cut would. So what is read,
//! summed or compared afterwards is what the disk has. Those of an object with redo records stay until the records are
//! applied again ([`crate::in_doubt`]).

use std::sync::Arc;
use std::sync::atomic::Ordering::SeqCst;

use layout::DsHandle;
use meta::MetaError;
use nfs4::Verifier;
use objects::{ObjectError, ObjectId, ObjectStore};
use tokio::time::Instant;
use transport::CallId;

use crate::apply::Applied;
use crate::counts::count;
use crate::ds::Ds;
use crate::fault::Fault;

impl Ds {
    /// The write verifier: to be read before data are written, and after they were synced.
    pub(crate) fn verifier(&self) -> Verifier {
        Verifier {
            bytes: self.verifier.load(SeqCst).to_be_bytes(),
        }
    }

    /// To be asked when a change is durable, before that is promised: another sync that failed meanwhile may have taken the
    /// bytes from memory before this one.
    ///
    /// # Errors
    /// [`ObjectError::Busy`]: the change is to be made again.
    pub(crate) fn check_kept(&self, applied: &Applied) -> Result<(), Fault> {
        match applied.verifier == self.verifier() {
            true => Ok(()),
            false => Err(Fault::Object(ObjectError::Busy)),
        }
    }

    /// The write verifier of the place of a handle (rule P16).
    pub(crate) fn verifier_of(&self, handle: &DsHandle) -> Verifier {
        let process = self.verifier();
        match &handle.place {
            None => process,
            Some(at) => Verifier {
                bytes: layout::place_verifier(
                    process.bytes,
                    at.group,
                    u32::from(at.place),
                    at.reign,
                ),
            },
        }
    }

    /// Runs what may wait for a disk where it blocks no other request.
    pub(crate) async fn blocking<T: Send + 'static>(
        &self,
        work: impl FnOnce(&dyn ObjectStore) -> T + Send + 'static,
    ) -> T {
        if !self.offload {
            return work(&*self.objects);
        }
        let _place = self.blocking.acquire().await.expect("never closed");
        let objects = Arc::clone(&self.objects);
        let work = CallId::carry_over(move || work(&*objects));
        match tokio::task::spawn_blocking(work).await {
            Ok(done) => done,
            Err(e) if e.is_panic() => std::panic::resume_unwind(e.into_panic()),
            // The runtime is being shut down, and this task with it.
            Err(_) => std::future::pending().await,
        }
    }

    /// Counts and logs a fault.
    pub(crate) fn note(&self, id: ObjectId, fault: &Fault) {
        match fault {
            Fault::Lost => {
                count(&self.counts.objects_lost);
                tracing::error!(
                    file = id.file_id,
                    "an object that was durable is missing or short"
                );
            }
            Fault::Object(ObjectError::NoSpace) | Fault::Index(MetaError::NoSpace) => {
                count(&self.counts.no_space);
            }
            Fault::Object(e @ ObjectError::Io(_)) => {
                count(&self.counts.io_errors);
                tracing::error!(file = id.file_id, "{e}");
            }
            Fault::Index(e) => {
                count(&self.counts.io_errors);
                tracing::error!(file = id.file_id, "{e}");
            }
            Fault::Redo(e) => {
                count(&self.counts.io_errors);
                tracing::error!(file = id.file_id, "{e}");
            }
            Fault::Damaged => {
                count(&self.counts.io_errors);
                tracing::error!(file = id.file_id, "bytes that do not fit their sums");
            }
            Fault::InDoubt => count(&self.counts.io_errors),
            Fault::Object(_) | Fault::Unannounced | Fault::NotPrimary | Fault::Members => {}
        }
    }

    /// Whether the object is as long as the index says; `size_bytes` is its size, `None` when it is not there.
    pub(crate) fn check_mark(&self, id: ObjectId, size_bytes: Option<u64>) -> Result<(), Fault> {
        let known = self.index.known(id)?;
        let size = size_bytes.unwrap_or(0);
        if size >= known.high_water_bytes {
            if known.indexed && !known.checked {
                self.index.checked(id);
            }
            return Ok(());
        }
        Err(Fault::Lost)
    }

    /// Compares an object with its mark once per process, before it is written: a write must not paper over a loss.
    pub(crate) fn check_once(&self, id: ObjectId) -> Result<(), Fault> {
        if self.index.known(id)?.is_checked() {
            return Ok(());
        }
        self.check_mark(id, self.size_of(id)?)
    }

    /// The size of an object, `None` when there is none.
    pub(crate) fn size_of(&self, id: ObjectId) -> Result<Option<u64>, Fault> {
        match self.objects.stat(id) {
            Ok(stat) => Ok(Some(stat.size_bytes)),
            Err(ObjectError::NotFound) => Ok(None),
            Err(e) => Err(Fault::Object(e)),
        }
    }

    /// Makes everything that was applied to the object before this call durable. An object that was never made is so
    /// already. The only way to a sync: COMMIT, stable WRITEs and calls of the MDS all come here.
    pub(crate) async fn sync(&self, id: ObjectId) -> Result<(), Fault> {
        // Taken before: a sync may outlast the lease.
        let is_backup = self.is_backup(id)?;
        let (seq, redo_through, begun) = {
            let _order = self.stripe(id.file_id).lock().await;
            let begun = Instant::now();
            // Before the sync: a write that comes meanwhile has not been made durable by it.
            let write = self.index.known(id)?.write;
            let redo_through = self.redo.newest_of(id).unwrap_or(0);
            if self.redo.is_in_doubt(id, is_backup) {
                return Err(Fault::InDoubt);
            }
            let synced = self.blocking(move |objects| {
                let size_bytes = objects.stat(id)?.size_bytes;
                objects.sync(id).map(|()| size_bytes)
            });
            let size_bytes = match synced.await {
                Ok(size_bytes) => size_bytes,
                Err(ObjectError::NotFound) => {
                    self.check_mark(id, None)?;
                    // What an earlier process wrote and never synced may be gone: the verifier says so.
                    if self.index.known(id)?.is_dirty() {
                        return Err(Fault::Lost);
                    }
                    return Ok(());
                }
                Err(e) => return Err(self.failed_sync(id, is_backup, e)),
            };
            self.check_mark(id, Some(size_bytes))?;
            let covered = (write, redo_through);
            (
                self.index.raise(id, size_bytes, covered)?,
                redo_through,
                begun,
            )
        };
        self.index.durable(seq).await?;
        self.sync_time.note(begun);
        self.redo.synced(id, redo_through);
        self.sums.note_durable(id);
        self.until_announced(self.changes_at(seq)).await
    }

    /// A sync of the object has failed. Another one may succeed without having written what this one should have.
    pub(crate) fn failed_sync(&self, id: ObjectId, is_backup: bool, error: ObjectError) -> Fault {
        self.verifier.store((self.random)(), SeqCst);
        let has_records = self.redo.failed(id, is_backup);
        if is_backup && let Err(error) = self.index.unsettle(id) {
            tracing::error!(file = id.file_id, %error, "a part that differs");
        }
        if !has_records {
            self.drop_unwritten(id);
        }
        Fault::Object(error)
    }

    /// A change as any other: what was found of the object before is old.
    pub(crate) fn drop_unwritten(&self, id: ObjectId) {
        let _changing = self.sums.begin(id.file_id);
        let dropped = self.objects.drop_unwritten(id);
        // Members have what was passed on of it.
        let group = self.index.known(id).map(|known| known.group);
        self.copies.lost_some((group.unwrap_or(0), id.place));
        if let Err(error) = dropped {
            let file = id.file_id;
            tracing::error!(file, %error, "memory may have bytes that the disk lacks");
        }
    }

    /// Whether this server is a member of the place of an object, and not its primary.
    pub(crate) fn is_backup(&self, id: ObjectId) -> Result<bool, Fault> {
        let group = self.index.known(id)?.group;
        let is_backup = self.gate.with_rows(|rows, ds_id| {
            let row = rows.of(group, u32::from(id.place));
            row.is_some_and(|r| r.row.primary != ds_id && r.row.state_of(ds_id).is_some())
        });
        Ok(is_backup.unwrap_or(false))
    }
}
