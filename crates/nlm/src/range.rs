//! What a lock covers. On the wire a length of zero means to the end, and nothing forbids a sum beyond 64 bits.

use std::fmt;

/// A non-empty range of bytes, inclusive at both ends, so that the last byte of a 64-bit file has a name.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct NlmRange {
    first: u64,
    last: u64,
}

/// A range ends beyond the last byte that 64 bits can name: `NLM4_FBIG` (RFC 1813 §6.3.1).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RangeOverflow {
    /// First byte that was asked for.
    pub l_offset: u64,
    /// Bytes that were asked for.
    pub l_len: u64,
}

impl fmt::Display for RangeOverflow {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{} bytes from {} on end beyond 2^64",
            self.l_len, self.l_offset
        )
    }
}

impl std::error::Error for RangeOverflow {}

impl NlmRange {
    /// From `l_offset` and `l_len`; a length of zero means to the end (RFC 1813 §6.1.4).
    ///
    /// # Errors
    /// [`RangeOverflow`] when a byte of it has no 64-bit offset.
    pub const fn new(l_offset: u64, l_len: u64) -> Result<Self, RangeOverflow> {
        let last = match l_len {
            0 => Some(u64::MAX),
            _ => l_offset.checked_add(l_len - 1),
        };
        match last {
            Some(last) => Ok(Self {
                first: l_offset,
                last,
            }),
            None => Err(RangeOverflow { l_offset, l_len }),
        }
    }

    /// The first byte: `l_offset`.
    #[must_use]
    pub const fn first(self) -> u64 {
        self.first
    }

    /// The last byte; all ones when the range has no end.
    #[must_use]
    pub const fn last(self) -> u64 {
        self.last
    }

    /// The byte after the last; `None` when the range has no end.
    #[must_use]
    pub const fn end(self) -> Option<u64> {
        self.last.checked_add(1)
    }

    /// `l_len`: zero when the range has no end.
    #[must_use]
    pub const fn l_len(self) -> u64 {
        match self.end() {
            Some(end) => end - self.first,
            None => 0,
        }
    }

    /// Whether both have a byte.
    #[must_use]
    pub const fn overlaps(self, other: Self) -> bool {
        self.first <= other.last && other.first <= self.last
    }
}
