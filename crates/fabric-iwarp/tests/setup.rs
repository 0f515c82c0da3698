//! Goal: peers of other makes, old ones and wrong ones are met as the RFCs want. Method: one of our endpoints, and a plain socket that
//! speaks for the peer.
#![allow(clippy::unwrap_used, reason = "helpers of tests may panic")]

mod rig;

use bytes::Bytes;
use fabric::{
    Completion, ConnectError, Connected, Done, Ended, EndpointConfig, Fabric, Fault, Listener,
    Receive, Stall, WorkStatus,
};
use rig::frame;
use ropewalk_fabric_iwarp::Iwarp;
use ropewalk_fabric_iwarp::ddp::{Place, SegmentHeader};
use ropewalk_fabric_iwarp::mpa::{Enhanced, Setup};
use ropewalk_fabric_iwarp::rdmap::{Opcode, Term};
use std::future::poll_fn;
use std::net::{IpAddr, SocketAddr};
use std::task::Poll;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};

fn loopback() -> SocketAddr {
    SocketAddr::from(([127, 0, 0, 1], 0))
}

fn setup(is_reply: bool, revision: u8, enhanced: Option<Enhanced>) -> Setup {
    Setup {
        is_reply,
        markers: false,
        crc: true,
        rejected: false,
        revision,
        enhanced,
        private_data: b"from afar".to_vec(),
    }
}

async fn listening() -> Box<dyn Listener> {
    Iwarp::default().listen(loopback()).await.unwrap()
}

async fn said(stream: &mut TcpStream, setup: &Setup) {
    stream.write_all(&setup.encode().unwrap()).await.unwrap();
}

/// The set-up frame that the other side sends.
async fn heard(stream: &mut TcpStream, is_reply: bool) -> Setup {
    let mut frame = vec![0; 20];
    stream.read_exact(&mut frame).await.unwrap();
    let len = usize::from(u16::from_be_bytes([frame[18], frame[19]]));
    frame.resize(20 + len, 0);
    stream.read_exact(&mut frame[20..]).await.unwrap();
    Setup::decode(&frame, is_reply).unwrap()
}

/// Accepts the next peer with one receive.
async fn accepted(listener: &mut dyn Listener) -> Result<Connected, ConnectError> {
    let buffer = rig::pool().take().unwrap();
    let receives = vec![Receive { id: 7, buffer }];
    let incoming = listener.accept().await.unwrap();
    assert_eq!(incoming.private_data(), &b"from afar"[..]);
    let config = EndpointConfig::default();
    incoming
        .accept(config, Bytes::from_static(b"welcome"), receives)
        .await
}

fn message(payload: &[u8]) -> Vec<u8> {
    let header = SegmentHeader {
        last: true,
        control: Opcode::Send.control(),
        place: Place::Untagged {
            invalidate: 0,
            queue: 0,
            msn: 1,
            mo: 0,
        },
    };
    let mut ulpdu = Vec::new();
    header.encode(&mut ulpdu);
    ulpdu.extend(payload);
    frame(&ulpdu)
}

async fn next(connected: &mut Connected, done: &mut Vec<Completion>) -> Result<(), Ended> {
    let before = done.len();
    poll_fn(|cx| match connected.endpoint.poll_completions(cx, done) {
        Poll::Pending if done.len() > before => Poll::Ready(Ok(())),
        polled => polled,
    })
    .await
}

/// All that is left until the end.
async fn ended(connected: &mut Connected) -> Ended {
    let mut done = Vec::new();
    loop {
        if let Err(ended) = next(connected, &mut done).await {
            return ended;
        }
    }
}

/// A peer that connects while nobody serves waits in the queue of the socket, which another process may hold.
#[tokio::test]
async fn adopted_sockets_serve_those_that_came_before() {
    let socket = std::net::TcpListener::bind(loopback()).unwrap();
    let address = socket.local_addr().unwrap();
    let held = socket.try_clone().unwrap();
    let mut early = TcpStream::connect(address).await.unwrap();
    let fabric = Iwarp::default().listening_with(vec![socket]);
    let mut listener = fabric.listen(address).await.unwrap();
    assert_eq!(listener.local(), address);
    said(&mut early, &setup(false, 1, None)).await;
    let (connected, reply) = tokio::join!(accepted(&mut *listener), heard(&mut early, true));
    assert_eq!(reply.private_data, b"welcome");
    drop((connected.unwrap(), listener));
    TcpStream::connect(address)
        .await
        .expect("the socket is open");
    drop(held);
    TcpStream::connect(address)
        .await
        .expect_err("nobody has it");
    // It had one socket of that address, and binds for other addresses.
    let other = fabric.listen(loopback()).await.unwrap();
    assert_ne!(other.local(), address);
}

