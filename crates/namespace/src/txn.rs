//! One mutation: a transaction with its own view of inodes and directory entries.
//!
//! # Ordering
//! The body works on staged copies. When it succeeds:
//!
//! 1. they are encoded into the store's transaction, and their keys are marked in the caches;
//! 2. the store commits;
//! 3. they are published under the number that the store gave (see `cache.rs`).
//!
//! The writer lock is held throughout. For the body the caches are exactly the store's state, so it reads no store for them.
//!
//! # Failure
//! A refused body changes nothing; the caller observes only what the body read.

use crate::bucket::{Bucket, Entry, check_name, hash_name};
use crate::cache::Hit;
use crate::inode::{FileType, Inode};
use crate::namespace::{Namespace, Writer};
use crate::records::{self, RwOut, TruncateIntent};
use crate::{Cred, FileId, NsError, Op, keys};
use meta::{Purpose, Seq, Tx, TxOutcome};
use std::any::Any;
use std::collections::BTreeMap;
use std::sync::Arc;

/// Inode numbers set aside by one durable raise of their limit.
const FILE_IDS_PER_RAISE: u64 = 4096;

/// An inode in a transaction.
#[derive(Debug)]
struct StagedInode {
    before: Option<Arc<Inode>>,
    after: Option<Arc<Inode>>,
    touched: bool,
}

/// What a transaction will write.
#[derive(Debug, Default)]
struct Staged {
    inodes: BTreeMap<FileId, StagedInode>,
    buckets: BTreeMap<(FileId, u64), Bucket>,
    rw_out: BTreeMap<FileId, Option<Arc<RwOut>>>,
}

/// The view of a transaction's body.
pub(crate) struct Txn<'t> {
    ns: &'t Namespace,
    tx: &'t mut dyn Tx,
    writer: Writer,
    applied: Seq,
    durable: Seq,
    staged: Staged,
    seen: Seq,
}

impl Namespace {
    /// Runs `body` as one transaction. It may run more than once.
    pub(crate) fn write<T: Any>(
        &self,
        op: &mut Op<'_>,
        mut body: impl FnMut(&mut Txn<'_>) -> Result<T, NsError>,
    ) -> Result<T, NsError> {
        let mut guard = self.writer.lock();
        // The store may hold its own lock while the body runs, so it is asked before. No other
        // transaction writes keys of this crate meanwhile.
        let (applied, durable) = (self.store.applied(), self.store.durable_through());
        let mut staged = Staged::default();
        let mut last = None;
        let outcome = self.store.transact(&mut |tx| {
            staged.unmark(self);
            let mut txn = Txn {
                ns: self,
                tx,
                writer: *guard,
                applied,
                durable,
                staged: Staged::default(),
                seen: Seq(0),
            };
            let mut verdict = body(&mut txn);
            if verdict.is_ok()
                && let Err(e) = txn.flush(guard.counters)
            {
                verdict = Err(e);
            }
            let changes = txn.writer != *guard || !txn.staged.is_empty();
            if changes
                && let Ok(result) = &verdict
                && let Some((key, value)) = op.kept(result)
            {
                txn.tx.put(&key, &value);
            }
            let commit = verdict.is_ok();
            let Txn { writer, seen, .. } = txn;
            staged = if commit {
                txn.staged
            } else {
                Staged::default()
            };
            staged.mark(self);
            last = Some((verdict, writer, seen));
            Ok(if commit {
                TxOutcome::Commit
            } else {
                TxOutcome::Abort
            })
        });
        let seq = match outcome {
            Ok(seq) => seq,
            Err(e) => {
                staged.unmark(self);
                return Err(e.into());
            }
        };
        let (verdict, writer, seen) = last.expect("a store that returns a Seq has run the body");
        op.observe(seen);
        if verdict.is_ok() {
            if writer != *guard || !staged.is_empty() {
                op.observe(seq);
            }
            *guard = writer;
        }
        staged.publish(self, seq);
        verdict
    }
}

impl Txn<'_> {
    /// What the transaction is for; ordinary unless said.
    pub(crate) fn purpose(&mut self, purpose: Purpose) {
        self.tx.purpose(purpose);
    }

    /// The inode, if there is one.
    pub(crate) fn inode(&mut self, id: FileId) -> Result<Option<Arc<Inode>>, NsError> {
        if let Some(staged) = self.staged.inodes.get(&id) {
            return Ok(staged.after.clone());
        }
        let ns = self.ns;
        let hit = match ns.inodes.peek(&id) {
            Some(hit) => hit,
            None => {
                let stored = self.tx.get(&keys::numbered(keys::INODE, id.0))?;
                let inode = stored.map(|v| Inode::from_stored(id, &v)).transpose()?;
                ns.inodes.fill(id, inode.map(Arc::new), self.durable)
            }
        };
        Ok(self.saw(hit))
    }

