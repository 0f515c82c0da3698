//! What data servers ask and tell of files: SIZE and WROTE of the control program.
//!
//! # Ordering
//! An answer that tells of a transaction waits until that is durable (R7). That of WROTE tells of none.

use crate::fs::Fs;
use crate::size_recovery::until_ready;
use cluster::Files;
use control::{ItemStatuses, Refusal, SizeArgs, SizeOk, Status, WroteArgs, WroteItem};
use namespace::{Cred, FileId, NsError, Op, SizeCommit, Time};
use std::sync::Arc;

impl Files for Fs {
    /// Nothing may be kept: a reader that has seen a new size must find it at the data server.
    async fn size(self: &Arc<Self>, args: SizeArgs) -> Result<SizeOk, Refusal> {
        let file = FileId(args.file_id);
        if until_ready(self, owner(self, file, args.generation))
            .await
            .is_err()
        {
            return Err(Refusal::new(
                Status::TryLater,
                "the size is being recovered",
            ));
        }
        let cred = Cred::root();
        let mut op = Op::new(&cred, self.now());
        let found = self.ns.resolve_data(&mut op, file, args.generation);
        settle(self, &op).await?;
        let inode = found.map_err(|e| refuse(&e))?;
        Ok(SizeOk {
            size_bytes: inode.size,
            cache_ms: 0,
        })
    }

    /// It does not wait for a truncation: that waits for the write which asks this. Nor does it sync where the file is
    /// marked "RW out" (R21). Whoever is told of the new size waits for a sync, and a restart asks the data servers.
    async fn wrote(&self, args: WroteArgs) -> Result<ItemStatuses, Refusal> {
        let cred = Cred::root();
        let mut op = Op::new(&cred, self.now());
        let mut is_covered = true;
        let take = |item: &WroteItem| {
            let named = FileId(item.file_id);
            let found = self.ns.resolve_data(&mut op, named, item.generation);
            // Without the name it may have been given other objects.
            let file = found.as_ref().map_or(named, |inode| inode.id);
            // What is not known to be in step is measured.
            let is_measured = self.space_noted.lock().is_settled(file);
            let taken_bytes = item.taken_bytes.filter(|_| is_measured);
            let taken = found.and_then(|_| {
                let commit = SizeCommit {
                    new_end: Some(item.end_offset),
                    taken_bytes,
                    ..SizeCommit::default()
                };
                self.ns.commit_size(&mut op, file, commit)
            });
            if taken_bytes.is_none() {
                self.note_space(file);
            }
            is_covered &= taken.is_ok() && self.ns.is_rw_out_durable(file);
            taken.map_or_else(|e| refuse(&e).status, |_| Status::Ok)
        };
        let statuses: Vec<Status> = args.items.0.iter().map(take).collect();
        if !is_covered {
            settle(self, &op).await?;
        }
        Ok(statuses.into())
    }
}

/// The file that has these objects; if none has, its number may be that of one which is gone.
fn owner(fs: &Fs, file: FileId, generation: u32) -> FileId {
    let cred = Cred::root();
    let found = (fs.ns).resolve_data(&mut Op::new(&cred, Time::default()), file, generation);
    found.map_or(file, |inode| inode.id)
}

fn refuse(error: &NsError) -> Refusal {
    match error {
        NsError::Stale | NsError::Inval => Refusal::new(Status::NotFound, "no such file"),
        NsError::NoSpace => Refusal::new(Status::NoSpace, "the metadata store is full"),
        NsError::FileTooBig => Refusal::new(Status::Invalid, "the file is too big"),
        error => {
            tracing::error!(%error, "control program");
            Refusal::new(Status::Io, "the metadata store failed")
        }
    }
}

async fn settle(fs: &Fs, op: &Op<'_>) -> Result<(), Refusal> {
    let failed = |_| Refusal::new(Status::Io, "the metadata store failed");
    fs.durable(op.observed()).await.map_err(failed)
}
