//! A sharded, bounded cache above the store: reads of what it holds never touch the store.
//!
//! It knows keys, values (or the fact that a key has none) and the transactions that made them; what
//! they mean is the caller's. Entry points: [`Cache::load`] for readers, [`Cache::mark`] then
//! [`Cache::publish`] for the one writer.
//!
//! # Ownership
//! One writer at a time (the name space's writer lock) marks and publishes; any thread reads.
//!
//! # Ordering
//! Before a transaction commits, its keys are *marked*; after the commit their new values are
//! *published* together with its number. A reader that meets a marked key waits for the publication,
//! so a reader sees the old value before, or the new one with the right number after. Two readers never see new and
//! then old. A reader that fills from the store registers its load first: a mark during the load spoils it, and it
//! starts again. So a load that was not spoilt returns a value that was published earlier and evicted since.
//!
//! The number of an evicted entry survives in its shard's *floor*, the highest number evicted from it. A fill carries the floor.
//! Eviction passes over entries that are not durable yet, while others are found within [`EVICT_PROBES_MAX`] steps. So the floor
//! is usually durable already, and waiting for it costs nothing. Either way no reader takes an undurable value for a durable one
//! (R7).
//!
//! # Failure
//! After a failed commit marks are withdrawn and the old values stay.

use meta::Seq;
use parking_lot::{Condvar, Mutex, MutexGuard};
use std::collections::HashMap;
use std::hash::{BuildHasher, BuildHasherDefault, Hash, Hasher};

/// Shards of a cache; a power of two.
const SHARDS_COUNT: usize = 64;
/// Steps of the clock hand in search of a durable victim.
const EVICT_PROBES_MAX: usize = 128;
/// Keys of each shard that were looked for last and have no value. A client looks for a name before it makes it.
const ABSENT_KEYS: usize = 8;
/// Spoilt loads of one key in a row, after which a reader takes what it read uncached.
const LOAD_TRIES_MAX: usize = 32;

/// Mixes integer keys; they come from counters and keyed hashes, not from peers.
#[derive(Debug, Default, Clone, Copy)]
pub(crate) struct Mix(u64);

impl Hasher for Mix {
    fn finish(&self) -> u64 {
        self.0 ^ self.0 >> 32
    }

    fn write(&mut self, bytes: &[u8]) {
        for byte in bytes {
            self.write_u64(u64::from(*byte));
        }
    }

    fn write_u64(&mut self, n: u64) {
        self.0 = (self.0.rotate_left(25) ^ n).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    }
}

type Mixed = BuildHasherDefault<Mix>;

/// What the cache knows of a key.
#[derive(Debug, Clone)]
pub(crate) struct Hit<V> {
    /// Its value; `None`: it has none.
    pub(crate) value: Option<V>,
    /// The newest transaction that wrote it, or a later one.
    pub(crate) seq: Seq,
    /// The newest that wrote more than the parts that change all the time (see [`Cache::publish`]).
    pub(crate) steady: Seq,
}

#[derive(Debug)]
struct Slot<K, V> {
    key: K,
    hit: Hit<V>,
    referenced: bool,
}

#[derive(Debug)]
struct Load<K> {
    token: u64,
    key: K,
    spoilt: bool,
}

#[derive(Debug)]
struct State<K, V> {
    index: HashMap<K, usize, Mixed>,
    slots: Vec<Slot<K, V>>,
    hand: usize,
    floor: Seq,
    /// Keys that a load has not found, and that were not written since; the oldest makes room.
    absent: [Option<K>; ABSENT_KEYS],
    absent_at: usize,
    /// Keys of the transaction that commits just now.
    marked: Vec<K>,
    /// Loads under way: at most one per thread.
    loads: Vec<Load<K>>,
    tokens: u64,
}

#[derive(Debug)]
struct Shard<K, V> {
    state: Mutex<State<K, V>>,
    published: Condvar,
}

/// See the module's comment.
#[derive(Debug)]
pub(crate) struct Cache<K, V> {
    shards: Vec<Shard<K, V>>,
    slots_per_shard: usize,
}

