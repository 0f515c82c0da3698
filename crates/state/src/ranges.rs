//! A set of locked byte ranges of one owner on one file, with POSIX rules. A new lock replaces what it overlaps,
//! neighbours of one kind merge, and an unlock may split.
//!
//! Ranges are inclusive at both ends, so that the last byte of a 64-bit file has a name.

use std::collections::BTreeMap;

use nfs4::NfsStatus;

/// Kind of a byte-range lock, without its blocking flavour.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LockKind {
    /// READ_LT: shared.
    Read,
    /// WRITE_LT: exclusive.
    Write,
}

/// A non-empty range of bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LockRange {
    pub(crate) first: u64,
    pub(crate) last: u64,
}

impl LockRange {
    /// From `offset4` and `length4`; a length of all ones means to the end of any file
    /// (RFC 8881 §18.10.3).
    ///
    /// # Errors
    /// `Inval` for length zero or a sum beyond 2^64 - 1.
    pub fn new(offset: u64, length: u64) -> Result<Self, NfsStatus> {
        let last = match length {
            0 => return Err(NfsStatus::Inval),
            u64::MAX => u64::MAX,
            _ => offset.checked_add(length).ok_or(NfsStatus::Inval)? - 1,
        };
        Ok(Self {
            first: offset,
            last,
        })
    }

    /// From the first byte and the last one; `last` all ones is to the end of any file.
    ///
    /// # Errors
    /// `Inval` when it ends before it begins.
    pub fn between(first: u64, last: u64) -> Result<Self, NfsStatus> {
        if last < first {
            return Err(NfsStatus::Inval);
        }
        Ok(Self { first, last })
    }

    /// `offset4`.
    #[must_use]
    pub fn offset(self) -> u64 {
        self.first
    }

    /// `length4`: all ones when the range has no end.
    #[must_use]
    pub fn length(self) -> u64 {
        if self.last == u64::MAX {
            u64::MAX
        } else {
            self.last - self.first + 1
        }
    }
}

/// The ranges of one owner: disjoint, merged, in ascending order.
#[derive(Debug, Default)]
pub(crate) struct RangeSet {
    by_first: BTreeMap<u64, (u64, LockKind)>,
}

impl RangeSet {
    pub(crate) fn len(&self) -> usize {
        self.by_first.len()
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.by_first.is_empty()
    }

    /// Ranges that overlap `range`, in descending order: as the set is disjoint, the walk stops at
    /// the first that ends before it.
    fn overlapping(&self, range: LockRange) -> impl Iterator<Item = (LockRange, LockKind)> {
        self.by_first
            .range(..=range.last)
            .rev()
            .map(|(first, (last, kind))| {
                (
                    LockRange {
                        first: *first,
                        last: *last,
                    },
                    *kind,
                )
            })
            .take_while(move |(r, _)| r.last >= range.first)
    }

    /// The lowest range that another owner's lock of `kind` would conflict with.
    pub(crate) fn conflict(
        &self,
        range: LockRange,
        kind: LockKind,
    ) -> Option<(LockRange, LockKind)> {
        self.overlapping(range)
            .filter(|(_, held)| kind == LockKind::Write || *held == LockKind::Write)
            .last()
    }

    /// Whether unlocking `range` would cut one range in two.
    pub(crate) fn splits(&self, range: LockRange) -> bool {
        self.overlapping(range)
            .any(|(held, _)| held.first < range.first && held.last > range.last)
    }

    /// Unlocks `range`.
    pub(crate) fn clear(&mut self, range: LockRange) {
        let hit: Vec<_> = self.overlapping(range).collect();
        for (held, kind) in hit {
            self.by_first.remove(&held.first);
            if held.first < range.first {
                self.by_first.insert(held.first, (range.first - 1, kind));
            }
            if held.last > range.last {
                self.by_first.insert(range.last + 1, (held.last, kind));
            }
        }
    }

    /// Locks `range`, whatever it held before. The set grows by at most two ranges.
    pub(crate) fn set(&mut self, range: LockRange, kind: LockKind) {
        self.clear(range);
        let mut merged = range;
        if let Some(below) = range.first.checked_sub(1)
            && let Some((first, (last, held))) = self.by_first.range(..=below).next_back()
            && (*last, *held) == (below, kind)
        {
            merged.first = *first;
        }
        if let Some(above) = range.last.checked_add(1)
            && let Some((last, held)) = self.by_first.get(&above)
            && *held == kind
        {
            merged.last = *last;
            self.by_first.remove(&above);
        }
        self.by_first.insert(merged.first, (merged.last, kind));
    }

