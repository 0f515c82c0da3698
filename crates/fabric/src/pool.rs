//! Buffers of one size, cut from slabs.
//!
//! A slab is one allocation, so that a provider registers few and large ranges instead of every buffer
//! ([`crate::slab_at`]). Slabs are made when first needed, up to [`PoolConfig::bytes_max`], and live as long as
//! anything of theirs does. Frozen buffers may be kept for long, by a store for example.
//!
//! Buffers come from the oldest slab that has one, there the one that was given back last: it is warm. So the youngest slabs
//! become free first; they go back to the system while more than [`PoolConfig::free_bytes_max`] are free. Beside that only
//! [`Pool::trim`] frees slabs that nobody needed for long, as often and as many as its caller says. Once warm, the steady
//! state allocates and registers no slabs.

use crate::slab::Listed;
use bytes::{Bytes, BytesMut};
use parking_lot::Mutex;
use std::collections::{BTreeMap, BTreeSet};
use std::ops::{Deref, DerefMut, Range};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

/// What a pool is made of.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PoolConfig {
    /// Bytes of each buffer, at least 1.
    pub buffer_bytes: usize,
    /// Bytes of each slab, rounded down to whole buffers, but at least one of them.
    pub slab_bytes: usize,
    /// Most bytes of all slabs together.
    pub bytes_max: usize,
    /// Bytes of free buffers above which a slab goes back to the system once nobody has a buffer of it.
    pub free_bytes_max: usize,
}

/// What [`Pool::trim`] may take.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Trim {
    /// Looks before this one at which nobody had anything of the slab, nor between them.
    pub quiet_looks: u32,
    /// Bytes of free buffers that stay, counted as for [`PoolConfig::free_bytes_max`].
    pub kept_bytes: usize,
    /// Most slabs of one look.
    pub slabs_max: usize,
}

/// Slabs that are out of their pool. Dropping it has providers deregister them and gives the memory back, which takes its time.
#[derive(Debug)]
#[must_use = "memory goes back where this is dropped"]
pub struct Trimmed(Vec<Slab>);

/// Buffers of one size. Clones share it.
#[derive(Debug, Clone)]
pub struct Pool(Arc<Shared>);

/// Bytes of buffers that nobody has, of all pools that it was given to: [`PoolConfig::free_bytes_max`] is about these. Clones share it.
#[derive(Debug, Clone, Default)]
pub struct Spare(Arc<AtomicUsize>);

#[derive(Debug)]
struct Shared {
    config: PoolConfig,
    spare: Spare,
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    /// By number, so oldest first.
    slabs: BTreeMap<u64, Slab>,
    /// Those that have a free buffer.
    open: BTreeSet<u64>,
    /// Those of which nobody has any.
    unused: BTreeSet<u64>,
    slabs_made: u64,
    slabs_bytes: usize,
    /// Buffers that nobody has, of all slabs.
    free: usize,
    taken: usize,
    /// Of the free ones, those that are promised.
    reserved: usize,
}

#[derive(Debug)]
struct Slab {
    /// Before the buffers, so that who registered the slab hears of its end before its memory goes.
    listed: Listed,
    buffers: usize,
    free: Vec<BytesMut>,
    /// Looks of [`Pool::trim`] since somebody had any of them.
    quiet_looks: u32,
}

impl Trimmed {
    /// How many they are.
    #[must_use]
    pub fn slabs(&self) -> usize {
        self.0.len()
    }
}

impl Spare {
    /// Bytes.
    #[must_use]
    pub fn bytes(&self) -> usize {
        self.0.load(Relaxed)
    }

    fn add(&self, bytes: usize) -> usize {
        self.0.fetch_add(bytes, Relaxed) + bytes
    }

    fn sub(&self, bytes: usize) {
        self.0.fetch_sub(bytes, Relaxed);
    }
}

