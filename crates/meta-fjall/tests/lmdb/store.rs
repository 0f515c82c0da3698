//! A metadata store over LMDB, for comparison only: each transaction is one of LMDB's and durable when it is over.

use crate::engine::{Engine, Transaction};
use bytes::Bytes;
use meta::{
    BoxFuture, Gate, KEY_BYTES_MAX, MetaError, MetaStore, Pair, Purpose, Read, Seq, TX_BYTES_MAX,
    Tx, TxBody, TxOutcome, VALUE_BYTES_MAX,
};
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};

/// What the limit of a transaction counts for each write beside key and value.
const WRITE_OVERHEAD_BYTES: usize = 64;

pub(crate) struct LmdbStore {
    engine: Engine,
    applied: AtomicU64,
    gate: Gate,
}

impl LmdbStore {
    pub(crate) fn open(dir: &Path) -> Self {
        Self {
            engine: Engine::open(dir).unwrap(),
            applied: AtomicU64::new(0),
            gate: Gate::new(),
        }
    }
}

fn get(tx: &Transaction<'_>, key: &[u8]) -> Result<Option<Bytes>, MetaError> {
    // LMDB takes no such key, not even to say that it has none.
    if key.is_empty() {
        return Ok(None);
    }
    Ok(tx.get(key)?.map(Bytes::copy_from_slice))
}

fn scan(
    tx: &Transaction<'_>,
    start: &[u8],
    end: &[u8],
    limit: usize,
) -> Result<Vec<Pair>, MetaError> {
    let mut pairs = Vec::new();
    let start = if start.is_empty() { &[0][..] } else { start };
    tx.each(start, |key, value| {
        let is_wanted = key < end && pairs.len() < limit;
        if is_wanted {
            pairs.push((Bytes::copy_from_slice(key), Bytes::copy_from_slice(value)));
        }
        is_wanted
    })?;
    Ok(pairs)
}

impl Read for LmdbStore {
    fn get(&self, key: &[u8]) -> Result<Option<Bytes>, MetaError> {
        get(&self.engine.read()?, key)
    }

    fn scan(&self, start: &[u8], end: &[u8], limit: usize) -> Result<Vec<Pair>, MetaError> {
        scan(&self.engine.read()?, start, end, limit)
    }
}

struct LmdbTx<'s> {
    tx: Transaction<'s>,
    bytes: usize,
    is_empty: bool,
    is_too_large: bool,
    failure: Option<MetaError>,
}

impl LmdbTx<'_> {
    /// Whether a write is within the limits.
    fn admits(&mut self, key: &[u8], value: &[u8]) -> bool {
        let cost = key.len() + value.len() + WRITE_OVERHEAD_BYTES;
        self.is_empty = false;
        self.is_too_large |= key.is_empty()
            || key.len() > KEY_BYTES_MAX
            || value.len() > VALUE_BYTES_MAX
            || self.bytes + cost > TX_BYTES_MAX;
        self.bytes += cost;
        !self.is_too_large
    }
}

impl Read for LmdbTx<'_> {
    fn get(&self, key: &[u8]) -> Result<Option<Bytes>, MetaError> {
        get(&self.tx, key)
    }

    fn scan(&self, start: &[u8], end: &[u8], limit: usize) -> Result<Vec<Pair>, MetaError> {
        scan(&self.tx, start, end, limit)
    }
}

impl Tx for LmdbTx<'_> {
    fn purpose(&mut self, _purpose: Purpose) {}

    fn put(&mut self, key: &[u8], value: &[u8]) {
        if self.admits(key, value) {
            let done = self.tx.put(key, value);
            self.failure = self.failure.take().or(done.err());
        }
    }

    fn delete(&mut self, key: &[u8]) {
        if self.admits(key, &[]) {
            let done = self.tx.delete(key);
            self.failure = self.failure.take().or(done.err());
        }
    }
}

impl MetaStore for LmdbStore {
    fn transact(&self, body: &mut TxBody<'_>) -> Result<Seq, MetaError> {
        let mut tx = LmdbTx {
            tx: self.engine.write()?,
            bytes: 0,
            is_empty: true,
            is_too_large: false,
            failure: None,
        };
        let outcome = body(&mut tx)?;
        if outcome == TxOutcome::Abort || tx.is_empty {
            return Ok(self.applied());
        }
        if tx.is_too_large {
            return Err(MetaError::TooLarge);
        }
        if let Some(failure) = tx.failure {
            return Err(failure);
        }
        // Before anybody can see it.
        let seq = Seq(self.applied.fetch_add(1, Ordering::AcqRel) + 1);
        tx.tx.commit()?;
        self.gate.advance(seq);
        Ok(seq)
    }

    fn applied(&self) -> Seq {
        Seq(self.applied.load(Ordering::Acquire))
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
