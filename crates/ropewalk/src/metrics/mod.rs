//! `metrics_listen`: `GET /metrics` and `GET /health` over HTTP/1.1 (RFC 9110, RFC 9112).
//!
//! One request for each connection, without a body. Nobody is authenticated, so the page holds only counts; it is off
//! unless an address is configured.
//!
//! # Failure
//! Everything a peer can do is bounded: the bytes of a request, the time of an exchange, and the connections at once. A
//! request that cannot be read is answered with its status code and the connection is closed.

mod foreign;
mod latency;
mod page;
mod pairs;

use crate::status::ServerStatus;
use ::admin::OPEN_METRICS;
use bytes::Bytes;
use http::header::{ALLOW, CACHE_CONTROL, CONTENT_TYPE, HOST, HeaderValue};
use http::{Method, Request, Response, StatusCode, Version};
use http_body_util::Full;
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
pub(crate) use page::page;
use std::convert::Infallible;
use std::future::Future;
use std::sync::Arc;
use std::time::Duration;
use tokio::io::AsyncReadExt;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Semaphore;
use tokio::task::JoinSet;

/// Connections served at once; more wait in the kernel's queue.
const CONNECTIONS_MAX: usize = 16;
/// Longest head of a request in bytes, its end included.
const HEAD_BYTES_MAX: usize = 8 * 1024;
/// Media type of a sentence.
const PLAIN: &str = "text/plain; charset=utf-8";
/// How long one exchange may take.
const EXCHANGE_MAX: Duration = Duration::from_secs(10);
/// How long the health of a server may take to show.
const HEALTH_MAX: Duration = Duration::from_secs(5);
/// Pause after a failed accept.
const ACCEPT_RETRY: Duration = Duration::from_millis(100);
/// Bytes of a body that are read and thrown away, so that closing does not reset the answer away.
const IGNORED_BYTES_MAX: u64 = 64 * 1024;

/// A server that can be watched.
pub(crate) trait Watched: Send + Sync + 'static {
    /// What it counts.
    fn snapshot(&self) -> ServerStatus;

    /// Whether it serves; if not, why.
    fn health(&self) -> impl Future<Output = Result<(), String>> + Send;
}

/// Serves the listeners until the task is dropped. Needs a runtime.
pub(crate) async fn serve<W: Watched>(listeners: Vec<transport::tcp::Listener>, watched: Arc<W>) {
    let places = Arc::new(Semaphore::new(CONNECTIONS_MAX));
    let mut tasks = JoinSet::new();
    for listener in listeners {
        match TcpListener::from_std(listener.into_socket()) {
            Ok(listener) => {
                tasks.spawn(accept(listener, Arc::clone(&watched), Arc::clone(&places)));
            }
            Err(error) => tracing::error!(%error, "metrics cannot be served"),
        }
    }
    while tasks.join_next().await.is_some() {}
}

async fn accept<W: Watched>(listener: TcpListener, watched: Arc<W>, places: Arc<Semaphore>) {
    let mut exchanges = JoinSet::new();
    loop {
        let place = Arc::clone(&places).acquire_owned().await;
        let place = place.expect("the semaphore is never closed");
        let stream = match listener.accept().await {
            Ok((stream, _)) => stream,
            Err(error) => {
                tracing::debug!(%error, "metrics listener");
                tokio::time::sleep(ACCEPT_RETRY).await;
                continue;
            }
        };
        while exchanges.try_join_next().is_some() {}
        let watched = Arc::clone(&watched);
        exchanges.spawn(async move {
            let _place = place;
            // A peer that is slow or gone is no concern of anybody else.
            let _ = tokio::time::timeout(EXCHANGE_MAX, exchange(stream, &*watched)).await;
        });
    }
}

async fn exchange<W: Watched>(mut stream: TcpStream, watched: &W) -> std::io::Result<()> {
    let service =
        service_fn(|request| async move { Ok::<_, Infallible>(answer(request, watched).await) });
    let mut builder = http1::Builder::new();
    builder.keep_alive(false).max_buf_size(HEAD_BYTES_MAX);
    // The whole exchange has a limit.
    builder.header_read_timeout(None);
    // What cannot be read was answered with its status.
    let _ = builder
        .serve_connection(TokioIo::new(&mut stream), service)
        .await;
    let mut rest = stream.take(IGNORED_BYTES_MAX);
    tokio::io::copy(&mut rest, &mut tokio::io::sink()).await?;
    Ok(())
}

async fn answer<W: Watched>(request: Request<Incoming>, watched: &W) -> Response<Full<Bytes>> {
    // RFC 9112 §3.2 demands that one without Host is refused.
    if request.version() == Version::HTTP_11 && !request.headers().contains_key(HOST) {
        return failure(StatusCode::BAD_REQUEST);
    }
    let path = request.uri().path();
    if !matches!(path, "/metrics" | "/health") {
        return failure(StatusCode::NOT_FOUND);
    }
    // HEAD is answered as GET; hyper leaves the body out.
    if !matches!(*request.method(), Method::GET | Method::HEAD) {
        let mut refused = failure(StatusCode::METHOD_NOT_ALLOWED);
        let methods = HeaderValue::from_static("GET, HEAD");
        refused.headers_mut().insert(ALLOW, methods);
        return refused;
    }
    if path == "/health" {
        return health(watched).await;
    }
    match page(watched.snapshot()) {
        Ok(text) => whole(StatusCode::OK, OPEN_METRICS, text),
        Err(_) => failure(StatusCode::INTERNAL_SERVER_ERROR),
    }
}

async fn health<W: Watched>(watched: &W) -> Response<Full<Bytes>> {
    let health = tokio::time::timeout(HEALTH_MAX, watched.health());
    let why = match health.await {
        Ok(Ok(())) => return whole(StatusCode::OK, PLAIN, "serving\n".to_owned()),
        Ok(Err(why)) => format!("{why}\n"),
        Err(_) => format!("no answer in {} s\n", HEALTH_MAX.as_secs()),
    };
    whole(StatusCode::SERVICE_UNAVAILABLE, PLAIN, why)
}

/// An answer that says only the words of its status.
fn failure(status: StatusCode) -> Response<Full<Bytes>> {
    let words = status.canonical_reason().unwrap_or_default();
    whole(status, PLAIN, format!("{words}\n"))
}

fn whole(status: StatusCode, media_type: &'static str, body: String) -> Response<Full<Bytes>> {
    let mut response = Response::new(Full::from(body));
    *response.status_mut() = status;
    let headers = response.headers_mut();
    headers.insert(CONTENT_TYPE, HeaderValue::from_static(media_type));
    headers.insert(CACHE_CONTROL, HeaderValue::from_static("no-store"));
    response
}

#[cfg(test)]
mod packaged;
#[cfg(test)]
mod tests;
