//! Peers over RDMA that break the protocol: each loses its connection for a counted reason, and no other connection
//! notices. Method: a bare endpoint of the provider against a server, beside a connection in order.

use std::future::poll_fn;
use std::net::SocketAddr;
use std::task::Poll;

use fabric::{
    Completion, Connected, Done, Ended, EndpointConfig, Memory, Pool, PoolConfig, Receive, Remote,
    Work, WorkStatus,
};
use rpcrdma::{PrivateData, VERSION};

use super::*;
use crate::CallError;

/// Most bytes of a message.
const INLINE: usize = 4096;
const RECEIVES: usize = 128;
const XID: u32 = 0x0a0b_0c0d;
/// Results that are together more than sockets hold.
const RESULTS: u32 = 9;
/// Calls of a peer that has one credit.
const CALLS_BEYOND: u32 = 100;

/// A bare endpoint.
struct Peer {
    endpoint: Box<dyn fabric::Endpoint>,
    seen: Vec<Completion>,
    ended: Option<Ended>,
}

fn socket_address(rig: &Rig) -> SocketAddr {
    let Address::Rdma(address) = rig.address else {
        panic!("an RDMA rig")
    };
    address
}

impl Peer {
    async fn new(rig: &Rig) -> Self {
        let receives = Self::receives();
        let own = PrivateData {
            remote_invalidation: false,
            send_bytes: 4096,
            receive_bytes: 4096,
        };
        let config = EndpointConfig {
            receive_depth: 256,
            ..EndpointConfig::default()
        };
        let fabric = rig.rdma.as_ref().unwrap().fabric();
        let private_data = Bytes::copy_from_slice(&own.encode());
        let connecting = fabric.connect(socket_address(rig), config, private_data, receives);
        let Connected { endpoint, .. } = connecting.await.unwrap();
        Self {
            endpoint,
            seen: Vec::new(),
            ended: None,
        }
    }

    fn receives() -> Vec<Receive> {
        let pool = Pool::new(PoolConfig {
            buffer_bytes: INLINE,
            slab_bytes: INLINE * RECEIVES,
            bytes_max: 2 * INLINE * RECEIVES,
            free_bytes_max: usize::MAX,
        });
        let receive = |id| Receive {
            id,
            buffer: pool.take().unwrap(),
        };
        (0..RECEIVES as u64).map(receive).collect()
    }

    fn send(&mut self, message: Vec<u8>) {
        self.send_invalidating(message, None);
    }

    fn send_invalidating(&mut self, message: Vec<u8>, invalidate: Option<u32>) {
        let data = vec![message.into()];
        let work = Work::Send { data, invalidate };
        self.endpoint.post(7, work, false).unwrap();
        self.endpoint.ring();
    }

    /// Memory that nobody may have.
    fn nothing(&self) -> Remote {
        Remote {
            key: 0x0bad_0bad,
            offset: 0,
            len: 10_000,
        }
    }

    /// Memory of ours that may be read.
    fn source(&mut self) -> Remote {
        let memory = Memory::Bytes(vec![9; 10_000].into());
        self.endpoint.expose(memory).unwrap()
    }

    /// Memory of ours that may be written.
    fn place(&mut self) -> Remote {
        let pool = Pool::new(PoolConfig {
            buffer_bytes: 1 << 20,
            slab_bytes: 1 << 20,
            bytes_max: 1 << 20,
            free_bytes_max: usize::MAX,
        });
        let buffer = pool.take().unwrap();
        self.endpoint.expose(Memory::Buffer(buffer)).unwrap()
    }

    /// Moves on until this holds or the connection has ended.
    async fn until(&mut self, holds: impl Fn(&[Completion]) -> bool) {
        let moved = poll_fn(|cx| {
            while self.ended.is_none() && !holds(&self.seen) {
                match self.endpoint.poll_completions(cx, &mut self.seen) {
                    Poll::Ready(Ok(())) => {}
                    Poll::Ready(Err(ended)) => self.ended = Some(ended),
                    Poll::Pending if holds(&self.seen) => {}
                    Poll::Pending => return Poll::Pending,
                }
            }
            Poll::Ready(())
        });
        tokio::time::timeout(SOON, moved).await.expect("it happens");
    }

    async fn until_ended(&mut self) -> Ended {
        self.until(|_| false).await;
        self.ended.unwrap()
    }

