//! Goal: whatever comes over a socket is answered in bounded memory and time, and only to those who may ask.
mod answers;
mod limits;
mod slow_readers;
mod streams;

use super::*;
use crate::{Answering, AskError, CallerRole, Events, Refusal, Request, Samples, Server, ask};
use serde_json::json;
use std::net::SocketAddr;
use std::sync::LazyLock;
use std::sync::atomic::AtomicBool;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Notify;

/// Answers each request with its debug text, and refuses two.
#[derive(Default)]
struct Echo {
    events: Events,
    samples: Samples,
    openapi: Bytes,
    /// Makes answers and samples long.
    filler: String,
    /// Tunnels stay until they are unwelcome.
    keeps_tunnels: bool,
    is_full: bool,
    /// No token is good any more.
    is_revoked: AtomicBool,
}

const PAGE: &[Asset] = &[Asset {
    path: "/",
    media_type: "text/html; charset=utf-8",
    bytes: b"<p>page",
}];

impl Desk for Echo {
    fn answer(&self, request: Request) -> Answering {
        let filler = self.filler.clone();
        Box::pin(async move {
            match request {
                Request::Reload { .. } => Err(Refusal::Refused("the file is wrong".to_owned())),
                Request::ClientShow { id } => {
                    Err(Refusal::NotFound(format!("there is no client {id}")))
                }
                other => Ok(json!(format!("{other:?}{filler}"))),
            }
        })
    }

    fn caller(&self, token: &str) -> Result<Caller, Denied> {
        let role = match token {
            _ if self.is_revoked.load(Ordering::Relaxed) => return Err(Denied::Unknown),
            "v" => CallerRole::Viewer,
            "o" => CallerRole::Operator,
            "a" => CallerRole::Admin,
            "old" => return Err(Denied::Expired),
            "busy" => return Err(Denied::Unavailable),
            _ => return Err(Denied::Unknown),
        };
        Ok(Caller {
            name: token.to_owned(),
            role,
            expires_at: None,
        })
    }

    fn events(&self) -> &Events {
        &self.events
    }

    fn sample(&self) -> Result<Value, Refusal> {
        Ok(json!({"status": {}, "health": {}, "filler": self.filler}))
    }

    fn samples(&self) -> &Samples {
        &self.samples
    }

    fn openapi(&self) -> Option<&Bytes> {
        Some(&self.openapi)
    }

    fn serve_nfs(
        &self,
        mut stream: Box<dyn crate::Stream>,
        peer: Arc<str>,
        until: crate::BoxFuture,
    ) -> crate::BoxFuture {
        let keeps_tunnels = self.keeps_tunnels;
        Box::pin(async move {
            let _ = stream.write_all(peer.as_bytes()).await;
            if keeps_tunnels {
                let _ = stream.flush().await;
                until.await;
            }
            let _ = stream.shutdown().await;
        })
    }

    fn has_room(&self) -> bool {
        !self.is_full
    }

    fn metrics(&self) -> Result<String, Refusal> {
        Ok("# EOF\n".to_owned())
    }

    fn assets(&self) -> &'static [Asset] {
        PAGE
    }
}

fn echo() -> Arc<dyn Desk> {
    Arc::new(Echo {
        openapi: Bytes::from_static(b"{\"openapi\":\"3.1.0\"}"),
        ..Echo::default()
    })
}

async fn network(desk: Arc<dyn Desk>) -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let listener = Listener::Either(listener, Arc::clone(&TLS.server));
    tokio::spawn(serve(listener, Door::Network, desk));
    address
}

/// TLS of one cluster.
struct Tls {
    server: Arc<rustls::ServerConfig>,
    client: Arc<rustls::ClientConfig>,
}

static TLS: LazyLock<Tls> = LazyLock::new(|| {
    let dir = tempfile::tempdir().unwrap();
    let ca = cluster_tls::ClusterCa::create(dir.path(), 1).unwrap();
    let cert = cluster_tls::AdminCert::make(&ca, &[]).unwrap();
    let certs = cluster_tls::AdminCerts::new(&cert).unwrap();
    let server = cluster_tls::admin_server_config(Arc::new(certs)).unwrap();
    let client = cluster_tls::admin_client_config(ca.fingerprint()).unwrap();
    Tls {
        server: Arc::new(server),
        client: Arc::new(client),
    }
});

