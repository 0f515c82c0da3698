//! What only real sockets show: hostile bytes, slow and silent peers, many idle connections,
//! listeners and workers.

use std::io::Read;
use std::net::SocketAddr;

use super::*;
use crate::workers::spawn_workers;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpSocket, TcpStream};

fn socket_address(rig: &Rig) -> SocketAddr {
    let Address::Tcp(address) = rig.address else {
        panic!("a TCP rig")
    };
    address
}

async fn raw(rig: &Rig) -> TcpStream {
    TcpStream::connect(socket_address(rig)).await.unwrap()
}

/// One record in one fragment.
fn record(message: &Message) -> Vec<u8> {
    let body = message.flatten().unwrap();
    [
        &rpc::fragment_header(u32::try_from(body.len()).unwrap(), true)[..],
        &body,
    ]
    .concat()
}

async fn read_record(stream: &mut TcpStream) -> Vec<u8> {
    let mark = stream.read_u32().await.unwrap();
    let mut body = vec![0; (mark & 0x7fff_ffff) as usize];
    stream.read_exact(&mut body).await.unwrap();
    body
}

#[tokio::test]
async fn a_call_that_arrives_byte_by_byte_in_fragments_is_answered() {
    let rig = Rig::new(On::Tcp, TransportLimits::default()).await;
    let mut stream = raw(&rig).await;
    stream.set_nodelay(true).unwrap();
    let body = call(ECHO, b"hello").flatten().unwrap();
    let (a, b) = body.split_at(10);
    let mut bytes = rpc::fragment_header(10, false).to_vec();
    bytes.extend(a);
    bytes.extend(rpc::fragment_header(0, false));
    bytes.extend(rpc::fragment_header(u32::try_from(b.len()).unwrap(), true));
    bytes.extend(b);
    for byte in bytes {
        stream.write_all(&[byte]).await.unwrap();
        tokio::task::yield_now().await;
    }
    assert_eq!(result(&read_record(&mut stream).await), b"hello");
}

#[tokio::test]
async fn calls_that_arrive_together_are_answered_together() {
    let rig = Rig::new(
        On::Tcp,
        TransportLimits {
            in_flight_max: 7,
            ..TransportLimits::default()
        },
    )
    .await;
    let mut stream = raw(&rig).await;
    let many: Vec<u8> = (0..500_u32)
        .flat_map(|i| record(&call(ECHO, &words(&[i]))))
        .collect();
    let (mut reader, mut writer) = stream.split();
    let send = async { writer.write_all(&many).await.unwrap() };
    let receive = async {
        for i in 0..500_u32 {
            let mark = reader.read_u32().await.unwrap();
            let mut body = vec![0; (mark & 0x7fff_ffff) as usize];
            reader.read_exact(&mut body).await.unwrap();
            assert_eq!(result(&body), words(&[i]));
        }
    };
    tokio::join!(send, receive);
}

#[tokio::test]
async fn hostile_bytes_end_their_connection_with_a_reason_and_no_other() {
    let rig = Rig::new(
        On::Tcp,
        TransportLimits {
            fragments_max: 4,
            ..TransportLimits::default()
        },
    )
    .await;
    let good = rig.connect().await;
    let (record_end, message_end) = (CloseReason::MalformedRecord, CloseReason::MalformedMessage);
    let table: [(&str, Vec<u8>, CloseReason); 7] = [
        ("HTTP", b"GET / HTTP/1.1\r\n\r\n".to_vec(), record_end),
        ("4 GiB", words(&[0xffff_ffff]), record_end),
        ("empty", words(&[0x8000_0000]), record_end),
        ("many fragments", words(&[0, 0, 0, 0, 0]), record_end),
        ("4 bytes", words(&[0x8000_0004, 1]), message_end),
        ("no direction", words(&[0x8000_0008, 1, 2]), message_end),
        (
            "half a record",
            words(&[0x8000_0008, 1]),
            CloseReason::PeerTruncated,
        ),
    ];
    for (i, (what, bytes, reason)) in table.into_iter().enumerate() {
        let mut stream = raw(&rig).await;
        stream.write_all(&bytes).await.unwrap();
        if reason == CloseReason::PeerTruncated {
            stream.shutdown().await.unwrap();
        }
        let mut rest = Vec::new();
        // The end may come as a reset, because bytes of ours were left unread.
        let _ = stream.read_to_end(&mut rest).await;
        assert!(rest.is_empty(), "{what}");
        rig.until(|r| r.service.ended.lock().len() == i + 1).await;
        assert_eq!(rig.service.ended.lock()[i], reason, "{what}");
    }
    assert_eq!(ask(&good, ECHO, b"alive").await, b"alive");
}