impl<K: Copy + Eq + Hash, V: Clone> Cache<K, V> {
    /// At most `entries_max` entries, rounded up to at least one per shard.
    pub(crate) fn new(entries_max: usize) -> Self {
        let shard = || Shard {
            state: Mutex::new(State {
                index: HashMap::default(),
                slots: Vec::new(),
                hand: 0,
                floor: Seq(0),
                absent: [None; ABSENT_KEYS],
                absent_at: 0,
                marked: Vec::new(),
                loads: Vec::new(),
                tokens: 0,
            }),
            published: Condvar::new(),
        };
        Self {
            shards: (0..SHARDS_COUNT).map(|_| shard()).collect(),
            slots_per_shard: entries_max.div_ceil(SHARDS_COUNT).max(1),
        }
    }

    fn shard(&self, key: &K) -> &Shard<K, V> {
        let mixed = Mixed::default().hash_one(key) >> 48;
        &self.shards[usize::try_from(mixed).expect("16 bits") % SHARDS_COUNT]
    }

    /// Entries held now.
    pub(crate) fn len(&self) -> usize {
        self.shards.iter().map(|s| s.state.lock().slots.len()).sum()
    }

    /// The value of a key, from the cache or by `read` from the store. `applied` is the store's newest
    /// transaction, `durable` its watermark. Not for the writer, which would wait for itself.
    pub(crate) fn load<E>(
        &self,
        key: K,
        applied: impl Fn() -> Seq,
        durable: impl Fn() -> Seq,
        read: impl Fn() -> Result<Option<V>, E>,
    ) -> Result<Hit<V>, E> {
        let shard = self.shard(&key);
        for _ in 0..LOAD_TRIES_MAX {
            let mut state = shard.settled(&key);
            if let Some(hit) = state.hit(&key) {
                return Ok(hit);
            }
            let token = state.begin_load(key);
            drop(state);
            let value = read();
            let mut state = shard.state.lock();
            if state.end_load(token) || value.is_err() {
                let value = value?;
                return Ok(state.fill(key, value, self.slots_per_shard, durable()));
            }
        }
        // Other transactions kept changing the key; any of them may have been read.
        let value = read()?;
        let seq = applied();
        Ok(Hit {
            value,
            seq,
            steady: seq,
        })
    }

    /// The writer's read: what is cached, marked or not.
    pub(crate) fn peek(&self, key: &K) -> Option<Hit<V>> {
        self.shard(key).state.lock().hit(key)
    }

    /// The writer's fill, while no transaction of its own is committing.
    pub(crate) fn fill(&self, key: K, value: Option<V>, durable: Seq) -> Hit<V> {
        let mut state = self.shard(&key).state.lock();
        state.fill(key, value, self.slots_per_shard, durable)
    }

    /// The transaction that is about to commit writes `key`.
    pub(crate) fn mark(&self, key: K) {
        let mut state = self.shard(&key).state.lock();
        for load in &mut state.loads {
            load.spoilt |= load.key == key;
        }
        if !state.marked.contains(&key) {
            state.marked.push(key);
        }
    }

    /// The transaction did not commit.
    pub(crate) fn unmark(&self, key: &K) {
        let shard = self.shard(key);
        shard.state.lock().marked.retain(|k| k != key);
        shard.published.notify_all();
    }

    /// The transaction committed as `seq`. `keeps_steady` says that the parts of the value that `steady`
    /// stands for are unchanged.
    pub(crate) fn publish(
        &self,
        key: K,
        value: Option<V>,
        seq: Seq,
        keeps_steady: bool,
        durable: Seq,
    ) {
        let shard = self.shard(&key);
        let mut state = shard.state.lock();
        state.marked.retain(|k| *k != key);
        let old = state.index.get(&key).map(|at| state.slots[*at].hit.steady);
        let steady = old.filter(|_| keeps_steady).unwrap_or(seq);
        let hit = Hit { value, seq, steady };
        state.insert(key, hit, self.slots_per_shard, durable);
        drop(state);
        shard.published.notify_all();
    }
}

impl<K: Copy + Eq, V> Shard<K, V> {
    /// The shard, once no transaction that writes `key` is committing.
    fn settled(&self, key: &K) -> MutexGuard<'_, State<K, V>> {
        let mut state = self.state.lock();
        while state.marked.contains(key) {
            self.published.wait(&mut state);
        }
        state
    }
}

