//! What a process did to its files, in the order in which the calls ended.
//!
//! # Ordering
//! An entry knows how many had ended when it began. So an fsync covers what ended before it began, and a call that had begun
//! at a cut and not ended may have happened.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::io::Error;
use std::ops::Range;
use std::os::unix::fs::MetadataExt;
use std::path::{Component, Path};

/// A file or directory, by the order in which they were made. 0 is the root.
pub(crate) type Node = usize;

/// One call, or one acknowledgement.
#[derive(Debug)]
pub(crate) struct Entry {
    /// Entries that had ended when this began.
    pub(crate) begun: usize,
    pub(crate) what: What,
}

#[derive(Debug)]
pub(crate) enum What {
    /// Names change, all at once: `None` is gone.
    Names(Vec<(Node, OsString, Option<Node>)>),
    Write {
        node: Node,
        offset: u64,
        data: Vec<u8>,
    },
    /// A write of zeros that makes nothing longer.
    Punch {
        node: Node,
        offset: u64,
        len: u64,
    },
    /// Storage for a range, which makes nothing longer.
    Reserve {
        node: Node,
        offset: u64,
        len: u64,
    },
    SetSize {
        node: Node,
        size: u64,
    },
    Sync(Node),
    Ack(String),
}

/// What a process did, to be cut anywhere.
#[derive(Debug, Default)]
pub struct Recording {
    pub(crate) entries: Vec<Entry>,
    /// By node; `None` for directories. What changed it, by entry.
    pub(crate) files: Vec<Option<Vec<usize>>>,
    /// The names as the process saw them last.
    names: BTreeMap<(Node, OsString), Node>,
    /// By inode number.
    nodes: BTreeMap<u64, Node>,
    /// Entries that only say what was there before.
    before: usize,
}

impl Recording {
    pub(crate) fn new(root_inode: u64) -> Self {
        Self {
            files: vec![None],
            nodes: [(root_inode, 0)].into(),
            ..Self::default()
        }
    }

    /// Takes over what is there already, as durable.
    pub(crate) fn load(&mut self, root: &Path) -> Result<(), Error> {
        let mut dirs = vec![(0, root.to_path_buf())];
        while let Some((dir, path)) = dirs.pop() {
            for found in std::fs::read_dir(&path)? {
                let found = found?;
                let meta = found.metadata()?;
                let node = self.files.len();
                self.made(
                    self.ended(),
                    (dir, found.file_name()),
                    meta.ino(),
                    meta.is_dir(),
                );
                if meta.is_dir() {
                    dirs.push((node, found.path()));
                    continue;
                }
                let mut data = std::fs::read(found.path())?;
                let size = data.len() as u64;
                let written = data
                    .iter()
                    .rposition(|b| *b != 0)
                    .map_or(0, |last| last + 1);
                data.truncate(written);
                let offset = 0;
                self.push(self.ended(), What::Write { node, offset, data });
                self.push(self.ended(), What::SetSize { node, size });
                self.push(self.ended(), What::Sync(node));
            }
            self.push(self.ended(), What::Sync(dir));
        }
        self.before = self.ended();
        Ok(())
    }

    /// Points at which it can be cut: before the first thing that was done, after each.
    #[must_use]
    pub fn points(&self) -> Range<usize> {
        self.before..self.entries.len() + 1
    }

    /// Entries so far.
    pub(crate) fn ended(&self) -> usize {
        self.entries.len()
    }

    /// What had been acknowledged at a point, oldest first.
    pub fn acknowledged(&self, point: usize) -> impl DoubleEndedIterator<Item = &str> {
        self.entries[..point].iter().filter_map(|e| match &e.what {
            What::Ack(text) => Some(text.as_str()),
            _ => None,
        })
    }

    pub(crate) fn node_of(&self, inode: u64) -> Option<Node> {
        self.nodes.get(&inode).copied()
    }

    pub(crate) fn push(&mut self, begun: usize, what: What) {
        if let What::Write { node, .. }
        | What::Punch { node, .. }
        | What::Reserve { node, .. }
        | What::SetSize { node, .. } = &what
        {
            let file = self.files[*node].as_mut();
            file.expect("data are of files").push(self.entries.len());
        }
        if let What::Names(changes) = &what {
            for (dir, name, node) in changes {
                let key = (*dir, name.clone());
                match node {
                    Some(node) => self.names.insert(key, *node),
                    None => self.names.remove(&key),
                };
            }
        }
        self.entries.push(Entry { begun, what });
    }

    /// The directory and the name of a path below the root; `None` for the root.
    ///
    /// # Panics
    /// When its directory was never seen to be made.
    pub(crate) fn place(&self, below_root: &Path) -> Option<(Node, OsString)> {
        let mut names: Vec<_> = below_root
            .components()
            .filter_map(|part| match part {
                Component::Normal(name) => Some(name.to_owned()),
                _ => None,
            })
            .collect();
        let last = names.pop()?;
        let dir = names.into_iter().fold(0, |dir, name| {
            let found = self.names.get(&(dir, name));
            *found.unwrap_or_else(|| panic!("{} has no directory", below_root.display()))
        });
        Some((dir, last))
    }

    pub(crate) fn lookup(&self, place: &(Node, OsString)) -> Option<Node> {
        self.names.get(place).copied()
    }

    /// A file or directory was made.
    pub(crate) fn made(&mut self, begun: usize, place: (Node, OsString), inode: u64, is_dir: bool) {
        let node = self.files.len();
        self.files.push((!is_dir).then(Vec::new));
        self.nodes.insert(inode, node);
        self.push(begun, What::Names(vec![(place.0, place.1, Some(node))]));
    }
}
