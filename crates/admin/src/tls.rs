//! Where the API listens: a Unix socket, or TCP with TLS. Browsers on the same machine may do without TLS; commands never do.

use crate::patient::Patient;
use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpListener, TcpStream, UnixListener, UnixStream};
use tokio_rustls::TlsAcceptor;

/// How long a peer may take for its first byte and a TLS handshake.
pub(crate) const HANDSHAKE_MAX: Duration = Duration::from_secs(10);

/// A bound listener.
pub enum Listener {
    /// The admin socket: who can open it is an admin.
    Unix(UnixListener),
    /// TLS over TCP, and HTTP in clear for who begins so: for loopback.
    Either(TcpListener, Arc<rustls::ServerConfig>),
    /// TLS over TCP.
    Tls(TcpListener, Arc<rustls::ServerConfig>),
}

/// A connection that was accepted, before its handshake.
pub(crate) enum Accepted {
    Unix(UnixStream),
    Either(TcpStream, SocketAddr, TlsAcceptor),
    Tls(TcpStream, SocketAddr, TlsAcceptor),
}

impl Listener {
    pub(crate) async fn accept(&self) -> io::Result<Accepted> {
        match self {
            Self::Unix(listener) => Ok(Accepted::Unix(listener.accept().await?.0)),
            Self::Either(listener, config) => {
                let (stream, peer) = listener.accept().await?;
                let acceptor = TlsAcceptor::from(Arc::clone(config));
                Ok(Accepted::Either(stream, peer, acceptor))
            }
            Self::Tls(listener, config) => {
                let (stream, peer) = listener.accept().await?;
                let acceptor = TlsAcceptor::from(Arc::clone(config));
                Ok(Accepted::Tls(stream, peer, acceptor))
            }
        }
    }
}

impl Accepted {
    /// Where it comes from.
    pub(crate) fn peer(&self) -> Option<SocketAddr> {
        match self {
            Self::Unix(_) => None,
            Self::Either(_, peer, _) | Self::Tls(_, peer, _) => Some(*peer),
        }
    }

    /// The connection as bytes, after the handshake.
    pub(crate) async fn open(self) -> io::Result<Box<dyn Stream>> {
        let opening = async {
            match self {
                Self::Unix(stream) => Ok(Box::new(Patient::new(stream)) as Box<dyn Stream>),
                Self::Either(stream, _, _) if !begins_with_tls(&stream).await? => {
                    Ok(Box::new(Patient::new(stream)) as Box<dyn Stream>)
                }
                Self::Either(stream, _, acceptor) | Self::Tls(stream, _, acceptor) => {
                    let stream = acceptor.accept(Patient::new(stream)).await?;
                    Ok(Box::new(stream) as Box<dyn Stream>)
                }
            }
        };
        let opened = tokio::time::timeout(HANDSHAKE_MAX, opening).await;
        opened.map_err(|_| io::Error::from(io::ErrorKind::TimedOut))?
    }
}

/// Whether the first byte is that of a handshake record (RFC 8446 §5.1): no method of HTTP begins so.
async fn begins_with_tls(stream: &TcpStream) -> io::Result<bool> {
    const HANDSHAKE: u8 = 22;
    let mut first = [0];
    Ok(stream.peek(&mut first).await? == 1 && first[0] == HANDSHAKE)
}

/// A connection of any kind.
pub trait Stream: AsyncRead + AsyncWrite + Send + Unpin + 'static {}

impl<T: AsyncRead + AsyncWrite + Send + Unpin + 'static> Stream for T {}
