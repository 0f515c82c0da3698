//! Memory of RDMA connections: pools of a few sizes.
//!
//! The pools have no limit of their own. What a peer can make this process take is bounded before: receives by credits,
//! records by the receive budget, files by the send budget; what our own calls take by `calls_max`.

use std::sync::Arc;

use fabric::{Buffer, Pool, PoolConfig};

/// Bytes of a buffer in each pool: the usual sizes of reads and writes and steps between them, with room for what stands around
/// those. A store may keep what was fetched into one ([`crate::record_buffer_bytes`]), so little of it should be unused.
const SIZES: [usize; 10] = [
    8 << 10,
    (16 + 4) << 10,
    (64 + 8) << 10,
    (128 + 8) << 10,
    (192 + 8) << 10,
    (256 + 8) << 10,
    (384 + 8) << 10,
    (512 + 8) << 10,
    (768 + 8) << 10,
    (1024 + 128) << 10,
];
/// Buffers from this size on are slabs of their own: what keeps one keeps nothing else.
const OWN_SLAB_BYTES: usize = 64 << 10;
/// Bytes of a slab of smaller ones. So large a piece comes from the system zeroed, and costs nothing until it is touched.
const SLAB_BYTES: usize = 4 << 20;
/// Most bytes of buffers of one size that nobody has, from [`OWN_SLAB_BYTES`] on.
const FREE_BYTES_MAX: usize = 16 << 20;

/// Bytes of a slab of receives.
const RECEIVE_SLAB_BYTES: usize = 256 << 10;

/// Where buffers come from. Cheap to clone.
#[derive(Debug, Clone)]
pub(super) struct Memory(Arc<Pools>);

#[derive(Debug)]
struct Pools {
    receives: Pool,
    sizes: [Pool; SIZES.len()],
}

impl Memory {
    /// Memory whose receives take messages of `inline_bytes`.
    pub(super) fn new(inline_bytes: usize) -> Self {
        Self(Arc::new(Pools {
            receives: receives(inline_bytes),
            sizes: SIZES.map(|bytes| match bytes {
                0..OWN_SLAB_BYTES => pool(bytes, SLAB_BYTES),
                _ => pool(bytes, bytes),
            }),
        }))
    }

    /// A buffer for one message.
    pub(super) fn receive(&self) -> Buffer {
        take(&self.0.receives)
    }

    /// A buffer of at least `bytes`, of which so many count.
    pub(super) fn take(&self, bytes: usize) -> Buffer {
        let fits = |pool: &&Pool| pool.buffer_bytes() >= bytes;
        let mut buffer = match self.0.sizes.iter().find(fits) {
            Some(pool) => take(pool),
            None => take(&pool(bytes, bytes)),
        };
        buffer.set_len(bytes);
        buffer
    }
}

/// Bytes of the buffer that [`Memory::take`] gives for so many.
pub(crate) fn buffer_bytes(bytes: usize) -> usize {
    let size = SIZES.iter().find(|size| **size >= bytes);
    size.copied().unwrap_or(bytes)
}

/// Receives of one size.
pub(super) fn receives(bytes: usize) -> Pool {
    pool(bytes, RECEIVE_SLAB_BYTES)
}

fn pool(buffer_bytes: usize, slab_bytes: usize) -> Pool {
    Pool::new(PoolConfig {
        buffer_bytes,
        slab_bytes,
        bytes_max: usize::MAX,
        free_bytes_max: FREE_BYTES_MAX,
    })
}

fn take(pool: &Pool) -> Buffer {
    pool.take().expect("the pool has no limit")
}

#[cfg(test)]
mod tests {
    //! Goal: what a store keeps of a record keeps little else.
    use super::*;

    #[test]
    fn bulk_fills_most_of_its_buffer() {
        for kib in 64..=1024 {
            // A WRITE and what stands around its data.
            let record = (kib << 10) + 300;
            let bytes = buffer_bytes(record);
            assert!(record <= bytes && bytes <= record * 2, "{kib} KiB");
            assert_eq!(Memory::new(4096).take(record).capacity(), bytes);
        }
        for kib in [64, 128, 256, 512, 1024] {
            let bytes = buffer_bytes((kib << 10) + 300);
            assert!(bytes <= (kib << 10) * 9 / 8, "{kib} KiB");
        }
        assert_eq!(buffer_bytes(2 << 20), 2 << 20);
    }
}
