//! Goal: an engine answers each message of a peer as RFC 8166, 8167 and 8797 say. A peer that breaks the rules is
//! refused, ignored or cut off for a counted reason. Method: one engine against messages and answers written as words.

mod caller;
mod responder;

use bytes::Bytes;
use xdr::Encoder;

use super::header::{segment, words};
use crate::*;

const XID: u32 = 0x0a0b_0c0d;
const CALL: u32 = 0;
const REPLY: u32 = 1;
/// As many words as the fixed part of a call has, without XID and direction.
const FILLER: [u32; 8] = [2, 100_003, 4, 1, 0, 0, 0, 0];

fn config() -> EngineConfig {
    let data = PrivateData {
        remote_invalidation: true,
        ..PrivateData::default()
    };
    EngineConfig {
        own: data,
        peer: data,
        grant: 4,
        credits_requested: 4,
        overrun: 0,
        ..EngineConfig::default()
    }
}

/// RPC message: XID, direction, filler, and `more` words.
fn rpc(xid: u32, direction: u32, more: usize) -> Vec<u32> {
    let mut out = vec![xid, direction];
    out.extend(FILLER);
    out.extend(vec![0x1111; more]);
    out
}

/// Header words and the message after them.
fn wire(header: &[u32], message: &[u32]) -> Bytes {
    Bytes::from(words(&[header, message].concat()))
}

fn inline(xid: u32, direction: u32, credits: u32) -> Bytes {
    wire(&[xid, 1, credits, 0, 0, 0, 0], &rpc(xid, direction, 0))
}

/// A message of ours with payloads of these sizes, `more` words after them.
fn message(xid: u32, direction: u32, payloads: &[u32], more: usize) -> Message {
    let mut e = Encoder::new();
    rpc(xid, direction, 0).iter().for_each(|w| e.u32(*w));
    for len in payloads {
        e.payload(*len);
    }
    (0..more).for_each(|_| e.u32(0x1111));
    let (head, spans) = e.into_parts();
    let bytes = |len: &u32| Bytes::from(vec![0xdd; *len as usize]);
    Message::new(head, spans, payloads.iter().map(bytes).collect())
}

/// The next work, which is a Send: its words and the key that it invalidates.
fn sent(engine: &mut Engine) -> (Vec<u32>, Option<u32>) {
    match engine.next_work() {
        Some(SendWork::Send {
            data, invalidate, ..
        }) => {
            let word = |w: &[u8]| u32::from_be_bytes(w.try_into().unwrap());
            (data.concat().chunks(4).map(word).collect(), invalidate)
        }
        other => panic!("no Send: {other:?}"),
    }
}

fn delivered(engine: &mut Engine) -> u32 {
    match engine.next_event() {
        Some(Event::Call { xid, .. }) => xid,
        other => panic!("no call: {other:?}"),
    }
}

fn failed(engine: &mut Engine) -> Option<FailReason> {
    match engine.next_event() {
        Some(Event::Failed(reason)) => Some(reason),
        None => None,
        other => panic!("{other:?}"),
    }
}
