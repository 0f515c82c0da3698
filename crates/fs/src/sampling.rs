//! Which operations are looked at closely: one of [`SAMPLED_ONE_IN`] in the mean.
//!
//! Owns a countdown for each thread. Gaps are drawn anew each time, so that no pattern of requests hides from it or is all
//! that it sees.
//!
//! # Cost
//! An operation that is not sampled costs a decrement of its thread's own memory and a branch.

use std::cell::Cell;

/// One operation of so many is sampled, in the mean.
pub const SAMPLED_ONE_IN: u32 = 16;
/// Gaps are one of so many, from none on.
const GAPS_COUNT: u32 = 2 * SAMPLED_ONE_IN - 1;
/// Where the dice of a thread begin; anything but 0.
const SEED: u32 = 0x2545_f491;

struct Countdown {
    left: Cell<u32>,
    dice: Cell<u32>,
}

impl Countdown {
    const fn new() -> Self {
        Self {
            left: Cell::new(0),
            dice: Cell::new(SEED),
        }
    }

    #[inline]
    fn is_due(&self) -> bool {
        let left = self.left.get();
        if left > 0 {
            self.left.set(left - 1);
            return false;
        }
        self.left.set(self.gap());
        true
    }

    /// The next gap, by the generator of G. Marsaglia, "Xorshift RNGs", Journal of Statistical Software 8 (14), 2003.
    #[cold]
    fn gap(&self) -> u32 {
        let mut dice = self.dice.get();
        dice ^= dice << 13;
        dice ^= dice >> 17;
        dice ^= dice << 5;
        self.dice.set(dice);
        dice % GAPS_COUNT
    }
}

thread_local! {
    static COUNTDOWN: Countdown = const { Countdown::new() };
}

/// Whether this operation is one to look at. To be asked once for each.
#[inline]
#[must_use]
pub fn is_sampled() -> bool {
    COUNTDOWN.with(Countdown::is_due)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_part_of_a_pattern_is_sampled_as_often_as_the_others() {
        for period in [1, 2, 3, 8, 16, 31, 32] {
            let countdown = Countdown::new();
            let rounds = 40_000;
            let mut counts = vec![0_u32; period];
            for _ in 0..rounds {
                for count in &mut counts {
                    *count += u32::from(countdown.is_due());
                }
            }
            let wanted = rounds / SAMPLED_ONE_IN;
            for count in counts {
                assert!(count.abs_diff(wanted) < wanted / 10, "{period}: {count}");
            }
        }
    }
}