impl Pool {
    /// An empty pool; the first [`Pool::take`] makes its first slab.
    ///
    /// # Panics
    /// When buffers would have no bytes.
    #[must_use]
    pub fn new(config: PoolConfig) -> Self {
        Self::sharing(config, Spare::default())
    }

    /// As [`Pool::new`], with free buffers counted together with those of other pools.
    ///
    /// # Panics
    /// When buffers would have no bytes.
    #[must_use]
    pub fn sharing(config: PoolConfig, spare: Spare) -> Self {
        assert!(config.buffer_bytes > 0, "a buffer has at least one byte");
        Self(Arc::new(Shared {
            config,
            spare,
            state: Mutex::default(),
        }))
    }

    /// A buffer of which all [`PoolConfig::buffer_bytes`] count, holding whatever its last owner left.
    /// `None` when the pool is dry: every buffer is taken and `bytes_max` allows no other slab.
    #[must_use]
    pub fn take(&self) -> Option<Buffer> {
        let mut state = self.0.state.lock();
        if state.available(&self.0.config) == state.reserved {
            return None;
        }
        self.hand_out(&mut state)
    }

    /// Sets so many buffers aside for [`Pool::take_reserved`]: nobody else gets them. Returns how many they are: fewer when the limit
    /// allows no more. There is no memory behind them until they are taken.
    pub(crate) fn reserve(&self, count: usize) -> usize {
        let mut state = self.0.state.lock();
        let most = state.available(&self.0.config) - state.reserved;
        state.reserved += count.min(most);
        count.min(most)
    }

    /// So many buffers are not set aside any more.
    pub(crate) fn release(&self, count: usize) {
        self.0.state.lock().reserved -= count;
    }

    /// A buffer that was set aside.
    pub(crate) fn take_reserved(&self) -> Option<Buffer> {
        let mut state = self.0.state.lock();
        state.reserved = state.reserved.checked_sub(1)?;
        self.hand_out(&mut state)
    }

    fn hand_out(&self, state: &mut State) -> Option<Buffer> {
        if state.free == 0 {
            self.0.spare.add(state.grow(&self.0.config));
        }
        let (slab, bytes) = state.pop()?;
        self.0.spare.sub(self.0.config.buffer_bytes);
        Some(Buffer {
            len: bytes.len(),
            bytes,
            slab,
            home: Arc::clone(&self.0),
        })
    }

    /// Looks for slabs of which nobody had anything for long, and takes the youngest of them out of the pool. To be called at
    /// regular times, off the data path; what counts as long is measured in calls.
    pub fn trim(&self, trim: Trim) -> Trimmed {
        let Shared {
            config,
            spare,
            state,
        } = &*self.0;
        let mut state = state.lock();
        let mut quiet = state.look(trim.quiet_looks);
        let mut slabs = Vec::new();
        while slabs.len() < trim.slabs_max
            && let Some(number) = quiet.pop()
        {
            let bytes = state.slabs[&number].buffers * config.buffer_bytes;
            // Others take from what is counted together meanwhile: it is as good as it was when it was asked.
            if spare.bytes() < trim.kept_bytes.saturating_add(bytes) {
                break;
            }
            spare.sub(bytes);
            slabs.extend(state.remove(number, config));
        }
        Trimmed(slabs)
    }

    /// Buffers that are set aside.
    pub(crate) fn reserved(&self) -> usize {
        self.0.state.lock().reserved
    }

    /// Whether both are one pool.
    pub(crate) fn is(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
    }

    /// Bytes of each buffer.
    #[must_use]
    pub fn buffer_bytes(&self) -> usize {
        self.0.config.buffer_bytes
    }

    /// Buffers that somebody has, frozen ones included.
    #[must_use]
    pub fn taken(&self) -> usize {
        self.0.state.lock().taken
    }

    /// Addresses of the slabs that there are. No slab moves.
    #[must_use]
    pub fn slabs(&self) -> Vec<Range<usize>> {
        let state = self.0.state.lock();
        let range = |slab: &Slab| slab.listed.range();
        state.slabs.values().map(range).collect()
    }
}

