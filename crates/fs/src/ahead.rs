//! Objects at foreign servers that are made ahead of their files, so that an OPEN that creates waits for no foreign server.
//!
//! # Ownership
//! A pool belongs to a placement group that new files go to. Its names are noted in the name space. The transaction that makes a
//! file takes one.
//!
//! # Ordering
//! A name is durable, then its objects are made with the ids of a new file, then the name is ready.
//!
//! # Failure
//! A name whose objects could not be made waits for the next attempt. So do those that an earlier run has left. Without a ready name
//! a file is made all the same, and its first use makes the objects.
//!
//! May call: `foreign`, the name space.

use crate::fs::{Creation, Fs};
use foreign::{FileAt, is_foreign};
use futures_util::future::join_all;
use layout::Epoch;
use namespace::{Cred, DataName, FileId, NsError, Op, PAGE_MAX, Placement};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// Files whose objects are made at one time.
const MAKE_AT_ONCE: usize = 8;
/// Most pages of names that an earlier run may have left.
const PAGES_MAX: usize = 64;

/// A name whose objects are there, for a new file at this place.
pub(crate) fn take(fs: &Arc<Fs>, placement: Placement) -> Option<DataName> {
    let size = fs.settings.foreign_pool;
    let is_eager = fs.settings.creation == Creation::Eager;
    if size == 0 || is_eager || !is_foreign(placement.group) {
        return None;
    }
    let name = fs.pools.lock().take(placement, size);
    start(fs);
    name
}

/// A name that no file has taken after all, or whose objects were just made.
pub(crate) fn give(fs: &Fs, group: u32, name: DataName) {
    if let Some(pool) = fs.pools.lock().by_group.get_mut(&group) {
        pool.ready.push(name);
    }
}

/// Fills the pools that are low, unless that goes on. To be called about every second, too.
pub(crate) fn start(fs: &Arc<Fs>) {
    if fs.pools.lock().low.is_empty() {
        return;
    }
    fs.jobs.ahead.start(|| {
        let fs = Arc::clone(fs);
        async move { fill(&fs).await }
    });
}

/// Takes back the names of groups that get no new files. Their objects are queued to be removed.
///
/// # Errors
/// [`NsError`] of the store.
pub(crate) fn take_back(fs: &Fs, groups: &BTreeSet<u32>) -> Result<(), NsError> {
    fs.pools.lock().forget(groups);
    let cred = Cred::root();
    let mut after = FileId(0);
    for _ in 0..PAGES_MAX {
        let mut op = Op::new(&cred, fs.now());
        let is_it = |group| groups.contains(&group);
        match fs.ns.take_back_ahead(&mut op, (after, PAGE_MAX), &is_it)? {
            Some(last) => after = last,
            None => break,
        }
    }
    Ok(())
}

async fn fill(fs: &Arc<Fs>) {
    if fs.pools.lock().left.is_none() {
        match left(fs) {
            Ok(left) => fs.pools.lock().left = Some(left),
            Err(error) => {
                tracing::error!(%error, "objects made ahead");
                return;
            }
        }
    }
    let low = std::mem::take(&mut fs.pools.lock().low);
    for group in low {
        if let Err(error) = fill_one(fs, group).await {
            tracing::warn!(group, error, "no objects are made ahead");
        }
    }
}

/// What an earlier run has left, by group.
fn left(fs: &Fs) -> Result<BTreeMap<u32, Vec<DataName>>, NsError> {
    let cred = Cred::root();
    let mut op = Op::new(&cred, fs.now());
    let mut all: BTreeMap<u32, Vec<DataName>> = BTreeMap::new();
    let mut after = FileId(0);
    for _ in 0..PAGES_MAX {
        let page = fs.ns.ahead(&mut op, after, PAGE_MAX)?;
        let Some((last, _)) = page.last() else { break };
        after = last.file;
        for (name, group) in page {
            all.entry(group).or_default().push(name);
        }
    }
    Ok(all)
}

/// Makes what a pool lacks. What cannot be made is kept for the next time that the pool is low.
async fn fill_one(fs: &Arc<Fs>, group: u32) -> Result<(), String> {
    let begun = fs.pools.lock().begin(group, fs.settings.foreign_pool);
    let Some((mut names, missing, stripe_unit)) = begun else {
        return Ok(());
    };
    let mut done = reserve(fs, group, missing)
        .await
        .map(|more| names.extend(more));
    while done.is_ok() && !names.is_empty() {
        let some = names.split_off(names.len().saturating_sub(MAKE_AT_ONCE));
        let making = some
            .iter()
            .map(|name| make(fs, *name, (group, stripe_unit)));
        for (name, made) in some.iter().zip(join_all(making).await) {
            match made {
                Ok(()) => give(fs, group, *name),
                Err(error) => {
                    names.push(*name);
                    done = Err(error);
                }
            }
        }
    }
    if let Some(pool) = fs.pools.lock().by_group.get_mut(&group) {
        pool.unmade.extend(names);
    }
    done
}

/// New names, durably.
async fn reserve(fs: &Fs, group: u32, count: usize) -> Result<Vec<DataName>, String> {
    let cred = Cred::root();
    let mut op = Op::new(&cred, fs.now());
    let names = fs.ns.reserve_ahead(&mut op, group, count);
    let names = names.map_err(|error| error.to_string())?;
    let durable = fs.durable(op.observed()).await;
    durable.map_err(|status| status.to_string())?;
    Ok(names)
}

async fn make(fs: &Fs, name: DataName, (group, stripe_unit): (u32, u32)) -> Result<(), String> {
    let at = FileAt {
        number: name.file.0,
        generation: name.generation,
        group,
        stripe_unit,
        epoch: Epoch::new(fs.ns.boot(), 0).as_u64(),
        bad_mirrors: 0,
        has_objects: false,
    };
    let made = fs.foreign.make(&at).await;
    made.map_err(|error| error.to_string())
}
