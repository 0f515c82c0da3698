//! The bytes of the files of experiments. Any range is a slice of one buffer, so making and checking them costs next to
//! nothing.
//!
//! They repeat with a period that is no multiple of a stripe unit or a record. Bytes that come from a wrong stripe or
//! record differ from those expected.

use crate::{BenchError, pattern};
use bytes::Bytes;

/// After so many bytes they begin again.
const PERIOD_BYTES: u64 = (1 << 20) + 8 * 1024 + 40;

/// The source of ranges up to some length.
#[derive(Debug, Clone)]
pub(crate) struct Content {
    ring: Bytes,
}

impl Content {
    /// A source of ranges up to `len_max` bytes.
    pub(crate) fn new(len_max: u32) -> Self {
        let period = usize::try_from(PERIOD_BYTES).expect("a small number");
        let mut ring = vec![0; period];
        pattern::fill(0, &mut ring);
        let whole = period + len_max as usize;
        while ring.len() < whole {
            let more = (whole - ring.len()).min(period);
            ring.extend_from_within(..more);
        }
        Self { ring: ring.into() }
    }

    /// The bytes of a range.
    pub(crate) fn slice(&self, offset: u64, len: u32) -> Bytes {
        let at = usize::try_from(offset % PERIOD_BYTES).expect("below the period");
        self.ring.slice(at..at + len as usize)
    }

    /// Compares what was read at `offset` with what it must be.
    pub(crate) fn check(&self, offset: u64, data: &[u8]) -> Result<(), BenchError> {
        let at = usize::try_from(offset % PERIOD_BYTES).expect("below the period");
        let expected = &self.ring[at..at + data.len()];
        if data == expected {
            return Ok(());
        }
        let wrong = data.iter().zip(expected).position(|(a, b)| a != b);
        Err(BenchError::WrongBytes {
            offset: offset + wrong.unwrap_or(0) as u64,
        })
    }
}

#[cfg(test)]
mod tests {
    //! Slices agree with each other across the period, and misplaced bytes are found.
    use super::*;

    #[test]
    fn ranges_agree_where_they_overlap() {
        let content = Content::new(3_000_000);
        let whole = content.slice(PERIOD_BYTES - 100, 3_000_000);
        for (offset, len) in [(0, 100), (50, 200), (100, 4096), (1_000_000, 2_000_000)] {
            let part = content.slice(PERIOD_BYTES - 100 + offset, len);
            let at = usize::try_from(offset).unwrap();
            assert_eq!(part, whole[at..at + len as usize], "{offset} {len}");
        }
    }

    #[test]
    fn misplaced_bytes_are_found() {
        let content = Content::new(4096);
        let data = content.slice(1 << 20, 4096);
        assert!(content.check(1 << 20, &data).is_ok());
        for elsewhere in [0, 4096, 64 << 10, 2 << 20, 3 << 20, 512 << 20] {
            assert!(content.check(elsewhere, &data).is_err(), "{elsewhere}");
        }
    }
}
