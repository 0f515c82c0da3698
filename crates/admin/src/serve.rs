//! The HTTP server of the API (RFC 9110, RFC 9112): who is asked, in which role, and how it is answered.
//!
//! # Ordering
//! The token is checked before the body is read. The body is read whole before anything is done.
//!
//! # Failure
//! A peer is bounded in connections, in the bytes and the time of a head and a body, in streams, and in the time in which it takes nothing
//! of an answer. What it does wrong is answered with a problem document. An order goes into the log with its caller and its end.

use crate::by_address::ByAddress;
use crate::caller::{Caller, CallerRole, Denied};
use crate::desk::{Asset, Desk};
use crate::events::AUDIT_TARGET;
use crate::http_form::{GET_AND_HEAD, decode, find};
use crate::problem::{PROBLEM_JSON, Problem};
use crate::route::{API_ROOT, Route};
use crate::samples::{STREAMS_MAX, TUNNELS_MAX};
use crate::stream;
use crate::tls::{Accepted, Listener};
use crate::tunnel;
use bytes::Bytes;
use http::header::{
    AUTHORIZATION, CACHE_CONTROL, CONTENT_SECURITY_POLICY, CONTENT_TYPE, HOST, HeaderName,
    HeaderValue, ORIGIN, REFERRER_POLICY, X_CONTENT_TYPE_OPTIONS,
};
use http::{Method, Request as HttpRequest, Response, StatusCode};
use http_body_util::channel::Channel;
use http_body_util::combinators::BoxBody;
use http_body_util::{BodyExt, Full, LengthLimitError, Limited};
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use serde::Serialize;
use serde_json::Value;
use std::convert::Infallible;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;
use tokio::sync::Semaphore;
use tokio::task::JoinSet;
use tokio::time::timeout;

/// Connections of one listener at once; more wait in the kernel's queue.
pub const CONNECTIONS_MAX: usize = 64;
/// Longest head of a request in bytes.
pub const HEAD_BYTES_MAX: usize = 16 * 1024;
/// Longest body of a request in bytes.
pub const BODY_BYTES_MAX: usize = 64 * 1024;
/// Most headers of a request.
const HEADERS_MAX: usize = 64;
/// How long a head may take; an idle connection ends after that.
const HEAD_MAX: Duration = Duration::from_secs(20);
/// How long a body may take.
const BODY_MAX: Duration = Duration::from_secs(10);
/// After so long without an acknowledgement by the peer a connection ends.
const PEER_SILENCE_MAX: Duration = Duration::from_secs(60);
/// Pause after a failed accept.
const ACCEPT_RETRY: Duration = Duration::from_millis(100);
/// Media type of a body.
const JSON: &str = "application/json";
/// Scheme of the header with the token (RFC 6750 §2.1).
const BEARER: &str = "Bearer ";
/// What a page may load: nothing from elsewhere. No other page may frame it.
pub const CONTENT_POLICY: &str =
    "default-src 'self'; frame-ancestors 'none'; base-uri 'none'; form-action 'none'";
/// Where Prometheus asks, with a token.
const METRICS_PATH: &str = "/metrics";
/// Media type of what it is answered (OpenMetrics 1.0).
pub const OPEN_METRICS: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";
const REQUEST_ID: HeaderName = HeaderName::from_static("x-request-id");

/// Where callers come in.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Door {
    /// By the admin socket, whose mode says who can.
    Socket,
    /// By the network: each request has a token.
    Network,
}

type Body = BoxBody<Bytes, Infallible>;

/// What one listener serves.
struct ApiService {
    desk: Arc<dyn Desk>,
    door: Door,
}

/// Serves a listener until the task is dropped. Needs a runtime.
pub async fn serve(listener: Listener, door: Door, desk: Arc<dyn Desk>) {
    let places = Arc::new(Semaphore::new(CONNECTIONS_MAX));
    let by_address = Arc::new(ByAddress::default());
    let service = Arc::new(ApiService { desk, door });
    let mut connections = JoinSet::new();
    loop {
        let place = Arc::clone(&places).acquire_owned().await;
        let place = place.expect("the semaphore is never closed");
        let accepted = match listener.accept().await {
            Ok(accepted) => accepted,
            Err(error) => {
                tracing::warn!(%error, "administration listener");
                tokio::time::sleep(ACCEPT_RETRY).await;
                continue;
            }
        };
        while connections.try_join_next().is_some() {}
        let service = Arc::clone(&service);
        let counted = by_address.place(accepted.peer(), service.desk.samples());
        let Some(counted) = counted else {
            continue;
        };
        connections.spawn(async move {
            let (_place, _counted) = (place, counted);
            service.connection(accepted).await;
        });
    }
}

