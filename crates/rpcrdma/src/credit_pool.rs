//! Credits that connections share: the ledger of a shared receive queue (rule R14).
//!
//! Each connection has a [`CreditAccount`]. It *holds* as many credits as its peer may have calls outstanding, older grants that the
//! peer may still act on included. So many messages can be on their way or in progress. One credit is its own for ever. The others
//! are lent out of one stock, to connections whose peers use all they have.
//!
//! # Invariant
//! The credits lent, the sum over all accounts of what each holds beyond its own one, never exceed the stock.
//!
//! # Taking back
//! What is lent comes back by lower grants in replies, or with the connection. When somebody got less than it could
//! use, a round ([`CreditPool::round`]) names the accounts whose peers do not use what they hold. Their clients are to
//! be asked (CB_RECALL_SLOT, a lower slot in SEQUENCE). Then they call and hear of the lower grant. A peer that still
//! holds too much [`ROUNDS_MAX`] rounds later is to be cut off.

use std::collections::BTreeMap;
use std::sync::Arc;

use parking_lot::Mutex;

/// Credits that a new connection gets with its first reply while at least half of the stock is there.
const START: u32 = 8;
/// Calls after which a grant changes at the earliest.
const JUDGED_MIN: u32 = 16;
/// Rounds in which a peer is asked before it is to be cut off.
pub const ROUNDS_MAX: u32 = 4;

/// The stock of one receive queue. Clones share it.
#[derive(Debug, Clone)]
pub struct CreditPool(Arc<Mutex<Ledger>>);

#[derive(Debug)]
struct Ledger {
    stock: u32,
    lent: u32,
    /// Somebody got less than it could use since the last round.
    is_short: bool,
    round: u64,
    next_id: u64,
    accounts: BTreeMap<u64, Entry>,
}

#[derive(Debug)]
struct Entry {
    /// At least 1.
    held: u32,
    /// What the newest grant allows: `held` goes there as calls drain.
    granted: u32,
    /// The round in which the peer last got a grant.
    granted_in: u64,
    /// Rounds in a row that found it to hold too much.
    asked: u32,
}

/// Accounts that a round found to hold what they do not use.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Round {
    /// Their clients are to be asked for slots, which are credits.
    pub ask: Vec<u64>,
    /// They were, often enough, and are to be disconnected.
    pub cut: Vec<u64>,
}

impl CreditPool {
    /// A pool of `stock` credits beyond those that every account has.
    #[must_use]
    pub fn new(stock: u32) -> Self {
        Self(Arc::new(Mutex::new(Ledger {
            stock,
            lent: 0,
            is_short: false,
            round: 0,
            next_id: 0,
            accounts: BTreeMap::new(),
        })))
    }

    /// Opens an account with its one credit: for a connection that is about to be accepted.
    #[must_use]
    pub fn open(&self) -> CreditAccount {
        let mut ledger = self.0.lock();
        let id = ledger.next_id;
        ledger.next_id += 1;
        let entry = Entry {
            held: 1,
            granted: 1,
            granted_in: ledger.round,
            asked: 0,
        };
        ledger.accounts.insert(id, entry);
        let is_plenty = ledger.lent <= ledger.stock / 2;
        CreditAccount {
            pool: self.clone(),
            id,
            demand: Demand::new(if is_plenty { START } else { 1 }),
            short: 0,
        }
    }

    /// Credits that are lent now, and that could be.
    #[must_use]
    pub fn lent(&self) -> (u32, u32) {
        let ledger = self.0.lock();
        (ledger.lent, ledger.stock)
    }

    /// Accounts that are open.
    #[must_use]
    pub fn accounts(&self) -> usize {
        self.0.lock().accounts.len()
    }

    /// Finds the connections that hold too much, if one had too little since the last round. To be called every few seconds: a peer that
    /// made no call from one round to the next is taken for idle.
    #[must_use]
    pub fn round(&self) -> Round {
        let mut round = Round::default();
        let mut ledger = self.0.lock();
        let ledger = &mut *ledger;
        let is_short = std::mem::take(&mut ledger.is_short);
        for (id, entry) in &mut ledger.accounts {
            let is_idle = entry.granted_in < ledger.round;
            if !is_short || !is_idle && entry.held <= entry.granted {
                entry.asked = 0;
            }
            if !(is_short && is_idle && entry.held > 1) {
                continue;
            }
            entry.asked += 1;
            if entry.asked > ROUNDS_MAX {
                round.cut.push(*id);
            } else {
                round.ask.push(*id);
            }
        }
        ledger.round += 1;
        round
    }
}

