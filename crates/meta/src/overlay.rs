//! The writes of a running transaction, over whatever the store holds.
//!
//! Owns the limits of keys, values and transactions, and the merge of a scan with the transaction's own
//! writes, so that every adapter answers alike. It knows no engine: an adapter hands in what lies below.
//!
//! Entry points: [`Overlay`], [`merge`].

use crate::{KEY_BYTES_MAX, MetaError, Pair, Purpose, TX_BYTES_MAX, VALUE_BYTES_MAX};
use bytes::Bytes;
use std::cmp::Ordering;
use std::collections::{BTreeMap, btree_map};
use std::ops::Bound;

/// Bytes that a write costs beside its key and value, in the sum against [`TX_BYTES_MAX`].
pub const WRITE_OVERHEAD_BYTES: usize = 64;

/// Writes by key; `None` removes.
pub type Writes = BTreeMap<Bytes, Option<Bytes>>;

/// One entry of [`Writes`].
pub type Write = (Bytes, Option<Bytes>);

/// The buffered writes of one transaction.
#[derive(Debug, Default)]
pub struct Overlay {
    writes: Writes,
    total_bytes: usize,
    too_large: bool,
    purpose: Purpose,
}

impl Overlay {
    /// An overlay without writes.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Sets `key`.
    pub fn put(&mut self, key: &[u8], value: &[u8]) {
        self.write(key, Some(value));
    }

    /// Removes `key`.
    pub fn delete(&mut self, key: &[u8]) {
        self.write(key, None);
    }

    /// As [`crate::Tx::purpose`].
    pub fn raise_purpose(&mut self, purpose: Purpose) {
        self.purpose = self.purpose.max(purpose);
    }

    /// What the transaction is for: what was said, and a removal when it deletes a key.
    #[must_use]
    pub fn purpose(&self) -> Purpose {
        if self.writes.values().any(Option::is_none) {
            Purpose::Removal
        } else {
            self.purpose
        }
    }

    fn write(&mut self, key: &[u8], value: Option<&[u8]>) {
        let value_bytes = value.map_or(0, <[u8]>::len);
        let cost = key.len() + value_bytes + WRITE_OVERHEAD_BYTES;
        self.too_large |= key.is_empty()
            || key.len() > KEY_BYTES_MAX
            || value_bytes > VALUE_BYTES_MAX
            || self.total_bytes + cost > TX_BYTES_MAX;
        // A transaction that cannot commit keeps nothing more, so a runaway body is bounded too.
        if self.too_large {
            return;
        }
        self.total_bytes += cost;
        let value = value.map(Bytes::copy_from_slice);
        self.writes.insert(Bytes::copy_from_slice(key), value);
    }

    /// What this transaction wrote to `key`: nothing yet, a removal or a value.
    #[must_use]
    pub fn get(&self, key: &[u8]) -> Option<Option<Bytes>> {
        self.writes.get(key).cloned()
    }

    /// Whether no write was made.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.writes.is_empty() && !self.too_large
    }

    /// What the writes cost in the sum against [`TX_BYTES_MAX`].
    #[must_use]
    pub fn bytes(&self) -> usize {
        self.total_bytes
    }

    /// The writes, for the engine.
    ///
    /// # Errors
    /// [`MetaError::TooLarge`] when a key, a value or the sum was above its limit.
    pub fn into_writes(self) -> Result<Writes, MetaError> {
        if self.too_large {
            Err(MetaError::TooLarge)
        } else {
            Ok(self.writes)
        }
    }

    /// Pairs with `start <= key < end`, at most `limit`. They are those of `below` as this transaction has changed
    /// them; `below` must be ascending and within the same bounds.
    ///
    /// # Errors
    /// The first error that `below` yields before `limit` pairs are found.
    pub fn scan(
        &self,
        start: &[u8],
        end: &[u8],
        limit: usize,
        below: impl Iterator<Item = Result<Pair, MetaError>>,
    ) -> Result<Vec<Pair>, MetaError> {
        let above = range(&self.writes, start, end);
        let above = above.map(|(key, value)| (key.clone(), value.clone()));
        merge(above, below).take(limit).collect()
    }

    /// Pairs of the store that a scan may need beyond its limit: one for each write that may remove or replace one.
    #[must_use]
    pub fn writes_count(&self) -> usize {
        self.writes.len()
    }
}

/// `below` as the writes `above` have changed it. Both must be ascending and within the same bounds.
///
/// An error of `below` is passed on where it stands.
pub fn merge(
    above: impl Iterator<Item = Write>,
    below: impl Iterator<Item = Result<Pair, MetaError>>,
) -> impl Iterator<Item = Result<Pair, MetaError>> {
    let below = below.map(|pair| pair.map(|(key, value)| (key, Some(value))));
    let order = |new: &Result<Write, MetaError>, old: &Result<Write, MetaError>| match (new, old) {
        (_, Err(_)) => Ordering::Greater,
        (Err(_), Ok(_)) => Ordering::Less,
        (Ok((new, _)), Ok((old, _))) => new.cmp(old),
    };
    let newest = newest_of_each(above.map(Ok), below, order);
    newest.filter_map(|write| match write {
        Ok((key, value)) => value.map(|value| Ok((key, value))),
        Err(error) => Some(Err(error)),
    })
}

/// The entries of two ascending sequences, ascending by `order`. Of equal ones that of `newer`.
pub fn newest_of_each<T>(
    newer: impl Iterator<Item = T>,
    older: impl Iterator<Item = T>,
    order: impl Fn(&T, &T) -> Ordering,
) -> impl Iterator<Item = T> {
    let (mut newer, mut older) = (newer.peekable(), older.peekable());
    std::iter::from_fn(move || {
        let next = match (newer.peek(), older.peek()) {
            (Some(new), Some(old)) => order(new, old),
            (None, _) => Ordering::Greater,
            (_, None) => Ordering::Less,
        };
        match next {
            Ordering::Less => newer.next(),
            Ordering::Greater => older.next(),
            Ordering::Equal => {
                older.next();
                newer.next()
            }
        }
    })
}

/// The entries with `start <= key < end`; none when the bounds are the wrong way round.
pub(crate) fn range<'m, V>(
    map: &'m BTreeMap<Bytes, V>,
    start: &[u8],
    end: &[u8],
) -> btree_map::Range<'m, Bytes, V> {
    let end = if start < end { end } else { start };
    map.range::<[u8], _>((Bound::Included(start), Bound::Excluded(end)))
}
