//! Peers that hold memory of this process by being slow, under simulated time: the stream is a pipe within the process.

use super::*;
use crate::handle::ConnInfo;
use crate::stream::{StreamLink, Wire};
use crate::{TransportKind, engine};
use std::io::{self, IoSlice};
use std::pin::Pin;
use std::task::{Context as TaskContext, Poll, ready};
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt, DuplexStream, ReadBuf};
use tokio::time::Instant;

const MIB: u32 = 1024 * 1024;

/// One end of a pipe within the process.
struct PipeWire(DuplexStream);

impl Wire for PipeWire {
    const SENDS_FILES: bool = false;

    fn poll_read(
        &mut self,
        cx: &mut TaskContext<'_>,
        buffer: &mut Vec<u8>,
        room: usize,
    ) -> Poll<io::Result<usize>> {
        let mut bytes = vec![0; room];
        let mut read = ReadBuf::new(&mut bytes);
        ready!(Pin::new(&mut self.0).poll_read(cx, &mut read))?;
        buffer.extend_from_slice(read.filled());
        Poll::Ready(Ok(read.filled().len()))
    }

    fn poll_write(
        &mut self,
        cx: &mut TaskContext<'_>,
        pieces: &[IoSlice<'_>],
        _more: bool,
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.0).poll_write_vectored(cx, pieces)
    }

    fn poll_write_file(
        &mut self,
        _cx: &mut TaskContext<'_>,
        _file: &File,
        _offset: u64,
        _len: usize,
    ) -> Poll<io::Result<usize>> {
        panic!("no file is sent here")
    }

    fn poll_flush(&mut self, _cx: &mut TaskContext<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn poll_shutdown(&mut self, cx: &mut TaskContext<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.0).poll_shutdown(cx)
    }
}

/// A server to which connections come from any address.
struct Server {
    service: Arc<Situations>,
    context: Context,
}

impl Server {
    fn new(limits: TransportLimits) -> Self {
        Self {
            service: Situations::new(),
            context: Context::new(limits),
        }
    }

    /// The peer's end of a new connection from `ip`, and the server's handle of it.
    fn accept(&self, ip: &str) -> (DuplexStream, ConnHandle) {
        let (near, far) = tokio::io::duplex(64 * 1024);
        let info = ConnInfo {
            kind: TransportKind::Tcp,
            peer: Endpoint::Socket(format!("{ip}:1000").parse().unwrap()),
            local: Endpoint::Socket("10.0.0.1:2049".parse().unwrap()),
            tls: None,
        };
        let conn = ConnHandle::new(info, self.context.clone());
        let link = StreamLink::new(PipeWire(near), &conn);
        let admission = self.context.admit().unwrap();
        let service: Arc<dyn DynService> = self.service.clone();
        tokio::spawn(engine::run(link, conn.clone(), service, admission));
        (far, conn)
    }

    /// A peer that announces a large record and then sends a byte from time to time.
    fn trickle(&self, ip: &str) -> ConnHandle {
        let (mut far, conn) = self.accept(ip);
        tokio::spawn(async move {
            let mark = rpc::fragment_header(MIB, true);
            far.write_all(&mark).await.unwrap();
            while far.write_all(&[0]).await.is_ok() {
                tokio::time::sleep(Duration::from_secs(2)).await;
            }
        });
        conn
    }

    fn closed(&self, reason: CloseReason) -> u64 {
        self.context.counters().snapshot().closes_for(reason)
    }
}

fn record(message: &Message) -> Vec<u8> {
    let body = message.flatten().unwrap();
    let mark = rpc::fragment_header(u32::try_from(body.len()).unwrap(), true);
    [&mark[..], &body].concat()
}

fn echo_of(len: u32) -> Vec<u8> {
    record(&call(ECHO, &pattern(len as usize)))
}

async fn read_record(far: &mut DuplexStream) -> Vec<u8> {
    let mark = far.read_u32().await.unwrap();
    let mut body = vec![0; (mark & 0x7fff_ffff) as usize];
    far.read_exact(&mut body).await.unwrap();
    body
}

/// Asks for an echo and reads it whole; how long it took.
async fn echo(mut far: DuplexStream) -> Duration {
    let start = Instant::now();
    let record = echo_of(MIB / 2);
    let (mut reader, mut writer) = tokio::io::split(&mut far);
    let send = async { writer.write_all(&record).await.unwrap() };
    let receive = async {
        let mark = reader.read_u32().await.unwrap();
        let mut body = vec![0; (mark & 0x7fff_ffff) as usize];
        reader.read_exact(&mut body).await.unwrap();
        assert_eq!(result(&body), pattern(MIB as usize / 2));
    };
    let both = async { tokio::join!(send, receive) };
    let in_time = tokio::time::timeout(Duration::from_secs(600), both);
    in_time.await.expect("it is answered at all");
    start.elapsed()
}

