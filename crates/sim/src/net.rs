//! The network between the hosts: what it does to records and connections, drawn from the seed.
//!
//! A host is the part of an end's name before `/`. Servers connect under a name with their incarnation (`mds/3`), so
//! that what is left of a crashed one reaches nobody. Every record passes the [`Tap`] first.

use crate::rng::Rng;
use crate::tap::Tap;
use crate::trace::{Trace, host};
use parking_lot::Mutex;
use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;
use tokio::time::Instant;
use transport::memory::{Fate, Faults, Passage};

/// How bad the network is, each in 1000 records or connections.
#[derive(Debug, Clone, Copy)]
pub struct NetFaults {
    /// Records lost on a connection that lives on.
    pub lose: u32,
    /// Connections cut by a record.
    pub cut: u32,
    /// Records that arrive twice.
    pub double: u32,
    /// Records that take [`LATE_MS_MAX`] instead of [`USUAL_MS_MAX`].
    pub late: u32,
    /// Connections refused.
    pub refuse: u32,
}

impl NetFaults {
    /// Nothing but latency.
    pub const NONE: Self = Self {
        lose: 0,
        cut: 0,
        double: 0,
        late: 0,
        refuse: 0,
    };
    /// What the usual seed meets.
    pub const ROUGH: Self = Self {
        lose: 4,
        cut: 4,
        double: 8,
        late: 8,
        refuse: 60,
    };
}

/// Longest way of a usual record in milliseconds.
const USUAL_MS_MAX: u64 = 5;
/// Longest way of a late one.
const LATE_MS_MAX: u64 = 2_500;

struct Partition {
    hosts: (String, String),
    until: Instant,
}

struct State {
    rng: Rng,
    net_faults: NetFaults,
    dead: BTreeSet<String>,
    down: BTreeSet<String>,
    partitions: Vec<Partition>,
}

/// The network. Cheap to clone.
#[derive(Clone)]
pub(crate) struct Net {
    state: Arc<Mutex<State>>,
    trace: Trace,
    tap: Tap,
}

impl std::fmt::Debug for Net {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Net").finish_non_exhaustive()
    }
}

impl Net {
    /// A network with these faults.
    #[must_use]
    pub(crate) fn new(rng: Rng, net_faults: NetFaults, trace: Trace, tap: Tap) -> Self {
        let state = State {
            rng,
            net_faults,
            dead: BTreeSet::new(),
            down: BTreeSet::new(),
            partitions: Vec::new(),
        };
        Self {
            state: Arc::new(Mutex::new(state)),
            trace,
            tap,
        }
    }

    /// Nothing that calls itself `name` is heard any more.
    pub(crate) fn kill(&self, name: &str) {
        self.state.lock().dead.insert(name.to_owned());
    }

    /// A host is off: nothing it says is heard.
    pub(crate) fn down(&self, host: &str) {
        self.state.lock().down.insert(host.to_owned());
    }

    /// A host is on again.
    pub(crate) fn up(&self, host: &str) {
        self.state.lock().down.remove(host);
    }

    /// The faults from now on.
    pub(crate) fn set(&self, net_faults: NetFaults) {
        self.state.lock().net_faults = net_faults;
    }

    /// Two hosts do not hear each other for a while.
    pub(crate) fn part(&self, a: &str, b: &str, how_long: Duration) {
        let what = format_args!("{a} and {b} are parted for {} ms", how_long.as_millis());
        self.trace.tell("net", what);
        self.state.lock().partitions.push(Partition {
            hosts: (a.to_owned(), b.to_owned()),
            until: Instant::now() + how_long,
        });
    }

    /// What happens to a message over RDMA.
    pub(crate) fn fate_of(&self, from: &str, to: &str) -> Fate {
        self.state.lock().fate(from, to)
    }

    /// Whether one of the two is not heard any more.
    pub(crate) fn is_cut_off(&self, from: &str, to: &str) -> bool {
        let state = self.state.lock();
        state.is_silent(from) || state.is_silent(to)
    }

    /// Whether a connection may be made now.
    pub(crate) fn lets_connect(&self, from: &str, to: &str) -> bool {
        let mut state = self.state.lock();
        if state.is_silent(from) || state.is_silent(to) || state.parted(from, to) {
            return false;
        }
        let refuse = state.net_faults.refuse;
        !state.rng.chance(refuse)
    }

    /// No faults from now on, and all partitions end.
    pub(crate) fn calm(&self) {
        let mut state = self.state.lock();
        state.net_faults = NetFaults::NONE;
        state.partitions.clear();
    }
}

impl State {
    fn parted(&mut self, from: &str, to: &str) -> bool {
        let now = Instant::now();
        self.partitions.retain(|p| p.until > now);
        let (from, to) = (host(from), host(to));
        self.partitions
            .iter()
            .any(|Partition { hosts: (a, b), .. }| (a == from && b == to) || (a == to && b == from))
    }

    fn is_silent(&self, name: &str) -> bool {
        self.dead.contains(name) || self.down.contains(host(name))
    }

    fn fate(&mut self, from: &str, to: &str) -> Fate {
        if self.is_silent(from) || self.is_silent(to) {
            return Fate::Cut;
        }
        if self.parted(from, to) {
            return Fate::Lose;
        }
        let way = Duration::from_millis(self.rng.within(0, USUAL_MS_MAX));
        let roll = self.rng.below(1000);
        let NetFaults {
            lose,
            cut,
            double,
            late,
            ..
        } = self.net_faults;
        let mut bound = 0;
        let mut is = |rate: u32| {
            bound += u64::from(rate);
            roll < bound
        };
        if is(lose) {
            Fate::Lose
        } else if is(cut) {
            Fate::Cut
        } else if is(double) {
            Fate::Double
        } else if is(late) {
            Fate::Delay(Duration::from_millis(self.rng.within(0, LATE_MS_MAX)))
        } else {
            Fate::Delay(way)
        }
    }
}

impl Faults for Net {
    fn fate(&self, passage: &Passage<'_>) -> Fate {
        let (fate, is_silent) = {
            let mut state = self.state.lock();
            let fate = state.fate(passage.from, passage.to);
            (fate, state.is_silent(passage.from))
        };
        if !is_silent {
            self.tap.record(passage, fate);
        }
        fate
    }

    fn may_connect(&self, from: &str, to: &str) -> bool {
        self.lets_connect(from, to)
    }
}
