//! NFS with the rights of an administrator: a request that turns its connection into a stream of RPC records.
//!
//! `GET /api/v1/nfs` with `Upgrade: ropewalk-nfs` (RFC 9110 §7.8), in the role admin. Whatever exports say, the peer's
//! identity counts as it tells it. So who may ask the API as an admin may do what root could on a mount.
//!
//! # Failure
//! A tunnel ends within [`LOOK`] when its token is revoked or over.

use crate::ask::{AskError, Server, broken, head, read, send};
use crate::caller::Caller;
use crate::desk::Desk;
use crate::events::AUDIT_TARGET;
use crate::http_form::GET_AND_HEAD;
use crate::problem::Problem;
use crate::route::API_ROOT;
use crate::tls::Stream;
use bytes::Bytes;
use http::header::{CONNECTION, UPGRADE};
use http::{HeaderValue, Method, Request as HttpRequest, Response, StatusCode};
use hyper::body::Incoming;
use hyper_util::rt::TokioIo;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;
use tokio::sync::OwnedSemaphorePermit;

/// Its path below the root of the API.
pub(crate) const PATH: &str = "/nfs";
/// The protocol that a connection is turned into.
pub(crate) const PROTOCOL: &str = "ropewalk-nfs";
/// How often the token is looked at while a tunnel is open.
pub(crate) const LOOK: Duration = Duration::from_secs(2);
/// Longest body of a refusal.
const PROBLEM_BYTES_MAX: usize = 64 * 1024;

/// Whether a request asks for a tunnel.
///
/// # Errors
/// 405 for another method, 426 for a GET that wants no tunnel (RFC 9110 §15.5.22).
pub(crate) fn check(request: &HttpRequest<Incoming>) -> Result<(), Problem> {
    let wanted = request.headers().get(UPGRADE);
    let is_tunnel = wanted.is_some_and(|w| w.as_bytes().eq_ignore_ascii_case(PROTOCOL.as_bytes()));
    match *request.method() {
        Method::GET if is_tunnel => Ok(()),
        Method::GET | Method::HEAD => {
            let detail = format!("this path takes GET with `Upgrade: {PROTOCOL}`");
            let problem = Problem::new(StatusCode::UPGRADE_REQUIRED, detail);
            let problem = problem.with(UPGRADE, PROTOCOL);
            Err(problem.with(CONNECTION, "upgrade"))
        }
        _ => Err(Problem::method_not_allowed(GET_AND_HEAD)),
    }
}

/// Serves the tunnel once the answer is on its way.
pub(crate) fn open(
    request: HttpRequest<Incoming>,
    desk: Arc<dyn Desk>,
    caller: &Caller,
    place: OwnedSemaphorePermit,
    is_welcome: impl Fn() -> bool + Send + Sync + 'static,
) {
    let peer: Arc<str> = format!("admin {} #{}", caller.name, next_number()).into();
    tokio::spawn(async move {
        let _place = place;
        let upgraded = match hyper::upgrade::on(request).await {
            Ok(upgraded) => upgraded,
            Err(error) => return tracing::debug!(%error, "tunnel"),
        };
        tracing::info!(target: AUDIT_TARGET, peer = &*peer, "audit: a tunnel is open");
        let stream: Box<dyn Stream> = Box::new(TokioIo::new(upgraded));
        let until = Box::pin(until_unwelcome(is_welcome));
        desk.serve_nfs(stream, Arc::clone(&peer), until).await;
        tracing::info!(target: AUDIT_TARGET, peer = &*peer, "audit: a tunnel has ended");
    });
}

/// Tells tunnels of one name apart.
fn next_number() -> u64 {
    static LAST: AtomicU64 = AtomicU64::new(0);
    LAST.fetch_add(1, Ordering::Relaxed) + 1
}

async fn until_unwelcome(is_welcome: impl Fn() -> bool) {
    while is_welcome() {
        tokio::time::sleep(LOOK).await;
    }
}

/// The head of the answer that opens a tunnel.
pub(crate) fn switch<B>(mut response: Response<B>) -> Response<B> {
    *response.status_mut() = StatusCode::SWITCHING_PROTOCOLS;
    let headers = response.headers_mut();
    headers.insert(CONNECTION, HeaderValue::from_static("upgrade"));
    headers.insert(UPGRADE, HeaderValue::from_static(PROTOCOL));
    response
}

/// Opens a tunnel to a server. Needs a runtime.
///
/// # Errors
/// [`AskError`].
pub async fn open_tunnel(server: &Server) -> Result<Box<dyn Stream>, AskError> {
    let request = head(server)
        .uri(format!("{API_ROOT}{PATH}"))
        .header(CONNECTION, "upgrade")
        .header(UPGRADE, PROTOCOL);
    let response = send(server, request, Bytes::new()).await?;
    if response.status() == StatusCode::SWITCHING_PROTOCOLS {
        let upgraded = hyper::upgrade::on(response).await.map_err(broken)?;
        return Ok(Box::new(TokioIo::new(upgraded)));
    }
    let body = read(response, PROBLEM_BYTES_MAX).await?;
    let problem = serde_json::from_slice(&body);
    Err(problem.map_or_else(|e| AskError::Strange(e.to_string()), AskError::Told))
}