    /// The next message, as words.
    async fn message(&mut self) -> Vec<u32> {
        let arrived =
            |c: &Completion| c.status == WorkStatus::Ok && matches!(c.done, Done::Receive { .. });
        self.until(|seen| seen.iter().any(arrived)).await;
        let at = self.seen.iter().position(arrived).expect("a message");
        let Done::Receive { buffer, .. } = self.seen.remove(at).done else {
            unreachable!("it was just asked for")
        };
        let word = |w: &[u8]| u32::from_be_bytes(w.try_into().unwrap());
        buffer.chunks(4).map(word).collect()
    }
}

/// The words of a transport header up to its lists, and the lists.
fn header(xid: u32, procedure: u32, lists: &[u32]) -> Vec<u8> {
    words(&[&[xid, VERSION, 32, procedure], lists].concat())
}

/// A call whose arguments are at `remote`.
fn call_with_chunk(procedure: u32, remote: Remote) -> Vec<u8> {
    call_with_chunk_as(XID, procedure, remote)
}

fn call_with_chunk_as(xid: u32, procedure: u32, remote: Remote) -> Vec<u8> {
    let mut message = call(procedure, b"").flatten().unwrap();
    message[..4].copy_from_slice(&xid.to_be_bytes());
    let at = message.len();
    message[at - 4..].copy_from_slice(&remote.len.to_be_bytes());
    let position = u32::try_from(at).unwrap();
    let [high, low] =
        [remote.offset >> 32, remote.offset & 0xffff_ffff].map(|n| u32::try_from(n).unwrap());
    let lists = [1, position, remote.key, remote.len, high, low, 0, 0, 0];
    [header(xid, 0, &lists), message].concat()
}

fn inline_call(xid: u32, procedure: u32) -> Vec<u8> {
    let mut message = call(procedure, b"abcd").flatten().unwrap();
    message[..4].copy_from_slice(&xid.to_be_bytes());
    [header(xid, 0, &[0, 0, 0]), message].concat()
}

/// An answer to a call of the server.
fn inline_reply(xid: u32) -> Vec<u8> {
    let message = reply(xid, Payload::Bytes(Bytes::from_static(b"back")));
    [header(xid, 0, &[0, 0, 0]), message.flatten().unwrap()].concat()
}

/// A server with a connection in order; `misbehave` is what a peer does to it. The server then ends that connection for
/// `reason`, and the other lives.
async fn ends_that_connection(
    on: On,
    limits: TransportLimits,
    reason: CloseReason,
    misbehave: impl AsyncFnOnce(&mut Peer),
) -> Rig {
    let rig = Rig::new(on, limits).await;
    let other = rig.connect().await;
    assert_eq!(ask(&other, ECHO, b"before").await, b"before");
    let mut peer = Peer::new(&rig).await;
    misbehave(&mut peer).await;
    rig.until(|r| !r.service.ended.lock().is_empty()).await;
    assert_eq!(*rig.service.ended.lock(), [reason]);
    assert_eq!(rig.server.counters().snapshot().closes_for(reason), 1);
    let args = pattern(100_000);
    assert_eq!(ask(&other, ECHO, &args).await, args);
    rig.service.gate.add_permits(100);
    rig.until(|r| r.server.connections() == 1).await;
    rig
}

macro_rules! on_both_providers {
    ($( async fn $name:ident($on:ident: On) $body:block )*) => {$(
        mod $name {
            use super::*;
            pub(super) async fn behaviour($on: On) $body
            #[tokio::test]
            async fn memory() { behaviour(On::Rdma).await }
            #[tokio::test]
            async fn iwarp() { behaviour(On::Iwarp).await }
        }
    )*};
}

