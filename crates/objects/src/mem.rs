//! Objects in memory: for `--memory` clusters, tests and the simulator.
//!
//! An object is a map of pages of [`PAGE_BYTES`]; a page holds only the bytes up to the last one written in it,
//! so small and sparse objects stay small. A read within one page shares it; a read over several gathers them
//! into one copy. A write into a page that a reader still holds copies that page first, so spans never change.
//!
//! [`MemOptions::manual`] makes a store that remembers what was synced, and [`MemObjects::after_crash`] makes one
//! that a power cut could have left: synced bytes are kept, all others are kept, lost or torn by a seed.
//!
//! # Ordering
//! One lock covers all objects: each call happens at once. `set_size` and `remove` are durable at once, as in
//! every store.

use crate::{
    Capacity, Content, OBJECT_BYTES_MAX, ObjectError, ObjectId, ObjectStat, ObjectStore, Span,
    range_end,
};
use bytes::{Bytes, BytesMut};
use parking_lot::Mutex;
use std::collections::BTreeMap;

/// Bytes of a whole page.
pub const PAGE_BYTES: u64 = 64 * 1024;
/// What a page and an object count against the capacity beside their bytes, so that tiny ones are bounded too.
const PAGE_COST_BYTES: u64 = 128;
const OBJECT_COST_BYTES: u64 = 256;
/// A crash tears pages at multiples of this.
const SECTOR_BYTES: usize = 512;

/// How to make a store.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct MemOptions {
    /// Bytes of memory, what pages and objects cost by themselves included, that the store takes before it answers [`ObjectError::NoSpace`].
    pub capacity_bytes: u64,
    /// Remember what was synced, for [`MemObjects::after_crash`].
    pub manual: bool,
}

impl Default for MemOptions {
    fn default() -> Self {
        Self {
            capacity_bytes: 1024 * 1024 * 1024,
            manual: false,
        }
    }
}

/// The store.
#[derive(Debug)]
pub struct MemObjects {
    options: MemOptions,
    inner: Mutex<Inner>,
}

#[derive(Debug, Default)]
struct Inner {
    live: BTreeMap<ObjectId, Object>,
    used_bytes: u64,
    /// What a crash leaves for certain; kept only by manual stores.
    synced: BTreeMap<ObjectId, Object>,
}

#[derive(Debug, Clone, Default)]
struct Object {
    size_bytes: u64,
    /// By index; no page is longer than [`PAGE_BYTES`] or reaches past the size.
    pages: BTreeMap<u64, Bytes>,
    /// How long a page may become at no further cost, by index; it need not exist yet.
    reserved: BTreeMap<u64, usize>,
}

/// The piece of one page that a range covers.
struct Piece {
    page: u64,
    start: usize,
    end: usize,
}

/// Cuts `offset..offset + len` at page borders.
fn pieces(offset: u64, len: u64) -> impl Iterator<Item = Piece> {
    let end = offset + len;
    let mut at = offset;
    std::iter::from_fn(move || {
        if at == end {
            return None;
        }
        let page = at / PAGE_BYTES;
        let base = page * PAGE_BYTES;
        let stop = end.min(base.saturating_add(PAGE_BYTES));
        let within = |position: u64| usize::try_from(position - base).expect("within a page");
        let piece = Piece {
            page,
            start: within(at),
            end: within(stop),
        };
        at = stop;
        Some(piece)
    })
}

impl Object {
    /// Bytes of a page that are paid for; `None` when it does not exist.
    fn paid_bytes(&self, page: u64) -> Option<usize> {
        let there = self.pages.get(&page).map(Bytes::len);
        there.max(self.reserved.get(&page).copied())
    }

    fn allocated_bytes(&self) -> u64 {
        let there: u64 = self.pages.values().map(|page| page.len() as u64).sum();
        let more = |(page, end): (&u64, &usize)| {
            end.saturating_sub(self.pages.get(page).map_or(0, Bytes::len)) as u64
        };
        there + self.reserved.iter().map(more).sum::<u64>()
    }

    /// What the object counts against the capacity.
    fn cost_bytes(&self) -> u64 {
        let only_reserved = self.reserved.keys().filter(|p| !self.pages.contains_key(p));
        let pages = (self.pages.len() + only_reserved.count()) as u64 * PAGE_COST_BYTES;
        OBJECT_COST_BYTES + pages + self.allocated_bytes()
    }

    /// What a write there would add to that.
    fn growth(&self, offset: u64, len: u64) -> u64 {
        let grown = |piece: Piece| match self.paid_bytes(piece.page) {
            Some(paid) => piece.end.saturating_sub(paid) as u64,
            None => PAGE_COST_BYTES + piece.end as u64,
        };
        pieces(offset, len).map(grown).sum()
    }

