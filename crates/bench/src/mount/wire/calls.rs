//! Calls and replies on all connections of one client: which operation was asked for, and how long the answer took.
//!
//! A request of NFS has several operations. It counts for the one that it is made for: the first that is neither a step on the way to
//! a file nor a question beside another operation.

use super::pcap::Segment;
use super::stream::{Message, Stream};
use nfs4::ops::{AccessArgs, GetAttrArgs, LayoutReturnArgs, PutFhArgs, SequenceArgs};
use nfs4::{CompoundHeader, OpNum, OpReader};
use rpc::{CallStart, MessageType};
use std::collections::HashMap;
use std::net::{Ipv4Addr, SocketAddrV4};
use xdr::{Decode, Decoder};

/// NFS among RPC programs, and its procedure for requests (RFC 7530 §15.2).
const PROGRAM: u32 = 100_003;
const COMPOUND: u32 = 1;
/// Directions of connections that are followed, calls that wait for answers, and answers that are kept.
const STREAMS_MAX: usize = 1024;
const WAITING_MAX: usize = 16 * 1024;
const ANSWERS_MAX: usize = 8 << 20;

/// An answered call.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Answer {
    pub(crate) server: SocketAddrV4,
    pub(crate) operation: &'static str,
    /// When the last byte of the call was seen, nanoseconds since 1970.
    pub(crate) asked_ns: u64,
    /// From there to the first byte of the reply.
    pub(crate) took_ns: u64,
}

/// What was seen.
#[derive(Debug, Default)]
pub(crate) struct Seen {
    pub(crate) answers: Vec<Answer>,
    /// Gaps in streams, and what was left out as there was no room.
    pub(crate) lost_count: u64,
}

/// A client and its server, and the id of a call.
type Call = (SocketAddrV4, SocketAddrV4, u32);

/// All connections of a client.
#[derive(Debug)]
pub(super) struct Calls {
    client: Ipv4Addr,
    streams: HashMap<(SocketAddrV4, SocketAddrV4), Stream>,
    waiting: HashMap<Call, (u64, &'static str)>,
    seen: Seen,
}

impl Calls {
    pub(super) fn of(client: Ipv4Addr) -> Self {
        Self {
            client,
            streams: HashMap::new(),
            waiting: HashMap::new(),
            seen: Seen::default(),
        }
    }

    /// Takes what one frame holds.
    pub(super) fn take(&mut self, segment: &Segment<'_>, at_ns: u64) {
        let ends = (segment.from, segment.to);
        let is_known = self.streams.contains_key(&ends);
        if ![*ends.0.ip(), *ends.1.ip()].contains(&self.client) {
            return;
        }
        if !is_known && self.streams.len() >= STREAMS_MAX {
            self.seen.lost_count += 1;
            return;
        }
        let mut messages = Vec::new();
        let stream = self.streams.entry(ends).or_default();
        stream.feed(segment, at_ns, |message| messages.push(message));
        for message in messages {
            match *ends.0.ip() == self.client {
                true => self.asked(ends, &message),
                false => self.answered((ends.1, ends.0), &message),
            }
        }
    }

    fn asked(&mut self, (client, server): (SocketAddrV4, SocketAddrV4), message: &Message) {
        let Some((xid, operation)) = operation(&message.head) else {
            return;
        };
        if self.waiting.len() >= WAITING_MAX {
            self.seen.lost_count += 1;
            return;
        }
        // What is sent again is the same call.
        let call = self.waiting.entry((client, server, xid));
        call.or_insert((message.last_ns, operation));
    }

    fn answered(&mut self, (client, server): (SocketAddrV4, SocketAddrV4), message: &Message) {
        let Ok((xid, MessageType::Reply)) = rpc::peek(&message.head) else {
            return;
        };
        let Some((asked_ns, operation)) = self.waiting.remove(&(client, server, xid)) else {
            return;
        };
        if self.seen.answers.len() >= ANSWERS_MAX {
            self.seen.lost_count += 1;
            return;
        }
        self.seen.answers.push(Answer {
            server,
            operation,
            asked_ns,
            took_ns: message.first_ns.saturating_sub(asked_ns),
        });
    }

    /// All that was seen.
    pub(super) fn end(mut self) -> Seen {
        self.seen.lost_count += self.streams.values().map(|s| s.gaps).sum::<u64>();
        self.seen
    }
}

/// The id of a call of NFSv4, and the operation that it is made for.
fn operation(head: &[u8]) -> Option<(u32, &'static str)> {
    let mut d = Decoder::new(head);
    let call = CallStart::decode(&mut d).ok()?;
    if (call.program, call.version, call.procedure) != (PROGRAM, 4, COMPOUND) {
        return None;
    }
    let header = CompoundHeader::decode(&mut d).ok()?;
    let mut operations = OpReader::new(d, header.ops_count);
    let (mut first, mut question) = (None, None);
    while let Some(Ok(number)) = operations.next_op() {
        let Ok(operation) = OpNum::decode(&mut Decoder::new(&number.to_be_bytes())) else {
            break;
        };
        first = first.or(Some(operation));
        let is_read = match operation {
            OpNum::Sequence => operations.args::<SequenceArgs>().is_ok(),
            OpNum::PutFh => operations.args::<PutFhArgs<'_>>().is_ok(),
            OpNum::PutRootFh | OpNum::SaveFh | OpNum::RestoreFh | OpNum::GetFh => true,
            OpNum::Access | OpNum::GetAttr | OpNum::LayoutReturn => {
                question = question.or(Some(operation));
                match operation {
                    OpNum::Access => operations.args::<AccessArgs>().is_ok(),
                    OpNum::GetAttr => operations.args::<GetAttrArgs>().is_ok(),
                    _ => operations.args::<LayoutReturnArgs<'_>>().is_ok(),
                }
            }
            _ => return Some((call.xid, operation.name())),
        };
        if !is_read {
            break;
        }
    }
    // A question may stand for itself, and a SEQUENCE alone renews the lease.
    let operation = question.or(first)?;
    Some((call.xid, operation.name()))
}

#[cfg(test)]
mod tests {
    //! Goal: a request counts for what it is made for, and its answer is its own.
    use super::*;
    use crate::mount::wire::pcap::frame;
    use nfs4::ops::{CloseArgs, GetFhArgs, LookupArgs, SaveFhArgs};
    use nfs4::{Bitmap, CompoundBuilder, SessionId, Stateid};
    use rpc::OpaqueAuth;
    use xdr::{Encode, Encoder, Opaque};