#[tokio::test]
async fn a_peer_that_stops_within_a_record_is_cut() {
    let read_stall = Duration::from_millis(100);
    let rig = Rig::new(
        On::Tcp,
        TransportLimits {
            read_stall,
            ..TransportLimits::default()
        },
    )
    .await;
    let quiet = rig.connect().await;
    for bytes in [
        words(&[0x8000_0100, 1]),
        words(&[0x800f_0000, 1]),
        vec![0x80],
    ] {
        let mut stream = raw(&rig).await;
        stream.write_all(&bytes).await.unwrap();
        let _ = stream.read_to_end(&mut Vec::new()).await;
    }
    rig.until(|r| r.service.ended.lock().len() == 3).await;
    assert_eq!(*rig.service.ended.lock(), [CloseReason::ReadStalled; 3]);
    assert_eq!(
        ask(&quiet, ECHO, b"between records").await,
        b"between records"
    );
}

#[tokio::test]
async fn a_peer_that_does_not_read_is_cut_and_its_guards_are_released() {
    let write_stall = Duration::from_millis(200);
    let rig = Rig::new(
        On::Tcp,
        TransportLimits {
            write_stall,
            in_flight_max: 64,
            ..TransportLimits::default()
        },
    )
    .await;
    let socket = TcpSocket::new_v4().unwrap();
    socket.set_recv_buffer_size(4096).unwrap();
    let mut stream = socket.connect(socket_address(&rig)).await.unwrap();
    for _ in 0..200 {
        let ask = record(&call(FILE, &words(&[0, 300_000])));
        stream.write_all(&ask).await.unwrap();
    }
    rig.until(|r| r.service.guards.load(SeqCst) > 0).await;
    assert!(rig.service.guards.load(SeqCst) <= 64);
    rig.until(|r| !r.service.ended.lock().is_empty()).await;
    assert_eq!(*rig.service.ended.lock(), [CloseReason::WriteStalled]);
    assert_eq!(rig.service.guards.load(SeqCst), 0);
}

#[tokio::test]
async fn a_slow_peer_that_makes_progress_is_not_cut() {
    let write_stall = Duration::from_millis(1000);
    let rig = Rig::new(
        On::Tcp,
        TransportLimits {
            write_stall,
            ..TransportLimits::default()
        },
    )
    .await;
    let mut stream = raw(&rig).await;
    for _ in 0..60 {
        stream
            .write_all(&record(&call(FILE, &words(&[0, 300_000]))))
            .await
            .unwrap();
    }
    // Some 18 MB at 1 MB in 150 ms: longer than the limit, with progress all the time.
    let mut buffer = vec![0; 1 << 20];
    for _ in 0..16 {
        stream.read_exact(&mut buffer).await.unwrap();
        tokio::time::sleep(Duration::from_millis(150)).await;
    }
    assert!(
        rig.service.ended.lock().is_empty(),
        "{:?}",
        rig.service.ended.lock()
    );
}

