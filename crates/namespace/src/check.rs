//! The consistency checker: reads every key of the name space and says what contradicts what.
//!
//! For tests, the simulator and `ropewalk fsck`. It changes nothing and believes nothing: what does not
//! decode is a problem, not a failure. It holds about 100 bytes per inode and lists at most
//! [`PROBLEMS_MAX`] problems.
//!
//! # Ordering
//! [`check`] wants a store at rest. [`Namespace::check`] keeps writers out while it runs.

use crate::bucket::{Bucket, hash_name};
use crate::inode::{FileType, Inode};
use crate::ops::xattr;
use crate::records::{
    self, Counters, Identity, InlineTotals, PlacingIntent, Removal, RwOut, TruncateIntent,
};
use crate::{DataName, FileId, Namespace, NsError, keys};
use meta::{MetaError, Pair, Read};
use std::collections::{HashMap, HashSet};

/// Most problems that one report describes; further ones are counted.
pub const PROBLEMS_MAX: usize = 1000;

/// What the checker found.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Report {
    /// Inodes.
    pub inodes: u64,
    /// Directory entries.
    pub entries: u64,
    /// Extended attributes.
    pub xattrs: u64,
    /// Unlinked but open files.
    pub orphans: u64,
    /// Files "RW out".
    pub rw_out: u64,
    /// Truncations under way.
    pub truncations: u64,
    /// Files whose bytes lie in the store, and those bytes.
    pub inline: InlineTotals,
    /// Inline files that are being given a place.
    pub placings: u64,
    /// Removals that not all data servers have acknowledged.
    pub removals: u64,
    /// One sentence for each contradiction, at most [`PROBLEMS_MAX`].
    pub problems: Vec<String>,
    /// Contradictions beyond those.
    pub problems_unlisted: u64,
}

impl Report {
    /// Nothing contradicts anything.
    #[must_use]
    pub fn is_clean(&self) -> bool {
        self.problems.is_empty()
    }

    fn problem(&mut self, text: String) {
        if self.problems.len() < PROBLEMS_MAX {
            self.problems.push(text);
        } else {
            self.problems_unlisted += 1;
        }
    }
}

impl Namespace {
    /// Checks the open name space while writers wait.
    ///
    /// # Errors
    /// The store cannot be read.
    pub fn check(&self) -> Result<Report, MetaError> {
        let _writer = self.writer.lock();
        run(&*self.store, self.hash_mask)
    }
}

/// Checks the name space in a store that nobody writes.
///
/// # Errors
/// The store cannot be read.
pub fn check(store: &(impl Read + ?Sized)) -> Result<Report, MetaError> {
    run(store, u64::MAX)
}

/// Whether a file has the objects that data servers know by this number.
///
/// # Errors
/// The store cannot be read, or the inode makes no sense.
pub fn has_objects(store: &(impl Read + ?Sized), name: FileId) -> Result<bool, NsError> {
    if store
        .get(&keys::numbered(keys::DATA_NAME, name.0))?
        .is_some()
    {
        return Ok(true);
    }
    let stored = store.get(&keys::numbered(keys::INODE, name.0))?;
    let inode = stored.map(|value| Inode::from_stored(name, &value));
    Ok(inode
        .transpose()?
        .is_some_and(|inode| inode.data().file == name))
}

/// What the entries say of an inode, beside what it says itself.
struct Known {
    kind: FileType,
    nlink: u32,
    size: u64,
    parent: FileId,
    data: DataName,
    moved: bool,
    has_bad_mirrors: bool,
    named: u64,
    subdirs: u64,
    entries: u64,
    /// Bytes that an inline file has in the store, less those that are there; `None` for any other.
    inline_missing: Option<u64>,
    /// What the inode says of its extended attributes, less those that are there.
    xattrs_missing: (i64, i64),
}

struct Checker<'r, R: ?Sized> {
    store: &'r R,
    hash_mask: u64,
    known: HashMap<FileId, Known>,
    orphans: HashSet<FileId>,
    names: HashSet<FileId>,
    report: Report,
}

