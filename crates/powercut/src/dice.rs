//! Chance that a seed repeats.

/// A linear congruential generator (Knuth's constants): good enough for dice, and the same everywhere.
#[derive(Debug, Clone)]
pub struct Dice(u64);

impl Dice {
    /// Dice of a seed.
    #[must_use]
    pub fn new(seed: u64) -> Self {
        // The first numbers of neighbouring seeds are neighbours too.
        let mut dice = Self(seed ^ 0x9e37_79b9_7f4a_7c15);
        dice.roll(2);
        dice.roll(2);
        dice
    }

    /// A number below `sides`, 0 for none.
    pub fn roll(&mut self, sides: u64) -> u64 {
        self.0 = self
            .0
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) % sides.max(1)
    }

    /// As [`Dice::roll`], for lengths.
    ///
    /// # Panics
    /// Never: what is below a `usize` is one.
    pub fn below(&mut self, sides: usize) -> usize {
        usize::try_from(self.roll(sides as u64)).expect("below a usize")
    }

    /// True once in `sides` times.
    pub fn one_in(&mut self, sides: u64) -> bool {
        self.roll(sides) == 0
    }
}
