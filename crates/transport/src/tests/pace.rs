//! Peers that hold memory of this process by being slow, under simulated time: the stream is a pipe within the process.

use super::*;
use crate::handle::ConnInfo;
use crate::stream::{StreamLink, Wire};
use crate::{Endpoint, TransportKind, engine};
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
    fn new(limits: Limits) -> Self {
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

fn echo_of(len: u32) -> Vec<u8> {
    let message = call(ECHO, &pattern(len as usize));
    let body = message.flatten().unwrap();
    let mark = rpc::fragment_header(u32::try_from(body.len()).unwrap(), true);
    [&mark[..], &body].concat()
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

fn room_for(records: u32, of_one_address: u32) -> Limits {
    let record_bytes_max = Limits::default().record_bytes_max;
    Limits {
        receive_budget_bytes: records * record_bytes_max,
        receive_share_bytes: of_one_address * record_bytes_max,
        ..Limits::default()
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
