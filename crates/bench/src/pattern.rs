//! The bytes of test files: a function of the offset, so that any range can be checked alone.
//!
//! Eight bytes at a time come from a mixing function, hence they neither compress nor repeat.

use crate::BenchError;
use std::fs::File;
use std::os::unix::fs::FileExt;

/// Bytes written at a time.
const CHUNK_BYTES: usize = 256 * 1024;

const WORD_BYTES: u64 = 8;

/// Mixes a number so that neighbours have nothing in common (the finisher of splitmix64).
pub(crate) fn mix(n: u64) -> u64 {
    let mut z = n.wrapping_add(0x9e37_79b9_7f4a_7c15);
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}

/// Fills `out` with the pattern's bytes from `offset`.
pub fn fill(offset: u64, out: &mut [u8]) {
    let mut at = offset;
    let mut rest = out;
    while !rest.is_empty() {
        let word = mix(at / WORD_BYTES).to_le_bytes();
        let skip = usize::try_from(at % WORD_BYTES).expect("less than a word");
        let count = rest.len().min(word.len() - skip);
        let (head, tail) = rest.split_at_mut(count);
        head.copy_from_slice(&word[skip..skip + count]);
        at = at.wrapping_add(count as u64);
        rest = tail;
    }
}

/// Compares `data` with the pattern from `offset`.
///
/// # Errors
/// [`BenchError::WrongBytes`] with the offset of the first difference.
pub fn check(offset: u64, data: &[u8]) -> Result<(), BenchError> {
    let mut expected = vec![0; data.len()];
    fill(offset, &mut expected);
    match data.iter().zip(&expected).position(|(a, b)| a != b) {
        None => Ok(()),
        Some(at) => Err(BenchError::WrongBytes {
            offset: offset + at as u64,
        }),
    }
}

/// Writes `size_bytes` of the pattern to the start of `file`, which leaves them in the page cache.
///
/// # Errors
/// [`BenchError::Io`].
pub fn write(file: &File, size_bytes: u64) -> Result<(), BenchError> {
    let mut chunk = vec![0; CHUNK_BYTES];
    let mut offset = 0;
    while offset < size_bytes {
        let left = size_bytes - offset;
        let count = usize::try_from(left).map_or(CHUNK_BYTES, |left| left.min(CHUNK_BYTES));
        fill(offset, &mut chunk[..count]);
        file.write_all_at(&chunk[..count], offset)
            .map_err(BenchError::io("write the test file"))?;
        offset += count as u64;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    //! Ranges agree with the whole, and a flipped bit is found where it is.
    use super::*;

    #[test]
    fn any_range_is_part_of_the_whole() {
        let mut whole = vec![0; 100];
        fill(0, &mut whole);
        for start in 0..20_usize {
            for len in 0..40 {
                let mut part = vec![0; len];
                fill(start as u64, &mut part);
                assert_eq!(part, whole[start..start + len], "{start} {len}");
            }
        }
    }

    #[test]
    fn the_first_wrong_byte_is_named() {
        let mut data = vec![0; 64];
        fill(7, &mut data);
        assert!(check(7, &data).is_ok());
        assert!(matches!(
            check(8, &data),
            Err(BenchError::WrongBytes { .. })
        ));
        data[5] ^= 1;
        let wrong = check(7, &data);
        assert!(matches!(wrong, Err(BenchError::WrongBytes { offset: 12 })));
    }
}
