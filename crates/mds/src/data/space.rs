//! What files take up on the data servers (`space_used`, RFC 8881 §5.8.2.35).
//!
//! # Ownership
//! The inode has the number. What grows a file adds the growth to it, as if it had no holes; whatever writes to a file,
//! cuts it or punches holes notes it here, and soon the data servers are asked.
//!
//! # Ordering
//! A file is noted behind its change, and taken off only if it was not noted again while the data servers were asked. Who looks at
//! a file that nobody has open asks at once: right behind the last close the number is what is allocated. Listings never ask.
//!
//! # Failure
//! While a data server of a file is away, and for files above [`FILES_MAX`], the number stays what it was, the growth
//! included; so it does when the server restarts before it has asked, until the file is written to again.

use super::sizes;
use crate::Mds;
use crate::glance::{Facts, SOME};
use namespace::{Cred, FileId, Inode, NsError, Op};
use server::Nfsd;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

/// Most files that are remembered.
const FILES_MAX: usize = 65_536;
/// Files of one request to the data servers.
const BATCH: usize = control::BATCH_MAX as usize;
/// Most batches of one tick.
const BATCHES_MAX: usize = 64;
/// How long somebody who looks waits for data servers.
const LOOK_MAX: Duration = Duration::from_millis(250);

/// Files whose data may take up something else than their inodes say.
#[derive(Debug, Default)]
pub(super) struct Noted {
    /// With the number of the note.
    files: BTreeMap<FileId, u64>,
    count: u64,
}

impl Facts for Noted {
    fn facts(&self) -> u8 {
        if self.files.is_empty() { 0 } else { SOME }
    }
}

impl Noted {
    fn add(&mut self, file: FileId) {
        if self.files.len() < FILES_MAX || self.files.contains_key(&file) {
            self.count += 1;
            self.files.insert(file, self.count);
        }
    }

    fn done(&mut self, file: FileId, note: u64) {
        if self.files.get(&file) == Some(&note) {
            self.files.remove(&file);
        }
    }

    /// The first files behind `after`.
    fn page(&self, after: FileId) -> Vec<(FileId, u64)> {
        let behind = self
            .files
            .range((std::ops::Bound::Excluded(after), std::ops::Bound::Unbounded));
        behind.take(BATCH).map(|(f, n)| (*f, *n)).collect()
    }
}

/// The data of a file have changed.
pub(crate) fn note_space(nfsd: &Nfsd<Mds>, file: FileId) {
    nfsd.role().data().space_noted.lock().add(file);
}

/// Somebody looks at one file: asks the data servers if it was written to and nobody has it open any more. Returns whether it has asked:
/// its inode may be another one by now.
pub(crate) async fn look_at_space(nfsd: &Nfsd<Mds>, file: FileId) -> bool {
    let mds = nfsd.role();
    let noted = &mds.data().space_noted;
    if !noted.has(SOME) {
        return false;
    }
    let note = noted.lock().files.get(&file).copied();
    let Some(note) = note else { return false };
    if mds.state().is_open(file.0) {
        return false;
    }
    let files = [(file, note)];
    let _late = tokio::time::timeout(LOOK_MAX, measure(nfsd, &files)).await;
    true
}

/// One pass over all files that were noted.
pub(super) async fn measure_all(nfsd: &Nfsd<Mds>) {
    let mut after = FileId(0);
    for _ in 0..BATCHES_MAX {
        let page = nfsd.role().data().space_noted.lock().page(after);
        let Some((last, _)) = page.last() else { return };
        after = *last;
        measure(nfsd, &page).await;
    }
}

/// Asks the data servers of files what they take up.
async fn measure(nfsd: &Nfsd<Mds>, files: &[(FileId, u64)]) {
    let mds = nfsd.role();
    let data = mds.data();
    let cred = Cred::root();
    let mut by_group: BTreeMap<u32, Vec<(Arc<Inode>, u64)>> = BTreeMap::new();
    for (file, note) in files {
        let mut op = Op::new(&cred, mds.now());
        match mds.namespace().getattr(&mut op, *file) {
            Ok(inode) => match inode.placement {
                Some(place) => by_group
                    .entry(place.group)
                    .or_default()
                    .push((inode, *note)),
                None => data.space_noted.lock().done(*file, *note),
            },
            Err(NsError::Stale) => data.space_noted.lock().done(*file, *note),
            Err(error) => tracing::error!(%error, "space of a file"),
        }
    }
    for (group, items) in by_group {
        if let Err(error) = measure_group(nfsd, group, &items).await {
            tracing::debug!(group, error, "space of files");
        }
    }
}

async fn measure_group(
    nfsd: &Nfsd<Mds>,
    group: u32,
    items: &[(Arc<Inode>, u64)],
) -> Result<(), String> {
    let mds = nfsd.role();
    let data = mds.data();
    let inodes: Vec<_> = items.iter().map(|(inode, _)| Arc::clone(inode)).collect();
    let used = sizes::space_of(nfsd, group, &inodes).await?;
    let found: Vec<(FileId, u64)> = (items.iter().zip(&used))
        .filter_map(|((inode, _), used)| Some((inode.id, (*used)?)))
        .collect();
    let cred = Cred::root();
    let mut op = Op::new(&cred, mds.now());
    let noted = mds.namespace().set_space_used(&mut op, &found);
    noted.map_err(|e| e.to_string())?;
    let mut noted = data.space_noted.lock();
    for (inode, note) in items {
        noted.done(inode.id, *note);
    }
    Ok(())
}
