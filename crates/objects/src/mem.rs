//! Objects in memory: for `--memory` clusters, tests and the simulator.
//!
//! An object is a map of pages of [`PAGE_BYTES`]. A page holds only the bytes up to the last one written in it, so small and sparse
//! objects stay small. Reads share pages. Writes copy into them. Whole pages of a buffer that was handed over become pages of the
//! object as they are ([`kept`]). A write into a page that a reader still holds, or that is part of such a buffer, copies that page
//! first: spans never change.
//!
//! [`MemOptions::manual`] makes a store that remembers what was synced. [`MemObjects::after_crash`] makes one that a
//! power cut could have left: synced bytes are kept; all others are kept, lost or torn by a seed.
//! [`MemObjects::fail_sync`] does what a failed fsync of Linux does ([`stuck`]).
//!
//! # Ordering
//! One lock covers all objects: each call happens at once. `set_size` and `remove` are durable at once, as in
//! every store.

mod kept;
mod stuck;

pub use kept::KEPT_FACTOR_MAX;

use crate::{
    Capacity, Content, OBJECT_BYTES_MAX, ObjectError, ObjectId, ObjectStat, ObjectStore, Span,
    range_end,
};
use bytes::{Bytes, BytesMut};
use kept::Kept;
use parking_lot::Mutex;
use std::borrow::Cow;
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use stuck::Stuck;

pub use kept::PAGE_BYTES;
/// What a page and an object count against the capacity beside their bytes, so that tiny ones are bounded too.
const PAGE_COST_BYTES: u64 = 128;
const OBJECT_COST_BYTES: u64 = 256;
/// A crash tears pages at multiples of this.
const SECTOR_BYTES: usize = 512;
/// What is read where nothing was written: a page of it.
static ZEROS: [u8; 64 * 1024] = [0; 64 * 1024];

/// How to make a store.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct MemOptions {
    /// Bytes of memory, what pages and objects cost by themselves included, that the store takes before it answers [`ObjectError::NoSpace`].
    /// Pages that are parts of buffers which were handed over count by themselves; such a buffer takes at most
    /// [`KEPT_FACTOR_MAX`] times their bytes.
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
    copied_bytes: AtomicU64,
}

#[derive(Debug, Default)]
struct Inner {
    live: BTreeMap<ObjectId, Object>,
    used_bytes: u64,
    /// What a crash leaves for certain; kept only by manual stores.
    synced: BTreeMap<ObjectId, Object>,
    /// Pages that no sync writes; kept only by manual stores.
    stuck: Stuck,
}

#[derive(Debug, Clone, Default)]
struct Object {
    size_bytes: u64,
    /// By index; no page is longer than [`PAGE_BYTES`] or reaches past the size.
    pages: BTreeMap<u64, Bytes>,
    /// How long a page may become at no further cost, by index; it need not exist yet.
    reserved: BTreeMap<u64, usize>,
    /// Which pages are parts of buffers that were handed over.
    kept: Kept,
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

