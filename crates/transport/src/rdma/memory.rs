//! Memory of RDMA connections: pools of a few sizes.
//!
//! The pools have no limit of their own. What a peer can make this process take is bounded before: receives by credits,
//! records by the receive budget, files by the send budget. What our own calls take is bounded by `calls_max`.
//!
//! # Arenas
//! Devices register slabs, so the data path must make none. Bulk of each size has slabs of [`ARENA_PARTS`] buffers. They are kept while
//! nobody uses them, up to [`FREE_BYTES_MAX`] of all sizes together. What a store keeps of a WRITE is a part of such an arena. The
//! other parts serve on, and the arena stays until all of them are back. So a growing store costs a registration in
//! [`ARENA_PARTS`] WRITEs. A store that was emptied down to one part of each arena holds [`ARENA_PARTS`] times that.
//!
//! # Giving back
//! A peak leaves its arenas behind. Arenas of which nobody had anything for [`QUIET`] go, a few at a time, as long as
//! more than [`KEPT_BYTES`] of all sizes are free. What comes again within that time, or needs no more than that, finds
//! its arenas and registers none. One task for each process' memory does it ([`Memory::tend`]), and another thread
//! gives the memory back: a device takes its time for that.

use std::sync::atomic::{AtomicBool, Ordering::AcqRel, Ordering::Release};
use std::sync::{Arc, Weak};
use std::time::Duration;

use fabric::{Buffer, Pool, PoolConfig, Spare, Trim, Trimmed};

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
/// Most bytes of bulk buffers that nobody has, of all sizes together. It is what the budgets for receiving and sending
/// allow to be in use at a time ([`crate::TransportLimits`]): no burst gives back what the next one needs.
const FREE_BYTES_MAX: usize = 512 << 20;

/// Bytes of bulk buffers that nobody has and that stay, however long nobody needs them: some 50 requests of 1 MiB at a time.
const KEPT_BYTES: usize = 64 << 20;
/// How long nobody has anything of an arena before it goes. Longer than the pauses between the bursts of a job that saves its state every few minutes.
const QUIET: Duration = Duration::from_secs(300);
/// How often arenas are looked at.
const LOOK_EVERY: Duration = Duration::from_secs(30);
/// [`QUIET`] in looks.
const QUIET_LOOKS: u32 = 10;
const _: () = assert!(LOOK_EVERY.saturating_mul(QUIET_LOOKS).as_secs() == QUIET.as_secs());
/// Most arenas that go at one look, of all sizes: at most 72 MiB. So a peak is given back over minutes, and what deregistering costs is spread, too.
const TRIMMED_MAX: usize = 8;

/// Bytes of a slab of receives.
const RECEIVE_SLAB_BYTES: usize = 256 << 10;

/// Where buffers come from. Cheap to clone.
#[derive(Debug, Clone)]
pub(super) struct Memory(Arc<Pools>);

