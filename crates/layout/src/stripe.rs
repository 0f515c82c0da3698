//! Stripe arithmetic of the files layout with sparse packing (RFC 8881 §13.4, decision 2). It says which data server
//! holds a byte, and what a file's size says about its objects and back.
//!
//! Sparse means that an object's offset is the file's offset. The list of stripe indices is the
//! identity (0, 1, 2, ... width-1) and the pattern offset is 0, so "stripe index" and "place in the
//! group's list of data servers" are one number here.

use crate::GROUP_WIDTH_MAX;

/// A stripe unit is a multiple of this: the low six bits of `nfl_util` are flags (RFC 8881 §13.3).
pub const UNIT_STEP_BYTES: u32 = 64;

/// How a file is cut over the data servers of its group.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Striping {
    unit_bytes: u32,
    width: u32,
    first_index: u32,
}

/// Why a striping is impossible.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum StripingError {
    /// The unit is 0 or not a multiple of [`UNIT_STEP_BYTES`].
    Unit(u32),
    /// The width is 0 or above [`GROUP_WIDTH_MAX`].
    Width(u32),
    /// The first index is not below the width.
    FirstIndex(u32),
}

impl std::fmt::Display for StripingError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Unit(v) => write!(
                f,
                "stripe unit {v} is not a multiple of {UNIT_STEP_BYTES} bytes"
            ),
            Self::Width(v) => write!(f, "width {v} is not in 1..={GROUP_WIDTH_MAX}"),
            Self::FirstIndex(v) => write!(f, "first stripe index {v} is not below the width"),
        }
    }
}

impl std::error::Error for StripingError {}

/// A run of bytes that lie on one data server, at the same offset in file and object.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Extent {
    /// Place of the data server in the group.
    pub index: u32,
    /// First byte.
    pub offset: u64,
    /// Bytes, never 0.
    pub len: u64,
}

impl Striping {
    /// A striping in `unit_bytes` over `width` data servers, the first unit on `first_index`.
    ///
    /// # Errors
    /// [`StripingError`].
    pub const fn new(unit_bytes: u32, width: u32, first_index: u32) -> Result<Self, StripingError> {
        if unit_bytes == 0 || !unit_bytes.is_multiple_of(UNIT_STEP_BYTES) {
            return Err(StripingError::Unit(unit_bytes));
        }
        if width == 0 || width > GROUP_WIDTH_MAX {
            return Err(StripingError::Width(width));
        }
        if first_index >= width {
            return Err(StripingError::FirstIndex(first_index));
        }
        Ok(Self {
            unit_bytes,
            width,
            first_index,
        })
    }

    /// Bytes of a stripe unit.
    #[must_use]
    pub const fn unit_bytes(self) -> u32 {
        self.unit_bytes
    }

    /// The unit as a power of two; `None` when it is none.
    #[must_use]
    pub fn unit_log2(self) -> Option<u8> {
        let log2 = u8::try_from(self.unit_bytes.trailing_zeros()).ok();
        log2.filter(|_| self.unit_bytes.is_power_of_two())
    }

    /// Data servers in the group.
    #[must_use]
    pub const fn width(self) -> u32 {
        self.width
    }

    /// Place of the data server that holds byte 0 (`nfl_first_stripe_index`).
    #[must_use]
    pub const fn first_index(self) -> u32 {
        self.first_index
    }

    /// Place of the data server that holds byte `offset`:
    /// (offset / unit + first index) mod width (RFC 8881 §13.4.1).
    #[must_use]
    pub fn index_of(self, offset: u64) -> u32 {
        self.index_of_unit(offset / u64::from(self.unit_bytes))
    }

    fn index_of_unit(self, unit: u64) -> u32 {
        // The remainder first: unit + first_index must not overflow.
        let width = u64::from(self.width);
        let index = (unit % width + u64::from(self.first_index)) % width;
        u32::try_from(index).expect("a remainder of a u32 is one")
    }