fn run<R: Read + ?Sized>(store: &R, hash_mask: u64) -> Result<Report, MetaError> {
    let mut checker = Checker {
        store,
        hash_mask,
        known: HashMap::new(),
        orphans: HashSet::new(),
        names: HashSet::new(),
        report: Report::default(),
    };
    let identity = checker.superblock::<Identity>(keys::SUPER_IDENTITY)?;
    let counters = checker.superblock::<Counters>(keys::SUPER_COUNTERS)?;
    checker.superblock::<u32>(keys::SUPER_BOOT)?;
    checker.each(keys::INODE, Checker::inode)?;
    checker.each(keys::BUCKET, |c, pair| c.bucket(pair, identity.as_ref()))?;
    checker.each(keys::XATTR, Checker::xattr)?;
    checker.each(keys::ORPHAN, Checker::orphan)?;
    checker.each(keys::RW_OUT, Checker::rw_out)?;
    checker.each(keys::TRUNCATE, Checker::truncation)?;
    checker.each(keys::INLINE, Checker::inline)?;
    checker.each(keys::PLACING, Checker::placing)?;
    checker.each(keys::DATA_NAME, Checker::data_name)?;
    checker.each(keys::BAD_MIRRORS, Checker::bad_mirrors)?;
    checker.each(keys::AHEAD, Checker::ahead)?;
    checker.each(keys::REMOVAL, |c, pair| c.removal(pair, counters.as_ref()))?;
    checker.verdicts(counters.as_ref());
    checker.loops();
    Ok(checker.report)
}