impl ApiService {
    async fn connection(self: Arc<Self>, accepted: Accepted) {
        let peer = accepted.peer();
        if let Accepted::Either(stream, _, _) | Accepted::Tls(stream, _, _) = &accepted {
            let socket = socket2::SockRef::from(stream);
            let _ = socket.set_tcp_user_timeout(Some(PEER_SILENCE_MAX));
            let _ = stream.set_nodelay(true);
        }
        let stream = match accepted.open().await {
            Ok(stream) => stream,
            Err(error) => return tracing::debug!(%error, ?peer, "administration handshake"),
        };
        let service = service_fn(move |request| {
            let service = Arc::clone(&self);
            async move { Ok::<_, Infallible>(service.answer(request, peer).await) }
        });
        let served = http1::Builder::new()
            .timer(TokioTimer::new())
            .header_read_timeout(HEAD_MAX)
            .max_buf_size(HEAD_BYTES_MAX)
            .max_headers(HEADERS_MAX)
            .serve_connection(TokioIo::new(stream), service)
            .with_upgrades()
            .await;
        if let Err(error) = served {
            tracing::debug!(%error, ?peer, "administration connection");
        }
    }

    async fn answer(
        &self,
        request: HttpRequest<Incoming>,
        peer: Option<SocketAddr>,
    ) -> Response<Body> {
        let id = next_request_id();
        let mut response = match self.dispatch(request, peer, id).await {
            Ok(response) => response,
            Err(problem) => {
                tell_of_denial(&problem, (peer, id));
                problem_response(&problem)
            }
        };
        let headers = response.headers_mut();
        headers.insert(X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff"));
        headers.insert(REFERRER_POLICY, HeaderValue::from_static("no-referrer"));
        headers.insert(
            CONTENT_SECURITY_POLICY,
            HeaderValue::from_static(CONTENT_POLICY),
        );
        headers.insert(REQUEST_ID, HeaderValue::from(id));
        response
    }

    async fn dispatch(
        &self,
        request: HttpRequest<Incoming>,
        peer: Option<SocketAddr>,
        id: u64,
    ) -> Result<Response<Body>, Problem> {
        refuse_other_sites(&request)?;
        let path = request.uri().path().to_owned();
        if path == METRICS_PATH {
            need_get(&request)?;
            self.admit(bearer(&request).as_deref())?;
            return Ok(metrics_response(self.desk.metrics()?));
        }
        let Some(below) = path.strip_prefix(API_ROOT).filter(|p| p.starts_with('/')) else {
            let asset = self.desk.assets().iter().find(|a| a.path == path);
            let asset = asset.ok_or_else(|| {
                let detail = format!("there is no {path}; the API is below {API_ROOT}");
                Problem::new(StatusCode::NOT_FOUND, detail)
            })?;
            need_get(&request)?;
            return Ok(asset_response(asset));
        };
        if below == "/openapi.json" {
            need_get(&request)?;
            let document = self.desk.openapi().ok_or_else(|| {
                let detail = "this server has no document; ask the metadata server";
                Problem::new(StatusCode::NOT_FOUND, detail)
            })?;
            return Ok(json_bytes(document.clone()));
        }
        let token = bearer(&request);
        let caller = self.admit(token.as_deref())?;
        match below {
            "/session" => need_get(&request).and_then(|()| json_response(&caller)),
            "/stream" => need_get(&request).and_then(|()| self.stream(&request, token)),
            tunnel::PATH => self.tunnel(request, &caller, token),
            _ => self.order(request, below, &caller, (peer, id)).await,
        }
    }

    fn admit(&self, token: Option<&str>) -> Result<Caller, Problem> {
        match (self.door, token) {
            (Door::Socket, _) => Ok(Caller::at_socket()),
            (Door::Network, None) => Err(Denied::Missing.into()),
            (Door::Network, Some(token)) => Ok(self.desk.caller(token)?),
        }
    }

    fn stream(
        &self,
        request: &HttpRequest<Incoming>,
        token: Option<String>,
    ) -> Result<Response<Body>, Problem> {
        self.desk.has_streams()?;
        if request.method() == Method::HEAD {
            return Ok(stream_response(stream::no_body()));
        }
        let place = self.desk.samples().place();
        let busy = || Problem::busy(format!("{STREAMS_MAX} pages follow already"));
        let place = place.ok_or_else(busy)?;
        let is_welcome = self.still_welcome(token);
        let last_seen = stream::last_seen(request.headers());
        let body = stream::body(Arc::clone(&self.desk), place, last_seen, is_welcome);
        Ok(stream_response(body))
    }

    /// Says whether the token is still good.
    fn still_welcome(&self, token: Option<String>) -> impl Fn() -> bool + Send + Sync + 'static {
        let (desk, door) = (Arc::clone(&self.desk), self.door);
        move || match (door, &token) {
            (Door::Socket, _) => true,
            (Door::Network, token) => token.as_ref().is_some_and(|t| desk.caller(t).is_ok()),
        }
    }