impl Ledger {
    /// An account holds so much from now on. It is less than wished where the stock does not allow it, but at least
    /// `floor` of what it has. (Calls beyond any grant are in nobody's books.)
    fn hold(&mut self, id: u64, floor: u32, wish: u32) -> u32 {
        let entry = self.accounts.get_mut(&id).expect("an open account");
        let rest = self.lent - (entry.held - 1);
        let most = (self.stock - rest).saturating_add(1);
        let held = wish.min(most).max(floor.min(entry.held)).max(1);
        entry.held = held;
        self.lent = rest + (held - 1);
        assert!(self.lent <= self.stock, "no more is lent than there is");
        held
    }
}

/// The credits of one connection. Dropping it gives back all that it holds.
#[derive(Debug)]
pub struct CreditAccount {
    pool: CreditPool,
    id: u64,
    demand: Demand,
    short: u64,
}

impl CreditAccount {
    /// Its name in a [`Round`].
    #[must_use]
    pub const fn id(&self) -> u64 {
        self.id
    }

    /// Credits that it holds.
    #[must_use]
    pub fn held(&self) -> u32 {
        self.pool.0.lock().accounts[&self.id].held
    }

    /// Replies that granted less than the peer makes use of, since others have it.
    pub(crate) const fn short(&self) -> u64 {
        self.short
    }

    /// A call came: so many are in progress with it, and so many more may come.
    pub(crate) fn called(&mut self, in_progress: u64, left: u64) {
        self.demand.called(in_progress, left);
    }

    /// A reply leaves. Of what was granted before, `still` credits may be used; at most `most` are to be granted. Returns
    /// what is.
    pub(crate) fn answer(&mut self, still: u32, most: u32) -> u32 {
        let mut ledger = self.pool.0.lock();
        let round = ledger.round;
        let entry = ledger.accounts.get_mut(&self.id).expect("it is open");
        // It made no call for a whole round: what it needed before says nothing.
        if entry.granted_in + 1 < round {
            self.demand = Demand::new(1);
        }
        entry.granted_in = round;
        let wish = self.demand.wish.min(most);
        let held = ledger.hold(self.id, still, wish);
        let granted = wish.min(held);
        let is_short = granted < wish;
        ledger.is_short |= is_short;
        self.short += u64::from(is_short);
        let entry = ledger.accounts.get_mut(&self.id).expect("it is open");
        entry.granted = granted;
        self.demand.granted = granted;
        granted
    }

    /// The peer has shown that it may use only so many.
    pub(crate) fn settle(&mut self, still: u32) {
        self.pool.0.lock().hold(self.id, still, still);
    }
}

impl Drop for CreditAccount {
    fn drop(&mut self) {
        let mut ledger = self.pool.0.lock();
        ledger.hold(self.id, 0, 1);
        ledger.accounts.remove(&self.id);
    }
}

/// How many credits a peer makes use of, judged after a number of calls. It is more if one of them took the last
/// credit, less if half of the credits were always left. Who makes one call after the other has one or two in the end.
#[derive(Debug)]
struct Demand {
    wish: u32,
    granted: u32,
    /// Calls since it was last judged, most of them in progress at a time, and whether one took the last credit.
    calls: u32,
    peak: u64,
    took_last: bool,
}

impl Demand {
    const fn new(wish: u32) -> Self {
        Self {
            wish,
            granted: 1,
            calls: 0,
            peak: 0,
            took_last: false,
        }
    }

    fn called(&mut self, in_progress: u64, left: u64) {
        self.calls += 1;
        self.peak = self.peak.max(in_progress);
        self.took_last |= left == 0;
        // Calls may come in bursts of all that is granted.
        if self.calls < JUDGED_MIN.max(self.granted.saturating_mul(2)) {
            return;
        }
        // Of what it has, not of what it wished for: that may be far more.
        let wish = if self.took_last {
            self.granted.saturating_mul(2)
        } else if self.peak * 2 <= u64::from(self.granted) {
            (self.granted / 2).max(1)
        } else {
            self.wish
        };
        let granted = self.granted;
        *self = Self {
            granted,
            ..Self::new(wish)
        };
    }
}
