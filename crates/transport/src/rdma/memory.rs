//! Memory of RDMA connections: pools of a few sizes.
//!
//! The pools have no limit of their own. What a peer can make this process take is bounded before: receives by credits,
//! records by the receive budget, files by the send budget; what our own calls take by `calls_max`.

use std::sync::Arc;

use fabric::{Buffer, Pool, PoolConfig};

/// Bytes of a buffer in each pool: a power of four with room for what stands around it.
const SIZES: [usize; 5] = [
    8 << 10,
    (16 + 4) << 10,
    (64 + 8) << 10,
    (256 + 8) << 10,
    (1024 + 128) << 10,
];
/// Bytes of a slab. So large a piece comes from the system zeroed, and costs nothing until it is touched.
const SLAB_BYTES: usize = 4 << 20;
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
            receives: pool(inline_bytes, RECEIVE_SLAB_BYTES),
            sizes: SIZES.map(|bytes| pool(bytes, SLAB_BYTES)),
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

fn pool(buffer_bytes: usize, slab_bytes: usize) -> Pool {
    Pool::new(PoolConfig {
        buffer_bytes,
        slab_bytes,
        bytes_max: usize::MAX,
    })
}

fn take(pool: &Pool) -> Buffer {
    pool.take().expect("the pool has no limit")
}
