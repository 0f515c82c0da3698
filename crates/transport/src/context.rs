//! Limits, budget and counters that many connections share.
//!
//! A [`Context`] is made once per process and role; each worker takes a [`Context::sibling`]. `receive_budget_bytes` bounds the memory of
//! received records that do not fit the small read buffer, and `in_flight_max` the small records of a connection. Replies are bounded
//! by `send_queue_bytes` per connection and `send_budget_bytes` for all.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering::Relaxed};
use std::time::Duration;

use parking_lot::Mutex;
use rpc::RecordLimits;

use crate::budget::{Budget, Peer};
use crate::quiet::{Bucket, Quiet};
use crate::rdma::traffic::{Meters, Traffic};
use crate::{Counters, Endpoint};

/// Bounds of the transport. Every queue and wait of this crate has its limit here.
#[derive(Debug, Clone)]
pub struct TransportLimits {
    /// Most bytes of one record: the largest WRITE with its header. Default 1 MiB + 64 KiB.
    pub record_bytes_max: u32,
    /// Most fragments of one record. Default 1024; usual clients send one, others cut a record of 1 MiB into pieces of 2 KiB.
    pub fragments_max: u32,
    /// Requests of one connection that are executing or whose reply is not yet handed to the
    /// socket; beyond it, reading stops. Choose it above the slots that a session gets. Default 128.
    pub in_flight_max: u32,
    /// Calls of ours on one connection that wait for a reply; more wait for a place. Default 128.
    pub calls_max: u32,
    /// Connections of all siblings together; more are closed on accept, counted, and told of in the
    /// log, at most one line in 10 s. [`Context::limit_connections`] changes it. Default [`TransportLimits::CONNECTIONS_MAX_DEFAULT`].
    pub connections_max: u32,
    /// Connections that peers made from one address (one /64 of IPv6), all siblings together. More are closed on accept,
    /// counted, and told of in the log in the same way. Default a quarter of the default of `connections_max`.
    pub connections_per_address_max: u32,
    /// Bytes of large records that are arriving or being served, over all siblings; beyond it,
    /// reading stops until others finish. Default 256 MiB.
    pub receive_budget_bytes: u32,
    /// What the connections of one address (one /64 of IPv6) take of `receive_budget_bytes` together. At least
    /// `record_bytes_max`. Default 128 MiB.
    pub receive_share_bytes: u32,
    /// Bytes of replies in memory that wait for their peers to read them, over all siblings. Beyond it a service that
    /// asks before it fills a reply ([`crate::ConnHandle::charge_reply`]) waits. Default 256 MiB.
    pub send_budget_bytes: u32,
    /// What the connections of one address (one /64 of IPv6) take of `send_budget_bytes` together. Default 128 MiB.
    pub send_share_bytes: u32,
    /// Bytes of unsent replies in memory beyond which a connection's further requests are not started. What is more
    /// than that, because requests were running already, is charged to the budget. A connection for which the budget
    /// has nothing left is cut. Default 256 KiB.
    pub send_queue_bytes: u32,
    /// While others wait for a budget, a peer that holds some of it must move so many bytes a second, or is cut.
    /// Default 64 KiB. Slower peers are served as long as nobody waits.
    pub pace_bytes_per_second: u32,
    /// Time over which the pace of a peer that sends is measured. Default 2 s.
    pub read_pace: Duration,
    /// The same of a peer that reads: longer, since the kernel takes much at once and then nothing. Default 20 s.
    pub write_pace: Duration,
    /// A peer whose socket takes no byte for so long while bytes wait for it is cut. Default 60 s. The kernel offers room
    /// again only once much of its send buffer has drained, which may be megabytes. So the default also cuts a peer that reads
    /// some 50 kB/s or less.
    pub write_stall: Duration,
    /// A peer that sends nothing for so long within a record is cut. Default 60 s.
    pub read_stall: Duration,
    /// A connection without any request or call for so long is closed. Default: never; peers that
    /// vanish are found by TCP keep-alive.
    pub idle: Option<Duration>,
    /// Longest time for which a thread asks the socket of its one busy connection for the next request before it
    /// sleeps. It does so where requests use to come sooner than that. Default zero: never.
    pub busy_poll: Duration,
    /// How long a shutdown waits for requests in progress. Default 10 s.
    pub drain: Duration,
    /// How long connecting, the TLS handshake included, may take. Default 10 s.
    pub handshake: Duration,
}