fn room_for(records: u32, of_one_address: u32) -> TransportLimits {
    let record_bytes_max = TransportLimits::default().record_bytes_max;
    TransportLimits {
        receive_budget_bytes: records * record_bytes_max,
        receive_share_bytes: of_one_address * record_bytes_max,
        ..TransportLimits::default()
    }
}

#[tokio::test(start_paused = true)]
async fn peers_that_trickle_are_cut_when_others_wait_for_the_budget() {
    let server = Server::new(room_for(8, 4));
    for i in 0..30 {
        server.trickle(&format!("10.0.1.{i}"));
    }
    tokio::time::sleep(Duration::from_secs(1)).await;
    let (far, _) = server.accept("10.0.2.1");
    let took = echo(far).await;
    // Thirty peers hold eight places for two windows at most, one after the other.
    assert!(took < Duration::from_secs(20), "{took:?}");
    assert!(server.closed(CloseReason::ReadSlow) >= 8);
}

#[tokio::test(start_paused = true)]
async fn one_address_cannot_make_another_wait() {
    let server = Server::new(room_for(8, 4));
    for _ in 0..100 {
        server.trickle("10.0.1.1");
    }
    tokio::time::sleep(Duration::from_millis(1)).await;
    let (far, _) = server.accept("10.0.2.1");
    let took = echo(far).await;
    assert!(took < Duration::from_millis(10), "{took:?}");
}

#[tokio::test(start_paused = true)]
async fn a_slow_peer_is_served_while_nobody_waits() {
    let server = Server::new(room_for(8, 4));
    let (mut far, _) = server.accept("10.0.1.1");
    // 16 KiB/s: far below the least pace.
    for piece in echo_of(MIB / 2).chunks(32 * 1024) {
        far.write_all(piece).await.unwrap();
        tokio::time::sleep(Duration::from_secs(2)).await;
    }
    let mark = far.read_u32().await.unwrap();
    assert!(mark & 0x7fff_ffff > MIB / 2);
}

#[tokio::test(start_paused = true)]
async fn a_peer_at_the_least_pace_is_not_cut_while_others_wait() {
    let server = Server::new(room_for(1, 1));
    let (mut far, slow) = server.accept("10.0.1.1");
    let record = echo_of(MIB / 2);
    far.write_all(&record[..16 * 1024]).await.unwrap();
    let (waiting, _) = server.accept("10.0.2.1");
    let waiting = tokio::spawn(echo(waiting));
    for piece in record[16 * 1024..].chunks(16 * 1024) {
        tokio::time::sleep(Duration::from_millis(200)).await;
        far.write_all(piece).await.unwrap();
    }
    assert!(far.read_u32().await.is_ok(), "{slow:?} is answered");
    waiting.await.unwrap();
    assert_eq!(server.closed(CloseReason::ReadSlow), 0);
}

/// Bytes of one reply in the tests below.
const REPLY: u32 = 256 * 1024;

/// Room for 16 replies in memory, 8 for one address.
fn room_for_replies() -> TransportLimits {
    TransportLimits {
        send_budget_bytes: 16 * REPLY,
        send_share_bytes: 8 * REPLY,
        send_queue_bytes: 64 * 1024,
        ..TransportLimits::default()
    }
}

/// Asks for large replies that are charged, and keeps the connection without reading.
async fn ask_without_reading(server: &Server, ip: &str, count: usize) -> DuplexStream {
    let (mut far, _) = server.accept(ip);
    let asked = record(&call(CHARGED, &words(&[REPLY]))).repeat(count);
    far.write_all(&asked).await.unwrap();
    tokio::time::sleep(Duration::from_millis(10)).await;
    far
}

#[tokio::test(start_paused = true)]
async fn a_peer_that_does_not_read_has_no_more_of_its_requests_started() {
    let server = Server::new(TransportLimits::default());
    let (mut far, _) = server.accept("10.0.1.1");
    let (mut other, _) = server.accept("10.0.1.1");
    let asked = echo_of(32 * 1024);
    let sends = tokio::spawn(async move {
        for _ in 0..100 {
            far.write_all(&asked).await.unwrap();
        }
        far
    });
    tokio::time::sleep(Duration::from_secs(1)).await;
    // 64 KiB in the pipe, 256 KiB in the queue, and one beyond each.
    let started = server.context.counters().snapshot().records_in;
    assert!((8..=12).contains(&started), "{started}");
    other.write_all(&echo_of(10)).await.unwrap();
    assert_eq!(result(&read_record(&mut other).await), pattern(10));
    assert!(!sends.is_finished());
}

#[tokio::test(start_paused = true)]
async fn replies_wait_for_the_send_budget_before_they_take_memory_and_all_arrive() {
    let server = Server::new(room_for_replies());
    let mut slow = Vec::new();
    for _ in 0..3 {
        slow.push(ask_without_reading(&server, "10.0.1.1", 20).await);
    }
    assert_eq!(server.service.waiting.load(SeqCst), 8);
    // Another address is served meanwhile.
    let mut other = ask_without_reading(&server, "10.0.2.1", 1).await;
    assert_eq!(result(&read_record(&mut other).await).len(), REPLY as usize);
    let readers = slow.into_iter().map(|mut far| {
        tokio::spawn(async move {
            for _ in 0..20 {
                read_record(&mut far).await;
            }
        })
    });
    for reader in readers.collect::<Vec<_>>() {
        reader.await.unwrap();
    }
    assert_eq!(server.service.waiting.load(SeqCst), 61);
}