    /// The first byte at or after `offset` that lies on the data server at `index`; `u64::MAX` when there is none.
    #[must_use]
    pub fn next_own(self, index: u32, offset: u64) -> u64 {
        if index >= self.width {
            return u64::MAX;
        }
        let unit_bytes = u64::from(self.unit_bytes);
        let unit = offset / unit_bytes;
        let ahead = (index + self.width - self.index_of_unit(unit)) % self.width;
        if ahead == 0 {
            return offset;
        }
        let own = unit + u64::from(ahead);
        own.saturating_mul(unit_bytes)
    }

    /// Cuts `len` bytes from `offset` on into runs on one data server each, in file order. Bytes
    /// beyond offset 2^64 - 1 do not exist and are left out.
    #[must_use]
    pub fn extents(self, offset: u64, len: u64) -> Extents {
        Extents {
            striping: self,
            at: offset,
            left: len.min(u64::MAX - offset),
        }
    }

    /// Whether all of `len` bytes from `offset` on lie on the data server at `index`. No bytes do.
    #[must_use]
    pub fn has_all(self, index: u32, offset: u64, len: u64) -> bool {
        let unit_bytes = u64::from(self.unit_bytes);
        let Some(last) = offset.checked_add(len.saturating_sub(1)) else {
            return false;
        };
        let is_one_unit = self.width == 1 || offset / unit_bytes == last / unit_bytes;
        len == 0 || is_one_unit && self.index_of(offset) == index
    }

    /// Whether any of `len` bytes from `offset` on lies on the data server at `index`.
    #[must_use]
    pub fn touches(self, index: u32, offset: u64, len: u64) -> bool {
        let end = offset.saturating_add(len);
        index < self.width && end > offset && self.object_end(index, end) > offset
    }

    /// The end of the object on the data server at `index` in a file of `file_size_bytes`. It is one more than the
    /// highest byte that the object may hold, 0 when it holds none.
    #[must_use]
    pub fn object_end(self, index: u32, file_size_bytes: u64) -> u64 {
        let Some(last) = file_size_bytes.checked_sub(1) else {
            return 0;
        };
        if index >= self.width {
            return 0;
        }
        let unit_bytes = u64::from(self.unit_bytes);
        let last_unit = last / unit_bytes;
        // How many units before the last one the object's own last unit lies.
        let back = u64::from((self.index_of_unit(last_unit) + self.width - index) % self.width);
        match last_unit.checked_sub(back) {
            None => 0,
            Some(_) if back == 0 => file_size_bytes,
            // At most (last_unit - 1 + 1) * unit_bytes, so no overflow.
            Some(own) => (own + 1) * unit_bytes,
        }
    }

    /// The size of a file whose objects have `object_sizes` (by place in the group; a missing object has size 0). It is
    /// one more than the highest byte that some object holds within its own stripes.
    ///
    /// It is exact when every object ends at its last written byte. A hole at the end of a file that
    /// was extended by SETATTR is known to the MDS alone.
    #[must_use]
    pub fn file_size(self, object_sizes: &[u64]) -> u64 {
        (0..self.width)
            .zip(object_sizes)
            .map(|(index, size)| self.object_end(index, *size))
            .max()
            .unwrap_or(0)
    }
}

/// Runs of bytes by data server, made by [`Striping::extents`].
#[derive(Debug, Clone)]
pub struct Extents {
    striping: Striping,
    at: u64,
    left: u64,
}

impl Iterator for Extents {
    type Item = Extent;

    fn next(&mut self) -> Option<Extent> {
        if self.left == 0 {
            return None;
        }
        let unit_bytes = u64::from(self.striping.unit_bytes);
        let len = if self.striping.width == 1 {
            // One data server holds all of it: cutting at units would only make more calls.
            self.left
        } else {
            self.left.min(unit_bytes - self.at % unit_bytes)
        };
        let extent = Extent {
            index: self.striping.index_of(self.at),
            offset: self.at,
            len,
        };
        self.at += len;
        self.left -= len;
        Some(extent)
    }
}
