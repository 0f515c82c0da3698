//! Goal: a plain TCP client gets what HTTP/1.1 promises, whatever it sends, and cannot keep others out for long.

use super::*;
use crate::status::DsStatus;
use std::net::SocketAddr;
use tokio::io::AsyncWriteExt;

struct Server {
    health: Result<(), String>,
}

impl Watched for Server {
    fn snapshot(&self) -> ServerStatus {
        ServerStatus::Ds(Box::new(DsStatus {
            client_read_bytes: 12,
            ..DsStatus::default()
        }))
    }

    async fn health(&self) -> Result<(), String> {
        self.health.clone()
    }
}

fn start(health: Result<(), String>) -> (SocketAddr, tokio::task::JoinHandle<()>) {
    let mut listeners = transport::tcp::bind("127.0.0.1:0".parse().unwrap(), 1).unwrap();
    let address = listeners[0].local_addr().unwrap();
    let task = tokio::spawn(serve(
        vec![listeners.remove(0)],
        Arc::new(Server { health }),
    ));
    (address, task)
}

/// Sends the bytes and returns all that comes back.
async fn ask(address: SocketAddr, bytes: &[u8]) -> String {
    let mut stream = TcpStream::connect(address).await.unwrap();
    stream.write_all(bytes).await.unwrap();
    let mut text = String::new();
    stream.read_to_string(&mut text).await.unwrap();
    text
}

/// The lines of a head without the time, and the body.
fn split(answer: &str) -> (Vec<&str>, &str) {
    let (head, body) = answer.split_once("\r\n\r\n").unwrap();
    let lines = head.lines().filter(|line| !line.starts_with("date: "));
    (lines.collect(), body)
}

#[tokio::test]
async fn the_page_and_the_health_are_served() {
    let (address, _task) = start(Ok(()));
    let metrics = ask(address, b"GET /metrics HTTP/1.1\r\nHost: x\r\n\r\n").await;
    let (head, body) = split(&metrics);
    assert_eq!(head[0], "HTTP/1.1 200 OK");
    let media_type = format!("content-type: {OPEN_METRICS}");
    let length = format!("content-length: {}", body.len());
    let fixed = ["cache-control: no-store", "connection: close"];
    for line in [&*media_type, &*length].into_iter().chain(fixed) {
        assert!(head.contains(&line), "{line}: {head:?}");
    }
    assert!(body.contains("ropewalk_client_read_bytes_total 12\n"));
    assert!(body.ends_with("# EOF\n"));

    let empty = ask(address, b"HEAD /metrics HTTP/1.1\r\nHost: x\r\n\r\n").await;
    assert_eq!(split(&empty), (head, ""));

    let health = ask(address, b"GET /health HTTP/1.0\r\n\r\n").await;
    assert!(health.starts_with("HTTP/1.0 200 OK\r\n"), "{health}");
    assert!(health.ends_with("\r\n\r\nserving\n"), "{health}");
}

#[tokio::test]
async fn a_server_that_does_not_serve_says_why() {
    let (address, _task) = start(Err("catching up".to_owned()));
    let health = ask(address, b"GET /health HTTP/1.0\r\n\r\n").await;
    assert!(health.starts_with("HTTP/1.0 503 "), "{health}");
    assert!(health.ends_with("\r\n\r\ncatching up\n"), "{health}");
}

#[tokio::test]
async fn anything_else_is_refused_with_its_code() {
    let (address, _task) = start(Ok(()));
    let long = [b"GET /metrics HTTP/1.1\r\nX: ".as_slice(), &[b'a'; 70_000]].concat();
    for (bytes, code) in [
        (&b"GET / HTTP/1.0\r\n\r\n"[..], "404"),
        (b"GET /metrics/ HTTP/1.0\r\n\r\n", "404"),
        (
            b"POST /metrics HTTP/1.0\r\nContent-Length: 4\r\n\r\nbody",
            "405",
        ),
        (b"POST /none HTTP/1.0\r\n\r\n", "404"),
        (b"\x16\x03\x01\x02\r\n\r\n", "400"),
        (b"GET /metrics HTTP/1.1\r\n\r\n", "400"),
        (b"GET /metrics HTTP/3\r\n\r\n", "400"),
        (&long, "431"),
    ] {
        let answer = ask(address, bytes).await;
        let status = answer.split(' ').nth(1);
        assert_eq!(status, Some(code), "{answer}");
        assert_eq!(answer.contains("\r\nallow: GET, HEAD\r\n"), code == "405");
    }
}

#[tokio::test(start_paused = true)]
async fn silent_peers_hold_their_places_for_a_bounded_time() {
    let (address, _task) = start(Ok(()));
    let mut silent = Vec::new();
    for _ in 0..CONNECTIONS_MAX * 2 {
        silent.push(TcpStream::connect(address).await.unwrap());
    }
    // The clock moves by itself whenever everybody waits.
    let started = tokio::time::Instant::now();
    let health = ask(address, b"GET /health HTTP/1.0\r\n\r\n").await;
    assert!(health.starts_with("HTTP/1.0 200 "), "{health}");
    let waited = started.elapsed();
    assert!(waited >= EXCHANGE_MAX, "{waited:?}");
    for mut stream in silent {
        assert_eq!(stream.read(&mut [0; 16]).await.unwrap_or(0), 0);
    }
}
