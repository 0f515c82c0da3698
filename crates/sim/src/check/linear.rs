//! Linearizability: whether results of concurrent operations fit one order. In it each took effect at one moment
//! between its start and its end (Herlihy and Wing).
//!
//! The search walks the history once and goes deep first. At the end of an operation that has not taken effect yet it
//! takes effect, if need be after others that are under way. Where that leads nowhere, the latest choice is made anew;
//! no configuration is looked at twice. An operation whose outcome its client never learned may have happened or not,
//! and is believed to have happened only when something needs it. What only looks takes effect as soon as it can.

use std::collections::{BTreeSet, HashSet};
use std::hash::Hash;

/// Configurations looked at before the search gives up.
const CONFIGS_MAX: usize = 20_000;

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
    type State: Clone + Eq + Hash;
    /// An operation with its result.
    type Op: std::fmt::Debug;

    /// The state after operation number `index`, or `None` when it cannot have had its result in this state.
    fn apply(&self, state: &Self::State, index: usize, op: &Self::Op) -> Option<Self::State>;

    /// Whether an operation with this result changes nothing in any state: where it fits, it may take effect at once.
    fn is_look(&self, op: &Self::Op) -> bool;
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

/// A place in the search.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
struct Config<S> {
    /// Events after it.
    at: usize,
    state: S,
    /// What has taken effect of that which is under way.
    applied: BTreeSet<usize>,
}

/// The start or the end of an operation.
#[derive(Debug)]
struct Event {
    index: usize,
    is_end: bool,
    /// What is under way then.
    pending: Vec<usize>,
}

fn events<O>(ops: &[Timed<O>]) -> Vec<Event> {
    let mut moments: Vec<(Moment, bool, usize)> = Vec::with_capacity(ops.len() * 2);
    for (index, op) in ops.iter().enumerate() {
        moments.push((op.start, false, index));
        moments.push((op.end, true, index));
    }
    moments.sort_unstable();
    let mut under_way = BTreeSet::new();
    let event = |(_, is_end, index): (Moment, bool, usize)| {
        if !is_end {
            under_way.insert(index);
        }
        let pending = under_way.iter().copied().collect();
        if is_end {
            under_way.remove(&index);
        }
        Event {
            index,
            is_end,
            pending,
        }
    };
    moments.into_iter().map(event).collect()
}

struct Search<'a, M: Model> {
    model: &'a M,
    ops: &'a [Timed<M::Op>],
    events: Vec<Event>,
    /// Where to go on, the best at the end.
    work: Vec<Config<M::State>>,
    seen: HashSet<Config<M::State>>,
}

/// Searches an order.
pub(crate) fn check<M: Model>(model: &M, initial: M::State, ops: &[Timed<M::Op>]) -> Verdict {
    let mut search = Search {
        model,
        ops,
        events: events(ops),
        work: Vec::new(),
        seen: HashSet::new(),
    };
    search.push(Config {
        at: 0,
        state: initial,
        applied: BTreeSet::new(),
    });
    let mut furthest = 0;
    while let Some(config) = search.work.pop() {
        if search.seen.len() > CONFIGS_MAX {
            return Verdict::Undecided;
        }
        match search.step(config) {
            Some(at) => furthest = furthest.max(at),
            None => return Verdict::Linear,
        }
    }
    Verdict::Broken(search.events[furthest].index)
}

impl<M: Model> Search<'_, M> {
    /// Goes on to the next choice, and enters what can be chosen. Returns where that was, unless the history is over.
    fn step(&mut self, mut config: Config<M::State>) -> Option<usize> {
        while let Some(event) = self.events.get(config.at) {
            let index = event.index;
            if !event.is_end {
                config.at += 1;
                self.look(&mut config, &[index]);
            } else if config.applied.remove(&index) {
                config.at += 1;
            } else {
                self.choose(&config, index);
                return Some(config.at);
            }
        }
        None
    }

    /// Operation `index` ends and has not taken effect.
    fn choose(&mut self, config: &Config<M::State>, index: usize) {
        let pending = &self.events[config.at].pending;
        let others = pending.iter().copied();
        let others = others.filter(|o| *o != index && !config.applied.contains(o));
        let mut next: Vec<_> = others
            .rev()
            .filter_map(|other| self.after(config, other))
            .collect();
        if let Some(mut now) = self.after(config, index) {
            now.at += 1;
            now.applied.remove(&index);
            next.push(now);
        }
        if self.ops[index].is_maybe {
            let mut never = config.clone();
            never.at += 1;
            next.push(never);
        }
        next.into_iter().for_each(|config| self.push(config));
    }

    /// The configuration in which `index` has taken effect, when that fits and is of use.
    fn after(&self, config: &Config<M::State>, index: usize) -> Option<Config<M::State>> {
        let Timed { op, is_maybe, .. } = &self.ops[index];
        let state = self.model.apply(&config.state, index, op)?;
        if *is_maybe && state == config.state {
            return None;
        }
        let pending = &self.events[config.at].pending;
        let mut applied = config.applied.clone();
        applied.insert(index);
        let mut config = Config {
            at: config.at,
            state,
            applied,
        };
        self.look(&mut config, pending);
        Some(config)
    }

    /// Those of `candidates` that only look, and fit here, take effect.
    fn look(&self, config: &mut Config<M::State>, candidates: &[usize]) {
        for &index in candidates {
            let op = &self.ops[index].op;
            let fits =
                |state: &M::State| self.model.apply(state, index, op).as_ref() == Some(state);
            if self.model.is_look(op) && fits(&config.state) {
                config.applied.insert(index);
            }
        }
    }

    fn push(&mut self, config: Config<M::State>) {
        if self.seen.insert(config.clone()) {
            self.work.push(config);
        }
    }
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
        fn is_look(&self, op: &Do) -> bool {
            matches!(op, Do::Read(_))
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

    /// Whether some order of some of the operations is right, by trying them all.
    fn is_explained(state: u32, ops: &[Timed<Do>], left: &BTreeSet<usize>) -> bool {
        if left.iter().all(|i| ops[*i].is_maybe) {
            return true;
        }
        left.iter().any(|&next| {
            let mut rest = left.clone();
            rest.remove(&next);
            // What ended before this one starts has taken effect by then, or never does.
            let is_late = |i: &usize| ops[*i].end < ops[next].start;
            if rest.iter().any(|i| is_late(i) && !ops[*i].is_maybe) {
                return false;
            }
            rest.retain(|i| !is_late(i));
            let after = Register.apply(&state, next, &ops[next].op);
            after.is_some_and(|state| is_explained(state, ops, &rest))
        })
    }

    #[test]
    fn the_search_agrees_with_trying_all_orders() {
        let mut rng = crate::rng::Rng::new(5);
        let mut broken = 0;
        for _ in 0..4_000 {
            let mut ops = Vec::new();
            for _ in 0..rng.within(2, 7) {
                let start = rng.below(20);
                let value = u32::from(rng.chance(500)) + u32::from(rng.chance(300));
                let op = if rng.chance(500) {
                    Do::Write(value)
                } else {
                    Do::Read(value)
                };
                let mut op = timed(start, start + rng.within(1, 12), op);
                op.is_maybe = matches!(op.op, Do::Write(_)) && rng.chance(300);
                ops.push(op);
            }
            let explained = is_explained(0, &ops, &(0..ops.len()).collect());
            let verdict = check(&Register, 0, &ops);
            assert_eq!(verdict == Verdict::Linear, explained, "{ops:?}");
            broken += u32::from(!explained);
        }
        assert!(
            (400..3_600).contains(&broken),
            "{broken} of 4000 are broken"
        );
    }
}