/// Old peers, and those that let the client speak first, get a reply in their form and can speak.
#[tokio::test]
async fn initiators_of_both_revisions_connect() {
    let plain = Enhanced {
        ird: 3,
        ord: 2,
        ..Enhanced::default()
    };
    for (revision, enhanced) in [(1, None), (2, None), (2, Some(plain))] {
        let mut listener = listening().await;
        let mut peer = TcpStream::connect(listener.local()).await.unwrap();
        said(&mut peer, &setup(false, revision, enhanced)).await;
        let mut connected = accepted(&mut *listener).await.unwrap();
        let reply = heard(&mut peer, true).await;
        assert_eq!((reply.revision, reply.rejected), (revision, false));
        assert_eq!(reply.private_data, b"welcome");
        let expected = enhanced.map(|peer| Enhanced {
            ird: peer.ord,
            ord: peer.ird,
            ..Enhanced::default()
        });
        assert_eq!(reply.enhanced, expected);
        peer.write_all(&message(b"hello")).await.unwrap();
        let mut done = Vec::new();
        next(&mut connected, &mut done).await.unwrap();
        let Done::Receive { buffer, .. } = &done[0].done else {
            panic!("no message");
        };
        assert_eq!((&**buffer, done[0].id), (&b"hello"[..], 7));
    }
}

/// Silent peers, peers that say something else and peers that leave keep nobody waiting.
#[tokio::test]
async fn slow_and_wrong_peers_delay_no_other() {
    let mut listener = listening().await;
    let address = listener.local();
    let mut others = Vec::new();
    for begun in [
        &b""[..],
        b"MPA ID Req Fra",
        b"GET / HTTP/1.1\r\nHost: example\r\n",
    ] {
        let mut peer = TcpStream::connect(address).await.unwrap();
        peer.write_all(begun).await.unwrap();
        others.push(peer);
    }
    drop(TcpStream::connect(address).await.unwrap());
    let mut peer = TcpStream::connect(address).await.unwrap();
    said(&mut peer, &setup(false, 1, None)).await;
    accepted(&mut *listener).await.unwrap();
    // The one that spoke another protocol was shown the door (RFC 5044 §7.1.2 rule 5).
    let mut rest = Vec::new();
    let closed = others[2].read_to_end(&mut rest).await;
    assert!(rest.is_empty() && closed.unwrap_or(0) == 0);
}

#[tokio::test]
async fn a_peer_that_wants_markers_is_rejected() {
    let mut listener = listening().await;
    let mut peer = TcpStream::connect(listener.local()).await.unwrap();
    let request = Setup {
        markers: true,
        ..setup(false, 1, None)
    };
    said(&mut peer, &request).await;
    let reply = tokio::select! {
        _ = listener.accept() => panic!("the upper layer never sees it"),
        reply = heard(&mut peer, true) => reply,
    };
    assert!(reply.rejected && !reply.markers);
}

/// Who is turned away hears so, and has no reason to ask again in other words.
#[tokio::test]
async fn dropping_a_request_rejects_it() {
    for (revision, enhanced) in [(1, None), (2, Some(Enhanced::default()))] {
        let mut listener = listening().await;
        let mut peer = TcpStream::connect(listener.local()).await.unwrap();
        said(&mut peer, &setup(false, revision, enhanced)).await;
        drop(listener.accept().await.unwrap());
        let reply = heard(&mut peer, true).await;
        assert!(reply.rejected && reply.private_data.is_empty());
        assert_eq!((reply.revision, reply.enhanced), (revision, enhanced));
        assert_eq!(peer.read(&mut [0]).await.unwrap(), 0);
    }
}

