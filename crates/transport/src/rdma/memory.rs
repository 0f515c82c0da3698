//! Memory of RDMA connections: pools of a few sizes.
//!
//! The pools have no limit of their own. What a peer can make this process take is bounded before: receives by credits,
//! records by the receive budget, files by the send budget; what our own calls take by `calls_max`.
//!
//! # Arenas
//! Devices register slabs, so the data path must make none: bulk of each size has slabs of [`ARENA_PARTS`] buffers, which are
//! kept while nobody uses them, up to [`FREE_BYTES_MAX`] of all sizes together. What a store keeps of a WRITE is a part of such an
//! arena: the others go on serving, and the arena stays until all of them are back. So a store that grows costs
//! a registration in [`ARENA_PARTS`] WRITEs, and one that was emptied but for one part of each arena holds [`ARENA_PARTS`] times that,
//! for further records.

use std::sync::Arc;

use fabric::{Buffer, Pool, PoolConfig, Spare};

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
/// Buffers from this size on are for bulk, and come from arenas.
const BULK_BYTES_MIN: usize = 64 << 10;
/// Buffers of an arena: 0.6 MiB of the smallest, 9 MiB of the largest.
const ARENA_PARTS: usize = 8;
/// Bytes of a slab of smaller ones, which stay. So large a piece comes from the system zeroed, and costs nothing until it is touched.
const SLAB_BYTES: usize = 4 << 20;
/// Most bytes of bulk buffers that nobody has, of all sizes together: what the budgets for receiving and sending allow to be in use at
/// a time ([`crate::Limits`]), so that no burst gives back what the next one needs.
const FREE_BYTES_MAX: usize = 512 << 20;

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
        let spare = Spare::default();
        Self(Arc::new(Pools {
            receives: receives(inline_bytes),
            sizes: SIZES.map(|bytes| match bytes {
                0..BULK_BYTES_MIN => pool(bytes, SLAB_BYTES),
                _ => Pool::sharing(
                    PoolConfig {
                        free_bytes_max: FREE_BYTES_MAX,
                        ..config(bytes, bytes * ARENA_PARTS)
                    },
                    spare.clone(),
                ),
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
            // Larger than any record or result of the default limits.
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

/// A pool that keeps its slabs.
fn pool(buffer_bytes: usize, slab_bytes: usize) -> Pool {
    Pool::new(config(buffer_bytes, slab_bytes))
}

const fn config(buffer_bytes: usize, slab_bytes: usize) -> PoolConfig {
    PoolConfig {
        buffer_bytes,
        slab_bytes,
        bytes_max: usize::MAX,
        free_bytes_max: usize::MAX,
    }
}

fn take(pool: &Pool) -> Buffer {
    pool.take().expect("the pool has no limit")
}

#[cfg(test)]
mod tests {
    //! Goal: what a store keeps of a record keeps little else, and slabs, which devices register, are few and stay.
    use super::*;
    use crate::Limits;
    use fabric::{SlabUser, slab_at};
    use std::collections::BTreeMap;
    use std::sync::Weak;
    use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

    /// Counts slabs that go.
    #[derive(Default)]
    struct Gone(AtomicUsize);

    impl SlabUser for Gone {
        fn forget(&self, _start: usize) {
            self.0.fetch_add(1, Relaxed);
        }
    }

    impl Gone {
        /// The slabs that these lie in, and how many of them in each.
        fn watch(self: &Arc<Self>, buffers: &[Buffer]) -> BTreeMap<usize, usize> {
            let mut slabs = BTreeMap::new();
            for buffer in buffers {
                let slab = slab_at(buffer.as_ptr().addr()).expect("it is in a slab");
                *slabs.entry(slab.range().start).or_default() += 1;
                let me: Weak<Self> = Arc::downgrade(self);
                slab.tell(me);
            }
            slabs
        }
    }

    #[test]
    fn bursts_of_bulk_find_the_arenas_of_those_before() {
        const COUNT: usize = 100;
        let memory = Memory::new(4096);
        let gone = Arc::new(Gone::default());
        let burst = || (0..COUNT).map(|_| memory.take(1 << 20)).collect::<Vec<_>>();
        let first = burst();
        let arenas = gone.watch(&first);
        assert_eq!(arenas.len(), COUNT.div_ceil(ARENA_PARTS));
        assert!(arenas.values().all(|parts| *parts <= ARENA_PARTS));
        drop(first);
        assert_eq!(gone.watch(&burst()), arenas);
        assert_eq!(gone.0.load(Relaxed), 0, "none was given back meanwhile");
    }

    #[test]
    fn as_much_is_kept_as_the_budgets_allow_to_be_in_use() {
        let limits = Limits::default();
        let budgets = [limits.receive_budget_bytes, limits.send_budget_bytes];
        let sum = budgets.iter().map(|bytes| *bytes as usize).sum::<usize>();
        assert_eq!(sum, FREE_BYTES_MAX);
        let largest = *SIZES.last().expect("there are some");
        assert!(limits.record_bytes_max as usize <= largest);
    }

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
