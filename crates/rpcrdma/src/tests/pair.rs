//! Goal: whatever is sent comes out equal at the other side, in both directions at once. That holds for any sizes,
//! thresholds, credits, chunks and orders of completion. A lost connection gives every call one verdict. Method: two
//! engines on the simulated connection, calls and replies from one seed.

use std::collections::BTreeMap;

use bytes::Bytes;
use proptest::prelude::*;
use xdr::Encoder;

use super::sim::{Pair, Rng, Side};
use crate::*;

const CALL: u32 = 0;
const REPLY: u32 = 1;

/// A call and the reply that it will get, known to both sides.
struct Exchange {
    call: Message,
    reply: Message,
    room: ReplyRoom,
}

fn size(rng: &mut Rng) -> u32 {
    let near = |rng: &mut Rng, n: u32| n - 90 + u32::try_from(rng.below(120)).unwrap();
    match rng.below(8) {
        0 => 0,
        1 | 2 => u32::try_from(rng.below(12)).unwrap(),
        3 => near(rng, 1024),
        4 => near(rng, 2048),
        5 => near(rng, 4096),
        6 => 5000,
        _ => u32::try_from(rng.below(40_000)).unwrap(),
    }
}

fn message(rng: &mut Rng, xid: u32, direction: u32) -> Message {
    let mut e = Encoder::new();
    e.u32(xid);
    e.u32(direction);
    let filler = |e: &mut Encoder, words: usize, rng: &mut Rng| {
        (0..words).for_each(|_| e.u32(0x0100_0000 + u32::try_from(rng.below(1 << 24)).unwrap()));
    };
    filler(&mut e, 8, rng);
    let mut payloads = Vec::new();
    for _ in 0..rng.below(4) {
        let words = rng.below(20);
        filler(&mut e, words, rng);
        let len = size(rng);
        e.payload(len);
        let byte = |i: u32| u8::try_from((i + xid) % 255).unwrap() + 1;
        let mut rest = (0..len).map(byte).collect::<Bytes>();
        let mut pieces = Vec::new();
        while rng.one_in(2) && !rest.is_empty() {
            pieces.push(rest.split_to(rng.below(rest.len() + 1)));
        }
        pieces.push(rest);
        payloads.push(pieces);
    }
    let words = if rng.one_in(4) {
        size(rng) as usize / 4
    } else {
        rng.below(30)
    };
    filler(&mut e, words, rng);
    let (head, spans) = e.into_parts();
    let mut message = Message::gathered(head, spans, payloads);
    for index in 0..message.items().len() {
        if rng.one_in(6) {
            message = message.without_ddp(index);
        }
    }
    message
}

fn flatten(message: &Message) -> Vec<u8> {
    let mut out = Vec::new();
    let mut at = 0;
    for item in message.items() {
        out.extend(&message.head()[at..item.span.at]);
        item.payload.iter().for_each(|piece| out.extend(piece));
        out.resize(out.len().next_multiple_of(4), 0);
        at = item.span.at;
    }
    out.extend(&message.head()[at..]);
    out
}

/// Room for a reply: write chunks for some of its results, and for all else that it has.
fn room(rng: &mut Rng, reply: &Message) -> ReplyRoom {
    let eligible = reply.items().iter().filter(|item| item.ddp_eligible);
    let mut write_chunks: Vec<u32> = eligible
        .map(|item| match rng.below(4) {
            0 => 0,
            1 => item.span.len + u32::try_from(rng.below(500)).unwrap(),
            _ => item.span.len,
        })
        .collect();
    match rng.below(4) {
        0 => write_chunks.truncate(1),
        1 => write_chunks.push(100),
        _ => {}
    }
    let slack = if rng.one_in(2) { 0 } else { rng.below(2000) };
    let inline = flatten(reply).len() + slack;
    let chunked: usize = placed(reply, &write_chunks)
        .iter()
        .zip(reply.items())
        .filter(|(place, _)| place.is_some())
        .map(|(_, item)| (item.span.len as usize).next_multiple_of(4))
        .sum();
    ReplyRoom {
        reply_bytes_max: u32::try_from(inline - chunked).unwrap(),
        write_chunks,
    }
}

/// The write chunk of each payload of a reply, if it gets one.
fn placed(reply: &Message, write_chunks: &[u32]) -> Vec<Option<usize>> {
    let mut next = 0;
    let items = reply.items().iter();
    items
        .map(|item| {
            let chunk = item.ddp_eligible.then_some(next)?;
            next += 1;
            (*write_chunks.get(chunk)? > 0).then_some(chunk)
        })
        .collect()
}

fn exchange(rng: &mut Rng, xid: u32) -> Exchange {
    let reply = message(rng, xid, REPLY);
    Exchange {
        call: message(rng, xid, CALL),
        room: room(rng, &reply),
        reply,
    }
}

