//! The store in memory: for `--memory` clusters, tests and the simulator.
//!
//! [`MemStore::new`] is durable at once. [`MemStore::manual`] is durable only when [`MemStore::sync`] is called.
//! [`MemStore::after_crash`] makes the store that a power cut would have left: the transactions that were synced and no
//! other.

use crate::Writes;
use crate::overlay::range;
use crate::{
    BoxFuture, Gate, MetaError, MetaStore, Overlay, Pair, Purpose, Read, Seq, Tx, TxBody, TxOutcome,
};
use bytes::Bytes;
use parking_lot::RwLock;
use std::collections::BTreeMap;

/// An ordered map that follows the store's contract.
#[derive(Debug)]
pub struct MemStore {
    inner: RwLock<Inner>,
    gate: Gate,
    manual: bool,
}

#[derive(Debug, Default)]
struct Inner {
    live: BTreeMap<Bytes, Bytes>,
    applied: u64,
    /// What was durable when the last sync ended; kept only by manual stores.
    synced: BTreeMap<Bytes, Bytes>,
    /// Applied since then.
    unsynced: Vec<Writes>,
    /// Transactions for less are refused.
    least: Purpose,
}

impl Default for MemStore {
    fn default() -> Self {
        Self::new()
    }
}

impl MemStore {
    /// A store whose transactions are durable (as durable as memory is) when they are applied.
    #[must_use]
    pub fn new() -> Self {
        Self {
            inner: RwLock::default(),
            gate: Gate::new(),
            manual: false,
        }
    }

    /// A store whose transactions become durable only by [`MemStore::sync`].
    #[must_use]
    pub fn manual() -> Self {
        Self {
            manual: true,
            ..Self::new()
        }
    }

    /// Makes everything applied so far durable and wakes those who wait.
    pub fn sync(&self) {
        let mut inner = self.inner.write();
        if self.gate.failure().is_some() {
            return;
        }
        for writes in std::mem::take(&mut inner.unsynced) {
            apply(&mut inner.synced, &writes);
        }
        let applied = Seq(inner.applied);
        drop(inner);
        self.gate.advance(applied);
    }

    /// The manual store that a crash at this moment leaves: all that was synced and nothing else.
    #[must_use]
    pub fn after_crash(&self) -> Self {
        self.after_crash_keeping(0)
    }

    /// The manual store that a crash may leave as well. It has all that was synced and the `unsynced` oldest of the
    /// other transactions, which had reached the disk by chance. Never one without those before it.
    #[must_use]
    pub fn after_crash_keeping(&self, unsynced: usize) -> Self {
        let inner = self.inner.read();
        let mut synced = inner.synced.clone();
        for writes in inner.unsynced.iter().take(unsynced) {
            apply(&mut synced, writes);
        }
        let inner = Inner {
            live: synced.clone(),
            synced,
            ..Inner::default()
        };
        Self {
            inner: RwLock::new(inner),
            gate: Gate::new(),
            manual: true,
        }
    }

    /// Transactions that a crash at this moment may take back.
    #[must_use]
    pub fn unsynced(&self) -> usize {
        self.inner.read().unsynced.len()
    }

    /// As on a nearly full file system: from now on transactions for less than `least` are refused with
    /// [`MetaError::NoSpace`].
    pub fn admit_from(&self, least: Purpose) {
        self.inner.write().least = least;
    }

    /// Makes the disk of this store fail from now on: nothing more is applied or becomes durable.
    pub fn fail(&self, error: MetaError) {
        let _quiet = self.inner.write();
        self.gate.fail(error);
    }
}

fn apply(map: &mut BTreeMap<Bytes, Bytes>, writes: &Writes) {
    for (key, value) in writes {
        match value {
            Some(value) => map.insert(key.clone(), value.clone()),
            None => map.remove(key),
        };
    }
}

impl Read for MemStore {
    fn get(&self, key: &[u8]) -> Result<Option<Bytes>, MetaError> {
        Ok(self.inner.read().live.get(key).cloned())
    }

    fn scan(&self, start: &[u8], end: &[u8], limit: usize) -> Result<Vec<Pair>, MetaError> {
        let inner = self.inner.read();
        let pairs = range(&inner.live, start, end).take(limit);
        Ok(pairs.map(|(k, v)| (k.clone(), v.clone())).collect())
    }
}

struct MemTx<'m> {
    live: &'m BTreeMap<Bytes, Bytes>,
    overlay: Overlay,
}

impl Read for MemTx<'_> {
    fn get(&self, key: &[u8]) -> Result<Option<Bytes>, MetaError> {
        Ok(match self.overlay.get(key) {
            Some(written) => written,
            None => self.live.get(key).cloned(),
        })
    }

    fn scan(&self, start: &[u8], end: &[u8], limit: usize) -> Result<Vec<Pair>, MetaError> {
        let below = range(self.live, start, end).map(|(k, v)| Ok((k.clone(), v.clone())));
        self.overlay.scan(start, end, limit, below)
    }
}