    fn saw<V>(&mut self, hit: Hit<V>) -> Option<V> {
        self.seen = self.seen.max(hit.seq);
        hit.value
    }

    /// The inode, which a handle names.
    pub(crate) fn need(&mut self, id: FileId) -> Result<Arc<Inode>, NsError> {
        self.inode(id)?.ok_or(NsError::Stale)
    }

    /// The inode of a regular file, which a handle names.
    pub(crate) fn regular(&mut self, id: FileId) -> Result<Arc<Inode>, NsError> {
        let inode = self.need(id)?;
        if inode.is_regular() {
            Ok(inode)
        } else {
            Err(NsError::Inval)
        }
    }

    /// The inode, which a directory entry names.
    pub(crate) fn entry_inode(&mut self, id: FileId) -> Result<Arc<Inode>, NsError> {
        let missing = || NsError::corrupt(format!("an entry names inode {}, which is not", id.0));
        self.inode(id)?.ok_or_else(missing)
    }

    /// The directory, which a handle names, if the caller has all `rights` there.
    pub(crate) fn dir(
        &mut self,
        cred: &Cred,
        id: FileId,
        rights: u32,
    ) -> Result<Arc<Inode>, NsError> {
        let dir = self.need(id)?;
        if !dir.is_dir() {
            return Err(NsError::NotDir);
        }
        cred.require(&dir, rights)?;
        Ok(dir)
    }

    /// The inode, to be changed: raises its change counter, once per transaction.
    pub(crate) fn touch(&mut self, id: FileId) -> Result<&mut Inode, NsError> {
        let staged = self.stage(id)?;
        let first = !std::mem::replace(&mut staged.touched, true);
        let inode = Arc::make_mut(staged.after.as_mut().ok_or(NsError::Stale)?);
        if first {
            inode.change = inode.change.saturating_add(1);
        }
        Ok(inode)
    }

    /// The inode, to be changed in what no attribute shows: the change counter stays.
    pub(crate) fn touch_quietly(&mut self, id: FileId) -> Result<&mut Inode, NsError> {
        let staged = self.stage(id)?;
        Ok(Arc::make_mut(staged.after.as_mut().ok_or(NsError::Stale)?))
    }

    fn stage(&mut self, id: FileId) -> Result<&mut StagedInode, NsError> {
        if !self.staged.inodes.contains_key(&id) {
            let inode = self.need(id)?;
            let staged = StagedInode {
                before: Some(inode.clone()),
                after: Some(inode),
                touched: false,
            };
            self.staged.inodes.insert(id, staged);
        }
        Ok(self.staged.inodes.get_mut(&id).expect("just staged"))
    }

    /// A number for a new inode; never given out before.
    pub(crate) fn allocate(&mut self) -> Result<FileId, NsError> {
        let id = self.writer.next_file_id;
        let limit = id.checked_add(FILE_IDS_PER_RAISE).ok_or(NsError::NoSpace)?;
        self.writer.next_file_id = id + 1;
        let counters = &mut self.writer.counters;
        if id >= counters.file_id_limit {
            counters.file_id_limit = limit;
        }
        Ok(FileId(id))
    }

    /// Adds an inode under a number that [`Txn::allocate`] gave.
    pub(crate) fn add(&mut self, inode: Inode) {
        let counters = &mut self.writer.counters;
        counters.files = counters.files.saturating_add(1);
        counters.inline.files += u64::from(inode.is_inline());
        let id = inode.id;
        let staged = StagedInode {
            before: None,
            after: Some(Arc::new(inode)),
            touched: true,
        };
        self.staged.inodes.insert(id, staged);
    }

    /// Drops an inode that exists.
    pub(crate) fn drop_inode(&mut self, id: FileId) -> Result<(), NsError> {
        self.stage(id)?.after = None;
        let files = &mut self.writer.counters.files;
        *files = files.saturating_sub(1);
        Ok(())
    }

    /// The entry of a name.
    pub(crate) fn entry(&mut self, dir: FileId, name: &[u8]) -> Result<Option<Entry>, NsError> {
        check_name(name)?;
        let hash = self.hash(name);
        let bucket = self.bucket(dir, hash)?;
        Ok(bucket.and_then(|b| b.find(name).cloned()))
    }

    /// Points a name at an inode, whether it exists or not; the directory's counters are the caller's.
    pub(crate) fn set_entry(
        &mut self,
        dir: FileId,
        name: &[u8],
        file: FileId,
        kind: FileType,
    ) -> Result<(), NsError> {
        self.edit(dir, name)?.set(name, file, kind)
    }

    /// Takes a name away; the directory's counters are the caller's.
    pub(crate) fn remove_entry(&mut self, dir: FileId, name: &[u8]) -> Result<(), NsError> {
        self.edit(dir, name)?.remove(name);
        Ok(())
    }