/// A Terminate arrives although its peer never stops sending: the connection is not reset before.
#[tokio::test]
async fn the_last_word_is_heard() {
    let mut listener = listening().await;
    let peer = TcpStream::connect(listener.local()).await.unwrap();
    let (mut from, mut to) = peer.into_split();
    to.write_all(&setup(false, 1, None).encode().unwrap())
        .await
        .unwrap();
    let mut connected = accepted(&mut *listener).await.unwrap();
    let mut reply = vec![0; 20 + 7];
    from.read_exact(&mut reply).await.unwrap();
    let talking = tokio::spawn(async move {
        to.write_all(&message(b"one")).await.unwrap();
        // No receive is left for this, nor for any other.
        for _ in 0..2000 {
            if to.write_all(&message(&[2; 1000])).await.is_err() {
                break;
            }
        }
    });
    assert_eq!(ended(&mut connected).await, Ended::Faulted(Fault::Protocol));
    drop(connected);
    let mut words = Vec::new();
    from.read_to_end(&mut words).await.unwrap();
    let (_, terminate) = rig::terminate_in(&words);
    // The second message repeats the number of the first.
    assert_eq!(terminate.term, Term::MSN_RANGE);
    talking.await.unwrap();
}

/// What an initiator makes of replies that it cannot use.
#[tokio::test]
async fn replies_that_cannot_be_used_are_answered() {
    let data = |peer_to_peer, ord| Enhanced {
        peer_to_peer,
        ird: 4,
        ord,
        ..Enhanced::default()
    };
    for (enhanced, term) in [
        (data(false, 1000), Term::INSUFFICIENT_IRD),
        (data(true, 1), Term::NO_MATCHING_RTR),
    ] {
        let listener = TcpListener::bind(loopback()).await.unwrap();
        let address = listener.local_addr().unwrap();
        let responding = tokio::spawn(async move {
            let (mut peer, _) = listener.accept().await.unwrap();
            heard(&mut peer, false).await;
            said(&mut peer, &setup(true, 2, Some(enhanced))).await;
            let mut words = Vec::new();
            peer.read_to_end(&mut words).await.unwrap();
            words
        });
        let config = EndpointConfig::default();
        let iwarp = Iwarp::default();
        let failed = iwarp
            .connect(address, config, Bytes::new(), Vec::new())
            .await;
        assert!(
            matches!(failed, Err(ConnectError::Protocol(_))),
            "{failed:?}"
        );
        let words = responding.await.unwrap();
        assert_eq!(rig::terminate_in(&words).1.term, term);
    }
}

/// A responder that knows revision 1 only closes, or takes what it misreads for a refusal. It is asked once more, in
/// its own words (RFC 6581 §10).
#[tokio::test]
async fn an_old_responder_is_asked_again_with_revision_1() {
    for first_reply in [
        None,
        Some(Setup {
            rejected: true,
            ..setup(true, 1, None)
        }),
    ] {
        let listener = TcpListener::bind(loopback()).await.unwrap();
        let address = listener.local_addr().unwrap();
        let responding = tokio::spawn(async move {
            let (mut peer, _) = listener.accept().await.unwrap();
            assert_eq!(heard(&mut peer, false).await.revision, 2);
            if let Some(reply) = &first_reply {
                said(&mut peer, reply).await;
            }
            drop(peer);
            let (mut peer, _) = listener.accept().await.unwrap();
            let request = heard(&mut peer, false).await;
            let expected = Setup {
                private_data: b"ours".to_vec(),
                ..setup(false, 1, None)
            };
            assert_eq!(request, expected);
            said(&mut peer, &setup(true, 1, None)).await;
            // No RTR indication: the message is the first frame.
            let mut first = vec![0; message(b"hello").len()];
            peer.read_exact(&mut first).await.unwrap();
            assert_eq!(first, message(b"hello"));
        });
        let config = EndpointConfig::default();
        let iwarp = Iwarp::default();
        let ours = Bytes::from_static(b"ours");
        let connecting = iwarp.connect(address, config, ours, Vec::new());
        let mut connected = connecting.await.unwrap();
        assert_eq!(connected.private_data, &b"from afar"[..]);
        let work = fabric::Work::Send {
            data: vec![Bytes::from_static(b"hello")],
            invalidate: None,
        };
        assert!(connected.endpoint.post(3, work, true).is_ok());
        connected.endpoint.ring();
        responding.await.unwrap();
    }
}

