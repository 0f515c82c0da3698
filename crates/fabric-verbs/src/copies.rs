//! Registered memory for bytes that are in none: heads of messages, payload of others' making.

use crate::memory::{Domain, local_key};
use crate::sys::Sge;
use bytes::Bytes;
use fabric::{Buffer, Pool, PoolConfig};
use std::io;
use std::sync::LazyLock;

/// Bytes of a buffer in each pool.
const SIZES: [usize; 3] = [4 << 10, 64 << 10, COPY_BYTES_MAX as usize];
/// Most bytes of one copy, and so of a message.
pub(crate) const COPY_BYTES_MAX: u32 = 1 << 20;
const SLAB_BYTES: usize = 4 << 20;

/// Pools of this process. What they hold is bounded by the send queues, which own their copies until they are sent.
static POOLS: LazyLock<[Pool; SIZES.len()]> = LazyLock::new(|| {
    SIZES.map(|buffer_bytes| {
        Pool::new(PoolConfig {
            buffer_bytes,
            slab_bytes: SLAB_BYTES,
            bytes_max: usize::MAX,
            free_bytes_max: usize::MAX,
        })
    })
});

/// Copies that one piece of work sends from.
#[derive(Debug, Default)]
pub(crate) struct Copies {
    buffers: Vec<Buffer>,
    /// Bytes of the last buffer that are taken.
    used: usize,
}

impl Copies {
    /// Copies the beginning of `data`: all of it, up to [`COPY_BYTES_MAX`].
    pub(crate) fn copy(&mut self, data: &[u8], domain: &Domain) -> io::Result<Sge> {
        let data = &data[..data.len().min(COPY_BYTES_MAX as usize)];
        let place = self.room(data.len());
        place.copy_from_slice(data);
        let (start, len) = (place.as_mut_ptr().expose_provenance(), place.len());
        piece(start, len, domain)
    }

    /// Puts all of `data` together, which is at most [`COPY_BYTES_MAX`].
    pub(crate) fn join(&mut self, data: &[Bytes], domain: &Domain) -> io::Result<Sge> {
        let len = data.iter().map(Bytes::len).sum();
        let mut place = self.room(len);
        let start = place.as_mut_ptr().expose_provenance();
        for bytes in data {
            let (head, rest) = place.split_at_mut(bytes.len());
            head.copy_from_slice(bytes);
            place = rest;
        }
        piece(start, len, domain)
    }

    fn room(&mut self, len: usize) -> &mut [u8] {
        let has_room = self
            .buffers
            .last()
            .is_some_and(|b| b.len() - self.used >= len);
        if !has_room {
            let fits = |pool: &&Pool| pool.buffer_bytes() >= len;
            let pool = POOLS.iter().find(fits).expect("no copy is larger");
            self.buffers
                .push(pool.take().expect("the pool has no limit"));
            self.used = 0;
        }
        let start = self.used;
        self.used += len;
        let last = self.buffers.last_mut().expect("there is one");
        &mut last[start..start + len]
    }
}

fn piece(start: usize, len: usize, domain: &Domain) -> io::Result<Sge> {
    let length = u32::try_from(len).expect("no copy is larger");
    Ok(Sge {
        addr: start as u64,
        length,
        lkey: local_key(domain, start, length)?,
    })
}
