//! The keys that come most often, counted in bounded memory: the Space-Saving sketch of A. Metwally, D. Agrawal and
//! A. El Abbadi, "Efficient Computation of Frequent and Top-k Elements in Data Streams", ICDT 2005.
//!
//! Owns counters of keys. A new key takes the counter of the least frequent one, and what that had counted becomes the new
//! key's error. So a count is too high by its error at most. A key with more than a share of 1/`max` of all is there.
//!
//! Pure: knows no clock and no file. Halving from time to time makes it forget.

/// What is known of one key.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Counter<K, V> {
    pub(crate) key: K,
    /// At most so often it came.
    count: u64,
    /// What `count` may be too high by.
    error: u64,
    /// What is counted beside it since the key has this counter.
    pub(crate) beside: V,
}

impl<K, V> Counter<K, V> {
    /// So often the key came at least.
    pub(crate) const fn at_least(&self) -> u64 {
        self.count.saturating_sub(self.error)
    }
}

/// See the module. The counters are in falling order of their counts: frequent keys are found first, and the last one is
/// the one to take.
#[derive(Debug)]
pub(crate) struct HeavyHitters<K, V> {
    counters: Vec<Counter<K, V>>,
    max: usize,
}

impl<K: Copy + PartialEq, V: Copy + Default> HeavyHitters<K, V> {
    /// Of `max` counters, at least one.
    pub(crate) fn new(max: usize) -> Self {
        let max = max.max(1);
        Self {
            counters: Vec::with_capacity(max),
            max,
        }
    }

    /// A key came `weight` times.
    pub(crate) fn note(&mut self, key: K, weight: u64) {
        let at = self.place_of(key);
        let count = self.counters[at].count.saturating_add(weight);
        self.counters[at].count = count;
        let to = self.counters[..at].partition_point(|c| c.count >= count);
        self.counters[to..=at].rotate_right(1);
    }

    /// Where the counter of a key is, which may be another key's until now.
    fn place_of(&mut self, key: K) -> usize {
        if let Some(at) = self.counters.iter().position(|c| c.key == key) {
            return at;
        }
        let is_full = self.counters.len() == self.max;
        let taken = if is_full { self.counters.pop() } else { None };
        let least = taken.map_or(0, |c| c.count);
        self.counters.push(Counter {
            key,
            count: least,
            error: least,
            beside: V::default(),
        });
        self.counters.len() - 1
    }

    /// What is counted beside a key; `None` of one without a counter.
    pub(crate) fn beside(&mut self, key: K) -> Option<&mut V> {
        let mut counters = self.counters.iter_mut();
        let found = counters.find(|c| c.key == key);
        found.map(|c| &mut c.beside)
    }

    /// Halves all counts, and by `halve` what is counted beside them. Keys without a count go.
    pub(crate) fn halve(&mut self, halve: impl Fn(&mut V)) {
        for counter in &mut self.counters {
            counter.count /= 2;
            counter.error /= 2;
            halve(&mut counter.beside);
        }
        self.counters.retain(|c| c.count > 0);
    }

