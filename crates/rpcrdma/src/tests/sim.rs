//! A simulated connection: memory under keys, Sends and RDMA Writes in order, RDMA Reads and completions
//! whenever the generator of random numbers likes.
//!
//! It is as strict as a provider. A key that is not exposed, a range outside of it, and a Send without a posted Receive
//! or longer than one are panics. Exactly [`Engine::receives`] Receives are posted.

use std::collections::{BTreeMap, VecDeque};

use bytes::Bytes;

use crate::*;

/// xorshift64*.
pub(super) struct Rng(u64);

impl Rng {
    pub(super) fn new(seed: u64) -> Self {
        Self(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1)
    }

    /// Below `n`.
    pub(super) fn below(&mut self, n: usize) -> usize {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        let n = u64::try_from(n).unwrap();
        usize::try_from((self.0.wrapping_mul(0x2545_f491_4f6c_dd1d) >> 33) % n).unwrap()
    }

    pub(super) fn one_in(&mut self, n: usize) -> bool {
        self.below(n) == 0
    }
}

struct Exposed {
    region: RegionId,
    /// First byte of the region that is under this key.
    at: usize,
    bytes: Vec<u8>,
    base: u64,
    writable: bool,
}

impl Exposed {
    fn range(&mut self, segment: &Segment) -> &mut [u8] {
        let from = segment.offset.checked_sub(self.base);
        let from = usize::try_from(from.expect("before the region")).unwrap();
        &mut self.bytes[from..from + segment.length as usize]
    }
}

enum Wire {
    Send(Vec<u8>, Option<u32>),
    Write(Vec<u8>, Segment),
}

/// What happens at one side when its time has come.
enum Later {
    Expose(RegionId, Exposure),
    Allocate(u32, u32),
    Read(u32, Pull),
    Invalidate(RegionId, u32),
}

/// One side.
pub(super) struct Side {
    pub(super) engine: Engine,
    pub(super) config: EngineConfig,
    exposed: BTreeMap<u32, Exposed>,
    next_key: u32,
    /// Memory of sinks whose access has ended.
    pub(super) memory: BTreeMap<RegionId, Vec<u8>>,
    records: BTreeMap<u32, (Vec<u8>, usize)>,
    wire: VecDeque<Wire>,
    later: Vec<Later>,
    posted: u32,
    /// Calls of the peer: XID and record.
    pub(super) calls: VecDeque<(u32, Vec<u8>)>,
    /// Outcomes of our calls.
    pub(super) outcomes: Vec<(u32, Result<CallReply, CallError>)>,
    pub(super) failed: Option<FailReason>,
}

impl Side {
    fn new(config: EngineConfig, first_key: u32) -> Self {
        let engine = Engine::new(config.clone());
        Self {
            posted: engine.receives(),
            engine,
            config,
            exposed: BTreeMap::new(),
            next_key: first_key,
            memory: BTreeMap::new(),
            records: BTreeMap::new(),
            wire: VecDeque::new(),
            later: Vec::new(),
            calls: VecDeque::new(),
            outcomes: Vec::new(),
            failed: None,
        }
    }

    fn take_event(&mut self) -> bool {
        let Some(event) = self.engine.next_event() else {
            return false;
        };
        match event {
            Event::Expose { region, memory } => self.later.push(Later::Expose(region, memory)),
            Event::Allocate { xid, bytes } => self.later.push(Later::Allocate(xid, bytes)),
            Event::Call { xid, record } => {
                let record = match record {
                    Record::Inline(bytes) => bytes.to_vec(),
                    Record::Pulled => {
                        let (record, missing) = self.records.remove(&xid).expect("a record");
                        assert_eq!(missing, 0, "delivered before its reads completed");
                        record
                    }
                };
                self.calls.push_back((xid, record));
            }
            Event::Reply { xid, outcome } => {
                let exposed = self.exposed.values().any(|e| e.region.xid == xid);
                let lost = outcome == Err(CallError::Lost);
                assert!(lost || !exposed, "memory is exposed after the reply");
                self.outcomes.push((xid, outcome));
            }
            Event::Failed(reason) => self.failed = Some(reason),
        }
        true
    }

    fn take_work(&mut self) -> bool {
        let Some(work) = self.engine.next_work() else {
            return false;
        };
        match work {
            SendWork::Send {
                data,
                invalidate,
                receives,
            } => {
                assert_eq!(receives, self.engine.receives());
                self.posted = receives;
                self.wire.push_back(Wire::Send(data.concat(), invalidate));
            }
            SendWork::Write { data, segment } => {
                let bytes = data.concat();
                assert_eq!(bytes.len(), segment.length as usize);
                self.wire.push_back(Wire::Write(bytes, segment));
            }
            SendWork::WriteHeld { .. } => unreachable!("nothing is held here"),
            SendWork::Pull { xid, placement } => {
                let (record, missing) = self.records.get_mut(&xid).expect("a buffer");
                assert_eq!(record.len(), placement.bytes as usize);
                for piece in &placement.pieces {
                    let at = piece.at as usize;
                    record[at..at + piece.bytes.len()].copy_from_slice(&piece.bytes);
                }
                *missing = placement.pulls.len();
                let reads = placement.pulls.into_iter();
                self.later.extend(reads.map(|pull| Later::Read(xid, pull)));
            }
            SendWork::Invalidate { region, handle } => {
                self.later.push(Later::Invalidate(region, handle));
            }
        }
        true
    }