impl<R: Read + ?Sized> Checker<'_, R> {
    fn superblock<T: for<'a> xdr::Decode<'a>>(
        &mut self,
        key: &[u8],
    ) -> Result<Option<T>, MetaError> {
        let name = String::from_utf8_lossy(&key[1..]).into_owned();
        let Some(value) = self.store.get(key)? else {
            self.report
                .problem(format!("superblock item {name} is missing"));
            return Ok(None);
        };
        let decoded = records::decode(&value, &name);
        Ok(decoded.map_err(|e| self.report.problem(e.to_string())).ok())
    }

    fn each(
        &mut self,
        tag: u8,
        mut visit: impl FnMut(&mut Self, &Pair) -> Result<(), NsError>,
    ) -> Result<(), MetaError> {
        let store = self.store;
        records::each(store, tag, |pair| {
            if let Err(e) = visit(self, pair) {
                self.report.problem(e.to_string());
            }
        })
    }

    fn inode(&mut self, (key, value): &Pair) -> Result<(), NsError> {
        let inode = Inode::from_stored(number(key)?, value)?;
        self.report.inodes += 1;
        if inode.change == 0 {
            self.report
                .problem(format!("inode {}: change is 0", inode.id.0));
        }
        if inode.is_inline() {
            self.report.inline.files += 1;
            self.report.inline.bytes += inode.space_used;
        }
        let known = Known {
            kind: inode.kind,
            nlink: inode.nlink,
            size: inode.size,
            parent: inode.parent,
            data: inode.data(),
            moved: inode.moved_data().is_some(),
            has_bad_mirrors: inode.bad_mirrors() != 0,
            named: 0,
            subdirs: 0,
            entries: 0,
            inline_missing: inode.is_inline().then_some(inode.space_used),
            xattrs_missing: (inode.xattrs().count.into(), inode.xattrs().bytes.into()),
        };
        self.known.insert(inode.id, known);
        Ok(())
    }

    fn bucket(&mut self, (key, value): &Pair, id: Option<&Identity>) -> Result<(), NsError> {
        let bad_key = || NsError::corrupt("key of a directory bucket");
        let (dir, hash) = keys::bucket_of(key).ok_or_else(bad_key)?;
        for entry in Bucket::from_stored(dir, value)?.entries {
            self.report.entries += 1;
            let name = String::from_utf8_lossy(&entry.name).into_owned();
            let place = format!("entry {name:?} of directory {}", dir.0);
            if id.is_some_and(|id| hash_name(&id.hash_key, self.hash_mask, &entry.name) != hash) {
                self.report
                    .problem(format!("{place} is in the wrong bucket"));
            }
            match self.known.get_mut(&dir) {
                Some(known) if known.kind == FileType::Directory => {
                    known.entries += 1;
                    known.subdirs += u64::from(entry.kind == FileType::Directory);
                }
                _ => self.report.problem(format!("{place}: no such directory")),
            }
            let Some(child) = self.known.get_mut(&entry.file) else {
                let text = format!("{place} names inode {}, which is not", entry.file.0);
                self.report.problem(text);
                continue;
            };
            child.named += 1;
            if child.kind != entry.kind {
                self.report.problem(format!("{place} has the wrong type"));
            } else if child.kind == FileType::Directory && child.parent != dir {
                self.report.problem(format!("{place} is not its parent's"));
            }
        }
        Ok(())
    }

    fn xattr(&mut self, pair: &Pair) -> Result<(), NsError> {
        let bad_key = || NsError::corrupt("key of an extended attribute");
        let (file, _) = keys::xattr_of(&pair.0).ok_or_else(bad_key)?;
        let (_, stored) = xattr::decode(pair)?;
        self.report.xattrs += 1;
        let Some(known) = self.known.get_mut(&file) else {
            let text = format!("extended attribute of inode {}, which is not", file.0);
            self.report.problem(text);
            return Ok(());
        };
        known.xattrs_missing.0 -= 1;
        known.xattrs_missing.1 -= i64::from(stored.bytes());
        Ok(())
    }

    fn orphan(&mut self, (key, _): &Pair) -> Result<(), NsError> {
        let file = number(key)?;
        self.report.orphans += 1;
        self.orphans.insert(file);
        self.needs_file(file, "orphan mark");
        Ok(())
    }

    fn rw_out(&mut self, (key, value): &Pair) -> Result<(), NsError> {
        let file = number(key)?;
        let mark: RwOut = records::decode(value, "RW-out mark")?;
        self.report.rw_out += 1;
        if !mark.clients.0.is_sorted_by(|a, b| a < b) || mark.clients.0.is_empty() {
            let text = format!("RW-out mark of inode {}: clients out of order", file.0);
            self.report.problem(text);
        }
        self.needs_file(file, "RW-out mark");
        Ok(())
    }

    fn truncation(&mut self, (key, value): &Pair) -> Result<(), NsError> {
        let file = number(key)?;
        let intent: TruncateIntent = records::decode(value, "truncate intent")?;
        self.report.truncations += 1;
        if intent.file != file {
            self.report
                .problem(format!("truncate intent {} names another file", file.0));
        }
        self.needs_file(file, "truncate intent");
        Ok(())
    }

    fn inline(&mut self, (key, value): &Pair) -> Result<(), NsError> {
        let file = number(key)?;
        let known = self.known.get_mut(&file);
        match known.and_then(|known| known.inline_missing.as_mut()) {
            Some(missing) => *missing = missing.abs_diff(value.len() as u64),
            None => {
                let text = format!("inode {} has inline bytes and is not inline", file.0);
                self.report.problem(text);
            }
        }
        Ok(())
    }

    fn placing(&mut self, (key, value): &Pair) -> Result<(), NsError> {
        let file = number(key)?;
        let intent: PlacingIntent = records::decode(value, "placing intent")?;
        self.report.placings += 1;
        let known = self.known.get(&file);
        if intent.file != file || known.is_none_or(|known| known.inline_missing.is_none()) {
            let text = format!("placing intent of inode {}, which is not inline", file.0);
            self.report.problem(text);
        }
        Ok(())
    }

    fn data_name(&mut self, (key, value): &Pair) -> Result<(), NsError> {
        let name = number(key)?;
        let file: FileId = records::decode(value, "name of objects")?;
        self.names.insert(name);
        let known = self.known.get(&file);
        if known.is_none_or(|known| !known.moved || known.data.file != name) {
            let text = format!("the objects {} are not those of inode {}", name.0, file.0);
            self.report.problem(text);
        }
        Ok(())
    }

    fn bad_mirrors(&mut self, (key, _): &Pair) -> Result<(), NsError> {
        let file = number(key)?;
        let known = self.known.get_mut(&file);
        let is_noted = known.map(|known| std::mem::take(&mut known.has_bad_mirrors));
        if is_noted != Some(true) {
            let text = format!(
                "inode {} is noted to have bad mirrors, and has none",
                file.0
            );
            self.report.problem(text);
        }
        Ok(())
    }

    fn ahead(&mut self, (key, value): &Pair) -> Result<(), NsError> {
        let name = number(key)?;
        let _group: u32 = records::decode(value, "object made ahead")?;
        if self.known.contains_key(&name) || self.names.contains(&name) {
            let text = format!("the objects {} were made ahead, and are in use", name.0);
            self.report.problem(text);
        }
        Ok(())
    }

    fn removal(&mut self, (key, value): &Pair, counters: Option<&Counters>) -> Result<(), NsError> {
        let seq = number(key)?.0;
        let removal: Removal = records::decode(value, "removal")?;
        self.report.removals += 1;
        if removal.seq != seq || counters.is_some_and(|c| seq > c.next_removal) {
            self.report
                .problem(format!("removal {seq} has a wrong number"));
        }
        let named = DataName {
            file: removal.file,
            generation: removal.generation,
        };
        let known = self.known.get(&removal.file);
        if known.is_some_and(|known| known.data == named) || self.names.contains(&named.file) {
            let text = format!("removal {seq}: inode {} still exists", removal.file.0);
            self.report.problem(text);
        }
        Ok(())
    }

    fn needs_file(&mut self, file: FileId, what: &str) {
        let kind = self.known.get(&file).map(|k| k.kind);
        if kind != Some(FileType::Regular) {
            let text = format!("{what} of inode {}, which is no regular file", file.0);
            self.report.problem(text);
        }
    }

    /// Each inode against its entries, and all against the counters.
    fn verdicts(&mut self, counters: Option<&Counters>) {
        let mut ids: Vec<FileId> = self.known.keys().copied().collect();
        ids.sort_unstable();
        if ids.first() != Some(&FileId::ROOT) {
            self.report.problem("the root directory is missing".into());
        }
        if let Some(counters) = counters {
            if ids.last().is_some_and(|id| id.0 >= counters.file_id_limit) {
                let text = "an inode number is above those given out".into();
                self.report.problem(text);
            }
            if counters.files != self.report.inodes {
                let (said, found) = (counters.files, self.report.inodes);
                let text = format!("{found} inodes, but the counter says {said}");
                self.report.problem(text);
            }
            if counters.inline != self.report.inline {
                let (said, found) = (counters.inline, self.report.inline);
                let text = format!("inline files {found:?}, but the counters say {said:?}");
                self.report.problem(text);
            }
        }
        for id in ids {
            let orphan = self.orphans.contains(&id);
            let known = &self.known[&id];
            if known.moved && !self.names.contains(&known.data.file) {
                let text = format!("inode {}: nothing tells whose its objects are", id.0);
                self.report.problem(text);
            }
            if known.has_bad_mirrors {
                let text = format!("inode {}: nothing notes its bad mirrors", id.0);
                self.report.problem(text);
            }
            if let Some(text) = self.known[&id].contradiction(id, orphan) {
                self.report.problem(format!("inode {}: {text}", id.0));
            }
        }
    }

    /// Every directory's way up ends at the root.
    fn loops(&mut self) {
        let mut good = HashSet::from([FileId::ROOT]);
        let dirs = self
            .known
            .iter()
            .filter(|(_, k)| k.kind == FileType::Directory);
        let mut lost: Vec<FileId> = Vec::new();
        for (id, _) in dirs {
            let (mut way, mut at) = (HashSet::new(), *id);
            while !good.contains(&at) && way.insert(at) {
                at = self.known.get(&at).map_or(at, |k| k.parent);
            }
            if good.contains(&at) {
                good.extend(way);
            } else {
                lost.push(*id);
            }
        }
        lost.sort_unstable();
        for id in lost {
            let text = format!("directory {} does not lead up to the root", id.0);
            self.report.problem(text);
        }
    }
}

