//! Memory that peers make this process hold: a budget over all connections, of which the connections of one address
//! get a share.
//!
//! # Ordering
//! A charge is taken from the share first and from the budget second, and whole: charges that held parts would wait for
//! each other. A charge that waits for its share holds nothing of the budget, so one address never stops the others.
//!
//! # Failure
//! A charge goes back when it is dropped, whatever became of its connection.

use std::collections::HashMap;
use std::net::{IpAddr, Ipv6Addr};
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::sync::{Arc, Weak};

use parking_lot::Mutex;
use tokio::sync::Semaphore;

use crate::Endpoint;

/// Bits of an IPv6 address that its network assigns; the host chooses the others freely.
const IPV6_PREFIX_BITS: u32 = 64;

/// Whose share it is.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(crate) enum Peer {
    Address(IpAddr),
    Memory(Arc<str>),
}

impl From<&Endpoint> for Peer {
    fn from(endpoint: &Endpoint) -> Self {
        match endpoint {
            Endpoint::Tunnel(name) | Endpoint::Memory(name) => Self::Memory(Arc::clone(name)),
            Endpoint::Socket(address) => Self::Address(match address.ip().to_canonical() {
                IpAddr::V6(ip) => {
                    let mask = u128::MAX << (u128::BITS - IPV6_PREFIX_BITS);
                    Ipv6Addr::from_bits(ip.to_bits() & mask).into()
                }
                ip => ip,
            }),
        }
    }
}

/// Bytes, and those who wait for some.
#[derive(Debug)]
struct Pool {
    bytes: Semaphore,
    waiting: AtomicUsize,
}

impl Pool {
    fn new(bytes: u32) -> Self {
        Self {
            bytes: Semaphore::new(bytes as usize),
            waiting: AtomicUsize::new(0),
        }
    }

    /// Takes bytes for good; [`Pool::give`] brings them back.
    async fn take(&self, bytes: u32) {
        if self.try_take(bytes) {
            return;
        }
        self.waiting.fetch_add(1, Relaxed);
        let _waiting = Waiting(&self.waiting);
        let taken = self.bytes.acquire_many(bytes).await;
        taken.expect("the pool is never closed").forget();
    }

    fn try_take(&self, bytes: u32) -> bool {
        match self.bytes.try_acquire_many(bytes) {
            Ok(taken) => {
                taken.forget();
                true
            }
            Err(_) => false,
        }
    }

    fn give(&self, bytes: u32) {
        self.bytes.add_permits(bytes as usize);
    }

    fn is_wanted(&self) -> bool {
        self.waiting.load(Relaxed) > 0
    }
}

struct Waiting<'a>(&'a AtomicUsize);

impl Drop for Waiting<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Relaxed);
    }
}

/// Bytes that all connections may hold together.
#[derive(Debug)]
pub(crate) struct Budget {
    pool: Pool,
    share_bytes: u32,
    shares: Mutex<HashMap<Peer, Weak<Share>>>,
}

impl Budget {
    /// A budget of `bytes`, of which one address gets `share_bytes` at most.
    pub(crate) fn new(bytes: u32, share_bytes: u32) -> Arc<Self> {
        Arc::new(Self {
            pool: Pool::new(bytes),
            share_bytes,
            shares: Mutex::default(),
        })
    }

    /// The share of a connection's peer, which lives as long as its connections and their charges.
    pub(crate) fn share(self: &Arc<Self>, endpoint: &Endpoint) -> Arc<Share> {
        let peer = Peer::from(endpoint);
        let mut shares = self.shares.lock();
        if let Some(share) = shares.get(&peer).and_then(Weak::upgrade) {
            return share;
        }
        let share = Arc::new(Share {
            pool: Pool::new(self.share_bytes),
            budget: Arc::clone(self),
            peer: peer.clone(),
        });
        shares.insert(peer, Arc::downgrade(&share));
        share
    }
}

/// What the connections of one address may hold together.
#[derive(Debug)]
pub(crate) struct Share {
    pool: Pool,
    budget: Arc<Budget>,
    peer: Peer,
}

impl Share {
    /// Waits until `bytes` may be held. More than a share are as many as a share.
    pub(crate) async fn charge(self: Arc<Self>, bytes: u32) -> Charge {
        let bytes = bytes.min(self.budget.share_bytes);
        self.pool.take(bytes).await;
        // From here on the share's part goes back also when nobody waits any more.
        let mut charge = Charge {
            share: self,
            bytes,
            of_budget: 0,
        };
        charge.share.budget.pool.take(bytes).await;
        charge.of_budget = bytes;
        charge
    }

    /// Takes `bytes` if they can be had at once.
    pub(crate) fn try_charge(self: &Arc<Self>, bytes: u32) -> Option<Charge> {
        if !self.pool.try_take(bytes) {
            return None;
        }
        let taken = self.budget.pool.try_take(bytes);
        let charge = Charge {
            share: Arc::clone(self),
            bytes,
            of_budget: if taken { bytes } else { 0 },
        };
        taken.then_some(charge)
    }