on_both_providers! {
    async fn arguments_under_a_bad_steering_tag(on: On) {
        let reason = CloseReason::RdmaAccessRefused;
        ends_that_connection(on, TransportLimits::default(), reason, async |peer| {
            let remote = peer.nothing();
            peer.send(call_with_chunk(ECHO, remote));
            assert!(matches!(peer.until_ended().await, Ended::Faulted(_)));
        }).await;
    }

    async fn a_result_for_a_bad_steering_tag(on: On) {
        let reason = CloseReason::RdmaAccessRefused;
        ends_that_connection(on, TransportLimits::default(), reason, async |peer| {
            let mut message = call(ECHO, &[1; 1000]).flatten().unwrap();
            message[..4].copy_from_slice(&XID.to_be_bytes());
            let key = peer.nothing().key;
            let lists = [0, 1, 1, key, 2000, 0, 0, 0, 0];
            peer.send([header(XID, 0, &lists), message].concat());
            assert!(matches!(peer.until_ended().await, Ended::Faulted(_)));
        }).await;
    }

    async fn calls_beyond_the_credits_wait_until_others_are_answered(on: On) {
        let rig = Rig::new(on, TransportLimits::default()).await;
        let other = rig.connect().await;
        assert_eq!(ask(&other, ECHO, b"before").await, b"before");
        let mut peer = Peer::new(&rig).await;
        for xid in 1..=CALLS_BEYOND {
            peer.send(inline_call(xid, GATED));
        }
        // The first credit. The peer is neither cut off nor does it take what others have.
        rig.until(|r| r.service.waiting.load(SeqCst) == 1).await;
        let args = pattern(100_000);
        assert_eq!(ask(&other, ECHO, &args).await, args);
        assert_eq!(rig.service.waiting.load(SeqCst), 1);
        rig.service.gate.add_permits(CALLS_BEYOND as usize);
        for xid in 1..=CALLS_BEYOND {
            assert_eq!(peer.message().await[0], xid);
        }
        assert_eq!(*rig.service.ended.lock(), []);
    }

    async fn calls_with_chunks_beyond_the_credits_wait_until_others_are_answered(on: On) {
        let rig = Rig::new(on, TransportLimits::default()).await;
        let other = rig.connect().await;
        let mut peer = Peer::new(&rig).await;
        // All of them stand before the answers to what the server reads.
        let part = peer.source().part(1000, 2000).unwrap();
        for xid in 1..=CALLS_BEYOND {
            peer.send(call_with_chunk_as(xid, ECHO, part));
        }
        let mut answered = Vec::new();
        for _ in 0..CALLS_BEYOND {
            let reply = peer.message().await;
            assert_eq!(result(&words(&reply[7..])), [9; 2000]);
            answered.push(reply[0]);
        }
        answered.sort_unstable();
        assert_eq!(answered, (1..=CALLS_BEYOND).collect::<Vec<_>>());
        assert_eq!(ask(&other, ECHO, b"after").await, b"after");
        assert_eq!(*rig.service.ended.lock(), []);
    }

    // It has begun all that its older grant allowed, and sends that after its answers to two calls of the server. One
    // shows that it has heard of the lower grant; another follows.
    async fn calls_begun_before_a_lower_grant_are_served(on: On) {
        let rig = Rig::new(on, TransportLimits::default()).await;
        let mut peer = Peer::new(&rig).await;
        // One call after the other, until what it does not use is taken back.
        let (mut xid, mut before, mut granted) = (0, 0, 0);
        while granted >= before {
            assert!(xid < 200, "the grant never falls");
            xid += 1;
            peer.send(inline_call(xid, ECHO));
            (before, granted) = (granted, peer.message().await[2]);
        }
        let last = xid + before - 1;
        let part = peer.source().part(1000, 2000).unwrap();
        peer.send(inline_call(xid + 1, CALL_BACK));
        let asked = peer.message().await[0];
        peer.send(inline_reply(asked));
        assert_eq!(peer.message().await[0], xid + 1);
        peer.send(inline_call(xid + 2, CALL_BACK));
        let asked = peer.message().await[0];
        peer.send(inline_reply(asked));
        for xid in xid + 3..=last {
            peer.send(call_with_chunk_as(xid, ECHO, part));
        }
        let mut answered = Vec::new();
        for _ in xid + 2..=last {
            answered.push(peer.message().await[0]);
        }
        answered.sort_unstable();
        assert_eq!(answered, (xid + 2..=last).collect::<Vec<_>>());
        assert_eq!(*rig.service.ended.lock(), []);
    }

    async fn two_calls_with_one_transaction_id(on: On) {
        let reason = CloseReason::RdmaDuplicateXid;
        ends_that_connection(on, TransportLimits::default(), reason, async |peer| {
            // Its reply brings more credits than the one.
            peer.send(inline_call(XID, ECHO));
            peer.message().await;
            peer.send(inline_call(XID, GATED));
            peer.send(inline_call(XID, GATED));
            peer.until_ended().await;
        }).await;
    }

    async fn an_invalidation_of_nothing(on: On) {
        let reason = CloseReason::RdmaCannotInvalidate;
        ends_that_connection(on, TransportLimits::default(), reason, async |peer| {
            peer.send_invalidating(inline_call(XID, ECHO), Some(0x0bad_0bad));
            peer.until_ended().await;
        }).await;
    }

    async fn a_message_above_the_inline_size(on: On) {
        let reason = CloseReason::RdmaReceiveTooSmall;
        ends_that_connection(on, TransportLimits::default(), reason, async |peer| {
            peer.send(vec![0; INLINE + 1]);
            peer.until_ended().await;
        }).await;
    }

    async fn messages_that_belong_to_nothing(on: On) {
        let reason = CloseReason::RdmaStrayMessages;
        ends_that_connection(on, TransportLimits::default(), reason, async |peer| {
            // Garbage and RDMA_DONE, one after the other: they have no credits, but receives.
            for i in 0..=rpcrdma::STRAY_MESSAGES_MAX {
                let done = header(XID, 3, &[]);
                peer.send(if i % 2 == 0 { vec![0xee; 9] } else { done });
                let still = tokio::time::timeout(Duration::from_millis(2), peer.until_ended());
                let _ = still.await;
            }
            peer.until_ended().await;
        }).await;
    }

    async fn headers_that_cannot_be_used_are_answered_and_the_connection_lives(on: On) {
        let rig = Rig::new(on, TransportLimits::default()).await;
        let mut peer = Peer::new(&rig).await;
        // Version 2: the answer names the versions that there are (RFC 8166 §4.5.1).
        peer.send(words(&[XID, 2, 32, 0, 0, 0, 0]));
        let answer = peer.message().await;
        assert_eq!((answer[0], &answer[3..]), (XID, &[4, 1, 1, 1][..]));
        // An unknown procedure, and a list that has no end: ERR_CHUNK (§4.5.3).
        for garbage in [header(XID, 77, &[0, 0, 0]), header(XID, 0, &[1, 2, 3])] {
            peer.send(garbage);
            let answer = peer.message().await;
            assert_eq!((answer[0], &answer[3..]), (XID, &[4, 2][..]));
        }
        peer.send(inline_call(XID, ECHO));
        let reply = peer.message().await;
        assert_eq!((reply[0], reply[3]), (XID, 0));
        assert_eq!(rig.server.counters().snapshot().rdma_calls_refused, 3);
    }

    async fn a_call_back_that_needs_memory_of_the_server_is_refused_alone(on: On) {
        let rig = Rig::new(on, TransportLimits::default()).await;
        let conn = rig.connect().await;
        let refused = CallError::Refused.to_string().into_bytes();
        assert_eq!(ask(&conn, CALL_BACK, &pattern(20_000)).await, refused);
        let args = pattern(1_900);
        assert_eq!(ask(&conn, CALL_BACK, &args).await, args);
        assert_eq!(rig.server.counters().snapshot().rdma_exposures, 0);
        // As it does with the arguments of the long one.
        assert!(rig.client.counters().snapshot().rdma_exposures > 0);
    }

    async fn arguments_come_from_where_the_call_says(on: On) {
        let rig = Rig::new(on, TransportLimits::default()).await;
        let mut peer = Peer::new(&rig).await;
        let source = peer.source();
        let part = source.part(1000, 2000).unwrap();
        peer.send(call_with_chunk(ECHO, part));
        let reply = peer.message().await;
        let bytes = words(&reply[7..]);
        assert_eq!(result(&bytes), [9; 2000]);
    }
}

