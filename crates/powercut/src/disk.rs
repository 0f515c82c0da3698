//! What a power cut leaves.
//!
//! # Ordering
//! Of a file there is what its last fsync covered, and of what came later any sectors, holes, reservations, cuts and lengths. Of a directory there
//! are the names that its last fsync covered, and of later changes any; the two halves of a rename stay together.
//! What was under way at the cut is as what came later.

use crate::log::{Entry, Node, What};
use crate::{Dice, Recording};
use nix::fcntl::{FallocateFlags, fallocate};
use nix::libc;
use std::collections::{BTreeMap, HashMap};
use std::ffi::OsString;
use std::fs::File;
use std::io::Error;
use std::ops::Range;
use std::os::unix::fs::FileExt;
use std::path::Path;

/// What a disk writes as a whole.
const SECTOR_BYTES: usize = 512;

/// How much of what was not synced is there.
#[derive(Debug, Clone, Copy)]
enum Luck {
    Nothing,
    All,
    /// Everything before this entry, in its order.
    Before(usize),
    /// Each thing by its own dice.
    Any,
}

fn luck(dice: &mut Dice, from: usize, to: usize) -> Luck {
    match dice.roll(5) {
        0 => Luck::Nothing,
        1 => Luck::All,
        2 => Luck::Before(from + dice.below(to - from + 1)),
        _ => Luck::Any,
    }
}

/// A file's bytes. What lies after those that were written is zeros.
#[derive(Debug, Default)]
struct Content {
    bytes: Vec<u8>,
    size: u64,
    /// Storage that was taken for what may never be written.
    reserved: Vec<Range<u64>>,
}

fn place(offset: u64) -> usize {
    usize::try_from(offset).expect("recorded files fit into memory")
}

impl Content {
    fn write(&mut self, offset: u64, data: &[u8]) {
        let start = place(offset);
        let end = start + data.len();
        if self.bytes.len() < end {
            self.bytes.resize(end, 0);
        }
        self.bytes[start..end].copy_from_slice(data);
        self.size = self.size.max(end as u64);
    }

    fn zero(&mut self, offset: u64, len: u64) {
        let end = place(offset + len).min(self.bytes.len());
        let start = place(offset).min(end);
        self.bytes[start..end].fill(0);
        self.give_back(offset..offset.saturating_add(len));
    }

    fn give_back(&mut self, gone: Range<u64>) {
        let parts = |has: Range<u64>| {
            let before = has.start..has.end.min(gone.start);
            let behind = has.start.max(gone.end)..has.end;
            [before, behind]
        };
        let kept = self.reserved.drain(..).flat_map(parts);
        self.reserved = kept.filter(|part| !part.is_empty()).collect();
    }

    fn set_size(&mut self, size: u64) {
        self.bytes
            .truncate(usize::try_from(size).unwrap_or(usize::MAX));
        self.size = size;
        self.give_back(size..u64::MAX);
    }

    fn apply(&mut self, what: &What) {
        match what {
            What::Write { offset, data, .. } => self.write(*offset, data),
            What::Punch { offset, len, .. } => self.zero(*offset, *len),
            What::Reserve { offset, len, .. } => self.reserved.push(*offset..offset + len),
            What::SetSize { size, .. } => self.set_size(*size),
            What::Names(_) | What::Sync(_) | What::Ack(_) => {}
        }
    }

    /// Applies those sectors that the dice choose.
    fn apply_torn(&mut self, what: &What, dice: &mut Dice) {
        let What::Write { offset, data, .. } = what else {
            if dice.one_in(2) {
                self.apply(what);
            }
            return;
        };
        let mut at = 0;
        while at < data.len() {
            let start = offset + at as u64;
            let to_border = SECTOR_BYTES - place(start % SECTOR_BYTES as u64);
            let end = (at + to_border).min(data.len());
            if dice.one_in(2) {
                self.write(start, &data[at..end]);
            }
            at = end;
        }
    }
}

fn reserve(file: &File, range: &Range<u64>) -> Result<(), Error> {
    let number = |bytes: u64| libc::off_t::try_from(bytes).map_err(Error::other);
    let (offset, len) = (number(range.start)?, number(range.end - range.start)?);
    fallocate(file, FallocateFlags::FALLOC_FL_KEEP_SIZE, offset, len)?;
    Ok(())
}

