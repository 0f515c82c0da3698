//! `metrics_listen`: `GET /metrics` and `GET /health` over a minimal HTTP/1.1 (RFC 9110, RFC 9112).
//!
//! One request for each connection, without a body. Nobody is authenticated, so the page holds only counts; it is off
//! unless an address is configured.
//!
//! # Failure
//! Everything a peer can do is bounded: the bytes of a request, the time of an exchange, and the connections at once. A
//! request that cannot be read is answered with its status code and the connection is closed.

mod foreign;
mod http;
mod latency;
mod page;
mod pairs;

use crate::status::ServerStatus;
use ::admin::OPEN_METRICS;
use http::{Answer, Head, PLAIN};
pub(crate) use page::page;
use std::future::Future;
use std::sync::Arc;
use std::time::Duration;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Semaphore;
use tokio::task::JoinSet;

/// Connections served at once; more wait in the kernel's queue.
const CONNECTIONS_MAX: usize = 16;
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
    let answer = match http::read_head(&mut stream).await? {
        Head::None => return Ok(()),
        Head::TooLong => Answer::failure(431, "Request Header Fields Too Large"),
        Head::Whole(bytes) => answer(&bytes, watched).await,
    };
    stream.write_all(&answer.to_bytes()).await?;
    stream.shutdown().await?;
    let mut rest = stream.take(IGNORED_BYTES_MAX);
    tokio::io::copy(&mut rest, &mut tokio::io::sink()).await?;
    Ok(())
}

async fn answer<W: Watched>(head: &[u8], watched: &W) -> Answer {
    let request = match http::parse(head) {
        Ok(request) => request,
        Err(refused) => return refused,
    };
    let is_known = matches!(request.path, "/metrics" | "/health");
    if !is_known {
        return Answer::failure(404, "Not Found");
    }
    if !matches!(request.method, "GET" | "HEAD") {
        return Answer::failure(405, "Method Not Allowed").allowing("GET, HEAD");
    }
    let answer = if request.path == "/health" {
        health(watched).await
    } else {
        match page(watched.snapshot()) {
            Ok(text) => Answer::new(200, "OK", OPEN_METRICS, text),
            Err(_) => Answer::failure(500, "Internal Server Error"),
        }
    };
    if request.method == "HEAD" {
        answer.without_body()
    } else {
        answer
    }
}

async fn health<W: Watched>(watched: &W) -> Answer {
    let health = tokio::time::timeout(HEALTH_MAX, watched.health());
    match health.await {
        Ok(Ok(())) => Answer::new(200, "OK", PLAIN, "serving\n".to_owned()),
        Ok(Err(why)) => Answer::new(503, "Service Unavailable", PLAIN, format!("{why}\n")),
        Err(_) => {
            let why = format!("no answer in {} s\n", HEALTH_MAX.as_secs());
            Answer::new(503, "Service Unavailable", PLAIN, why)
        }
    }
}

#[cfg(test)]
mod packaged;
#[cfg(test)]
mod tests;
