//! Goal: a peer that asks and does not read holds memory, a place and a connection for a bounded time.
use super::*;
use crate::patient::WRITE_STALL_MAX;
use crate::stream::READER_MAX;
use std::io;

/// More than the kernel takes for a peer that does not read.
const LONG_BYTES: usize = 32 * 1024 * 1024;
/// Of a sample: the kernel takes some.
const SAMPLE_BYTES: usize = 2 * 1024 * 1024;

/// A connection with a small window that has asked and has read the begin of the answer.
async fn ask_and_begin(address: SocketAddr, target: &str) -> TcpStream {
    let socket = tokio::net::TcpSocket::new_v4().unwrap();
    socket.set_recv_buffer_size(4096).unwrap();
    let mut stream = socket.connect(address).await.unwrap();
    let head = format!("GET {target} HTTP/1.1\r\nHost: a:1\r\n{VIEWER}\r\n");
    stream.write_all(head.as_bytes()).await.unwrap();
    let mut begin = [0; 15];
    stream.read_exact(&mut begin).await.unwrap();
    assert_eq!(&begin, b"HTTP/1.1 200 OK");
    stream
}

/// What is left in a connection that the server has given up.
async fn rest(mut stream: TcpStream) -> (usize, Option<io::ErrorKind>) {
    let mut bytes = Vec::new();
    let reading = timeout(Duration::from_secs(20), stream.read_to_end(&mut bytes));
    let read = reading.await.expect("the connection has ended");
    (bytes.len(), read.err().map(|e| e.kind()))
}

fn long(bytes: usize) -> Arc<Echo> {
    Arc::new(Echo {
        filler: "x".repeat(bytes),
        ..Echo::default()
    })
}

#[tokio::test]
async fn an_answer_that_nobody_reads_is_given_up() {
    let address = network(long(LONG_BYTES)).await;
    let stream = ask_and_begin(address, "/api/v1/status").await;
    tokio::time::pause();
    tokio::time::sleep(WRITE_STALL_MAX * 2).await;
    tokio::time::resume();
    let (count, _) = rest(stream).await;
    assert!(count < LONG_BYTES, "{count} bytes came");
    let other = ask_and_begin(address, "/api/v1/status").await;
    let mut all = Vec::new();
    let mut reading = other.take(LONG_BYTES as u64);
    reading.read_to_end(&mut all).await.unwrap();
    assert_eq!(all.len(), LONG_BYTES, "who reads gets it whole");
}

#[tokio::test]
async fn a_stream_that_nobody_reads_is_given_up() {
    let desk = long(SAMPLE_BYTES);
    let address = network(Arc::clone(&desk) as Arc<dyn Desk>).await;
    let samples = tokio::spawn(crate::run_samples(Arc::clone(&desk) as Arc<dyn Desk>));
    let stream = ask_and_begin(address, "/api/v1/stream").await;
    assert_eq!(desk.samples.streams_open(), 1);
    tokio::time::pause();
    let begun = tokio::time::Instant::now();
    while desk.samples.streams_open() > 0 {
        assert!(begun.elapsed() < READER_MAX * 2, "its place is held");
        tokio::time::sleep(Duration::from_secs(1)).await;
    }
    assert!(begun.elapsed() >= READER_MAX, "{:?}", begun.elapsed());
    samples.abort();
    tokio::time::sleep(WRITE_STALL_MAX * 2).await;
    tokio::time::resume();
    let (count, _) = rest(stream).await;
    assert!(count < LONG_BYTES, "{count} bytes came");
}
