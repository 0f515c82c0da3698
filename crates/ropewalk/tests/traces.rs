//! Goal: traces reach a collector of OpenTelemetry, and one that is away costs no request. Method: the real program, and a collector
//! that keeps what it is sent.
#![allow(
    clippy::unwrap_used,
    reason = "a failure here is the failure of a test"
)]

mod rig;

use rig::{LoneMds, run, status};
use serde_json::Value;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpListener};
use std::sync::mpsc::{Receiver, channel};
use std::time::{Duration, Instant};

/// How long the batches of a test may take to come; the SDK sends every 5 s.
const BATCHES_MAX: Duration = Duration::from_secs(60);

fn config(nfs: SocketAddr, collector: SocketAddr) -> String {
    format!(
        "listen = ['{nfs}']\ncontrol_listen = ['{}']\ntraces_endpoint = 'http://{collector}'\ntraces_every = 1\n",
        rig::address()
    )
}

/// A collector that hands on each batch.
fn collector() -> (SocketAddr, Receiver<Value>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    let (sender, batches) = channel();
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            let mut reader = BufReader::new(stream.unwrap());
            let mut line = String::new();
            reader.read_line(&mut line).unwrap();
            assert_eq!(line.trim_end(), "POST /v1/traces HTTP/1.1");
            let mut length = 0;
            loop {
                line.clear();
                reader.read_line(&mut line).unwrap();
                let field = line.trim_end().to_ascii_lowercase();
                if let Some(bytes) = field.strip_prefix("content-length:") {
                    length = bytes.trim().parse().unwrap();
                }
                if field.is_empty() {
                    break;
                }
            }
            let mut body = vec![0; length];
            reader.read_exact(&mut body).unwrap();
            let answer =
                b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: 2\r\n\r\n{}";
            reader.get_mut().write_all(answer).unwrap();
            if sender.send(serde_json::from_slice(&body).unwrap()).is_err() {
                return;
            }
        }
    });
    (address, batches)
}

fn spans(batch: &Value) -> Vec<&Value> {
    let resources = batch["resourceSpans"].as_array().unwrap().iter();
    let scopes = resources.flat_map(|resource| resource["scopeSpans"].as_array().unwrap());
    scopes
        .flat_map(|scope| scope["spans"].as_array().unwrap())
        .collect()
}

/// An attribute of text.
fn attribute<'v>(span: &'v Value, key: &str) -> Option<&'v str> {
    let attributes = span["attributes"].as_array()?;
    let found = attributes.iter().find(|one| one["key"] == key)?;
    found["value"]["stringValue"].as_str()
}

#[test]
fn a_collector_gets_a_span_for_each_request_and_for_each_of_its_operations() {
    let (collector, batches) = collector();
    let nfs = rig::address();
    let server = LoneMds::start(7, &config(nfs, collector));
    status(server.dir.path()).unwrap();
    let listed = run(&["ls", &format!("nfs://{nfs}/")]);
    assert!(listed.status.success(), "{listed:?}");

    let deadline = Instant::now() + BATCHES_MAX;
    let (batch, request) = loop {
        let left = deadline.saturating_duration_since(Instant::now());
        let batch = batches.recv_timeout(left).unwrap();
        let spans = spans(&batch).into_iter();
        let mut named = spans.filter(|span| attribute(span, "rpc.method") == Some("READDIR"));
        if let Some(request) = named.next().cloned() {
            break (batch, request);
        }
    };
    assert_eq!(request["name"], "READDIR");
    assert_eq!(request["kind"], 2, "a server's: {request}");
    assert_eq!(attribute(&request, "nfs.version"), Some("4.2"));
    assert_eq!(attribute(&request, "network.transport"), Some("tcp"));
    assert_eq!(
        attribute(&request, "network.peer.address"),
        Some("127.0.0.1")
    );
    assert_eq!(
        attribute(&request, "rpc.response.status_code"),
        Some("NFS4_OK")
    );
    let steps: Vec<&str> = spans(&batch)
        .into_iter()
        .filter(|span| span["parentSpanId"] == request["spanId"])
        .map(|span| span["name"].as_str().unwrap())
        .collect();
    assert_eq!(steps.first(), Some(&"SEQUENCE"), "{steps:?}");
    assert!(steps.contains(&"READDIR"), "{steps:?}");
    assert_eq!(steps.last(), Some(&"settle"), "{steps:?}");
    let service = &batch["resourceSpans"][0]["resource"];
    assert_eq!(attribute(service, "service.name"), Some("ropewalk-mds"));
}

#[test]
fn a_collector_that_is_away_is_told_once_and_requests_go_on() {
    // Nobody listens there.
    let away = rig::address();
    let nfs = rig::address();
    let server = LoneMds::start(7, &config(nfs, away));
    let log = || std::fs::read_to_string(server.dir.path().join("log")).unwrap();
    let told = |text: &str| text.matches("takes no traces").count();
    let deadline = Instant::now() + BATCHES_MAX;
    while told(&log()) == 0 {
        assert!(Instant::now() < deadline, "{}", log());
        let listed = run(&["ls", &format!("nfs://{nfs}/")]);
        assert!(listed.status.success(), "{listed:?}");
    }
    assert_eq!(told(&log()), 1, "{}", log());
}
