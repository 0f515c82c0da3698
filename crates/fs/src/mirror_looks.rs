//! Mirrors that somebody could not read: this server looks at them itself.
//!
//! # Ownership
//! One task for each file, and a bound on files. A client may say what it likes of a mirror: it costs a look, and nothing else.
//!
//! # Failure
//! A mirror is bad if its servers answer, and it has lost an object or cannot read what another good one can. What is out of reach is
//! left alone: the next write finds out, or it comes back.
//!
//! May call: `foreign`, `bad_mirrors`, the name space.

use crate::actor::Actor;
use crate::bad_mirrors;
use crate::foreign_files::{MirrorSeen, file_at, good_mirrors, look_at_mirror};
use crate::fs::Fs;
use foreign::FileAt;
use namespace::FileId;
use nfs4::NfsStatus;
use std::sync::Arc;
use std::time::Duration;
use transport::CallId;

/// Most bytes that are read of each mirror.
const READ_MAX: u64 = 1 << 20;
/// How long a file is not looked at again.
const PAUSE: Duration = Duration::from_secs(1);

/// Mirrors that somebody could not read, and where.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Suspect {
    /// Their bits.
    pub(crate) mirrors: u32,
    /// First byte.
    pub(crate) offset: u64,
    /// Bytes; all ones is to the end of the file.
    pub(crate) length: u64,
}

/// Looks at mirrors of a file in a task, unless one is at it. Those that are bad do not count any more, soon.
pub(crate) fn look(fs: &Arc<Fs>, file: FileId, suspect: Suspect) {
    if !fs.mirror_looks.lock().add(file, suspect.mirrors) {
        return;
    }
    let fs = Arc::clone(fs);
    tokio::spawn(CallId::carry(async move {
        let bad = bad_ones(&fs, file, suspect).await.unwrap_or(0);
        if bad != 0 {
            tracing::warn!(file = file.0, mirrors = bad, "mirrors that cannot be read");
            bad_mirrors::begin(&fs, file, bad);
        }
        tokio::time::sleep(PAUSE).await;
        fs.mirror_looks.lock().done(file);
    }));
}

/// Those of the suspects that are bad, where another mirror that counts is not. `None` for a file that is gone.
async fn bad_ones(fs: &Arc<Fs>, file: FileId, suspect: Suspect) -> Option<u32> {
    let inode = Actor::root().ns(fs, |ns, op| ns.getattr(op, file)).ok()?;
    let at = file_at(fs, &inode)?;
    let group = fs.foreign.group(at.group)?;
    let length = inode.size.saturating_sub(suspect.offset);
    let range = (suspect.offset, length.min(suspect.length).min(READ_MAX));
    let (good, mut bad, mut has_whole) = (good_mirrors(&group, &at), 0, false);
    for mirror in (0..group.mirrors).filter(|mirror| good & (1 << mirror) != 0) {
        match judge(fs, &at, mirror, range).await {
            MirrorSeen::Whole => has_whole = true,
            MirrorSeen::Lacking => bad |= 1 << mirror,
            MirrorSeen::Unknown => {}
        }
    }
    Some(if has_whole { bad } else { 0 })
}

/// Whether a mirror has its objects, and can read a range.
async fn judge(fs: &Fs, at: &FileAt, mirror: u32, (offset, length): (u64, u64)) -> MirrorSeen {
    let seen = look_at_mirror(fs, at, mirror).await;
    match seen {
        // Of a file that may lack objects a missing one is no fault.
        MirrorSeen::Lacking if !at.has_objects => return MirrorSeen::Unknown,
        MirrorSeen::Lacking | MirrorSeen::Unknown => return seen,
        MirrorSeen::Whole => {}
    }
    let only = FileAt {
        bad_mirrors: !(1 << mirror),
        ..*at
    };
    match fs.foreign.read(&only, offset, length).await {
        Ok(_) => MirrorSeen::Whole,
        Err(error) if error.status == NfsStatus::Io => MirrorSeen::Lacking,
        Err(_) => MirrorSeen::Unknown,
    }
}