    fn reserve(&mut self, offset: u64, len: u64) {
        for piece in pieces(offset, len) {
            let end = self.reserved.entry(piece.page).or_default();
            *end = piece.end.max(*end);
        }
    }

    fn punch(&mut self, offset: u64, len: u64) {
        let end = offset + len;
        let pages = offset / PAGE_BYTES..=end.saturating_sub(1) / PAGE_BYTES;
        // Of the pages that there are: a hole may be wide.
        let mut touched: Vec<u64> = self.pages.range(pages.clone()).map(|(p, _)| *p).collect();
        touched.extend(self.reserved.range(pages).map(|(p, _)| *p));
        for page in touched {
            let base = page * PAGE_BYTES;
            let within = |at: u64| usize::try_from(at).expect("within a page");
            let start = within(offset.saturating_sub(base));
            let stop = within((end - base).min(PAGE_BYTES));
            if start == 0 && stop as u64 == PAGE_BYTES {
                self.reserved.remove(&page);
            }
            let Some(held) = self.pages.remove(&page) else {
                continue;
            };
            if start >= held.len() {
                self.pages.insert(page, held);
            } else if stop < held.len() {
                let mut zeroed = BytesMut::from(&held[..]);
                zeroed[start..stop].fill(0);
                self.pages.insert(page, zeroed.freeze());
            } else if start > 0 {
                self.pages
                    .insert(page, Bytes::copy_from_slice(&held[..start]));
            }
        }
    }

    fn seek(&self, offset: u64, what: Content) -> Option<u64> {
        let mut at = offset;
        let first = self.pages.range(offset / PAGE_BYTES..);
        for (page, held) in first.filter(|(_, held)| !held.is_empty()) {
            let base = page * PAGE_BYTES;
            let end = base + held.len() as u64;
            if at >= end {
                continue;
            }
            if what == Content::Data {
                return Some(at.max(base)).filter(|at| *at < self.size_bytes);
            }
            if at < base {
                break;
            }
            at = end;
        }
        Some(at).filter(|at| what == Content::Hole && *at < self.size_bytes)
    }

    fn write(&mut self, offset: u64, mut data: &[u8]) {
        for piece in pieces(offset, data.len() as u64) {
            let (part, rest) = data.split_at(piece.end - piece.start);
            data = rest;
            let held = self.pages.remove(&piece.page).unwrap_or_default();
            // A page that a span or the synced state shares is copied; spans never change.
            let mut page = match held.try_into_mut() {
                Ok(page) => page,
                Err(shared) => BytesMut::from(&shared[..]),
            };
            if page.len() < piece.end {
                page.resize(piece.end, 0);
            }
            page[piece.start..piece.end].copy_from_slice(part);
            self.pages.insert(piece.page, page.freeze());
        }
    }

    fn read(&self, offset: u64, len: u32) -> Bytes {
        let len = u64::from(len).min(self.size_bytes.saturating_sub(offset));
        let mut parts = pieces(offset, len);
        let Some(first) = parts.next() else {
            return Bytes::new();
        };
        let first_len = first.end - first.start;
        let whole = |piece: &Piece| {
            let page = self.pages.get(&piece.page)?;
            (page.len() >= piece.end).then(|| page.slice(piece.start..piece.end))
        };
        if first_len as u64 == len {
            return whole(&first).unwrap_or_else(|| self.gather(std::iter::once(first), first_len));
        }
        let capacity = usize::try_from(len).expect("a u32 length");
        self.gather(std::iter::once(first).chain(parts), capacity)
    }

    fn gather(&self, parts: impl Iterator<Item = Piece>, capacity: usize) -> Bytes {
        let mut out = BytesMut::with_capacity(capacity);
        for piece in parts {
            let page = self
                .pages
                .get(&piece.page)
                .map_or(&[][..], |page| &page[..]);
            let held = page
                .get(piece.start..piece.end.min(page.len()))
                .unwrap_or(&[]);
            out.extend_from_slice(held);
            out.resize(out.len() + (piece.end - piece.start) - held.len(), 0);
        }
        out.freeze()
    }

    fn set_size(&mut self, size_bytes: u64) {
        let page = size_bytes / PAGE_BYTES;
        let keep = usize::try_from(size_bytes % PAGE_BYTES).expect("within a page");
        let mut cut = self.pages.split_off(&page);
        if let Some(last) = cut.remove(&page).filter(|_| keep > 0) {
            // A copy when shorter, so that the bytes behind the cut are given back.
            let last = if last.len() > keep {
                Bytes::copy_from_slice(&last[..keep])
            } else {
                last
            };
            self.pages.insert(page, last);
        }
        let mut given_back = self.reserved.split_off(&page);
        if let Some(end) = given_back.remove(&page).filter(|_| keep > 0) {
            self.reserved.insert(page, end.min(keep));
        }
        self.size_bytes = size_bytes;
    }
}

