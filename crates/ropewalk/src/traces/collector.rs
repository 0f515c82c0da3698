//! How traces reach the collector: one HTTP request for each batch, over a connection of its own.
//!
//! Runs on the thread of the SDK's batch processor, which may block. Tells the log when the collector goes away and comes
//! back, and nothing in between.

use bytes::Bytes;
use http::{Request, Response, Uri};
use http_body_util::{BodyExt, Full, Limited};
use hyper::client::conn::http1;
use hyper_util::rt::TokioIo;
use opentelemetry_http::{HttpClient, HttpError};
use std::pin::Pin;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::time::Duration;
use tokio::net::TcpStream;

/// How long the collector may take for one batch.
const BATCH_MAX: Duration = Duration::from_secs(5);
/// Bytes of its answer, which says little.
const ANSWER_BYTES_MAX: usize = 64 * 1024;

type Answer = Result<Response<Bytes>, HttpError>;

/// A collector of OpenTelemetry.
#[derive(Debug)]
pub(super) struct Collector {
    /// `HOST:PORT`.
    authority: String,
    is_away: AtomicBool,
}

impl Collector {
    /// The collector at `http://HOST:PORT`.
    pub(super) fn of(endpoint: &str) -> Result<Self, String> {
        let uri: Uri = endpoint.parse().map_err(|e| format!("{endpoint}: {e}"))?;
        let is_http = uri.scheme_str() == Some("http") && matches!(uri.path(), "" | "/");
        let authority = uri
            .authority()
            .filter(|at| is_http && at.port().is_some() && uri.query().is_none());
        let authority = authority.ok_or_else(|| {
            format!("{endpoint} is no address of a collector: write http://HOST:PORT, such as http://127.0.0.1:4318")
        })?;
        Ok(Self {
            authority: authority.as_str().to_owned(),
            is_away: AtomicBool::new(false),
        })
    }

    fn send(&self, request: Request<Bytes>) -> Answer {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()?;
        let sent = async { tokio::time::timeout(BATCH_MAX, post(&self.authority, request)).await };
        let sent = runtime.block_on(sent);
        sent.unwrap_or_else(|_| Err(format!("no answer within {BATCH_MAX:?}").into()))
    }

    /// Tells the log what has changed.
    fn judge(&self, sent: &Answer) {
        let why = match sent {
            Ok(answer) if answer.status().is_success() => None,
            Ok(answer) => Some(format!("it answers {}", answer.status())),
            Err(e) => Some(e.to_string()),
        };
        let was_away = self.is_away.swap(why.is_some(), Relaxed);
        match why {
            Some(why) if !was_away => {
                tracing::warn!(
                    "the collector at {} takes no traces, which are dropped: {why}",
                    self.authority
                );
            }
            None if was_away => {
                tracing::info!("the collector at {} takes traces again", self.authority);
            }
            _ => {}
        }
    }
}

impl HttpClient for Collector {
    /// Blocks: the thread of the batch processor has no runtime, and waits for the answer anyway.
    fn send_bytes<'c, 'f>(
        &'c self,
        request: Request<Bytes>,
    ) -> Pin<Box<dyn Future<Output = Answer> + Send + 'f>>
    where
        'c: 'f,
        Self: 'f,
    {
        let sent = self.send(request);
        self.judge(&sent);
        Box::pin(std::future::ready(sent))
    }
}

async fn post(authority: &str, request: Request<Bytes>) -> Answer {
    let stream = TcpStream::connect(authority).await?;
    let (mut sender, connection) = http1::handshake(TokioIo::new(stream)).await?;
    let connection = tokio::spawn(connection);
    let (mut parts, body) = request.into_parts();
    parts.headers.insert(http::header::HOST, authority.parse()?);
    let path = parts.uri.path().parse()?;
    parts.uri = path;
    let answer = sender
        .send_request(Request::from_parts(parts, Full::new(body)))
        .await?;
    let (parts, body) = answer.into_parts();
    let body = Limited::new(body, ANSWER_BYTES_MAX)
        .collect()
        .await?
        .to_bytes();
    connection.abort();
    Ok(Response::from_parts(parts, body))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_is_a_host_and_a_port_over_http() {
        for good in [
            "http://127.0.0.1:4318",
            "http://collector.example:4318/",
            "http://[::1]:4318",
        ] {
            assert!(Collector::of(good).is_ok(), "{good}");
        }
        for bad in [
            "",
            "127.0.0.1:4318",
            "https://a:4318",
            "http://a",
            "http://a:4318/v1/traces",
            "http://a:1/?b",
            "a b",
        ] {
            let why = Collector::of(bad).unwrap_err();
            assert!(!why.is_empty(), "{bad}");
        }
    }
}