impl State {
    /// Buffers that nobody has, those included for which there is no slab yet.
    fn available(&self, config: &PoolConfig) -> usize {
        let room = config.bytes_max - self.slabs_bytes.min(config.bytes_max);
        self.free + room / config.buffer_bytes
    }

    /// Makes another slab, if the limit allows one of at least one buffer; the bytes of it.
    fn grow(&mut self, config: &PoolConfig) -> usize {
        let wish = config.slab_bytes.max(config.buffer_bytes);
        let room = config.bytes_max - self.slabs_bytes.min(config.bytes_max);
        let buffers = wish.min(room) / config.buffer_bytes;
        if buffers == 0 {
            return 0;
        }
        let bytes = buffers * config.buffer_bytes;
        let mut memory = BytesMut::zeroed(bytes);
        let start = memory.as_ptr().addr();
        let listed = Listed::new(start..start + bytes);
        let cut = (0..buffers).map(|_| memory.split_to(config.buffer_bytes));
        let mut free: Vec<_> = cut.collect();
        // The lowest address is handed out first.
        free.reverse();
        let slab = Slab {
            listed,
            buffers,
            free,
            quiet_looks: 0,
        };
        self.slabs.insert(self.slabs_made, slab);
        self.open.insert(self.slabs_made);
        self.unused.insert(self.slabs_made);
        self.slabs_made += 1;
        self.slabs_bytes += bytes;
        self.free += buffers;
        bytes
    }

    /// A free buffer, and its slab.
    fn pop(&mut self) -> Option<(u64, BytesMut)> {
        let number = *self.open.first()?;
        let slab = self.slabs.get_mut(&number)?;
        let bytes = slab.free.pop()?;
        slab.quiet_looks = 0;
        self.unused.remove(&number);
        if slab.free.is_empty() {
            self.open.remove(&number);
        }
        self.free -= 1;
        self.taken += 1;
        Some((number, bytes))
    }

    /// A buffer comes back.
    fn push(&mut self, number: u64, bytes: BytesMut) {
        let slab = self.slabs.get_mut(&number);
        let slab = slab.expect("a slab lives as long as its buffers");
        slab.free.push(bytes);
        self.open.insert(number);
        self.free += 1;
        self.taken -= 1;
        if slab.free.len() == slab.buffers {
            self.unused.insert(number);
        }
    }

    /// Takes the youngest slab of which nobody has anything out of the pool.
    fn release(&mut self, config: &PoolConfig) -> Option<Slab> {
        let number = *self.unused.last()?;
        self.remove(number, config)
    }

    /// Counts a look at the slabs of which nobody has anything; those that were so at more looks than this, the youngest last.
    fn look(&mut self, looks: u32) -> Vec<u64> {
        let mut quiet = Vec::new();
        for number in &self.unused {
            let slab = self.slabs.get_mut(number);
            let slab = slab.expect("what is unused is there");
            slab.quiet_looks = slab.quiet_looks.saturating_add(1);
            if slab.quiet_looks > looks {
                quiet.push(*number);
            }
        }
        quiet
    }

    /// Takes a slab of which nobody has anything out of the pool.
    fn remove(&mut self, number: u64, config: &PoolConfig) -> Option<Slab> {
        let slab = self.slabs.remove(&number)?;
        self.unused.remove(&number);
        self.open.remove(&number);
        self.free -= slab.buffers;
        self.slabs_bytes -= slab.buffers * config.buffer_bytes;
        Some(slab)
    }
}

impl Drop for Shared {
    fn drop(&mut self) {
        let free = self.state.get_mut().free;
        self.spare.sub(free * self.config.buffer_bytes);
    }
}

/// Memory of a [`Pool`] with one owner; goes back when dropped.
///
/// As a slice it is its first [`Buffer::len`](slice::len) bytes.
#[derive(Debug)]
pub struct Buffer {
    /// Never split, grown or cut, so that it stays the piece of its slab.
    bytes: BytesMut,
    /// Number of that slab.
    slab: u64,
    len: usize,
    home: Arc<Shared>,
}

