//! READDIR: a directory in the order of its cookies, page by page.
//!
//! A cookie belongs to its entry and not to a position. Pages stay right while entries come and go: an entry that is
//! there all the time is seen exactly once. Nothing is kept between pages.

use crate::bucket::{Bucket, COOKIE_FIRST, cookie_parts};
use crate::inode::{FileType, Inode};
use crate::rights::{EXECUTE, READ};
use crate::{FileId, Namespace, NsError, Op, keys};
use std::sync::Arc;

/// Most entries of one page.
pub const READDIR_ENTRIES_MAX: usize = 4096;
/// Buckets read from the store at once.
const SCAN_BUCKETS: usize = 512;

/// Which page.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ReadDirRequest {
    /// Entries after this cookie; 0 for the first page.
    pub cookie: u64,
    /// Most entries; at most [`READDIR_ENTRIES_MAX`] are returned.
    pub entries_max: usize,
    /// Most bytes of names.
    pub name_bytes_max: usize,
    /// Whether to return inodes as well.
    pub with_inodes: bool,
}

/// One entry.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DirEntry {
    /// Its inode number.
    pub file: FileId,
    /// Its type.
    pub kind: FileType,
    /// Its name.
    pub name: Box<[u8]>,
    /// Its cookie: above 2, and positive as a signed number.
    pub cookie: u64,
    /// The inode when asked for, unless the caller may not search the directory.
    pub inode: Option<Arc<Inode>>,
}

/// One page. Without an entry and without `eof` the first name is above the limit of bytes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DirPage {
    /// Entries in the order of cookies.
    pub entries: Vec<DirEntry>,
    /// Nothing comes after them.
    pub eof: bool,
}

impl Namespace {
    /// One page of a directory. Needs read permission.
    ///
    /// # Errors
    /// [`NsError::NotDir`], [`NsError::Access`], [`NsError::BadCookie`] for one that no entry can have.
    pub fn readdir(
        &self,
        op: &mut Op<'_>,
        dir: FileId,
        page: ReadDirRequest,
    ) -> Result<DirPage, NsError> {
        let inode = self.getattr(op, dir)?;
        if !inode.is_dir() {
            return Err(NsError::NotDir);
        }
        op.cred.require(&inode, READ)?;
        if page.cookie != 0 && !(COOKIE_FIRST..=i64::MAX.unsigned_abs()).contains(&page.cookie) {
            return Err(NsError::BadCookie);
        }
        let with_inodes = page.with_inodes && op.cred.rights(&inode) & EXECUTE != 0;
        let mut page = page;
        loop {
            let mut out = self.scan(dir, page)?;
            // Each change of an entry also changes the directory, so its present inode covers all that
            // the scan saw.
            op.observe(self.load_inode(dir)?.seq);
            let last = out.entries.last().map(|e| e.cookie);
            if with_inodes {
                self.add_inodes(op, dir, &mut out)?;
            }
            match last {
                // All of them went away meanwhile; the caller would take that for names too long.
                Some(last) if out.entries.is_empty() && !out.eof => page.cookie = last,
                _ => return Ok(out),
            }
        }
    }

    fn scan(&self, dir: FileId, page: ReadDirRequest) -> Result<DirPage, NsError> {
        let entries_max = page.entries_max.min(READDIR_ENTRIES_MAX);
        let end = keys::bucket_end(dir);
        let mut out = DirPage {
            entries: Vec::new(),
            eof: false,
        };
        let (mut name_bytes, mut from) = (0, cookie_parts(page.cookie).0);
        loop {
            // One bucket more than fits tells whether anything is after the page.
            let buckets_max = (entries_max - out.entries.len() + 1).min(SCAN_BUCKETS);
            let pairs = self
                .store
                .scan(&keys::bucket(dir, from), &end, buckets_max)?;
            for (key, value) in &pairs {
                let bad_key = || NsError::corrupt("key of a directory bucket");
                let (_, hash) = keys::bucket_of(key).ok_or_else(bad_key)?;
                from = hash + 1;
                for entry in Bucket::from_stored(dir, value)?.entries {
                    let cookie = entry.cookie(hash);
                    if cookie <= page.cookie {
                        continue;
                    }
                    name_bytes += entry.name.len();
                    if out.entries.len() == entries_max || name_bytes > page.name_bytes_max {
                        return Ok(out);
                    }
                    out.entries.push(DirEntry {
                        file: entry.file,
                        kind: entry.kind,
                        name: entry.name,
                        cookie,
                        inode: None,
                    });
                }
            }
            if pairs.len() < buckets_max {
                out.eof = true;
                return Ok(out);
            }
        }
    }

    /// Fills in the inodes. An entry whose inode went away since the scan is looked at again: a rename may
    /// have put another file in its place.
    fn add_inodes(&self, op: &mut Op<'_>, dir: FileId, page: &mut DirPage) -> Result<(), NsError> {
        for entry in &mut page.entries {
            let hit = self.load_inode(entry.file)?;
            op.observe(hit.seq);
            entry.inode = hit.value;
            if entry.inode.is_some() {
                continue;
            }
            let bucket = self.load_bucket(dir, cookie_parts(entry.cookie).0)?;
            op.observe(bucket.seq);
            if let Some(now) = bucket.value.as_ref().and_then(|b| b.find(&entry.name)) {
                let hit = self.load_inode(now.file)?;
                op.observe(hit.seq);
                (entry.file, entry.kind, entry.inode) = (now.file, now.kind, hit.value);
            }
        }
        page.entries.retain(|e| e.inode.is_some());
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    //! Goal: what happens between the scan of a page and the look at its inodes leaves the page right.

    use super::*;
    use crate::{Cred, Format, How, NamespaceLimits, NewNode, Time, What};
    use meta::MemStore;

    #[test]
    fn a_name_that_changed_hands_since_the_scan_stays_and_one_that_went_does_not() {
        let format = Format {
            cluster_id: 1,
            hash_key: [0; 16],
        };
        let store = Arc::new(MemStore::new());
        let opened = Namespace::open(store, format, Time::default(), NamespaceLimits::default());
        let (ns, _) = opened.unwrap();
        let cred = Cred::root();
        let mut op = Op::new(&cred, Time::default());
        let root = FileId::ROOT;
        for name in [b"a", b"b", b"c"] {
            let new = NewNode::mode(0o644);
            ns.create(&mut op, root, name, &new, How::Guarded, None)
                .unwrap();
        }
        let a = ns.lookup(&mut op, root, b"a").unwrap().id;
        let page = ReadDirRequest {
            cookie: 0,
            entries_max: 10,
            name_bytes_max: 100,
            with_inodes: true,
        };
        let mut out = ns.scan(root, page).unwrap();
        out.entries.retain(|e| *e.name != *b"a");
        ns.rename(&mut op, (root, b"a"), (root, b"b"), &|_| false)
            .unwrap();
        ns.remove(&mut op, root, b"c", What::Any, &|_| false)
            .unwrap();
        ns.add_inodes(&mut op, root, &mut out).unwrap();
        let left: Vec<_> = out.entries.iter().map(|e| (&*e.name, e.file)).collect();
        assert_eq!(left, [(&b"b"[..], a)]);
        assert_eq!(out.entries[0].inode.as_ref().unwrap().id, a);
    }
}