    fn expose(&mut self, region: RegionId, memory: Exposure, rng: &mut Rng) {
        if rng.one_in(200) {
            self.engine.expose_failed(region);
            return;
        }
        let (bytes, writable) = match memory {
            Exposure::Source(pieces) => (pieces.concat(), false),
            Exposure::Sink { bytes } => (vec![0x55; bytes as usize], true),
        };
        if writable {
            self.memory.insert(region, bytes.clone());
        }
        let mut segments = Vec::new();
        let count = 1 + rng.below(self.config.region_segments_max);
        let mut at = 0;
        for left in (1..=count).rev() {
            let rest = bytes.len() - at;
            let len = if left == 1 { rest } else { rng.below(rest + 1) };
            let base = u64::MAX / 2 - u64::from(self.next_key) * 3;
            let part = Exposed {
                region,
                at,
                bytes: bytes[at..at + len].to_vec(),
                base,
                writable,
            };
            self.exposed.insert(self.next_key, part);
            segments.push(Segment {
                handle: self.next_key,
                length: u32::try_from(len).unwrap(),
                offset: base,
            });
            self.next_key += 1;
            at += len;
        }
        self.engine.exposed(region, segments);
    }

    /// Ends the access under `key`; what was written becomes readable here.
    fn end_access(&mut self, key: u32) {
        if let Some(part) = self.exposed.remove(&key)
            && let Some(memory) = self.memory.get_mut(&part.region)
        {
            memory[part.at..part.at + part.bytes.len()].copy_from_slice(&part.bytes);
        }
    }

    fn receive(&mut self, bytes: Vec<u8>, invalidate: Option<u32>) {
        assert!(self.posted > 0, "no receive is posted");
        assert!(bytes.len() <= self.config.own.receive_bytes as usize);
        if let Some(key) = invalidate {
            assert!(self.exposed.contains_key(&key), "key {key} is not exposed");
            self.end_access(key);
        }
        self.engine.received(&Bytes::from(bytes), invalidate);
        self.posted = self.engine.receives();
    }
}

/// Both sides.
pub(super) struct Pair {
    pub(super) sides: [Side; 2],
    pub(super) rng: Rng,
}

impl Pair {
    pub(super) fn new(configs: [EngineConfig; 2], seed: u64) -> Self {
        let [a, b] = configs;
        Self {
            sides: [Side::new(a, 1), Side::new(b, 1_000_000)],
            rng: Rng::new(seed),
        }
    }

    /// Lets one thing happen at a random side; `false` if nothing can at either.
    pub(super) fn step(&mut self) -> bool {
        let first = self.rng.below(2);
        let kind = self.rng.below(4);
        (0..8).any(|i| self.try_step((first + i) % 2, (kind + i / 2) % 4))
    }

    fn try_step(&mut self, at: usize, kind: usize) -> bool {
        match kind {
            0 => self.sides[at].take_event(),
            1 => self.sides[at].take_work(),
            2 => self.deliver(at),
            _ => self.later(at),
        }
    }

    /// The oldest thing on the wire of side `from` reaches the other.
    fn deliver(&mut self, from: usize) -> bool {
        let Some(wire) = self.sides[from].wire.pop_front() else {
            return false;
        };
        let to = &mut self.sides[1 - from];
        match wire {
            Wire::Send(bytes, invalidate) => to.receive(bytes, invalidate),
            Wire::Write(bytes, segment) => {
                let part = to.exposed.get_mut(&segment.handle);
                let part = part.expect("a write to memory that is not exposed");
                assert!(part.writable, "a write to a source");
                part.range(&segment).copy_from_slice(&bytes);
            }
        }
        true
    }

    fn later(&mut self, at: usize) -> bool {
        let count = self.sides[at].later.len();
        if count == 0 {
            return false;
        }
        let index = self.rng.below(count);
        let (side, peer) = {
            let [a, b] = &mut self.sides;
            if at == 0 { (a, b) } else { (b, a) }
        };
        match side.later.swap_remove(index) {
            Later::Expose(region, memory) => side.expose(region, memory, &mut self.rng),
            Later::Allocate(xid, bytes) => {
                let record = vec![0xaa; bytes as usize];
                side.records.insert(xid, (record, 0));
                side.engine.allocated(xid);
            }
            Later::Read(xid, pull) => {
                let part = peer.exposed.get_mut(&pull.segment.handle);
                let part = part.expect("a read of memory that is not exposed");
                assert!(!part.writable, "a read of a sink");
                let (record, missing) = side.records.get_mut(&xid).expect("a record");
                let to = pull.at as usize..(pull.at + pull.segment.length) as usize;
                record[to].copy_from_slice(part.range(&pull.segment));
                *missing -= 1;
                if *missing == 0 {
                    side.engine.pulled(xid);
                }
            }
            Later::Invalidate(region, handle) => {
                side.end_access(handle);
                side.engine.invalidated(region);
            }
        }
        true
    }

    /// Whether nothing is exposed at either side.
    pub(super) fn nothing_exposed(&self) -> bool {
        self.sides.iter().all(|side| side.exposed.is_empty())
    }
}
