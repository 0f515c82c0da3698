//! What single RDMA connections have carried, to find a faulty one.
//!
//! # Ownership
//! The task of a connection writes, whenever its engine has counted something; anybody may read. A connection stands in the
//! list of its context and its siblings as long as its link lives.

use std::collections::BTreeMap;
use std::sync::Arc;

use parking_lot::Mutex;

use crate::Endpoint;

/// What one connection has carried since it was made.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Carried {
    /// Calls of the peer.
    pub calls_in: u64,
    /// Calls of ours.
    pub calls_out: u64,
    /// Bytes received, by whatever way.
    pub bytes_in: u64,
    /// Bytes sent, by whatever way.
    pub bytes_out: u64,
    /// Chunks of the peer's memory that were read from or written to.
    pub chunks_in: u64,
    /// Chunks of our memory that were offered to the peer to be read, or came back written.
    pub chunks_out: u64,
    /// Pieces of memory whose access was taken back, by whichever side.
    pub invalidations: u64,
    /// Calls of ours that waited for a credit of the peer.
    pub credit_stalls: u64,
    /// Replies that granted the peer fewer credits than it makes use of: its calls wait there.
    pub credits_short: u64,
    /// Calls of the peer that waited for their turn to be fetched.
    pub read_stalls: u64,
}

impl Carried {
    pub(super) fn new(counted: &rpcrdma::Counters, moved: &fabric::Counters) -> Self {
        Self {
            calls_in: counted.calls_in,
            calls_out: counted.calls_out,
            bytes_in: moved.received_bytes,
            bytes_out: moved.sent_bytes,
            chunks_in: counted.read_chunks_in + counted.write_chunks_out + counted.reply_chunks_out,
            chunks_out: counted.read_chunks_out + counted.write_chunks_in + counted.reply_chunks_in,
            invalidations: counted.invalidations_local
                + counted.invalidations_sent
                + counted.invalidations_received,
            credit_stalls: counted.credit_stalls,
            credits_short: counted.grants_short,
            read_stalls: counted.read_stalls,
        }
    }

    /// Names and values.
    #[must_use]
    pub const fn named(&self) -> [(&'static str, u64); 10] {
        [
            ("calls_in", self.calls_in),
            ("calls_out", self.calls_out),
            ("bytes_in", self.bytes_in),
            ("bytes_out", self.bytes_out),
            ("chunks_in", self.chunks_in),
            ("chunks_out", self.chunks_out),
            ("invalidations", self.invalidations),
            ("credit_stalls", self.credit_stalls),
            ("credits_short", self.credits_short),
            ("read_stalls", self.read_stalls),
        ]
    }
}

/// A connection that is there, and what it has carried.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Traffic {
    /// The other end.
    pub peer: Endpoint,
    /// This end.
    pub local: Endpoint,
    /// What it has carried.
    pub carried: Carried,
}

/// The connections of a context and its siblings, by their ids.
#[derive(Debug, Default)]
pub(crate) struct Meters(Mutex<BTreeMap<u64, Arc<Meter>>>);

#[derive(Debug)]
pub(super) struct Meter {
    peer: Endpoint,
    local: Endpoint,
    carried: Mutex<Carried>,
}

impl Meter {
    pub(super) fn set(&self, carried: Carried) {
        *self.carried.lock() = carried;
    }
}

impl Meters {
    /// Enters connection `id`.
    pub(super) fn add(&self, id: u64, peer: Endpoint, local: Endpoint) -> Arc<Meter> {
        let meter = Arc::new(Meter {
            peer,
            local,
            carried: Mutex::default(),
        });
        self.0.lock().insert(id, Arc::clone(&meter));
        meter
    }

    /// Takes connection `id` out.
    pub(super) fn remove(&self, id: u64) {
        self.0.lock().remove(&id);
    }

    pub(crate) fn read(&self) -> Vec<Traffic> {
        let meters: Vec<_> = self.0.lock().values().cloned().collect();
        let read = |meter: Arc<Meter>| Traffic {
            peer: meter.peer.clone(),
            local: meter.local.clone(),
            carried: *meter.carried.lock(),
        };
        meters.into_iter().map(read).collect()
    }
}