    /// Returns how many bytes were copied to give back buffers.
    fn punch(&mut self, offset: u64, len: u64) -> usize {
        let copied = self.let_go(offset, len);
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
        copied
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

    /// Returns how many bytes were copied.
    fn write(&mut self, offset: u64, mut data: &[u8]) -> usize {
        let mut copied = data.len() + self.let_go(offset, data.len() as u64);
        for piece in pieces(offset, data.len() as u64) {
            let (part, rest) = data.split_at(piece.end - piece.start);
            data = rest;
            let held = self.pages.remove(&piece.page).unwrap_or_default();
            // A page that a span or the synced state shares is copied; spans never change.
            let mut page = match held.try_into_mut() {
                Ok(page) => page,
                Err(shared) => {
                    copied += shared.len();
                    BytesMut::from(&shared[..])
                }
            };
            if page.len() < piece.end {
                page.resize(piece.end, 0);
            }
            page[piece.start..piece.end].copy_from_slice(part);
            self.pages.insert(piece.page, page.freeze());
        }
        copied
    }

    /// As [`Object::write`]; whole pages of the data become pages of the object where that is worth the buffer around them.
    fn write_shared(&mut self, offset: u64, data: &Bytes, buffer_bytes: usize) -> usize {
        let end = offset + data.len() as u64;
        let pages = offset.div_ceil(PAGE_BYTES)..end / PAGE_BYTES;
        if !kept::is_worth(&pages, buffer_bytes) {
            return self.write(offset, data);
        }
        let at = |page: u64| usize::try_from(page * PAGE_BYTES - offset).expect("within the data");
        let (start, stop) = (at(pages.start), at(pages.end));
        let whole_bytes = (stop - start) as u64;
        let mut copied = self.write(offset, &data[..start]);
        copied += self.let_go(pages.start * PAGE_BYTES, whole_bytes);
        for page in pages.clone() {
            self.pages.insert(page, data.slice(at(page)..at(page + 1)));
        }
        copied += self.write(pages.end * PAGE_BYTES, &data[stop..]);
        self.kept.add(pages, buffer_bytes);
        copied
    }

    /// The range is about to change. Afterwards none of its pages is a part of a buffer that was handed over, and
    /// buffers that become too empty are given back. Returns how many bytes were copied for that.
    fn let_go(&mut self, offset: u64, len: u64) -> usize {
        if len == 0 || self.kept.is_empty() {
            return 0;
        }
        let (first, last) = (offset / PAGE_BYTES, (offset + len - 1) / PAGE_BYTES);
        let mut copied = 0;
        for page in self.kept.release(first..=last) {
            if offset <= page * PAGE_BYTES && (page + 1) * PAGE_BYTES <= offset + len {
                // All of it is about to be replaced or dropped.
                self.pages.remove(&page);
            } else {
                copied += self.own(page);
            }
        }
        copied
    }

    /// Moves a page into memory of its own.
    fn own(&mut self, page: u64) -> usize {
        let Some(held) = self.pages.get_mut(&page) else {
            return 0;
        };
        *held = Bytes::copy_from_slice(&held[..]);
        held.len()
    }

    /// The same, which holds no buffer that was handed over.
    fn owned(mut self) -> Self {
        for page in self.kept.release(0..=u64::MAX) {
            self.own(page);
        }
        self
    }

    fn read(&self, offset: u64, len: u32) -> Vec<Bytes> {
        let len = u64::from(len).min(self.size_bytes.saturating_sub(offset));
        let mut out = Vec::with_capacity(pieces(offset, len).count());
        for piece in pieces(offset, len) {
            let end = self.pages.get(&piece.page).map_or(0, Bytes::len);
            let end = end.clamp(piece.start, piece.end);
            if piece.start < end {
                let page = &self.pages[&piece.page];
                out.push(page.slice(piece.start..end));
            }
            if end < piece.end {
                out.push(Bytes::from_static(&ZEROS[end..piece.end]));
            }
        }
        out
    }

    /// Returns how many bytes were copied to give back buffers.
    fn set_size(&mut self, size_bytes: u64) -> usize {
        let copied = self.let_go(size_bytes, OBJECT_BYTES_MAX - size_bytes);
        let page = size_bytes / PAGE_BYTES;
        let keep = usize::try_from(size_bytes % PAGE_BYTES).expect("within a page");
        let mut cut = self.pages.split_off(&page);
        if let Some(last) = cut.remove(&page).filter(|_| keep > 0) {
            // A copy when shorter, so that the bytes after the cut are given back.
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
        copied
    }
}

impl Inner {
    /// The object, made if it is not there, with room taken for what it grows by when the range is filled.
    fn take_room(
        &mut self,
        id: ObjectId,
        (offset, len): (u64, u64),
        capacity_bytes: u64,
    ) -> Result<&mut Object, ObjectError> {
        let empty = Object::default();
        let growth = match self.live.get(&id) {
            Some(object) => object.growth(offset, len),
            None => empty.cost_bytes() + empty.growth(offset, len),
        };
        if growth > capacity_bytes.saturating_sub(self.used_bytes) {
            return Err(ObjectError::NoSpace);
        }
        self.used_bytes += growth;
        Ok(self.live.entry(id).or_default())
    }
}

impl MemObjects {
    /// A store without objects.
    #[must_use]
    pub fn new(options: MemOptions) -> Self {
        Self {
            options,
            inner: Mutex::default(),
            copied_bytes: AtomicU64::new(0),
        }
    }

    /// The store that a power cut at this moment may leave. What was synced is there. Of the rest the seed decides. An
    /// object that was never synced may be gone, a page may be old, new or torn, and the size old or new. Only of use
    /// to a manual store; any other loses everything.
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
            let empty = Object::default();
            let synced = synced.unwrap_or(&empty);
            let live = on_disk(&inner.stuck, *id, live, synced);
            left.insert(*id, torn(synced, &live, &mut dice));
        }
        let used_bytes = left.values().map(Object::cost_bytes).sum();
        let inner = Inner {
            live: left.clone(),
            used_bytes,
            synced: left,
            stuck: Stuck::default(),
        };
        Self {
            options: self.options,
            inner: Mutex::new(inner),
            copied_bytes: AtomicU64::new(0),
        }
    }

    /// Does what a failed sync of the object does: see [`stuck`]. Of no effect on a store that is not manual, or without
    /// the object.
    pub fn fail_sync(&self, id: ObjectId) {
        let mut inner = self.inner.lock();
        let Inner {
            live,
            synced,
            stuck,
            ..
        } = &mut *inner;
        if let Some(live) = live.get(&id).filter(|_| self.options.manual) {
            let empty = Object::default();
            stuck.add(id, &live.pages, &synced.get(&id).unwrap_or(&empty).pages);
        }
    }

    fn copied(&self, bytes: usize) {
        self.copied_bytes.fetch_add(bytes as u64, Relaxed);
    }

