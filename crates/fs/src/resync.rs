//! What brings back the mirrors of files that do not count: a restriping gives the file new objects, all of them good.
//!
//! # Failure
//! While too few servers are up and have room the file stays as it is: it keeps its stripes and mirrors. The administrator is told. It
//! is tried again with a later tick. One that was begun is not begun again
//! for a while: a server that answers and takes no writes would have all of a file copied again and again.
//!
//! May call: `restripe`, the name space.

use crate::fs::Fs;
use crate::restripe::{self, NotRenewed};
use namespace::{Cred, FileId, Op};
use std::sync::Arc;
use tokio::time::Instant;

/// Files that one tick begins to bring back.
const RESYNCS_MAX: usize = 4;
/// Begins to bring back mirrors that do not count. To be called about every second.
pub(crate) fn start(fs: &Arc<Fs>) {
    if fs.foreign.is_empty() {
        return;
    }
    let cred = Cred::root();
    let mut op = Op::new(&cred, fs.now());
    let after = fs.resyncs.lock().after;
    let files = fs.ns.with_bad_mirrors(&mut op, after, RESYNCS_MAX);
    let files = match files {
        Ok(files) => files,
        Err(error) => {
            tracing::error!(%error, "files with bad mirrors");
            return;
        }
    };
    fs.resyncs.lock().after = match files.last() {
        Some(last) if files.len() == RESYNCS_MAX => *last,
        _ => FileId(0),
    };
    let now = Instant::now();
    for file in files {
        let Ok(inode) = fs.ns.getattr(&mut op, file) else {
            continue;
        };
        if fs.resyncs.lock().is_recent(file, now) {
            continue;
        }
        // What cannot begin is tried again with a later tick.
        match restripe::renew(fs, &inode) {
            Ok(()) => fs.resyncs.lock().note_begun(file, now),
            Err(NotRenewed::Servers(count)) => fs.resyncs.lock().note_waiting(count, now),
            Err(NotRenewed::NotNow(_)) => {}
        }
    }
}

/// How many files have mirrors that do not count, up to `max`.
pub fn files_with_bad_mirrors(fs: &Fs, max: usize) -> usize {
    let cred = Cred::root();
    let mut op = Op::new(&cred, fs.now());
    let files = fs.ns.with_bad_mirrors(&mut op, FileId(0), max);
    files.map_or(0, |files| files.len())
}

/// How many foreign servers that are up and have room a file needs that waits for its mirrors; 0 where none waits for that.
pub fn servers_waited_for(fs: &Fs) -> u32 {
    fs.resyncs.lock().servers_waited_for(Instant::now())
}
