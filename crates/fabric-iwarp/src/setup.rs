//! The provider on TCP: listening, connecting, and the MPA set-up of both sides.

use crate::endpoint::{IwarpEndpoint, see_out};
use crate::machine::{self, Machine, Start};
use crate::mpa::{self, Agreed, ENHANCED_BYTES, PRIVATE_DATA_BYTES_MAX, SETUP_HEADER_BYTES};
use crate::mpa::{Setup, Unusable, Wish};
use bytes::Bytes;
use fabric::{
    Blame, BoxFuture, Claim, ConnectError, Connected, EndpointConfig, Fabric, Incoming, Listener,
    ProviderLimits, Receive,
};
use futures_util::StreamExt;
use futures_util::stream::FuturesUnordered;
use socket2::{Domain, Protocol, SockRef, Socket, TcpKeepalive, Type};
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpSocket, TcpStream};
use tokio::time::timeout;

/// How long TCP and MPA set-up may take (RFC 5044 §7.1.2 rule 10).
const SETUP_TIME: Duration = Duration::from_secs(10);
/// How long a connection is silent before the peer is asked whether it is still there. How often it is asked then, and how many
/// times it may not answer.
const KEEPALIVE_TIME: Duration = Duration::from_secs(60);
const KEEPALIVE_INTERVAL: Duration = Duration::from_secs(10);
const KEEPALIVE_PROBES: u32 = 3;
/// Peers in their set-up at a time on one listener; more wait in the backlog.
const SETUPS_MAX: usize = 256;
const BACKLOG: i32 = 1024;
/// Largest depths; those of reads have 14 bits, of which all ones mean something else (RFC 6581 §9.1).
const DEPTH_MAX: u32 = 65_536;
const READS_MAX: u32 = 0x3ffe;
const PRIVATE_DATA_MAX: usize = PRIVATE_DATA_BYTES_MAX - ENHANCED_BYTES;

/// Largest frames to send. What is received may have any size.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Framing {
    /// As large as the length field allows: few headers and system calls.
    #[default]
    Largest,
    /// Such that a frame fits into a TCP segment (RFC 5044 §4.5), which devices that place segments out of
    /// order profit from.
    Segment,
}

/// Software iWARP over TCP.
#[derive(Debug, Clone, Default)]
pub struct Iwarp {
    way: Way,
    /// Those that listen already, and that no listener has yet.
    sockets: Arc<Mutex<Vec<std::net::TcpListener>>>,
}

/// How connections are made.
#[derive(Debug, Clone, Copy, Default)]
struct Way {
    framing: Framing,
    /// `None`: the kernel chooses.
    local: Option<IpAddr>,
}

impl Iwarp {
    /// A provider that sends frames of this size.
    #[must_use]
    pub fn new(framing: Framing) -> Self {
        Self {
            way: Way {
                framing,
                local: None,
            },
            sockets: Arc::default(),
        }
    }

    /// The same, that connects from this address of the machine.
    #[must_use]
    pub const fn connecting_from(mut self, local: IpAddr) -> Self {
        self.way.local = Some(local);
        self
    }

    /// The same, that takes these sockets for the addresses that they have. They must listen, and another process may hold them
    /// too: a peer that connects while no process serves waits in the queue of a socket. Each address should have as many as
    /// listeners will be asked for. Further listeners bind sockets of their own.
    #[must_use]
    pub fn listening_with(mut self, sockets: Vec<std::net::TcpListener>) -> Self {
        self.sockets = Arc::new(Mutex::new(sockets));
        self
    }

    fn take(&self, address: SocketAddr) -> Option<std::net::TcpListener> {
        let mut sockets = self.sockets.lock().unwrap_or_else(PoisonError::into_inner);
        let is_there = |s: &std::net::TcpListener| s.local_addr().is_ok_and(|at| at == address);
        let at = sockets.iter().position(is_there)?;
        Some(sockets.swap_remove(at))
    }
}

impl Way {
    async fn open(self, address: SocketAddr) -> io::Result<TcpStream> {
        let Some(local) = self.local else {
            return TcpStream::connect(address).await;
        };
        let socket = match local {
            IpAddr::V4(_) => TcpSocket::new_v4(),
            IpAddr::V6(_) => TcpSocket::new_v6(),
        }?;
        socket.bind((local, 0).into())?;
        socket.connect(address).await
    }