#[derive(Debug)]
struct Pools {
    receives: Pool,
    sizes: [Pool; SIZES.len()],
    /// Of the bulk buffers.
    spare: Spare,
    is_tended: AtomicBool,
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
            spare,
            is_tended: AtomicBool::new(false),
        }))
    }

    /// Sees to it that what nobody needs goes back, as long as this memory is used. A task on the runtime that calls
    /// does it, unless one does so already.
    pub(super) fn tend(&self) {
        if !self.0.is_tended.swap(true, AcqRel) {
            tokio::spawn(Tender(Arc::downgrade(&self.0)).run());
        }
    }

    /// Bytes of bulk buffers that nobody has.
    pub(super) fn free_bytes(&self) -> usize {
        self.0.spare.bytes()
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

impl Pools {
    /// A look at the arenas of each size, the largest first; what goes.
    fn trim(&self) -> Vec<Trimmed> {
        let mut left = TRIMMED_MAX;
        let bulk = |pool: &&Pool| pool.buffer_bytes() >= BULK_BYTES_MIN;
        let pools = self.sizes.iter().rev().filter(bulk);
        let trimmed = pools.map(|pool| {
            let trimmed = pool.trim(Trim {
                quiet_looks: QUIET_LOOKS,
                kept_bytes: KEPT_BYTES,
                slabs_max: left,
            });
            left -= trimmed.slabs();
            trimmed
        });
        trimmed.filter(|trimmed| trimmed.slabs() > 0).collect()
    }
}

/// Gives back what nobody needs, until the memory is gone, or the runtime that it runs on: then the next [`Memory::tend`] makes another.
struct Tender(Weak<Pools>);

impl Tender {
    async fn run(self) {
        loop {
            tokio::time::sleep(LOOK_EVERY).await;
            let Some(pools) = self.0.upgrade() else {
                return;
            };
            let trimmed = pools.trim();
            drop(pools);
            if !trimmed.is_empty() {
                // One at a time. When the runtime ends meanwhile, they go with it.
                let _ = tokio::task::spawn_blocking(move || drop(trimmed)).await;
            }
        }
    }
}

impl Drop for Tender {
    fn drop(&mut self) {
        if let Some(pools) = self.0.upgrade() {
            pools.is_tended.store(false, Release);
        }
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
    use crate::TransportLimits;
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

    /// Buffers of a peak of 300 MiB, in all sizes of bulk.
    fn peak(memory: &Memory) -> Vec<Buffer> {
        let sizes = SIZES.iter().filter(|bytes| **bytes >= BULK_BYTES_MIN);
        let each = |bytes: &usize| {
            let count = (40 << 20) / bytes;
            let buffers = (0..count).map(|_| memory.take(*bytes));
            buffers.collect::<Vec<_>>()
        };
        sizes.flat_map(each).collect()
    }

    #[tokio::test(start_paused = true)]
    async fn what_a_peak_leaves_behind_goes_once_it_was_quiet() {
        let memory = Memory::new(4096);
        memory.tend();
        let gone = Arc::new(Gone::default());
        let arenas = gone.watch(&peak(&memory)).len();
        let free = memory.free_bytes();
        assert!(free > 300 << 20, "{free}");
        tokio::time::sleep(QUIET - LOOK_EVERY).await;
        assert_eq!((memory.free_bytes(), gone.0.load(Relaxed)), (free, 0));
        // A peak in time needs none but those.
        drop(peak(&memory));
        tokio::time::sleep(QUIET - LOOK_EVERY).await;
        assert_eq!(gone.watch(&peak(&memory)).len(), arenas);
        assert_eq!(gone.0.load(Relaxed), 0);
        // After it only the reserve stays, for ever.
        let looks = u32::try_from(arenas.div_ceil(TRIMMED_MAX)).unwrap();
        tokio::time::sleep(QUIET + LOOK_EVERY * (looks + 2)).await;
        let kept = memory.free_bytes();
        assert!(
            (KEPT_BYTES..KEPT_BYTES + (16 << 20)).contains(&kept),
            "{kept}"
        );
        tokio::time::sleep(QUIET * 100).await;
        assert_eq!(memory.free_bytes(), kept);
        assert!(gone.0.load(Relaxed) > arenas / 2);
    }

    #[tokio::test(start_paused = true)]
    async fn a_peak_goes_a_few_arenas_at_a_time() {
        let memory = Memory::new(4096);
        memory.tend();
        drop(peak(&memory));
        let most = TRIMMED_MAX * ARENA_PARTS * SIZES[SIZES.len() - 1];
        let (mut before, mut looks) = (memory.free_bytes(), 0);
        tokio::time::sleep(LOOK_EVERY / 2).await;
        while before > KEPT_BYTES + (16 << 20) {
            tokio::time::sleep(LOOK_EVERY).await;
            let now = memory.free_bytes();
            assert!(before - now <= most, "{before} {now}");
            (before, looks) = (now, looks + 1);
            assert!(looks < 100, "it goes");
        }
    }

    #[tokio::test(start_paused = true)]
    async fn a_trickle_keeps_its_own_arena_only() {
        let memory = Memory::new(4096);
        memory.tend();
        drop(peak(&memory));
        let gone = Arc::new(Gone::default());
        gone.watch(&[memory.take(1 << 20)]);
        for _ in 0..200 {
            drop(memory.take(1 << 20));
            tokio::time::sleep(Duration::from_secs(10)).await;
        }
        assert_eq!(gone.0.load(Relaxed), 0, "what is used is not given back");
        assert!(memory.free_bytes() < KEPT_BYTES + (16 << 20));
    }

    #[tokio::test(start_paused = true)]
    async fn memory_is_tended_by_one_task_until_it_is_gone() {
        let tasks = || {
            tokio::runtime::Handle::current()
                .metrics()
                .num_alive_tasks()
        };
        let memory = Memory::new(4096);
        memory.tend();
        memory.clone().tend();
        assert_eq!(tasks(), 1);
        drop(memory);
        tokio::time::sleep(LOOK_EVERY * 2).await;
        assert_eq!(tasks(), 0);
    }

    #[test]
    fn another_task_tends_memory_whose_runtime_has_ended() {
        let memory = Memory::new(4096);
        for _ in 0..2 {
            let mut runtime = tokio::runtime::Builder::new_current_thread();
            let runtime = runtime.enable_time().build().unwrap();
            runtime.block_on(async { memory.tend() });
            assert!(memory.0.is_tended.load(Relaxed));
            drop(runtime);
            assert!(!memory.0.is_tended.load(Relaxed));
        }
    }

    #[test]
    fn as_much_is_kept_as_the_budgets_allow_to_be_in_use() {
        let limits = TransportLimits::default();
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