    /// At most `max` keys, those first that came most often for certain.
    pub(crate) fn top(&self, max: usize) -> Vec<Counter<K, V>> {
        let mut top: Vec<_> = self.counters.clone();
        top.retain(|c| c.at_least() > 0);
        top.sort_by_key(|c| std::cmp::Reverse(c.at_least()));
        top.truncate(max);
        top
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(max: usize, stream: &str) -> HeavyHitters<char, u64> {
        let mut sketch = HeavyHitters::new(max);
        stream.chars().for_each(|key| sketch.note(key, 1));
        sketch
    }

    fn told(sketch: &HeavyHitters<char, u64>) -> Vec<(char, u64, u64)> {
        let counters = sketch.counters.iter();
        counters.map(|c| (c.key, c.count, c.error)).collect()
    }

    #[test]
    fn a_new_key_takes_the_counter_of_the_least_frequent_one_with_its_count_as_error() {
        for (max, stream, counters) in [
            (3, "", &[][..]),
            (3, "abacab", &[('a', 3, 0), ('b', 2, 0), ('c', 1, 0)]),
            (2, "xxyz", &[('x', 2, 0), ('z', 2, 1)]),
            (2, "xxyzy", &[('y', 3, 2), ('x', 2, 0)]),
            (1, "abc", &[('c', 3, 2)]),
        ] {
            assert_eq!(told(&of(max, stream)), counters, "{max} {stream}");
        }
    }

    #[test]
    fn the_first_are_those_that_came_most_often_for_certain() {
        for (max, stream, asked, top) in [
            (3, "abacab", 2, &[('a', 3), ('b', 2)][..]),
            (2, "xxyzy", 5, &[('x', 2), ('y', 1)]),
            (2, "", 5, &[]),
        ] {
            let sketch = of(max, stream);
            let found: Vec<_> = sketch
                .top(asked)
                .iter()
                .map(|c| (c.key, c.at_least()))
                .collect();
            assert_eq!(found, top, "{max} {stream}");
        }
    }

    #[test]
    fn halving_forgets_and_keeps_the_order() {
        let mut sketch = of(3, "aaaaabbbc");
        *sketch.beside('b').unwrap() = 9;
        sketch.halve(|beside| *beside /= 2);
        assert_eq!(told(&sketch), [('a', 2, 0), ('b', 1, 0)]);
        assert_eq!(sketch.beside('b'), Some(&mut 4));
        assert_eq!(sketch.beside('c'), None);
        sketch.halve(|beside| *beside /= 2);
        sketch.halve(|beside| *beside /= 2);
        assert_eq!(told(&sketch), []);
    }

    #[test]
    fn what_is_counted_beside_a_key_goes_with_its_counter() {
        let mut sketch = of(1, "a");
        *sketch.beside('a').unwrap() = 7;
        sketch.note('b', 1);
        sketch.note('a', 1);
        assert_eq!(sketch.beside('a'), Some(&mut 0));
    }

    /// The bounds that the paper proves, over streams of a few heavy keys in much noise.
    #[test]
    fn frequent_keys_are_there_and_counts_are_within_their_errors() {
        const MAX: usize = 16;
        for (heavy_count, every) in [(1_u8, 2), (4, 3), (7, 2)] {
            let heavy = u64::from(heavy_count);
            let mut sketch: HeavyHitters<u64, ()> = HeavyHitters::new(MAX);
            let mut truth = std::collections::BTreeMap::new();
            let mut dice: u64 = 0x9e37_79b9;
            let total = 20_000;
            for at in 0..total {
                dice ^= dice << 13;
                dice ^= dice >> 7;
                dice ^= dice << 17;
                let key = match at % every {
                    0 => dice % heavy,
                    _ => 1000 + dice % 5000,
                };
                sketch.note(key, 1);
                *truth.entry(key).or_insert(0_u64) += 1;
            }
            let sum: u64 = sketch.counters.iter().map(|c| c.count).sum();
            assert_eq!(sum, total);
            for counter in &sketch.counters {
                let true_count = truth[&counter.key];
                assert!(counter.count >= true_count, "{heavy} {counter:?}");
                assert!(counter.at_least() <= true_count, "{heavy} {counter:?}");
                assert!(counter.error <= total / MAX as u64, "{heavy} {counter:?}");
            }
            let frequent = truth.iter().filter(|(_, n)| **n > total / MAX as u64);
            for (key, _) in frequent {
                assert!(sketch.counters.iter().any(|c| c.key == *key), "{key}");
            }
            let top: Vec<u64> = sketch
                .top(usize::from(heavy_count))
                .iter()
                .map(|c| c.key)
                .collect();
            assert!(top.iter().all(|key| *key < heavy), "{heavy} {top:?}");
        }
    }
}