    fn hash(&self, name: &[u8]) -> u64 {
        hash_name(&self.ns.identity.hash_key, self.ns.hash_mask, name)
    }

    fn edit(&mut self, dir: FileId, name: &[u8]) -> Result<&mut Bucket, NsError> {
        let key = (dir, self.hash(name));
        if !self.staged.buckets.contains_key(&key) {
            let bucket = self.bucket(dir, key.1)?;
            let bucket = bucket.map_or_else(Bucket::default, |b| (*b).clone());
            self.staged.buckets.insert(key, bucket);
        }
        Ok(self.staged.buckets.get_mut(&key).expect("just staged"))
    }

    fn bucket(&mut self, dir: FileId, hash: u64) -> Result<Option<Arc<Bucket>>, NsError> {
        if let Some(staged) = self.staged.buckets.get(&(dir, hash)) {
            return Ok(Some(Arc::new(staged.clone())));
        }
        let ns = self.ns;
        let hit = match ns.buckets.peek(&(dir, hash)) {
            Some(hit) => hit,
            None => {
                let stored = self.tx.get(&keys::bucket(dir, hash))?;
                let bucket = stored.map(|v| Bucket::from_stored(dir, &v)).transpose()?;
                ns.buckets
                    .fill((dir, hash), bucket.map(Arc::new), self.durable)
            }
        };
        Ok(self.saw(hit))
    }

    /// Who may hold layouts for writing.
    pub(crate) fn rw_out(&mut self, file: FileId) -> Result<Option<Arc<RwOut>>, NsError> {
        if self.writer.marks == 0 {
            return Ok(self.saw_none());
        }
        if let Some(staged) = self.staged.rw_out.get(&file) {
            return Ok(staged.clone());
        }
        let ns = self.ns;
        let hit = match ns.rw_out.peek(&file) {
            Some(hit) => hit,
            None => {
                let stored = self.tx.get(&keys::numbered(keys::RW_OUT, file.0))?;
                let mark: Option<RwOut> = stored
                    .map(|v| records::decode(&v, "RW-out mark"))
                    .transpose()?;
                ns.rw_out.fill(file, mark.map(Arc::new), self.durable)
            }
        };
        Ok(self.saw(hit))
    }

    /// Whether a client may have a layout to write a file.
    pub(crate) fn has_layouts_out(&mut self, file: FileId) -> Result<bool, NsError> {
        let mark = self.rw_out(file)?;
        Ok(mark.is_some_and(|mark| mark.has_layouts()))
    }

    /// Sets or clears the RW-out mark of a file.
    pub(crate) fn set_rw_out(&mut self, file: FileId, mark: Option<RwOut>) -> Result<(), NsError> {
        let before = self.rw_out(file)?;
        let marks = &mut self.writer.marks;
        match (&before, &mark) {
            (None, Some(_)) => *marks += 1,
            (Some(_), None) => *marks -= 1,
            _ => {}
        }
        self.staged.rw_out.insert(file, mark.map(Arc::new));
        Ok(())
    }

    /// What a truncation under way is to do.
    pub(crate) fn truncation(&mut self, file: FileId) -> Result<Option<TruncateIntent>, NsError> {
        if self.writer.truncations == 0 {
            return Ok(self.saw_none());
        }
        let stored = self.record(keys::TRUNCATE, file.0)?;
        let decoded = stored.map(|v| records::decode(&v, "truncate intent"));
        decoded.transpose()
    }

    /// Begins a truncation of a file that has none.
    pub(crate) fn begin_truncation(&mut self, intent: &TruncateIntent) {
        self.writer.truncations += 1;
        self.put_record(keys::TRUNCATE, intent.file.0, &records::encode(intent));
    }

    /// Ends the truncation of a file that has one.
    pub(crate) fn end_truncation(&mut self, file: FileId) {
        self.writer.truncations = self.writer.truncations.saturating_sub(1);
        self.delete_record(keys::TRUNCATE, file.0);
    }

    /// What is counted of inline files.
    pub(crate) fn inline_totals(&mut self) -> &mut records::InlineTotals {
        &mut self.writer.counters.inline
    }

    /// How many inline files are being given a place.
    pub(crate) fn placings(&mut self) -> &mut u64 {
        &mut self.writer.placings
    }

    /// There is nothing, and no cache entry to tell which transaction has taken it away: perhaps the newest.
    pub(crate) fn saw_none<V>(&mut self) -> Option<V> {
        self.seen = self.seen.max(self.applied);
        None
    }

    /// A record that has no cache.
    pub(crate) fn record(&mut self, tag: u8, number: u64) -> Result<Option<Vec<u8>>, NsError> {
        // Without a cache entry to tell which transaction wrote it, assume the newest.
        self.seen = self.seen.max(self.applied);
        Ok(self
            .tx
            .get(&keys::numbered(tag, number))?
            .map(|v| v.to_vec()))
    }