/// A server that is asked with this token, over TLS.
fn server_at(address: SocketAddr, token: &str) -> Server {
    Server::Network {
        address: address.to_string(),
        token: token.to_owned(),
        tls: (Arc::clone(&TLS.client), cluster_tls::admin_name()),
    }
}

/// What is answered to these bytes; the server closes, or two seconds go by.
async fn exchange(address: SocketAddr, bytes: &[u8]) -> String {
    let mut stream = TcpStream::connect(address).await.unwrap();
    stream.write_all(bytes).await.unwrap();
    let mut answer = Vec::new();
    let reading = stream.read_to_end(&mut answer);
    let _ = timeout(Duration::from_secs(2), reading).await;
    String::from_utf8_lossy(&answer).into_owned()
}

async fn get(address: SocketAddr, target: &str, more: &str) -> String {
    let head = format!("GET {target} HTTP/1.1\r\nHost: a:1\r\nConnection: close\r\n{more}\r\n");
    exchange(address, head.as_bytes()).await
}

async fn post(address: SocketAddr, target: &str, more: &str, body: &str) -> String {
    let head = format!(
        "POST {target} HTTP/1.1\r\nHost: a:1\r\nConnection: close\r\nAuthorization: Bearer o\r\nContent-Length: {}\r\n{more}\r\n{body}",
        body.len()
    );
    exchange(address, head.as_bytes()).await
}

const VIEWER: &str = "Authorization: Bearer v\r\n";
const JSON: &str = "Content-Type: application/json\r\n";

#[tokio::test]
async fn the_page_and_the_document_need_no_token_and_all_else_does() {
    let address = network(echo()).await;
    let page = get(address, "/", "").await;
    assert!(
        page.starts_with("HTTP/1.1 200") && page.ends_with("<p>page"),
        "{page}"
    );
    assert!(
        page.contains("content-security-policy: default-src 'self'"),
        "{page}"
    );
    assert!(
        get(address, "/api/v1/openapi.json", "")
            .await
            .contains("3.1.0")
    );
    for (more, word) in [
        ("", "Bearer TOKEN"),
        ("Authorization: Basic v\r\n", "Bearer TOKEN"),
        ("Authorization: Bearer x\r\n", "unknown"),
        ("Authorization: Bearer old\r\n", "expired"),
    ] {
        let answer = get(address, "/api/v1/status", more).await;
        assert!(answer.starts_with("HTTP/1.1 401"), "{answer}");
        assert!(answer.contains("www-authenticate: Bearer"), "{answer}");
        assert!(answer.contains("application/problem+json"), "{answer}");
        assert!(answer.contains(word), "{answer}");
    }
    let status = get(address, "/api/v1/status", VIEWER).await;
    assert!(
        status.starts_with("HTTP/1.1 200") && status.ends_with("\"Status\""),
        "{status}"
    );
    assert!(
        get(address, "/metrics", "")
            .await
            .starts_with("HTTP/1.1 401")
    );
    let metrics = get(address, "/metrics", VIEWER).await;
    assert!(
        metrics.contains("openmetrics-text") && metrics.ends_with("# EOF\n"),
        "{metrics}"
    );
    let session = get(address, "/api/v1/session", "authorization: bearer v\r\n").await;
    assert!(session.contains("\"role\":\"viewer\""), "{session}");
}

#[tokio::test]
async fn roles_bound_what_is_done() {
    let address = network(echo()).await;
    let config = get(address, "/api/v1/config", VIEWER).await;
    assert!(
        config.starts_with("HTTP/1.1 403") && config.contains("operator"),
        "{config}"
    );
    let drained = post(address, "/api/v1/data-servers/3/drain", "", "").await;
    assert!(
        drained.contains("DsDrain { ds_id: 3, substitute: None, dry_run: false }"),
        "{drained}"
    );
    let reload = post(address, "/api/v1/reload", "", "").await;
    assert!(reload.starts_with("HTTP/1.1 403"), "{reload}");
    let shown = get(address, "/api/v1/clients/1", VIEWER).await;
    assert!(
        shown.starts_with("HTTP/1.1 404") && shown.contains("no client 1"),
        "{shown}"
    );
}

