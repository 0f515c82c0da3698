//! Linearizability: whether results of concurrent operations fit one order in which each took effect at one moment
//! between its start and its end (Herlihy and Wing).
//!
//! The search keeps the frontier of possible states and walks the history once; at the end of an operation only the
//! orders that include it go on. An operation whose outcome its client never learned may have happened or not.

use std::collections::BTreeSet;

/// Configurations looked at in one step before the search gives up.
const CONFIGS_MAX: usize = 30_000;

/// A moment: virtual milliseconds, then the number of the event.
pub(crate) type Moment = (u64, u64);

/// An operation with its interval.
#[derive(Debug, Clone)]
pub(crate) struct Timed<O> {
    /// Who did it, for the report.
    pub who: String,
    /// When it was asked for.
    pub start: Moment,
    /// When its outcome was known, or when it could no longer happen.
    pub end: Moment,
    /// Whether the outcome is unknown: it may never have happened.
    pub is_maybe: bool,
    /// What was done, and what came back.
    pub op: O,
}

/// What operations do to a state.
pub(crate) trait Model {
    /// The state.
    type State: Clone + Ord;
    /// An operation with its result.
    type Op: std::fmt::Debug;

    /// The state after operation number `index`, or `None` when it cannot have had its result in this state.
    fn apply(&self, state: &Self::State, index: usize, op: &Self::Op) -> Option<Self::State>;
}

/// How a search ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Verdict {
    /// There is an order.
    Linear,
    /// There is none: no order explains the result of this operation.
    Broken(usize),
    /// Too many orders to look at.
    Undecided,
}

type Config<S> = (S, BTreeSet<usize>);

/// Searches an order.
pub(crate) fn check<M: Model>(model: &M, initial: M::State, ops: &[Timed<M::Op>]) -> Verdict {
    let mut moments: Vec<(Moment, bool, usize)> = Vec::with_capacity(ops.len() * 2);
    for (index, op) in ops.iter().enumerate() {
        moments.push((op.start, false, index));
        moments.push((op.end, true, index));
    }
    moments.sort_unstable();
    let mut pending: BTreeSet<usize> = BTreeSet::new();
    let mut configs: BTreeSet<Config<M::State>> = BTreeSet::from([(initial, BTreeSet::new())]);
    for (_, is_end, index) in moments {
        if !is_end {
            pending.insert(index);
            continue;
        }
        let Some(next) = finish(model, ops, &pending, configs, index) else {
            return Verdict::Undecided;
        };
        if next.is_empty() {
            return Verdict::Broken(index);
        }
        pending.remove(&index);
        configs = next;
    }
    Verdict::Linear
}

/// The configurations in which operation `index` has taken effect, or never will.
fn finish<M: Model>(
    model: &M,
    ops: &[Timed<M::Op>],
    pending: &BTreeSet<usize>,
    configs: BTreeSet<Config<M::State>>,
    index: usize,
) -> Option<BTreeSet<Config<M::State>>> {
    let mut done = BTreeSet::new();
    let mut seen = configs.clone();
    let mut work: Vec<Config<M::State>> = configs.into_iter().collect();
    while let Some((state, mut applied)) = work.pop() {
        if seen.len() > CONFIGS_MAX {
            return None;
        }
        if applied.remove(&index) {
            done.insert((state, applied));
            continue;
        }
        for &other in pending.difference(&applied) {
            if let Some(after) = model.apply(&state, other, &ops[other].op) {
                let mut more = applied.clone();
                more.insert(other);
                let config = (after, more);
                if seen.insert(config.clone()) {
                    work.push(config);
                }
            }
        }
        if ops[index].is_maybe {
            done.insert((state, applied));
        }
    }
    Some(done)
}

#[cfg(test)]
mod tests {
    //! Goal: the search accepts what an order explains and nothing else, on a register of one number.

    use super::*;

    struct Register;

    #[derive(Debug, Clone, Copy)]
    enum Do {
        Write(u32),
        Read(u32),
    }

    impl Model for Register {
        type State = u32;
        type Op = Do;
        fn apply(&self, state: &u32, _: usize, op: &Do) -> Option<u32> {
            match *op {
                Do::Write(value) => Some(value),
                Do::Read(value) => (value == *state).then_some(value),
            }
        }
    }

    fn timed(start: u64, end: u64, op: Do) -> Timed<Do> {
        Timed {
            who: String::new(),
            start: (start, 0),
            end: (end, 0),
            is_maybe: false,
            op,
        }
    }

    #[test]
    fn concurrent_writes_may_come_in_either_order() {
        let ops = [
            timed(0, 10, Do::Write(1)),
            timed(1, 9, Do::Write(2)),
            timed(11, 12, Do::Read(1)),
        ];
        assert_eq!(check(&Register, 0, &ops), Verdict::Linear);
    }

    #[test]
    fn a_read_after_a_write_sees_it() {
        let ops = [timed(0, 1, Do::Write(1)), timed(2, 3, Do::Read(0))];
        assert_eq!(check(&Register, 0, &ops), Verdict::Broken(1));
    }

    #[test]
    fn what_was_seen_does_not_go_back() {
        let ops = [
            timed(0, 10, Do::Write(1)),
            timed(1, 2, Do::Read(1)),
            timed(3, 4, Do::Read(0)),
        ];
        assert_eq!(check(&Register, 0, &ops), Verdict::Broken(2));
    }

    #[test]
    fn an_operation_without_outcome_may_have_happened_or_not() {
        let mut write = timed(0, 1, Do::Write(1));
        write.is_maybe = true;
        for seen in [0, 1] {
            let ops = [write.clone(), timed(2, 3, Do::Read(seen))];
            assert_eq!(check(&Register, 0, &ops), Verdict::Linear);
        }
        let ops = [write, timed(2, 3, Do::Read(0)), timed(4, 5, Do::Read(1))];
        assert_eq!(check(&Register, 0, &ops), Verdict::Broken(2));
    }
}