/// The record that a reply makes, put together as its consumer would.
fn record(side: &mut Side, reply: &CallReply, exchange: &Exchange) -> Vec<u8> {
    let bytes = |side: &Side, returned: &ReturnedChunk| match returned.region {
        Some(region) => side.memory[&region][..returned.bytes as usize].to_vec(),
        None => Vec::new(),
    };
    let stream = match &reply.record {
        ReplyRecord::Inline(stream) => stream.to_vec(),
        ReplyRecord::Chunk(returned) => bytes(side, returned),
    };
    let chunks: Vec<Vec<u8>> = reply.chunks.iter().map(|r| bytes(side, r)).collect();
    let chunks: Vec<&[u8]> = chunks.iter().map(Vec::as_slice).collect();
    assert_eq!(chunks.len(), exchange.room.write_chunks.len());
    let places = placed(&exchange.reply, &exchange.room.write_chunks);
    let locate = |_: &[u8], wanted: usize| {
        let mut inline = 0;
        for (item, place) in exchange.reply.items().iter().zip(&places) {
            if *place == Some(wanted) {
                return Some(item.span.at + inline);
            }
            if place.is_none_or(|chunk| chunks[chunk].is_empty()) {
                inline += (item.span.len as usize).next_multiple_of(4);
            }
        }
        None
    };
    side.engine.reassemble(&stream, &chunks, locate).unwrap()
}

fn configs(rng: &mut Rng) -> [EngineConfig; 2] {
    let data = |rng: &mut Rng| PrivateData {
        remote_invalidation: rng.one_in(2),
        send_bytes: 1024 << rng.below(3),
        receive_bytes: 1024 << rng.below(3),
    };
    let [a, b] = [data(rng), data(rng)];
    let config = |rng: &mut Rng, own: PrivateData, peer: PrivateData| EngineConfig {
        own,
        peer: PrivateData::decode(&peer.encode()),
        credits_requested: u32::try_from(1 + rng.below(8)).unwrap(),
        grant: u32::try_from(1 + rng.below(8)).unwrap(),
        overrun: 0,
        calls_waiting_max: 64,
        record_bytes_max: 1 << 20,
        read_bytes_max: u64::try_from(rng.below(60_000)).unwrap(),
        region_segments_max: 1 + rng.below(3),
        read_chunks_max: rng.below(4),
    };
    [config(rng, a, b), config(rng, b, a)]
}

/// Calls from both sides, with equal XIDs. Returns how many got their reply.
struct World {
    pair: Pair,
    /// What each side calls.
    exchanges: [BTreeMap<u32, Exchange>; 2],
    /// XIDs that are not called yet.
    to_call: [Vec<u32>; 2],
    verdicts: [BTreeMap<u32, Option<CallError>>; 2],
}

impl World {
    fn new(seed: u64, count: u32) -> Self {
        let mut rng = Rng::new(seed);
        let configs = configs(&mut rng);
        let mut exchanges = |_| {
            (1..=count)
                .map(|xid| (xid, exchange(&mut rng, xid)))
                .collect()
        };
        Self {
            exchanges: [0, 1].map(&mut exchanges),
            to_call: [0, 1].map(|_| (1..=count).collect()),
            verdicts: [BTreeMap::new(), BTreeMap::new()],
            pair: Pair::new(configs, seed),
        }
    }

    /// Lets something happen; `false` when nothing is left.
    fn step(&mut self) -> bool {
        let at = self.pair.rng.below(2);
        match self.pair.rng.below(8) {
            0 => self.call(at),
            1 => self.answer(at),
            2 => {
                let grant = u32::try_from(1 + self.pair.rng.below(8)).unwrap();
                self.pair.sides[at].engine.set_grant(grant);
            }
            _ if self.pair.step() => {}
            _ => {
                let left = |w: &Self| w.to_call.iter().map(Vec::len).sum::<usize>();
                let (calls, answers) = (left(self), self.answers());
                (0..2).for_each(|at| self.call(at));
                (0..2).for_each(|at| self.answer(at));
                self.settle();
                return calls + answers > 0 || self.pair.step();
            }
        }
        self.settle();
        true
    }

    fn answers(&self) -> usize {
        self.pair.sides.iter().map(|s| s.calls.len()).sum()
    }

    fn call(&mut self, at: usize) {
        let Some(xid) = self.to_call[at].pop() else {
            return;
        };
        let exchange = &self.exchanges[at][&xid];
        let engine = &mut self.pair.sides[at].engine;
        match engine.call(exchange.call.clone(), &exchange.room) {
            Ok(()) => {}
            // Several chunks of several segments may be more than 1024 bytes hold.
            Err(CallRefused::TooManyChunks) => {
                self.verdicts[at].insert(xid, Some(CallError::NotExposed));
            }
            Err(refused) => panic!("{refused:?}"),
        }
    }

