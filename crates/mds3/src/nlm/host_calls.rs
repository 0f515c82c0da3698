//! Calls to programs of a host: its lock manager (GRANTED, and answers to messages) and its status monitor (NOTIFY).
//!
//! A call asks the host's rpcbind for the port first (RFC 1833 §2.2, or §3 of those that know no more), then goes over a
//! connection of its own. It goes to the address that the host called from, whatever else rpcbind says: nobody can have others
//! called.
//!
//! # Failure
//! A call that was sent and not answered is in doubt ([`HostCallError::Unanswered`]).

use super::host::HostName;
use bytes::Bytes;
use rpc::{AuthSys, CallStart, OpaqueAuth, ReplyHeader, ReplyVerdict};
use rpc::{Netid, UniversalAddress};
use std::io::ErrorKind;
use std::sync::Arc;
use std::time::Duration;
use transport::{Address, CallError, CloseReason, ConnectError, Connector, Message, NoService};
use xdr::{Decode, Decoder, Encode, Encoder, Opaque};

/// How long one call waits for its answer.
const CALL_WAIT: Duration = Duration::from_secs(10);
/// How long a connection may take.
const CONNECT_WAIT: Duration = Duration::from_secs(5);
const RPCBIND_PORT: u16 = 111;
const RPCBIND: u32 = 100_000;
/// RPCBPROC_GETADDR of version 4.
const GETADDR: (u32, u32) = (4, 3);
/// PMAPPROC_GETPORT of version 2.
const GETPORT: (u32, u32) = (2, 3);
const IPPROTO_TCP: u32 = 6;
/// Longest universal address.
const ADDRESS_BYTES_MAX: u32 = 256;

/// Why a call has no result.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum HostCallError {
    /// The host did not get it: it cannot be reached.
    NotSent,
    /// The host answers that it has no such program.
    NoProgram,
    /// It may have executed it.
    Unanswered,
    /// It refused it, or its answer makes no sense.
    Refused,
}

/// A procedure of a program.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Procedure {
    pub(crate) program: u32,
    pub(crate) version: u32,
    pub(crate) procedure: u32,
}

/// Calls hosts.
pub(crate) struct HostCalls {
    connector: Arc<dyn Connector>,
}

impl HostCalls {
    pub(crate) fn new(connector: Arc<dyn Connector>) -> Self {
        Self { connector }
    }

    /// Calls a procedure once. Returns its result.
    pub(crate) async fn call(
        &self,
        host: &HostName,
        procedure: Procedure,
        args: &[u8],
    ) -> Result<Bytes, HostCallError> {
        let port = self.port(host, procedure).await?;
        let address = host.address(port).ok_or(HostCallError::NotSent)?;
        self.call_at(&address, procedure, args).await
    }

    /// The port of a program at a host.
    async fn port(&self, host: &HostName, of: Procedure) -> Result<u16, HostCallError> {
        let rpcbind = host.address(RPCBIND_PORT).ok_or(HostCallError::NotSent)?;
        let ip = match &rpcbind {
            Address::Tcp(address) => address.ip(),
            // In memory a name is all there is.
            _ => return Ok(0),
        };
        let netid = Netid::tcp(&(ip, 0).into());
        let mut e = Encoder::new();
        e.u32(of.program);
        e.u32(of.version);
        for text in [netid.as_str(), "", ""] {
            Opaque::<ADDRESS_BYTES_MAX>(text.as_bytes()).encode(&mut e);
        }
        match self.call_at(&rpcbind, at(GETADDR), e.as_bytes()).await {
            Ok(found) => {
                let mut d = Decoder::new(&found);
                let text = Opaque::<ADDRESS_BYTES_MAX>::decode(&mut d);
                let text = text.map_err(|_| HostCallError::NotSent)?;
                if text.0.is_empty() {
                    return Err(HostCallError::NoProgram);
                }
                let told = UniversalAddress::parse(netid.as_str().as_bytes(), text.0);
                told.map_or(Err(HostCallError::NotSent), |told| {
                    known(told.address.port())
                })
            }
            Err(HostCallError::Refused) if ip.is_ipv4() => {
                let mut e = Encoder::new();
                for number in [of.program, of.version, IPPROTO_TCP, 0] {
                    e.u32(number);
                }
                let found = self.call_at(&rpcbind, at(GETPORT), e.as_bytes()).await;
                let found = found.map_err(|_| HostCallError::NotSent)?;
                let port = Decoder::new(&found).u32().ok();
                let port = port.and_then(|port| u16::try_from(port).ok());
                port.map_or(Err(HostCallError::NotSent), known)
            }
            Err(HostCallError::NoProgram) => Err(HostCallError::NoProgram),
            Err(_) => Err(HostCallError::NotSent),
        }
    }

    async fn call_at(
        &self,
        address: &Address,
        procedure: Procedure,
        args: &[u8],
    ) -> Result<Bytes, HostCallError> {
        let connect = self.connector.connect(address, NoService::shared());
        let connected = tokio::time::timeout(CONNECT_WAIT, connect).await;
        let conn = match connected {
            Ok(Ok(conn)) => conn,
            Ok(Err(ConnectError::Io(e))) if e.kind() == ErrorKind::ConnectionRefused => {
                return Err(HostCallError::NoProgram);
            }
            Ok(Err(_)) | Err(_) => return Err(HostCallError::NotSent),
        };
        let answer = conn.call(message(procedure, args), CALL_WAIT).await;
        conn.close(CloseReason::Asked);
        let record = answer.map_err(|error| match error {
            CallError::Refused => HostCallError::NotSent,
            CallError::Closed(_) | CallError::TimedOut => HostCallError::Unanswered,
        })?;
        let mut d = Decoder::new(&record);
        match ReplyHeader::decode(&mut d).map(|header| header.verdict) {
            Ok(ReplyVerdict::Success { .. }) => Ok(record.slice(d.position()..)),
            Ok(ReplyVerdict::Error(_)) | Err(_) => Err(HostCallError::Refused),
        }
    }
}

const fn at((version, procedure): (u32, u32)) -> Procedure {
    Procedure {
        program: RPCBIND,
        version,
        procedure,
    }
}

/// Port 0 stands for a program that is not there.
const fn known(port: u16) -> Result<u16, HostCallError> {
    match port {
        0 => Err(HostCallError::NoProgram),
        port => Ok(port),
    }
}

fn message(procedure: Procedure, args: &[u8]) -> Message {
    let root = AuthSys {
        stamp: 0,
        machine: b"ropewalk".to_vec(),
        uid: 0,
        gid: 0,
        gids: Vec::new(),
    };
    let mut e = Encoder::new();
    CallStart {
        xid: 0,
        program: procedure.program,
        version: procedure.version,
        procedure: procedure.procedure,
        credential: OpaqueAuth {
            flavor: rpc::flavor::AUTH_SYS,
            body: &root.to_body(),
        },
        verifier: OpaqueAuth::NONE,
    }
    .encode(&mut e);
    e.raw(args);
    e.into()
}