#[tokio::test]
async fn wrong_requests_get_their_status() {
    let address = network(echo()).await;
    let long = "x".repeat(BODY_BYTES_MAX + 1);
    for (answer, status) in [
        (get(address, "/nothing", "").await, "404"),
        (get(address, "/api/v1/nothing", VIEWER).await, "404"),
        (get(address, "/api/v1/scrub", VIEWER).await, "405"),
        (
            get(address, "/api/v1/status", "Origin: http://evil\r\n").await,
            "403",
        ),
        (post(address, "/api/v1/scrub", "", "{}").await, "415"),
        (post(address, "/api/v1/scrub", JSON, "{").await, "400"),
        (post(address, "/api/v1/scrub", JSON, &long).await, "413"),
        (post(address, "/", "", "").await, "405"),
        (exchange(address, b"\x7f\x03\x01\x02\r\n\r\n").await, "400"),
    ] {
        assert!(
            answer.starts_with(&format!("HTTP/1.1 {status}")),
            "{status}: {answer}"
        );
    }
    let refused = get(address, "/api/v1/scrub", VIEWER).await;
    assert!(refused.contains("allow: POST"), "{refused}");
    let long = get(
        address,
        "/",
        &format!("X: {}\r\n", "x".repeat(HEAD_BYTES_MAX)),
    )
    .await;
    assert!(long.starts_with("HTTP/1.1 431"), "{long}");
    let same = get(
        address,
        "/api/v1/status",
        &format!("Origin: http://a:1\r\n{VIEWER}"),
    )
    .await;
    assert!(same.starts_with("HTTP/1.1 200"), "{same}");
}