/// A refusal of the upper layer is one, and no reason to ask again.
#[tokio::test]
async fn a_rejection_is_final_whatever_the_revision() {
    for revision in [1, 2] {
        let listener = TcpListener::bind(loopback()).await.unwrap();
        let address = listener.local_addr().unwrap();
        let responding = tokio::spawn(async move {
            let mut asked = 0;
            loop {
                let (mut peer, _) = listener.accept().await.unwrap();
                let request = heard(&mut peer, false).await;
                asked += 1;
                if request.revision > revision {
                    continue;
                }
                let reply = Setup {
                    rejected: true,
                    enhanced: request.enhanced,
                    ..setup(true, revision, None)
                };
                said(&mut peer, &reply).await;
                let mut rest = Vec::new();
                let _ = peer.read_to_end(&mut rest).await;
                return asked;
            }
        });
        let config = EndpointConfig::default();
        let iwarp = Iwarp::default();
        let refused = iwarp.connect(address, config, Bytes::new(), Vec::new());
        match refused.await {
            Err(ConnectError::Rejected { private_data }) => assert_eq!(private_data, "from afar"),
            other => panic!("{other:?}"),
        }
        assert_eq!(responding.await.unwrap(), 3 - u32::from(revision));
    }
}

/// A responder that looks for the first frame too late is told again that we are there, until it has said
/// something. Then it may be silent for as long as it likes.
#[tokio::test]
async fn a_responder_that_missed_the_first_frame_hears_another() {
    let (mut peer, mut connected) = connected_to_a_socket().await;
    let nothing = frame(&{
        let mut ulpdu = Vec::new();
        SegmentHeader {
            last: true,
            control: Opcode::Write.control(),
            place: Place::Tagged { stag: 0, to: 0 },
        }
        .encode(&mut ulpdu);
        ulpdu
    });
    tokio::time::pause();
    let idle = async {
        let mut done = Vec::new();
        next(&mut connected, &mut done).await.map(|()| done)
    };
    let heard = async {
        let mut frames = vec![0; 3 * nothing.len()];
        peer.read_exact(&mut frames).await.unwrap();
        assert_eq!(frames, nothing.repeat(3));
        peer.write_all(&message(b"at last")).await.unwrap();
        let mut more = vec![0; 1];
        let quiet = tokio::time::timeout(HOUR, peer.read(&mut more)).await;
        assert!(quiet.is_err(), "{quiet:?}");
    };
    let (done, ()) = tokio::join!(idle, heard);
    assert!(matches!(done.unwrap()[0].done, Done::Receive { .. }));
}

const HOUR: std::time::Duration = std::time::Duration::from_secs(3600);

/// One of our endpoints with a receive, and the responder as a plain socket.
async fn connected_to_a_socket() -> (TcpStream, Connected) {
    let listener = TcpListener::bind(loopback()).await.unwrap();
    let address = listener.local_addr().unwrap();
    let responding = async {
        let (mut peer, _) = listener.accept().await.unwrap();
        let request = heard(&mut peer, false).await;
        let enhanced = request.enhanced.map(|asked| Enhanced {
            peer_to_peer: true,
            rtr_write: true,
            ird: 4,
            ord: 4,
            ..asked
        });
        said(&mut peer, &setup(true, 2, enhanced)).await;
        peer
    };
    let buffer = rig::pool().take().unwrap();
    let receives = vec![Receive { id: 7, buffer }];
    let config = EndpointConfig::default();
    let iwarp = Iwarp::default();
    let connecting = iwarp.connect(address, config, Bytes::new(), receives);
    let (peer, connected) = tokio::join!(responding, connecting);
    (peer, connected.unwrap())
}