impl MemObjects {
    /// A store without objects.
    #[must_use]
    pub fn new(options: MemOptions) -> Self {
        Self {
            options,
            inner: Mutex::default(),
        }
    }

    /// The store that a power cut at this moment may leave. What was synced is there. Of the rest the seed
    /// decides: an object that was never synced may be gone, a page may be old, new or torn, and the size old or new.
    /// Only of use to a manual store; any other loses everything.
    #[must_use]
    pub fn after_crash(&self, seed: u64) -> Self {
        let inner = self.inner.lock();
        let mut dice = Dice(seed);
        let mut left = inner.synced.clone();
        for (id, live) in inner.live.iter().filter(|_| self.options.manual) {
            let synced = inner.synced.get(id);
            if synced.is_none() && dice.roll(2) == 0 {
                continue;
            }
            left.insert(
                *id,
                torn(synced.unwrap_or(&Object::default()), live, &mut dice),
            );
        }
        let used_bytes = left.values().map(Object::cost_bytes).sum();
        let inner = Inner {
            live: left.clone(),
            used_bytes,
            synced: left,
        };
        Self {
            options: self.options,
            inner: Mutex::new(inner),
        }
    }
}

/// A state between `synced` and `live` that a disk may hold.
fn torn(synced: &Object, live: &Object, dice: &mut Dice) -> Object {
    let mut left = synced.clone();
    left.size_bytes = if dice.roll(2) == 0 {
        synced.size_bytes
    } else {
        live.size_bytes
    };
    for (index, new) in &live.pages {
        let old = synced.pages.get(index).cloned().unwrap_or_default();
        if old == *new {
            continue;
        }
        let page = match dice.roll(3) {
            0 => old,
            1 => new.clone(),
            _ => {
                let mut mixed = BytesMut::zeroed(old.len().max(new.len()));
                for (sector, out) in mixed.chunks_mut(SECTOR_BYTES).enumerate() {
                    let from = if dice.roll(2) == 0 { &old } else { new };
                    let start = (sector * SECTOR_BYTES).min(from.len());
                    let part = &from[start..from.len().min(start + out.len())];
                    out[..part.len()].copy_from_slice(part);
                }
                mixed.freeze()
            }
        };
        left.pages.insert(*index, page);
    }
    for index in synced.pages.keys() {
        // A hole was made of it.
        if !live.pages.contains_key(index) && dice.roll(2) == 0 {
            left.pages.remove(index);
        }
    }
    let size_bytes = left.size_bytes;
    left.set_size(size_bytes);
    left
}

/// A seeded sequence of choices (splitmix64).
struct Dice(u64);

impl Dice {
    fn roll(&mut self, sides: u64) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        (z ^ (z >> 31)) % sides
    }
}

fn stat(object: &Object) -> ObjectStat {
    ObjectStat {
        size_bytes: object.size_bytes,
        allocated_bytes: object.allocated_bytes(),
    }
}

impl ObjectStore for MemObjects {
    fn read(&self, id: ObjectId, offset: u64, len: u32) -> Result<Span, ObjectError> {
        let inner = self.inner.lock();
        let object = inner.live.get(&id).ok_or(ObjectError::NotFound)?;
        Ok(Span::Bytes(object.read(offset, len)))
    }

    fn write(&self, id: ObjectId, offset: u64, data: &[u8]) -> Result<(), ObjectError> {
        let len = data.len() as u64;
        let end = range_end(offset, len)?;
        let mut inner = self.inner.lock();
        let empty = Object::default();
        let growth = match inner.live.get(&id) {
            Some(object) => object.growth(offset, len),
            None => empty.cost_bytes() + empty.growth(offset, len),
        };
        if growth > self.options.capacity_bytes.saturating_sub(inner.used_bytes) {
            return Err(ObjectError::NoSpace);
        }
        inner.used_bytes += growth;
        let object = inner.live.entry(id).or_default();
        object.write(offset, data);
        if len > 0 {
            object.size_bytes = object.size_bytes.max(end);
        }
        Ok(())
    }

    fn sync(&self, id: ObjectId) -> Result<(), ObjectError> {
        let mut inner = self.inner.lock();
        let object = inner.live.get(&id).ok_or(ObjectError::NotFound)?;
        if self.options.manual {
            let object = object.clone();
            inner.synced.insert(id, object);
        }
        Ok(())
    }

    fn stat(&self, id: ObjectId) -> Result<ObjectStat, ObjectError> {
        let inner = self.inner.lock();
        inner.live.get(&id).map(stat).ok_or(ObjectError::NotFound)
    }