    fn call(xid: u32, program: u32, operations: impl FnOnce(&mut CompoundBuilder)) -> Vec<u8> {
        let mut e = Encoder::new();
        CallStart {
            xid,
            program,
            version: 4,
            procedure: COMPOUND,
            credential: OpaqueAuth::NONE,
            verifier: OpaqueAuth::NONE,
        }
        .encode(&mut e);
        let mut builder = CompoundBuilder::new(e, b"", 2);
        builder.push(&SequenceArgs {
            session_id: SessionId::default(),
            sequence_id: 1,
            slot_id: 0,
            highest_slot_id: 0,
            cache_this: false,
        });
        operations(&mut builder);
        builder.finish().into_bytes()
    }

    fn attributes() -> GetAttrArgs {
        GetAttrArgs {
            attr_request: Bitmap::default(),
        }
    }

    fn close() -> CloseArgs {
        CloseArgs {
            seqid: 0,
            open_stateid: Stateid::INVALID,
        }
    }

    #[test]
    fn a_request_counts_for_what_it_is_made_for() {
        let name = |operations: fn(&mut CompoundBuilder)| {
            let head = call(7, PROGRAM, operations);
            operation(&head).map(|(xid, name)| (xid == 7).then_some(name).unwrap())
        };
        let handle = || PutFhArgs {
            object: Opaque(&[1; 40]),
        };
        assert_eq!(name(|_| {}), Some("SEQUENCE"));
        let alone = name(|b| {
            b.push(&PutFhArgs {
                object: Opaque(b"handle"),
            })
            .push(&attributes());
        });
        assert_eq!(alone, Some("GETATTR"));
        let asked = name(|b| {
            b.push(&AccessArgs { access: 1 }).push(&attributes());
        });
        assert_eq!(asked, Some("ACCESS"));
        let closed = name(|b| {
            b.push(&attributes()).push(&close());
        });
        assert_eq!(closed, Some("CLOSE"));
        let head = call(1, PROGRAM, |b| {
            b.push(&handle()).push(&SaveFhArgs {}).push(&handle());
            b.push(&LookupArgs {
                name: Opaque(b"name"),
            })
            .push(&GetFhArgs {});
        });
        assert_eq!(operation(&head), Some((1, "LOOKUP")));
        // What is cut within a step still has its question, and nothing panics anywhere.
        for end in 0..head.len() {
            let _ = operation(&head[..end]);
        }
        assert_eq!(operation(&call(1, PROGRAM + 1, |_| {})), None);
    }

    #[test]
    fn answers_belong_to_their_call_on_their_connection() {
        let client = Ipv4Addr::new(192, 0, 2, 10);
        let server = SocketAddrV4::new(Ipv4Addr::new(192, 0, 2, 1), 2049);
        let mut calls = Calls::of(client);
        let mut numbers = HashMap::new();
        let mut send = |is_call: bool, port: u16, xid: u32, at_ns: u64| {
            let ends = (SocketAddrV4::new(client, port), server);
            let (from, to) = if is_call { ends } else { (ends.1, ends.0) };
            let mut body = call(xid, PROGRAM, |b| {
                b.push(&close());
            });
            if !is_call {
                body[7] = 1;
            }
            let mark = u32::try_from(body.len()).unwrap() | 1 << 31;
            let payload = [&mark.to_be_bytes()[..], &body].concat();
            let next = numbers.entry((from, to)).or_insert(1_u32);
            let segment = Segment {
                from,
                to,
                sequence: *next,
                is_syn: false,
                payload: &payload,
            };
            *next += u32::try_from(payload.len()).unwrap();
            let frame = frame(&segment);
            calls.take(&Segment::of(&frame).unwrap(), at_ns);
        };
        send(true, 700, 1, 100);
        send(true, 701, 1, 200);
        send(true, 700, 2, 250);
        send(false, 700, 2, 300);
        send(false, 701, 1, 450);
        send(false, 700, 3, 500);
        send(false, 700, 1, 900);
        let seen = calls.end();
        let times: Vec<_> = seen
            .answers
            .iter()
            .map(|a| (a.asked_ns, a.took_ns))
            .collect();
        assert_eq!(times, [(250, 50), (200, 250), (100, 800)]);
        assert!(
            seen.answers
                .iter()
                .all(|a| a.operation == "CLOSE" && a.server == server)
        );
        assert_eq!(seen.lost_count, 0);
    }
}