/// Peers that are there but do not go on end their connection with a reason; idleness is none.
#[tokio::test]
async fn a_peer_that_does_not_go_on_is_cut_off() {
    for stall in [Stall::MidFrame, Stall::Unanswered, Stall::Unread] {
        let (mut peer, mut connected) = connected_to_a_socket().await;
        peer.write_all(&message(b"hello")).await.unwrap();
        let mut done = Vec::new();
        next(&mut connected, &mut done).await.unwrap();
        let pool = rig::pool();
        let remote = fabric::Remote {
            key: 5,
            offset: 0,
            len: 1 << 26,
        };
        let post = |connected: &mut Connected, work| {
            assert!(connected.endpoint.post(3, work, true).is_ok());
        };
        match stall {
            Stall::MidFrame => peer.write_all(&message(b"hello")[..9]).await.unwrap(),
            Stall::Unanswered => {
                let sink = pool.take().unwrap();
                let remote = remote.part(0, 100).unwrap();
                let parts = vec![fabric::Part { at: 0, remote }];
                post(&mut connected, fabric::Work::Read { sink, parts });
            }
            Stall::Unread => {
                let data = vec![Bytes::from(vec![0; 1 << 26])];
                post(&mut connected, fabric::Work::Write { data, remote });
            }
        }
        connected.endpoint.ring();
        tokio::time::pause();
        assert_eq!(ended(&mut connected).await, Ended::Stalled(stall));
        tokio::time::resume();
        assert_eq!(pool.taken(), 0, "{stall:?}");
    }
    let (mut peer, mut connected) = connected_to_a_socket().await;
    peer.write_all(&message(b"hello")).await.unwrap();
    let mut done = Vec::new();
    next(&mut connected, &mut done).await.unwrap();
    tokio::time::pause();
    let idle = tokio::time::timeout(HOUR, next(&mut connected, &mut done)).await;
    assert!(idle.is_err(), "{idle:?}");
}

/// A peer that stops in the middle of an answer and goes away is a lost connection, and the sink comes back.
#[tokio::test]
async fn a_peer_that_vanishes_in_an_answer_is_lost() {
    let listener = TcpListener::bind(loopback()).await.unwrap();
    let address = listener.local_addr().unwrap();
    let responding = tokio::spawn(async move {
        let (mut peer, _) = listener.accept().await.unwrap();
        heard(&mut peer, false).await;
        let enhanced = Enhanced {
            ird: 4,
            ord: 4,
            ..Enhanced::default()
        };
        said(&mut peer, &setup(true, 2, Some(enhanced))).await;
        let mut request = vec![0; 2 + 46 + 4];
        peer.read_exact(&mut request).await.unwrap();
        let sink_stag = u32::from_be_bytes(request[20..24].try_into().unwrap());
        let header = SegmentHeader {
            last: true,
            control: Opcode::ReadResponse.control(),
            place: Place::Tagged {
                stag: sink_stag,
                to: 0,
            },
        };
        let mut ulpdu = Vec::new();
        header.encode(&mut ulpdu);
        ulpdu.resize(14 + 10_000, 1);
        peer.write_all(&frame(&ulpdu)[..5000]).await.unwrap();
    });
    let pool = rig::pool();
    let config = EndpointConfig::default();
    let iwarp = Iwarp::default();
    let connecting = iwarp.connect(address, config, Bytes::new(), Vec::new());
    let mut connected = connecting.await.unwrap();
    let remote = fabric::Remote {
        key: 5,
        offset: 0,
        len: 10_000,
    };
    let (sink, at) = (pool.take().unwrap(), 0);
    let work = fabric::Work::Read {
        sink,
        parts: vec![fabric::Part { at, remote }],
    };
    assert!(connected.endpoint.post(3, work, true).is_ok());
    let mut done = Vec::new();
    let mut end = None;
    while end.is_none() {
        end = next(&mut connected, &mut done).await.err();
    }
    assert!(matches!(end, Some(Ended::Lost(_))), "{end:?}");
    assert_eq!(
        (done.len(), done[0].id, done[0].status),
        (1, 3, WorkStatus::Flushed)
    );
    drop(done);
    assert_eq!(pool.taken(), 0);
    responding.await.unwrap();
    // And so it stays.
    assert_eq!(next(&mut connected, &mut Vec::new()).await.err(), end);
}

#[tokio::test]
async fn connections_come_from_the_address_that_was_chosen() {
    let mut listener = listening().await;
    let from = IpAddr::from([127, 0, 3, 4]);
    let iwarp = Iwarp::default().connecting_from(from);
    let (local, config) = (listener.local(), EndpointConfig::default());
    let peer = tokio::select! {
        incoming = listener.accept() => incoming.unwrap().peer(),
        connected = iwarp.connect(local, config, Bytes::new(), Vec::new()) => {
            panic!("nobody has accepted it: {:?}", connected.err())
        }
    };
    assert_eq!(peer.ip(), from);
    // Documentation has this address; no machine does (RFC 5737).
    let elsewhere = Iwarp::default().connecting_from(IpAddr::from([192, 0, 2, 1]));
    let connected = elsewhere.connect(local, config, Bytes::new(), Vec::new());
    assert!(matches!(connected.await, Err(ConnectError::Io(_))));
}