    fn machine(
        self,
        stream: &TcpStream,
        config: EndpointConfig,
        agreed: Agreed,
        is_initiator: bool,
    ) -> io::Result<Machine> {
        let mulpdu = match self.framing {
            Framing::Largest => mpa::ULPDU_BYTES_MAX,
            Framing::Segment => {
                let segment = SockRef::from(stream).tcp_mss()?;
                mpa::mulpdu_for_segment(usize::try_from(segment).unwrap_or(usize::MAX))
            }
        };
        let seed = getrandom::u64().map_err(io::Error::other)?;
        Ok(Machine::new(Start {
            config,
            agreed,
            is_initiator,
            mulpdu,
            seed,
        }))
    }
}

fn wish(config: &EndpointConfig) -> Wish {
    let depth = |depth: u32| u16::try_from(depth.min(READS_MAX)).expect("14 bits");
    Wish {
        ird: depth(config.ird),
        ord: depth(config.ord),
        crc: config.crc,
    }
}

/// Lowers what is above the limits.
fn limited(config: EndpointConfig) -> EndpointConfig {
    EndpointConfig {
        send_depth: config.send_depth.min(DEPTH_MAX),
        receive_depth: config.receive_depth.min(DEPTH_MAX),
        exposed_max: config.exposed_max.min(DEPTH_MAX),
        ..config
    }
}

/// Where a connection takes its receives from.
enum Receives {
    Own(Vec<Receive>),
    Shared(Claim),
}

/// Puts the receives in place and makes the endpoint.
fn connected(
    stream: TcpStream,
    peer: SocketAddr,
    mut machine: Machine,
    receives: Receives,
    private_data: Bytes,
) -> Result<Connected, ConnectError> {
    match receives {
        Receives::Shared(claim) => machine.share(claim),
        Receives::Own(receives) => {
            for Receive { id, buffer } in receives {
                if machine.post_receive(id, buffer).is_err() {
                    return Err(ConnectError::TooMuch);
                }
            }
        }
    }
    Ok(Connected {
        endpoint: Box::new(IwarpEndpoint::new(stream, peer, machine)),
        private_data,
    })
}

/// Reads one set-up frame and not a byte more.
async fn read_setup(stream: &mut TcpStream, is_reply: bool) -> Result<Setup, ConnectError> {
    let mut frame = vec![0; SETUP_HEADER_BYTES];
    stream.read_exact(&mut frame).await?;
    let header = frame.first_chunk().expect("it has this length");
    let len = mpa::private_data_bytes(header, is_reply).map_err(ConnectError::Protocol)?;
    frame.resize(SETUP_HEADER_BYTES + len, 0);
    stream.read_exact(&mut frame[SETUP_HEADER_BYTES..]).await?;
    Setup::decode(&frame, is_reply).map_err(ConnectError::Protocol)
}

async fn write_setup(stream: &mut TcpStream, setup: &Setup) -> Result<(), ConnectError> {
    let frame = setup.encode().ok_or(ConnectError::TooMuch)?;
    Ok(stream.write_all(&frame).await?)
}

async fn in_time<T>(
    step: impl Future<Output = Result<T, ConnectError>>,
) -> Result<T, ConnectError> {
    let done = timeout(SETUP_TIME, step).await;
    done.unwrap_or_else(|_| Err(io::Error::from(io::ErrorKind::TimedOut).into()))
}

async fn connect(
    way: Way,
    address: SocketAddr,
    config: EndpointConfig,
    private_data: Bytes,
    receives: Vec<Receive>,
) -> Result<Connected, ConnectError> {
    let config = limited(config);
    if private_data.len() > PRIVATE_DATA_MAX {
        return Err(ConnectError::TooMuch);
    }
    let wish = wish(&config);
    let asked = ask(way, address, &mpa::request(wish, &private_data)).await;
    let (stream, reply, conclusion) = match asked {
        Ok((stream, reply)) if reply.revision > 1 => {
            let conclusion = mpa::conclude(wish, &reply);
            (stream, reply, conclusion)
        }
        Err(e) if !is_closing(&e) => return Err(e),
        // A peer that only knows revision 1 closes, or rejects what it misreads (RFC 6581 §10).
        Ok(_) | Err(_) => {
            tracing::debug!("{address} is asked again with MPA revision 1");
            let request = mpa::plain_request(wish, &private_data);
            let (stream, reply) = ask(way, address, &request).await?;
            let conclusion = mpa::conclude_plain(wish, &reply);
            (stream, reply, conclusion)
        }
    };
    if reply.rejected {
        return Err(ConnectError::Rejected {
            private_data: reply.private_data.into(),
        });
    }
    match conclusion {
        Ok(agreed) => {
            let machine = way.machine(&stream, config, agreed, true)?;
            let private_data = reply.private_data.into();
            let receives = Receives::Own(receives);
            connected(stream, address, machine, receives, private_data)
        }
        Err(Unusable::Malformed(what)) => Err(ConnectError::Protocol(what)),
        Err(Unusable::Terminate(term)) => {
            let agreed = Agreed {
                ird: 0,
                ord: 0,
                crc: wish.crc || reply.crc,
                rtr: mpa::Rtr::None,
            };
            let mut machine = way.machine(&stream, config, agreed, true)?;
            machine.terminate(term);
            see_out(stream, machine.last_words());
            Err(ConnectError::Protocol("no read depths or RTR in common"))
        }
    }
}