/// Messages beyond its credits are put aside while the server needs an answer that is after them, but not without bound.
#[tokio::test]
async fn a_peer_far_beyond_its_credits_before_an_answer_is_cut() {
    let reason = CloseReason::RdmaNoReceive;
    ends_that_connection(
        On::Iwarp,
        TransportLimits::default(),
        reason,
        async |peer| {
            let remote = peer.source();
            peer.send(call_with_chunk(ECHO, remote));
            let mut message = call(GATED, &[1; 3800]).flatten().unwrap();
            for xid in 1..=40_u32 {
                message[..4].copy_from_slice(&xid.to_be_bytes());
                peer.send([header(xid, 0, &[0, 0, 0]), message.clone()].concat());
            }
            peer.until_ended().await;
        },
    )
    .await;
}

/// As over a device, which takes the next receive for whoever sends first.
#[tokio::test]
async fn calls_beyond_the_credits_end_their_connection_where_nobody_can_be_held_back() {
    let reason = CloseReason::RdmaNoReceive;
    ends_that_connection(
        On::RdmaCutting,
        TransportLimits::default(),
        reason,
        async |peer| {
            for xid in 1..=CALLS_BEYOND {
                let message = vec![inline_call(xid, GATED).into()];
                let invalidate = None;
                let work = Work::Send {
                    data: message,
                    invalidate,
                };
                if peer.endpoint.post(7, work, false).is_err() {
                    break;
                }
                peer.endpoint.ring();
            }
            assert_eq!(
                peer.until_ended().await,
                Ended::Accused(fabric::Fault::NoReceive)
            );
        },
    )
    .await;
}

