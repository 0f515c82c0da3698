//! Numbers that look random and are the same in every run, and Zipf's law.

use crate::pattern::mix;

/// A sequence of numbers from a seed.
#[derive(Debug, Clone)]
pub(crate) struct Random {
    next: u64,
}

impl Random {
    pub(crate) fn new(seed: u64) -> Self {
        Self { next: mix(seed) }
    }

    pub(crate) fn number(&mut self) -> u64 {
        self.next = self.next.wrapping_add(1);
        mix(self.next)
    }

    /// From 0 to below `limit`, which is not 0. The bias of the remainder is far below what a measurement could show.
    pub(crate) fn below(&mut self, limit: u64) -> u64 {
        self.number() % limit
    }

    /// From 0 to below 1.
    #[allow(clippy::cast_precision_loss, reason = "53 bits fit exactly")]
    pub(crate) fn unit(&mut self) -> f64 {
        (self.number() >> 11) as f64 / (1_u64 << 53) as f64
    }
}

/// The numbers below `count` in an order that looks random, the same in every run.
pub(crate) fn shuffled(count: u32) -> Vec<u32> {
    let mut numbers: Vec<u32> = (0..count).collect();
    let mut random = Random::new(u64::from(count));
    for last in (1..numbers.len()).rev() {
        let other = random.below(last as u64 + 1);
        numbers.swap(last, usize::try_from(other).expect("an index of a list"));
    }
    numbers
}

/// Zipf's law over a number of ranks: the rank `r`, counted from 1, comes up in proportion to `1 / r^alpha`.
#[derive(Debug, Clone)]
pub(crate) struct Zipf {
    /// Chance of this rank or a lower one; the last is 1.
    cumulative: Vec<f64>,
}

impl Zipf {
    #[allow(clippy::cast_precision_loss, reason = "ranks are far below 2^52")]
    pub(crate) fn new(ranks_count: usize, alpha: f64) -> Self {
        let mut sum = 0.0;
        let mut cumulative: Vec<f64> = (1..=ranks_count.max(1))
            .map(|rank| {
                sum += (rank as f64).powf(-alpha);
                sum
            })
            .collect();
        for chance in &mut cumulative {
            *chance /= sum;
        }
        Self { cumulative }
    }

    /// A rank, counted from 0.
    pub(crate) fn rank(&self, random: &mut Random) -> usize {
        let unit = random.unit();
        let rank = self.cumulative.partition_point(|chance| *chance <= unit);
        rank.min(self.cumulative.len() - 1)
    }
}

#[cfg(test)]
mod tests {
    //! The law is met by what is drawn, and the sequence is the same each time.
    use super::*;

    #[test]
    fn draws_follow_the_law() {
        const DRAWS: u32 = 200_000;
        let zipf = Zipf::new(1000, 0.9);
        let mut random = Random::new(1);
        let mut counts = vec![0_u32; 1000];
        for _ in 0..DRAWS {
            counts[zipf.rank(&mut random)] += 1;
        }
        let norm: f64 = (1..=1000).map(|r| f64::from(r).powf(-0.9)).sum();
        for rank in [1_u32, 2, 10, 100] {
            let expected = f64::from(DRAWS) * f64::from(rank).powf(-0.9) / norm;
            let drawn = f64::from(counts[rank as usize - 1]);
            // Five standard deviations of a binomial count; the seed is fixed, so this either holds or does not.
            let off = (drawn - expected).abs();
            assert!(
                off < 5.0 * expected.sqrt(),
                "rank {rank}: {drawn} for {expected}"
            );
        }
        assert_eq!(counts.iter().sum::<u32>(), DRAWS);
    }

    #[test]
    fn alpha_zero_is_uniform_and_one_rank_is_certain() {
        let mut random = Random::new(2);
        let zipf = Zipf::new(4, 0.0);
        let mut counts = [0_u32; 4];
        for _ in 0..40_000 {
            counts[zipf.rank(&mut random)] += 1;
        }
        assert!(
            counts.iter().all(|c| (9_500..10_500).contains(c)),
            "{counts:?}"
        );
        assert_eq!(Zipf::new(1, 0.9).rank(&mut random), 0);
        assert_eq!(Zipf::new(0, 0.9).rank(&mut random), 0);
    }

    #[test]
    fn shuffling_loses_nothing() {
        let mut numbers = shuffled(1000);
        assert_ne!(numbers[..10], [0, 1, 2, 3, 4, 5, 6, 7, 8, 9]);
        assert_eq!(numbers, shuffled(1000));
        numbers.sort_unstable();
        assert!(numbers.into_iter().eq(0..1000));
        assert!(shuffled(0).is_empty());
    }

    #[test]
    fn the_sequence_repeats_from_its_seed() {
        let draw = |seed| {
            let mut random = Random::new(seed);
            (0..5).map(|_| random.below(100)).collect::<Vec<_>>()
        };
        assert_eq!(draw(7), draw(7));
        assert_ne!(draw(7), draw(8));
        assert!(Random::new(9).unit() < 1.0);
    }
}
