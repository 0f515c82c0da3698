//! TLS on TCP from the first byte, with rustls configurations that the caller made and that say
//! who is trusted. RPC-with-TLS (RFC 9289) begins in clear and is not here yet.

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;

use rustls::pki_types::{CertificateDer, ServerName};
use tokio::net::TcpStream;
use tokio_rustls::{TlsAcceptor, TlsConnector, TlsStream};

use crate::accept::Host;
use crate::context::Admission;
use crate::copy_wire::CopyWire;
use crate::stream::StreamLink;
use crate::tcp::sockets::prepare;
use crate::workers::ShutdownSignal;
use crate::{
    CloseReason, ConnHandle, ConnectError, Context, Counters, DynService, TlsIdentity,
    TransportKind, engine,
};

/// The server's side of handshakes.
#[derive(Clone)]
pub(crate) struct ServerTls(TlsAcceptor);

impl ServerTls {
    pub(crate) fn new(config: Arc<rustls::ServerConfig>) -> Self {
        Self(TlsAcceptor::from(config))
    }

    pub(crate) async fn serve(
        self,
        stream: TcpStream,
        host: Host,
        admission: Admission,
        shutdown: ShutdownSignal,
    ) {
        let Ok(mut info) = prepare(&stream, TransportKind::Tls) else {
            return;
        };
        let handshake =
            tokio::time::timeout(host.context.limits().handshake, self.0.accept(stream));
        let outcome = tokio::select! {
            outcome = handshake => outcome,
            () = shutdown.wait() => return,
        };
        let failure = match outcome {
            Ok(Ok(stream)) => {
                let stream = Box::new(TlsStream::from(stream));
                info.tls = identity(&stream);
                let conn = ConnHandle::new(info, host.context.clone());
                let link = StreamLink::new(CopyWire::new(stream), &conn);
                return host.run(link, conn, admission).await;
            }
            Ok(Err(e)) => e,
            Err(_) => io::ErrorKind::TimedOut.into(),
        };
        host.context.counters().closed(CloseReason::TlsHandshake);
        // `ropewalk setup` and `doctor` look whether the port is there, and so do health checks of others.
        if failure.kind() == io::ErrorKind::UnexpectedEof {
            tracing::debug!(peer = %info.peer, "closed before its TLS handshake");
        } else if host.context.may_log() {
            tracing::warn!(peer = %info.peer, "TLS handshake failed: {failure}");
        }
    }
}

/// Connects with TLS; the server's certificate must carry `server_name` (a DNS name or a textual
/// IP address). Calls that the server sends go to `reverse`.
///
/// # Errors
/// [`ConnectError`]. With TLS 1.3 a server that refuses our certificate may do so after this has
/// returned; the first call then fails.
pub async fn connect(
    address: SocketAddr,
    server_name: &str,
    config: Arc<rustls::ClientConfig>,
    reverse: Arc<dyn DynService>,
    context: &Context,
) -> Result<ConnHandle, ConnectError> {
    let name = ServerName::try_from(server_name.to_owned())
        .map_err(|e| ConnectError::Tls(io::Error::new(io::ErrorKind::InvalidInput, e)))?;
    let admission = context.admit().ok_or(ConnectError::TooMany)?;
    let handshake = async {
        let stream = TcpStream::connect(address)
            .await
            .map_err(ConnectError::Io)?;
        let info = prepare(&stream, TransportKind::Tls).map_err(ConnectError::Io)?;
        let connector = TlsConnector::from(config);
        let stream = connector
            .connect(name, stream)
            .await
            .map_err(ConnectError::Tls)?;
        Ok((Box::new(TlsStream::from(stream)), info))
    };
    let (stream, mut info) = tokio::time::timeout(context.limits().handshake, handshake)
        .await
        .map_err(|_| ConnectError::TimedOut)??;
    info.tls = identity(&stream);
    Counters::add(&context.counters().connections_made, 1);
    let conn = ConnHandle::new(info, context.clone());
    let link = StreamLink::new(CopyWire::new(stream), &conn);
    tokio::spawn(engine::run(link, conn.clone(), reverse, admission));
    Ok(conn)
}

fn identity(stream: &TlsStream<TcpStream>) -> Option<TlsIdentity> {
    let (_, session) = stream.get_ref();
    session
        .peer_certificates()?
        .first()
        .map(TlsIdentity::of_certificate)
}

impl TlsIdentity {
    /// The identity in a certificate. It proves nothing by itself: TLS must have verified it.
    #[must_use]
    pub fn of_certificate(certificate: &CertificateDer<'_>) -> Self {
        Self {
            certificate_sha256: sha256(certificate),
            certificate_der: certificate.to_vec(),
            common_name: common_name(certificate),
        }
    }
}

/// SHA-256 by the cryptography that TLS uses anyway.
fn sha256(bytes: &[u8]) -> [u8; 32] {
    let suite = rustls::crypto::ring::cipher_suite::TLS13_AES_128_GCM_SHA256;
    let hash = suite
        .tls13()
        .expect("a TLS 1.3 suite")
        .common
        .hash_provider
        .hash(bytes);
    let mut out = [0; 32];
    out.copy_from_slice(hash.as_ref());
    out
}

/// The subject's common name. The certificate's outer sequences are opened one by one (RFC 5280 §4.1). Then the
/// subject's attributes are looked through for the last one of id 2.5.4.3.
fn common_name(certificate: &[u8]) -> Option<String> {
    const SEQUENCE: u8 = 0x30;
    const SET: u8 = 0x31;
    const OID: u8 = 0x06;
    const VERSION: u8 = 0xa0;
    const UTF8_STRING: u8 = 0x0c;
    const PRINTABLE_STRING: u8 = 0x13;
    const COMMON_NAME: &[u8] = &[0x55, 0x04, 0x03];

    let (certificate, _) = der(certificate, SEQUENCE)?;
    let (fields, _) = der(certificate, SEQUENCE)?;
    let mut rest = der(fields, VERSION).map_or(fields, |(_, rest)| rest);
    // Serial number, signature algorithm, issuer, validity.
    for tag in [0x02, SEQUENCE, SEQUENCE, SEQUENCE] {
        (_, rest) = der(rest, tag)?;
    }
    let (mut names, _) = der(rest, SEQUENCE)?;
    let mut found = None;
    while let Some((set, after)) = der(names, SET) {
        names = after;
        let (attribute, _) = der(set, SEQUENCE)?;
        let (id, value) = der(attribute, OID)?;
        if id == COMMON_NAME {
            let text = der(value, UTF8_STRING).or_else(|| der(value, PRINTABLE_STRING));
            found = text
                .and_then(|(t, _)| std::str::from_utf8(t).ok())
                .map(str::to_owned);
        }
    }
    found
}

/// Opens one DER element of tag `tag`: its content and what follows it.
fn der(bytes: &[u8], tag: u8) -> Option<(&[u8], &[u8])> {
    let (&found, rest) = bytes.split_first()?;
    let (&first, rest) = rest.split_first()?;
    let (len, rest) = match first {
        0..=0x7f => (usize::from(first), rest),
        0x81 => (usize::from(*rest.first()?), rest.get(1..)?),
        0x82 => (
            usize::from(u16::from_be_bytes([*rest.first()?, *rest.get(1)?])),
            rest.get(2..)?,
        ),
        _ => return None,
    };
    if found != tag || rest.len() < len {
        None
    } else {
        Some(rest.split_at(len))
    }
}
