//! Records of the peer that are fetched by RDMA Read: the share of the receive budget first, then one buffer, then the
//! reads into it.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;
use std::task::{Context as TaskContext, Poll, ready};

use bytes::Bytes;
use fabric::{Buffer, Part, READ_PARTS_MAX};
use futures_util::StreamExt;
use futures_util::stream::FuturesUnordered;
use rpcrdma::{Pull, RecordPlan};

use super::memory::Memory;
use super::pieces::remote;
use crate::budget::Share;
use crate::link::Received;
use crate::{BoxFuture, Charge, ConnHandle};

/// A record that waits for the budget: its call, its bytes, and the charge.
type Charging = BoxFuture<'static, (u32, u32, Charge)>;

/// Records of one connection that are not whole yet.
pub(super) struct Records {
    memory: Memory,
    share: Arc<Share>,
    records: BTreeMap<u32, Record>,
    /// Those that wait for the budget, if any does.
    charging: Option<FuturesUnordered<Charging>>,
    /// Those whose next read is to be posted.
    to_read: VecDeque<u32>,
    /// Those with a read on its way.
    reading: usize,
}

struct Record {
    charge: Charge,
    /// `None` while a read has it.
    buffer: Option<Buffer>,
    /// What is not asked for yet.
    pulls: Vec<Pull>,
}

impl Records {
    pub(super) fn new(memory: Memory, conn: &ConnHandle) -> Self {
        Self {
            memory,
            share: conn.context().receive_budget().share(conn.peer()),
            records: BTreeMap::new(),
            charging: None,
            to_read: VecDeque::new(),
            reading: 0,
        }
    }

    /// Gets a buffer for a record; `false` when it has to wait for the budget.
    pub(super) fn allocate(&mut self, xid: u32, bytes: u32) -> bool {
        if let Some(charge) = self.share.try_charge(bytes) {
            self.insert(xid, bytes, charge);
            return true;
        }
        let charging = Arc::clone(&self.share).charge(bytes);
        let waiting = self.charging.get_or_insert_default();
        waiting.push(Box::pin(async move { (xid, bytes, charging.await) }));
        false
    }

    /// The next record that got its share, and a buffer with it.
    pub(super) fn poll_charged(&mut self, cx: &mut TaskContext<'_>) -> Poll<Option<u32>> {
        let Some(charging) = &mut self.charging else {
            return Poll::Ready(None);
        };
        let charged = ready!(charging.poll_next_unpin(cx));
        if charging.is_empty() {
            self.charging = None;
        }
        Poll::Ready(charged.map(|(xid, bytes, charge)| {
            self.insert(xid, bytes, charge);
            xid
        }))
    }

    fn insert(&mut self, xid: u32, bytes: u32, charge: Charge) {
        let record = Record {
            charge,
            buffer: Some(self.memory.take(bytes as usize)),
            pulls: Vec::new(),
        };
        self.records.insert(xid, record);
    }

    /// Puts the pieces in their places. `true` when nothing is to be read.
    pub(super) fn begin(&mut self, xid: u32, placement: RecordPlan) -> bool {
        let Some(record) = self.records.get_mut(&xid) else {
            return false;
        };
        if let Some(buffer) = &mut record.buffer {
            for piece in &placement.pieces {
                let at = piece.at as usize;
                buffer[at..at + piece.bytes.len()].copy_from_slice(&piece.bytes);
            }
        }
        record.pulls = placement.pulls;
        if record.pulls.is_empty() {
            return true;
        }
        self.to_read.push_back(xid);
        false
    }

    /// A read that can be posted, and the call that it is for.
    pub(super) fn next_read(&mut self) -> Option<(u32, fabric::Work)> {
        let xid = self.to_read.pop_front()?;
        let record = self.records.get_mut(&xid)?;
        let sink = record.buffer.take()?;
        let part = |pull: Pull| Part {
            at: pull.at as usize,
            remote: remote(&pull.segment),
        };
        let count = record.pulls.len().min(READ_PARTS_MAX);
        let parts = record.pulls.drain(..count).map(part).collect();
        self.reading += 1;
        Some((xid, fabric::Work::Read { sink, parts }))
    }

    /// A read is complete. `true` when it was the last one of its record.
    pub(super) fn read(&mut self, xid: u32, sink: Buffer) -> bool {
        self.reading -= 1;
        let Some(record) = self.records.get_mut(&xid) else {
            return false;
        };
        record.buffer = Some(sink);
        if record.pulls.is_empty() {
            return true;
        }
        self.to_read.push_back(xid);
        false
    }

    /// A record that is whole.
    ///
    /// # Panics
    /// When it is not.
    pub(super) fn take(&mut self, xid: u32) -> Received {
        let record = self.records.remove(&xid).expect("a pulled record exists");
        let buffer = record.buffer.expect("no read has it any more");
        let len = buffer.len();
        let bytes: Bytes = buffer.freeze(0..len);
        Received {
            bytes,
            charge: Some(record.charge),
        }
    }

    /// Keeps no room for what may come. (An empty table keeps some.)
    pub(super) fn rest(&mut self) {
        if self.records.is_empty() {
            self.records = BTreeMap::new();
            self.to_read = VecDeque::new();
        }
    }

    /// Whether the peer's bytes are awaited.
    pub(super) const fn is_reading(&self) -> bool {
        self.reading > 0
    }

    /// Whether anybody waits for the budget that records here hold.
    pub(super) fn is_wanted(&self) -> bool {
        self.share.is_wanted()
    }
}
