//! The cheapest NFS client: one blocking socket, one session with one slot, buffers that are used again.
//!
//! It is the counterpart of the clients of the bare servers, which are blocking threads too. It neither reconnects
//! nor retries: an error ends the run. Connections are made one after another, as sessions of one client must be.

use crate::BenchError;
use crate::bare::{PAYLOAD_BYTES_MAX, connect};
use crate::nfs::client::{MINOR_VERSION, Owner};
use crate::nfs::rpc_socket::{Procedure, RpcSocket, malformed};
use nfs4::ops::{
    CREATE_SESSION_PERSIST, CallbackSecParms, ChannelAttrs, CreateSessionArgs, CreateSessionRes,
    ExchangeIdArgs, ExchangeIdRes, SequenceArgs, SequenceRes, StateProtectArgs,
};
use nfs4::{ClientOwner, CompoundBuilder, CompoundReply, SessionId};
use std::net::{SocketAddr, TcpStream};
use xdr::{List, Opaque};

/// What a message may have beside its payload.
pub(super) const HEAD_BYTES_MAX: u32 = 64 * 1024;
/// The procedure that all requests are.
const COMPOUND: Procedure = Procedure {
    program: nfs4::PROGRAM,
    version: nfs4::VERSION,
    number: 1,
};
/// Asked for in CREATE_SESSION: the largest message of each direction.
const MESSAGE_BYTES: u32 = 1024 * 1024 + 4096;

/// A session over one connection.
#[derive(Debug)]
pub struct WireSession {
    socket: RpcSocket,
    session_id: SessionId,
    sequence_id: u32,
}

impl WireSession {
    /// Connects and makes a session of `owner`: EXCHANGE_ID with `role_flag`, CREATE_SESSION.
    ///
    /// # Errors
    /// [`BenchError::Nfs`] when the server refuses, [`BenchError::Io`] when it does not answer.
    pub fn connect(address: SocketAddr, owner: &Owner, role_flag: u32) -> Result<Self, BenchError> {
        let reply_bytes_max = PAYLOAD_BYTES_MAX + HEAD_BYTES_MAX;
        Self::over(connect(address)?, owner, role_flag, reply_bytes_max)
    }

    /// The same over a connection that is there, for replies of at most so many bytes.
    ///
    /// # Errors
    /// As [`Self::connect`].
    pub fn over(
        stream: TcpStream,
        owner: &Owner,
        role_flag: u32,
        reply_bytes_max: u32,
    ) -> Result<Self, BenchError> {
        let mut session = Self {
            socket: RpcSocket::over(stream, owner.identity().to_body(), reply_bytes_max),
            session_id: SessionId::default(),
            sequence_id: 0,
        };
        let doing = "make a session";
        let known = session.bare(|b| {
            b.push(&ExchangeIdArgs {
                client_owner: ClientOwner {
                    verifier: owner.verifier,
                    ownerid: Opaque(&owner.id),
                },
                flags: role_flag,
                state_protect: StateProtectArgs::None,
                client_impl_id: None,
            });
        })?;
        let mut known = known;
        let known = known
            .take::<ExchangeIdRes<'_>>()
            .map_err(BenchError::nfs(doing))?;
        let (clientid, sequence) = (known.clientid, known.sequence);
        let attrs = ChannelAttrs {
            header_pad_bytes: 0,
            request_bytes_max: MESSAGE_BYTES,
            response_bytes_max: MESSAGE_BYTES,
            response_cached_bytes_max: 4096,
            operations_max: 16,
            requests_max: 1,
            rdma_ird: None,
        };
        let mut made = session.bare(|b| {
            b.push(&CreateSessionArgs {
                clientid,
                sequence,
                flags: CREATE_SESSION_PERSIST,
                fore_chan_attrs: attrs,
                back_chan_attrs: ChannelAttrs {
                    request_bytes_max: 4096,
                    response_bytes_max: 4096,
                    ..attrs
                },
                cb_program: 0x4000_0000,
                sec_parms: List(vec![CallbackSecParms::None]),
            });
        })?;
        let made = made
            .take::<CreateSessionRes>()
            .map_err(BenchError::nfs(doing))?;
        session.session_id = made.session_id;
        Ok(session)
    }

    /// Sends operations behind a SEQUENCE; the reply stands behind its result.
    ///
    /// # Errors
    /// [`BenchError`]; failures of the operations are in the reply.
    pub fn compound(
        &mut self,
        build: impl FnOnce(&mut CompoundBuilder),
    ) -> Result<CompoundReply<'_>, BenchError> {
        self.compound_with(build, &[])
    }

    /// The same with the payload of the last operation, which is not copied on its way to the socket.
    ///
    /// # Errors
    /// As [`Self::compound`]; also for a payload that is not the one announced, or no multiple of four bytes long.
    pub fn compound_with(
        &mut self,
        build: impl FnOnce(&mut CompoundBuilder),
        payload: &[u8],
    ) -> Result<CompoundReply<'_>, BenchError> {
        self.sequence_id = self.sequence_id.wrapping_add(1);
        let sequence = SequenceArgs {
            session_id: self.session_id,
            sequence_id: self.sequence_id,
            slot_id: 0,
            highest_slot_id: 0,
            cache_this: false,
        };
        let operations = |b: &mut CompoundBuilder| {
            b.push(&sequence);
            build(b);
        };
        let mut reply = self.exchange(operations, payload)?;
        let done = reply
            .take::<SequenceRes>()
            .map_err(BenchError::nfs("use a slot"))?;
        if done.sequence_id != sequence.sequence_id {
            return Err(malformed("the reply of another request"));
        }
        Ok(reply)
    }

    /// Bytes of the last request and its reply on the connection, record marks included.
    #[must_use]
    pub fn last_sizes(&self) -> (usize, usize) {
        self.socket.last_sizes()
    }

    fn bare(
        &mut self,
        build: impl FnOnce(&mut CompoundBuilder),
    ) -> Result<CompoundReply<'_>, BenchError> {
        self.exchange(build, &[])
    }

    fn exchange(
        &mut self,
        build: impl FnOnce(&mut CompoundBuilder),
        payload: &[u8],
    ) -> Result<CompoundReply<'_>, BenchError> {
        let encode = |e| {
            let mut b = CompoundBuilder::new(e, b"", MINOR_VERSION);
            build(&mut b);
            b.finish()
        };
        let d = self.socket.call(COMPOUND, encode, payload)?;
        CompoundReply::new(d).map_err(BenchError::nfs("read a reply"))
    }
}