impl Buffer {
    /// Bytes that it can hold.
    #[must_use]
    pub fn capacity(&self) -> usize {
        self.bytes.len()
    }

    /// Says how many of its bytes count; those that join hold whatever was there.
    ///
    /// # Panics
    /// Above [`Buffer::capacity`].
    pub fn set_len(&mut self, len: usize) {
        assert!(len <= self.capacity(), "a buffer does not grow");
        self.len = len;
    }

    /// Shares a part of it; the buffer goes back to its pool when the last clone is dropped.
    ///
    /// # Panics
    /// When `range` is not inside its bytes that count.
    #[must_use]
    pub fn freeze(self, range: Range<usize>) -> Bytes {
        assert!(
            range.start <= range.end && range.end <= self.len,
            "a frozen range lies inside the buffer"
        );
        Bytes::from_owner(Frozen {
            buffer: self,
            range,
        })
    }
}

impl Deref for Buffer {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        &self.bytes[..self.len]
    }
}

impl DerefMut for Buffer {
    fn deref_mut(&mut self) -> &mut [u8] {
        &mut self.bytes[..self.len]
    }
}

impl Drop for Buffer {
    fn drop(&mut self) {
        let bytes = std::mem::take(&mut self.bytes);
        let Shared {
            config,
            spare,
            state,
        } = &*self.home;
        let mut state = state.lock();
        state.push(self.slab, bytes);
        if spare.add(config.buffer_bytes) <= config.free_bytes_max {
            return;
        }
        let Some(slab) = state.release(config) else {
            return;
        };
        spare.sub(slab.buffers * config.buffer_bytes);
        // Whatever has registered the memory hears of its end, and may take locks of its own.
        drop(state);
        drop(slab);
    }
}

struct Frozen {
    buffer: Buffer,
    range: Range<usize>,
}

impl AsRef<[u8]> for Frozen {
    fn as_ref(&self) -> &[u8] {
        &self.buffer[self.range.clone()]
    }
}

#[cfg(test)]
mod tests {
    //! Bounds, return of buffers, and that slabs are where buffers lie.
    use super::*;

    fn pool(buffer_bytes: usize, slab_bytes: usize, bytes_max: usize) -> Pool {
        Pool::new(PoolConfig {
            buffer_bytes,
            slab_bytes,
            bytes_max,
            free_bytes_max: usize::MAX,
        })
    }

    #[test]
    fn buffers_that_are_slabs_of_their_own_are_kept_up_to_a_bound() {
        let pool = Pool::new(PoolConfig {
            buffer_bytes: 100,
            slab_bytes: 100,
            bytes_max: 1000,
            free_bytes_max: 250,
        });
        for _ in 0..2 {
            let taken: Vec<_> = std::iter::from_fn(|| pool.take()).collect();
            assert_eq!((taken.len(), pool.slabs().len()), (10, 10));
            drop(taken);
            assert_eq!((pool.taken(), pool.slabs().len()), (0, 2));
        }
    }

    #[test]
    fn a_slab_goes_back_when_all_of_it_is_free_and_more_is_free_than_is_kept() {
        let config = PoolConfig {
            buffer_bytes: 100,
            slab_bytes: 400,
            bytes_max: usize::MAX,
            free_bytes_max: 500,
        };
        let spare = Spare::default();
        let pool = Pool::sharing(config, spare.clone());
        let mut taken: Vec<_> = (0..12).filter_map(|_| pool.take()).collect();
        assert_eq!((pool.slabs().len(), spare.bytes()), (3, 0));
        // One buffer of each is kept by somebody.
        let kept: Vec<_> = [8, 4, 0].map(|at| taken.remove(at)).into();
        drop(taken);
        assert_eq!((pool.slabs().len(), spare.bytes()), (3, 900));
        // They serve from the oldest on, so the youngest gets free.
        let again: Vec<_> = (0..6).filter_map(|_| pool.take()).collect();
        assert_eq!((pool.slabs().len(), spare.bytes()), (3, 300));
        let mut kept = kept.into_iter();
        drop(kept.next());
        assert_eq!((pool.slabs().len(), spare.bytes()), (3, 400));
        drop(again);
        // Of the other two somebody has a buffer still, though more is free than is kept.
        assert_eq!((pool.slabs().len(), spare.bytes()), (2, 600));
        drop(kept.next());
        assert_eq!((pool.slabs().len(), spare.bytes()), (1, 300));
        drop((kept, pool));
        assert_eq!(spare.bytes(), 0);
    }