impl Default for TransportLimits {
    fn default() -> Self {
        Self {
            record_bytes_max: 1024 * 1024 + 64 * 1024,
            fragments_max: 1024,
            in_flight_max: 128,
            calls_max: 128,
            connections_max: Self::CONNECTIONS_MAX_DEFAULT,
            connections_per_address_max: Self::CONNECTIONS_MAX_DEFAULT / 4,
            receive_budget_bytes: 256 * 1024 * 1024,
            receive_share_bytes: 128 * 1024 * 1024,
            send_budget_bytes: 256 * 1024 * 1024,
            send_share_bytes: 128 * 1024 * 1024,
            send_queue_bytes: 256 * 1024,
            pace_bytes_per_second: 64 * 1024,
            read_pace: Duration::from_secs(2),
            write_pace: Duration::from_secs(20),
            write_stall: Duration::from_secs(60),
            read_stall: Duration::from_secs(60),
            idle: None,
            busy_poll: Duration::ZERO,
            drain: Duration::from_secs(10),
            handshake: Duration::from_secs(10),
        }
    }
}

impl TransportLimits {
    /// `connections_max` unless somebody chooses another.
    pub const CONNECTIONS_MAX_DEFAULT: u32 = 16_384;

    pub(crate) const fn record(&self) -> RecordLimits {
        RecordLimits {
            record_bytes_max: self.record_bytes_max,
            fragments_max: self.fragments_max,
        }
    }
}

/// What connections share. Cheap to clone.
#[derive(Debug, Clone)]
pub struct Context {
    limits: Arc<TransportLimits>,
    counters: Arc<Counters>,
    shared: Arc<Shared>,
}

#[derive(Debug)]
struct Shared {
    receive: Arc<Budget>,
    send: Arc<Budget>,
    /// `connections_max`, `connections_per_address_max` and `idle`, as they are now.
    connections_max: AtomicU32,
    per_address_max: AtomicU32,
    idle: Mutex<Option<Duration>>,
    connections: AtomicU32,
    /// Of those, what each peer has made.
    by_peer: Mutex<HashMap<Peer, u32>>,
    refusals: Quiet,
    crowds: Quiet,
    strangers: Quiet,
    /// Lines about single connections.
    lines: Bucket,
    accept_failures: Quiet,
    /// What single RDMA connections have carried.
    meters: Meters,
    next_id: AtomicU64,
}

impl Context {
    /// A context with its own budget, connection ids and counters.
    ///
    /// # Panics
    /// When a limit is 0 or the budget is below one record: limits come checked from the
    /// configuration.
    #[must_use]
    pub fn new(limits: TransportLimits) -> Self {
        assert!(
            limits.receive_share_bytes >= limits.record_bytes_max,
            "share below one record"
        );
        assert!(
            limits.receive_budget_bytes >= limits.receive_share_bytes,
            "budget below one share"
        );
        assert!(
            limits.send_budget_bytes >= limits.send_share_bytes,
            "send budget below one share"
        );
        assert!(limits.in_flight_max > 0, "in_flight_max is 0");
        assert!(limits.calls_max > 0, "calls_max is 0");
        let shared = Shared {
            receive: Budget::new(limits.receive_budget_bytes, limits.receive_share_bytes),
            send: Budget::new(limits.send_budget_bytes, limits.send_share_bytes),
            connections_max: AtomicU32::new(limits.connections_max),
            per_address_max: AtomicU32::new(limits.connections_per_address_max),
            idle: Mutex::new(limits.idle),
            connections: AtomicU32::new(0),
            by_peer: Mutex::default(),
            refusals: Quiet::default(),
            crowds: Quiet::default(),
            strangers: Quiet::default(),
            lines: Bucket::default(),
            accept_failures: Quiet::default(),
            meters: Meters::default(),
            next_id: AtomicU64::new(1),
        };
        Self {
            limits: Arc::new(limits),
            counters: Arc::default(),
            shared: Arc::new(shared),
        }
    }

    /// A context with the same limits, budget and ids but counters of its own.
    #[must_use]
    pub fn sibling(&self) -> Self {
        Self {
            counters: Arc::default(),
            ..self.clone()
        }
    }

    /// Changes `connections_max`, `connections_per_address_max` and `idle` of all siblings to those of `limits`. Connections that
    /// exist stay as they are, also when there are too many now.
    pub fn limit_connections(&self, limits: &TransportLimits) {
        let shared = &self.shared;
        shared
            .connections_max
            .store(limits.connections_max, Relaxed);
        shared
            .per_address_max
            .store(limits.connections_per_address_max, Relaxed);
        *shared.idle.lock() = limits.idle;
    }

    /// After how long without a request a connection that begins now is closed.
    pub(crate) fn idle(&self) -> Option<Duration> {
        *self.shared.idle.lock()
    }

    /// The limits, as they were at the start.
    #[must_use]
    pub fn limits(&self) -> &TransportLimits {
        &self.limits
    }

