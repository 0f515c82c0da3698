//! What is kept of the calls of each client: its share of the memory, what runs, and what gives way.
//!
//! # Ownership
//! [`Shares`] has a share for each client address, one /64 of IPv6 taken together as in the limits of connections. A client that fills
//! its share loses its own oldest replies. When all together are full the largest share loses its oldest, so a busy
//! client takes nothing from those that have less. Calls that run stand in no order of eviction.

use std::collections::{BTreeSet, HashMap, VecDeque};
use std::net::{IpAddr, Ipv6Addr};
use std::sync::Arc;

/// What a call takes beside its reply: its place in a table and in an order, and the head of an allocation.
pub(crate) const CALL_BYTES: usize = 160;

/// What names a call.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct CallKey {
    /// Where it comes from; `None` within the process.
    pub client: Option<IpAddr>,
    /// Its transaction id.
    pub xid: u32,
    /// A sum of the whole record.
    pub sum: u64,
}

/// What is known of a call that was heard before.
#[derive(Debug, Clone)]
pub enum Heard {
    /// It runs.
    Running,
    /// Nothing, and it may not run now: too many calls do.
    Full,
    /// This was its result; `None` when nobody knows how far it came.
    Done(Option<Arc<[u8]>>),
}

/// How much is kept.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ReplyBounds {
    /// Bytes of all calls that have ended, 160 for each and its reply.
    pub bytes_max: usize,
    /// Bytes of those of one client.
    pub client_bytes_max: usize,
    /// Clients with a share. Beyond it the one that was heard longest ago loses its share.
    pub clients_max: usize,
    /// Calls that run at once. Beyond it another one waits.
    pub running_max: usize,
    /// Calls of one client that run at once.
    pub client_running_max: usize,
}

impl Default for ReplyBounds {
    /// For 420 bytes a call: 30 s of 20,000 calls a second of all clients, and of 5,000 of one.
    fn default() -> Self {
        Self {
            bytes_max: 256 << 20,
            client_bytes_max: 64 << 20,
            clients_max: 4096,
            running_max: 65_536,
            client_running_max: 16_384,
        }
    }
}

/// Whose share it is.
type Name = Option<IpAddr>;

#[derive(Debug, Default)]
struct Share {
    calls: HashMap<CallKey, Heard>,
    /// Calls that have ended, in the order of their ends.
    ended: VecDeque<CallKey>,
    /// What those take.
    bytes: usize,
    running_count: usize,
    /// The number of its last call.
    heard: u64,
}

#[derive(Debug)]
pub(crate) struct Shares {
    bounds: ReplyBounds,
    shares: HashMap<Name, Share>,
    /// Shares with calls that have ended, by what they take.
    by_bytes: BTreeSet<(usize, Name)>,
    bytes: usize,
    running_count: usize,
    heard_count: u64,
}

impl Shares {
    pub(crate) fn new(bounds: ReplyBounds) -> Self {
        Self {
            bounds,
            shares: HashMap::new(),
            by_bytes: BTreeSet::new(),
            bytes: 0,
            running_count: 0,
            heard_count: 0,
        }
    }

    /// A call arrives: see [`crate::Replies::hear`].
    pub(crate) fn hear(&mut self, key: CallKey) -> Option<Heard> {
        let name = name_of(key);
        self.heard_count += 1;
        let known = self.shares.get_mut(&name);
        if let Some(share) = known {
            share.heard = self.heard_count;
            if let Some(heard) = share.calls.get(&key) {
                return Some(heard.clone());
            }
            if share.running_count >= self.bounds.client_running_max {
                return Some(Heard::Full);
            }
        }
        let has_place = self.running_count < self.bounds.running_max
            && (self.shares.contains_key(&name) || self.make_place());
        if !has_place {
            return Some(Heard::Full);
        }
        let share = self.shares.entry(name).or_default();
        share.heard = self.heard_count;
        share.running_count += 1;
        share.calls.insert(key, Heard::Running);
        self.running_count += 1;
        None
    }

