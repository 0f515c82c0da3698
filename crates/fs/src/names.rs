//! Changes of names, for whichever protocol asks: a file that goes, moves, or gets another name.
//!
//! # Ordering
//! Delegations of the file are back, then its name changes. What a change has hit instead is recalled after it ([`missed`]).

use crate::actor::{Actor, Prepared};
use crate::ahead;
use crate::delegations::{Clearing, exclude, file_of_name, missed};
use crate::fs::Fs;
use crate::removal::file_removed;
use namespace::{
    Created, Existing, FileId, How, Inode, Linked, NewNode, Placement, RemovedName, Renamed, What,
};
use nfs4::NfsStatus;
use std::sync::Arc;

/// Makes of a result what becomes durable with its effect (rule R15).
pub type KeepResult<'a, T> = &'a (dyn Fn(&T) -> Prepared + Send + Sync);

/// Makes a regular file, or finds it, as `how` says. A new one gets a place unless it may be inline.
///
/// # Errors
/// Those of the name space. Without a place for a new file those that exist are found all the same.
pub fn create(
    fs: &Arc<Fs>,
    actor: &mut Actor,
    (dir, name): (&Inode, &[u8]),
    (new, how): (&NewNode, How),
    keep: KeepResult<'_, Created>,
) -> Result<Created, NfsStatus> {
    let mut policy = dir.layout_policy().unwrap_or_default();
    let client = actor.client_id();
    if client.is_some_and(|client| dir.is_foreign() && !fs.clients.has_striped_flex_files(client)) {
        // Whoever makes a file can use its layout.
        policy.stripe_count = 1;
    }
    let place = match fs.inline_max_of(dir) {
        0 => fs.place(policy, dir.is_foreign()).map(Some),
        _ => Ok(None),
    };
    match place {
        Ok(place) => create_at(fs, actor, (dir.id, name), (new, how), place, keep),
        Err(status) => actor
            .ns(fs, |ns, op| ns.find_for_create(op, dir.id, name, how))?
            .ok_or(status),
    }
}

/// Makes a regular file at a place, with objects that were made ahead if there are any.
fn create_at(
    fs: &Arc<Fs>,
    actor: &mut Actor,
    (dir, name): (FileId, &[u8]),
    (new, how): (&NewNode, How),
    place: Option<Placement>,
    keep: KeepResult<'_, Created>,
) -> Result<Created, NfsStatus> {
    let keep = |created: &Created| keep(created);
    let made_ahead = place.and_then(|place| Some((place, ahead::take(fs, place)?)));
    let Some((place, objects)) = made_ahead else {
        return actor.change(fs, &keep, |ns, op| {
            ns.create(op, dir, name, new, how, place)
        });
    };
    let created = actor.change(fs, &keep, |ns, op| {
        ns.create_with_objects(op, (dir, name), (new, how), (place, objects))
    });
    if !matches!(&created, Ok(created) if created.existing == Existing::No) {
        ahead::give(fs, place.group, objects);
    }
    created
}

/// Takes a name away. A file that is open lives on without one until its last close.
///
/// # Errors
/// `Grace`; `Delay` while delegations are recalled; those of the name space.
pub async fn remove(
    fs: &Arc<Fs>,
    actor: &mut Actor,
    (dir, name): (FileId, &[u8]),
    what: What,
    keep: KeepResult<'_, RemovedName>,
) -> Result<RemovedName, NfsStatus> {
    fs.clients.lock().check_grace_names()?;
    let file = file_of_name(fs, actor, dir, name);
    let _excluded = match &file {
        Some(file) => Some(exclude(fs, actor, file, Clearing::CHANGE).await?),
        None => None,
    };
    let is_open = |file: FileId| fs.state().open_count(file.0) > 0;
    let removed = actor.change(fs, &|removed: &RemovedName| keep(removed), |ns, op| {
        ns.remove(op, dir, name, what, &is_open)
    })?;
    missed(fs, actor, file.map(|f| f.id), &removed.inode);
    if !removed.orphaned {
        gone(fs, &removed.inode);
    }
    Ok(removed)
}

/// Gives a file another name, in the place of what has that name.
///
/// # Errors
/// As [`remove`].
pub async fn rename(
    fs: &Arc<Fs>,
    actor: &mut Actor,
    (source, old): (FileId, &[u8]),
    (target, new): (FileId, &[u8]),
    keep: KeepResult<'_, Renamed>,
) -> Result<Renamed, NfsStatus> {
    fs.clients.lock().check_grace_names()?;
    let moved = file_of_name(fs, actor, source, old);
    let replaced = file_of_name(fs, actor, target, new);
    let mut excluded = Vec::with_capacity(2);
    for file in [&moved, &replaced].into_iter().flatten() {
        excluded.push(exclude(fs, actor, file, Clearing::CHANGE).await?);
    }
    let is_open = |file: FileId| fs.state().open_count(file.0) > 0;
    let renamed = actor.change(fs, &|renamed: &Renamed| keep(renamed), |ns, op| {
        ns.rename(op, (source, old), (target, new), &is_open)
    })?;
    missed(fs, actor, moved.map(|f| f.id), &renamed.inode);
    if let Some(hit) = &renamed.replaced {
        missed(fs, actor, replaced.map(|f| f.id), hit);
        if !renamed.orphaned {
            gone(fs, hit);
        }
    }
    Ok(renamed)
}

/// Gives a file a further name.
///
/// # Errors
/// `IsDir`; `Delay` while delegations are recalled; those of the name space.
pub async fn link(
    fs: &Arc<Fs>,
    actor: &mut Actor,
    file: &Inode,
    (dir, name): (FileId, &[u8]),
    keep: KeepResult<'_, Linked>,
) -> Result<Linked, NfsStatus> {
    if file.is_dir() {
        return Err(NfsStatus::IsDir);
    }
    let _excluded = match file.is_regular() {
        true => Some(exclude(fs, actor, file, Clearing::CHANGE).await?),
        false => None,
    };
    actor.change(fs, &|linked: &Linked| keep(linked), |ns, op| {
        ns.link(op, file.id, dir, name)
    })
}

/// The last name of a file has gone, and nobody has it open.
fn gone(fs: &Arc<Fs>, inode: &Inode) {
    if inode.nlink == 0 && inode.is_regular() {
        file_removed(fs, inode);
    }
}