/// The peer is so slow that a connection with nothing to do would be closed meanwhile.
#[tokio::test]
async fn a_request_that_is_being_fetched_is_not_idleness() {
    let idle = Duration::from_millis(300);
    let limits = TransportLimits {
        idle: Some(idle),
        ..TransportLimits::default()
    };
    let rig = Rig::new(On::Iwarp, limits).await;
    let mut peer = Peer::new(&rig).await;
    let remote = peer.source();
    peer.send(call_with_chunk(ECHO, remote.part(0, 2000).unwrap()));
    // Without a look at its connection it answers no read.
    tokio::time::sleep(4 * idle).await;
    assert_eq!(result(&words(&peer.message().await[7..])), [9; 2000]);
    assert_eq!(peer.until_ended().await, Ended::PeerClosed);
    rig.until(|r| !r.service.ended.lock().is_empty()).await;
    assert_eq!(*rig.service.ended.lock(), [CloseReason::Idle]);
}

#[tokio::test]
async fn calls_begun_before_a_lower_grant_are_served_where_nobody_can_be_held_back() {
    calls_begun_before_a_lower_grant_are_served::behaviour(On::RdmaCutting).await;
}

#[tokio::test]
async fn who_keeps_to_its_credits_is_served_where_nobody_can_be_held_back() {
    let rig = Rig::new(On::RdmaCutting, TransportLimits::default()).await;
    let conn = rig.connect().await;
    for _ in 0..4 {
        let calls = (0..100).map(|_| conn.call(call(ECHO, b"one of many"), SOON));
        for outcome in futures_util::future::join_all(calls).await {
            assert_eq!(result(&outcome.unwrap()), b"one of many");
        }
    }
    assert_eq!(*rig.service.ended.lock(), []);
}

#[tokio::test]
async fn a_peer_that_vanishes_in_the_middle_of_a_read_gives_its_memory_back() {
    let limits = TransportLimits {
        read_stall: Duration::from_millis(200),
        ..TransportLimits::default()
    };
    let reason = CloseReason::ReadStalled;
    let rig = ends_that_connection(On::Iwarp, limits, reason, async |peer| {
        let remote = peer.source();
        peer.send(call_with_chunk(ECHO, remote));
        // It is never polled again, so the read has no answer.
        tokio::time::sleep(Duration::from_millis(400)).await;
    })
    .await;
    let whole = rig.server.limits().receive_budget_bytes;
    let share = rig.server.limits().receive_share_bytes;
    let of_all = rig.server.receive_budget();
    let peers = ["192.0.2.1:1", "192.0.2.2:1"].map(|p| Endpoint::Socket(p.parse().unwrap()));
    let shares = peers.map(|peer| of_all.share(&peer).try_charge(share));
    assert_eq!(u64::from(whole), 2 * u64::from(share));
    assert!(shares.iter().all(Option::is_some), "nothing is held");
}

#[tokio::test]
async fn a_peer_that_does_not_take_its_results_is_cut_and_they_are_given_up() {
    let limits = TransportLimits {
        write_stall: Duration::from_millis(200),
        ..TransportLimits::default()
    };
    let reason = CloseReason::WriteStalled;
    let rig = ends_that_connection(On::Iwarp, limits, reason, async |peer| {
        let place = peer.place();
        // It is never polled again, so nothing is read of results that are more than sockets hold.
        for xid in 1..=RESULTS {
            let mut message = call(CHARGED, &words(&[place.len])).flatten().unwrap();
            message[..4].copy_from_slice(&xid.to_be_bytes());
            let lists = [0, 1, 1, place.key, place.len, 0, 0, 0, 0];
            peer.send([header(xid, 0, &lists), message].concat());
        }
    })
    .await;
    let (budget, share) = (
        rig.server.send_budget(),
        rig.server.limits().send_share_bytes,
    );
    let peer = Endpoint::Socket("127.0.0.1:1".parse().unwrap());
    assert!(
        budget.share(&peer).try_charge(share).is_some(),
        "nothing is held"
    );
}

