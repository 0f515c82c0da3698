//! The RPC layer alone: a program whose one procedure answers with as many bytes as it is asked for, over our own transport.
//!
//! What `session`, COMPOUND and a role add to a small request is the difference to it.

use crate::BenchError;
use crate::load::REQUEST_TIMEOUT;
use crate::nfs::providers::providers;
use crate::nfs::server::{Server, Transport};
use bytes::Bytes;
use rpc::{CallStart, OpaqueAuth, ReplyHeader, ReplyVerdict};
use std::io;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::sync::Arc;
use tokio::runtime::Runtime;
use transport::rdma::{self, Rdma};
use transport::workers::Shutdown;
use transport::{
    ConnHandle, Context, Message, NoService, ReplyRoom, Service, TransportLimits, tcp,
};
use xdr::{Decode, Decoder, Encode, Encoder};

/// A number of the range for temporary use (RFC 5531 §13): the program exists in benchmarks only.
const PROGRAM: u32 = 0x4000_0b0c;
const VERSION: u32 = 1;
/// The procedure: the argument is a length, the result is opaque data of that length.
const PROCEDURE: u32 = 1;
/// What a reply has around its result, generously.
const HEADER_BYTES_MAX: u32 = 128;
/// Longest result.
pub(crate) const BYTES_MAX: u32 = 1 << 20;

struct Echo {
    data: Bytes,
}

impl Echo {
    fn answer(&self, record: &[u8]) -> Option<Message> {
        let mut d = Decoder::new(record);
        let call = CallStart::decode(&mut d).ok()?;
        let len = d.u32().ok().filter(|len| *len <= BYTES_MAX)?;
        let mut e = Encoder::new();
        rpc::begin_success(&mut e, call.xid, OpaqueAuth::NONE);
        e.opaque(&self.data[..len as usize]);
        Some(e.into())
    }
}

impl Service for Echo {
    async fn call(&self, conn: &ConnHandle, record: Bytes) -> Option<Message> {
        let reply = self.answer(&record);
        if reply.is_none() {
            conn.close(transport::CloseReason::MalformedMessage);
        }
        reply
    }
}

/// The server, listening.
#[derive(Debug)]
pub struct EchoServer {
    runtime: Runtime,
    listening: Listening,
}

#[derive(Debug)]
enum Listening {
    Tcp(tcp::Listener),
    Rdma(Rdma, rdma::Listener),
}

impl EchoServer {
    /// Listens on a free port of the loopback interface, or for RDMA of a device.
    ///
    /// # Errors
    /// When it cannot.
    pub fn listen(transport: Transport, device: Option<IpAddr>) -> io::Result<Self> {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()?;
        let listening = match transport {
            Transport::Tcp => {
                let listener = tcp::bind((Ipv4Addr::LOCALHOST, 0).into(), 1)?.remove(0);
                Listening::Tcp(listener)
            }
            Transport::Rdma => {
                let at = device.unwrap_or(Ipv4Addr::LOCALHOST.into());
                let first = providers(at, true).into_iter().next();
                let rdma = first.expect("software iWARP is always there");
                let listener = runtime.block_on(rdma::listen((at, 0).into(), &rdma))?;
                Listening::Rdma(rdma, listener)
            }
        };
        Ok(Self { runtime, listening })
    }

    /// Where it listens.
    ///
    /// # Errors
    /// When the listener does not say.
    pub fn address(&self) -> io::Result<SocketAddr> {
        match &self.listening {
            Listening::Tcp(listener) => listener.local_addr(),
            Listening::Rdma(_, listener) => Ok(listener.local()),
        }
    }

    /// Serves for ever.
    ///
    /// # Errors
    /// When the listener fails.
    pub fn serve(self) -> io::Result<()> {
        let mut data = vec![0; BYTES_MAX as usize];
        crate::pattern::fill(0, &mut data);
        let echo = Arc::new(Echo { data: data.into() });
        let never = Shutdown::new();
        let context = Context::new(TransportLimits::default());
        match self.listening {
            Listening::Tcp(listener) => {
                let serving = tcp::serve(vec![listener], echo, context, never.signal());
                self.runtime.block_on(serving)
            }
            Listening::Rdma(software, listener) => {
                let serving = rdma::serve(vec![listener], software, echo, context, never.signal());
                self.runtime.block_on(serving);
                Ok(())
            }
        }
    }
}

/// A connection to the server.
#[derive(Debug)]
pub(crate) struct EchoClient {
    conn: ConnHandle,
}

impl EchoClient {
    /// Connects on the current runtime.
    pub(crate) async fn connect(server: &Server) -> Result<Self, BenchError> {
        let (connector, address) = (server.connector(), server.address());
        let conn = connector.connect(&address, NoService::shared()).await;
        let conn = conn.map_err(BenchError::nfs("connect to the server"))?;
        Ok(Self { conn })
    }

    /// One call; the bytes of its result are compared.
    pub(crate) async fn ask(&self, len: u32) -> Result<(), BenchError> {
        let mut e = Encoder::new();
        CallStart {
            xid: 0,
            program: PROGRAM,
            version: VERSION,
            procedure: PROCEDURE,
            credential: OpaqueAuth::NONE,
            verifier: OpaqueAuth::NONE,
        }
        .encode(&mut e);
        e.u32(len);
        let room = ReplyRoom::plain(HEADER_BYTES_MAX + len);
        let call = Message::from(e).with_reply_room(room);
        let called = self.conn.call(call, REQUEST_TIMEOUT).await;
        let record = called.map_err(BenchError::nfs("call"))?;
        let mut d = Decoder::new(&record);
        let malformed = BenchError::nfs("understand the reply");
        let header = ReplyHeader::decode(&mut d).map_err(&malformed)?;
        if !matches!(header.verdict, ReplyVerdict::Success { .. }) {
            return Err(BenchError::Refused);
        }
        let data = d.opaque(BYTES_MAX).map_err(malformed)?;
        if data.len() != len as usize {
            return Err(BenchError::WrongBytes {
                offset: data.len() as u64,
            });
        }
        crate::pattern::check(0, data)
    }
}

#[cfg(test)]
mod tests {
    //! The call and its refusals.
    use super::*;

    #[test]
    fn it_answers_with_the_bytes_asked_for() {
        for transport in Transport::ALL {
            let echo = EchoServer::listen(transport, None).unwrap();
            let server = Server {
                transport,
                address: echo.address().unwrap(),
                rdma_crc: true,
            };
            // It ends with the process.
            std::thread::spawn(move || echo.serve());
            crate::load::runtime().unwrap().block_on(async {
                let client = EchoClient::connect(&server).await.unwrap();
                for len in [0, 1, 3, 4096, BYTES_MAX] {
                    client.ask(len).await.unwrap();
                }
                assert!(client.ask(BYTES_MAX + 1).await.is_err());
            });
        }
    }
}