impl<K: Copy + Eq + Hash, V: Clone> State<K, V> {
    fn hit(&mut self, key: &K) -> Option<Hit<V>> {
        let Some(at) = self.index.get(key) else {
            let is_absent = self.absent.contains(&Some(*key));
            return is_absent.then(|| self.of_the_store(None));
        };
        let slot = &mut self.slots[*at];
        slot.referenced = true;
        Some(slot.hit.clone())
    }

    fn begin_load(&mut self, key: K) -> u64 {
        self.tokens += 1;
        self.loads.push(Load {
            token: self.tokens,
            key,
            spoilt: false,
        });
        self.tokens
    }

    /// Whether nothing wrote the key meanwhile.
    fn end_load(&mut self, token: u64) -> bool {
        let at = self.loads.iter().position(|l| l.token == token);
        at.is_some_and(|at| !self.loads.swap_remove(at).spoilt)
    }

    /// What the store says of a key that is not in a slot.
    fn of_the_store(&self, value: Option<V>) -> Hit<V> {
        Hit {
            value,
            seq: self.floor,
            steady: self.floor,
        }
    }

    /// Enters what was read from the store. Absent keys get no slots: they would let lookups of names
    /// that do not exist push out those that do.
    fn fill(&mut self, key: K, value: Option<V>, slots_max: usize, durable: Seq) -> Hit<V> {
        if let Some(hit) = self.hit(&key) {
            return hit;
        }
        let hit = self.of_the_store(value);
        if hit.value.is_some() {
            self.insert(key, hit.clone(), slots_max, durable);
        } else {
            self.absent[self.absent_at] = Some(key);
            self.absent_at = (self.absent_at + 1) % ABSENT_KEYS;
        }
        hit
    }

    fn insert(&mut self, key: K, hit: Hit<V>, slots_max: usize, durable: Seq) {
        for absent in &mut self.absent {
            absent.take_if(|absent| *absent == key);
        }
        let slot = Slot {
            key,
            hit,
            referenced: true,
        };
        if let Some(at) = self.index.get(&key) {
            self.slots[*at] = slot;
        } else if self.slots.len() < slots_max {
            self.index.insert(key, self.slots.len());
            self.slots.push(slot);
        } else {
            let at = self.victim(durable);
            let old = std::mem::replace(&mut self.slots[at], slot);
            self.index.remove(&old.key);
            self.index.insert(key, at);
            self.floor = self.floor.max(old.hit.seq);
        }
    }

    /// The first durable entry that was not used since the hand came by, or whatever lies after the
    /// last probe.
    fn victim(&mut self, durable: Seq) -> usize {
        for _ in 0..EVICT_PROBES_MAX {
            let at = self.advance();
            let slot = &mut self.slots[at];
            if !std::mem::take(&mut slot.referenced) && slot.hit.seq <= durable {
                return at;
            }
        }
        self.advance()
    }

    fn advance(&mut self) -> usize {
        let at = self.hand;
        self.hand = (at + 1) % self.slots.len();
        at
    }
}

#[cfg(test)]
mod tests {
    //! Goal: the cache is bounded, never shows old after new, and never lets a value that is not
    //! durable pass for one that is.

    use super::*;
    use std::cell::Cell;
    use std::sync::Arc;
    use std::sync::atomic::{AtomicU64, Ordering};

    type Plain = Cache<u64, u64>;
    type Never = std::convert::Infallible;

    fn load(cache: &Plain, key: u64, read: impl Fn() -> Option<u64>) -> Hit<u64> {
        let read = || Ok::<_, Never>(read());
        cache.load(key, || Seq(99), || Seq(0), read).unwrap()
    }

    #[test]
    fn it_holds_no_more_than_its_bound_and_the_floor_remembers_what_went() {
        let cache = Plain::new(64);
        for key in 1..=1000_u64 {
            cache.publish(key, Some(key), Seq(key), false, Seq(0));
        }
        assert!(cache.len() <= 64);
        for key in 1..=1000_u64 {
            let hit = load(&cache, key, || Some(key));
            assert!(hit.seq >= Seq(key), "key {key} came back as {:?}", hit.seq);
        }
    }

