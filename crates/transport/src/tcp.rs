//! TCP: listeners, serving and connecting, with sendfile for payloads in files.

mod reserve;
pub(crate) mod sockets;
mod spread;

pub use reserve::Reservation;
pub use spread::Listener;

use std::cell::RefCell;
use std::fs::File;
use std::future::{Future, poll_fn};
use std::io::{self, IoSlice};
use std::net::SocketAddr;
use std::pin::pin;
use std::sync::Arc;
use std::task::{Context as TaskContext, Poll, ready};
use std::time::Duration;

use bytes::BufMut;
use rustix::net::{RecvFlags, SendAncillaryBuffer, SendFlags};
use socket2::Socket;
use tokio::io::{AsyncReadExt, AsyncWrite, Interest};
use tokio::net::TcpStream;

use self::sockets::{prepare, socket};
use self::spread::{Arrival, Serving};
use crate::accept::{Host, Tasks};
use crate::context::Admission;
use crate::stream::{StreamLink, Wire};
use crate::workers::ShutdownSignal;
use crate::{
    Address, BoxFuture, ConnHandle, ConnectError, Connector, Context, Counters, DynService,
    Endpoint, TransportKind, engine, rdma, tls,
};

/// Connections that the kernel holds for us before they are accepted.
const BACKLOG: i32 = 1024;
/// Pause after accept failed, so that a lack of descriptors is no busy loop.
const ACCEPT_RETRY: Duration = Duration::from_millis(100);
/// Up to so many bytes, pieces are put together and leave by send. Copying them takes less time than the kernel takes
/// to read a list.
const JOINED_BYTES_MAX: usize = 4096;

thread_local! {
    /// Pieces of one write of this thread.
    static JOINED: RefCell<Vec<u8>> = const { RefCell::new(Vec::new()) };
}

/// Listens on `address` with `count` sockets, one for each worker, which share the connections evenly. Port 0 picks a free port, the
/// same for all. An IPv6 address takes IPv6 only.
///
/// # Errors
/// `AddrInUse` when anyone listens there, also when that one would share the port.
///
/// # Panics
/// When `count` is 0.
pub fn bind(address: SocketAddr, count: usize) -> io::Result<Vec<Listener>> {
    assert!(count > 0, "no listener is asked for");
    // Sockets with SO_REUSEPORT bind beside those of another process of the same user. A socket
    // without it finds out first; it is gone before ours are bound.
    let port = {
        let probe = socket(address)?;
        probe.bind(&address.into())?;
        probe.local_addr()?.as_socket().map_or(0, |a| a.port())
    };
    let address = SocketAddr::new(address.ip(), port);
    let bound = |_| {
        let socket = socket(address)?;
        socket.set_reuse_port(true)?;
        socket.bind(&address.into())?;
        Ok(socket)
    };
    let sockets = (0..count).map(bound).collect::<io::Result<Vec<_>>>()?;
    let listening = |socket: Socket| {
        socket.listen(BACKLOG)?;
        Ok(socket.into())
    };
    let listening = sockets.into_iter().map(listening);
    Ok(Listener::sharing(listening.collect::<io::Result<_>>()?))
}

/// Listeners from the sockets that [`bind`] made for one address in another process. They share the connections evenly.
#[must_use]
pub fn adopt(sockets: Vec<std::net::TcpListener>) -> Vec<Listener> {
    Listener::sharing(sockets)
}

/// Serves TCP connections in clear until the shutdown signal, then drains them.
///
/// # Errors
/// When the listeners cannot be registered with the runtime.
pub async fn serve(
    listeners: Vec<Listener>,
    service: Arc<dyn DynService>,
    context: Context,
    shutdown: ShutdownSignal,
) -> io::Result<()> {
    serve_with(listeners, Host::new(context, service), None, shutdown).await
}

/// Serves TLS connections until the shutdown signal, then drains them.
///
/// # Errors
/// When the listeners cannot be registered with the runtime.
pub async fn serve_tls(
    listeners: Vec<Listener>,
    config: Arc<rustls::ServerConfig>,
    service: Arc<dyn DynService>,
    context: Context,
    shutdown: ShutdownSignal,
) -> io::Result<()> {
    let tls = tls::ServerTls::new(config);
    serve_with(listeners, Host::new(context, service), Some(tls), shutdown).await
}

