//! Bodies of the fuzz targets `rpcrdma_header`, `rpcrdma_private_data` and `rpcrdma_engine`; an ordinary test replays their corpus.
//!
//! Each takes bytes of a peer and must neither panic nor grow beyond what limits and credits allow. A panic
//! is a finding.

use bytes::Bytes;
use xdr::encode_to_vec;

use crate::{
    Body, Counters, Engine, EngineConfig, Event, Exposure, Header, INLINE_BYTES_MAX,
    INLINE_BYTES_MIN, Message, PrivateData, Record, RecordPlan, ReplyRoom, Segment, SendWork,
    place, read_chunks,
};

/// Most bytes of a record in these targets.
const RECORD_BYTES_MAX: u32 = 1 << 20;
/// XIDs of our own calls: the engine has one outstanding at a time, with this or the other.
const XIDS: [u32; 2] = [1, 2];

/// What a peer says while a connection is set up. What is understood survives a round trip, also among data of other layers.
///
/// # Panics
/// When it does not.
pub fn private_data(data: &[u8]) {
    let said = PrivateData::decode(data);
    let sizes = INLINE_BYTES_MIN..=INLINE_BYTES_MAX;
    assert!(sizes.contains(&said.send_bytes) && sizes.contains(&said.receive_bytes));
    let encoded = said.encode();
    let among = [&[0; 3][..], &encoded, data].concat();
    for bytes in [&encoded[..], &among] {
        let again = PrivateData::decode(bytes);
        assert_eq!(again, said, "a round trip changed private data");
    }
    let ours = Engine::new(EngineConfig {
        peer: said,
        ..EngineConfig::default()
    });
    assert!(ours.receives() > 0, "the peer may call at once");
}

/// A Send of a peer as header and chunks. What is understood encodes to the same bytes, and
/// chunks that make a record cover each of its bytes once.
///
/// # Panics
/// When they do not.
pub fn header(data: &[u8]) {
    let Ok((header, at)) = Header::decode(data) else {
        return;
    };
    let encoded = encode_to_vec(&header);
    assert_eq!(encoded, data[..at], "a round trip changed a header");
    let (lists, inline) = match header.body {
        Body::Msg(lists) => (lists, Some(Bytes::copy_from_slice(&data[at..]))),
        Body::NoMsg(lists) => (lists, None),
        Body::Error(_) => return,
    };
    assert_eq!(lists.header_bytes(), at, "the length of a header is known");
    if let Ok(placement) = place(
        inline.as_ref(),
        &read_chunks(&lists.reads),
        RECORD_BYTES_MAX,
    ) {
        covers(&placement);
    }
}

/// Each byte of the record comes from one piece or one pull.
fn covers(placement: &RecordPlan) {
    let pieces = placement.pieces.iter();
    let pieces = pieces.map(|p| (u64::from(p.at), p.bytes.len() as u64));
    let pulls = placement.pulls.iter();
    let pulls = pulls.map(|p| (u64::from(p.at), u64::from(p.segment.length)));
    let mut ranges: Vec<_> = pieces.chain(pulls).collect();
    ranges.sort_unstable();
    let end = ranges.into_iter().fold(0, |end, (at, bytes)| {
        assert_eq!(at, end, "a gap or an overlap");
        at + bytes
    });
    assert_eq!(end, u64::from(placement.bytes));
}

/// A peer that sends whatever it likes to an engine with a call of its own outstanding. Each message is a
/// byte with what happens besides, a byte with its length in words, and the words.
///
/// # Panics
/// When the engine does.
pub fn engine(data: &[u8]) {
    let _ = engine_outcome(data);
}