#[tokio::test]
async fn large_records_wait_for_the_receive_budget_and_all_arrive() {
    for on in [On::Tcp, On::Rdma, On::Iwarp] {
        let limits = TransportLimits {
            record_bytes_max: 600_000,
            receive_budget_bytes: 600_000,
            receive_share_bytes: 600_000,
            ..TransportLimits::default()
        };
        let rig = Rig::new(on, limits).await;
        let (a, b) = (rig.connect().await, rig.connect().await);
        let big = pattern(500_000);
        let first = ask(&a, GATED, &big);
        let second = async {
            rig.until(|r| r.service.waiting.load(SeqCst) == 1).await;
            let second = ask(&b, ECHO, &big);
            tokio::pin!(second);
            let early = tokio::time::timeout(Duration::from_millis(100), &mut second).await;
            assert!(early.is_err(), "the budget holds one record");
            let small = rig.connect().await;
            assert_eq!(ask(&small, ECHO, b"small").await, b"small");
            rig.service.gate.add_permits(1);
            second.await
        };
        let (first, second) = tokio::join!(first, second);
        assert!(first == big && second == big, "{on:?}");
    }
}

fn resident_bytes() -> usize {
    let statm = std::fs::read_to_string("/proc/self/statm").unwrap();
    statm.split(' ').nth(1).unwrap().parse::<usize>().unwrap() * 4096
}

#[tokio::test]
async fn a_thousand_idle_connections_cost_little_and_do_not_disturb() {
    const COUNT: usize = 1000;
    // Two descriptors each in this process.
    let limit = rustix::process::getrlimit(rustix::process::Resource::Nofile);
    let wanted = rustix::process::Rlimit {
        current: limit.maximum,
        maximum: limit.maximum,
    };
    rustix::process::setrlimit(rustix::process::Resource::Nofile, wanted).unwrap();
    let rig = Rig::new(On::Tcp, TransportLimits::default()).await;
    let before = resident_bytes();
    let mut streams = Vec::with_capacity(COUNT);
    for _ in 0..COUNT {
        let mut stream = raw(&rig).await;
        stream
            .write_all(&record(&call(ECHO, &[7; 500])))
            .await
            .unwrap();
        assert_eq!(result(&read_record(&mut stream).await), [7; 500]);
        streams.push(stream);
    }
    let each = resident_bytes().saturating_sub(before) / COUNT;
    println!("resident bytes per idle connection (with its client's socket): {each}");
    assert!(each < 16 * 1024, "{each} bytes");
    assert_eq!(rig.server.connections(), 1000);
    assert_eq!(ask(&rig.connect().await, ECHO, b"x").await, b"x");
    rig.shutdown.trigger();
    rig.task.await.unwrap();
    assert_eq!(rig.server.connections(), 0);
}

#[tokio::test]
async fn a_busy_port_is_refused_although_ports_are_shared() {
    let mine = tcp::bind("127.0.0.1:0".parse().unwrap(), 2).unwrap();
    let address = mine[0].local_addr().unwrap();
    assert_eq!(mine[1].local_addr().unwrap(), address);
    let err = tcp::bind(address, 1).unwrap_err();
    assert_eq!(err.kind(), std::io::ErrorKind::AddrInUse);
    drop(mine);
    tcp::bind(address, 1).unwrap();
}

#[tokio::test]
async fn ipv6_listens_beside_ipv4_on_the_same_port() {
    let v6 = tcp::bind("[::1]:0".parse().unwrap(), 1).unwrap();
    let port = v6[0].local_addr().unwrap().port();
    let any_v6 = tcp::bind(format!("[::]:{port}").parse().unwrap(), 1);
    assert!(any_v6.is_err());
    let v4 = tcp::bind(format!("127.0.0.1:{port}").parse().unwrap(), 1).unwrap();
    let listeners = v4.into_iter().chain(v6).collect();
    let (shutdown, context) = (Shutdown::new(), Context::new(TransportLimits::default()));
    let serve = tcp::serve(
        listeners,
        Situations::new(),
        context.clone(),
        shutdown.signal(),
    );
    let task = tokio::spawn(serve);
    for host in ["127.0.0.1", "[::1]"] {
        let address = format!("{host}:{port}").parse().unwrap();
        let conn = tcp::connect(address, Situations::new(), &context)
            .await
            .unwrap();
        assert_eq!(ask(&conn, ECHO, b"x").await, b"x", "{host}");
    }
    shutdown.trigger();
    task.await.unwrap().unwrap();
}

