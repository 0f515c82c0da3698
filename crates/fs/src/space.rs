//! What files take up on the data servers (`space_used`, RFC 8881 §5.8.2.35).
//!
//! # Ownership
//! The inode has the number. What grows a file adds the growth to it, as if it had no holes. Whatever writes to a file,
//! cuts it or punches holes notes it here, and soon the data servers are asked. Small stable writes by layout note nothing:
//! their data server tells what storage they took.
//!
//! # Ordering
//! A file is noted after its change. It leaves the table only if it was not noted again while the data servers were asked.
//! GETATTR of a file that nobody has open asks at once, so the number is right after the last close. Listings never ask.
//!
//! # Failure
//! While a data server of a file is away, and for files above a bounded number, the number stays what it was, the
//! growth included. It also stays when the server restarts before it has asked, until the file is written to again.

use crate::fs::Fs;
use crate::hint::SOME;
use crate::size_recovery::space_of;
use cluster::Space;
use namespace::{Cred, FileId, Inode, NsError, Op};
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

/// Most batches of one tick.
const BATCHES_MAX: usize = 64;
/// How long a GETATTR waits for data servers.
const LOOK_MAX: Duration = Duration::from_millis(250);

/// Somebody looks at one file: asks the data servers if it was written to and nobody has it open any more. Returns whether it has asked:
/// its inode may be another one by now.
pub async fn look_at_space(fs: &Arc<Fs>, file: FileId) -> bool {
    let noted = &fs.space_noted;
    if !noted.has(SOME) {
        return false;
    }
    let note = noted.lock().files.get(&file).copied();
    let Some(note) = note else { return false };
    if fs.state().is_open(file.0) {
        return false;
    }
    let files = [(file, note)];
    let _late = tokio::time::timeout(LOOK_MAX, measure(fs, &files)).await;
    true
}

/// Room as `df` has it: that of the data servers, and what inline files take, which have none of it. In a foreign tree it is that of
/// the servers of others.
pub fn space(fs: &Fs, is_foreign: bool) -> Space {
    if is_foreign {
        let (total_bytes, free_bytes) = fs.foreign.space();
        return Space {
            total_bytes,
            unused_bytes: free_bytes,
            free_bytes,
        };
    }
    let space = fs.cluster.space();
    let inline = fs.ns.statistics().inline;
    Space {
        total_bytes: space.total_bytes.saturating_add(inline.bytes),
        ..space
    }
}

/// One pass over all files that were noted.
pub(crate) async fn measure_all(fs: &Arc<Fs>) {
    fs.space_noted.lock().tick();
    let mut after = FileId(0);
    for _ in 0..BATCHES_MAX {
        let page = fs.space_noted.lock().page(after);
        let Some((last, _)) = page.last() else { return };
        after = *last;
        measure(fs, &page).await;
    }
}

/// Asks the data servers of files what they take up.
async fn measure(fs: &Arc<Fs>, files: &[(FileId, u64)]) {
    let cred = Cred::root();
    let mut by_group: BTreeMap<u32, Vec<(Arc<Inode>, u64)>> = BTreeMap::new();
    for (file, note) in files {
        let mut op = Op::new(&cred, fs.now());
        match fs.ns.getattr(&mut op, *file) {
            Ok(inode) => match inode.placement {
                Some(place) => by_group
                    .entry(place.group)
                    .or_default()
                    .push((inode, *note)),
                None => fs.space_noted.lock().done(*file, *note),
            },
            Err(NsError::Stale) => fs.space_noted.lock().done(*file, *note),
            Err(error) => tracing::error!(%error, "space of a file"),
        }
    }
    for (group, items) in by_group {
        if let Err(error) = measure_group(fs, group, &items).await {
            tracing::debug!(group, error, "space of files");
        }
    }
}

async fn measure_group(
    fs: &Arc<Fs>,
    group: u32,
    items: &[(Arc<Inode>, u64)],
) -> Result<(), String> {
    let inodes: Vec<_> = items.iter().map(|(inode, _)| Arc::clone(inode)).collect();
    let used = space_of(fs, group, &inodes).await?;
    let found: Vec<(FileId, u64)> = (items.iter().zip(&used))
        .filter_map(|((inode, _), used)| Some((inode.id, (*used)?)))
        .collect();
    let cred = Cred::root();
    let mut op = Op::new(&cred, fs.now());
    let noted = fs.ns.set_space_used(&mut op, &found);
    noted.map_err(|e| e.to_string())?;
    let mut noted = fs.space_noted.lock();
    for (inode, note) in items {
        noted.done(inode.id, *note);
    }
    Ok(())
}