/// Opens a TCP connection and hears what the peer says to this request.
async fn ask(
    way: Way,
    address: SocketAddr,
    request: &Setup,
) -> Result<(TcpStream, Setup), ConnectError> {
    let mut stream = way.open(address).await?;
    tune(&stream)?;
    write_setup(&mut stream, request).await?;
    let reply = read_setup(&mut stream, true).await?;
    Ok((stream, reply))
}

/// Whether the peer has closed the TCP connection.
fn is_closing(e: &ConnectError) -> bool {
    use io::ErrorKind::{BrokenPipe, ConnectionReset, UnexpectedEof};
    matches!(e, ConnectError::Io(e) if matches!(e.kind(), BrokenPipe | ConnectionReset | UnexpectedEof))
}

/// Small frames leave at once, and a peer that is gone without a word is noticed.
fn tune(stream: &TcpStream) -> io::Result<()> {
    stream.set_nodelay(true)?;
    let probes = TcpKeepalive::new()
        .with_time(KEEPALIVE_TIME)
        .with_interval(KEEPALIVE_INTERVAL)
        .with_retries(KEEPALIVE_PROBES);
    SockRef::from(stream).set_tcp_keepalive(&probes)
}

impl Fabric for Iwarp {
    fn name(&self) -> &'static str {
        "software iWARP"
    }

    fn is_hardware(&self) -> bool {
        false
    }

    fn limits(&self) -> ProviderLimits {
        ProviderLimits {
            private_data_bytes_max: PRIVATE_DATA_MAX,
            send_bytes_max: machine::SEND_BYTES_MAX,
            transfer_bytes_max: machine::TRANSFER_BYTES_MAX,
            depth_max: DEPTH_MAX,
            exposed_max: DEPTH_MAX,
            reads_max: READS_MAX,
            waits_for_receives: false,
            shares_receives: true,
            holds_back: true,
            pads_private_data: false,
            peers_invalidate: true,
            counts_peers_work: true,
            blame: Blame::Rule,
        }
    }

    fn listen(&self, address: SocketAddr) -> BoxFuture<'_, io::Result<Box<dyn Listener>>> {
        let (way, taken) = (self.way, self.take(address));
        Box::pin(async move {
            let socket = taken.map_or_else(|| bind(address), Ok)?;
            let listener: Box<dyn Listener> = Box::new(IwarpListener::adopt(way, socket)?);
            Ok(listener)
        })
    }

    fn connect(
        &self,
        address: SocketAddr,
        config: EndpointConfig,
        private_data: Bytes,
        receives: Vec<Receive>,
    ) -> BoxFuture<'_, Result<Connected, ConnectError>> {
        let step = connect(self.way, address, config, private_data, receives);
        Box::pin(in_time(step))
    }
}

fn bind(address: SocketAddr) -> io::Result<std::net::TcpListener> {
    let family = Domain::for_address(address);
    let socket = Socket::new(family, Type::STREAM, Some(Protocol::TCP))?;
    socket.set_reuse_address(true)?;
    socket.set_reuse_port(true)?;
    if address.is_ipv6() {
        socket.set_only_v6(true)?;
    }
    socket.bind(&address.into())?;
    socket.listen(BACKLOG)?;
    Ok(socket.into())
}

struct IwarpListener {
    way: Way,
    listener: TcpListener,
    local: SocketAddr,
    /// Peers of which the request is not complete.
    setups: FuturesUnordered<BoxFuture<'static, Result<IwarpIncoming, ConnectError>>>,
}

impl IwarpListener {
    /// With a socket that listens.
    fn adopt(way: Way, socket: std::net::TcpListener) -> io::Result<Self> {
        socket.set_nonblocking(true)?;
        let listener = TcpListener::from_std(socket)?;
        let local = listener.local_addr()?;
        Ok(Self {
            way,
            listener,
            local,
            setups: FuturesUnordered::new(),
        })
    }