    /// The counters of this sibling.
    #[must_use]
    pub fn counters(&self) -> &Counters {
        &self.counters
    }

    /// Connections that exist now, over all siblings.
    #[must_use]
    pub fn connections(&self) -> u32 {
        self.shared.connections.load(Relaxed)
    }

    /// The RDMA connections that exist now, over all siblings, and what each of them has carried.
    #[must_use]
    pub fn rdma_traffic(&self) -> Vec<Traffic> {
        self.shared.meters.read()
    }

    pub(crate) fn meters(&self) -> &Meters {
        &self.shared.meters
    }

    pub(crate) fn receive_budget(&self) -> &Arc<Budget> {
        &self.shared.receive
    }

    pub(crate) fn send_budget(&self) -> &Arc<Budget> {
        &self.shared.send
    }

    pub(crate) fn next_id(&self) -> u64 {
        self.shared.next_id.fetch_add(1, Relaxed)
    }

    /// Counts a failure of accept, and writes it into the log unless a line about others is recent.
    pub(crate) fn accept_failed(&self, error: &std::io::Error) {
        Counters::add(&self.counters.accept_errors, 1);
        if let Some(failures) = self.shared.accept_failures.note() {
            tracing::warn!(failures, "accept failed: {error}");
        }
    }

    /// Whether one more line about a connection may go into the log; says how many were left out before it.
    #[must_use]
    pub fn may_log(&self) -> bool {
        let Some(left_out) = self.shared.lines.take() else {
            return false;
        };
        if left_out > 0 {
            tracing::warn!(left_out, "lines about connections were left out");
        }
        true
    }

    /// Counts a peer that the service does not admit, and writes it into the log unless a line about others is recent.
    pub(crate) fn not_admitted(&self, peer: &Endpoint) {
        Counters::add(&self.counters.connections_not_admitted, 1);
        if let Some(connections) = self.shared.strangers.note() {
            tracing::warn!(%peer, connections, "closed at once: no such peer may connect here");
        }
    }

    /// Whether there is room for one more connection now.
    #[must_use]
    pub fn has_room(&self) -> bool {
        let max = self.shared.connections_max.load(Relaxed);
        self.shared.connections.load(Relaxed) < max
    }

    /// A place for a connection that a peer has made, or `None` (counted) when there are too many of all or of this address.
    pub(crate) fn admit_peer(&self, endpoint: &Endpoint) -> Option<Admission> {
        let mut admission = self.admit()?;
        let max = self.shared.per_address_max.load(Relaxed);
        let peer = Peer::from(endpoint);
        {
            let mut by_peer = self.shared.by_peer.lock();
            let count = by_peer.entry(peer.clone()).or_default();
            if *count < max {
                *count += 1;
                admission.peer = Some(peer);
                return Some(admission);
            }
        }
        Counters::add(&self.counters.connections_refused_by_address, 1);
        if let Some(refused) = self.shared.crowds.note() {
            tracing::warn!(
                peer = %endpoint, max, refused,
                "connections refused: connections_per_address_max come from there already"
            );
        }
        None
    }

    /// A place for one more connection, or `None` (counted) at the limit.
    pub(crate) fn admit(&self) -> Option<Admission> {
        let max = self.shared.connections_max.load(Relaxed);
        let more = |n: u32| (n < max).then_some(n + 1);
        if self
            .shared
            .connections
            .fetch_update(Relaxed, Relaxed, more)
            .is_ok()
        {
            Some(Admission {
                shared: Arc::clone(&self.shared),
                peer: None,
            })
        } else {
            Counters::add(&self.counters.connections_refused, 1);
            if let Some(refused) = self.shared.refusals.note() {
                tracing::warn!(
                    max,
                    refused,
                    "connections refused: there are connections_max already"
                );
            }
            None
        }
    }
}

impl Shared {
    /// A connection that a peer has made is gone. A peer without any other is forgotten.
    fn leave(&self, peer: &Peer) {
        let mut by_peer = self.by_peer.lock();
        if let Some(count) = by_peer.get_mut(peer) {
            *count -= 1;
            if *count == 0 {
                by_peer.remove(peer);
            }
        }
    }
}

/// One connection's place under `connections_max`, and of its peer's address; given back when dropped.
#[derive(Debug)]
pub(crate) struct Admission {
    shared: Arc<Shared>,
    /// Who made it; `None` for a connection of ours.
    peer: Option<Peer>,
}

impl Drop for Admission {
    fn drop(&mut self) {
        self.shared.connections.fetch_sub(1, Relaxed);
        if let Some(peer) = &self.peer {
            self.shared.leave(peer);
        }
    }
}