impl Known {
    fn contradiction(&self, id: FileId, orphan: bool) -> Option<String> {
        if self.xattrs_missing != (0, 0) {
            return Some("its extended attributes are not those that it counts".into());
        }
        if self.inline_missing.is_some_and(|missing| missing > 0) {
            return Some("its inline bytes are not those that it counts".into());
        }
        let nlink = u64::from(self.nlink);
        if self.kind == FileType::Directory {
            let root = id == FileId::ROOT;
            if self.named != u64::from(!root) {
                return Some(format!("a directory with {} names", self.named));
            }
            if root && self.parent != id {
                return Some("the root has a parent".into());
            }
            if nlink != 2 + self.subdirs {
                return Some(format!(
                    "nlink {nlink} with {} subdirectories",
                    self.subdirs
                ));
            }
            return (self.size != self.entries)
                .then(|| format!("size {} with {} entries", self.size, self.entries));
        }
        if nlink != self.named {
            return Some(format!("nlink {nlink} with {} names", self.named));
        }
        let nameless = nlink == 0;
        (nameless != orphan).then(|| format!("nlink {nlink}, orphan mark {orphan}"))
    }
}

fn number(key: &[u8]) -> Result<FileId, NsError> {
    let bad = || NsError::corrupt(format!("key {key:02x?}"));
    keys::number_of(key).map(FileId).ok_or_else(bad)
}
