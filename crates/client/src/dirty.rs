//! Written data of one file that may still be lost: kept until COMMIT and LAYOUTCOMMIT have answered for them.
//!
//! # Ownership
//! The table owns the bytes; a piece is never shared out except as a cheap clone for sending again.
//!
//! # Ordering
//! Pieces never overlap: a newer write cuts the older ones, so that sending everything again in any order gives the
//! newest content. Sequence numbers tell which pieces a COMMIT was sent after.
//!
//! # Failure
//! A write verifier other than the one that a piece was written under means that the piece may be gone (RFC 8881 §18.3.3).

use bytes::Bytes;
use nfs4::Verifier;
use std::collections::BTreeMap;

/// A run of bytes and where they were written.
#[derive(Debug, Clone)]
pub(crate) struct Piece<T> {
    pub(crate) data: Bytes,
    pub(crate) target: T,
    pub(crate) verifier: Verifier,
    seq: u64,
    lost: bool,
}

/// The pieces of a file, by offset. `T` names a target that is committed as one.
#[derive(Debug)]
pub(crate) struct Dirty<T> {
    pieces: BTreeMap<u64, Piece<T>>,
    bytes: u64,
    seq: u64,
}

impl<T> Default for Dirty<T> {
    fn default() -> Self {
        Self {
            pieces: BTreeMap::new(),
            bytes: 0,
            seq: 0,
        }
    }
}

impl<T: Clone> Dirty<T> {
    /// Bytes that are kept.
    pub(crate) fn bytes(&self) -> u64 {
        self.bytes
    }

    /// The end of the last piece.
    pub(crate) fn end(&self) -> u64 {
        self.pieces
            .last_key_value()
            .map_or(0, |(at, p)| at + p.data.len() as u64)
    }

    /// The number of the newest write. Pieces up to it are what a COMMIT sent now covers.
    pub(crate) fn seq(&self) -> u64 {
        self.seq
    }

    /// Adds a write that may still be lost.
    pub(crate) fn insert(&mut self, offset: u64, data: Bytes, target: T, verifier: Verifier) {
        if data.is_empty() {
            return;
        }
        self.cut(offset, data.len() as u64);
        self.seq += 1;
        self.bytes += data.len() as u64;
        let piece = Piece {
            data,
            target,
            verifier,
            seq: self.seq,
            lost: false,
        };
        self.pieces.insert(offset, piece);
    }

    /// Forgets a range: it was overwritten or cut off.
    pub(crate) fn cut(&mut self, offset: u64, len: u64) {
        let end = offset.saturating_add(len);
        let before = self.pieces.range(..offset).next_back();
        let before = before.filter(|(at, p)| *at + p.data.len() as u64 > offset);
        let first = before.map_or(offset, |(at, _)| *at);
        let touched: Vec<u64> = self.pieces.range(first..end).map(|(at, _)| *at).collect();
        for at in touched {
            let Some(piece) = self.pieces.remove(&at) else {
                continue;
            };
            let piece_end = at + piece.data.len() as u64;
            let mut kept = 0;
            // Both differences are within the piece, whose length is a usize.
            let index = |to: u64| usize::try_from(to - at).expect("within a piece");
            if at < offset {
                let data = piece.data.slice(..index(offset));
                kept += data.len() as u64;
                self.pieces.insert(
                    at,
                    Piece {
                        data,
                        ..piece.clone()
                    },
                );
            }
            if piece_end > end {
                let data = piece.data.slice(index(end)..);
                kept += data.len() as u64;
                self.pieces.insert(end, Piece { data, ..piece });
            }
            self.bytes -= piece_end - at - kept;
        }
    }