impl Tx for MemTx<'_> {
    fn purpose(&mut self, purpose: Purpose) {
        self.overlay.raise_purpose(purpose);
    }

    fn put(&mut self, key: &[u8], value: &[u8]) {
        self.overlay.put(key, value);
    }

    fn delete(&mut self, key: &[u8]) {
        self.overlay.delete(key);
    }
}

impl MetaStore for MemStore {
    fn transact(&self, body: &mut TxBody<'_>) -> Result<Seq, MetaError> {
        let mut inner = self.inner.write();
        if self.gate.failure().is_some() {
            return Err(MetaError::Poisoned);
        }
        let mut tx = MemTx {
            live: &inner.live,
            overlay: Overlay::new(),
        };
        let outcome = body(&mut tx)?;
        let overlay = tx.overlay;
        if outcome == TxOutcome::Abort || overlay.is_empty() {
            return Ok(Seq(inner.applied));
        }
        let purpose = overlay.purpose();
        let writes = overlay.into_writes()?;
        if purpose < inner.least {
            return Err(MetaError::NoSpace);
        }
        apply(&mut inner.live, &writes);
        inner.applied += 1;
        let seq = Seq(inner.applied);
        if self.manual {
            inner.unsynced.push(writes);
        } else {
            drop(inner);
            self.gate.advance(seq);
        }
        Ok(seq)
    }

    fn applied(&self) -> Seq {
        Seq(self.inner.read().applied)
    }

    fn durable_through(&self) -> Seq {
        self.gate.durable_through()
    }

    fn durable(&self, seq: Seq) -> BoxFuture<'_, Result<(), MetaError>> {
        self.gate.wait_boxed(seq)
    }

    fn disk_bytes(&self) -> u64 {
        0
    }
}

#[cfg(test)]
mod tests {
    //! Goal: the contract, and what a crash of a manual store takes and leaves.

    use super::*;
    use crate::contract::{Subject, block_on};
    use std::sync::Arc;

    struct Durable;

    impl Subject for Durable {
        fn fresh(&mut self) -> Arc<dyn MetaStore> {
            Arc::new(MemStore::new())
        }
    }

    crate::contract_tests!(Durable);

    fn put(store: &MemStore, key: &[u8], value: &[u8]) -> Seq {
        let body: &mut TxBody<'_> = &mut |tx| {
            tx.put(key, value);
            Ok(TxOutcome::Commit)
        };
        store.transact(body).unwrap()
    }

    #[test]
    fn a_crash_leaves_what_was_synced_and_a_prefix_of_the_rest() {
        let store = MemStore::manual();
        put(&store, b"a", b"1");
        store.sync();
        put(&store, b"a", b"2");
        put(&store, b"b", b"3");
        assert_eq!(store.unsynced(), 2);
        let crashed = store.after_crash();
        assert_eq!(crashed.get(b"a").unwrap().as_deref(), Some(&b"1"[..]));
        assert_eq!(crashed.get(b"b").unwrap(), None);
        let lucky = store.after_crash_keeping(1);
        assert_eq!(lucky.get(b"a").unwrap().as_deref(), Some(&b"2"[..]));
        assert_eq!(lucky.get(b"b").unwrap(), None);
    }

    #[test]
    fn nothing_is_durable_before_the_sync() {
        let store = MemStore::manual();
        let seq = put(&store, b"a", b"1");
        assert_eq!(store.durable_through(), Seq(0));
        store.sync();
        assert_eq!(store.durable_through(), seq);
        block_on(store.durable(seq)).unwrap();
    }

    #[test]
    fn a_full_store_refuses_by_purpose_and_goes_on() {
        let store = MemStore::new();
        put(&store, b"a", b"1");
        store.admit_from(Purpose::Removal);
        let transact = |purpose, delete: bool| {
            store.transact(&mut |tx| {
                tx.purpose(purpose);
                tx.put(b"b", b"2");
                if delete {
                    tx.delete(b"a");
                }
                Ok(TxOutcome::Commit)
            })
        };
        for purpose in [Purpose::Ordinary, Purpose::Upkeep] {
            let refused = transact(purpose, false);
            assert!(matches!(refused, Err(MetaError::NoSpace)));
        }
        assert_eq!(transact(Purpose::Removal, false).unwrap(), Seq(2));
        assert_eq!(transact(Purpose::Ordinary, true).unwrap(), Seq(3));
        store.admit_from(Purpose::Ordinary);
        put(&store, b"c", b"3");
    }

    #[test]
    fn a_failed_disk_stops_writes_and_takes_no_acknowledgement_back() {
        let store = MemStore::manual();
        let first = put(&store, b"a", b"1");
        store.sync();
        let second = put(&store, b"a", b"2");
        store.fail(MetaError::NoSpace);
        store.sync();
        block_on(store.durable(first)).unwrap();
        block_on(store.durable(second)).unwrap_err();
        let body: &mut TxBody<'_> = &mut |tx| {
            tx.put(b"c", b"");
            Ok(TxOutcome::Commit)
        };
        assert!(matches!(store.transact(body), Err(MetaError::Poisoned)));
        assert_eq!(
            store.after_crash().get(b"a").unwrap().as_deref(),
            Some(&b"1"[..])
        );
    }
}
