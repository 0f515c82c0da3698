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
use rpc::{AuthSys, CallStart, Netid, OpaqueAuth, ReplyHeader, ReplyVerdict, rpcbind};
use std::io::ErrorKind;
use std::sync::Arc;
use std::time::Duration;
use transport::{Address, CallError, CloseReason, ConnectError, Connector, Message, NoService};
use xdr::{Decode, Decoder, Encode, Encoder, Opaque};

/// How long one call waits for its answer.
const CALL_WAIT: Duration = Duration::from_secs(10);
/// How long a connection may take.
const CONNECT_WAIT: Duration = Duration::from_secs(5);

const GETADDR: Procedure = of_rpcbind(rpcbind::VERSION, rpcbind::GETADDR);
const GETPORT: Procedure = of_rpcbind(rpcbind::PORTMAP_VERSION, rpcbind::GETPORT);

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
        let mapper = host.address(rpcbind::PORT).ok_or(HostCallError::NotSent)?;
        let ip = match &mapper {
            Address::Tcp(address) => address.ip(),
            // In memory a name is all there is.
            _ => return Ok(0),
        };
        let netid = Netid::tcp(&(ip, 0).into());
        let question = rpcbind::Mapping {
            program: of.program,
            version: of.version,
            netid: Opaque(netid.as_str().as_bytes()),
            address: Opaque(b""),
            owner: Opaque(b""),
        };
        let question = xdr::encode_to_vec(&question);
        let port = match self.call_at(&mapper, GETADDR, &question).await {
            Ok(answer) => rpcbind::address(&answer, netid).map(|told| told.map(|at| at.port())),
            Err(HostCallError::Refused) if ip.is_ipv4() => {
                let question = rpcbind::PortMapping {
                    program: of.program,
                    version: of.version,
                    protocol: rpcbind::IPPROTO_TCP,
                    port: 0,
                };
                let question = xdr::encode_to_vec(&question);
                let answer = self.call_at(&mapper, GETPORT, &question).await;
                rpcbind::port(&answer.map_err(|_| HostCallError::NotSent)?)
            }
            Err(HostCallError::NoProgram) => return Err(HostCallError::NoProgram),
            Err(_) => return Err(HostCallError::NotSent),
        };
        let port = port.map_err(|_| HostCallError::NotSent)?;
        port.ok_or(HostCallError::NoProgram)
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

/// A procedure of rpcbind.
const fn of_rpcbind(version: u32, procedure: u32) -> Procedure {
    Procedure {
        program: rpcbind::PROGRAM,
        version,
        procedure,
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
