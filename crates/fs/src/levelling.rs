//! What makes the mirrors of files level that this server itself has written, and takes their marks.
//!
//! # Ordering
//! 1. Nobody has written the file for some seconds.
//! 2. Where a write ended in doubt, and none has gone over it since, one mirror counts from now on.
//! 3. All good mirrors have committed.
//! 4. The mark goes, under the file's grant lock, unless a write has begun meanwhile.
//!
//! # Failure
//! A mark that cannot go is tried again with the next tick.
//!
//! May call: `own_writes`, `bad_mirrors`, `target`, the name space.

use crate::bad_mirrors;
use crate::foreign_files::{file_at, fit_mirror, good_mirrors};
use crate::fs::Fs;
use crate::own_writes::Quiet;
use crate::target;
use foreign::FileAt;
use futures_util::StreamExt;
use namespace::{Cred, FileId, NsError, OWN_WRITER, Op};
use nfs4::NfsStatus;
use std::sync::Arc;
use tokio::time::Instant;

/// Files that become level at one time.
const LEVEL_AT_ONCE: usize = 16;

/// Takes the marks of files that are quiet. To be called about every second.
pub(crate) fn start(fs: &Arc<Fs>) {
    let quiet = fs.own_writes.lock().quiet(Instant::now());
    if quiet.is_empty() {
        return;
    }
    fs.jobs.level.start(|| {
        let fs = Arc::clone(fs);
        async move {
            let each = futures_util::stream::iter(quiet);
            each.for_each_concurrent(LEVEL_AT_ONCE, |quiet| level(&fs, quiet))
                .await;
        }
    });
}

/// Makes a file level, and takes its mark. What does not work is tried again.
async fn level(fs: &Arc<Fs>, quiet: Quiet) {
    let (file, begun) = (quiet.file, quiet.begun);
    let cred = Cred::root();
    let inode = match fs.ns.getattr(&mut Op::new(&cred, fs.now()), file) {
        Ok(inode) => inode,
        Err(error) => {
            if error == NsError::Stale {
                fs.own_writes.lock().leave(file);
            }
            return;
        }
    };
    if quiet.is_uneven {
        let Some(at) = file_at(fs, &inode) else {
            return;
        };
        if let Err(status) = let_one_count(fs, file, &at).await {
            tracing::debug!(file = file.0, %status, "mirrors that may differ");
            return;
        }
        fs.own_writes.lock().evened(file, begun);
    }
    if quiet.is_unstable && target::commit(fs, &inode).await.is_err() {
        return;
    }
    unmark(fs, file, begun);
}

/// Has one good mirror of a file count, and no other.
async fn let_one_count(fs: &Arc<Fs>, file: FileId, at: &FileAt) -> Result<(), NfsStatus> {
    let group = fs.foreign.group(at.group).ok_or(NfsStatus::ServerFault)?;
    let good = good_mirrors(&group, at);
    let kept = fit_mirror(fs, &group, file, at)
        .await
        .ok_or(NfsStatus::Delay)?;
    bad_mirrors::lose(fs, file, good & !(1 << kept)).await
}

fn unmark(fs: &Fs, file: FileId, begun: u64) {
    let _order = fs.layouts.grant_lock(file).lock();
    if fs.own_writes.lock().idle(file) != Some(begun) {
        return;
    }
    let cred = Cred::root();
    let mut op = Op::new(&cred, fs.now());
    // Nobody waits for it: a mark too many costs a resync after a restart.
    match fs.ns.clear_rw_out(&mut op, file, Some(OWN_WRITER)) {
        Ok(_) => fs.own_writes.lock().leave(file),
        Err(error) => tracing::error!(%error, file = file.0, "RW-out mark"),
    }
}
