//! The bytes of a message that are still to be sent, piece by piece.

use bytes::Bytes;
use fabric::FileRange;
use std::collections::VecDeque;

/// Bytes on their way out.
#[derive(Debug)]
pub(super) enum Piece {
    Bytes(Bytes),
    File(FileRange),
}

impl Piece {
    pub(super) fn len(&self) -> usize {
        match self {
            Self::Bytes(bytes) => bytes.len(),
            Self::File(range) => to_usize(range.len),
        }
    }

    /// Takes the first `count` bytes off, which it has.
    pub(super) fn split_to(&mut self, count: usize) -> Self {
        match self {
            Self::Bytes(bytes) => Self::Bytes(bytes.split_to(count)),
            Self::File(range) => {
                let mut head = range.clone();
                head.len = u32::try_from(count).expect("a part of it");
                range.offset += u64::from(head.len);
                range.len -= head.len;
                Self::File(head)
            }
        }
    }
}

/// Pieces that are sent one after the other.
#[derive(Debug)]
pub(super) struct Gather {
    pieces: VecDeque<Piece>,
    pub(super) left: u64,
    pub(super) taken: u64,
}

impl Gather {
    pub(super) fn new(pieces: Vec<Bytes>) -> Self {
        Self {
            left: total(&pieces),
            pieces: pieces.into_iter().map(Piece::Bytes).collect(),
            taken: 0,
        }
    }

    pub(super) fn of_file(range: FileRange) -> Self {
        Self {
            left: range.len.into(),
            pieces: VecDeque::from([Piece::File(range)]),
            taken: 0,
        }
    }

    /// The next bytes, at most `max` and out of one piece.
    pub(super) fn take(&mut self, max: usize) -> Option<Piece> {
        loop {
            let head = self.pieces.front_mut()?;
            if head.len() > max {
                return (max > 0).then(|| head.split_to(max));
            }
            let whole = self.pieces.pop_front()?;
            if whole.len() > 0 {
                return Some(whole);
            }
        }
    }
}

pub(super) fn total(data: &[Bytes]) -> u64 {
    data.iter().map(|piece| piece.len() as u64).sum()
}

/// 32 bits always fit: the targets have 32 at least.
pub(super) fn to_usize(n: u32) -> usize {
    usize::try_from(n).expect("usize has 32 bits at least")
}
