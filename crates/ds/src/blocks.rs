//! Blocks of parts, and their sums (rules P15, P26).
//!
//! Reads objects, and decides nothing.

use bytes::Bytes;
use objects::{Content, OBJECT_BYTES_MAX, ObjectError, ObjectId, ObjectStore};
use parts::{BLOCK_BYTES, Block};
use std::sync::LazyLock;
use xxhash_rust::xxh3::xxh3_128;

/// The sum of a block in a hole.
pub(crate) static SUM_OF_ZEROS: LazyLock<Block> = LazyLock::new(|| sum_of(&[]));

/// Bytes of blocks, as they lie on the disk if `from_disk`; none beyond the end of the object. An object that is not there has none.
pub(crate) fn read_blocks(
    objects: &dyn ObjectStore,
    id: ObjectId,
    (first, count): (u64, u64),
    from_disk: bool,
) -> Result<Bytes, ObjectError> {
    let offset = first.saturating_mul(u64::from(BLOCK_BYTES));
    let len = count.saturating_mul(u64::from(BLOCK_BYTES));
    let len = len.min(OBJECT_BYTES_MAX.saturating_sub(offset));
    let len = u32::try_from(len).unwrap_or(u32::MAX);
    let read = match from_disk {
        true => objects.read_from_disk(id, offset, len),
        false => objects.read(id, offset, len).and_then(objects::whole),
    };
    match read {
        Err(ObjectError::NotFound) => Ok(Bytes::new()),
        other => other,
    }
}

/// The sums of blocks, as they lie on the disk if `from_disk`, and the bytes that were read for them. What is in a hole is zeros and
/// is not read: an object of a striped file is a hole wherever others have the stripe. An object that is not there has zeros.
pub(crate) fn block_sums(
    objects: &dyn ObjectStore,
    id: ObjectId,
    (first, count): (u64, u64),
    from_disk: bool,
) -> Result<(Vec<Block>, u64), ObjectError> {
    let block = u64::from(BLOCK_BYTES);
    let seek = |offset, what| match objects.seek(id, offset, what) {
        Err(ObjectError::NotFound) => Ok(None),
        other => other,
    };
    let end = first.saturating_add(count);
    let (mut sums, mut read_bytes) = (Vec::new(), 0);
    let zeros_until = |sums: &mut Vec<Block>, block: u64| {
        let len = usize::try_from(block - first).unwrap_or(usize::MAX);
        sums.resize(len, *SUM_OF_ZEROS);
    };
    let mut at = first;
    while at < end {
        let Some(data) = seek(at.saturating_mul(block), Content::Data)? else {
            break;
        };
        let from = data / block;
        if from >= end {
            break;
        }
        zeros_until(&mut sums, from);
        let hole = seek(data, Content::Hole)?.unwrap_or(u64::MAX);
        at = hole.div_ceil(block).clamp(from + 1, end);
        let bytes = read_blocks(objects, id, (from, at - from), from_disk)?;
        read_bytes += bytes.len() as u64;
        sums.extend((0..at - from).map(|at| sum_at(&bytes, at)));
    }
    zeros_until(&mut sums, end);
    Ok((sums, read_bytes))
}

/// The sum of a block of bytes that begin with the first block.
pub(crate) fn sum_at(bytes: &[u8], at: u64) -> Block {
    let block = BLOCK_BYTES as usize;
    let start = usize::try_from(at)
        .unwrap_or(usize::MAX)
        .saturating_mul(block);
    let rest = bytes.get(start..).unwrap_or_default();
    sum_of(&rest[..rest.len().min(block)])
}

/// The sum of a block that ends after `bytes`, zeros beyond.
pub(crate) fn sum_of(bytes: &[u8]) -> Block {
    let sum = if bytes.len() == BLOCK_BYTES as usize {
        xxh3_128(bytes)
    } else {
        let mut whole = vec![0; BLOCK_BYTES as usize];
        whole[..bytes.len()].copy_from_slice(bytes);
        xxh3_128(&whole)
    };
    Block {
        high: u64::try_from(sum >> 64).expect("64 bits"),
        #[allow(clippy::cast_possible_truncation, reason = "the lower half is meant")]
        low: sum as u64,
    }
}

#[cfg(test)]
mod tests {
    //! Goal: sums are those of the bytes, and holes are not read. Method: an object in memory with data in some blocks.
    use super::*;
    use objects::{MemObjects, MemOptions};

    const BLOCK: u64 = BLOCK_BYTES as u64;

    #[test]
    fn holes_have_the_sum_of_zeros_and_are_not_read() {
        let objects = MemObjects::new(MemOptions::default());
        let id = ObjectId {
            file_id: 1,
            generation: 1,
            place: 0,
        };
        let missing = block_sums(&objects, id, (0, 3), false).expect("zeros");
        assert_eq!(missing, (vec![*SUM_OF_ZEROS; 3], 0));
        // Of ten blocks the third and the fourth have data, and the last byte of the eighth.
        let (two, one) = (vec![7; 2 * BLOCK_BYTES as usize], [9]);
        objects.write(id, 2 * BLOCK, &two).expect("written");
        objects.write(id, 8 * BLOCK - 1, &one).expect("written");
        objects.set_size(id, 10 * BLOCK).expect("a size");
        for (first, count) in [(0, 10), (3, 5), (0, 2), (4, 3), (7, 1), (9, 4), (100, 2)] {
            let bytes = read_blocks(&objects, id, (first, count), false).expect("bytes");
            let whole: Vec<Block> = (0..count).map(|at| sum_at(&bytes, at)).collect();
            let (sums, read_bytes) = block_sums(&objects, id, (first, count), true).expect("sums");
            assert_eq!(sums, whole, "{count} from {first}");
            assert!(read_bytes <= 3 * BLOCK, "{read_bytes}");
        }
    }
}
