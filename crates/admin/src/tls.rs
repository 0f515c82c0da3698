//! Where the API listens: a Unix socket, TCP, or TLS over TCP.

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpListener, TcpStream, UnixListener, UnixStream};
use tokio_rustls::TlsAcceptor;

/// How long a TLS handshake may take.
const HANDSHAKE_MAX: Duration = Duration::from_secs(10);

/// A bound listener.
pub enum Listener {
    /// The admin socket: who can open it is an admin.
    Unix(UnixListener),
    /// Bare TCP, for loopback.
    Tcp(TcpListener),
    /// TLS over TCP.
    Tls(TcpListener, Arc<rustls::ServerConfig>),
}

/// A connection that was accepted, before its handshake.
pub(crate) enum Accepted {
    Unix(UnixStream),
    Tcp(TcpStream, SocketAddr),
    Tls(TcpStream, SocketAddr, TlsAcceptor),
}

impl Listener {
    pub(crate) async fn accept(&self) -> io::Result<Accepted> {
        match self {
            Self::Unix(listener) => Ok(Accepted::Unix(listener.accept().await?.0)),
            Self::Tcp(listener) => {
                let (stream, peer) = listener.accept().await?;
                Ok(Accepted::Tcp(stream, peer))
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
            Self::Tcp(_, peer) | Self::Tls(_, peer, _) => Some(*peer),
        }
    }

    /// The connection as bytes, after the handshake.
    pub(crate) async fn open(self) -> io::Result<Box<dyn Stream>> {
        match self {
            Self::Unix(stream) => Ok(Box::new(stream)),
            Self::Tcp(stream, _) => Ok(Box::new(stream)),
            Self::Tls(stream, _, acceptor) => {
                let shaken = tokio::time::timeout(HANDSHAKE_MAX, acceptor.accept(stream)).await;
                let shaken = shaken.map_err(|_| io::Error::from(io::ErrorKind::TimedOut))?;
                Ok(Box::new(shaken?))
            }
        }
    }
}

/// A connection of any kind.
pub trait Stream: AsyncRead + AsyncWrite + Send + Unpin + 'static {}

impl<T: AsyncRead + AsyncWrite + Send + Unpin + 'static> Stream for T {}