    fn tunnel(
        &self,
        request: HttpRequest<Incoming>,
        caller: &Caller,
        token: Option<String>,
    ) -> Result<Response<Body>, Problem> {
        if caller.role < CallerRole::Admin {
            return Err(Problem::forbidden(caller.role, CallerRole::Admin));
        }
        self.desk.has_streams()?;
        tunnel::check(&request)?;
        let has_room = self.desk.has_room();
        let place = self.desk.samples().tunnel_place(has_room);
        let place = place.ok_or_else(|| {
            Problem::busy(match has_room {
                true => format!("{TUNNELS_MAX} tunnels are open already"),
                false => "there are `connections_max` connections already".to_owned(),
            })
        })?;
        let is_welcome = self.still_welcome(token);
        tunnel::open(request, Arc::clone(&self.desk), caller, place, is_welcome);
        Ok(tunnel::switch(whole(Bytes::new())))
    }

    async fn order(
        &self,
        request: HttpRequest<Incoming>,
        below: &str,
        caller: &Caller,
        (peer, id): (Option<SocketAddr>, u64),
    ) -> Result<Response<Body>, Problem> {
        let (route, values) = find(request.method(), below)?;
        if caller.role < route.role {
            return Err(Problem::forbidden(caller.role, route.role));
        }
        let query = request.uri().query().map(str::to_owned);
        let body = read_body(request).await?;
        let order = decode(route, &values, query.as_deref(), &body)?;
        let work_max = order.work_max();
        let (desk, caller) = (Arc::clone(&self.desk), caller.clone());
        // A task of its own: an order goes on, and is told, when its caller has gone.
        let work = tokio::spawn(async move {
            let told = format!("{order:?}");
            let answered = desk.answer(order).await;
            audit(route, &told, &caller, (peer, id), &answered);
            answered
        });
        match timeout(work_max, work).await {
            Ok(Ok(answered)) => json_response(&answered?),
            Ok(Err(panic)) => {
                let detail = format!("the order failed: {panic}");
                Err(Problem::new(StatusCode::INTERNAL_SERVER_ERROR, detail))
            }
            Err(_) => {
                let detail = format!("not done after {} s; it goes on", work_max.as_secs());
                Err(Problem::new(StatusCode::GATEWAY_TIMEOUT, detail))
            }
        }
    }
}

/// Tells of a caller that is not let in: whoever tries tokens shows up. Once a second is enough to see that.
fn tell_of_denial(problem: &Problem, (peer, request_id): (Option<SocketAddr>, u64)) {
    static LAST_S: AtomicU64 = AtomicU64::new(0);
    let is_denial = matches!(
        problem.code(),
        StatusCode::UNAUTHORIZED | StatusCode::FORBIDDEN
    );
    let now_s = crate::events::now_ms() / 1000;
    if is_denial && LAST_S.swap(now_s, Ordering::Relaxed) != now_s {
        let why = &problem.detail;
        tracing::warn!(target: AUDIT_TARGET, request_id, ?peer, why, "audit: denied");
    }
}

/// Tells of an order and its end. What only looks is not told.
fn audit(
    route: &Route,
    order: &str,
    caller: &Caller,
    (peer, request_id): (Option<SocketAddr>, u64),
    answered: &Result<Value, crate::Refusal>,
) {
    if route.is_safe() {
        return;
    }
    let peer = peer.map_or_else(|| "local".to_owned(), |peer| peer.to_string());
    let caller = &caller.name;
    match answered {
        Ok(_) => {
            tracing::info!(target: AUDIT_TARGET, request_id, caller, peer, order, "audit: done");
        }
        Err(refusal) => {
            let why = refusal.text();
            tracing::warn!(
                target: AUDIT_TARGET,
                request_id, caller, peer, order, why, "audit: refused"
            );
        }
    }
}

fn next_request_id() -> u64 {
    static LAST: AtomicU64 = AtomicU64::new(0);
    LAST.fetch_add(1, Ordering::Relaxed) + 1
}

/// A browser says which site a request comes from: another one's is none of ours.
fn refuse_other_sites(request: &HttpRequest<Incoming>) -> Result<(), Problem> {
    let Some(origin) = request.headers().get(ORIGIN) else {
        return Ok(());
    };
    let host = request.headers().get(HOST).map(HeaderValue::as_bytes);
    let authority = origin.to_str().ok().and_then(|o| o.split_once("://"));
    match (authority, host) {
        (Some((_, authority)), Some(host)) if authority.as_bytes() == host => Ok(()),
        _ => Err(Problem::new(
            StatusCode::FORBIDDEN,
            "the request comes from another site's page",
        )),
    }
}