    /// Slabs of four buffers of 100 bytes; all that is free stays.
    fn kept() -> (Pool, Spare) {
        let spare = Spare::default();
        let config = PoolConfig {
            buffer_bytes: 100,
            slab_bytes: 400,
            bytes_max: usize::MAX,
            free_bytes_max: usize::MAX,
        };
        (Pool::sharing(config, spare.clone()), spare)
    }

    const TRIM: Trim = Trim {
        quiet_looks: 2,
        kept_bytes: 800,
        slabs_max: 3,
    };

    #[test]
    fn slabs_that_nobody_needed_for_long_are_taken_down_to_a_reserve() {
        let (pool, spare) = kept();
        let burst: Vec<_> = (0..7 * 4).filter_map(|_| pool.take()).collect();
        assert_eq!(pool.trim(TRIM).slabs(), 0, "somebody has all of them");
        drop(burst);
        let looks: Vec<_> = (0..6).map(|_| pool.trim(TRIM).slabs()).collect();
        assert_eq!(looks, [0, 0, 3, 2, 0, 0]);
        assert_eq!((pool.slabs().len(), spare.bytes()), (2, 800));
        // They are the oldest, which serve first.
        let again: Vec<_> = (0..3 * 4).filter_map(|_| pool.take()).collect();
        assert_eq!((pool.slabs().len(), spare.bytes()), (3, 0));
        drop(again);
    }

    #[test]
    fn a_slab_that_was_needed_between_two_looks_is_quiet_from_then_on() {
        let (pool, spare) = kept();
        let burst = || (0..7 * 4).filter_map(|_| pool.take()).collect::<Vec<_>>();
        drop(burst());
        for _ in 0..20 {
            assert_eq!(pool.trim(TRIM).slabs() + pool.trim(TRIM).slabs(), 0);
            drop(burst());
        }
        // One buffer at a time keeps the oldest slab busy, and no other.
        let looks = (0..6).map(|_| {
            drop(pool.take());
            pool.trim(TRIM).slabs()
        });
        assert_eq!(looks.sum::<usize>(), 5);
        assert_eq!(spare.bytes(), 800);
    }

    #[test]
    fn a_reserve_is_counted_over_pools_together() {
        let (a, spare) = kept();
        let b = Pool::sharing(a.0.config, spare.clone());
        for pool in [&a, &b] {
            drop((0..4 * 4).filter_map(|_| pool.take()).collect::<Vec<_>>());
        }
        for _ in 0..9 {
            drop((a.trim(TRIM), b.trim(TRIM)));
        }
        assert_eq!((a.slabs().len() + b.slabs().len(), spare.bytes()), (2, 800));
        // What is set aside needs no memory, so none is kept for it.
        assert_eq!(a.reserve(1), 1);
        let all = Trim {
            kept_bytes: 0,
            ..TRIM
        };
        drop((a.trim(all), b.trim(all)));
        assert_eq!((spare.bytes(), a.take_reserved().is_some()), (0, true));
    }