async fn serve_with(
    listeners: Vec<Listener>,
    host: Host,
    tls: Option<tls::ServerTls>,
    shutdown: ShutdownSignal,
) -> io::Result<()> {
    let begun = listeners.into_iter().map(Serving::begin);
    let mut listeners = begun.collect::<io::Result<Vec<_>>>()?;
    let mut tasks = Tasks::new(host.clone());
    let mut stop = pin!(shutdown.wait());
    loop {
        let arrived = tokio::select! {
            biased;
            () = &mut stop => break,
            arrived = poll_fn(|cx| poll_next(&mut listeners, cx)) => arrived,
        };
        let arrival = match arrived {
            Ok(arrival) => arrival,
            Err(e) => {
                host.context.accept_failed(&e);
                tokio::time::sleep(ACCEPT_RETRY).await;
                continue;
            }
        };
        let Arrival {
            stream,
            peer,
            taken,
        } = arrival;
        let peer = Endpoint::Socket(peer);
        if !host.service.admits_peer(&peer) {
            host.context.not_admitted(&peer);
            continue;
        }
        let Some(admission) = host.context.admit_peer(&peer) else {
            continue;
        };
        Counters::add(&host.context.counters().connections_accepted, 1);
        let (tls, host, shutdown) = (tls.clone(), host.clone(), shutdown.clone());
        tasks.spawn(async move {
            let _taken = taken;
            match tls {
                None => serve_clear(stream, host, admission).await,
                Some(tls) => tls.serve(stream, host, admission, shutdown).await,
            }
        });
    }
    drop(listeners);
    tasks.shut_down().await;
    Ok(())
}

fn poll_next(
    listeners: &mut [Serving],
    cx: &mut TaskContext<'_>,
) -> Poll<io::Result<Arrival<TcpStream>>> {
    for listener in listeners {
        if let Poll::Ready(arrived) = listener.poll_next(cx) {
            return Poll::Ready(arrived);
        }
    }
    Poll::Pending
}

async fn serve_clear(stream: TcpStream, host: Host, admission: Admission) {
    // A peer that is gone already has no address: nothing was served, nothing is to be told.
    let Ok(info) = prepare(&stream, TransportKind::Tcp) else {
        return;
    };
    let conn = ConnHandle::new(info, host.context.clone());
    let link = StreamLink::new(TcpWire::new(stream), &conn);
    host.run(link, conn, admission).await;
}

/// Connects in clear. Calls that the server sends go to `reverse`.
///
/// # Errors
/// [`ConnectError`].
pub async fn connect(
    address: SocketAddr,
    reverse: Arc<dyn DynService>,
    context: &Context,
) -> Result<ConnHandle, ConnectError> {
    let admission = context.admit().ok_or(ConnectError::TooMany)?;
    let stream = tokio::time::timeout(context.limits().handshake, TcpStream::connect(address))
        .await
        .map_err(|_| ConnectError::TimedOut)?
        .map_err(ConnectError::Io)?;
    let info = prepare(&stream, TransportKind::Tcp).map_err(ConnectError::Io)?;
    Counters::add(&context.counters().connections_made, 1);
    let conn = ConnHandle::new(info, context.clone());
    let link = StreamLink::new(TcpWire::new(stream), &conn);
    tokio::spawn(engine::run(link, conn.clone(), reverse, admission));
    Ok(conn)
}

/// Connects to TCP addresses, to TLS addresses when it has a TLS configuration, and to RDMA addresses when it has a
/// provider.
#[derive(Debug, Clone)]
pub struct TcpConnector {
    context: Context,
    tls: Option<Arc<rustls::ClientConfig>>,
    rdma: Option<rdma::Rdma>,
}

impl TcpConnector {
    /// A connector for TCP in clear only.
    #[must_use]
    pub const fn new(context: Context) -> Self {
        Self {
            context,
            tls: None,
            rdma: None,
        }
    }

    /// A connector for TCP and TLS.
    #[must_use]
    pub const fn with_tls(context: Context, tls: Arc<rustls::ClientConfig>) -> Self {
        Self {
            context,
            tls: Some(tls),
            rdma: None,
        }
    }

    /// The same, that also connects to RDMA addresses.
    #[must_use]
    pub fn with_rdma(mut self, rdma: rdma::Rdma) -> Self {
        self.rdma = Some(rdma);
        self
    }
}