#[tokio::test(start_paused = true)]
async fn peers_that_do_not_read_are_cut_when_others_wait_for_the_send_budget() {
    let server = Server::new(TransportLimits {
        write_stall: Duration::from_secs(3600),
        ..room_for_replies()
    });
    let mut slow = Vec::new();
    for i in 0..4 {
        slow.push(ask_without_reading(&server, &format!("10.0.1.{i}"), 20).await);
    }
    assert_eq!(server.service.waiting.load(SeqCst), 16);
    tokio::time::sleep(Duration::from_secs(1)).await;
    let mut other = ask_without_reading(&server, "10.0.2.1", 1).await;
    let reply = tokio::time::timeout(Duration::from_secs(120), read_record(&mut other)).await;
    assert_eq!(result(&reply.unwrap()).len(), REPLY as usize);
    assert!(server.closed(CloseReason::WriteSlow) >= 2);
}

#[tokio::test(start_paused = true)]
async fn a_peer_whose_unread_replies_outgrow_its_share_is_cut_and_no_other() {
    let server = Server::new(room_for_replies());
    let (mut other, _) = server.accept("10.0.2.1");
    let (far, _) = server.accept("10.0.1.1");
    let (_unread, mut writer) = tokio::io::split(far);
    let mut args = words(&[1000]);
    args.resize(REPLY as usize / 2, 0);
    // All run at once, uncharged, and end together.
    let asked = record(&call(SLEEP, &args)).repeat(20);
    writer.write_all(&asked).await.unwrap();
    tokio::time::sleep(Duration::from_secs(2)).await;
    assert_eq!(server.closed(CloseReason::Unread), 1);
    other.write_all(&echo_of(10)).await.unwrap();
    assert_eq!(result(&read_record(&mut other).await), pattern(10));
}

#[tokio::test(start_paused = true)]
async fn a_parked_request_starts_when_the_replies_before_it_have_left() {
    let server = Server::new(room_for_replies());
    let (mut far, _) = server.accept("10.0.1.1");
    // A call of the server waits for a reply, so that it reads on although the peer does not.
    far.write_all(&record(&call(CALL_BACK, b"back")))
        .await
        .unwrap();
    read_record(&mut far).await;
    far.write_all(&echo_of(REPLY)).await.unwrap();
    far.write_all(&echo_of(10)).await.unwrap();
    tokio::time::sleep(Duration::from_secs(1)).await;
    assert_eq!(result(&read_record(&mut far).await).len(), REPLY as usize);
    let second = tokio::time::timeout(SOON, read_record(&mut far)).await;
    assert_eq!(result(&second.unwrap()), pattern(10));
}

/// A server that closes connections which are idle for so long.
fn impatient(idle: Duration) -> Server {
    Server::new(TransportLimits {
        idle: Some(idle),
        ..TransportLimits::default()
    })
}

const IDLE: Duration = Duration::from_secs(10);
const SECOND: Duration = Duration::from_secs(1);

#[tokio::test(start_paused = true)]
async fn a_request_that_takes_longer_to_arrive_than_a_connection_may_be_idle_is_served() {
    let server = impatient(IDLE);
    let (mut far, _) = server.accept("10.0.1.1");
    // 20 KiB/s.
    for piece in echo_of(MIB).chunks(20 * 1024) {
        far.write_all(piece).await.unwrap();
        tokio::time::sleep(SECOND).await;
    }
    assert_eq!(result(&read_record(&mut far).await).len(), MIB as usize);
    // A small one, byte by byte.
    for byte in echo_of(4) {
        tokio::time::sleep(IDLE - SECOND).await;
        far.write_all(&[byte]).await.unwrap();
    }
    assert_eq!(result(&read_record(&mut far).await), pattern(4));
    assert_eq!(server.closed(CloseReason::Idle), 0);
    tokio::time::sleep(IDLE + SECOND).await;
    assert_eq!(server.closed(CloseReason::Idle), 1);
}

#[tokio::test(start_paused = true)]
async fn a_connection_is_idle_from_the_end_of_its_last_request_on() {
    let server = impatient(IDLE);
    let (mut far, _) = server.accept("10.0.1.1");
    let asked = call(SLEEP, &words(&[9_900]));
    far.write_all(&record(&asked)).await.unwrap();
    read_record(&mut far).await;
    tokio::time::sleep(IDLE - SECOND).await;
    assert_eq!(server.closed(CloseReason::Idle), 0);
    tokio::time::sleep(2 * SECOND).await;
    assert_eq!(server.closed(CloseReason::Idle), 1);
}