    /// Makes place for one more share, if need be. `false` when calls of every client run.
    fn make_place(&mut self) -> bool {
        if self.shares.len() < self.bounds.clients_max {
            return true;
        }
        let idle = self.shares.iter().filter(|(_, s)| s.running_count == 0);
        let longest_ago = idle.min_by_key(|(_, s)| s.heard).map(|(name, _)| *name);
        let gone = longest_ago.and_then(|name| Some((name, self.shares.remove(&name)?)));
        let Some((name, share)) = gone else {
            return false;
        };
        self.by_bytes.remove(&(share.bytes, name));
        self.bytes -= share.bytes;
        true
    }

    /// A call that runs has ended with this reply. Whether it ran.
    pub(crate) fn complete(&mut self, key: CallKey, reply: Option<Arc<[u8]>>) -> bool {
        let name = name_of(key);
        let bytes = CALL_BYTES + reply.as_ref().map_or(0, |reply| reply.len());
        let Some(share) = self.shares.get_mut(&name) else {
            return false;
        };
        match share.calls.get_mut(&key) {
            Some(heard @ Heard::Running) => *heard = Heard::Done(reply),
            _ => return false,
        }
        share.running_count -= 1;
        share.ended.push_back(key);
        self.running_count -= 1;
        self.account(name, |share| share.bytes += bytes);
        let client_bytes_max = self.bounds.client_bytes_max;
        while self
            .shares
            .get(&name)
            .is_some_and(|s| s.bytes > client_bytes_max)
        {
            self.drop_oldest(name);
        }
        while self.bytes > self.bounds.bytes_max
            && let Some((_, largest)) = self.by_bytes.last().copied()
        {
            self.drop_oldest(largest);
        }
        true
    }

    /// A call that runs has come to nothing.
    pub(crate) fn forget(&mut self, key: CallKey) {
        let name = name_of(key);
        let Some(share) = self.shares.get_mut(&name) else {
            return;
        };
        if let Some(Heard::Running) = share.calls.get(&key) {
            share.calls.remove(&key);
            share.running_count -= 1;
            self.running_count -= 1;
            self.drop_empty(name);
        }
    }

    /// Forgets the oldest call of a share that has ended.
    fn drop_oldest(&mut self, name: Name) {
        let share = self.shares.get_mut(&name);
        let oldest = share.and_then(|share| {
            let key = share.ended.pop_front()?;
            let heard = share.calls.remove(&key);
            shrink(share);
            heard
        });
        let bytes = match oldest {
            Some(Heard::Done(Some(reply))) => CALL_BYTES + reply.len(),
            _ => CALL_BYTES,
        };
        self.account(name, |share| {
            share.bytes = share.bytes.saturating_sub(bytes);
        });
        self.drop_empty(name);
    }

    fn drop_empty(&mut self, name: Name) {
        if self.shares.get(&name).is_some_and(|s| s.calls.is_empty()) {
            self.account(name, |share| share.bytes = 0);
            self.shares.remove(&name);
        }
    }

    /// Changes what a share takes.
    fn account(&mut self, name: Name, change: impl FnOnce(&mut Share)) {
        let Some(share) = self.shares.get_mut(&name) else {
            return;
        };
        let before = share.bytes;
        change(share);
        let after = share.bytes;
        self.bytes = self.bytes.saturating_sub(before) + after;
        self.by_bytes.remove(&(before, name));
        if after > 0 {
            self.by_bytes.insert((after, name));
        }
    }

    #[cfg(test)]
    pub(crate) fn counts(&self) -> (usize, usize, usize) {
        let calls = self.shares.values().map(|share| share.calls.len());
        (self.shares.len(), calls.sum(), self.bytes)
    }
}

/// Gives back the memory of a share that has become small.
fn shrink(share: &mut Share) {
    let wanted = 2 * share.calls.len();
    if share.calls.capacity() > 2 * wanted {
        share.calls.shrink_to(wanted);
        share.ended.shrink_to(wanted);
    }
}

fn name_of(key: CallKey) -> Name {
    key.client.map(|client| match client.to_canonical() {
        IpAddr::V6(address) => {
            let network = address.to_bits() & !u128::from(u64::MAX);
            IpAddr::V6(Ipv6Addr::from_bits(network))
        }
        address => address,
    })
}