#[tokio::test]
async fn a_peer_that_closes_in_the_middle_of_a_read_is_gone_and_no_fault() {
    let rig = Rig::new(On::Iwarp, TransportLimits::default()).await;
    let mut peer = Peer::new(&rig).await;
    let remote = peer.source();
    peer.send(call_with_chunk(ECHO, remote));
    drop(peer);
    rig.until(|r| !r.service.ended.lock().is_empty()).await;
    let reason = rig.service.ended.lock()[0];
    assert!(!reason.is_noteworthy(), "{reason:?}");
}

#[tokio::test]
async fn a_server_that_places_a_result_which_the_reply_does_not_have_is_cut() {
    // The client's locator finds nothing, as if the reply had no such result.
    let rig = Rig::new(On::Rdma, TransportLimits::default()).await;
    let conn = rig.connect().await;
    let room = ReplyRoom {
        locate: |_| None,
        ..room(20_000)
    };
    let args = pattern(10_000);
    let outcome = conn
        .call(call(ECHO, &args).with_reply_room(room), SOON)
        .await;
    assert_eq!(outcome, Err(CallError::Closed(CloseReason::RdmaBadReply)));
}

#[tokio::test]
async fn a_reply_without_room_fails_its_call_only() {
    let rig = Rig::new(On::Rdma, TransportLimits::default()).await;
    let conn = rig.connect().await;
    let small = ReplyRoom::plain(100);
    let large = call(ECHO, &pattern(10_000)).with_reply_room(small);
    assert_eq!(conn.call(large, SOON).await, Err(CallError::Refused));
    assert_eq!(ask(&conn, ECHO, b"x").await, b"x");
}

#[tokio::test]
async fn replies_that_come_as_a_whole_are_records_too() {
    let rig = Rig::new(On::Rdma, TransportLimits::default()).await;
    let conn = rig.connect().await;
    let args = pattern(10_000);
    for (room, copied) in [(ReplyRoom::plain(20_000), 0), (room(20_000), 0)] {
        let record = conn
            .call(call(ECHO, &args).with_reply_room(room), SOON)
            .await;
        assert_eq!(result(&record.unwrap()), args);
        assert_eq!(rig.client.counters().snapshot().rdma_copied_bytes, copied);
    }
    let counters = rig.client.counters().snapshot();
    assert!(counters.rdma_reply_chunk_bytes_in > 10_000);
    assert_eq!(counters.rdma_write_chunk_bytes_in, 10_000);
}

/// Who does not know which provider answers at an address finds it by trying them in order.
#[tokio::test]
async fn a_server_is_reached_by_the_first_provider_that_it_has() {
    let rig = Rig::new(On::Rdma, TransportLimits::default()).await;
    let (elsewhere, here) = (provider(On::Rdma), rig.rdma.clone().unwrap());
    let connect = |providers| {
        let connector = rdma::RdmaConnector::new(rig.client.clone(), providers);
        let address = rig.address.clone();
        async move { connector.connect(&address, Situations::new()).await }
    };
    let conn = connect(vec![elsewhere.clone(), here]).await.unwrap();
    assert_eq!(conn.kind(), crate::TransportKind::Rdma);
    assert!(connect(vec![elsewhere]).await.is_err());
    assert!(connect(Vec::new()).await.is_err());
}

/// A server that goes away while nobody looks.
#[tokio::test]
async fn a_call_that_meets_a_dead_connection_hears_that_it_is_dead() {
    let rig = Rig::new(On::Rdma, TransportLimits::default()).await;
    let fabric = rig.rdma.as_ref().unwrap().fabric();
    let mut listener = fabric.listen("127.0.0.1:0".parse().unwrap()).await.unwrap();
    let address = Address::Rdma(listener.local());
    let accepted = async {
        let incoming = listener.accept().await.unwrap();
        let answer = incoming.private_data().clone();
        let config = EndpointConfig::default();
        incoming
            .accept(config, answer, Peer::receives())
            .await
            .unwrap()
    };
    let reverse = Situations::new();
    let connecting = rig.connector.connect(&address, reverse);
    let (mut server, conn) = tokio::join!(accepted, connecting);
    let conn = conn.unwrap();
    tokio::task::yield_now().await;
    server.endpoint.close(fabric::Close::Now);
    // Its memory cannot be exposed any more.
    let large = call(ECHO, &pattern(100_000)).with_reply_room(room(200_000));
    let err = conn.call(large, SOON).await.unwrap_err();
    assert!(matches!(err, CallError::Closed(_)), "{err:?}");
}
