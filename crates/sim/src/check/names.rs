//! The name space as one object: creates, removes, renames, links and lookups of all clients must fit one order.
//!
//! This finds lost and doubled operations, replies that showed what a crash took back, and anything that comes back
//! after its removal. [`Modes`] is the same for the mode of each file.

use super::Findings;
use super::linear::{self, Model, Timed, Verdict};
use std::collections::BTreeMap;

/// Nothing has this name.
const ABSENT: u64 = 0;
/// From here on: the file of a create whose number nobody has seen yet.
const FRESH: u64 = 1 << 60;

/// A place in the name space: an index of the run's table of directories and names.
pub(crate) type Place = usize;

/// How an operation ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum End {
    /// This file was made.
    Made(u64),
    /// This file was made, or was there.
    MadeOrId(u64),
    /// Done, on this file, which was there.
    Id(u64),
    /// Done.
    Done,
    /// `NFS4ERR_EXIST`.
    Exist,
    /// `NFS4ERR_NOENT`.
    NoEnt,
    /// The file that was named by its handle is gone.
    Gone,
    /// Not known.
    Unknown,
}

/// What was done.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Do {
    /// A file or directory is made; an existing one is refused, or taken.
    Create {
        /// Where.
        at: Place,
        /// Whether an existing one is refused.
        is_guarded: bool,
    },
    /// A name is looked up.
    Lookup(Place),
    /// A name is removed.
    Remove(Place),
    /// A name moves.
    Rename(Place, Place),
    /// A file gets another name.
    Link(u64, Place),
}

/// An operation of the history.
pub(crate) type NameOp = (Do, End);

struct Names {
    /// The operation that made each file, as acknowledged.
    makers: BTreeMap<u64, usize>,
}

/// The state `map` with `at` seen to be file `id`.
fn bind(names: &Names, map: &[u64], at: Place, id: u64) -> Option<Vec<u64>> {
    let here = map[at];
    if here == id {
        return Some(map.to_vec());
    }
    let maker = names.makers.get(&id).map(|index| FRESH + *index as u64);
    if here < FRESH || map.contains(&id) || maker.is_some_and(|m| m != here) {
        return None;
    }
    Some(
        map.iter()
            .map(|v| if *v == here { id } else { *v })
            .collect(),
    )
}

fn set(map: &[u64], at: Place, value: u64) -> Vec<u64> {
    let mut map = map.to_vec();
    map[at] = value;
    map
}

impl Names {
    fn create(&self, map: &[u64], index: usize, op: (Place, bool), end: End) -> Option<Vec<u64>> {
        let (at, is_guarded) = op;
        let is_absent = map[at] == ABSENT;
        match end {
            End::Made(id) if is_absent => Some(set(map, at, id)),
            End::MadeOrId(id) if is_absent => {
                let is_new = !map.contains(&id) && !self.makers.contains_key(&id);
                is_new.then(|| set(map, at, id))
            }
            End::Id(id) | End::MadeOrId(id) if !is_absent && !is_guarded => bind(self, map, at, id),
            End::Exist if !is_absent && is_guarded => Some(map.to_vec()),
            End::Unknown if is_absent => Some(set(map, at, FRESH + index as u64)),
            End::Unknown => Some(map.to_vec()),
            _ => None,
        }
    }
}

impl Model for Names {
    type State = Vec<u64>;
    type Op = NameOp;

    fn apply(&self, map: &Vec<u64>, index: usize, (what, end): &NameOp) -> Option<Vec<u64>> {
        let same = || Some(map.clone());
        match (*what, *end) {
            (Do::Create { at, is_guarded }, end) => self.create(map, index, (at, is_guarded), end),
            (Do::Lookup(at), End::Id(id)) => bind(self, map, at, id),
            (Do::Lookup(at) | Do::Remove(at) | Do::Rename(at, _), End::NoEnt) => {
                (map[at] == ABSENT).then(|| map.clone())
            }
            (Do::Lookup(_), End::Unknown) => same(),
            (Do::Remove(at), End::Done) => (map[at] != ABSENT).then(|| set(map, at, ABSENT)),
            (Do::Remove(at), End::Unknown) => Some(set(map, at, ABSENT)),
            (Do::Rename(from, to), End::Done | End::Unknown) => {
                if map[from] == ABSENT {
                    return (*end == End::Unknown).then(|| map.clone());
                }
                if map[from] == map[to] {
                    return same();
                }
                Some(set(&set(map, to, map[from]), from, ABSENT))
            }
            (Do::Link(id, at), End::Done) => (map[at] == ABSENT).then(|| set(map, at, id)),
            (Do::Link(_, at), End::Exist) => (map[at] != ABSENT).then(|| map.clone()),
            (Do::Link(..), End::Gone) => same(),
            (Do::Link(id, at), End::Unknown) if map[at] == ABSENT => Some(set(map, at, id)),
            (Do::Link(..), End::Unknown) => same(),
            _ => None,
        }
    }

    fn is_look(&self, (what, end): &NameOp) -> bool {
        // That a lookup binds a number is knowledge, not a change.
        matches!(end, End::Exist | End::NoEnt | End::Gone)
            || matches!((what, end), (Do::Lookup(_) | Do::Create { .. }, End::Id(_)))
    }
}

/// Judges the history of names. Returns whether the search came to an end.
pub(crate) fn check(places: usize, ops: &[Timed<NameOp>], findings: &Findings) -> bool {
    let mut makers = BTreeMap::new();
    for (index, timed) in ops.iter().enumerate() {
        if let (Do::Create { .. }, End::Made(id)) = timed.op
            && let Some(first) = makers.insert(id, index)
        {
            let (a, b) = (&ops[first].who, &timed.who);
            findings.add(format!("file {id} was made twice, by {a} and {b}"));
        }
    }
    match linear::check(&Names { makers }, vec![ABSENT; places], ops) {
        Verdict::Linear => true,
        Verdict::Undecided => false,
        Verdict::Broken(index) => {
            let Timed {
                who,
                start,
                end,
                op,
                ..
            } = &ops[index];
            let text = format!(
                "no order of the name space explains {op:?} of {who}, {start:?} to {end:?}"
            );
            findings.add(text);
            true
        }
    }
}

/// What was done with the mode of one file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ModeOp {
    /// Set.
    Set(u32),
    /// Seen.
    Seen(u32),
}

/// The mode of one file as a register.
#[derive(Debug)]
pub(crate) struct Modes;

impl Model for Modes {
    type State = u32;
    type Op = ModeOp;

    fn apply(&self, state: &u32, _: usize, op: &ModeOp) -> Option<u32> {
        match *op {
            ModeOp::Set(mode) => Some(mode),
            ModeOp::Seen(mode) => (mode == *state).then_some(mode),
        }
    }

    fn is_look(&self, op: &ModeOp) -> bool {
        matches!(op, ModeOp::Seen(_))
    }
}

/// Judges the history of the modes of all files.
pub(crate) fn check_modes(
    first: u32,
    ops: &BTreeMap<u64, Vec<Timed<ModeOp>>>,
    findings: &Findings,
) {
    for (id, ops) in ops {
        if let Verdict::Broken(index) = linear::check(&Modes, first, ops) {
            let Timed {
                who,
                start,
                end,
                op,
                ..
            } = &ops[index];
            let text = format!(
                "file {id}: no order of modes explains {op:?} of {who}, {start:?} to {end:?}"
            );
            findings.add(text);
        }
    }
}
