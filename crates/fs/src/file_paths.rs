//! Paths of files that data servers name by the number of their objects: an administrator asks for them, about damage.
//!
//! # Ownership
//! Any one name of a file is told. Only names are looked at; no data server is asked. The directory of its first name is a
//! hint that an inode has; where that name is gone, the name space is walked.
//!
//! Blocks its thread. What changes meanwhile may be missed.

use crate::fs::Fs;
use crate::lost_files::{WALK_NAMES_MAX, each_page};
use namespace::{Cred, DirEntry, FileId, FileType, NsError, Op, Time};
use std::collections::{BTreeMap, BTreeSet};

/// Most files of one question.
pub const FILE_PATHS_MAX: usize = 100;
/// Most names that are looked at for [`likely_paths`].
const LIKELY_NAMES_MAX: u64 = 200_000;
/// Deepest path.
const DEPTH_MAX: usize = 4096;

/// A file that a data server has objects of.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NamedFile {
    /// The number that the data server knows.
    pub number: u64,
    /// Its inode: another one when the file was laid out anew.
    pub inode: u64,
    /// One of its paths, from the root of the file system; `None` for one without names, and when too many names were looked at.
    pub path: Option<String>,
}

struct Search<'a> {
    fs: &'a Fs,
    cred: Cred,
    /// Names that may still be looked at.
    left: u64,
}

/// The first [`FILE_PATHS_MAX`] of these files that there are.
///
/// # Errors
/// [`NsError`] when the metadata store fails.
pub fn file_paths(fs: &Fs, numbers: &[u64]) -> Result<Vec<NamedFile>, NsError> {
    let mut search = Search {
        fs,
        cred: Cred::root(),
        left: WALK_NAMES_MAX,
    };
    let mut found = Vec::new();
    for number in numbers.iter().take(FILE_PATHS_MAX) {
        let mut op = Op::new(&search.cred, Time::default());
        let inode = match fs.namespace().owner_of_data(&mut op, FileId(*number)) {
            Ok(inode) => inode,
            Err(NsError::Stale) => continue,
            Err(error) => return Err(error),
        };
        let path = match inode.nlink {
            0 => None,
            _ => search.by_hint(inode.id, inode.parent)?,
        };
        found.push((
            NamedFile {
                number: *number,
                inode: inode.id.0,
                path,
            },
            inode.nlink > 0,
        ));
    }
    let is_lacking = |(file, has_name): &&(NamedFile, bool)| file.path.is_none() && *has_name;
    let lacking: Vec<u64> = found
        .iter()
        .filter(is_lacking)
        .map(|(f, _)| f.inode)
        .collect();
    let mut walked = search.by_walk(&lacking)?;
    let mut found: Vec<NamedFile> = found.into_iter().map(|(file, _)| file).collect();
    for file in &mut found {
        if file.path.is_none() {
            file.path = walked.remove(&file.inode);
        }
    }
    Ok(found)
}

/// Paths of inodes by the directories that they name, without a walk of the name space: one that was moved or has lost its first
/// name may be left out. By inode.
///
/// # Errors
/// [`NsError`] when the metadata store fails.
pub fn likely_paths(fs: &Fs, inodes: &BTreeSet<u64>) -> Result<BTreeMap<u64, String>, NsError> {
    let mut search = Search {
        fs,
        cred: Cred::root(),
        left: LIKELY_NAMES_MAX,
    };
    let mut paths = BTreeMap::new();
    for number in inodes {
        let file = FileId(*number);
        if file == FileId::ROOT {
            paths.insert(*number, "/".to_owned());
            continue;
        }
        let mut op = Op::new(&search.cred, Time::default());
        let inode = match fs.namespace().getattr(&mut op, file) {
            Ok(inode) if inode.nlink > 0 => inode,
            Ok(_) | Err(NsError::Stale) => continue,
            Err(error) => return Err(error),
        };
        if let Some(path) = search.by_hint(file, inode.parent)? {
            paths.insert(*number, path);
        }
    }
    Ok(paths)
}

impl Search<'_> {
    /// Looks at the pages of a directory until `look` is content or too many names were looked at.
    fn pages(
        &mut self,
        dir: FileId,
        mut look: impl FnMut(&[DirEntry]) -> bool,
    ) -> Result<(), NsError> {
        let left = &mut self.left;
        each_page(self.fs, &self.cred, dir, false, &mut |entries| {
            *left = left.saturating_sub(entries.len() as u64);
            *left > 0 && !look(entries)
        })
    }

    /// The name of a file in a directory.
    fn name(&mut self, dir: FileId, file: FileId) -> Result<Option<String>, NsError> {
        let mut name = None;
        self.pages(dir, |entries| {
            let entry = entries.iter().find(|entry| entry.file == file);
            name = entry.map(|entry| String::from_utf8_lossy(&entry.name).into_owned());
            name.is_some()
        })?;
        Ok(name)
    }

    /// The path by the directory that an inode names, and those above it.
    fn by_hint(&mut self, file: FileId, parent: FileId) -> Result<Option<String>, NsError> {
        let (mut at, mut dir) = (file, parent);
        let mut names = Vec::new();
        for _ in 0..DEPTH_MAX {
            let Some(name) = self.name(dir, at)? else {
                return Ok(None);
            };
            names.push(name);
            if dir == FileId::ROOT {
                names.reverse();
                return Ok(Some(format!("/{}", names.join("/"))));
            }
            let mut op = Op::new(&self.cred, Time::default());
            let above = match self.fs.namespace().getattr(&mut op, dir) {
                Ok(inode) => inode.parent,
                Err(NsError::Stale) => return Ok(None),
                Err(error) => return Err(error),
            };
            (at, dir) = (dir, above);
        }
        Ok(None)
    }

    /// Paths by a walk of the name space, by inode.
    fn by_walk(&mut self, files: &[u64]) -> Result<BTreeMap<u64, String>, NsError> {
        let mut found = BTreeMap::new();
        let mut dirs = vec![(FileId::ROOT, String::new())];
        while let Some((dir, path)) = dirs.pop() {
            if found.len() == files.len() || self.left == 0 {
                break;
            }
            self.pages(dir, |entries| {
                for entry in entries {
                    let name = || format!("{path}/{}", String::from_utf8_lossy(&entry.name));
                    if entry.kind == FileType::Directory {
                        dirs.push((entry.file, name()));
                    } else if files.contains(&entry.file.0) {
                        found.insert(entry.file.0, name());
                    }
                }
                found.len() == files.len()
            })?;
        }
        Ok(found)
    }
}
