//! Segments whose payload is read into its place before their headers are looked at: what is known of them.

use crate::ddp::TAGGED_BYTES;
use crate::mpa;
use std::io::IoSliceMut;

/// Segments that are read ahead at most: with the first one half a mebibyte in frames of ours.
pub(super) const SEGMENTS_MAX: usize = 8;
/// Most pieces of a [`Room`].
const PIECES_MAX: usize = 2 * (SEGMENTS_MAX + 1);
/// Length and header of a tagged segment.
pub(super) const TAGGED_HEAD_BYTES: usize = 2 + TAGGED_BYTES;

/// What should follow the payload of a segment.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Ahead {
    /// Payload of the next segments of the message.
    pub(super) sizes: [usize; SEGMENTS_MAX],
    pub(super) count: usize,
    /// What is read after them.
    pub(super) tail: usize,
}

impl Ahead {
    pub(super) fn sizes(&self) -> &[usize] {
        &self.sizes[..self.count]
    }
}

/// Padding and CRC.
pub(super) fn trailer_bytes(ulpdu_bytes: usize) -> usize {
    mpa::pad_bytes(ulpdu_bytes) + 4
}

/// What stands between the payloads of two tagged segments.
pub(super) fn gap_bytes(ulpdu_bytes: usize) -> usize {
    trailer_bytes(ulpdu_bytes) + TAGGED_HEAD_BYTES
}

/// Where the next bytes are to be read to, in this order.
#[derive(Debug)]
pub struct Room<'a> {
    pieces: [IoSliceMut<'a>; PIECES_MAX],
    count: usize,
}

impl<'a> Room<'a> {
    pub(super) fn new() -> Self {
        Self {
            pieces: std::array::from_fn(|_| IoSliceMut::new(&mut [])),
            count: 0,
        }
    }

    pub(super) fn push(&mut self, piece: &'a mut [u8]) {
        self.pieces[self.count] = IoSliceMut::new(piece);
        self.count += 1;
    }

    /// At least one; none is empty.
    pub fn pieces(&mut self) -> &mut [IoSliceMut<'a>] {
        &mut self.pieces[..self.count]
    }
}