    fn seek(&self, id: ObjectId, offset: u64, what: Content) -> Result<Option<u64>, ObjectError> {
        let inner = self.inner.lock();
        let object = inner.live.get(&id).ok_or(ObjectError::NotFound)?;
        Ok(object.seek(offset, what))
    }

    fn punch(&self, id: ObjectId, offset: u64, len: u64) -> Result<(), ObjectError> {
        let mut inner = self.inner.lock();
        let object = inner.live.get_mut(&id).ok_or(ObjectError::NotFound)?;
        let before = object.cost_bytes();
        let len = len.min(OBJECT_BYTES_MAX.saturating_sub(offset));
        if len > 0 {
            object.punch(offset, len);
        }
        let freed = before - object.cost_bytes();
        inner.used_bytes -= freed;
        Ok(())
    }

    fn reserve(&self, id: ObjectId, offset: u64, len: u64) -> Result<(), ObjectError> {
        range_end(offset, len)?;
        if len > self.options.capacity_bytes {
            return Err(ObjectError::NoSpace);
        }
        let mut inner = self.inner.lock();
        let empty = Object::default();
        let growth = match inner.live.get(&id) {
            Some(object) => object.growth(offset, len),
            None => empty.cost_bytes() + empty.growth(offset, len),
        };
        if growth > self.options.capacity_bytes.saturating_sub(inner.used_bytes) {
            return Err(ObjectError::NoSpace);
        }
        inner.used_bytes += growth;
        inner.live.entry(id).or_default().reserve(offset, len);
        Ok(())
    }

    /// A page of memory has one owner, so this copies.
    fn clone_range(
        &self,
        (src, src_offset): (ObjectId, u64),
        (dst, dst_offset): (ObjectId, u64),
        len: u64,
    ) -> Result<(), ObjectError> {
        range_end(src_offset, len)?;
        range_end(dst_offset, len)?;
        if len == 0 {
            return Ok(());
        }
        self.write(dst, dst_offset, b"")?;
        self.punch(dst, dst_offset, len)?;
        let mut done = 0;
        while done < len {
            let data = match self.seek(src, src_offset + done, Content::Data) {
                Ok(Some(at)) if at < src_offset + len => at,
                Ok(_) | Err(ObjectError::NotFound) => break,
                Err(e) => return Err(e),
            };
            let step = PAGE_BYTES - data % PAGE_BYTES;
            let step = step.min(src_offset + len - data);
            let step = u32::try_from(step).expect("within a page");
            let Span::Bytes(bytes) = self.read(src, data, step)? else {
                unreachable!("reads of memory are bytes");
            };
            self.write(dst, dst_offset + (data - src_offset), &bytes)?;
            done = data - src_offset + u64::from(step);
        }
        Ok(())
    }

    fn set_size(&self, id: ObjectId, size_bytes: u64) -> Result<(), ObjectError> {
        if size_bytes > OBJECT_BYTES_MAX {
            return Err(ObjectError::TooLarge);
        }
        let mut inner = self.inner.lock();
        let object = inner.live.get_mut(&id).ok_or(ObjectError::NotFound)?;
        let before = object.cost_bytes();
        object.set_size(size_bytes);
        let freed = before - object.cost_bytes();
        inner.used_bytes -= freed;
        if self.options.manual {
            inner.synced.entry(id).or_default().set_size(size_bytes);
        }
        Ok(())
    }

    fn remove(&self, id: ObjectId) -> Result<(), ObjectError> {
        let mut inner = self.inner.lock();
        if let Some(object) = inner.live.remove(&id) {
            inner.used_bytes -= object.cost_bytes();
        }
        inner.synced.remove(&id);
        Ok(())
    }

    fn is_cached(&self, _: ObjectId, _: u64, _: u32) -> bool {
        true
    }

    fn capacity(&self) -> Result<Capacity, ObjectError> {
        let total_bytes = self.options.capacity_bytes;
        Ok(Capacity {
            total_bytes,
            free_bytes: total_bytes.saturating_sub(self.inner.lock().used_bytes),
            disk: 0,
        })
    }

    fn list(&self, visit: &mut dyn FnMut(ObjectId, ObjectStat) -> bool) -> Result<(), ObjectError> {
        // Taken out first: the visitor may call the store.
        let all: Vec<_> = self
            .inner
            .lock()
            .live
            .iter()
            .map(|(id, o)| (*id, stat(o)))
            .collect();
        for (id, stat) in all {
            if !visit(id, stat) {
                break;
            }
        }
        Ok(())
    }

    fn tie(&self, _: u64, _: bool) -> Result<(), ObjectError> {
        Ok(())
    }

    fn is_persistent(&self) -> bool {
        false
    }
}

#[cfg(test)]
mod tests;