/// As [`engine`]; what the engine has counted.
///
/// # Panics
/// As [`engine`].
#[must_use]
pub fn engine_outcome(data: &[u8]) -> Counters {
    let config = EngineConfig {
        record_bytes_max: RECORD_BYTES_MAX,
        credits_requested: 1,
        grant: 4,
        own: PrivateData {
            remote_invalidation: true,
            ..PrivateData::default()
        },
        ..EngineConfig::default()
    };
    let most = config.grant + config.overrun + 1;
    let mut host = Host {
        engine: Engine::new(config),
        calls: Vec::new(),
        pulls: Vec::new(),
    };
    let mut rest = data;
    while let [how, words, more @ ..] = rest {
        let len = (usize::from(*words) * 4).min(more.len());
        let (message, after) = more.split_at(len);
        rest = after;
        host.call(XIDS[usize::from(how & 1)]);
        let invalidated = (how & 2 != 0).then_some(u32::from(how >> 4));
        let message = Bytes::copy_from_slice(message);
        host.engine.received(&message, invalidated);
        host.settle(how & 4 != 0, how & 8 != 0);
        assert!(host.engine.calls_in_progress() <= most as usize);
        assert!(host.engine.receives() <= most + 1);
    }
    host.engine.lost();
    host.settle(true, true);
    assert_eq!(host.engine.calls_outstanding(), 0);
    host.engine.counters().clone()
}

/// Whoever drives the engine: it does what it is told, in part late.
struct Host {
    engine: Engine,
    /// Calls that are not answered.
    calls: Vec<u32>,
    /// Records whose reads are not complete.
    pulls: Vec<u32>,
}

impl Host {
    fn message(xid: u32, direction: u32) -> Message {
        let mut e = xdr::Encoder::new();
        for word in [xid, direction, 2, 0, 0, 0, 0, 0, 0, 0] {
            e.u32(word);
        }
        e.payload(3000);
        let (head, spans) = e.into_parts();
        Message::new(head, spans, vec![Bytes::from_static(&[7; 3000])])
    }

    fn call(&mut self, xid: u32) {
        let room = ReplyRoom {
            reply_bytes_max: 2000,
            write_chunks: vec![500],
        };
        if self.engine.calls_outstanding() == 0 {
            // An engine that has ended refuses.
            let _ = self.engine.call(Self::message(xid, 0), &room);
        }
    }

    fn settle(&mut self, answer: bool, complete: bool) {
        if complete {
            for xid in std::mem::take(&mut self.pulls) {
                self.engine.pulled(xid);
            }
        }
        loop {
            if let Some(event) = self.engine.next_event() {
                self.event(event);
            } else if let Some(work) = self.engine.next_work() {
                match work {
                    SendWork::Pull { xid, placement } => {
                        covers(&placement);
                        self.pulls.push(xid);
                    }
                    SendWork::Invalidate { region, .. } => self.engine.invalidated(region),
                    SendWork::Send { .. } | SendWork::Write { .. } | SendWork::WriteHeld { .. } => {
                    }
                }
            } else if answer && let Some(xid) = self.calls.pop() {
                // An engine that has ended refuses.
                let _ = self.engine.reply(&Self::message(xid, 1));
            } else {
                return;
            }
        }
    }

    fn event(&mut self, event: Event) {
        match event {
            Event::Expose { region, memory } => {
                let bytes = match memory {
                    Exposure::Source(pieces) => pieces.iter().map(Bytes::len).sum(),
                    Exposure::Sink { bytes } => bytes as usize,
                };
                let segment = Segment {
                    handle: region.index,
                    length: u32::try_from(bytes).expect("a few bytes"),
                    offset: 0,
                };
                self.engine.exposed(region, vec![segment]);
            }
            Event::Call { xid, record } => {
                if let Record::Inline(bytes) = record {
                    assert_eq!(bytes[..4], xid.to_be_bytes(), "another call");
                }
                self.calls.push(xid);
            }
            Event::Allocate { xid, bytes } => {
                assert!(bytes <= RECORD_BYTES_MAX, "a record above the limit");
                self.engine.allocated(xid);
            }
            Event::Reply { .. } | Event::Failed(_) => {}
        }
    }
}