    /// Whether a record exists.
    pub(crate) fn has_record(&mut self, tag: u8, number: u64) -> Result<bool, NsError> {
        Ok(self.record(tag, number)?.is_some())
    }

    /// Writes a record that has no cache.
    pub(crate) fn put_record(&mut self, tag: u8, number: u64, value: &[u8]) {
        self.put(&keys::numbered(tag, number), value);
    }

    /// Removes a record that has no cache.
    pub(crate) fn delete_record(&mut self, tag: u8, number: u64) {
        self.delete(&keys::numbered(tag, number));
    }

    /// Reads of keys that have no cache. The caller must note itself what it observes by them.
    pub(crate) fn store(&self) -> &dyn Tx {
        self.tx
    }

    /// The name space.
    pub(crate) fn namespace(&self) -> &Namespace {
        self.ns
    }

    /// Writes a key that has no cache.
    pub(crate) fn put(&mut self, key: &[u8], value: &[u8]) {
        self.tx.put(key, value);
        self.writer.records_written = self.writer.records_written.wrapping_add(1);
    }

    /// Removes a key that has no cache.
    pub(crate) fn delete(&mut self, key: &[u8]) {
        self.tx.delete(key);
        self.writer.records_written = self.writer.records_written.wrapping_add(1);
    }

    /// The fencing epoch of handles that carry the inode's counter.
    pub(crate) fn fencing_epoch(&self, inode: &Inode) -> u64 {
        self.ns.fencing_epoch(inode)
    }

    /// Highest link count.
    pub(crate) fn link_count_max(&self) -> u32 {
        self.ns.limits.link_count_max
    }

    /// The next place in the removal queue.
    pub(crate) fn next_removal(&mut self) -> Result<u64, NsError> {
        let next = &mut self.writer.counters.next_removal;
        *next = next.checked_add(1).ok_or(NsError::NoSpace)?;
        Ok(*next)
    }

    /// Encodes what was staged into the store's transaction.
    fn flush(&mut self, old: records::Counters) -> Result<(), NsError> {
        for (id, staged) in &self.staged.inodes {
            let key = keys::numbered(keys::INODE, id.0);
            match &staged.after {
                Some(inode) => self.tx.put(&key, &inode.to_stored()),
                None => self.tx.delete(&key),
            }
        }
        for ((dir, hash), bucket) in &self.staged.buckets {
            let key = keys::bucket(*dir, *hash);
            if bucket.entries.is_empty() {
                self.tx.delete(&key);
            } else {
                self.tx.put(&key, &bucket.to_stored());
            }
        }
        for (file, mark) in &self.staged.rw_out {
            let key = keys::numbered(keys::RW_OUT, file.0);
            match mark {
                Some(mark) => self.tx.put(&key, &records::encode(&**mark)),
                None => self.tx.delete(&key),
            }
        }
        if self.writer.counters != old {
            let value = records::encode(&self.writer.counters);
            self.tx.put(keys::SUPER_COUNTERS, &value);
        }
        Ok(())
    }
}

impl Staged {
    fn is_empty(&self) -> bool {
        self.inodes.is_empty() && self.buckets.is_empty() && self.rw_out.is_empty()
    }

    fn mark(&self, ns: &Namespace) {
        self.inodes.keys().for_each(|k| ns.inodes.mark(*k));
        self.buckets.keys().for_each(|k| ns.buckets.mark(*k));
        self.rw_out.keys().for_each(|k| ns.rw_out.mark(*k));
    }

    fn unmark(&self, ns: &Namespace) {
        self.inodes.keys().for_each(|k| ns.inodes.unmark(k));
        self.buckets.keys().for_each(|k| ns.buckets.unmark(k));
        self.rw_out.keys().for_each(|k| ns.rw_out.unmark(k));
    }

    fn publish(self, ns: &Namespace, seq: Seq) {
        let durable = ns.store.durable_through();
        for (id, staged) in self.inodes {
            let steady = staged.keeps_access();
            ns.inodes.publish(id, staged.after, seq, steady, durable);
        }
        for (key, bucket) in self.buckets {
            let bucket = (!bucket.entries.is_empty()).then(|| Arc::new(bucket));
            ns.buckets.publish(key, bucket, seq, false, durable);
        }
        for (file, mark) in self.rw_out {
            ns.rw_out.publish(file, mark, seq, false, durable);
        }
    }
}

impl StagedInode {
    /// Whether all that a permission check reads is as before.
    fn keeps_access(&self) -> bool {
        match (&self.before, &self.after) {
            (Some(a), Some(b)) => {
                (a.mode, a.uid, a.gid, a.acl()) == (b.mode, b.uid, b.gid, b.acl())
            }
            _ => false,
        }
    }
}