    /// Every piece up to `seq`.
    pub(crate) fn up_to(&self, seq: u64) -> impl Iterator<Item = (u64, &Piece<T>)> {
        let old = move |(at, p): (&u64, &'_ Piece<T>)| (p.seq <= seq).then_some(*at);
        self.pieces
            .iter()
            .filter(move |(at, p)| old((at, p)).is_some())
            .map(|(at, p)| (*at, p))
    }

    /// Marks pieces up to `seq` as lost where `is_lost` says so; they stay until they are written again.
    pub(crate) fn lose(&mut self, seq: u64, is_lost: impl Fn(&Piece<T>) -> bool) {
        for piece in self.pieces.values_mut().filter(|p| p.seq <= seq) {
            piece.lost |= is_lost(piece);
        }
    }

    /// Forgets the pieces up to `seq` that are not lost: they are durable.
    pub(crate) fn settle(&mut self, seq: u64) {
        let mut bytes = 0;
        self.pieces.retain(|_, p| {
            let keep = p.lost || p.seq > seq;
            if !keep {
                bytes += p.data.len() as u64;
            }
            keep
        });
        self.bytes -= bytes;
    }

    /// The pieces that must be written again.
    pub(crate) fn lost(&self) -> Vec<(u64, Bytes)> {
        let lost = self.pieces.iter().filter(|(_, p)| p.lost);
        lost.map(|(at, p)| (*at, p.data.clone())).collect()
    }

    /// Lays the kept bytes over `out`, which was read from `offset` on. It must reach as far as they do.
    pub(crate) fn overlay(&self, offset: u64, out: &mut [u8]) {
        let end = offset + out.len() as u64;
        for (at, data) in self.overlapping(offset, end) {
            let (from, to) = (at.max(offset), (at + data.len() as u64).min(end));
            let index = |x: u64, base: u64| usize::try_from(x - base).expect("within a buffer");
            out[index(from, offset)..index(to, offset)]
                .copy_from_slice(&data[index(from, at)..index(to, at)]);
        }
    }

    /// Whether bytes in the range may not be at the server any more.
    pub(crate) fn overlaps(&self, offset: u64, end: u64) -> bool {
        self.overlapping(offset, end).next().is_some()
    }

    fn overlapping(&self, offset: u64, end: u64) -> impl Iterator<Item = (u64, &Bytes)> {
        let before = self.pieces.range(..offset).next_back();
        let first = before
            .filter(|(at, p)| *at + p.data.len() as u64 > offset)
            .map_or(offset, |(at, _)| *at);
        let range = if first < end { first..end } else { 0..0 };
        self.pieces.range(range).map(|(at, p)| (*at, &p.data))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const V: Verifier = Verifier { bytes: [1; 8] };

    proptest! {
        #[test]
        fn the_table_holds_the_newest_bytes(
            writes in prop::collection::vec((0usize..200, 1usize..50, any::<u8>(), 0u8..4), 1..40)
        ) {
            let mut dirty = Dirty::<()>::default();
            let mut model = vec![None; 300];
            for (offset, len, byte, kind) in writes {
                let range = offset..offset + len;
                let offset = offset as u64;
                if kind == 0 {
                    dirty.cut(offset, len as u64);
                    model[range].fill(None);
                } else {
                    dirty.insert(offset, Bytes::from(vec![byte; len]), (), V);
                    model[range].fill(Some(byte));
                }
                let held = model.iter().filter(|b| b.is_some()).count() as u64;
                prop_assert_eq!(dirty.bytes(), held);
                let end = model.iter().rposition(Option::is_some).map_or(0, |i| i + 1);
                prop_assert_eq!(dirty.end(), end as u64);
            }
            let mut out = vec![0xee; 300];
            dirty.overlay(0, &mut out);
            let want: Vec<u8> = model.iter().map(|b| b.unwrap_or(0xee)).collect();
            prop_assert_eq!(&out, &want);
            let mut part = vec![0xee; 40];
            dirty.overlay(77, &mut part);
            prop_assert_eq!(&part[..], &want[77..117]);
            for at in 0..290 {
                let any = model[at..at + 10].iter().any(Option::is_some);
                prop_assert_eq!(dirty.overlaps(at as u64, at as u64 + 10), any);
            }
        }
    }

    #[test]
    fn lost_pieces_stay_and_newer_ones_are_not_settled() {
        let mut dirty = Dirty::default();
        dirty.insert(0, Bytes::from_static(b"aaaa"), 'a', V);
        dirty.insert(4, Bytes::from_static(b"bbbb"), 'b', V);
        let seq = dirty.seq();
        dirty.insert(8, Bytes::from_static(b"cccc"), 'a', V);
        dirty.lose(seq, |p| p.target == 'a');
        dirty.settle(seq);
        assert_eq!(dirty.lost(), [(0, Bytes::from_static(b"aaaa"))]);
        assert_eq!(dirty.bytes(), 8);
        dirty.insert(0, Bytes::from_static(b"aaaa"), 'b', V);
        assert!(dirty.lost().is_empty());
        dirty.settle(dirty.seq());
        assert_eq!((dirty.bytes(), dirty.end()), (0, 0));
    }
}
