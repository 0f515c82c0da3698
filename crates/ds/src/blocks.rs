//! Blocks of parts, and their sums (rules P15, P26).
//!
//! Reads objects, and decides nothing.

use bytes::Bytes;
use objects::{OBJECT_BYTES_MAX, ObjectError, ObjectId, ObjectStore};
use parts::{BLOCK_BYTES, Block};
use xxhash_rust::xxh3::xxh3_128;

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
    let mut whole = vec![0; BLOCK_BYTES as usize];
    whole[..bytes.len()].copy_from_slice(bytes);
    let sum = xxh3_128(&whole);
    Block {
        high: u64::try_from(sum >> 64).expect("64 bits"),
        #[allow(clippy::cast_possible_truncation, reason = "the lower half is meant")]
        low: sum as u64,
    }
}