#[test]
fn workers_serve_one_port_and_stop_together() {
    let listeners = tcp::bind("127.0.0.1:0".parse().unwrap(), 2).unwrap();
    let address = listeners[0].local_addr().unwrap();
    let service = Situations::new();
    let (shutdown, context) = (Shutdown::new(), Context::new(TransportLimits::default()));
    let siblings = [context.sibling(), context.sibling()];
    let listeners = Mutex::new(listeners.into_iter().map(Some).collect::<Vec<_>>());
    let workers = spawn_workers(2, "test", {
        let (service, shutdown, siblings) = (service, shutdown.clone(), siblings.clone());
        move |index| {
            let listener = listeners.lock()[index].take().unwrap();
            let (service, signal) = (service.clone(), shutdown.signal());
            let context = siblings[index].clone();
            async move {
                tcp::serve(vec![listener], service, context, signal)
                    .await
                    .unwrap();
            }
        }
    })
    .unwrap();
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .unwrap();
    runtime.block_on(async {
        let client = Context::new(TransportLimits::default());
        for i in 0..40_u32 {
            let conn = tcp::connect(address, Situations::new(), &client)
                .await
                .unwrap();
            assert_eq!(ask(&conn, ECHO, &words(&[i])).await, words(&[i]));
        }
    });
    shutdown.trigger();
    assert_eq!(workers.join(), 0);
    let mut sum = siblings[0].counters().snapshot();
    sum += siblings[1].counters().snapshot();
    assert_eq!((sum.connections_accepted, sum.records_in), (40, 40));
    assert_eq!(context.connections(), 0);
}

/// A call and its reply over a blocking socket.
fn ask_blocking(stream: &mut std::net::TcpStream, args: &[u8], pieces: usize) -> Vec<u8> {
    let bytes = record(&call(ECHO, args));
    for piece in bytes.chunks(bytes.len().div_ceil(pieces)) {
        stream.write_all(piece).unwrap();
    }
    let mut mark = [0; 4];
    stream.read_exact(&mut mark).unwrap();
    let mut body = vec![0; (u32::from_be_bytes(mark) & 0x7fff_ffff) as usize];
    stream.read_exact(&mut body).unwrap();
    result(&body)
}

#[test]
fn a_server_that_polls_answers_its_busy_connection_and_the_others() {
    let limits = TransportLimits {
        // Far longer than a client on a busy machine may take for its next call.
        busy_poll: Duration::from_millis(200),
        ..TransportLimits::default()
    };
    let (shutdown, context) = (Shutdown::new(), Context::new(limits));
    let listener = tcp::bind("127.0.0.1:0".parse().unwrap(), 1)
        .unwrap()
        .remove(0);
    let address = listener.local_addr().unwrap();
    let listener = Mutex::new(Some(listener));
    let workers = spawn_workers(1, "test", {
        let (context, shutdown) = (context.clone(), shutdown.clone());
        move |_| {
            let listeners = vec![listener.lock().take().unwrap()];
            let (context, signal) = (context.clone(), shutdown.signal());
            async move {
                tcp::serve(listeners, Situations::new(), context, signal)
                    .await
                    .unwrap();
            }
        }
    })
    .unwrap();
    let connect = || {
        let stream = std::net::TcpStream::connect(address).unwrap();
        stream.set_nodelay(true).unwrap();
        stream
    };
    let (mut busy, mut other) = (connect(), connect());
    for round in 0..200_usize {
        // Small, larger than the read buffer, and in pieces.
        let args = pattern([8, 100, 20_000, 9000][round % 4] + round);
        assert_eq!(ask_blocking(&mut busy, &args, 1 + round % 3), args);
        if round % 50 == 49 {
            assert_eq!(ask_blocking(&mut other, b"too", 1), b"too");
        }
    }
    drop((busy, other));
    shutdown.trigger();
    assert_eq!(workers.join(), 0);
    let counted = context.counters().snapshot();
    assert_eq!(counted.records_in, 204);
    // On a busy machine the next call may be there before anybody asks; before `other` speaks, nothing is.
    assert!(counted.busy_polls + counted.busy_polls_vain > 0);
}