    #[test]
    fn a_key_that_was_not_found_is_not_looked_for_again_until_it_is_written() {
        let cache = Plain::new(64);
        let reads = Cell::new(0);
        let look = |key| {
            let read = || {
                reads.set(reads.get() + 1);
                None
            };
            load(&cache, key, read)
        };
        assert_eq!((look(1).value, look(1).value), (None, None));
        assert_eq!(reads.get(), 1);
        cache.publish(1, Some(5), Seq(3), false, Seq(0));
        assert_eq!(look(1).value, Some(5));
        // What is kept of keys that are not there is bounded.
        let keys = 2..=1000_u64;
        let absent = || keys.clone().filter(|key| cache.peek(key).is_some());
        for key in keys.clone() {
            look(key);
        }
        assert!((1..=SHARDS_COUNT * ABSENT_KEYS).contains(&absent().count()));
        assert_eq!(cache.len(), 1);
    }

    #[test]
    fn a_key_that_was_not_found_has_the_number_of_what_was_evicted() {
        let cache = Plain::new(1);
        load(&cache, 1, || None);
        let neighbours: Vec<u64> = (2..)
            .filter(|key| std::ptr::eq(cache.shard(key), cache.shard(&1)))
            .take(2)
            .collect();
        for key in neighbours {
            cache.publish(key, Some(key), Seq(key), false, Seq(0));
        }
        let floor = cache.shard(&1).state.lock().floor;
        assert!(floor > Seq(0));
        assert_eq!(load(&cache, 1, || Some(9)).seq, floor);
    }

    #[test]
    fn durable_entries_go_first() {
        let cache = Plain::new(16 * SHARDS_COUNT);
        for key in 1..=100_u64 {
            cache.publish(key, Some(key), Seq(key), false, Seq(0));
        }
        for key in 101..=5000_u64 {
            cache.fill(key, Some(key), Seq(50));
        }
        assert!(cache.shards.iter().all(|s| s.state.lock().floor <= Seq(50)));
        assert!((51..=100).all(|key| cache.peek(&key).is_some()));
    }

    #[test]
    fn a_mark_spoils_a_load_under_way() {
        let cache = Plain::new(64);
        let runs = Cell::new(0);
        let hit = load(&cache, 1, || {
            if runs.replace(runs.get() + 1) == 0 {
                cache.mark(1);
                cache.publish(1, Some(8), Seq(5), false, Seq(0));
            }
            Some(7)
        });
        assert_eq!((hit.value, hit.seq), (Some(8), Seq(5)));
    }

    #[test]
    fn a_load_that_is_spoilt_every_time_answers_with_the_newest_number() {
        let cache = Plain::new(64);
        let hit = load(&cache, 1, || {
            cache.mark(1);
            cache.unmark(&1);
            Some(7)
        });
        assert_eq!((hit.value, hit.seq), (Some(7), Seq(99)));
    }

    #[test]
    fn steady_parts_keep_their_number() {
        let cache = Plain::new(64);
        cache.publish(1, Some(1), Seq(1), false, Seq(0));
        cache.publish(1, Some(2), Seq(2), true, Seq(0));
        let hit = load(&cache, 1, || None);
        assert_eq!((hit.seq, hit.steady), (Seq(2), Seq(1)));
        cache.publish(1, Some(3), Seq(3), false, Seq(0));
        assert_eq!(load(&cache, 1, || None).steady, Seq(3));
    }

    #[test]
    fn a_reader_of_a_marked_key_waits_for_its_publication() {
        let cache = Arc::new(Plain::new(64));
        cache.publish(1, Some(1), Seq(1), false, Seq(0));
        let step = Arc::new(AtomicU64::new(0));
        cache.mark(1);
        let reader = {
            let (cache, step) = (cache.clone(), step.clone());
            std::thread::spawn(move || {
                step.store(1, Ordering::SeqCst);
                load(&cache, 1, || None)
            })
        };
        while step.load(Ordering::SeqCst) == 0 {
            std::thread::yield_now();
        }
        cache.publish(1, Some(2), Seq(2), false, Seq(0));
        assert_eq!(reader.join().unwrap().value, Some(2));
    }
}