    /// All ranges, in ascending order.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (LockRange, LockKind)> {
        self.by_first.iter().map(|(first, (last, kind))| {
            (
                LockRange {
                    first: *first,
                    last: *last,
                },
                *kind,
            )
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn ranges_end_where_the_protocol_says() {
        let inval = Err(NfsStatus::Inval);
        assert_eq!(LockRange::new(5, 0), inval);
        assert_eq!(LockRange::new(u64::MAX, 1), inval);
        assert_eq!(LockRange::new(2, u64::MAX - 1), inval);
        let whole = LockRange::new(0, u64::MAX).unwrap();
        assert_eq!((whole.first, whole.last), (0, u64::MAX));
        let end = LockRange::new(u64::MAX, u64::MAX).unwrap();
        assert_eq!((end.offset(), end.length()), (u64::MAX, u64::MAX));
        let most = LockRange::new(1, u64::MAX - 1).unwrap();
        assert_eq!((most.last, most.length()), (u64::MAX - 1, u64::MAX - 1));
    }

    #[test]
    fn the_last_byte_splits_and_merges() {
        let mut set = RangeSet::default();
        set.set(LockRange::new(0, u64::MAX).unwrap(), LockKind::Read);
        set.set(LockRange::new(u64::MAX, u64::MAX).unwrap(), LockKind::Write);
        assert_eq!(set.len(), 2);
        set.set(LockRange::new(u64::MAX, u64::MAX).unwrap(), LockKind::Read);
        assert_eq!(set.len(), 1);
        set.clear(LockRange::new(0, u64::MAX).unwrap());
        assert!(set.is_empty());
    }

    const BYTES: usize = 24;

    /// Per-byte truth, where the last byte stands for all bytes from there to the end.
    fn bytes_of(set: &RangeSet) -> Vec<Option<LockKind>> {
        let mut out = vec![None; BYTES];
        for (range, kind) in set.iter() {
            for (i, byte) in out.iter_mut().enumerate() {
                if range.first <= i as u64 && i as u64 <= range.last {
                    assert_eq!(*byte, None, "ranges overlap");
                    *byte = Some(kind);
                }
            }
        }
        out
    }

    proptest! {
        #![proptest_config(ProptestConfig { cases: 512, failure_persistence: None, ..ProptestConfig::default() })]

        /// Every sequence of locks and unlocks equals the naive per-byte model, and the set holds
        /// exactly the maximal runs.
        #[test]
        fn sets_equal_a_byte_map(
            steps in prop::collection::vec((0..BYTES as u64, 1..BYTES as u64, 0..4_u8), 1..60)
        ) {
            let mut set = RangeSet::default();
            let mut model = vec![None; BYTES];
            for (offset, length, action) in steps {
                let to_end = action == 3 || offset + length >= BYTES as u64;
                let range = LockRange::new(offset, if to_end { u64::MAX } else { length }).unwrap();
                let kind = match action {
                    0 | 3 => Some(LockKind::Read),
                    1 => Some(LockKind::Write),
                    _ => None,
                };
                let before = set.len();
                match kind {
                    Some(kind) => set.set(range, kind),
                    None => set.clear(range),
                }
                prop_assert!(set.len() <= before + 2);
                for (i, byte) in model.iter_mut().enumerate() {
                    if range.first <= i as u64 && i as u64 <= range.last {
                        *byte = kind;
                    }
                }
                prop_assert_eq!(bytes_of(&set), model.clone());
                let runs = (0..BYTES)
                    .filter(|i| model[*i].is_some() && (*i == 0 || model[*i] != model[*i - 1]))
                    .count();
                prop_assert_eq!(set.len(), runs);
                for probe in 0..BYTES as u64 {
                    let one = LockRange::new(probe, 2).unwrap();
                    let seen = |w: bool| (probe..probe + 2)
                        .filter_map(|i| model[usize::try_from(i).unwrap().min(BYTES - 1)])
                        .any(|k| w || k == LockKind::Write);
                    prop_assert_eq!(set.conflict(one, LockKind::Write).is_some(), seen(true));
                    prop_assert_eq!(set.conflict(one, LockKind::Read).is_some(), seen(false));
                }
            }
        }
    }
}
