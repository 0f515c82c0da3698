//! The client of the API: one request, one answer, and the thread waits.

use crate::http_form::{HttpForm, encode};
use crate::problem::Problem;
use crate::request::Request;
use crate::tls::Stream;
use bytes::Bytes;
use http::header::{AUTHORIZATION, CONTENT_TYPE, HOST};
use http::{Response, StatusCode};
use http_body_util::{BodyExt, Full, Limited};
use hyper::body::Incoming;
use hyper::client::conn::http1;
use hyper_util::rt::TokioIo;
use rustls::pki_types::ServerName;
use serde::de::DeserializeOwned;
use std::io;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;
use tokio::net::{TcpStream, UnixStream};
use tokio_rustls::TlsConnector;

/// Longest answer in bytes.
const ANSWER_BYTES_MAX: usize = 16 * 1024 * 1024;

/// How a client does TLS, and the name that the server must prove.
pub type ClientTls = (Arc<rustls::ClientConfig>, ServerName<'static>);

/// Which server is asked.
#[derive(Clone)]
pub enum Server {
    /// One on this machine, by its admin socket.
    Socket(PathBuf),
    /// One somewhere, by `admin_listen`.
    Network {
        /// `HOST:PORT`.
        address: String,
        /// The caller's token.
        token: String,
        /// The server proves its name, also on this machine: anybody may listen on a port that is free.
        tls: ClientTls,
    },
}

impl std::fmt::Display for Server {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Socket(path) => write!(f, "{}", path.display()),
            Self::Network { address, .. } => f.write_str(address),
        }
    }
}

/// Why there is no answer.
#[derive(Debug)]
pub enum AskError {
    /// The server cannot be reached, or the connection broke.
    Io(io::Error),
    /// It does not answer in time.
    Late(Duration),
    /// It answers what is no answer.
    Strange(String),
    /// It says why not.
    Told(Problem),
}

impl std::fmt::Display for AskError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Io(e) => write!(f, "{e}"),
            Self::Late(patience) => write!(f, "no answer within {} s", patience.as_secs()),
            Self::Strange(why) => write!(f, "no answer of this API: {why}"),
            Self::Told(problem) => f.write_str(&problem.detail),
        }
    }
}

impl std::error::Error for AskError {}

/// Asks a server, and blocks until it answers.
///
/// # Errors
/// [`AskError`].
pub fn ask<T: DeserializeOwned + Send>(server: &Server, request: &Request) -> Result<T, AskError> {
    let exchange = || {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()
            .map_err(AskError::Io)?;
        let patience = request.patience();
        runtime.block_on(async {
            let exchanged = tokio::time::timeout(patience, exchange(server, encode(request))).await;
            exchanged.map_err(|_| AskError::Late(patience))?
        })
    };
    // A thread of its own, as one that drives a runtime may not wait in another.
    let exchanged = std::thread::scope(|scope| scope.spawn(exchange).join());
    let (status, body) = exchanged.map_err(|_| AskError::Strange("a panic".to_owned()))??;
    let strange = |e: serde_json::Error| AskError::Strange(e.to_string());
    match status.is_success() {
        true => serde_json::from_slice(&body).map_err(strange),
        false => Err(AskError::Told(
            serde_json::from_slice(&body).map_err(strange)?,
        )),
    }
}

async fn exchange(server: &Server, form: HttpForm) -> Result<(StatusCode, Bytes), AskError> {
    let mut request = head(server).method(form.method).uri(form.target);
    if !form.body.is_empty() {
        request = request.header(CONTENT_TYPE, "application/json");
    }
    let response = send(server, request, form.body.into()).await?;
    let status = response.status();
    Ok((status, read(response, ANSWER_BYTES_MAX).await?))
}

/// Sends a request over a connection of its own, which may be upgraded. Needs a runtime.
pub(crate) async fn send(
    server: &Server,
    request: http::request::Builder,
    body: Bytes,
) -> Result<Response<Incoming>, AskError> {
    let stream = connect(server).await.map_err(AskError::Io)?;
    let (mut sender, connection) = http1::handshake(TokioIo::new(stream))
        .await
        .map_err(broken)?;
    // It ends with the answer, or becomes what it is upgraded to.
    tokio::spawn(connection.with_upgrades());
    let request = request
        .body(Full::new(body))
        .map_err(|e| AskError::Strange(e.to_string()))?;
    sender.send_request(request).await.map_err(broken)
}

/// The body of an answer, at most `bytes_max`.
pub(crate) async fn read(
    response: Response<Incoming>,
    bytes_max: usize,
) -> Result<Bytes, AskError> {
    let body = Limited::new(response.into_body(), bytes_max).collect();
    let body = body.await.map_err(|e| AskError::Io(io::Error::other(e)))?;
    Ok(body.to_bytes())
}

pub(crate) fn broken(error: hyper::Error) -> AskError {
    AskError::Io(io::Error::other(error))
}

/// What every request to a server has.
pub(crate) fn head(server: &Server) -> http::request::Builder {
    let request = http::Request::builder();
    match server {
        Server::Socket(_) => request.header(HOST, "localhost"),
        Server::Network { address, token, .. } => request
            .header(HOST, address)
            .header(AUTHORIZATION, format!("Bearer {token}")),
    }
}

async fn connect(server: &Server) -> io::Result<Box<dyn Stream>> {
    match server {
        Server::Socket(path) => Ok(Box::new(UnixStream::connect(path).await?)),
        Server::Network { address, tls, .. } => {
            let stream = TcpStream::connect(address).await?;
            let connector = TlsConnector::from(Arc::clone(&tls.0));
            let stream = connector.connect(tls.1.clone(), stream).await?;
            Ok(Box::new(stream))
        }
    }
}
