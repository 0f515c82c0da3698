//! What keeps others off a file while something is done to it that nobody may see half done.
//!
//! # Ordering
//! 1. A [`LayoutHold`]: no new holder.
//! 2. [`layouts_gone`]: a recalled client sends LAYOUTCOMMIT, which passes the gate, and then returns its layout.
//! 3. The [`gate`]; of several files in the order of their numbers.

use crate::fs::Fs;
use crate::layouts;
use crate::size_recovery::ready;
use namespace::{FileId, Inode};
use nfs4::{ClientId, NfsStatus};
use state::IoModes;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::OwnedRwLockWriteGuard;
use tokio::time::Instant;

/// How long layouts are waited for before the caller is told to ask again.
const RECALL_WAIT_MS: u64 = 5_000;
/// How long I/O and LAYOUTCOMMITs under way are waited for.
const GATE_WAIT_MS: u64 = 5_000;
/// Pause between two looks at layouts that are out.
const POLL_MS: u64 = 100;

/// Keeps LAYOUTGET off a file.
pub struct LayoutHold<'a> {
    fs: &'a Arc<Fs>,
    file: FileId,
}

impl<'a> LayoutHold<'a> {
    pub(crate) fn new(fs: &'a Arc<Fs>, file: FileId) -> Self {
        fs.state().layouts.hold(file.0);
        Self { fs, file }
    }
}

impl Drop for LayoutHold<'_> {
    fn drop(&mut self) {
        self.fs.state().layouts.release(self.file.0);
    }
}

/// Gets all layouts for writing back, so that every write is reported, and keeps LAYOUTGET off the file until the guard is
/// dropped.
///
/// # Errors
/// `Delay` while a client still has one.
pub async fn writes_reported<'a>(
    fs: &'a Arc<Fs>,
    inode: &Inode,
) -> Result<LayoutHold<'a>, NfsStatus> {
    let hold = LayoutHold::new(fs, inode.id);
    layouts_gone(fs, inode, IoModes::RW, None).await?;
    Ok(hold)
}

/// Recalls layouts of these modes and waits until nobody but `except` has one, and the size is known: a writer that was fenced has
/// left one to be found out. To be called under a hold.
///
/// # Errors
/// `Delay` when somebody still has one.
pub(crate) async fn layouts_gone(
    fs: &Arc<Fs>,
    inode: &Inode,
    modes: IoModes,
    except: Option<ClientId>,
) -> Result<(), NfsStatus> {
    let is_known = || ready(fs, inode.id).is_ok();
    recalled(fs, inode, (modes, except), is_known).await
}

/// Recalls all layouts of a file and waits until nobody has one. Its size may be unknown still. To be called under a hold.
///
/// # Errors
/// As [`layouts_gone`].
pub(crate) async fn unread(fs: &Arc<Fs>, inode: &Inode) -> Result<(), NfsStatus> {
    recalled(fs, inode, (IoModes::ANY, None), || true).await
}

/// Recalls layouts, and waits until they are gone and something else is so.
async fn recalled(
    fs: &Arc<Fs>,
    inode: &Inode,
    (modes, except): (IoModes, Option<ClientId>),
    is_so: impl Fn() -> bool,
) -> Result<(), NfsStatus> {
    let file = inode.id;
    layouts::recall(fs, inode, modes, except);
    let deadline = Instant::now() + Duration::from_millis(RECALL_WAIT_MS);
    loop {
        let changed = fs.cluster.changed().notified();
        tokio::pin!(changed);
        changed.as_mut().enable();
        let held = fs.state().layouts.is_held(file.0, modes, except);
        if !held && is_so() {
            return Ok(());
        }
        if Instant::now() >= deadline {
            return Err(NfsStatus::Delay);
        }
        let _either = tokio::time::timeout(Duration::from_millis(POLL_MS), changed).await;
    }
}

/// The gate of a file, for its holder alone. What was found of the file before is to be looked at again.
///
/// # Errors
/// `Delay` when I/O goes on; what [`Fs::check_not_truncating`] and [`ready`] say.
pub(crate) async fn gate(
    fs: &Arc<Fs>,
    file: FileId,
) -> Result<OwnedRwLockWriteGuard<()>, NfsStatus> {
    let wait = Duration::from_millis(GATE_WAIT_MS);
    let gate = tokio::time::timeout(wait, fs.layouts.gate(file).write_owned()).await;
    let gate = gate.map_err(|_| NfsStatus::Delay)?;
    fs.check_not_truncating(file)?;
    ready(fs, file)?;
    Ok(gate)
}