/// HEAD is answered as GET; hyper leaves the content out.
fn need_get(request: &HttpRequest<Incoming>) -> Result<(), Problem> {
    match *request.method() {
        Method::GET | Method::HEAD => Ok(()),
        _ => Err(Problem::method_not_allowed(GET_AND_HEAD)),
    }
}

fn bearer(request: &HttpRequest<Incoming>) -> Option<String> {
    let header = request.headers().get(AUTHORIZATION)?.to_str().ok()?;
    let (scheme, token) = header.split_at_checked(BEARER.len())?;
    (scheme.eq_ignore_ascii_case(BEARER)).then(|| token.trim().to_owned())
}

async fn read_body(request: HttpRequest<Incoming>) -> Result<Bytes, Problem> {
    let media_type = request.headers().get(CONTENT_TYPE).cloned();
    let reading = Limited::new(request.into_body(), BODY_BYTES_MAX).collect();
    let read = timeout(BODY_MAX, reading).await;
    let read = read.map_err(|_| {
        let detail = format!("the body took longer than {} s", BODY_MAX.as_secs());
        Problem::new(StatusCode::REQUEST_TIMEOUT, detail)
    })?;
    let body = read.map_err(|error| match error.downcast::<LengthLimitError>() {
        Ok(_) => {
            let detail = format!("a body has at most {BODY_BYTES_MAX} bytes");
            Problem::new(StatusCode::PAYLOAD_TOO_LARGE, detail)
        }
        Err(error) => Problem::bad_request(format!("the body broke off: {error}")),
    })?;
    let body = body.to_bytes();
    if !body.is_empty() && !media_type.is_some_and(|t| is_json(&t)) {
        let detail = "a body needs `Content-Type: application/json`";
        return Err(Problem::new(StatusCode::UNSUPPORTED_MEDIA_TYPE, detail));
    }
    Ok(body)
}

/// Whether a media type is JSON: in upper or lower case, with parameters or without (RFC 9110 §8.3.1).
fn is_json(media_type: &HeaderValue) -> bool {
    let mut parts = media_type.as_bytes().split(|byte| *byte == b';');
    let essence = parts.next().map(<[u8]>::trim_ascii);
    essence.is_some_and(|essence| essence.eq_ignore_ascii_case(JSON.as_bytes()))
}

fn set_type(response: &mut Response<Body>, media_type: &'static str) {
    let value = HeaderValue::from_static(media_type);
    response.headers_mut().insert(CONTENT_TYPE, value);
}

fn no_store(response: &mut Response<Body>) {
    let value = HeaderValue::from_static("no-store");
    response.headers_mut().insert(CACHE_CONTROL, value);
}

fn whole(bytes: Bytes) -> Response<Body> {
    Response::new(Full::new(bytes).boxed())
}

fn json_response(value: &impl Serialize) -> Result<Response<Body>, Problem> {
    let text = serde_json::to_vec(value);
    let text = text.map_err(|e| Problem::new(StatusCode::INTERNAL_SERVER_ERROR, e.to_string()))?;
    Ok(json_bytes(text.into()))
}

fn json_bytes(text: Bytes) -> Response<Body> {
    let mut response = whole(text);
    set_type(&mut response, JSON);
    no_store(&mut response);
    response
}

fn problem_response(problem: &Problem) -> Response<Body> {
    let text = serde_json::to_vec(problem).expect("a problem is plain text");
    let mut response = whole(text.into());
    *response.status_mut() = problem.code();
    set_type(&mut response, PROBLEM_JSON);
    no_store(&mut response);
    response.headers_mut().extend(problem.headers.clone());
    response
}

fn stream_response(body: Channel<Bytes, Infallible>) -> Response<Body> {
    let mut response = Response::new(body.boxed());
    set_type(&mut response, "text/event-stream");
    no_store(&mut response);
    response
}

fn metrics_response(page: String) -> Response<Body> {
    let mut response = whole(page.into());
    set_type(&mut response, OPEN_METRICS);
    no_store(&mut response);
    response
}

fn asset_response(asset: &Asset) -> Response<Body> {
    let mut response = whole(Bytes::from_static(asset.bytes));
    set_type(&mut response, asset.media_type);
    let value = HeaderValue::from_static("no-cache");
    response.headers_mut().insert(CACHE_CONTROL, value);
    response
}

#[cfg(test)]
mod tests;