    #[test]
    fn what_is_kept_free_is_counted_over_pools_together() {
        let config = PoolConfig {
            buffer_bytes: 100,
            slab_bytes: 200,
            bytes_max: usize::MAX,
            free_bytes_max: 400,
        };
        let spare = Spare::default();
        let [a, b] = [100, 200].map(|buffer_bytes| {
            let config = PoolConfig {
                buffer_bytes,
                ..config
            };
            Pool::sharing(config, spare.clone())
        });
        let all = |pool: &Pool| (0..4).filter_map(|_| pool.take()).collect::<Vec<_>>();
        let (of_a, of_b) = (all(&a), all(&b));
        drop(of_a);
        assert_eq!((a.slabs().len(), spare.bytes()), (2, 400));
        drop(of_b);
        assert_eq!((a.slabs().len(), b.slabs().len()), (2, 0));
        drop(a);
        assert_eq!(spare.bytes(), 0);
    }

    #[test]
    fn a_dry_pool_is_a_value_and_returned_buffers_serve_again() {
        // Two slabs of two buffers, and half a slab more.
        let pool = pool(100, 250, 510);
        let mut taken: Vec<_> = std::iter::from_fn(|| pool.take()).collect();
        assert_eq!((taken.len(), pool.taken(), pool.slabs().len()), (5, 5, 3));
        assert!(pool.take().is_none());
        let last = taken.pop().unwrap();
        let address = last.as_ptr();
        drop(last);
        assert_eq!(pool.take().unwrap().as_ptr(), address);
        drop(taken);
        assert_eq!(pool.taken(), 0);
        assert_eq!(pool.slabs().len(), 3);
    }

    #[test]
    fn a_pool_below_one_buffer_is_dry_at_once() {
        assert!(pool(100, 100, 99).take().is_none());
        assert!(pool(100, 1, 100).take().is_some());
    }

    #[test]
    fn every_buffer_lies_in_a_slab_and_none_overlap() {
        let pool = pool(64, 256, 1024);
        let taken: Vec<_> = std::iter::from_fn(|| pool.take()).collect();
        let mut places: Vec<_> = taken.iter().map(|b| b.as_ptr().addr()).collect();
        places.sort_unstable();
        assert!(places.windows(2).all(|pair| pair[1] - pair[0] >= 64));
        let slabs = pool.slabs();
        for place in places {
            assert!(
                slabs
                    .iter()
                    .any(|s| s.start <= place && place + 64 <= s.end)
            );
        }
    }

    #[test]
    fn frozen_bytes_hold_the_buffer_until_the_last_clone() {
        let pool = pool(16, 16, 16);
        let mut buffer = pool.take().unwrap();
        buffer.copy_from_slice(b"0123456789abcdef");
        buffer.set_len(10);
        assert_eq!(&*buffer, b"0123456789");
        let bytes = buffer.freeze(2..6);
        let part = bytes.slice(1..3);
        drop(bytes);
        assert_eq!(&part[..], b"34");
        assert!(pool.take().is_none());
        drop(part);
        assert_eq!(pool.take().unwrap().len(), 16);
    }

    #[test]
    fn records_of_a_mebibyte_are_frozen_where_they_lie_and_come_back() {
        const RECORD_BYTES: usize = (1 << 20) + 4096;
        let pool = pool(RECORD_BYTES, 4 << 20, 8 << 20);
        for _ in 0..3 {
            let mut held = Vec::new();
            while let Some(buffer) = pool.take() {
                assert_eq!(buffer.len(), RECORD_BYTES);
                let address = buffer.as_ptr();
                let bytes = buffer.freeze(4096..RECORD_BYTES);
                assert_eq!(bytes.as_ptr().addr(), address.addr() + 4096);
                held.push(bytes);
            }
            assert_eq!((held.len(), pool.slabs().len()), (7, 3));
        }
        assert_eq!(pool.taken(), 0);
    }

    #[test]
    #[should_panic(expected = "inside the buffer")]
    fn freezing_beyond_the_length_is_a_mistake_of_the_caller() {
        let pool = pool(16, 16, 16);
        let mut buffer = pool.take().unwrap();
        buffer.set_len(4);
        let _ = buffer.freeze(2..5);
    }
}