    async fn next(&mut self) -> io::Result<IwarpIncoming> {
        loop {
            tokio::select! {
                accepted = self.listener.accept(), if self.setups.len() < SETUPS_MAX => {
                    match accepted {
                        Ok((stream, peer)) => {
                            let way = self.way;
                            self.setups.push(Box::pin(in_time(greet(way, stream, peer))));
                        }
                        // The peer gave up while it waited.
                        Err(e) if e.kind() == io::ErrorKind::ConnectionAborted => {}
                        Err(e) => return Err(e),
                    }
                }
                Some(greeted) = self.setups.next() => match greeted {
                    Ok(incoming) => return Ok(incoming),
                    Err(e) => tracing::debug!("a connection came to nothing: {e}"),
                },
            }
        }
    }
}

impl Listener for IwarpListener {
    fn local(&self) -> SocketAddr {
        self.local
    }

    fn accept(&mut self) -> BoxFuture<'_, io::Result<Box<dyn Incoming>>> {
        Box::pin(async {
            let incoming: Box<dyn Incoming> = Box::new(self.next().await?);
            Ok(incoming)
        })
    }
}

async fn greet(
    way: Way,
    mut stream: TcpStream,
    peer: SocketAddr,
) -> Result<IwarpIncoming, ConnectError> {
    tune(&stream)?;
    let mut request = read_setup(&mut stream, false).await?;
    if request.markers {
        // Nothing that the upper layer could say would help.
        write_setup(&mut stream, &mpa::rejection(&request, &[])).await?;
        see_out(stream, Vec::new());
        return Err(ConnectError::Protocol("the peer wants markers"));
    }
    let private_data = std::mem::take(&mut request.private_data).into();
    Ok(IwarpIncoming {
        way,
        stream: Some(stream),
        peer,
        request,
        private_data,
    })
}

struct IwarpIncoming {
    way: Way,
    /// `None` once the peer has its answer.
    stream: Option<TcpStream>,
    peer: SocketAddr,
    /// Without its private data.
    request: Setup,
    private_data: Bytes,
}

impl IwarpIncoming {
    async fn answer(
        mut self,
        config: EndpointConfig,
        private_data: Bytes,
        receives: Receives,
    ) -> Result<Connected, ConnectError> {
        let config = limited(config);
        if private_data.len() > PRIVATE_DATA_MAX {
            return Err(ConnectError::TooMuch);
        }
        let (reply, agreed) = mpa::respond(&self.request, wish(&config), &private_data)
            .map_err(ConnectError::Protocol)?;
        let mut stream = self.stream.take().expect("it was not answered before");
        let machine = self.way.machine(&stream, config, agreed, false)?;
        write_setup(&mut stream, &reply).await?;
        let private_data = std::mem::take(&mut self.private_data);
        connected(stream, self.peer, machine, receives, private_data)
    }
}

impl Drop for IwarpIncoming {
    /// A peer that heard nothing would take us for one that knows only revision 1, and come back at once.
    fn drop(&mut self) {
        let rejection = mpa::rejection(&self.request, &[]).encode();
        if let (Some(stream), Some(frame)) = (self.stream.take(), rejection) {
            // Nothing was sent before, so there is room, unless the peer has left.
            let _ = stream.try_write(&frame);
        }
    }
}

impl Incoming for IwarpIncoming {
    fn peer(&self) -> SocketAddr {
        self.peer
    }

    fn private_data(&self) -> &Bytes {
        &self.private_data
    }

    fn accept(
        self: Box<Self>,
        config: EndpointConfig,
        private_data: Bytes,
        receives: Vec<Receive>,
    ) -> BoxFuture<'static, Result<Connected, ConnectError>> {
        let receives = Receives::Own(receives);
        Box::pin(in_time(self.answer(config, private_data, receives)))
    }

    fn accept_sharing(
        self: Box<Self>,
        config: EndpointConfig,
        private_data: Bytes,
        claim: Claim,
    ) -> BoxFuture<'static, Result<Connected, ConnectError>> {
        let receives = Receives::Shared(claim);
        Box::pin(in_time(self.answer(config, private_data, receives)))
    }

    fn reject(mut self: Box<Self>, private_data: Bytes) -> BoxFuture<'static, io::Result<()>> {
        Box::pin(async move {
            let rejection = mpa::rejection(&self.request, &private_data);
            let mut stream = self.stream.take().expect("it was not answered before");
            let written = in_time(write_setup(&mut stream, &rejection)).await;
            see_out(stream, Vec::new());
            written.map_err(|e| match e {
                ConnectError::Io(e) => e,
                e => io::Error::new(io::ErrorKind::InvalidInput, e),
            })
        })
    }
}