    fn put(
        &self,
        id: ObjectId,
        (offset, len): (u64, u64),
        write: impl FnOnce(&mut Object) -> usize,
    ) -> Result<(), ObjectError> {
        let end = range_end(offset, len)?;
        let mut inner = self.inner.lock();
        let object = inner.take_room(id, (offset, len), self.options.capacity_bytes)?;
        self.copied(write(object));
        if len > 0 {
            object.size_bytes = object.size_bytes.max(end);
            inner.stuck.write(id, (offset, len));
        }
        Ok(())
    }
}

/// What a disk has that was written all but the pages which are stuck.
fn on_disk<'o>(stuck: &Stuck, id: ObjectId, live: &'o Object, synced: &Object) -> Cow<'o, Object> {
    let Some(pages) = stuck.of(id) else {
        return Cow::Borrowed(live);
    };
    let mut left = live.clone();
    for page in pages {
        match synced.pages.get(page) {
            Some(old) => left.pages.insert(*page, old.clone()),
            None => left.pages.remove(page),
        };
    }
    Cow::Owned(left)
}

/// A state between `synced` and `live` that a disk may hold.
fn torn(synced: &Object, live: &Object, dice: &mut Dice) -> Object {
    let mut left = synced.clone().owned();
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
            1 => Bytes::copy_from_slice(new),
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
        Ok(Span::Pieces(object.read(offset, len)))
    }

    fn read_from_disk(&self, id: ObjectId, offset: u64, len: u32) -> Result<Bytes, ObjectError> {
        let inner = self.inner.lock();
        let live = inner.live.get(&id).ok_or(ObjectError::NotFound)?;
        let synced = inner.synced.get(&id);
        let empty = Object::default();
        let on_disk = on_disk(&inner.stuck, id, live, synced.unwrap_or(&empty));
        Ok(on_disk.read(offset, len).concat().into())
    }

    fn write(&self, id: ObjectId, offset: u64, data: &[u8]) -> Result<(), ObjectError> {
        self.put(id, (offset, data.len() as u64), |object| {
            object.write(offset, data)
        })
    }

    fn write_shared(
        &self,
        id: ObjectId,
        offset: u64,
        data: &Bytes,
        buffer_bytes: usize,
    ) -> Result<(), ObjectError> {
        self.put(id, (offset, data.len() as u64), |object| {
            object.write_shared(offset, data, buffer_bytes)
        })
    }

    fn copied_bytes(&self) -> u64 {
        self.copied_bytes.load(Relaxed)
    }

    fn sync(&self, id: ObjectId) -> Result<(), ObjectError> {
        let mut inner = self.inner.lock();
        let object = inner.live.get(&id).ok_or(ObjectError::NotFound)?;
        if self.options.manual {
            let synced = inner.synced.get(&id);
            let empty = Object::default();
            let on_disk = on_disk(&inner.stuck, id, object, synced.unwrap_or(&empty));
            let on_disk = on_disk.into_owned();
            inner.synced.insert(id, on_disk);
        }
        Ok(())
    }

    fn drop_unwritten(&self, id: ObjectId) -> Result<(), ObjectError> {
        let mut inner = self.inner.lock();
        let Inner {
            live,
            synced,
            stuck,
            used_bytes,
        } = &mut *inner;
        let object = live.get_mut(&id).ok_or(ObjectError::NotFound)?;
        let before = object.cost_bytes();
        let synced = synced.get(&id);
        let empty = Object::default();
        let left = on_disk(stuck, id, object, synced.unwrap_or(&empty));
        *object = left.into_owned().owned();
        *used_bytes = *used_bytes - before + object.cost_bytes();
        stuck.remove(id);
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
            self.copied(object.punch(offset, len));
        }
        let freed = before - object.cost_bytes();
        inner.used_bytes -= freed;
        inner.stuck.write(id, (offset, len));
        Ok(())
    }

    fn reserve(&self, id: ObjectId, offset: u64, len: u64) -> Result<(), ObjectError> {
        range_end(offset, len)?;
        if len > self.options.capacity_bytes {
            return Err(ObjectError::NoSpace);
        }
        let mut inner = self.inner.lock();
        let object = inner.take_room(id, (offset, len), self.options.capacity_bytes)?;
        object.reserve(offset, len);
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
            let Span::Pieces(pieces) = self.read(src, data, step)? else {
                unreachable!("reads of memory are pieces");
            };
            done = data - src_offset;
            for piece in pieces {
                self.write(dst, dst_offset + done, &piece)?;
                done += piece.len() as u64;
            }
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
        self.copied(object.set_size(size_bytes));
        let freed = before - object.cost_bytes();
        inner.used_bytes -= freed;
        inner.stuck.cut(id, size_bytes);
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
        inner.stuck.remove(id);
        Ok(())
    }

    fn is_cached(&self, _: ObjectId, _: u64, _: u32) -> bool {
        true
    }

    fn capacity(&self) -> Result<Capacity, ObjectError> {
        let total_bytes = self.options.capacity_bytes;
        let free_bytes = total_bytes.saturating_sub(self.inner.lock().used_bytes);
        Ok(Capacity {
            total_bytes,
            free_bytes,
            unused_bytes: free_bytes,
            object_bytes_max: OBJECT_BYTES_MAX,
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
