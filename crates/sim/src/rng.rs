//! The only source of chance of a run: a seeded generator (splitmix64) that can be split.
//!
//! Each part of the world draws from a generator of its own, so that one part's draws do not shift another's.

use parking_lot::Mutex;
use std::sync::Arc;

const STEP: u64 = 0x9e37_79b9_7f4a_7c15;

/// A sequence of choices.
#[derive(Debug, Clone)]
pub(crate) struct Rng(u64);

impl Rng {
    /// The sequence of a seed.
    #[must_use]
    pub(crate) const fn new(seed: u64) -> Self {
        Self(seed)
    }

    /// The next 64 bits.
    pub(crate) const fn bits(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(STEP);
        let z = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// A number below `bound`, which is not 0.
    pub(crate) const fn below(&mut self, bound: u64) -> u64 {
        self.bits() % bound
    }

    /// A number in `low..=high`.
    pub(crate) const fn within(&mut self, low: u64, high: u64) -> u64 {
        low + self.below(high - low + 1)
    }

    /// True in `per_mille` of 1000 cases.
    pub(crate) const fn chance(&mut self, per_mille: u32) -> bool {
        self.below(1000) < per_mille as u64
    }

    /// An index below `len`, which is not 0.
    pub(crate) fn index(&mut self, len: usize) -> usize {
        usize::try_from(self.below(len as u64)).expect("below a length")
    }

    /// A generator of its own.
    #[must_use]
    pub(crate) const fn split(&mut self) -> Self {
        Self(self.bits())
    }

    /// This generator as the function that servers ask for.
    #[must_use]
    pub(crate) fn into_source(self) -> Arc<dyn Fn() -> u64 + Send + Sync> {
        let state = Mutex::new(self);
        Arc::new(move || state.lock().bits())
    }
}
