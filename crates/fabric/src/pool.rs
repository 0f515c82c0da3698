//! Buffers of one size, cut from slabs.
//!
//! A slab is one allocation, so that a provider registers few and large ranges instead of every buffer
//! ([`crate::slab_at`]). Slabs are made when first needed, up to [`PoolConfig::bytes_max`], and live as long
//! as anything of theirs does. The buffer given back last is handed out first: it is warm. Where each slab is one buffer,
//! those that nobody has are bounded by [`PoolConfig::free_bytes_max`]: frozen buffers may be kept for long, by a store for
//! example, and come back in numbers.

use crate::slab::Listed;
use bytes::{Bytes, BytesMut};
use parking_lot::Mutex;
use std::collections::BTreeMap;
use std::ops::{Deref, DerefMut, Range};
use std::sync::Arc;

/// What a pool is made of.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PoolConfig {
    /// Bytes of each buffer, at least 1.
    pub buffer_bytes: usize,
    /// Bytes of each slab, rounded down to whole buffers, but at least one of them.
    pub slab_bytes: usize,
    /// Most bytes of all slabs together.
    pub bytes_max: usize,
    /// Most bytes of buffers that nobody has, where a slab has room for one only; what is above goes back to the system.
    /// Larger slabs stay.
    pub free_bytes_max: usize,
}

/// Buffers of one size. Clones share it.
#[derive(Debug, Clone)]
pub struct Pool(Arc<Shared>);

#[derive(Debug)]
struct Shared {
    config: PoolConfig,
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    /// By first address. Before the buffers, so that who registered a slab hears of its end before its memory goes.
    slabs: BTreeMap<usize, Listed>,
    free: Vec<BytesMut>,
    slabs_bytes: usize,
    taken: usize,
    /// Of the free ones, those that are promised.
    reserved: usize,
}

impl Pool {
    /// An empty pool; the first [`Pool::take`] makes its first slab.
    ///
    /// # Panics
    /// When buffers would have no bytes.
    #[must_use]
    pub fn new(config: PoolConfig) -> Self {
        assert!(config.buffer_bytes > 0, "a buffer has at least one byte");
        Self(Arc::new(Shared {
            config,
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
        if state.free.is_empty() {
            state.grow(&self.0.config);
        }
        let bytes = state.free.pop()?;
        state.taken += 1;
        Some(Buffer {
            len: bytes.len(),
            bytes,
            home: Arc::clone(&self.0),
        })
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
        state.slabs.values().map(Listed::range).collect()
    }
}

impl State {
    /// Buffers that nobody has, those included for which there is no slab yet.
    fn available(&self, config: &PoolConfig) -> usize {
        let room = config.bytes_max - self.slabs_bytes.min(config.bytes_max);
        self.free.len() + room / config.buffer_bytes
    }

    /// Makes another slab, if the limit allows one of at least one buffer.
    fn grow(&mut self, config: &PoolConfig) {
        let wish = config.slab_bytes.max(config.buffer_bytes);
        let room = config.bytes_max - self.slabs_bytes.min(config.bytes_max);
        let count = wish.min(room) / config.buffer_bytes;
        if count == 0 {
            return;
        }
        let mut slab = BytesMut::zeroed(count * config.buffer_bytes);
        let start = slab.as_ptr().addr();
        self.slabs
            .insert(start, Listed::new(start..start + slab.len()));
        self.slabs_bytes += slab.len();
        self.free
            .extend((0..count).map(|_| slab.split_to(config.buffer_bytes)));
        // The lowest address is handed out first.
        self.free.reverse();
    }
}

/// Memory of a [`Pool`] with one owner; goes back when dropped.
///
/// As a slice it is its first [`Buffer::len`](slice::len) bytes.
#[derive(Debug)]
pub struct Buffer {
    /// Never split, grown or cut, so that it stays the piece of its slab.
    bytes: BytesMut,
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
        let PoolConfig {
            buffer_bytes,
            slab_bytes,
            free_bytes_max,
            ..
        } = self.home.config;
        let mut state = self.home.state.lock();
        state.taken -= 1;
        let is_slab = slab_bytes < 2 * buffer_bytes;
        if is_slab && (state.free.len() + 1) * buffer_bytes > free_bytes_max {
            let slab = state.slabs.remove(&bytes.as_ptr().addr());
            state.slabs_bytes -= buffer_bytes;
            drop(state);
            // In this order: who has registered the memory hears of its end before.
            drop(slab);
            drop(bytes);
        } else {
            state.free.push(bytes);
        }
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
            free_bytes_max: 0,
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