#[tokio::test]
async fn a_stream_has_samples_and_events_until_its_place_is_given_back() {
    let desk = echo();
    let address = network(Arc::clone(&desk)).await;
    tokio::spawn(crate::run_samples(Arc::clone(&desk)));
    let mut streams = Vec::new();
    for _ in 0..crate::STREAMS_MAX {
        let mut one = TcpStream::connect(address).await.unwrap();
        let head = format!("GET /api/v1/stream HTTP/1.1\r\nHost: a:1\r\n{VIEWER}\r\n");
        one.write_all(head.as_bytes()).await.unwrap();
        let mut begin = [0; 15];
        one.read_exact(&mut begin).await.unwrap();
        assert_eq!(&begin, b"HTTP/1.1 200 OK");
        streams.push(one);
    }
    let full = get(address, "/api/v1/stream", VIEWER).await;
    assert!(full.starts_with("HTTP/1.1 503"), "{full}");
    desk.events()
        .record(crate::Level::Warn, "a disk\nis full".to_owned());
    let mut text = String::new();
    let mut first = streams.pop().unwrap();
    while !(text.contains("event: sample") && text.contains("event: log")) {
        let mut piece = [0; 4096];
        let reading = timeout(Duration::from_secs(10), first.read(&mut piece));
        let count = reading.await.unwrap().unwrap();
        assert_ne!(count, 0, "{text}");
        text += &String::from_utf8_lossy(&piece[..count]);
    }
    assert!(text.contains(r#""text":"a disk\nis full""#), "{text}");
    drop((first, streams));
    for attempt in 0.. {
        let again = get(address, "/api/v1/stream", VIEWER).await;
        if again.starts_with("HTTP/1.1 200") {
            break;
        }
        assert!(attempt < 100, "{again}");
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
}

#[test]
fn who_opens_the_socket_is_an_admin_and_refusals_come_as_sentences() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("s");
    let server = Server::Socket(path.clone());
    let nobody = ask::<Value>(&server, &Request::Status).unwrap_err();
    assert!(matches!(nobody, AskError::Io(_)), "{nobody:?}");
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .build()
        .unwrap();
    let _inside = runtime.enter();
    let listener = tokio::net::UnixListener::bind(&path).unwrap();
    runtime.spawn(serve(Listener::Unix(listener), Door::Socket, echo()));
    let rotated: String = ask(&server, &Request::KeyRotate).unwrap();
    assert_eq!(rotated, "KeyRotate");
    let refused = ask::<Value>(&server, &Request::Reload { check: false }).unwrap_err();
    let AskError::Told(problem) = refused else {
        panic!("{refused:?}");
    };
    assert_eq!(
        (problem.status, &*problem.detail),
        (409, "the file is wrong")
    );
    let strange = ask::<u64>(&server, &Request::Scrub).unwrap_err();
    assert!(matches!(strange, AskError::Strange(_)), "{strange:?}");
}

#[tokio::test]
async fn an_admin_gets_a_tunnel_and_nobody_else() {
    let address = network(echo()).await;
    let server = |token: &str| server_at(address, token);
    let refused = crate::open_tunnel(&server("o")).await.err().unwrap();
    assert!(
        matches!(&refused, AskError::Told(p) if p.status == 403),
        "{refused:?}"
    );
    let plain = get(address, "/api/v1/nfs", "Authorization: Bearer a\r\n").await;
    assert!(plain.starts_with("HTTP/1.1 426"), "{plain}");
    let mut tunnel = crate::open_tunnel(&server("a")).await.unwrap();
    let mut text = String::new();
    tunnel.read_to_string(&mut text).await.unwrap();
    assert!(text.starts_with("admin a #"), "{text}");
}

#[tokio::test(flavor = "multi_thread")]
async fn commands_ask_over_tls_where_browsers_may_do_without() {
    let address = network(echo()).await;
    let by_command = tokio::task::spawn_blocking(move || {
        ask::<String>(&server_at(address, "v"), &Request::Status).unwrap()
    });
    assert_eq!(by_command.await.unwrap(), "Status");
    let in_clear = get(address, "/api/v1/status", VIEWER).await;
    assert!(in_clear.ends_with("\"Status\""), "{in_clear}");
}

#[tokio::test]
async fn an_order_goes_on_when_its_caller_has_gone() {
    let desk = Arc::new(Slow::default());
    let address = network(Arc::clone(&desk) as Arc<dyn Desk>).await;
    let mut caller = TcpStream::connect(address).await.unwrap();
    let head = "POST /api/v1/scrub HTTP/1.1\r\nHost: a:1\r\nAuthorization: Bearer o\r\nContent-Length: 0\r\n\r\n";
    caller.write_all(head.as_bytes()).await.unwrap();
    desk.begun.notified().await;
    drop(caller);
    tokio::time::sleep(Duration::from_millis(100)).await;
    desk.go_on.notify_one();
    let done = timeout(Duration::from_secs(5), desk.done.notified()).await;
    done.expect("it was done all the same");
}

/// Answers when it is told to.
#[derive(Default)]
struct Slow {
    begun: Arc<Notify>,
    go_on: Arc<Notify>,
    done: Arc<Notify>,
    events: Events,
    samples: Samples,
}

impl Desk for Slow {
    fn answer(&self, _request: Request) -> Answering {
        let (begun, go_on, done) = (
            Arc::clone(&self.begun),
            Arc::clone(&self.go_on),
            Arc::clone(&self.done),
        );
        Box::pin(async move {
            begun.notify_one();
            go_on.notified().await;
            done.notify_one();
            Ok(Value::Null)
        })
    }

    fn caller(&self, token: &str) -> Result<Caller, Denied> {
        let expires_at = None;
        let (name, role) = (token.to_owned(), CallerRole::Operator);
        Ok(Caller {
            name,
            role,
            expires_at,
        })
    }

    fn events(&self) -> &Events {
        &self.events
    }

    fn sample(&self) -> Result<Value, Refusal> {
        Ok(json!({"status": {}, "health": {}}))
    }

    fn samples(&self) -> &Samples {
        &self.samples
    }

    fn openapi(&self) -> Option<&Bytes> {
        None
    }

    fn serve_nfs(
        &self,
        _stream: Box<dyn crate::Stream>,
        _peer: Arc<str>,
        until: crate::BoxFuture,
    ) -> crate::BoxFuture {
        until
    }

    fn has_room(&self) -> bool {
        true
    }

    fn metrics(&self) -> Result<String, Refusal> {
        Ok(String::new())
    }

    fn assets(&self) -> &'static [Asset] {
        &[]
    }
}