    /// Whether anybody waits for what this share's connections hold.
    pub(crate) fn is_wanted(&self) -> bool {
        self.pool.is_wanted() || self.budget.pool.is_wanted()
    }
}

impl Drop for Share {
    fn drop(&mut self) {
        let mut shares = self.budget.shares.lock();
        // A new connection may have made another share for the same peer by now.
        if shares
            .get(&self.peer)
            .is_some_and(|share| share.strong_count() == 0)
        {
            shares.remove(&self.peer);
        }
    }
}

/// Bytes of a budget; they go back when it is dropped.
#[derive(Debug)]
pub struct Charge {
    share: Arc<Share>,
    /// Taken from the share.
    bytes: u32,
    /// Taken from the budget.
    of_budget: u32,
}

impl Charge {
    /// Adds what `other` holds; both belong to connections of one peer.
    pub fn merge(&mut self, mut other: Self) {
        debug_assert!(
            Arc::ptr_eq(&self.share, &other.share),
            "charges of one peer"
        );
        self.bytes += std::mem::take(&mut other.bytes);
        self.of_budget += std::mem::take(&mut other.of_budget);
    }

    /// Bytes that it stands for.
    #[must_use]
    pub const fn bytes(&self) -> u32 {
        self.bytes
    }
}

impl Drop for Charge {
    fn drop(&mut self) {
        self.share.budget.pool.give(self.of_budget);
        self.share.pool.give(self.bytes);
    }
}

#[cfg(test)]
mod tests {
    //! Goal: no peer takes more than its share, and everything comes back.
    use super::*;
    use futures_util::FutureExt;

    fn peer(text: &str) -> Endpoint {
        Endpoint::Socket(text.parse().unwrap())
    }

    #[test]
    fn one_address_never_takes_what_is_left_to_others() {
        let budget = Budget::new(100, 60);
        let (a, b) = (
            budget.share(&peer("10.0.0.1:1")),
            budget.share(&peer("10.0.0.2:1")),
        );
        let first = a.try_charge(50).unwrap();
        let mut waits = Box::pin(Arc::clone(&a).charge(20));
        assert!(waits.as_mut().now_or_never().is_none());
        assert!(a.is_wanted() && !b.is_wanted());
        let second = b.try_charge(50).unwrap();
        assert!(b.try_charge(1).is_none(), "the budget is used up");
        drop(second);
        drop(first);
        assert_eq!(waits.as_mut().now_or_never().unwrap().bytes(), 20);
        assert!(!a.is_wanted());
        drop(waits);
        assert_eq!(budget.pool.bytes.available_permits(), 100);
        assert_eq!(a.pool.bytes.available_permits(), 60);
    }

    #[test]
    fn who_stops_waiting_for_the_budget_gives_his_part_of_the_share_back() {
        let budget = Budget::new(100, 60);
        let (a, b) = (
            budget.share(&peer("10.0.0.1:1")),
            budget.share(&peer("10.0.0.2:1")),
        );
        let all = (a.try_charge(60).unwrap(), b.try_charge(30).unwrap());
        let mut waits = Box::pin(Arc::clone(&b).charge(20));
        assert!(waits.as_mut().now_or_never().is_none());
        assert!(a.is_wanted(), "the budget itself is wanted");
        drop(waits);
        assert!(!a.is_wanted());
        assert!(b.try_charge(11).is_none());
        drop(all);
        assert!(b.try_charge(60).is_some());
        assert_eq!(budget.pool.bytes.available_permits(), 100);
    }

    #[test]
    fn a_share_outlives_its_connections_while_anything_is_charged() {
        let budget = Budget::new(100, 60);
        let share = budget.share(&peer("10.0.0.1:1"));
        let mut held = share.try_charge(50).unwrap();
        drop(share);
        let again = budget.share(&peer("10.0.0.1:2"));
        assert!(again.try_charge(20).is_none());
        held.merge(again.try_charge(10).unwrap());
        drop(again);
        drop(held);
        assert!(budget.shares.lock().is_empty());
        assert_eq!(budget.pool.bytes.available_permits(), 100);
    }

    #[test]
    fn addresses_that_one_host_chooses_freely_are_one_peer() {
        for (one, other, same) in [
            ("10.0.0.1:1", "10.0.0.1:2", true),
            ("10.0.0.1:1", "10.0.0.2:1", false),
            ("10.0.0.1:1", "[::ffff:10.0.0.1]:1", true),
            ("[2001:db8::1]:1", "[2001:db8::ffff:2]:1", true),
            ("[2001:db8::1]:1", "[2001:db8:0:1::1]:1", false),
        ] {
            let is_same = Peer::from(&peer(one)) == Peer::from(&peer(other));
            assert_eq!(is_same, same, "{one} {other}");
        }
    }
}
