//! The cheapest NFS client: one blocking socket, one session with one slot, buffers that are used again.
//!
//! It is the counterpart of the clients of the bare servers, which are blocking threads too. It neither reconnects
//! nor retries: an error ends the run. Connections are made one after another, as sessions of one client must be.

use crate::BenchError;
use crate::bare::{PAYLOAD_BYTES_MAX, connect};
use crate::nfs::client::{MINOR_VERSION, Owner};
use nfs4::ops::{
    CREATE_SESSION_PERSIST, CallbackSecParms, ChannelAttrs, CreateSessionArgs, CreateSessionRes,
    ExchangeIdArgs, ExchangeIdRes, SequenceArgs, SequenceRes, StateProtectArgs,
};
use nfs4::{ClientOwner, CompoundBuilder, CompoundReply, SessionId};
use rpc::{CallStart, OpaqueAuth, ReplyHeader, ReplyVerdict};
use std::io::{ErrorKind, IoSlice, Read, Write};
use std::net::{SocketAddr, TcpStream};
use xdr::{Decode, Decoder, Encoder, List, Opaque};

/// Bytes of a record mark (RFC 5531 §11).
const MARK_BYTES: usize = 4;
/// The bit of a record mark that says that its fragment is the last.
const LAST_FRAGMENT: u32 = 1 << 31;
/// What a message may have beside its payload.
const HEAD_BYTES_MAX: u32 = 64 * 1024;
/// Asked for in CREATE_SESSION: the largest message of each direction.
const MESSAGE_BYTES: u32 = 1024 * 1024 + 4096;

/// A session over one connection.
#[derive(Debug)]
pub struct WireSession {
    stream: TcpStream,
    credential: Vec<u8>,
    session_id: SessionId,
    sequence_id: u32,
    xid: u32,
    request: Vec<u8>,
    reply: Vec<u8>,
    reply_bytes: usize,
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
            stream,
            credential: owner.identity().to_body(),
            session_id: SessionId::default(),
            sequence_id: 0,
            xid: 0,
            request: Vec::new(),
            reply: vec![0; MARK_BYTES + reply_bytes_max as usize],
            reply_bytes: 0,
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
        (self.request.len(), self.reply_bytes)
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
        self.xid = self.xid.wrapping_add(1);
        self.request.clear();
        let mut e = Encoder::with_buffer(std::mem::take(&mut self.request));
        let mark = e.reserve_u32();
        let start = CallStart {
            xid: self.xid,
            program: nfs4::PROGRAM,
            version: nfs4::VERSION,
            procedure: 1,
            credential: OpaqueAuth {
                flavor: rpc::flavor::AUTH_SYS,
                body: &self.credential,
            },
            verifier: OpaqueAuth::NONE,
        };
        xdr::Encode::encode(&start, &mut e);
        let mut b = CompoundBuilder::new(e, b"", MINOR_VERSION);
        build(&mut b);
        let mut e = b.finish();
        let len = e.wire_len() - MARK_BYTES;
        if e.wire_len() != e.len() + payload.len() {
            return Err(malformed(
                "a payload of another length, or one that needs padding",
            ));
        }
        let len = u32::try_from(len).expect("a request is at most a payload and its head");
        e.patch_u32(mark, len | LAST_FRAGMENT);
        self.request = e.into_parts().0;
        self.send(payload)
            .map_err(BenchError::io("send a request"))?;
        self.receive()?;
        self.accepted()
    }

    /// The request and then the payload, in one piece where the socket takes it.
    fn send(&mut self, payload: &[u8]) -> std::io::Result<()> {
        if payload.is_empty() {
            return self.stream.write_all(&self.request);
        }
        let both = [IoSlice::new(&self.request), IoSlice::new(payload)];
        let sent = self.stream.write_vectored(&both)?;
        if let Some(left) = self.request.get(sent..) {
            self.stream.write_all(left)?;
        }
        self.stream
            .write_all(&payload[sent.saturating_sub(self.request.len())..])
    }

    fn receive(&mut self) -> Result<(), BenchError> {
        let mut have = 0;
        have = self.fill(have, MARK_BYTES)?;
        let mark = self
            .reply
            .first_chunk()
            .copied()
            .map_or(0, u32::from_be_bytes);
        let end = MARK_BYTES + (mark & !LAST_FRAGMENT) as usize;
        if mark & LAST_FRAGMENT == 0 || end > self.reply.len() {
            return Err(malformed("a reply in fragments, or too long"));
        }
        have = self.fill(have, end)?;
        if have != end {
            return Err(malformed("bytes behind the only reply"));
        }
        self.reply_bytes = end;
        Ok(())
    }

    /// Reads until `want` bytes are there; there may be more.
    fn fill(&mut self, mut have: usize, want: usize) -> Result<usize, BenchError> {
        let doing = BenchError::io("read a reply");
        while have < want {
            // Nothing but this reply is on its way, so there is no harm in room for more.
            match self.stream.read(&mut self.reply[have..]) {
                Ok(0) => return Err(doing(ErrorKind::UnexpectedEof.into())),
                Ok(count) => have += count,
                Err(e) if e.kind() == ErrorKind::Interrupted => {}
                Err(e) => return Err(doing(e)),
            }
        }
        Ok(have)
    }

    fn accepted(&self) -> Result<CompoundReply<'_>, BenchError> {
        let mut d = Decoder::new(&self.reply[MARK_BYTES..self.reply_bytes]);
        let header = ReplyHeader::decode(&mut d).map_err(BenchError::nfs("read a reply"))?;
        if let ReplyVerdict::Error(verdict) = header.verdict {
            return Err(malformed(&format!("the call was refused: {verdict:?}")));
        }
        if header.xid != self.xid {
            return Err(malformed("the reply of another call"));
        }
        CompoundReply::new(d).map_err(BenchError::nfs("read a reply"))
    }
}

fn malformed(why: &str) -> BenchError {
    BenchError::nfs("read a reply")(why)
}
