//! Steering tags of one stream.
//!
//! A tag is 24 bits of an index that look random and a generation of 8 bits. A slot that is used again gets the next
//! generation and rests for a while first. A stale tag names nothing for 256 uses of its slot. The random bits come
//! from a keyed hash (RFC 5040 §8.1.1: tags are hard to predict and sparse).

use siphasher::sip::SipHasher13;
use std::collections::{HashMap, VecDeque};
use std::hash::{BuildHasherDefault, Hasher};

const INDEX_MASK: u32 = 0xffff_ff00;
/// Slots that rest before one of them is used again, so that few slots do not wear out their generations.
const RESTING_SLOTS: usize = 32;

/// Values under unpredictable tags.
#[derive(Debug)]
pub(crate) struct Keys<T> {
    slots: Vec<Slot<T>>,
    /// Slot by the high 24 bits of its tags.
    by_index: HashMap<u32, usize, BuildHasherDefault<Spread>>,
    free: VecDeque<usize>,
    slots_max: usize,
    seed: u64,
    drawn: u64,
}

/// Indices look random and are never of the peer's choice: that their bits are spread is enough of a hash.
#[derive(Debug, Default)]
struct Spread(u64);

impl Hasher for Spread {
    /// The low bits of an index are 0, and so are those of the product: tables take theirs from the high ones.
    fn finish(&self) -> u64 {
        self.0 ^ self.0 >> 32
    }

    fn write(&mut self, bytes: &[u8]) {
        bytes.iter().for_each(|byte| self.write_u32((*byte).into()));
    }

    fn write_u32(&mut self, n: u32) {
        self.0 = (self.0 ^ u64::from(n)).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    }
}

#[derive(Debug)]
struct Slot<T> {
    /// The tag that is in use, or will be next.
    tag: u32,
    value: Option<T>,
}

impl<T> Keys<T> {
    /// No tags; `seed` is secret and random.
    pub(crate) fn new(seed: u64, slots_max: usize) -> Self {
        Self {
            slots: Vec::new(),
            by_index: HashMap::default(),
            free: VecDeque::new(),
            slots_max,
            seed,
            drawn: 0,
        }
    }

    /// A tag for `value`, which comes back when there are too many.
    pub(crate) fn insert(&mut self, value: T) -> Result<u32, T> {
        let slot = if self.free.len() <= RESTING_SLOTS && self.slots.len() < self.slots_max {
            let tag = self.draw();
            self.slots.push(Slot { tag, value: None });
            self.by_index.insert(tag & INDEX_MASK, self.slots.len() - 1);
            self.slots.len() - 1
        } else {
            match self.free.pop_front() {
                Some(slot) => slot,
                None => return Err(value),
            }
        };
        let slot = &mut self.slots[slot];
        slot.value = Some(value);
        Ok(slot.tag)
    }

    /// A tag that is neither zero nor of an index in use.
    fn draw(&mut self) -> u32 {
        loop {
            let mut hash = SipHasher13::new_with_keys(self.seed, 0);
            hash.write_u64(self.drawn);
            self.drawn += 1;
            let tag = u32::try_from(hash.finish() >> 32).expect("32 bits");
            let index = tag & INDEX_MASK;
            if index != 0 && !self.by_index.contains_key(&index) {
                return tag;
            }
        }
    }

    fn slot(&self, tag: u32) -> Option<usize> {
        let slot = *self.by_index.get(&(tag & INDEX_MASK))?;
        (self.slots[slot].tag == tag).then_some(slot)
    }

    pub(crate) fn get(&self, tag: u32) -> Option<&T> {
        self.slots[self.slot(tag)?].value.as_ref()
    }

    pub(crate) fn get_mut(&mut self, tag: u32) -> Option<&mut T> {
        let slot = self.slot(tag)?;
        self.slots[slot].value.as_mut()
    }

    /// Ends a tag.
    pub(crate) fn remove(&mut self, tag: u32) -> Option<T> {
        let index = self.slot(tag)?;
        let slot = &mut self.slots[index];
        let value = slot.value.take()?;
        slot.tag = slot.tag & INDEX_MASK | slot.tag.wrapping_add(1) & !INDEX_MASK;
        self.free.push_back(index);
        Some(value)
    }

    /// Ends all tags.
    pub(crate) fn drain(&mut self) -> Vec<(u32, T)> {
        let tags: Vec<u32> = self.slots.iter().map(|slot| slot.tag).collect();
        tags.into_iter()
            .filter_map(|tag| Some((tag, self.remove(tag)?)))
            .collect()
    }
}

#[cfg(test)]
mod tests {
    //! Stale tags, the limit, and that tags do not follow each other.
    use super::*;

    #[test]
    fn a_stale_tag_names_nothing_for_256_uses_of_its_slot() {
        let mut keys = Keys::new(7, 1);
        let first = keys.insert(0).unwrap();
        assert_eq!(keys.insert(99), Err(99));
        assert_eq!(keys.remove(first), Some(0));
        for n in 1..256 {
            let tag = keys.insert(n).unwrap();
            assert_ne!(tag, first);
            assert_eq!(keys.get(first), None);
            assert_eq!(keys.remove(first), None);
            assert_eq!(keys.get_mut(tag).copied(), Some(n));
            assert_eq!(keys.remove(tag), Some(n));
        }
        assert_eq!(keys.insert(256), Ok(first));
    }

    #[test]
    fn tags_are_sparse_and_differ_by_seed() {
        let tags = |seed| {
            let mut keys = Keys::new(seed, 1000);
            (0..1000)
                .map(|n| keys.insert(n).unwrap())
                .collect::<Vec<_>>()
        };
        let (a, b) = (tags(1), tags(2));
        assert_eq!(a.iter().filter(|tag| b.contains(tag)).count(), 0);
        let near = a.windows(2).filter(|w| w[0].abs_diff(w[1]) < 1 << 16);
        assert!(near.count() < 10);
        assert!(!a.contains(&0));
    }

    #[test]
    fn draining_ends_every_tag() {
        let mut keys = Keys::new(3, 4);
        let tags: Vec<u32> = (0..3).map(|n| keys.insert(n).unwrap()).collect();
        keys.remove(tags[1]);
        assert_eq!(keys.drain(), [(tags[0], 0), (tags[2], 2)]);
        assert_eq!(keys.get(tags[0]), None);
    }
}