    fn answer(&mut self, at: usize) {
        let count = self.pair.sides[at].calls.len();
        if count == 0 {
            return;
        }
        let index = self.pair.rng.below(count);
        let (xid, record) = self.pair.sides[at].calls.remove(index).unwrap();
        let exchange = &self.exchanges[1 - at][&xid];
        assert!(record == flatten(&exchange.call), "call {xid} differs");
        self.pair.sides[at].engine.reply(&exchange.reply).unwrap();
    }

    fn settle(&mut self) {
        for at in 0..2 {
            for (xid, outcome) in std::mem::take(&mut self.pair.sides[at].outcomes) {
                let exchange = &self.exchanges[at][&xid];
                let verdict = outcome.as_ref().err().copied();
                if let Ok(reply) = &outcome {
                    let record = record(&mut self.pair.sides[at], reply, exchange);
                    assert!(record == flatten(&exchange.reply), "reply {xid} differs");
                }
                assert_eq!(self.verdicts[at].insert(xid, verdict), None);
            }
            assert_eq!(self.pair.sides[at].failed, None);
        }
    }

    fn check_end(&self, count: usize) {
        assert!(self.pair.nothing_exposed());
        let [a, b] = [0, 1].map(|at| self.pair.sides[at].engine.counters());
        for (out, back) in [(a, b), (b, a)] {
            assert_eq!(out.inline_bytes_out, back.inline_bytes_in);
            assert_eq!(out.calls_out, back.calls_in);
            assert_eq!(out.replies_out, back.replies_in);
            assert_eq!(out.read_chunks_out, back.read_chunks_in);
            assert_eq!(out.read_chunk_bytes_out, back.read_chunk_bytes_in);
            assert_eq!(out.write_chunk_bytes_out, back.write_chunk_bytes_in);
            assert_eq!(out.reply_chunk_bytes_out, back.reply_chunk_bytes_in);
            assert_eq!(out.invalidations_sent, back.invalidations_received);
        }
        for (side, verdicts) in self.pair.sides.iter().zip(&self.verdicts) {
            assert_eq!(verdicts.len(), count, "every call has ended");
            let expected = [None, Some(CallError::NotExposed)];
            assert!(
                verdicts.values().all(|v| expected.contains(v)),
                "{verdicts:?}"
            );
            assert_eq!(side.engine.credits().1, 0, "every credit came back");
            assert_eq!(side.engine.calls_outstanding(), 0);
            assert_eq!(side.engine.calls_in_progress(), 0);
        }
    }
}

/// Sums over many seeds, to see that they reach what they are meant to reach.
fn run(seed: u64, count: u32) -> [Counters; 2] {
    let mut world = World::new(seed, count);
    while world.step() {}
    world.check_end(count as usize);
    [0, 1].map(|at| world.pair.sides[at].engine.counters().clone())
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn whatever_is_sent_comes_out_equal_in_both_directions(seed: u64) {
        run(seed, 12);
    }

    #[test]
    fn a_lost_connection_gives_every_call_one_verdict(seed: u64, steps in 0usize..800) {
        let mut world = World::new(seed, 12);
        for _ in 0..steps {
            world.step();
        }
        let called = world.to_call.each_ref().map(Vec::len);
        for side in &mut world.pair.sides {
            side.engine.lost();
            side.calls.clear();
            prop_assert!(!side.engine.has_work());
            prop_assert_eq!(side.engine.receives(), 0);
        }
        for (at, left) in called.into_iter().enumerate() {
            while let Some(event) = world.pair.sides[at].engine.next_event() {
                let Event::Reply { xid, outcome } = event else {
                    panic!("{event:?}");
                };
                let verdict = outcome.err();
                prop_assert_eq!(world.verdicts[at].insert(xid, verdict), None);
            }
            prop_assert_eq!(world.verdicts[at].len() + left, 12);
            let engine = &mut world.pair.sides[at].engine;
            let call = world.exchanges[at][&1].call.clone();
            let room = ReplyRoom::default();
            prop_assert_eq!(engine.call(call, &room), Err(CallRefused::Ended));
            engine.received(&Bytes::from_static(&[0; 28]), None);
            prop_assert_eq!(engine.next_event(), None);
            prop_assert_eq!(engine.calls_outstanding(), 0);
        }
    }
}

/// The random exchanges reach every form of call and reply, and every wait.
#[test]
fn the_seeds_reach_every_form() {
    let mut sum = [0; 9];
    for seed in 1..60 {
        for c in run(seed, 12) {
            let found = [
                c.read_chunks_out,
                c.write_chunks_out,
                c.reply_chunks_out,
                c.credit_stalls,
                c.read_stalls,
                c.invalidations_sent,
                c.invalidations_local,
                c.payload_inline_bytes_out,
                c.payload_reassembled_bytes,
            ];
            for (sum, n) in sum.iter_mut().zip(found) {
                *sum += n;
            }
        }
    }
    assert!(sum.iter().all(|n| *n > 0), "{sum:?}");
}