/// A cut at a point.
struct Cut<'r> {
    recording: &'r Recording,
    point: usize,
    /// For what was synced: how many entries the newest fsync covers.
    synced: HashMap<Node, usize>,
    /// Entries that had begun.
    end: usize,
}

impl Cut<'_> {
    fn has_begun(&self, index: usize, entry: &Entry) -> bool {
        index < self.point || entry.begun <= self.point
    }

    fn synced(&self, node: Node) -> usize {
        self.synced.get(&node).copied().unwrap_or(0)
    }

    fn names(&self, dice: &mut Dice) -> BTreeMap<Node, BTreeMap<OsString, Node>> {
        let luck = luck(dice, self.recording.points().start, self.point);
        let mut names: BTreeMap<Node, BTreeMap<OsString, Node>> = BTreeMap::new();
        for (index, entry) in self.recording.entries[..self.end].iter().enumerate() {
            let What::Names(changes) = &entry.what else {
                continue;
            };
            let is_synced = changes.iter().all(|(dir, _, _)| index < self.synced(*dir));
            let is_there = is_synced
                || self.has_begun(index, entry)
                    && match luck {
                        Luck::Nothing => false,
                        Luck::All => true,
                        Luck::Before(other) => index < other,
                        Luck::Any => dice.one_in(2),
                    };
            if !is_there {
                continue;
            }
            for (dir, name, node) in changes {
                let dir = names.entry(*dir).or_default();
                match node {
                    Some(node) => dir.insert(name.clone(), *node),
                    None => dir.remove(name),
                };
            }
        }
        names
    }

    fn content(&self, node: Node, changes: &[usize], dice: &mut Dice) -> Content {
        let entries = &self.recording.entries;
        let synced = self.synced(node);
        let luck = luck(dice, synced.min(self.point), self.point);
        let mut content = Content::default();
        let mut longest = 0;
        for index in changes.iter().copied() {
            let entry = &entries[index];
            if index < synced {
                content.apply(&entry.what);
                longest = content.size;
                continue;
            }
            if !self.has_begun(index, entry) {
                continue;
            }
            match luck {
                Luck::Nothing => {}
                Luck::All => content.apply(&entry.what),
                Luck::Before(other) if index < other => content.apply(&entry.what),
                Luck::Before(_) => {
                    content.apply_torn(&entry.what, dice);
                    break;
                }
                Luck::Any => content.apply_torn(&entry.what, dice),
            }
            if let What::Write { offset, data, .. } = &entry.what {
                longest = longest.max(offset + data.len() as u64);
            }
        }
        // A length may be there before its data are.
        if matches!(luck, Luck::Any) && dice.one_in(3) {
            content.size = content.size.max(longest);
        }
        content
    }
}

impl Recording {
    /// Builds in `image`, which is made, what a cut at `point` leaves.
    ///
    /// # Errors
    /// What kept it from being built.
    pub fn leave(&self, point: usize, dice: &mut Dice, image: &Path) -> Result<(), Error> {
        let entries = &self.entries;
        let mut synced = HashMap::new();
        for entry in &entries[..point] {
            if let What::Sync(node) = entry.what {
                let covered = synced.entry(node).or_default();
                *covered = entry.begun.max(*covered);
            }
        }
        let under_way = |e: &Entry| e.begun <= point;
        let end = entries
            .iter()
            .rposition(under_way)
            .map_or(0, |last| last + 1);
        let cut = Cut {
            recording: self,
            point,
            synced,
            end: end.max(point),
        };
        let names = cut.names(dice);
        std::fs::create_dir_all(image)?;
        let mut dirs = vec![(0, image.to_path_buf())];
        while let Some((dir, path)) = dirs.pop() {
            for (name, node) in names.get(&dir).into_iter().flatten() {
                let path = path.join(name);
                match &self.files[*node] {
                    None => {
                        std::fs::create_dir(&path)?;
                        dirs.push((*node, path));
                    }
                    Some(changes) => {
                        let content = cut.content(*node, changes, dice);
                        let file = File::create(&path)?;
                        file.write_all_at(&content.bytes, 0)?;
                        file.set_len(content.size)?;
                        for range in &content.reserved {
                            reserve(&file, range)?;
                        }
                    }
                }
            }
        }
        Ok(())
    }
}
