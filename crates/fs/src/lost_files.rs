//! The files that are lost with places: a walk of the name space.
//!
//! # Ownership
//! The caller says which places. Only names are looked at, and where the stripes of their files lie; no data server is
//! asked. A stripe that was never written counts as well.
//!
//! Blocks its thread, for as long as it takes to read all inodes. What changes meanwhile may be missed.

use crate::fs::Fs;
use namespace::{
    Cred, DirEntry, FileId, FileType, Inode, NsError, Op, READDIR_ENTRIES_MAX, ReadDirRequest, Time,
};
use std::collections::BTreeSet;

/// Most names that a walk looks at.
pub const WALK_NAMES_MAX: u64 = 4_000_000;
/// Most paths that an answer has.
pub const LOST_PATHS_MAX: usize = 1_000;
/// Most bytes of names of one page of a directory.
const PAGE_BYTES_MAX: usize = 1 << 20;

/// What a walk has found.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct LostFiles {
    /// The first of them, at most [`LOST_PATHS_MAX`], from the root of the file system.
    pub paths: Vec<String>,
    /// Names of all of them.
    pub count: u64,
    /// Whether the walk came to its end: there were at most [`WALK_NAMES_MAX`] names.
    pub is_complete: bool,
}

/// Finds the files that have a stripe at one of these places (group and place).
///
/// # Errors
/// [`NsError`] when the metadata store fails.
pub fn lost_files(fs: &Fs, places: &BTreeSet<(u32, u32)>) -> Result<LostFiles, NsError> {
    let mut found = LostFiles::default();
    if places.is_empty() {
        found.is_complete = true;
        return Ok(found);
    }
    let cred = Cred::root();
    let mut seen = 0;
    let mut dirs = vec![(FileId::ROOT, String::new())];
    while let Some((dir, path)) = dirs.pop() {
        each_page(fs, &cred, dir, true, &mut |entries| {
            for entry in entries {
                seen += 1;
                if seen > WALK_NAMES_MAX {
                    return false;
                }
                let name = || format!("{path}/{}", String::from_utf8_lossy(&entry.name));
                if entry.kind == FileType::Directory {
                    dirs.push((entry.file, name()));
                } else if is_lost(fs, entry, places) {
                    found.count += 1;
                    if found.paths.len() < LOST_PATHS_MAX {
                        found.paths.push(name());
                    }
                }
            }
            true
        })?;
        if seen > WALK_NAMES_MAX {
            return Ok(found);
        }
    }
    found.is_complete = true;
    Ok(found)
}

/// Visits the pages of a directory while `visit` returns true. One that was removed meanwhile has none.
///
/// # Errors
/// [`NsError`] when the metadata store fails.
pub(crate) fn each_page(
    fs: &Fs,
    cred: &Cred,
    dir: FileId,
    with_inodes: bool,
    visit: &mut dyn FnMut(&[DirEntry]) -> bool,
) -> Result<(), NsError> {
    let mut page = ReadDirRequest {
        cookie: 0,
        entries_max: READDIR_ENTRIES_MAX,
        name_bytes_max: PAGE_BYTES_MAX,
        with_inodes,
    };
    loop {
        let mut op = Op::new(cred, Time::default());
        let out = match fs.namespace().readdir(&mut op, dir, page) {
            Ok(out) => out,
            Err(NsError::Stale | NsError::NotDir) => return Ok(()),
            Err(error) => return Err(error),
        };
        let goes_on = visit(&out.entries);
        match out.entries.last() {
            Some(last) if !out.eof && goes_on => page.cookie = last.cookie,
            _ => return Ok(()),
        }
    }
}

fn is_lost(fs: &Fs, entry: &DirEntry, places: &BTreeSet<(u32, u32)>) -> bool {
    let Some(inode) = &entry.inode else {
        return false;
    };
    let Some(placement) = inode.placement else {
        return false;
    };
    let width = fs.cluster().width(placement.group);
    has_stripe(inode, width, |place| {
        places.contains(&(placement.group, place))
    })
}

/// Whether a file over `width` places has a stripe at one for which `is_it`.
fn has_stripe(inode: &Inode, width: u32, is_it: impl Fn(u32) -> bool) -> bool {
    let Some(placement) = inode.placement else {
        return false;
    };
    let unit = u64::from(placement.stripe_unit.max(1));
    let stripes = inode.size.div_ceil(unit).min(u64::from(width));
    let stripes = u32::try_from(stripes).unwrap_or(width);
    let place = |stripe: u32| (placement.first_index + stripe) % width.max(1);
    (0..stripes).map(place).any(is_it)
}