impl Connector for TcpConnector {
    fn connect<'a>(
        &'a self,
        address: &'a Address,
        reverse: Arc<dyn DynService>,
    ) -> BoxFuture<'a, Result<ConnHandle, ConnectError>> {
        Box::pin(async move {
            match (address, &self.tls, &self.rdma) {
                (Address::Tcp(address), ..) => connect(*address, reverse, &self.context).await,
                (
                    Address::Tls {
                        address,
                        server_name,
                    },
                    Some(tls),
                    _,
                ) => tls::connect(*address, server_name, tls.clone(), reverse, &self.context).await,
                (Address::Rdma(address), _, Some(rdma)) => {
                    rdma::connect(*address, rdma, reverse, &self.context).await
                }
                _ => Err(ConnectError::Unsupported),
            }
        })
    }
}

/// A TCP socket. Sends by sendmsg with MSG_MORE before files, and files by sendfile.
struct TcpWire {
    stream: TcpStream,
    /// Bytes that were seen in the socket and that the runtime may not know of yet.
    seen_bytes: usize,
}

impl TcpWire {
    const fn new(stream: TcpStream) -> Self {
        Self {
            stream,
            seen_bytes: 0,
        }
    }

    /// Reads what was seen, if anything is there.
    fn read_seen(&mut self, buffer: &mut Vec<u8>, room: usize) -> usize {
        let start = buffer.len();
        buffer.resize(start + std::mem::take(&mut self.seen_bytes).min(room), 0);
        let read = rustix::net::recv(&self.stream, &mut buffer[start..], RecvFlags::DONTWAIT);
        // Whatever went wrong is said again by the next read.
        let len = read.map_or(0, |(len, _)| len);
        buffer.truncate(start + len);
        len
    }

    /// Tries `send` at once, and waits for the socket only when it takes nothing.
    fn poll_send(
        &self,
        cx: &mut TaskContext<'_>,
        mut send: impl FnMut(&TcpStream) -> rustix::io::Result<usize>,
    ) -> Poll<io::Result<usize>> {
        loop {
            let sent = self.stream.try_io(Interest::WRITABLE, || {
                send(&self.stream).map_err(io::Error::from)
            });
            match sent {
                Err(e) if e.kind() == io::ErrorKind::WouldBlock => {
                    ready!(self.stream.poll_write_ready(cx))?;
                }
                Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
                sent => return Poll::Ready(sent),
            }
        }
    }
}

impl Wire for TcpWire {
    const SENDS_FILES: bool = true;

    fn poll_read(
        &mut self,
        cx: &mut TaskContext<'_>,
        buffer: &mut Vec<u8>,
        room: usize,
    ) -> Poll<io::Result<usize>> {
        if self.seen_bytes > 0 {
            let len = self.read_seen(buffer, room);
            if len > 0 {
                return Poll::Ready(Ok(len));
            }
        }
        let mut limited = buffer.limit(room);
        pin!(self.stream.read_buf(&mut limited)).poll(cx)
    }

    fn has_bytes(&mut self) -> bool {
        let seen = rustix::io::ioctl_fionread(&self.stream).unwrap_or(0);
        self.seen_bytes = usize::try_from(seen).unwrap_or(usize::MAX);
        seen > 0
    }

    fn poll_write(
        &mut self,
        cx: &mut TaskContext<'_>,
        pieces: &[IoSlice<'_>],
        more: bool,
    ) -> Poll<io::Result<usize>> {
        let flags = if more {
            SendFlags::NOSIGNAL | SendFlags::MORE
        } else {
            SendFlags::NOSIGNAL
        };
        let bytes: usize = pieces.iter().map(|piece| piece.len()).sum();
        if bytes > JOINED_BYTES_MAX {
            return self.poll_send(cx, |stream| {
                rustix::net::sendmsg(stream, pieces, &mut SendAncillaryBuffer::default(), flags)
            });
        }
        JOINED.with_borrow_mut(|joined| {
            joined.clear();
            pieces
                .iter()
                .for_each(|piece| joined.extend_from_slice(piece));
            self.poll_send(cx, |stream| rustix::net::send(stream, joined, flags))
        })
    }

    fn poll_write_file(
        &mut self,
        cx: &mut TaskContext<'_>,
        file: &File,
        offset: u64,
        len: usize,
    ) -> Poll<io::Result<usize>> {
        self.poll_send(cx, |stream| {
            let mut at = offset;
            rustix::fs::sendfile(stream, file, Some(&mut at), len)
        })
    }

    fn poll_flush(&mut self, _cx: &mut TaskContext<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn poll_shutdown(&mut self, cx: &mut TaskContext<'_>) -> Poll<io::Result<()>> {
        pin!(&mut self.stream).poll_shutdown(cx)
    }
}
